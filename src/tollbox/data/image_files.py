"""Pixels and labels as users give them, checked once for all kinds of files and functions.

1. Pixels are uint8, which are divided by 255, or floats in [0,1]; they become float32.
2. Labels are one integer per image, of at most 64 bits.

Picture files, by Pillow.

1. Pictures have 8 bits a channel; deeper ones are refused, since Pillow would cut some to 8 bits.
2. They are read as grey or as RGB: palettes are resolved, and CMYK is converted as Pillow does it,
   without a colour profile. A picture is turned as its EXIF orientation says, so that it is read as
   viewers show it, and then resized and cropped if that is told (`resizing`), else left as it is.
3. A picture that is transparent anywhere is refused: what it shows depends on what is behind it. So
   is one that is animated. (The first picture of a phone's MPO is the photograph.)
4. A picture of more than `MOST_PIXELS` is refused before it is decoded; one that is resized may
   have `MOST_RESIZED`.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core.validation import check_range
from ..errors import FileError, InputError, mention
from .resizing import Resizing
from .tables import LARGEST, in_a_line
from .user_code import optional

if TYPE_CHECKING:
    from PIL import Image


def unit_pixels(pixels: Tensor | NDArray[Any]) -> Tensor:
    """Pixels (n, c, h, w) as float32 in [0,1]."""
    if pixels.dtype not in (np.uint8, torch.uint8) and not _has_floats(pixels):
        kind = str(pixels.dtype).removeprefix("torch.")
        raise InputError(f"images is of type {kind}", expected="uint8 or floats")
    if isinstance(pixels, np.ndarray):
        pixels = torch.from_numpy(_native(pixels))
    if pixels.dtype == torch.uint8:
        return pixels.float().div_(255)
    for index, image in enumerate(pixels):
        check_range(image, f"image {index}")
    return pixels.float().contiguous()


def integer_labels(labels: NDArray[Any], count: int) -> tuple[int, ...]:
    """The labels of `count` images."""
    if labels.shape != (count,):
        raise InputError(
            f"labels has shape {labels.shape} for {count} images",
            expected=f"({count},), one label per image",
        )
    if not np.issubdtype(labels.dtype, np.integer):
        raise InputError(f"labels is of type {labels.dtype}", expected="integers")
    if labels.dtype == np.uint64 and (labels > LARGEST).any():
        raise InputError(f"labels has {labels.max()}", expected=f"integers up to {LARGEST}")
    return tuple(labels.tolist())


def _has_floats(pixels: Tensor | NDArray[Any]) -> bool:
    if isinstance(pixels, Tensor):
        return pixels.is_floating_point()
    return np.issubdtype(pixels.dtype, np.floating)


def _native(pixels: NDArray[Any]) -> NDArray[Any]:
    """The same values in a type that torch has: not of another byte order, nor longer than 64."""
    if pixels.dtype == np.uint8:
        return np.ascontiguousarray(pixels)
    kind = np.float64 if pixels.dtype.itemsize > 4 else np.float32
    return np.ascontiguousarray(pixels, dtype=kind)


READING = "picture files are read with it"
SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".webp"})
GREY = frozenset({"1", "L"})
WITH_ALPHA = frozenset({"LA", "PA", "RGBA"})
EIGHT_BITS = GREY | WITH_ALPHA | {"P", "RGB", "RGBX", "CMYK", "YCbCr", "HSV", "LAB"}
MOST_PIXELS = 4096 * 4096
MOST_RESIZED = 8 * MOST_PIXELS
OPAQUE = 255


def is_grey(file: Path) -> bool:
    """Whether a picture has one channel, and no alpha."""
    with _opened(file) as picture:
        return _mode(picture, file) in GREY


def read_pictures(
    folder: Path, names: Sequence[str], grey: bool, resizing: Resizing | None = None
) -> Tensor:
    """(n, c, h, w) in [0,1], with one channel or three."""
    pixels: Tensor | None = None
    for row, name in enumerate(names):
        with _opened(folder / name) as picture:
            array = pixels_of(picture, folder / name, resizing, grey)
        if pixels is None:
            pixels = torch.empty((len(names), *array.shape), dtype=torch.float32)
        check_alike(array.shape, pixels.shape[1:], name, names[0])
        pixels[row] = torch.from_numpy(array)
    if pixels is None:
        raise InputError("there are no images", expected="at least one")
    return pixels.div_(255)


def check_alike(shape: Sequence[int], first: Sequence[int], name: str, first_name: str) -> None:
    """Raise InputError unless an image has the size of the first."""
    if tuple(shape) != tuple(first):
        raise InputError(
            f"the image {name} is {_size(shape)}, but {first_name} is {_size(first)}",
            expected="one size for all",
            remedy=f"give {mention('resize')} and {mention('crop')}, as 256 and 224",
        )


def read_picture(file: Path, shape: Sequence[int], resizing: Resizing | None = None) -> Tensor:
    """(1, c, h, w) in [0,1], for use beside images of a `shape`: grey if they are and it has no
    more channels, and resized as they were if it is not of their size already."""
    grey = shape[0] == 1 and is_grey(file)
    if resizing is not None:
        with _opened(file) as picture:
            turned = optional("PIL.ImageOps", READING, extra="cli").exif_transpose(picture)
            if turned.size == (shape[2], shape[1]):
                resizing = None
    return read_pictures(file.parent, [file.name], grey, resizing)


def pixels_of(
    picture: Image.Image, name: str | Path, resizing: Resizing | None, grey: bool
) -> NDArray[np.uint8]:
    """The pixels (c, h, w) of a picture, which messages call `name`."""
    _mode(picture, name)
    _check_still(picture, name)
    _check_size(picture, name, MOST_PIXELS if resizing is None else MOST_RESIZED)
    turned = optional("PIL.ImageOps", READING, extra="cli").exif_transpose(picture)
    if turned.mode in WITH_ALPHA or "transparency" in turned.info:
        turned = turned.convert("RGBA")
        _check_opaque(turned, name)
    elif turned.mode == "P":
        turned = turned.convert("RGB")
    turned = turned.convert("L" if grey else "RGB")
    if resizing is not None:
        turned = resizing.applied(turned, name)
    array = np.array(turned, np.uint8)
    return array[None] if array.ndim == 2 else np.ascontiguousarray(array.transpose(2, 0, 1))


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[Image.Image]:
    """The picture, not decoded yet; whatever Pillow raises meanwhile is a FileError."""
    pillow = optional("PIL.Image", READING, extra="cli")
    with readable(file), warnings.catch_warnings():
        warnings.simplefilter("ignore", pillow.DecompressionBombWarning)
        with pillow.open(file) as picture:
            yield picture


@contextlib.contextmanager
def readable(name: str | Path) -> Iterator[None]:
    """While entered, whatever Pillow raises is a FileError about the picture `name`."""
    pillow = optional("PIL.Image", READING, extra="cli")
    try:
        yield
    except InputError:
        raise
    except pillow.DecompressionBombError:  # far above MOST_PIXELS; Pillow does not say how far
        raise FileError(
            f"the image {name} has more pixels than can be read",
            expected=f"at most {MOST_PIXELS:,}",
            remedy="resize it first",
        ) from None
    except Exception as error:  # Pillow raises many kinds for broken files
        raise FileError(f"the image {name} cannot be read: {in_a_line(error)}") from None


def _mode(picture: Image.Image, file: str | Path) -> str:
    """Pillow's name of what a pixel is, which is one of 8 bits."""
    raw = [f"{tile[3]}" for tile in getattr(picture, "tile", ())]  # e.g. RGB;16B
    deep = picture.format != "BMP" and any(";16" in kind for kind in raw)
    if deep or picture.mode not in EIGHT_BITS:
        raise FileError(
            f"the image {file} has pixels of kind {(raw[0] if deep else picture.mode)!r}",
            expected="8 bits a channel",
            remedy="convert it first",
        )
    return picture.mode


def _check_still(picture: Image.Image, file: str | Path) -> None:
    frames = getattr(picture, "n_frames", 1)
    if frames > 1 and picture.format != "MPO":
        raise FileError(
            f"the image {file} is animated, with {frames} frames",
            expected="a single picture",
            remedy="save one of its frames first",
        )


def _check_size(picture: Image.Image, file: str | Path, most: int) -> None:
    width, height = picture.size
    if width * height > most:
        raise FileError(
            f"the image {file} has {width}x{height} pixels",
            expected=f"at most {most:,} in all",
            remedy="resize it first"
            if most == MOST_RESIZED
            else f"resize it first, or give {mention('resize')}",
        )


def _check_opaque(picture: Image.Image, file: str | Path) -> None:
    least, _ = picture.getchannel("A").getextrema()
    if least != OPAQUE:
        raise FileError(
            f"the image {file} is transparent in places",
            expected="an image that is opaque everywhere",
            remedy="put it on a background first",
        )


def _size(shape: Sequence[int]) -> str:
    return f"{shape[-1]}x{shape[-2]}"
