"""Kinds of values in a study file: how each is read, checked and described.

`read` refuses a value of the wrong kind with the line and the key; `check` refuses a value that was
given in Python or on the command line. This module imports neither torch nor numpy.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.metric import norm_of
from ..core.validation import check_whole, shown
from ..data.classes import flagged_classes
from ..data.resizing import LARGEST_SIDE, Side
from ..data.tables import LARGEST
from ..data.user_code import is_function
from ..errors import InputError
from .toml import Item

DIGITS = 32
"""Number of hexadecimal digits of a content hash and of a digest of images."""


def is_hash(text: str) -> bool:
    """Return whether a text has the form of a content hash, in lower case."""
    return len(text) == DIGITS and set(text) <= set(string.digits + "abcdef")


@dataclass(frozen=True)
class Kind:
    """A kind of value."""

    words: str
    """What it is called on the reference page."""
    read: Callable[[Item], Any]
    """Return the value of an item of the file; raise FileError if it is of another kind."""
    expected: str = ""
    """What it is called in messages."""
    check: Callable[[str, Any], None] = lambda *_: None
    """Raise InputError if the argument of this name cannot have this value."""
    write: Callable[[Any], Any] = lambda value: value
    """Return a value from which `read` makes an equal one."""
    is_whole: bool = False
    """Whether every value is a whole number, so that an option takes no other."""


NAME = Kind("text", Item.name)
FLAG = Kind("true or false", Item.flag)


def text(expected: str) -> Kind:
    return Kind("text", lambda item: item.text(f"{expected}, in quotes"), expected)


def number(expected: str = "a number") -> Kind:
    return Kind("a number", lambda item: item.number(expected), expected)


def whole(least: int = -LARGEST, most: int = LARGEST) -> Kind:
    highest = math.inf if most == LARGEST and least >= 0 else most
    return Kind(
        "a whole number",
        lambda item: item.whole(least, most),
        check=lambda name, value: check_whole(name, value, least, highest),
        is_whole=True,
    )


def _cap(item: Item) -> float:
    if item.value == math.inf:
        return math.inf
    return item.whole(1, expected="a whole number of 1 or more, or inf for no cap")


CAP = Kind("a whole number, or inf", _cap, write=int, is_whole=True)


def choice(options: tuple[str, ...]) -> Kind:
    listed = f"{', '.join(options[:-1])} or {options[-1]}"

    def read(item: Item) -> str:
        if (value := item.text(f"{listed}, in quotes")) not in options:
            raise item.wrong(f"{listed}, in quotes")
        return value

    def check(name: str, value: Any) -> None:
        if value not in options:
            raise InputError(f"is {shown(value)}", expected=listed, input=name)

    return Kind("text", read, listed, check)


def _norm(item: Item) -> Any:
    try:
        return norm_of(item.value)
    except InputError as error:
        raise item.wrong(error.expected) from None


NORM = Kind("text", _norm)


def file_path(expected: str, *kinds: str) -> Kind:
    """Return a path from the folder of the study file, to a file or to one of `kinds`."""
    return Kind("a path", lambda item: item.path(expected, kinds or ("file",)), expected)


def images_path(expected: str) -> Kind:
    """Return a path to a folder or file, or module:function, which has the form of a path."""

    def read(item: Item) -> Path:
        given = item.text(f"{expected}, as a path in quotes")
        found = item.kind_at(item.source.folder / given)
        exists = found in ("file", "folder") or (found == "nothing" and is_function(given))
        if item.source.files and not exists:
            raise item.missing(item.source.folder / given, expected)
        return item.source.folder / given

    return Kind("a path, or module:function", read, expected)


def per_channel(expected: str, allowed: Callable[[float], bool] = math.isfinite) -> Kind:
    """Return a number, or one for each channel; a single number is a tuple of one."""

    def read(item: Item) -> tuple[float, ...]:
        several = isinstance(item.value, list)
        each = item.entries("[0.5, 0.5, 0.5], or a number") if several else [item]
        words = expected if several else f"{expected}, or a list of one per channel"
        values = tuple(one.number(words) for one in each)
        for one, value in zip(each, values, strict=True):
            if not allowed(value):
                raise one.wrong(words)
        return values

    def write(values: tuple[float, ...]) -> Any:
        return values[0] if len(values) == 1 else values

    return Kind("a number, or one for each channel", read, expected, write=write)


MEAN = per_channel("a finite number")
STD = per_channel("a finite number above 0", lambda value: 0 < value < math.inf)


def _side(item: Item) -> Side:
    expected = f"a whole number from 1 to {LARGEST_SIDE}, or a list of height and width"
    if not isinstance(item.value, list):
        return item.whole(1, LARGEST_SIDE, expected)
    if len(item.value) != 2:
        raise item.wrong(expected)
    height, width = (one.whole(1, LARGEST_SIDE) for one in item.entries("[224, 224]"))
    return height, width


SIDE = Kind("a whole number, or height and width", _side)


def _digest(item: Item) -> str:
    expected = f"{DIGITS} hexadecimal digits, as the digest of the images is written"
    if not is_hash(digest := item.text(expected).lower()):
        raise item.wrong(expected)
    return digest


DIGEST = Kind("text", _digest)


def _classes(item: Item) -> tuple[frozenset[int], Path | None]:
    """Return classes, and the file that lists them, if there is one."""
    if isinstance(item.value, list):
        return frozenset(one.whole(0) for one in item.entries("flagged = [151, 152]")), None
    expected = "a list of classes, or a file with one in each line, as a path in quotes"
    file = item.source.folder / item.text(expected)
    return flagged_classes(file), file


CLASSES = Kind("a path, or a list of classes", _classes)


def _seeds(item: Item) -> tuple[int, ...]:
    each = item.entries("seeds = [0, 1, 2]")
    seeds = tuple(one.whole() for one in each)
    for place, seed in enumerate(seeds):
        if seed in seeds[:place]:
            raise each[place].error(f"seeds has {seed} twice: expected each once; leave one out.")
    return seeds


def _check_seeds(_: str, seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        check_whole("seed", seed, -LARGEST, LARGEST)


SEEDS = Kind("a list of whole numbers", _seeds, check=_check_seeds)
PRICE = (
    "a number that is 0 or more, inf, or the path of a CSV with the columns class and price, or "
    "flagged and price"
)


def _ratio(item: Item) -> float | str:
    """Return c*, or the path of a CSV file of prices, which exists."""
    if not isinstance(item.value, str):
        return item.number(PRICE)
    given = item.text(PRICE)
    try:
        float(given)
    except ValueError:
        if item.kind_at(item.source.folder / given) != "file":
            raise item.missing(item.source.folder / given, PRICE) from None
        return given
    raise item.wrong(f"{PRICE}; write a number without quotes")


RATIO = Kind("a number, inf, or a path", _ratio, PRICE)


def sources(expected: str) -> Kind:
    """Return the items of one or more sources of models."""

    def read(item: Item) -> tuple[Item, ...]:
        several = isinstance(item.value, list)
        return tuple(item.entries('["net.pt2", "other.pt2"]') if several else [item])

    return Kind("text, or a list of texts", read, expected)


PRICES = Kind("a list of numbers, paths and tables", lambda item: item)
SURROGATE = Kind("text, a list of texts, or a table", lambda item: item)
