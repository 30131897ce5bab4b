"""How pictures become images for a model, as the model's own configuration says.

A picture is resized, its centre is cut out, and values in [0,1] go in as (image - mean) / std. The
model does the last itself; the first two are for whoever reads pictures.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Preprocessing:
    """What is not known is None."""

    size: tuple[int, int] | None = None
    """(height, width) of the images that the model is made for."""
    resize: int | tuple[int, int] | None = None
    """The length that the shorter side gets; or (height, width), whatever the picture's shape."""
    crop: tuple[int, int] | None = None
    """(height, width) that is cut out of the middle, after resizing."""
    interpolation: str = "bilinear"
    """How it is resized: nearest, bilinear, bicubic, lanczos, box or hamming."""
    mean: tuple[float, ...] | None = None
    """Of each channel, of values in [0,1]."""
    std: tuple[float, ...] | None = None

    @classmethod
    def of(
        cls,
        resize: int | tuple[int, int] | None = None,
        crop: tuple[int, int] | None = None,
        **others: object,
    ) -> Preprocessing:
        """With the size that follows from resizing and cropping."""
        whole = resize if isinstance(resize, tuple) else None
        return cls(crop or whole, resize, crop, **others)  # type: ignore[arg-type]
