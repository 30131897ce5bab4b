"""Conversion of users' pixels and labels, and image files read with Pillow.

1. Pixels are uint8, which is divided by 255, or floats in [0,1]. Both become float32.
2. Image files have 8 bits per channel. Deeper ones are refused, since Pillow would truncate some
   of them to 8 bits. Pillow converts CMYK without a colour profile.
3. An image is rotated according to its EXIF orientation, as in image viewers, and then resized and
   cropped if sizes are set (resizing.py).
4. Images with transparent pixels are refused, since their appearance depends on the background. So
   are animated ones. (From a phone's MPO file, only the first image, the photograph, is read.)
5. Images with more than `MAX_PIXELS` pixels are refused before they are decoded. The limit is
   `MAX_RESIZED` for images that will be resized.
6. Only `FORMATS` are decoded, whatever a file is called: for PostScript, Pillow runs Ghostscript.
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

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".webp"})
ENDINGS = ", ".join(sorted(SUFFIXES))
FORMATS = ("PNG", "JPEG", "BMP", "WEBP")
GREY = frozenset({"1", "L"})
WITH_ALPHA = frozenset({"LA", "PA", "RGBA"})
EIGHT_BITS = GREY | WITH_ALPHA | {"P", "RGB", "RGBX", "CMYK", "YCbCr", "HSV", "LAB"}
MAX_PIXELS = 4096 * 4096
MAX_RESIZED = 8 * MAX_PIXELS
OPAQUE = 255


def pillow(module: str = "Image") -> Any:
    return optional(f"PIL.{module}", "image files are read with it", extra="cli")


def unit_pixels(pixels: Tensor | NDArray[Any]) -> Tensor:
    """Return pixels (n, c, h, w) as float32 in [0,1]."""
    if isinstance(pixels, Tensor):
        floats = pixels.is_floating_point()
    else:
        floats = np.issubdtype(pixels.dtype, np.floating)
    if pixels.dtype not in (np.uint8, torch.uint8) and not floats:
        kind = str(pixels.dtype).removeprefix("torch.")
        raise InputError(f"images is of type {kind}", expected="uint8 or floats")
    if isinstance(pixels, np.ndarray):  # torch lacks other byte orders and long doubles
        native = np.float64 if pixels.dtype.itemsize > 4 else np.float32
        pixels = torch.from_numpy(np.ascontiguousarray(pixels, dtype=native if floats else None))
    if pixels.dtype == torch.uint8:
        return pixels.float().div_(255)
    for index, image in enumerate(pixels):
        check_range(image, f"image {index}")
    return pixels.float().contiguous()


def integer_labels(labels: NDArray[Any], count: int) -> tuple[int, ...]:
    if labels.shape != (count,):
        given = f"labels has shape {labels.shape} for {count} images"
        raise InputError(given, expected=f"({count},), one label per image")
    if not np.issubdtype(labels.dtype, np.integer):
        raise InputError(f"labels is of type {labels.dtype}", expected="integers")
    if labels.dtype == np.uint64 and (labels > LARGEST).any():
        raise InputError(f"labels has {labels.max()}", expected=f"integers up to {LARGEST}")
    return tuple(labels.tolist())


def is_grey(file: Path) -> bool:
    with _open(file) as image:
        return _mode(image, file) in GREY


def read_images(
    folder: Path, names: Sequence[str], grey: bool, resizing: Resizing | None = None
) -> Tensor:
    """Read image files as (n, c, h, w) in [0,1], with one channel or three."""
    arrays: list[NDArray[np.uint8]] = []
    for name in names:
        with _open(folder / name) as image:
            arrays.append(pixels_of(image, folder / name, resizing, grey))
        check_same_size(arrays[-1].shape, arrays[0].shape, name, names[0])
    if not arrays:
        raise InputError("there are no images", expected="at least one")
    return unit_pixels(np.stack(arrays))


def read_image(file: Path, shape: Sequence[int], resizing: Resizing | None = None) -> Tensor:
    """Read one image file as (1, c, h, w) in [0,1], resized unless it has the size in `shape`."""
    grey = shape[0] == 1 and is_grey(file)
    if resizing is not None:
        with _open(file) as image:
            if pillow("ImageOps").exif_transpose(image).size == (shape[2], shape[1]):
                resizing = None
    return read_images(file.parent, [file.name], grey, resizing)


def _refused(name: str | Path, given: str, expected: str, remedy: str) -> FileError:
    return FileError(f"the image {name} {given}", expected=expected, remedy=remedy)


def check_same_size(shape: Sequence[int], first: Sequence[int], name: str, other: str) -> None:
    """Raise InputError unless the image `name` has the shape of the first image, `other`."""
    if tuple(shape) != tuple(first):
        size, known = f"{shape[-1]}x{shape[-2]}", f"{first[-1]}x{first[-2]}"
        remedy = f"give {mention('resize')} and {mention('crop')}, such as 256 and 224"
        given = f"the image {name} is {size}, but {other} is {known}"
        raise InputError(given, expected="one size for all", remedy=remedy)


def pixels_of(
    image: Image.Image, name: str | Path, resizing: Resizing | None, grey: bool
) -> NDArray[np.uint8]:
    """Return the pixels (c, h, w) of an image that messages call `name`."""
    _mode(image, name)
    frames = getattr(image, "n_frames", 1)
    if frames > 1 and image.format != "MPO":
        given = f"is animated, with {frames} frames"
        raise _refused(name, given, "a single image", "save one of its frames first")
    most, (width, height) = MAX_PIXELS if resizing is None else MAX_RESIZED, image.size
    if width * height > most:
        remedy = "resize it first" + (f", or give {mention('resize')}" if not resizing else "")
        raise _refused(name, f"has {width}x{height} pixels", f"at most {most:,} in all", remedy)
    image = pillow("ImageOps").exif_transpose(image)
    if image.mode in WITH_ALPHA or "transparency" in image.info:
        image = image.convert("RGBA")
        if image.getchannel("A").getextrema()[0] != OPAQUE:
            opaque, remedy = "an image that is opaque everywhere", "put it on a background first"
            raise _refused(name, "is transparent in places", opaque, remedy)
    elif image.mode == "P":
        image = image.convert("RGB")
    image = image.convert("L" if grey else "RGB")
    if resizing is not None:
        image = resizing.applied(image, name)
    array = np.array(image, np.uint8)
    return array[None] if array.ndim == 2 else np.ascontiguousarray(array.transpose(2, 0, 1))


@contextlib.contextmanager
def _open(file: Path) -> Iterator[Image.Image]:
    """Open an image without decoding it. Within the block, Pillow's errors become FileErrors."""
    with readable(file), warnings.catch_warnings():
        warnings.simplefilter("ignore", pillow().DecompressionBombWarning)
        with pillow().open(file, formats=FORMATS) as image:
            yield image


@contextlib.contextmanager
def readable(name: str | Path) -> Iterator[None]:
    too_large = pillow().DecompressionBombError
    try:
        yield
    except InputError:
        raise
    except too_large:  # above Pillow's own limit, which exceeds MAX_PIXELS
        given, expected = "has more pixels than can be read", f"at most {MAX_PIXELS:,}"
        raise _refused(name, given, expected, "resize it first") from None
    except Exception as error:  # Pillow raises many types for broken files
        raise FileError(f"the image {name} cannot be read: {in_a_line(error)}") from None


def _mode(image: Image.Image, name: str | Path) -> str:
    """Return the image's Pillow mode; raise FileError unless it has 8 bits per channel."""
    raw = [f"{tile[3]}" for tile in getattr(image, "tile", ())]  # e.g. RGB;16B
    deep = image.format != "BMP" and any(";16" in kind for kind in raw)
    if deep or image.mode not in EIGHT_BITS:
        given = f"has pixels of kind {(raw[0] if deep else image.mode)!r}"
        raise _refused(name, given, "8 bits per channel", "convert it first")
    return image.mode
