"""Images from a user's function: arrays, or a data set as in torchvision or Hugging Face.

1. The function, given as `module:function`, takes no arguments. It returns a data set, an
   `ImageSet`, or arrays or tensors as (images, labels) or (images, labels, names).
2. Images are (n, c, h, w), uint8 or floats in [0,1]. By default an image's name is its number.
3. A data set is a sequence. An item is a pair (image, label), or a mapping with the keys `image`
   (or `img`) and `label` (or `labels`). Only the first `limit` items are read.
4. An image in a data set is a Pillow image, or an array (h, w) or (h, w, 3) of uint8. Both kinds
   are resized and cropped if a size is set, and have one channel if all are grey, otherwise three.
   Or it is a tensor (c, h, w) of the model's size. Tensors cannot be mixed with the other kinds.
5. A data set may have class names: torchvision's `classes`, or the features of a Hugging Face set.
   If the model's class names are known, labels are matched by name (classes.py).
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core.validation import is_whole, shown
from ..errors import InputError, mention
from . import image_files
from .classes import relabelled
from .image_files import check_same_size, integer_labels, unit_pixels
from .images import ImageSet, check_not_resized
from .resizing import ModelConfiguration, Preparation, Resizing
from .tables import LARGEST
from .user_code import called, imported, with_kind

MOST_ITEMS = 10_000_000
FEWER = f"set {mention('limit')}"
IMAGE_KEYS = ("image", "img")
LABEL_KEYS = ("label", "labels")
ITEM = "(image, label), or a mapping with image and label"
IMAGE = "a Pillow image, a tensor (c, h, w), or an array (h, w) or (h, w, 3) of uint8"
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
    model: ModelConfiguration | None = None,
) -> ImageSet:
    """Load images from `function`, of the form module:function.

    `limit` applies only to data sets. The other arguments are as for `load_images`.
    """
    prepared = Preparation.of(resizing, names, model)
    value = imported(function, "images")
    if isinstance(value, type) or not callable(value):
        what = "a class" if isinstance(value, type) else type(value).__name__
        given = f"is {function!r}, which is {what}"
        raise InputError(given, expected="a function without arguments", input="images")
    answer = called(value, function, "images")
    try:
        if called(lambda: _is_data_set(answer), function, "images"):
            return _data_set_images(answer, function, limit, prepared)
        check_not_resized(resizing, "the function returns arrays")
        return _array_images(answer, function, prepared)
    except InputError as error:
        if error.input == "images":  # from the user's code, and already about this argument
            raise
        subject = f"{mention(error.input)} " if error.input else ""
        error.given, error.input = f"is {function!r}: {subject}{error.given}", "images"
        raise
    except Exception as error:  # what a user's function returns may raise anything
        given = f"is {function!r}: reading what it returned failed: {with_kind(error)}"
        raise InputError(given, expected=EXPECTED, input="images") from None


def _array_images(answer: Any, origin: str, prepared: Preparation) -> ImageSet:
    own: tuple[str, ...] = ()
    resizing = None
    if isinstance(answer, ImageSet):
        own, resizing = answer.class_names, answer.resizing
        answer = (answer.images, answer.labels, answer.names)
    if not isinstance(answer, tuple | list) or len(answer) not in (2, 3):
        raise InputError(f"it returned {type(answer).__name__}", expected=EXPECTED)
    pixels, labels, *rest = answer
    if not isinstance(pixels, np.ndarray):
        try:
            pixels = torch.as_tensor(pixels).detach().cpu()
        except (TypeError, ValueError, RuntimeError):
            raise InputError(f"images is {type(pixels).__name__}", expected=EXPECTED) from None
    if pixels.ndim != 4 or 0 in pixels.shape:
        raise InputError(f"images has shape {tuple(pixels.shape)}", expected=EXPECTED)
    images, count = unit_pixels(pixels), len(pixels)
    labels = np.asarray(labels.cpu() if isinstance(labels, Tensor) else labels)
    names = rest[0] if rest else tuple(map(str, range(count)))
    texts = isinstance(names, Sequence) and all(isinstance(name, str) for name in names)
    labels = integer_labels(labels, count)
    if not texts or isinstance(names, str) or len(names) != count:
        raise InputError(f"names is not {count} texts", expected="one per image")
    labels = relabelled(labels, own, prepared.names, prepared.own_names)
    classes = prepared.names or own
    return ImageSet(images, labels, tuple(names), (origin,) * count, classes, resizing)


def _is_data_set(value: Any) -> bool:
    """Return whether `value` is a sequence whose first item is an image with its label."""
    if isinstance(value, str | bytes | Tensor | np.ndarray | Mapping | ImageSet):
        return False
    if not (hasattr(value, "__len__") and hasattr(value, "__getitem__")) or len(value) == 0:
        return False
    first = value[0]
    if isinstance(first, Mapping):
        return any(key in first for key in IMAGE_KEYS)
    pair = isinstance(first, tuple | list) and len(first) == 2
    return pair and _is_image(first[0]) and not _is_image(first[1])


def _is_image(value: Any) -> bool:
    return _is_pillow(value) or (isinstance(value, Tensor | np.ndarray) and value.ndim > 1)


def _is_pillow(value: Any) -> bool:
    pillow = sys.modules.get("PIL.Image")  # without importing Pillow
    return pillow is not None and isinstance(value, pillow.Image)


def _data_set_images(data: Any, origin: str, limit: int | None, prepared: Preparation) -> ImageSet:
    count = len(data) if limit is None else min(limit, len(data))
    if count > MOST_ITEMS:
        raise InputError(f"has {count:,} items", expected=f"at most {MOST_ITEMS:,}", remedy=FEWER)
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
        _stacked_tensors(images) if tensors else _stacked_arrays(images),
        relabelled(tuple(labels), own, prepared.names, prepared.own_names),
        tuple(map(str, range(count))),
        (origin,) * count,
        prepared.names or own,
        None if tensors else prepared.resizing,
    )


def _item(item: Any, number: int) -> tuple[Any, int]:
    if isinstance(item, Mapping):
        found = []
        for keys in (IMAGE_KEYS, LABEL_KEYS):
            key = next((key for key in keys if key in item), None)
            if key is None:
                raise InputError(f"item {number} has no {keys[0]}", expected=ITEM)
            found.append(item[key])
        item = found
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise InputError(f"item {number} is {type(item).__name__}", expected=ITEM)
    image, label = item
    if isinstance(label, Tensor | np.ndarray) and label.ndim == 0:
        label = label.item()
    if not is_whole(label) or abs(label) > LARGEST:
        raise InputError(f"the label of item {number} is {shown(label)}", expected="an integer")
    return image, int(label)


def _pixels(image: Any, number: int, prepared: Preparation) -> Tensor | NDArray[np.uint8]:
    """Return a tensor unchanged, and other images as resized pixels (c, h, w)."""
    if isinstance(image, Tensor):
        check_not_resized(prepared.given_resizing, "the data set has tensors")
        return image
    if not _is_pillow(image):
        array = isinstance(image, np.ndarray)
        axes = array and (image.ndim == 2 or (image.ndim == 3 and image.shape[2] == 3))
        if not axes or image.dtype != np.uint8 or image.size == 0:
            what = f"an array of {image.dtype} of shape {image.shape}" if array else None
            given = f"the image of item {number} is {what or type(image).__name__}"
            raise InputError(given, expected=IMAGE)
        image = image_files.pillow().fromarray(image)
    with image_files.readable(f"{number}"):
        grey = image.mode in image_files.GREY
        return image_files.pixels_of(image, f"{number}", prepared.resizing, grey)


def _stacked_arrays(arrays: Sequence[Any]) -> Tensor:
    """Stack images as (n, c, h, w) in [0,1], with one channel if all are grey."""
    for number, array in enumerate(arrays):
        check_same_size(array.shape[1:], arrays[0].shape[1:], f"{number}", "0")
    shape = (max(len(array) for array in arrays), *arrays[0].shape[1:])
    return unit_pixels(np.stack([np.broadcast_to(array, shape) for array in arrays]))


def _stacked_tensors(images: Sequence[Any]) -> Tensor:
    for number, image in enumerate(images):
        if not isinstance(image, Tensor) or image.ndim != 3 or image.numel() == 0:
            what = f"of shape {tuple(image.shape)}" if isinstance(image, Tensor) else "no tensor"
            given = f"the image of item {number} is {what}"
            raise InputError(given, expected="tensors (c, h, w) for all")
        if image.shape[0] != images[0].shape[0] or image.dtype != images[0].dtype:
            channels = f"{image.shape[0]} channels of {image.dtype}"
            first = f"{images[0].shape[0]} of {images[0].dtype}"
            given = f"the image of item {number} has {channels}, but the first has {first}"
            raise InputError(given, expected="the same for all")
        check_same_size(image.shape, images[0].shape, f"{number}", "0")
    return unit_pixels(torch.stack([image.detach().cpu() for image in images]))


def _class_names(data: Any) -> tuple[str, ...]:
    names = getattr(data, "classes", None)
    features = getattr(data, "features", None)
    if isinstance(features, Mapping):
        labels = next((features[key] for key in LABEL_KEYS if key in features), None)
        names = getattr(labels, "names", None)
    if not isinstance(names, tuple | list) or not all(isinstance(name, str) for name in names):
        return ()
    return tuple(names)
