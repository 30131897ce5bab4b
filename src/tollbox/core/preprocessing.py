"""The steps from an image file to a model's input, as the model's configuration specifies them.

The code that reads a file resizes the image and crops its centre. The model computes
(image - mean) / std on values in [0,1]. This module does not import torch.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Preprocessing:
    """The steps of preprocessing; None for a step that is not known."""

    resize: int | tuple[int, int] | None = None
    """Length of the shorter side after resizing; or (height, width), whatever the file's shape."""
    crop: tuple[int, int] | None = None
    """(height, width) of the centre crop, after resizing."""
    interpolation: str = "bilinear"
    """Resizing method: nearest, bilinear, bicubic, lanczos, box or hamming."""
    mean: tuple[float, ...] | None = None
    """Mean of each channel, for values in [0,1]."""
    std: tuple[float, ...] | None = None
    size: tuple[int, int] | None = None
    """(height, width) of the model's inputs; by default `crop`, or `resize` if that is a pair."""

    def __post_init__(self) -> None:
        if self.size is None:
            whole = self.resize if isinstance(self.resize, tuple) else None
            object.__setattr__(self, "size", self.crop or whole)
