"""Masks of pixels that may change, read from image files: white may change, black may not.

1. One mask serves all images, or a folder has a mask with the name of each image and any image
   suffix: `dogs/7.png` for `dogs/7.jpg`, `0.png` for image 0 of an `.npz` file.
2. A mask has the size of the images and is never resized. A pixel that is lighter than mid grey may
   change in all channels.
3. A mask that is black everywhere is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from ..errors import FileError, InputError
from .image_files import SUFFIXES, read_images
from .images import ImageSet
from .tables import check_file, kind_of

EXPECTED = "an image that is white where pixels may change, or a folder with one for each image"


def load_masks(path: Path | None, images: ImageSet) -> list[Tensor | None]:
    """Return the mask of each image, (h, w) of bool, or None for each without a path."""
    if path is None:
        return [None] * len(images)
    size = tuple(images.images.shape[-2:])
    if kind_of(path, str(path), input="mask") == "folder":
        return [_read(_find(path, name), size) for name in images.names]
    check_file(path, EXPECTED, input="mask")
    return [_read(path, size)] * len(images)


def masks_digest(masks: Sequence[Tensor | None]) -> str | None:
    """Return a digest of the masks, or None if there are none."""
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
    raise FileError(
        f"is {folder}, which has no mask for the image {name}",
        expected=f"{stem.name}.png there, white where pixels may change",
        input="mask",
    )


def _read(file: Path, size: tuple[int, ...]) -> Tensor:
    [image] = read_images(file.parent, [file.name], grey=True)
    mask: Tensor = image[0] > 0.5
    if tuple(mask.shape) != size:
        raise InputError(
            f"{file} is {mask.shape[1]}x{mask.shape[0]}, but the images are {size[1]}x{size[0]}",
            expected="the same size",
            remedy="resize it first",
            input="mask",
        )
    if not torch.any(mask):
        raise InputError(
            f"{file} is black everywhere, so that nothing may change",
            expected="white where pixels may change",
            input="mask",
        )
    return mask
