"""Resizing and cropping of image files to the size that a model takes.

1. An image is first resized and then cropped to its centre.
2. Pillow resizes 8-bit values and antialiases, as the preprocessing of torchvision, timm and
   transformers does. The longer side is rounded down, and the centre is computed as in torchvision.
3. Nothing is padded: a crop that is larger than the image is refused.
4. The user's sizes and class names take precedence over those in the model's configuration. Sizes
   all come from one of the two: a user's crop is not combined with the configuration's `resize`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ..core.preprocessing import Preprocessing
from ..core.validation import check_whole, require, shown
from ..errors import FileError, InputError, mention
from .classes import class_names
from .user_code import optional

if TYPE_CHECKING:
    from PIL import Image

INTERPOLATIONS = ("bilinear", "bicubic", "lanczos", "nearest", "box", "hamming")
LARGEST_SIDE = 4096
LONGEST_SIDE = 4 * LARGEST_SIDE
SMALLER_CROP = "a crop that is not larger than the image it is cut from"
Side = int | tuple[int, int]
"""A length in pixels, or a height and a width."""


@dataclass(frozen=True)
class Resizing:
    """The sizes to which image files are resized and cropped."""

    resize: Side | None = None
    """The new length of the shorter side, or a height and a width."""
    crop: Side | None = None
    """The size of the centre crop."""
    interpolation: str = "bilinear"

    @classmethod
    def of(
        cls, resize: Side | None, crop: Side | None, interpolation: str | None
    ) -> Resizing | None:
        """Return the resizing that a user specifies; None if no size is given."""
        if resize is None and interpolation is not None:
            given = f"is {shown(interpolation)}, but {mention('resize')} is not given"
            expected = "both, since only resizing interpolates"
            raise InputError(given, expected=expected, input="interpolation")
        if resize is None and crop is None:
            return None
        return cls(resize, crop, interpolation or cls.interpolation)

    def __post_init__(self) -> None:
        known = f"{', '.join(INTERPOLATIONS[:-1])} or {INTERPOLATIONS[-1]}"
        given = self.interpolation
        require(given in INTERPOLATIONS, "interpolation", given, known)
        for name in ("resize", "crop"):
            side = getattr(self, name)
            right = not isinstance(side, tuple) or len(side) == 2
            require(right, name, side, "one length, or a height and a width")
            for length in () if side is None else pair(side):
                check_whole(name, length, 1, LARGEST_SIDE)
        if self.resize is None or self.crop is None:
            return
        (height, width), sides = pair(self.crop), pair(self.resize)
        fits = height <= sides[0] and width <= sides[1]
        if isinstance(self.resize, int):  # the longer side may have any length
            fits = min(height, width) <= self.resize
        if not fits:
            large = f"is {_words(self.crop)}, but {mention('resize')} is {_words(self.resize)}"
            remedy = f"make {mention('resize')} larger, or the crop smaller"
            raise InputError(large, expected=SMALLER_CROP, remedy=remedy, input="crop")

    def __str__(self) -> str:
        """Return the words that follow "images are"."""
        steps = []
        if isinstance(self.resize, tuple):
            steps.append(f"stretched to {_words(self.resize)} ({self.interpolation})")
        elif self.resize is not None:
            steps.append(f"resized to {self.resize} on the shorter side ({self.interpolation})")
        if self.crop is not None:
            steps.append(f"cropped to {_words(pair(self.crop))}")
        return " and ".join(steps)

    def applied(self, image: Image.Image, name: str | Path) -> Image.Image:
        """Return the image at its new size. Messages call it `name`."""
        if self.resize is not None:
            width, height = image.size
            if isinstance(self.resize, int):
                rest = int(self.resize * max(width, height) / min(width, height))
                size = (self.resize, rest) if width <= height else (rest, self.resize)
            else:
                size = self.resize[1], self.resize[0]
            if max(size) > LONGEST_SIDE:
                given = f"the image {name} would be {size[0]}x{size[1]} when resized"
                expected = f"sides of at most {LONGEST_SIDE}"
                raise FileError(given, expected=expected, remedy="crop it first")
            filters = optional("PIL.Image", "images are resized with it", extra="cli").Resampling
            image = image.resize(size, filters[self.interpolation.upper()])
        if self.crop is None:
            return image
        height, width = pair(self.crop)
        if width > image.width or height > image.height:
            resized = " when resized" if self.resize is not None else ""
            found = f"{image.width}x{image.height}{resized}"
            given = f"is {_words(self.crop)}, but the image {name} is {found}"
            remedy = f"give {mention('resize')}, or a larger one"
            raise FileError(given, expected=SMALLER_CROP, remedy=remedy, input="crop")
        top, left = round((image.height - height) / 2), round((image.width - width) / 2)
        return image.crop((left, top, left + width, top + height))


def pair(side: Side) -> tuple[int, int]:
    return side if isinstance(side, tuple) else (side, side)


def _words(side: Side) -> str:
    return f"{side[1]}x{side[0]}" if isinstance(side, tuple) else f"{side}"


class ModelConfiguration(Protocol):
    """The configuration that a `Model` provides: class names and preprocessing, if known."""

    @property
    def names(self) -> tuple[str, ...] | None: ...

    @property
    def preprocessing(self) -> Preprocessing | None: ...


@dataclass(frozen=True)
class Preparation:
    """The user's sizes and class names, and the model whose configuration provides the rest."""

    given_resizing: Resizing | None = None
    names: tuple[str, ...] = ()
    """The names of the model's classes; empty if they are unknown."""
    model: ModelConfiguration | None = None
    own_names: bool = True
    """Whether the names come from the model's configuration."""

    @classmethod
    def of(
        cls,
        resizing: Resizing | None = None,
        names: str | PathLike[str] | Sequence[str] | None = None,
        model: ModelConfiguration | None = None,
    ) -> Preparation:
        """Check the arguments and read the class names. An empty list of names counts as None."""
        right = resizing is None or isinstance(resizing, Resizing)
        require(right, "resizing", resizing, "a tb.data.Resizing")
        right = model is None or hasattr(model, "names")
        require(right, "model", model, "a model, as from tb.models.load")
        if names is None or (isinstance(names, tuple | list) and not names):
            return cls(resizing, () if model is None else model.names or (), model)
        return cls(resizing, class_names(names).names, model, own_names=False)

    @property
    def resizing(self) -> Resizing | None:
        """The sizes that the user gave, otherwise those in the model's configuration."""
        own = None if self.model is None or self.given_resizing else self.model.preprocessing
        if own is None:
            return self.given_resizing
        try:
            interpolation = None if own.resize is None else own.interpolation
            return Resizing.of(own.resize, own.crop, interpolation)
        except InputError as error:
            sizes = "the sizes in the model's configuration cannot be used"
            remedy = f"give {mention('resize')} and {mention('crop')}"
            given = f"{sizes}: its {error.input} {error.given}"
            raise InputError(given, remedy=remedy) from None
