"""Masks of pixels that may change, from pictures: white may change, black may not.

1. One picture for all images; or a folder, in which each image has one of its own name, with any
   suffix of a picture: `dogs/7.jpg` has `dogs/7.png`, image 0 of an `.npz` has `0.png`.
2. A mask is of the images' size, and never resized. A pixel may change if it is lighter than mid
   grey, in all channels then.
3. A mask that lets nothing change is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from ..errors import FileError, InputError
from .image_files import SUFFIXES, read_pictures
from .images import ImageSet
from .tables import kind_of

EXPECTED = "a picture, white where pixels may change, or a folder with one for each image"


def load_masks(path: Path | None, images: ImageSet) -> list[Tensor | None]:
    """The mask of each image, (h, w), bool; None where none was given."""
    if path is None:
        return [None] * len(images)
    size = tuple(images.images.shape[-2:])
    kind = kind_of(path, str(path), input="mask")
    if kind == "folder":
        return [_read(_file_of(path, name), size) for name in images.names]
    if kind != "file":
        what = "does not exist" if kind == "nothing" else "is not a file"
        raise FileError(f"is {path}, which {what}", expected=EXPECTED, input="mask")
    return [_read(path, size)] * len(images)


def masks_digest(masks: Sequence[Tensor | None]) -> str | None:
    """What tells masks from others; None if there are none."""
    digest, some = hashlib.sha256(), False
    for mask in masks:
        if mask is None:
            digest.update(b"none")
        else:
            some = True
            digest.update(repr(tuple(mask.shape)).encode())
            digest.update(mask.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest() if some else None


def _file_of(folder: Path, name: str) -> Path:
    """The mask of an image in a folder of masks."""
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
    """(h, w)."""
    [picture] = read_pictures(file.parent, [file.name], grey=True)
    mask: Tensor = picture[0] > 0.5
    if tuple(mask.shape) != size:
        raise InputError(
            f"{file} is {mask.shape[1]}x{mask.shape[0]}, and the images are {size[1]}x{size[0]}",
            expected="the same size",
            remedy="resize it first",
            input="mask",
        )
    if not torch.any(mask):
        raise InputError(
            f"{file} is black everywhere, and so lets nothing change",
            expected="white where pixels may change",
            input="mask",
        )
    return mask
