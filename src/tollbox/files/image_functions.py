"""Images from a function: `module:function` where a study names a folder or an `.npz`.

1. The function takes no arguments. It gives an `ImageSet`, or (images, labels), or (images, labels,
   names); arrays or tensors.
2. Images are (n, c, h, w): uint8, which is divided by 255, or floats in [0,1]. Labels are n
   integers, names n texts; without names the images go by their numbers.
3. What is wrong is told as of a file: what was given, what was expected.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from .functions import called, imported
from .images import ImageSet
from .tables import LARGEST

EXPECTED = (
    "expected images (n, c, h, w) with labels, as (images, labels) or (images, labels, names)"
)


def images_from(given: str, told: str) -> ImageSet:
    """The images that the function `given` gives; `told` begins a message."""
    function = imported(given, "images")
    if isinstance(function, type) or not callable(function):
        what = "a class" if isinstance(function, type) else type(function).__name__
        raise InputError(f"{told}, which is {what}: expected a function without arguments.")
    answer = called(function, given, "images")
    if isinstance(answer, ImageSet):
        answer = (answer.images, answer.labels, answer.names)
    if not isinstance(answer, tuple | list) or len(answer) not in (2, 3):
        raise InputError(f"{told}, which gave {type(answer).__name__}: {EXPECTED}.")
    images = _images(answer[0], told)
    labels = _labels(answer[1], len(images), told)
    names = _names(answer[2], len(images), told) if len(answer) == 3 else None
    if names is None:
        names = tuple(str(number) for number in range(len(images)))
    return ImageSet(images, labels, names, (given,) * len(images))


def _images(given: Any, told: str) -> Tensor:
    try:
        pixels = torch.as_tensor(given).detach().cpu()
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"{told}, whose images are {type(given).__name__}: {EXPECTED}.") from None
    if pixels.ndim != 4 or pixels.numel() == 0:
        raise InputError(f"{told}, whose images have shape {tuple(pixels.shape)}: {EXPECTED}.")
    if pixels.dtype == torch.uint8:
        return pixels.float().div_(255)
    if not pixels.is_floating_point():
        kind = str(pixels.dtype).removeprefix("torch.")
        raise InputError(f"{told}, whose images are of type {kind}: expected uint8 or floats.")
    pixels = pixels.float().contiguous()
    for index, image in enumerate(pixels):
        low, high = float(image.min()), float(image.max())
        if not (low >= 0 and high <= 1):  # NaN, too
            hint = " Divide by 255?" if high > 1.5 else ""
            raise InputError(
                f"{told}, whose image {index} has values from {low:g} to {high:g}: expected "
                f"[0,1].{hint}"
            )
    return pixels


def _labels(given: Any, count: int, told: str) -> tuple[int, ...]:
    labels = np.asarray(given.cpu() if isinstance(given, Tensor) else given)
    if labels.shape != (count,) or not np.issubdtype(labels.dtype, np.integer):
        raise InputError(
            f"{told}, whose labels are of type {labels.dtype} and shape {labels.shape}: expected "
            f"{count} integers, one per image."
        )
    if labels.dtype == np.uint64 and (labels > LARGEST).any():
        raise InputError(f"{told}, whose labels have {labels.max()}: expected 64 bits.")
    return tuple(int(label) for label in labels)


def _names(given: Any, count: int, told: str) -> tuple[str, ...]:
    if (
        not isinstance(given, Sequence)
        or isinstance(given, str)
        or len(given) != count
        or not all(isinstance(name, str) for name in given)
    ):
        raise InputError(f"{told}, whose names are not {count} texts: expected one per image.")
    return tuple(given)
