"""Kinds of values in a study file: how each is read, checked, written and described.

`read` refuses a value of the wrong kind with the line and the key; `check` refuses a value that was
given in Python or on the command line. This module imports neither torch nor numpy.
"""

from __future__ import annotations

import math
import string
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ..core.metric import norm_of
from ..core.validation import check_whole, shown
from ..data.classes import flagged_classes
from ..data.resizing import LARGEST_SIDE, Side
from ..data.tables import LARGEST
from ..errors import InputError
from .toml import Item

DIGITS = 32
"""Number of hexadecimal digits of a content hash and of a digest of images."""


def is_hash(text: str) -> bool:
    """Return whether a text has the form of a content hash, in lower case."""
    return len(text) == DIGITS and set(text) <= set(string.digits + "abcdef")


@dataclass(frozen=True)
class Kind:
    """A kind of value; `expected` describes it in messages, `words` on the reference page."""

    words: ClassVar[str] = "text"
    expected: str = "text in quotes"

    def read(self, item: Item) -> Any:
        """Return the value of an item of the file; raise FileError if it is of another kind."""
        return item.text(self.expected)

    def check(self, name: str, value: Any) -> None:
        """Raise InputError if the argument `name` cannot have this value."""

    def write(self, value: Any) -> Any:
        """Return a value from which `read` returns an equal one."""
        return value


class Name(Kind):
    """What a study, a model, an attack or a price is called."""

    def read(self, item: Item) -> str:
        return item.name()


class Quoted(Kind):
    """Text whose form the reader of its table checks."""

    def read(self, item: Item) -> str:
        return item.text(f"{self.expected}, in quotes")


class Flag(Kind):
    words = "true or false"

    def read(self, item: Item) -> bool:
        return item.flag()


@dataclass(frozen=True)
class Number(Kind):
    words = "a number"
    expected: str = "a number"

    def read(self, item: Item) -> float:
        return item.number(self.expected)


@dataclass(frozen=True)
class Whole(Kind):
    words = "a whole number"
    least: int = -LARGEST
    most: int = LARGEST

    def read(self, item: Item) -> int:
        return item.whole(self.least, self.most)

    def check(self, name: str, value: Any) -> None:
        unlimited = self.most == LARGEST and self.least >= 0
        check_whole(name, value, self.least, math.inf if unlimited else self.most)


class Cap(Kind):
    """A maximum number of something; infinite for no limit."""

    words = "a whole number, or inf"

    def read(self, item: Item) -> float:
        if item.value == math.inf:
            return math.inf
        return item.whole(1, expected="a whole number of 1 or more, or inf for no cap")

    def write(self, value: float) -> float:
        return int(value) if math.isfinite(value) else value


@dataclass(frozen=True)
class Choice(Kind):
    options: tuple[str, ...] = ()

    def read(self, item: Item) -> str:
        value = item.text(f"{self._listed}, in quotes")
        if value not in self.options:
            raise item.wrong(f"{self._listed}, in quotes")
        return value

    def check(self, name: str, value: Any) -> None:
        if value not in self.options:
            raise InputError(f"is {shown(value)}", expected=self._listed, input=name)

    @property
    def _listed(self) -> str:
        return f"{', '.join(self.options[:-1])} or {self.options[-1]}"


class Norm(Kind):
    def read(self, item: Item) -> Any:
        try:
            return norm_of(item.value)
        except InputError as error:
            raise item.wrong(error.expected) from None

    def check(self, name: str, value: Any) -> None:  # noqa: ARG002
        norm_of(value)


@dataclass(frozen=True)
class PathTo(Kind):
    """A path, relative to the folder of the study file, at which there is one of `kinds`."""

    words = "a path"
    kinds: tuple[str, ...] = ("file",)

    def read(self, item: Item) -> Path:
        return item.path(self.expected, self.kinds)


class ImagesPath(Kind):
    """A path, or module:function; the reader of [images] finds out which."""

    words = "a path, or module:function"

    def read(self, item: Item) -> Path:
        return item.source.folder / item.text(f"{self.expected}, as a path in quotes")


@dataclass(frozen=True)
class PerChannel(Kind):
    """A number, or one for each channel; a single number is a tuple of one."""

    words = "a number, or one for each channel"
    positive: bool = False

    def read(self, item: Item) -> tuple[float, ...]:
        expected = "a finite number above 0" if self.positive else "a finite number"
        several = isinstance(item.value, list)
        each = item.entries("[0.5, 0.5, 0.5], or a number") if several else [item]
        expected += "" if several else ", or a list of one per channel"
        values = tuple(one.number(expected) for one in each)
        for one, value in zip(each, values, strict=True):
            if not math.isfinite(value) or (self.positive and value <= 0):
                raise one.wrong(expected)
        return values

    def write(self, value: tuple[float, ...]) -> Any:
        return value[0] if len(value) == 1 else value


class Sides(Kind):
    """A length in pixels, or a height and a width."""

    words = "a whole number, or height and width"

    def read(self, item: Item) -> Side:
        expected = f"a whole number from 1 to {LARGEST_SIDE}, or a list of height and width"
        if not isinstance(item.value, list):
            return item.whole(1, LARGEST_SIDE, expected)
        if len(item.value) != 2:
            raise item.wrong(expected)
        height, width = (one.whole(1, LARGEST_SIDE) for one in item.entries("[224, 224]"))
        return height, width


class Digest(Kind):
    def read(self, item: Item) -> str:
        expected = f"{DIGITS} hexadecimal digits, as the digest of the images is written"
        digest = item.text(expected).lower()
        if not is_hash(digest):
            raise item.wrong(expected)
        return digest


class Classes(Kind):
    """Classes: a set of numbers, together with the file that lists them, if there is one."""

    words = "a path, or a list of classes"

    def read(self, item: Item) -> tuple[frozenset[int], Path | None]:
        if isinstance(item.value, list):
            return frozenset(one.whole(0) for one in item.entries("flagged = [151, 152]")), None
        expected = "a list of classes, or a file with one in each line, as a path in quotes"
        file = item.source.folder / item.text(expected)
        return flagged_classes(file), file


class Seeds(Kind):
    words = "a list of whole numbers"

    def read(self, item: Item) -> tuple[int, ...]:
        each = item.entries("seeds = [0, 1, 2]")
        seeds = tuple(one.whole() for one in each)
        for place, seed in enumerate(seeds):
            if seed in seeds[:place]:
                raise each[place].error(
                    f"seeds has {seed} twice: expected each once; leave one out."
                )
        return seeds

    def check(self, name: str, value: Any) -> None:
        for seed in value:
            check_whole(name.removesuffix("s"), seed, -LARGEST, LARGEST)


@dataclass(frozen=True)
class Ratio(Kind):
    """c*: a number that is 0 or more, or the path of a CSV file of prices."""

    words = "a number, inf, or a path"
    expected: str = (
        "a number that is 0 or more, inf, or the path of a CSV with the columns class and price, "
        "or flagged and price"
    )

    def read(self, item: Item) -> float | str:
        if not isinstance(item.value, str):
            return item.number(self.expected)
        text = item.text(self.expected)
        try:
            float(text)
        except ValueError:
            if item.kind_at(item.source.folder / text) != "file":
                raise item.missing(item.source.folder / text, self.expected) from None
            return text
        raise item.wrong(f"{self.expected}; write a number without quotes")


class PriceList(Kind):
    """The prices of a study; the reader of the study makes them."""

    words = "a list of numbers, paths and tables"


class Surrogates(Kind):
    """One or more networks; the reader of the attack makes them."""

    words = "text, a list of texts, or a table"


class Sources(Kind):
    words = "text, or a list of texts"

    def read(self, item: Item) -> tuple[Item, ...]:
        several = isinstance(item.value, list)
        return tuple(item.entries('["net.pt2", "other.pt2"]') if several else [item])
