"""Kinds of values in a study file: how each is read, checked and described.

`read` returns the value of an item of the file, and refuses another type of value. `check` refuses
a value that is out of range, wherever it was given: in the file, in Python or on the command line.
This module imports neither torch nor numpy.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..core.validation import check_seed, check_whole, require
from ..data.classes import flagged_classes
from ..data.resizing import Side
from ..data.user_code import is_function
from ..errors import InputError
from .toml import Item

MODEL = "a model file, a name such as hf:microsoft/resnet-50, or module:function"
DIGITS = 32
"""Number of hexadecimal digits of a content hash and of a digest of images."""


def is_hash(text: str) -> bool:
    """Return whether a text has the form of a content hash, in lower case."""
    return len(text) == DIGITS and set(text) <= set(string.digits + "abcdef")


@dataclass(frozen=True)
class Kind:
    """The reader, check, writer and description of one kind of value."""

    words: str
    """Name of the kind on the reference page."""
    read: Callable[[Item], Any]
    """Return the value of an item; raise FileError if it is of another type."""
    example: str
    """Example value in TOML syntax."""
    expected: str = ""
    """Name of the kind in messages."""
    check: Callable[[str, Any], None] = lambda *_: None
    """Raise InputError if the argument of this name cannot have this value."""
    write: Callable[[Any], Any] = lambda value: value
    """Return a value from which `read` makes an equal one."""
    is_whole: bool = False
    """Whether every value is a whole number, so that an option takes no other."""


FLAG = Kind("true or false", Item.flag, "true")


def called(example: str) -> Kind:
    return Kind("text", Item.name, f'"{example}"')


def text(example: str, expected: str) -> Kind:
    return Kind("text", lambda item: item.text(f"{expected}, in quotes"), f'"{example}"', expected)


def number(example: str, expected: str = "a number") -> Kind:
    return Kind("a number", lambda item: item.number(expected), example, expected)


def whole(example: str, least: int, most: float = math.inf) -> Kind:
    check = partial(check_whole, least=least, most=most)
    return Kind("a whole number", Item.whole, example, check=check, is_whole=True)


def cap(example: str) -> Kind:
    """Return the kind of a cap on queries, answers or alarms; `Limits` and `Detection` check it."""

    def read(item: Item) -> float:
        expected = "a whole number of 1 or more, or inf for no cap"
        return math.inf if item.value == math.inf else item.whole(expected)

    return Kind("a whole number, or inf", read, example, write=int, is_whole=True)


def choice(example: str, options: Sequence[str]) -> Kind:
    expected = f"{', '.join(options[:-1])} or {options[-1]}"

    def check(name: str, value: Any) -> None:
        require(value in options, name, value, expected)

    return replace(text(example, expected), check=check)


def file_path(example: str, expected: str, *kinds: str) -> Kind:
    """Return the kind of a path, from the study file's folder, to a file or to one of `kinds`."""
    read = partial(Item.path, expected=expected, kinds=kinds or ("file",))
    return Kind("a path", read, f'"{example}"', expected)


def _images(item: Item) -> str:
    """Return the path of a folder or file, or module:function, which has the form of a path."""
    given = item.text(f"{IMAGES.expected}, in quotes")
    if not is_function(given) or item.kind_at(item.source.folder / given) != "nothing":
        item.path(IMAGES.expected, ("file", "folder"))
    return given


IMAGES = Kind(
    "a path, or module:function",
    _images,
    '"images"',
    "a folder of images, an .npz file, or module:function",
)


def per_channel(example: str, expected: str, allowed: Callable[[float], bool]) -> Kind:
    """Return the kind of a number, or one for each channel; a single number is a tuple of one."""

    def read(item: Item) -> tuple[float, ...]:
        each = item.entries("[0.5, 0.5, 0.5], or a number") if item.is_list else [item]
        words = expected if item.is_list else f"{expected}, or a list of one per channel"
        for one in each:
            if not allowed(one.number(words)):
                raise one.wrong(words)
        return tuple(float(one.value) for one in each)

    def write(values: tuple[float, ...]) -> Any:
        return values[0] if len(values) == 1 else values

    return Kind("a number, or one for each channel", read, example, expected, write=write)


MEAN = per_channel("[0.485, 0.456, 0.406]", "a finite number", math.isfinite)
STD = per_channel(
    "[0.229, 0.224, 0.225]", "a finite number above 0", lambda value: 0 < value < math.inf
)


def side(example: str) -> Kind:
    """Return the kind of a length, or a height and a width; `Resizing` checks them."""

    def read(item: Item) -> Side:
        if not item.is_list:
            return item.whole("a whole number, or a list of height and width")
        return tuple(one.whole() for one in item.entries("[224, 224]"))  # type: ignore[return-value]

    return Kind("a whole number, or height and width", read, example)


def for_each(kind: Kind) -> Kind:
    """Return the kind of a value for all networks, or of a list of lists with one for each."""

    def read(item: Item) -> Any:
        if item.is_list and any(isinstance(one, list) for one in item.value):
            return tuple(kind.read(one) for one in item.entries(f"[{kind.example}]"))
        return kind.read(item)

    def write(value: Any) -> Any:
        nested = isinstance(value, tuple) and any(isinstance(one, tuple) for one in value)
        return value if nested else kind.write(value)

    return replace(kind, read=read, write=write)


def _check_digest(name: str, digest: str) -> None:
    expected = f"{DIGITS} hexadecimal digits, as the digest of the images is written"
    require(is_hash(digest), name, digest, expected)


DIGEST = Kind(
    "text", lambda item: item.text().lower(), f'"{"0123456789abcdef" * 2}"', check=_check_digest
)


def _classes(item: Item) -> tuple[frozenset[int], Path | None]:
    """Return classes, and the file that lists them, if there is one."""
    if item.is_list:
        return frozenset(one.whole() for one in item.entries("flagged = [151, 152]")), None
    expected = "a list of classes, or a file with one in each line, as a path in quotes"
    file = item.source.folder / item.text(expected)
    return flagged_classes(file), file


CLASSES = Kind("a path, or a list of classes", _classes, "[3, 5]")


def _check_seeds(name: str, seeds: tuple[int, ...]) -> None:
    for place, seed in enumerate(seeds):
        check_seed("seed", seed)
        if seed in seeds[:place]:
            twice = f"has {seed} twice"
            raise InputError(twice, expected="each once", remedy="leave one out", input=name)


SEEDS = Kind(
    "a list of whole numbers",
    lambda item: tuple(one.whole() for one in item.entries("seeds = [0, 1, 2]")),
    "[0, 1, 2]",
    check=_check_seeds,
)
PRICE = (
    "a number that is 0 or more, inf, or the path of a CSV with the columns class and price, or "
    "flagged and price"
)


def _ratio(item: Item) -> float | str:
    """Return c*, or the path of a CSV file of prices, which must exist."""
    if not isinstance(item.value, str):
        return item.number(PRICE)
    given = item.text(PRICE)
    if item.is_quoted_number:
        raise item.wrong(f"{PRICE}; write a number without quotes")
    item.path(PRICE)
    return given


RATIO = Kind("a number, inf, or a path", _ratio, "100", PRICE)


SOURCES = Kind(
    "text, or a list of texts",
    lambda item: item.entries('["net.pt2", "other.pt2"]') if item.is_list else [item],
    '"net.pt2"',
    MODEL,
)
PRICES = Kind("a list of numbers, paths and tables", lambda item: item, "[1, 100]")
SURROGATE = Kind("text, a list of texts, or a table", lambda item: item, '"net.pt2"')
