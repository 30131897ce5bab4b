"""What a network may compute in, by the names that users write; known without torch, for help.

Arguments that are one number: what may be given for one, refused in one sentence.

A bool is no number, nor is text, and NaN is none either. Integers of numpy are integers.

The range of pixels: what an image may hold, wherever it comes from.

Ranges: what the numbers of a part may be, checked once, when it is made.

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
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

DTYPES = ("float64", "float32", "bfloat16", "float16")
DTYPE_NAMES = f"{', '.join(DTYPES[:-1])} or {DTYPES[-1]}"


MOST_CHARACTERS = 60


def shown(value: Any) -> str:
    """A value as a message quotes it: its repr, or its type if that is long."""
    text = repr(value)
    return text if len(text) <= MOST_CHARACTERS and "\n" not in text else type(value).__name__


def is_whole(value: Any) -> bool:
    """Whether it is an integer."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether it is a number that can be compared; it may be infinite."""
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and not math.isnan(value)
    except OverflowError:  # an integer that no float can hold
        return False


def check_whole(name: str, value: Any, least: float = -math.inf, most: float = math.inf) -> None:
    """Raise InputError unless the argument `name` is an integer from `least` to `most`."""
    if is_whole(value) and least <= value <= most:
        return
    limits = "" if math.isinf(least) else f", {least} or more"
    if math.isfinite(most):
        limits = f", {least} to {most}"
    raise InputError(f"is {shown(value)}", expected=f"a whole number{limits}", input=name)


def check_flag(name: str, value: Any) -> None:
    """Raise InputError unless the argument `name` is True or False."""
    if not isinstance(value, bool):
        raise InputError(f"is {shown(value)}", expected="True or False", input=name)


def check_instance(name: str, value: Any, kind: type) -> None:
    """Raise InputError unless the argument `name` is an object of that public class."""
    if not isinstance(value, kind):
        expected = f"tb.{kind.__name__}(...)"
        raise InputError(f"is {shown(value)}", expected=expected, input=name)


def check_function(name: str, value: Any) -> None:
    """Raise InputError unless the argument `name` can be called, or is None."""
    if value is not None and not callable(value):
        raise InputError(f"is {shown(value)}", expected="a function, or None", input=name)


def check_seconds(name: str, value: Any) -> None:
    """Raise InputError unless the argument `name` is a time above 0; it may be infinite."""
    if not (is_number(value) and value > 0):
        raise InputError(f"is {shown(value)}", expected="seconds, more than 0", input=name)


def check_range(image: Tensor, subject: str) -> None:
    """Raise InputError unless all values are finite and in [0,1]; `subject` names the image."""
    low, high = (value.item() for value in image.aminmax())
    if not (math.isfinite(low) and math.isfinite(high)):
        raise InputError(f"{subject} has values that are not finite", expected="values in [0,1]")
    if low < 0 or high > 1:
        raise InputError(
            f"{subject} has values from {low:g} to {high:g}",
            expected="[0,1]",
            remedy="divide by 255?" if high > 1.5 else "",
        )


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
