"""Pictures of any size, made as large as a model takes them.

1. `resize` brings the shorter side to so many pixels and keeps the shape; as a pair it is the
   height and width to which a picture is stretched. `crop` then cuts out the middle, a square or a
   height and width.
2. Pillow does it, on 8-bit values, with its filters: a picture that becomes smaller is smoothed
   (antialiased), as torchvision's, timm's and transformers' own preprocessing of pictures does.
   The longer side is rounded down, and the middle is where torchvision has it.
3. Nothing is padded: a crop that is larger than the picture is refused.

How images are made ready for a model: how large pictures become, and what classes are called.

1. What the user says holds. Where the user says nothing the model's own configuration does, and
   where there is none pictures stay as they are, and classes are called as the images' folders are.
2. What the user says of sizes holds as a whole: a crop alone is not joined with the configuration's
   size.
3. Of arrays a configuration says nothing: only pictures are resized.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..core.preprocessing import Preprocessing
from ..core.validation import check_whole, shown
from ..errors import FileError, InputError, mention
from .classes import class_names
from .user_code import optional

if TYPE_CHECKING:
    from PIL import Image


INTERPOLATIONS = ("bilinear", "bicubic", "lanczos", "nearest", "box", "hamming")
LARGEST_SIDE = 4096
Side = int | tuple[int, int]
"""A length in pixels, or a height and a width."""


@dataclass(frozen=True)
class Resizing:
    """How pictures get the size that a model takes."""

    resize: Side | None = None
    """Of the shorter side; a pair is the height and width to which a picture is stretched."""
    crop: Side | None = None
    """What is cut out of the middle."""
    interpolation: str = "bilinear"

    @classmethod
    def of(
        cls, resize: Side | None, crop: Side | None, interpolation: str | None
    ) -> Resizing | None:
        """What a user says of it, with None for what is not said; None if nothing is done."""
        if resize is None and interpolation is not None:
            raise InputError(
                f"is {shown(interpolation)}, and {mention('resize')} is not given",
                expected="both, since nothing else is interpolated",
                input="interpolation",
            )
        if resize is None and crop is None:
            return None
        return cls(resize, crop, interpolation or cls.interpolation)

    def __post_init__(self) -> None:
        if self.interpolation not in INTERPOLATIONS:
            raise InputError(
                f"is {shown(self.interpolation)}",
                expected=f"{', '.join(INTERPOLATIONS[:-1])} or {INTERPOLATIONS[-1]}",
                input="interpolation",
            )
        for name in ("resize", "crop"):
            _check_side(name, getattr(self, name))
        if self.resize is None or self.crop is None:
            return
        height, width = pair(self.crop)
        if isinstance(self.resize, int):  # of the shorter side; the longer may be any length
            fits = min(height, width) <= self.resize
        else:
            fits = height <= self.resize[0] and width <= self.resize[1]
        if not fits:
            raise InputError(
                f"is {_words(self.crop)}, and {mention('resize')} is {_words(self.resize)}",
                expected="a crop that is not larger than the picture it is cut from",
                remedy=f"make {mention('resize')} larger, or the crop smaller",
                input="crop",
            )

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Resizing:
        """What was written, with lists for pairs."""
        resize, crop = (values[key] for key in ("resize", "crop"))
        return cls(
            tuple(resize) if isinstance(resize, list) else resize,
            tuple(crop) if isinstance(crop, list) else crop,
            values["interpolation"],
        )

    def __str__(self) -> str:
        """As a sentence has it, after "pictures are"."""
        steps = []
        if isinstance(self.resize, tuple):
            steps.append(f"stretched to {_words(self.resize)} ({self.interpolation})")
        elif self.resize is not None:
            steps.append(f"resized to {self.resize} on the shorter side ({self.interpolation})")
        if self.crop is not None:
            steps.append(f"cropped to {_words(pair(self.crop))}")
        return " and ".join(steps)

    def applied(self, picture: Image.Image, name: str | Path) -> Image.Image:
        """The picture at its new size; `name` is what messages call it."""
        if self.resize is not None:
            width, height = picture.size
            if isinstance(self.resize, int):
                short, long = min(width, height), max(width, height)
                rest = int(self.resize * long / short)
                size = (self.resize, rest) if width <= height else (rest, self.resize)
            else:
                size = self.resize[1], self.resize[0]
            _check_long(size, name)
            filters = optional("PIL.Image", "pictures are resized with it", extra="cli").Resampling
            picture = picture.resize(size, filters[self.interpolation.upper()])
        return picture if self.crop is None else self._cropped(picture, self.crop, name)

    def _cropped(self, picture: Image.Image, crop: Side, name: str | Path) -> Image.Image:
        height, width = pair(crop)
        if width > picture.width or height > picture.height:
            raise FileError(
                f"is {_words(crop)}, and the image {name} is {picture.width}x{picture.height}"
                f"{' when it is resized' if self.resize is not None else ''}",
                expected="a crop that is not larger than the picture it is cut from",
                remedy=f"give {mention('resize')}, or a larger one",
                input="crop",
            )
        top, left = round((picture.height - height) / 2), round((picture.width - width) / 2)
        return picture.crop((left, top, left + width, top + height))


def _check_side(name: str, side: Side | None) -> None:
    """Raise InputError unless it is a length, or two."""
    if side is None:
        return
    if isinstance(side, tuple) and len(side) != 2:
        raise InputError(
            f"is {shown(side)}", expected="one length, or a height and a width", input=name
        )
    for length in side if isinstance(side, tuple) else (side,):
        check_whole(name, length, 1, LARGEST_SIDE)


def _check_long(size: tuple[int, int], name: str | Path) -> None:
    """Raise FileError for a picture so long that its longer side could not be held."""
    if max(size) > LARGEST_SIDE * 4:
        raise FileError(
            f"the image {name} would be {size[0]}x{size[1]} when it is resized",
            expected=f"sides of at most {LARGEST_SIDE * 4}",
            remedy="crop it first",
        )


def pair(side: Side) -> tuple[int, int]:
    """Height and width."""
    return side if isinstance(side, tuple) else (side, side)


def _words(side: Side) -> str:
    """A length, or width x height as sizes of pictures are told."""
    return f"{side[1]}x{side[0]}" if isinstance(side, tuple) else f"{side}"


class Configured(Protocol):
    """What may bring a configuration along, such as a `Model`."""

    @property
    def names(self) -> tuple[str, ...] | None:
        """Of its classes, in order."""

    @property
    def preprocessing(self) -> Preprocessing | None:
        """How pictures become images for it."""


@dataclass(frozen=True)
class Preparation:
    """What the user says, and the model whose configuration says the rest."""

    given_resizing: Resizing | None = None
    given_names: tuple[str, ...] = ()
    model: Configured | None = None

    @classmethod
    def of(
        cls,
        resizing: Resizing | None = None,
        names: str | PathLike[str] | Sequence[str] | None = None,
        model: Configured | None = None,
    ) -> Preparation:
        """With names from a file, or as a list; without any if that is empty."""
        if resizing is not None and not isinstance(resizing, Resizing):
            raise InputError(f"is {shown(resizing)}", expected="a Resizing", input="resizing")
        if model is not None and not hasattr(model, "names"):
            raise InputError(
                f"is {shown(model)}", expected="a model, as of tb.models.load", input="model"
            )
        if names is None or (isinstance(names, tuple | list) and not names):
            return cls(resizing, model=model)
        return cls(resizing, class_names(names).names, model)

    @property
    def names(self) -> tuple[str, ...]:
        """Those of the model's classes, as far as they are known."""
        own = () if self.model is None else self.model.names or ()
        return self.given_names or own

    @property
    def own_names(self) -> bool:
        """Whether these are from the model's configuration."""
        return not self.given_names

    @property
    def resizing(self) -> Resizing | None:
        """What happens to pictures."""
        own = None if self.model is None or self.given_resizing else self.model.preprocessing
        if own is None:
            return self.given_resizing
        try:
            resized = own.resize is not None
            return Resizing.of(own.resize, own.crop, own.interpolation if resized else None)
        except InputError as error:
            raise InputError(
                f"the model's own configuration cannot be followed: its {error.input} "
                f"{error.given}",
                remedy=f"give {mention('resize')} and {mention('crop')}",
            ) from None
