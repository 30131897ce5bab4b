"""Images in: a folder with a CSV of labels, or an `.npz` file.

1. Images come out as float32 in [0,1], (n, c, h, w), all of one shape; 8-bit values are divided by
   255. Nothing is resized, cropped or turned.
2. A folder is searched with its subfolders. If all its images are grey (one channel, no alpha) they
   load with one channel; otherwise all load as RGB, palettes resolved and alpha dropped. Images of
   more than 8 bits a channel are refused.
3. A label file is a CSV with a header that has the columns `file` and `label` (any order, any case;
   others are ignored). Its order is the order of the images; each image of the folder has a line.
4. An `.npz` has `images`: uint8, or floats in [0,1]; (n, c, h, w), (n, h, w, c) or, for grey,
   (n, h, w); and `labels`: n integers. The channels are on the shorter of the axes 1 and 3.
"""

from __future__ import annotations

import contextlib
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .errors import FileError, InputError
from .tables import rows_of

if TYPE_CHECKING:
    from PIL import Image

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".webp"})
GREY = frozenset({"1", "L"})
EIGHT_BITS = GREY | {"LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "HSV", "LAB"}


@dataclass(frozen=True)
class ImageSet:
    """Images with their labels and names, in order."""

    images: Tensor
    """(n, c, h, w), float32 in [0,1]."""
    labels: tuple[int, ...]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)


def load_images(path: Path, labels: Path | None = None, limit: int | None = None) -> ImageSet:
    """The first `limit` images of a folder (with its label file) or of an `.npz`."""
    if limit is not None and limit < 1:
        raise InputError(f"the limit on images is {limit}: expected 1 or more.")
    if path.is_dir():
        if labels is None:
            raise InputError(
                f"{path} is a folder, and no labels are given: expected a CSV file with the "
                "columns file and label."
            )
        return _load_folder(path, labels, limit)
    if not path.exists():
        raise FileError(f"{path} does not exist: expected a folder of images or an .npz file.")
    if labels is not None:
        raise InputError(
            f"labels are given in {labels}, but {path} is not a folder: an .npz file has its "
            "labels inside; leave the label file out."
        )
    return _load_npz(path, limit)


# -- folder ---------------------------------------------------------------------------------------


def _load_folder(folder: Path, table: Path, limit: int | None) -> ImageSet:
    try:
        found = sorted(
            file.relative_to(folder).as_posix()
            for file in folder.rglob("*")
            if file.suffix.lower() in SUFFIXES and not file.name.startswith(".")
        )
    except OSError as error:
        raise FileError(f"the folder {folder} cannot be read: {error.strerror}.") from None
    if not found:
        raise FileError(
            f"the folder {folder} has no images: expected files ending in "
            f"{', '.join(sorted(SUFFIXES))}."
        )
    labels = _read_labels(table, folder, set(found))
    missing = [name for name in found if name not in labels]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise FileError(
            f"{table} has no label for the image {missing[0]}{more}: expected a line for every "
            f"image in {folder}; add it, or move the image elsewhere."
        )
    names = list(labels)[:limit]
    return ImageSet(_read_pictures(folder, names), tuple(labels[n] for n in names), tuple(names))


def _read_labels(table: Path, folder: Path, found: set[str]) -> dict[str, int]:
    labels: dict[str, int] = {}
    for line, (name, text) in rows_of(table, ("file", "label")):
        name = name.removeprefix("./")
        if name not in found:
            there = (folder / name).exists()
            known = ", ".join(sorted(SUFFIXES))
            why = (
                f"is not an image ending in {known}" if there else f"is not in the folder {folder}"
            )
            raise FileError(f"{table}, line {line}: the image {name!r} {why}.")
        if name in labels:
            raise FileError(f"{table}, line {line}: the image {name!r} has a label already.")
        try:
            labels[name] = int(text)
        except ValueError:
            raise FileError(
                f"{table}, line {line}: the label is {text!r}: expected an integer."
            ) from None
    return labels


def _read_pictures(folder: Path, names: Sequence[str]) -> Tensor:
    mode = "L" if {_mode(folder / name) for name in names} <= GREY else "RGB"
    pixels: Tensor | None = None
    for row, name in enumerate(names):
        array = _pixels(folder / name, mode)
        if pixels is None:
            pixels = torch.empty((len(names), *array.shape), dtype=torch.float32)
        if array.shape != pixels.shape[1:]:
            raise InputError(
                f"the image {name} is {_size(array.shape)}, but {names[0]} is "
                f"{_size(tuple(pixels.shape[1:]))}: expected one size for all; resize them first."
            )
        pixels[row] = torch.from_numpy(array)
    if pixels is None:
        raise InputError("there are no images: expected at least one.")
    return pixels.div_(255)


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[Image.Image]:
    """The picture, not decoded yet; whatever Pillow raises meanwhile is a FileError."""
    from PIL import Image

    try:
        with Image.open(file) as picture:
            yield picture
    except Exception as error:  # Pillow raises many kinds for broken files
        raise FileError(f"the image {file} cannot be read: {_short(error)}.") from None


def _mode(file: Path) -> str:
    with _opened(file) as picture:
        mode = picture.mode
    if mode not in EIGHT_BITS:
        raise FileError(
            f"the image {file} has pixels of kind {mode!r}: expected 8 bits a channel; convert it "
            "first."
        )
    return mode


def _pixels(file: Path, mode: str) -> NDArray[np.uint8]:
    """(c, h, w)."""
    with _opened(file) as picture:
        resolved = picture.convert("RGBA") if picture.mode in ("P", "PA") else picture
        array = np.array(resolved.convert(mode), np.uint8)
    return array[None] if array.ndim == 2 else np.ascontiguousarray(array.transpose(2, 0, 1))


def _size(shape: tuple[int, ...]) -> str:
    return f"{shape[-1]}x{shape[-2]}"


# -- npz ------------------------------------------------------------------------------------------


def _load_npz(file: Path, limit: int | None) -> ImageSet:
    arrays = _arrays(file)
    pixels, labels = arrays["images"], arrays["labels"]
    if pixels.ndim not in (3, 4) or pixels.size == 0:
        raise FileError(
            f"{file}: images has shape {pixels.shape}: expected at least one image, (n, c, h, w), "
            "(n, h, w, c) or (n, h, w)."
        )
    if labels.shape != pixels.shape[:1]:
        raise FileError(
            f"{file}: labels has shape {labels.shape} for {len(pixels)} images: expected "
            f"({len(pixels)},), one label per image."
        )
    if not np.issubdtype(labels.dtype, np.integer):
        raise FileError(f"{file}: labels is of type {labels.dtype}: expected integers.")
    images = _unit(_channels_first(pixels, file)[:limit], file)
    count = len(images)
    return ImageSet(images, tuple(labels[:count].tolist()), tuple(str(i) for i in range(count)))


def _arrays(file: Path) -> dict[str, NDArray[Any]]:
    wanted = ("images", "labels")
    try:
        with open(file, "rb") as raw:
            stored = np.load(raw, allow_pickle=False)
            names = list(getattr(stored, "files", ()))  # a single array has none
            if set(wanted) <= set(names):
                return {name: stored[name] for name in wanted}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise FileError(
            f"{file} cannot be read: {_short(error)}: expected an .npz file with the arrays images "
            "and labels."
        ) from None
    missing = " or ".join(repr(name) for name in wanted if name not in names)
    raise FileError(
        f"{file} has no array {missing}: it has {', '.join(map(repr, names)) or 'none by name'}; "
        "expected an .npz file with the arrays images and labels."
    )


def _channels_first(pixels: NDArray[Any], file: Path) -> NDArray[Any]:
    if pixels.ndim == 3:
        return pixels[:, None]
    if pixels.shape[1] == pixels.shape[3]:
        raise FileError(
            f"{file}: images has shape {pixels.shape}: the axes 1 and 3 are of one length, so the "
            "channels cannot be told; expected (n, c, h, w) or (n, h, w, c) with the shorter c."
        )
    return pixels if pixels.shape[1] < pixels.shape[3] else pixels.transpose(0, 3, 1, 2)


def _unit(pixels: NDArray[Any], file: Path) -> Tensor:
    """Pixels as float32 in [0,1]."""
    if pixels.dtype == np.uint8:
        return torch.from_numpy(np.ascontiguousarray(pixels)).float().div_(255)
    if not np.issubdtype(pixels.dtype, np.floating):
        raise FileError(f"{file}: images is of type {pixels.dtype}: expected uint8 or floats.")
    for index, image in enumerate(pixels):
        if not np.isfinite(image).all():
            raise FileError(
                f"{file}: image {index} has values that are not finite: expected [0,1]."
            )
        low, high = float(image.min()), float(image.max())
        if low < 0 or high > 1:
            hint = " Divide by 255?" if high > 1.5 else ""
            raise FileError(
                f"{file}: image {index} has values from {low:g} to {high:g}: expected [0,1].{hint}"
            )
    return torch.from_numpy(np.ascontiguousarray(pixels, dtype=np.float32))


def _short(error: Exception) -> str:
    """An error in a line."""
    text = (getattr(error, "strerror", None) or str(error)).strip().splitlines()
    return (text[0] if text else type(error).__name__).rstrip(".")
