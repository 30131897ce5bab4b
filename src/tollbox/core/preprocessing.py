"""How image files become inputs of a model, according to the model's configuration.

A file is resized and its centre is cropped, by whoever reads image files. The model computes
(image - mean) / std on values in [0,1]. This module does not import torch.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Preprocessing:
    """Steps of the preprocessing; None where a step is not known."""

    resize: int | tuple[int, int] | None = None
    """Length of the shorter side after resizing; or (height, width), whatever the file's shape."""
    crop: tuple[int, int] | None = None
    """(height, width) of the centre crop, after resizing."""
    interpolation: str = "bilinear"
    """Method of resizing: nearest, bilinear, bicubic, lanczos, box or hamming."""
    mean: tuple[float, ...] | None = None
    """Mean of each channel, of values in [0,1]."""
    std: tuple[float, ...] | None = None
    size: tuple[int, int] | None = None
    """(height, width) of the model's inputs; by default what resizing and cropping give."""

    def __post_init__(self) -> None:
        if self.size is None:
            whole = self.resize if isinstance(self.resize, tuple) else None
            object.__setattr__(self, "size", self.crop or whole)
