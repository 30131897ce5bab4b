"""Values from the text that a user types, and the options that arguments belong to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from cyclopts import Token

from ..data.resizing import Side
from ..data.tables import shortened
from ..errors import InputError

OPTIONS = {"path": "--images", "prices": "--price"}
"""Options that are not called like the argument."""


def as_option(name: str) -> str:
    """Return the option of an argument: --batch-size for `batch_size`."""
    return OPTIONS.get(name, f"--{name.replace('_', '-')}")


def whole(kind: Any, tokens: Sequence[Token]) -> int:  # noqa: ARG001
    """Convert a whole number for cyclopts; never round."""
    text = tokens[0].value
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"it is {shortened(text)!r}: expected a whole number.") from None


def within(name: str, value: float | None, least: float, most: float = math.inf) -> None:
    """Raise InputError unless the value is None or from `least` to `most`."""
    if value is not None and not least <= value <= most:
        expected = f"{least} or more" if math.isinf(most) else f"{least} to {most}"
        raise InputError(f"is {value}", expected=expected, input=name)


def seconds(value: float | None) -> float:
    """Return a time limit; infinite for None."""
    if value is not None and not value > 0:
        raise InputError(f"is {value:g}", expected="seconds, more than 0", input="time_limit")
    return math.inf if value is None else value


def numbers(name: str, text: str | None) -> tuple[float, ...] | None:
    """Return the numbers of '0.5' or '0.485,0.456,0.406'."""
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        expected = "a number, or numbers separated by commas, one per channel"
        raise InputError(f"is {text!r}", expected=expected, input=name) from None


def side(name: str, text: str | None) -> Side | None:
    """Return the length of '224', or the height and width of '48,192'."""
    if text is None:
        return None
    try:
        lengths = [int(part) for part in text.split(",")]
    except ValueError:
        lengths = []
    if len(lengths) not in (1, 2):
        expected = "a whole number, or a height and a width separated by a comma"
        raise InputError(f"is {shortened(text)!r}", expected=expected, input=name)
    return lengths[0] if len(lengths) == 1 else (lengths[0], lengths[1])


def price(text: str) -> float | str:
    """Return c*, or the path of a CSV."""
    try:
        return float(text)
    except ValueError:
        return text
