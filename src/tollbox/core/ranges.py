"""Ranges: what the numbers of a part may be, checked once, when it is made.

    def __post_init__(self) -> None:
        check(self, tau=between(0, 1), levels=whole(1, MAX_VALUE))

1. A value out of range is refused with one sentence, which begins with the name of the field:
   "tau is 0: expected a number above 0, below 1."
2. Infinity and NaN are in no range, and a whole number is an integer.
3. A range leaves out what cannot be run (a division by 0, points that overflow, a loop that never
   asks), not what is unwise: the largest values are far beyond any use.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, NamedTuple

from ..errors import InputError

MAX_VALUE = 10**6
"""The largest of most numbers."""
MAX_LIMIT = 10**9
"""The largest limit on what a budget ends long before."""
MAX_DEPTH = 1000
"""The largest number of times that something is halved, or divided."""


class Range(NamedTuple):
    """Values that a field may have: what a message calls them, and whether a value is one."""

    words: str
    holds: Callable[[Any], bool]


def between(low: float, high: float) -> Range:
    """Numbers between the two, which are not among them."""
    words = f"a number above {low}, below {high}"
    return Range(words, lambda value: _is_number(value) and low < value < high)


def above(low: float, most: float) -> Range:
    """Numbers above `low`, up to `most`."""
    words = f"a number above {low}, up to {most}"
    return Range(words, lambda value: _is_number(value) and low < value <= most)


def number(least: float, most: float = math.inf) -> Range:
    """Numbers from `least` to `most`; infinity is none."""
    words = f"a number {_ends(least, most)}"
    return Range(words, lambda v: _is_number(v) and least <= v <= most and v < math.inf)


def whole(least: int, most: float = math.inf) -> Range:
    """Whole numbers from `least` to `most`."""
    words = f"a whole number {_ends(least, most)}"
    return Range(words, lambda value: _is_whole(value) and least <= value <= most)


def check(part: object, /, **ranges: Range) -> None:
    """Refuse a part one of whose fields is not in its range."""
    for name, allowed in ranges.items():
        value = getattr(part, name)
        if not allowed.holds(value):
            raise InputError(f"is {_shown(value)}", expected=allowed.words, input=name)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real)


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral)


def _ends(least: float, most: float) -> str:
    return f"of {least} or more" if most == math.inf else f"from {least} to {most}"


def _shown(value: Any) -> str:
    """A number as one would write it, with all its digits: 0.0 is 0."""
    return str(value).removesuffix(".0") if _is_number(value) else repr(value)
