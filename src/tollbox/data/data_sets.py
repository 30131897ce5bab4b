"""A data set: any sequence of (image, label), such as torchvision and Hugging Face have.

1. An item is a pair (image, label), or a mapping with the keys `image` (or `img`) and `label` (or
   `labels`). Only the first `limit` items are looked at.
2. An image is a picture of Pillow's, or an array (h, w) or (h, w, 3) of uint8, which is taken for
   one: it is resized and cropped if that is told. Or it is a tensor (c, h, w) in [0,1], or of
   uint8, which has the model's size already. All are pictures, or all are tensors.
3. Pictures have one channel if all are grey, else three.
4. The set may have names of its classes: torchvision's `classes`, or the features of a Hugging Face
   set. If those of the model are known, labels go by name (`classes`).

Images from a function: `module:function` where a study names a folder or an `.npz`.

1. The function takes no arguments. It gives an `ImageSet`, or (images, labels), or (images, labels,
   names); arrays or tensors.
2. Images are (n, c, h, w): uint8, which is divided by 255, or floats in [0,1]. Labels are n
   integers, names n texts; without names the images go by their numbers.
3. Or it gives a data set: any sequence of (image, label), such as torchvision and Hugging Face have
   (`data_sets`).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core.validation import is_whole, shown
from ..errors import InputError, mention
from .classes import relabelled
from .image_files import (
    GREY,
    READING,
    check_alike,
    integer_labels,
    pixels_of,
    readable,
    unit_pixels,
)
from .images import ImageSet, check_pictures
from .resizing import Configured, Preparation, Resizing
from .tables import LARGEST
from .user_code import called, imported, optional

IMAGE_KEYS = ("image", "img")
LABEL_KEYS = ("label", "labels")
ITEM = "(image, label), or a mapping with image and label"
IMAGE = "a picture of Pillow's, or a tensor (c, h, w)"


def is_data_set(value: Any) -> bool:
    """Whether it is a sequence whose first item is an image with its label."""
    if isinstance(value, str | bytes | Tensor | np.ndarray | Mapping | ImageSet):
        return False
    if not (hasattr(value, "__len__") and hasattr(value, "__getitem__")) or len(value) == 0:
        return False
    first = value[0]
    if isinstance(first, Mapping):
        return any(key in first for key in IMAGE_KEYS)
    pair = isinstance(first, tuple | list) and len(first) == 2
    return pair and _is_image(first[0]) and not _is_image(first[1])


def data_set_images(data: Any, origin: str, limit: int | None, prepared: Preparation) -> ImageSet:
    """The first `limit` images of a data set, which `origin` gave."""
    count = len(data) if limit is None else min(limit, len(data))
    images: list[Tensor | NDArray[np.uint8]] = []
    labels: list[int] = []
    for number in range(count):
        item = called(functools.partial(data.__getitem__, number), origin, "images")
        image, label = _item(item, number)
        images.append(_pixels(image, number, prepared))
        labels.append(label)
    tensors = any(isinstance(image, Tensor) for image in images)
    own = _class_names(data)
    return ImageSet(
        _tensors(images) if tensors else _pictures(images),
        relabelled(tuple(labels), own, prepared.names, prepared.own_names),
        tuple(str(number) for number in range(count)),
        (origin,) * count,
        prepared.names or own,
        None if tensors else prepared.resizing,
    )


def _item(item: Any, number: int) -> tuple[Any, int]:
    """The image and the label of an item."""
    if isinstance(item, Mapping):
        item = [_value(item, keys, number) for keys in (IMAGE_KEYS, LABEL_KEYS)]
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise InputError(f"item {number} is {type(item).__name__}", expected=ITEM)
    image, label = item
    if not (_is_picture(image) or isinstance(image, Tensor)):
        image = _from_array(image, number)
    if isinstance(label, Tensor | np.ndarray) and label.ndim == 0:
        label = label.item()
    if not is_whole(label) or abs(label) > LARGEST:
        raise InputError(f"the label of item {number} is {shown(label)}", expected="an integer")
    return image, int(label)


def _value(item: Mapping[str, Any], keys: Sequence[str], number: int) -> Any:
    """What a mapping has under the first of these keys that it has."""
    for key in keys:
        if key in item:
            return item[key]
    raise InputError(f"item {number} has no {keys[0]}", expected=ITEM)


def _is_picture(value: Any) -> bool:
    """Whether it is Pillow's; whoever has one has Pillow."""
    return any(
        each.__module__ == "PIL.Image" and each.__name__ == "Image" for each in type(value).__mro__
    )


def _is_image(value: Any) -> bool:
    """Whether it is a picture, or has the axes of one."""
    return _is_picture(value) or (isinstance(value, Tensor | np.ndarray) and value.ndim > 1)


def _from_array(image: Any, number: int) -> Any:
    """A picture of an array (h, w) or (h, w, 3) of uint8."""
    good = (
        isinstance(image, np.ndarray)
        and image.dtype == np.uint8
        and (image.ndim == 2 or (image.ndim == 3 and image.shape[2] == 3))
        and image.size > 0
    )
    if not good:
        what = type(image).__name__
        if isinstance(image, np.ndarray):
            what = f"an array of {image.dtype} of shape {image.shape}"
        raise InputError(
            f"the image of item {number} is {what}",
            expected=f"{IMAGE}, or an array (h, w) or (h, w, 3) of uint8",
        )
    return optional("PIL.Image", READING, extra="cli").fromarray(image)


def _pixels(image: Any, number: int, prepared: Preparation) -> Tensor | NDArray[np.uint8]:
    """A tensor as it is; of a picture the pixels (c, h, w), resized: it need not be kept."""
    if isinstance(image, Tensor):
        check_pictures(prepared.given_resizing, "the data set has tensors")
        return image
    with readable(f"{number}"):
        return pixels_of(image, f"{number}", prepared.resizing, image.mode in GREY)


def _pictures(arrays: Sequence[Any]) -> Tensor:
    """(n, c, h, w) in [0,1]; with one channel if all are grey."""
    for number, array in enumerate(arrays):
        check_alike(array.shape[1:], arrays[0].shape[1:], f"{number}", "0")
    channels = max(len(array) for array in arrays)
    shape = (channels, *arrays[0].shape[1:])
    return unit_pixels(np.stack([np.broadcast_to(array, shape) for array in arrays]))


def _tensors(images: Sequence[Any]) -> Tensor:
    """(n, c, h, w) in [0,1]."""
    for number, image in enumerate(images):
        if not isinstance(image, Tensor) or image.ndim != 3 or image.numel() == 0:
            what = f"of shape {tuple(image.shape)}" if isinstance(image, Tensor) else "no tensor"
            raise InputError(
                f"the image of item {number} is {what}", expected="tensors (c, h, w) for all"
            )
        if image.shape[0] != images[0].shape[0] or image.dtype != images[0].dtype:
            raise InputError(
                f"the image of item {number} has {image.shape[0]} channels of {image.dtype}, and "
                f"the first has {images[0].shape[0]} of {images[0].dtype}",
                expected="the same for all",
            )
        check_alike(image.shape, images[0].shape, f"{number}", "0")
    return unit_pixels(torch.stack([image.detach().cpu() for image in images]))


def _class_names(data: Any) -> tuple[str, ...]:
    """The names that a data set has for its classes; none if it does not tell."""
    names = getattr(data, "classes", None)
    features = getattr(data, "features", None)
    if isinstance(features, Mapping):
        labels = next((features[key] for key in LABEL_KEYS if key in features), None)
        names = getattr(labels, "names", None)
    if not isinstance(names, tuple | list) or not all(isinstance(name, str) for name in names):
        return ()
    return tuple(names)


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
