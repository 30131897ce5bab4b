"""What `preprocessor_config.json` of a Hugging Face model says, as a `Preprocessing`.

It is read as data, without the class that it names, which may need packages of its own.

1. `size` is {height, width}; or {shortest_edge}, which is the shorter side; or, in older files, a
   number, which is either by the kind of processor. With `crop_pct` the shorter side is resized to
   so much more, and its middle is cut out, unless it is 384 or longer.
2. Values are multiplied by `rescale_factor` (and 1 is subtracted where `rescale_offset` is set)
   before mean and std. Here images are in [0,1], so both go into mean and std.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.preprocessing import Preprocessing

Settings = Mapping[str, Any]
INTERPOLATIONS = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")
"""By the number that Pillow has for each."""
SQUARE = ("ViT", "DeiT", "Beit")
"""Kinds of processor for which a single number is height and width."""
LARGE = 384
"""A side from which on `crop_pct` is not applied."""


def preprocessing_of(settings: Settings) -> Preprocessing:
    """The same in our words."""
    resize = _resize(settings) if settings.get("do_resize", True) else None
    crop = _sides(settings.get("crop_size")) if settings.get("do_center_crop") else None
    share = settings.get("crop_pct")
    if share and isinstance(resize, int):
        side = resize
        resize, crop = ((side, side), None) if side >= LARGE else (int(side / share), (side, side))
    mean, std = _normalisation(settings)
    number = settings.get("resample")
    known = isinstance(number, int) and 0 <= number < len(INTERPOLATIONS)
    return Preprocessing.of(
        resize,
        crop,
        interpolation=INTERPOLATIONS[int(number or 0)] if known else "bilinear",
        mean=mean,
        std=std,
    )


def swaps_colours(settings: Settings) -> bool:
    """Whether the network takes blue, green, red."""
    return bool(settings.get("do_flip_channel_order"))


def _resize(settings: Settings) -> int | tuple[int, int] | None:
    """The shorter side, or both."""
    size = settings.get("size")
    if isinstance(size, Mapping) and isinstance(size.get("shortest_edge"), int):
        return int(size["shortest_edge"])
    kind = settings.get("image_processor_type") or settings.get("feature_extractor_type") or ""
    if isinstance(size, int) and not str(kind).startswith(SQUARE):
        return size
    return _sides(size)


def _sides(size: Any) -> tuple[int, int] | None:
    """(height, width)."""
    if isinstance(size, int):
        return (size, size)
    if isinstance(size, Mapping) and {"height", "width"} <= set(size):
        return (int(size["height"]), int(size["width"]))
    if isinstance(size, list | tuple) and len(size) == 2:
        return (int(size[0]), int(size[1]))
    return None


def _normalisation(
    settings: Settings,
) -> tuple[tuple[float, ...] | None, tuple[float, ...] | None]:
    """Mean and std for values in [0,1]; None if the file does not have them."""
    scale = (
        255 * settings.get("rescale_factor", 1 / 255) if settings.get("do_rescale", True) else 255
    )
    if abs(scale - 1) < 1e-6:  # 1/255, as it was written
        scale = 1
    offset = 1.0 if settings.get("rescale_offset") else 0.0
    mean, std = settings.get("image_mean"), settings.get("image_std")
    if not settings.get("do_normalize", True):
        mean, std = [0.0], [1.0]
    if not isinstance(mean, list) or not isinstance(std, list):
        return None, None
    return (
        tuple((float(value) + offset) / scale for value in mean),
        tuple(float(value) / scale for value in std),
    )
