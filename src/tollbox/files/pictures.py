"""Picture files, by Pillow.

1. Pictures have 8 bits a channel; deeper ones are refused, since Pillow would cut some to 8 bits.
2. They are read as grey or as RGB: palettes are resolved. Nothing is resized or cropped; a picture
   is turned only as its EXIF orientation says, so that it is read as viewers show it.
3. A picture that is transparent anywhere is refused: what it shows depends on what is behind it.
4. A picture of more than `MOST_PIXELS` is refused before it is decoded.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import FileError, InputError
from .packages import optional
from .tables import in_a_line

if TYPE_CHECKING:
    from PIL import Image

READING = "picture files are read with it"
SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".webp"})
GREY = frozenset({"1", "L"})
WITH_ALPHA = frozenset({"LA", "PA", "RGBA"})
EIGHT_BITS = GREY | WITH_ALPHA | {"P", "RGB", "RGBX", "CMYK", "YCbCr", "HSV", "LAB"}


MOST_PIXELS = 4096 * 4096
OPAQUE = 255


def is_grey(file: Path) -> bool:
    """Whether a picture has one channel, and no alpha."""
    with _opened(file) as picture:
        return _mode(picture, file) in GREY


def read_pictures(folder: Path, names: Sequence[str], grey: bool) -> Tensor:
    """(n, c, h, w) in [0,1], with one channel or three."""
    pixels: Tensor | None = None
    for row, name in enumerate(names):
        array = _read(folder / name, grey)
        if pixels is None:
            pixels = torch.empty((len(names), *array.shape), dtype=torch.float32)
        if array.shape != pixels.shape[1:]:
            raise InputError(
                f"the image {name} is {_size(array.shape)}, but {names[0]} is "
                f"{_size(tuple(pixels.shape[1:]))}",
                expected="one size for all",
                remedy="resize them first",
            )
        pixels[row] = torch.from_numpy(array)
    if pixels is None:
        raise InputError("there are no images", expected="at least one")
    return pixels.div_(255)


def read_picture(file: Path, channels: int) -> Tensor:
    """(1, c, h, w) in [0,1]: grey if one channel is asked for and the picture has no more."""
    return read_pictures(file.parent, [file.name], grey=channels == 1 and is_grey(file))


def _read(file: Path, grey: bool) -> NDArray[np.uint8]:
    """(c, h, w)."""
    with _opened(file) as picture:
        _mode(picture, file)
        _check_size(picture, file)
        turned = optional("PIL.ImageOps", READING, extra="cli").exif_transpose(picture)
        if turned.mode in WITH_ALPHA or "transparency" in turned.info:
            turned = turned.convert("RGBA")
            _check_opaque(turned, file)
        elif turned.mode == "P":
            turned = turned.convert("RGB")
        array = np.array(turned.convert("L" if grey else "RGB"), np.uint8)
    return array[None] if array.ndim == 2 else np.ascontiguousarray(array.transpose(2, 0, 1))


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[Image.Image]:
    """The picture, not decoded yet; whatever Pillow raises meanwhile is a FileError."""
    pillow = optional("PIL.Image", READING, extra="cli")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pillow.DecompressionBombWarning)
            with pillow.open(file) as picture:
                yield picture
    except FileError:
        raise
    except pillow.DecompressionBombError:  # far above MOST_PIXELS; Pillow does not say how far
        raise FileError(
            f"the image {file} has more pixels than can be read",
            expected=f"at most {MOST_PIXELS:,}",
            remedy="resize it first",
        ) from None
    except Exception as error:  # Pillow raises many kinds for broken files
        raise FileError(f"the image {file} cannot be read: {in_a_line(error)}") from None


def _mode(picture: Image.Image, file: Path) -> str:
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


def _check_size(picture: Image.Image, file: Path) -> None:
    width, height = picture.size
    if width * height > MOST_PIXELS:
        raise FileError(
            f"the image {file} has {width}x{height} pixels",
            expected=f"at most {MOST_PIXELS:,} in all",
            remedy="resize it first",
        )


def _check_opaque(picture: Image.Image, file: Path) -> None:
    least, _ = picture.getchannel("A").getextrema()
    if least != OPAQUE:
        raise FileError(
            f"the image {file} is transparent in places",
            expected="an image that is opaque everywhere",
            remedy="put it on a background first",
        )


def _size(shape: tuple[int, ...]) -> str:
    return f"{shape[-1]}x{shape[-2]}"
