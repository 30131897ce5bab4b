"""Images in an `.npz` file.

It has `images`: uint8, or floats in [0,1]; (n, c, h, w), (n, h, w, c) or, for grey, (n, h, w); and
`labels`: n integers. The channels are on the shorter of the axes 1 and 3.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..errors import FileError, InputError
from .pixels import integer_labels, unit_pixels
from .tables import in_a_line

ARRAYS = ("images", "labels")
EXPECTED = "an .npz file with the arrays images and labels"


def read_npz(file: Path, limit: int | None) -> tuple[Tensor, tuple[int, ...]]:
    """The first `limit` images, (n, c, h, w) in [0,1], and their labels."""
    arrays = _read_arrays(file)
    pixels = arrays["images"]
    try:
        if pixels.ndim not in (3, 4) or pixels.size == 0:
            raise InputError(
                f"images has shape {pixels.shape}",
                expected="at least one image, (n, c, h, w), (n, h, w, c) or (n, h, w)",
            )
        labels = integer_labels(arrays["labels"], len(pixels))
        images = unit_pixels(_channels_first(pixels)[:limit])
    except InputError as error:
        raise FileError(
            error.given, expected=error.expected, remedy=error.remedy, where=str(file)
        ) from None
    return images, labels[:limit]


def _read_arrays(file: Path) -> dict[str, NDArray[Any]]:
    try:
        with open(file, "rb") as raw:
            stored = np.load(raw, allow_pickle=False)
            names = list(getattr(stored, "files", ()))  # a single array has none
            if set(ARRAYS) <= set(names):
                arrays = {name: stored[name] for name in ARRAYS}
                if all(isinstance(array, np.ndarray) for array in arrays.values()):
                    return arrays
                raise ValueError("what it holds is not in the format of arrays, .npy")
    except Exception as error:  # broken, encrypted, too large: many kinds
        raise FileError(f"{file} cannot be read: {in_a_line(error)}", expected=EXPECTED) from None
    missing = " or ".join(repr(name) for name in ARRAYS if name not in names)
    present = ", ".join(map(repr, names)) or "none by name"
    raise FileError(f"{file} has no array {missing}: it has {present}", expected=EXPECTED)


def _channels_first(pixels: NDArray[Any]) -> NDArray[Any]:
    if pixels.ndim == 3:
        return pixels[:, None]
    if pixels.shape[1] == pixels.shape[3] and pixels[0].size > 1:
        raise InputError(
            f"images has shape {pixels.shape}: the axes 1 and 3 are of one length, so that it is "
            "not clear which has the channels",
            expected="(n, c, h, w) or (n, h, w, c) with the shorter c",
        )
    return pixels if pixels.shape[1] <= pixels.shape[3] else pixels.transpose(0, 3, 1, 2)
