"""Files that belong to the goal of an attack: images to start from, and pixel masks.

1. A target class needs a start: random noise hardly ever has a class of your choice.
2. A start is one image for all, or an `.npz` file whose image i belongs to image i. It has the size
   and channels of the images. A grey image counts as RGB if the images are RGB. An image of another
   size is resized like the images, if they are resized.
3. A mask is white where pixels may change. One mask serves all images, or a folder has a mask with
   the name of each image and any image suffix: `dogs/7.png` for `dogs/7.jpg`, `0.png` for image 0
   of an `.npz` file.
4. A mask has the size of the images and is never resized. A pixel that is lighter than mid grey may
   change in all channels. A mask that is black everywhere is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from ..errors import FileError, InputError
from .image_files import SUFFIXES, read_image, read_images
from .images import ImageSet, load_images
from .tables import LARGEST, check_file, kind_of


def check_target(target: int | None, images: ImageSet, classes: int | None) -> None:
    """Raise InputError unless the model has the target class and no image has it as its label."""
    if target is None:
        return
    largest = LARGEST if classes is None else classes - 1
    if not 0 <= target <= largest:
        raise InputError(f"is {target}", expected=f"0 to {largest}", input="target")
    same = [place for place, label in enumerate(images.labels) if label == target]
    if same:
        more = f" and {len(same) - 1} more" if len(same) > 1 else ""
        first = f"{images.names[same[0]]}{more} ({images.origins[same[0]]})"
        given = f"is {target}, which is also the label of image {first}"
        expected, remedy = "a class that none of the images has", "leave those images out"
        raise InputError(given, expected=expected, remedy=remedy, input="target")


def load_starts(start: Path | None, images: ImageSet, limit: int | None) -> list[Tensor | None]:
    """Return the image to start from for each image; each is None if `start` is None."""
    count, shape = len(images), tuple(images.images.shape[1:])
    if start is None:
        return [None] * count
    check_file(start, "an image file, or an .npz", input="start")
    if start.suffix.lower() == ".npz":
        starts = load_images(start, None, limit).images
    else:
        starts = read_image(start, shape, images.resizing)
    if tuple(starts.shape[1:]) != shape:
        given = f"{start} is {_size(starts.shape[1:])}, but the images are {_size(shape)}"
        expected, remedy = "the same size and channels", "resize it first"
        raise InputError(given, expected=expected, remedy=remedy, input="start")
    if len(starts) not in (1, count):
        given = f"{start} has {len(starts)} images, but {count} are attacked"
        expected = "one for all, or one for each, in the same order"
        raise InputError(given, expected=expected, input="start")
    return [starts[0]] * count if len(starts) == 1 else list(starts)


def _size(shape: Sequence[int]) -> str:
    return f"{shape[2]}x{shape[1]} with {shape[0]} channel{'s' if shape[0] != 1 else ''}"


def load_masks(path: Path | None, images: ImageSet) -> list[Tensor | None]:
    """Return the mask of each image, (h, w) of bool; each is None if `path` is None."""
    if path is None:
        return [None] * len(images)
    size = tuple(images.images.shape[-2:])
    if kind_of(path, str(path), input="mask") == "folder":
        return [_read(_find(path, name), size) for name in images.names]
    white = "an image that is white where pixels may change, or a folder with one for each image"
    check_file(path, white, input="mask")
    return [_read(path, size)] * len(images)


def masks_digest(masks: Sequence[Tensor | None]) -> str | None:
    digest = hashlib.sha256()
    for mask in masks:
        if mask is None:
            digest.update(b"none")
        else:
            digest.update(repr(tuple(mask.shape)).encode())
            digest.update(mask.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest() if any(mask is not None for mask in masks) else None


def _find(folder: Path, name: str) -> Path:
    base = folder / name
    stem = base.with_suffix("") if base.suffix.lower() in SUFFIXES else base
    for suffix in sorted(SUFFIXES):
        file = stem.with_name(stem.name + suffix)
        if kind_of(file, str(file), input="mask") == "file":
            return file
    given = f"is {folder}, which has no mask for the image {name}"
    expected = f"{stem.name}.png there, white where pixels may change"
    raise FileError(given, expected=expected, input="mask")


def _read(file: Path, size: tuple[int, ...]) -> Tensor:
    [image] = read_images(file.parent, [file.name], grey=True)
    mask: Tensor = image[0] > 0.5
    if tuple(mask.shape) != size:
        height, width = mask.shape
        given = f"{file} is {width}x{height}, but the images are {size[1]}x{size[0]}"
        remedy = "resize it first"
        raise InputError(given, expected="the same size", remedy=remedy, input="mask")
    if not torch.any(mask):
        given = f"{file} is black everywhere, so that nothing may change"
        raise InputError(given, expected="white where pixels may change", input="mask")
    return mask
