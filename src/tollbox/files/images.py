"""Images in: a folder with a CSV of labels, or an `.npz` file.

1. Images come out as float32 in [0,1], (n, c, h, w), all of one shape; 8-bit values are divided by
   255. Nothing is resized, cropped or turned.
2. A folder is searched with its subfolders, hidden ones left out. If all its images are grey (one
   channel, no alpha) they load with one channel; otherwise all load as RGB, palettes resolved and
   alpha dropped. Images of more than 8 bits a channel are refused.
3. A label file is a CSV with a header that has the columns `file` and `label` (any order, any case;
   others are ignored). Its order is the order of the images; each image of the folder has a line.
4. An `.npz` has `images`: uint8, or floats in [0,1]; (n, c, h, w), (n, h, w, c) or, for grey,
   (n, h, w); and `labels`: n integers. The channels are on the shorter of the axes 1 and 3.
5. Each image knows where its label came from, for messages.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import FileError, InputError
from .tables import LARGEST, in_a_line, kind_of, rows_of, shortened

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
    origins: tuple[str, ...]
    """Where each label was read: a file, and the line if any."""

    def __len__(self) -> int:
        return len(self.labels)


def load_images(path: Path, labels: Path | None = None, limit: int | None = None) -> ImageSet:
    """The first `limit` images of a folder (with its label file) or of an `.npz`."""
    if limit is not None and limit < 1:
        raise InputError(f"the limit on images is {limit}: expected 1 or more.")
    kind = kind_of(path, f"{path}")
    if kind == "folder":
        if labels is None:
            raise InputError(
                f"{path} is a folder, and no labels are given: expected a CSV file with the "
                "columns file and label."
            )
        return _load_folder(path, labels, limit)
    if kind == "nothing":
        raise FileError(f"{path} does not exist: expected a folder of images or an .npz file.")
    if labels is not None:
        raise InputError(
            f"labels are given in {labels}, but {path} is not a folder: an .npz file has its "
            "labels inside; leave the label file out."
        )
    return _load_npz(path, limit)


# -- folder ---------------------------------------------------------------------------------------


def _load_folder(folder: Path, table: Path, limit: int | None) -> ImageSet:
    found = _found(folder)
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
    grey = all(picture_mode(folder / name) in GREY for name in labels)
    names = list(labels)[:limit]
    return ImageSet(
        _read_pictures(folder, names, "L" if grey else "RGB"),
        tuple(labels[name][0] for name in names),
        tuple(names),
        tuple(f"{table}, line {labels[name][1]}" for name in names),
    )


def _found(folder: Path) -> list[str]:
    """The images below a folder, as paths relative to it; nothing that is hidden."""

    def refused(error: OSError) -> None:
        raise FileError(f"the folder {error.filename} cannot be read: {error.strerror}.") from None

    found = []
    for place, folders, files in os.walk(folder, onerror=refused):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            file = Path(place, name)
            if name.startswith(".") or file.suffix.lower() not in SUFFIXES:
                continue
            if kind_of(file, f"the image {file}") == "file":
                found.append(file.relative_to(folder).as_posix())
    return sorted(found)


def _read_labels(table: Path, folder: Path, found: set[str]) -> dict[str, tuple[int, int]]:
    """By image: its label, and the line of the table."""
    labels: dict[str, tuple[int, int]] = {}
    base = os.path.abspath(folder)
    for line, (given, text) in rows_of(table, ("file", "label")):
        where = f"{table}, line {line}"
        shown = f"the image {shortened(given)!r}"
        name = Path(os.path.relpath(os.path.join(base, given), base)).as_posix()
        if name not in found:
            raise FileError(f"{where}: {shown} {_why_not(folder, name, f'{where}: {shown}')}.")
        if name in labels:
            raise FileError(f"{where}: {shown} has a label already.")
        try:
            label = int(text)
        except ValueError:  # of too many digits, too
            label = LARGEST + 1
        if abs(label) > LARGEST:
            raise FileError(f"{where}: the label is {shortened(text)!r}: expected an integer.")
        labels[name] = label, line
    return labels


def _why_not(folder: Path, name: str, told: str) -> str:
    """Why a name in a label file is none of the folder's images."""
    if name == ".." or name.startswith("../"):
        return f"is not in the folder {folder}: expected a path relative to that folder"
    kind = kind_of(folder / name, told)
    if kind == "nothing":
        return f"is not in the folder {folder}"
    if kind != "file":
        return "is not a file"
    if any(part.startswith(".") for part in name.split("/")):
        return "is hidden: expected names that do not begin with a dot"
    return f"is not an image ending in {', '.join(sorted(SUFFIXES))}"


def _read_pictures(folder: Path, names: Sequence[str], mode: str) -> Tensor:
    pixels: Tensor | None = None
    for row, name in enumerate(names):
        array = read_pixels(folder / name, mode)
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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(file) as picture:
                yield picture
    except FileError:
        raise
    except Exception as error:  # Pillow raises many kinds for broken files
        raise FileError(f"the image {file} cannot be read: {in_a_line(error)}.") from None


def picture_mode(file: Path) -> str:
    """The mode of a picture file, as Pillow names it."""
    with _opened(file) as picture:
        return _checked(picture, file)


def _checked(picture: Image.Image, file: Path) -> str:
    """The mode, which is one of 8 bits; Pillow cuts some of 16 bits to 8 when it decodes."""
    raw = [f"{tile[3]}" for tile in getattr(picture, "tile", ())]  # e.g. RGB;16B
    deep = picture.format != "BMP" and any(";16" in kind for kind in raw)
    if deep or picture.mode not in EIGHT_BITS:
        kind = raw[0] if deep else picture.mode
        raise FileError(
            f"the image {file} has pixels of kind {kind!r}: expected 8 bits a channel; convert it "
            "first."
        )
    return picture.mode


def read_pixels(file: Path, mode: str) -> NDArray[np.uint8]:
    """(c, h, w)."""
    with _opened(file) as picture:
        _checked(picture, file)
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
    names = tuple(str(index) for index in range(count))
    return ImageSet(images, tuple(labels[:count].tolist()), names, (f"{file}",) * count)


def _arrays(file: Path) -> dict[str, NDArray[Any]]:
    wanted = ("images", "labels")
    try:
        with open(file, "rb") as raw:
            stored = np.load(raw, allow_pickle=False)
            names = list(getattr(stored, "files", ()))  # a single array has none
            if set(wanted) <= set(names):
                arrays = {name: stored[name] for name in wanted}
                if all(isinstance(array, np.ndarray) for array in arrays.values()):
                    return arrays
                raise ValueError("what it holds is not in the format of arrays, .npy")
    except Exception as error:  # broken, encrypted, too large: many kinds
        raise FileError(
            f"{file} cannot be read: {in_a_line(error)}: expected an .npz file with the "
            "arrays images and labels."
        ) from None
    missing = " or ".join(repr(name) for name in wanted if name not in names)
    raise FileError(
        f"{file} has no array {missing}: it has {', '.join(map(repr, names)) or 'none by name'}; "
        "expected an .npz file with the arrays images and labels."
    )


def _channels_first(pixels: NDArray[Any], file: Path) -> NDArray[Any]:
    if pixels.ndim == 3:
        return pixels[:, None]
    if pixels.shape[1] == pixels.shape[3] and pixels[0].size > 1:
        raise FileError(
            f"{file}: images has shape {pixels.shape}: the axes 1 and 3 are of one length, so the "
            "channels cannot be told; expected (n, c, h, w) or (n, h, w, c) with the shorter c."
        )
    return pixels if pixels.shape[1] <= pixels.shape[3] else pixels.transpose(0, 3, 1, 2)


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
