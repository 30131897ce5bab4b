"""Pixels and labels as users give them, checked once for all kinds of files and functions.

1. Pixels are uint8, which are divided by 255, or floats in [0,1]; they become float32.
2. Labels are one integer per image, of at most 64 bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core.pixels import check_range
from ..errors import InputError
from .tables import LARGEST


def unit_pixels(pixels: Tensor | NDArray[Any]) -> Tensor:
    """Pixels (n, c, h, w) as float32 in [0,1]."""
    if pixels.dtype not in (np.uint8, torch.uint8) and not _has_floats(pixels):
        kind = str(pixels.dtype).removeprefix("torch.")
        raise InputError(f"images is of type {kind}", expected="uint8 or floats")
    if isinstance(pixels, np.ndarray):
        pixels = torch.from_numpy(_native(pixels))
    if pixels.dtype == torch.uint8:
        return pixels.float().div_(255)
    for index, image in enumerate(pixels):
        check_range(image, f"image {index}")
    return pixels.float().contiguous()


def integer_labels(labels: NDArray[Any], count: int) -> tuple[int, ...]:
    """The labels of `count` images."""
    if labels.shape != (count,):
        raise InputError(
            f"labels has shape {labels.shape} for {count} images",
            expected=f"({count},), one label per image",
        )
    if not np.issubdtype(labels.dtype, np.integer):
        raise InputError(f"labels is of type {labels.dtype}", expected="integers")
    if labels.dtype == np.uint64 and (labels > LARGEST).any():
        raise InputError(f"labels has {labels.max()}", expected=f"integers up to {LARGEST}")
    return tuple(labels.tolist())


def _has_floats(pixels: Tensor | NDArray[Any]) -> bool:
    if isinstance(pixels, Tensor):
        return pixels.is_floating_point()
    return np.issubdtype(pixels.dtype, np.floating)


def _native(pixels: NDArray[Any]) -> NDArray[Any]:
    """The same values in a type that torch has: not of another byte order, nor longer than 64."""
    if pixels.dtype == np.uint8:
        return np.ascontiguousarray(pixels)
    kind = np.float64 if pixels.dtype.itemsize > 4 else np.float32
    return np.ascontiguousarray(pixels, dtype=kind)
