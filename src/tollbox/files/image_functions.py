"""Images from a function: `module:function` where a study names a folder or an `.npz`.

1. The function takes no arguments. It gives an `ImageSet`, or (images, labels), or (images, labels,
   names); arrays or tensors.
2. Images are (n, c, h, w): uint8, which is divided by 255, or floats in [0,1]. Labels are n
   integers, names n texts; without names the images go by their numbers.
3. Or it gives a data set: any sequence of (image, label), such as torchvision and Hugging Face have
   (`data_sets`).
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError, mention
from .data_sets import data_set_images, is_data_set
from .functions import called, imported
from .images import ImageSet, check_pictures
from .naming import relabelled
from .pixels import integer_labels, unit_pixels
from .preparation import Configured, Preparation
from .resizing import Resizing

EXPECTED = (
    "images (n, c, h, w) with labels, as (images, labels) or (images, labels, names), or a "
    "sequence of (image, label)"
)


def images_from(
    function: str,
    limit: int | None = None,
    *,
    resizing: Resizing | None = None,
    names: str | PathLike[str] | Sequence[str] | None = None,
    model: Configured | None = None,
) -> ImageSet:
    """The images that `function`, of the form module:function, gives; of a data set the first
    `limit`. The others are as for `load_images`."""
    prepared = Preparation.of(resizing, names, model)
    value = imported(function, "images")
    if isinstance(value, type) or not callable(value):
        what = "a class" if isinstance(value, type) else type(value).__name__
        raise InputError(
            f"is {function!r}, which is {what}",
            expected="a function without arguments",
            input="images",
        )
    answer = called(value, function, "images")
    try:
        if called(lambda: is_data_set(answer), function, "images"):
            return data_set_images(answer, function, limit, prepared)
        check_pictures(resizing, "the function gives arrays")
        images, labels, own_names = _parts(answer)
        ready = isinstance(answer, ImageSet)
        own_classes, sizes = (answer.class_names, answer.resizing) if ready else ((), None)
        labels = relabelled(labels, own_classes, prepared.names, prepared.own_names)
    except InputError as error:
        if error.input == "images":  # from the user's own code, of which it speaks already
            raise
        raise InputError(
            f"is {function!r}: {mention(error.input) + ' ' if error.input else ''}{error.given}",
            expected=error.expected,
            remedy=error.remedy,
            input="images",
        ) from None
    classes = prepared.names or own_classes
    return ImageSet(images, labels, own_names, (function,) * len(images), classes, sizes)


def _parts(answer: Any) -> tuple[Tensor, tuple[int, ...], tuple[str, ...]]:
    """Images, labels and names, checked."""
    if isinstance(answer, ImageSet):
        answer = (answer.images, answer.labels, answer.names)
    if not isinstance(answer, tuple | list) or len(answer) not in (2, 3):
        raise InputError(f"it gave {type(answer).__name__}", expected=EXPECTED)
    images = _images(answer[0])
    labels = answer[1].cpu() if isinstance(answer[1], Tensor) else answer[1]
    names = answer[2] if len(answer) == 3 else [str(number) for number in range(len(images))]
    return images, integer_labels(np.asarray(labels), len(images)), _names(names, len(images))


def _images(value: Any) -> Tensor:
    if not isinstance(value, np.ndarray):
        try:
            value = torch.as_tensor(value).detach().cpu()
        except (TypeError, ValueError, RuntimeError):
            raise InputError(f"images is {type(value).__name__}", expected=EXPECTED) from None
    if value.ndim != 4 or 0 in value.shape:
        raise InputError(f"images has shape {tuple(value.shape)}", expected=EXPECTED)
    return unit_pixels(value)


def _names(names: Any, count: int) -> tuple[str, ...]:
    if (
        not isinstance(names, Sequence)
        or isinstance(names, str)
        or len(names) != count
        or not all(isinstance(name, str) for name in names)
    ):
        raise InputError(f"names is not {count} texts", expected="one per image")
    return tuple(names)
