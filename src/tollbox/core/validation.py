"""Checks of arguments: what a number, a flag or an image may be, each refused in one sentence.

1. A bool is not a number, nor is text or NaN. NumPy integers are integers.
2. The fields of a part have ranges, checked once, when the part is made:

       def __post_init__(self) -> None:
           check(self, tau=between(0, 1), levels=whole(1, MAX_VALUE))

   A value out of range is refused with a sentence that starts with the field's name: "tau is 0:
   expected a number above 0, below 1." No range includes infinity or NaN.
3. A range excludes what cannot run (a division by 0, points that overflow, a loop without queries),
   not what is unwise: the largest values are far beyond any use.
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
"""Precisions that a network may compute in; known without torch, for help texts."""
DTYPE_NAMES = f"{', '.join(DTYPES[:-1])} or {DTYPES[-1]}"
MOST_CHARACTERS = 60
"""Maximum length of a value that a message quotes."""
MAX_VALUE = 10**6
"""Upper end of most ranges."""
MAX_LIMIT = 10**9
"""Upper end of limits that a budget makes irrelevant long before."""
MAX_DEPTH = 1000
"""Upper end of the number of times that something is halved or divided."""


def shown(value: Any) -> str:
    """Return a value as a message quotes it: its repr, or its type if the repr is long."""
    text = repr(value)
    return text if len(text) <= MOST_CHARACTERS and "\n" not in text else type(value).__name__


def require(ok: bool, name: str, value: Any, expected: str, remedy: str = "") -> None:
    """Raise InputError about the argument `name`, which is `value`, unless `ok`."""
    if not ok:
        raise InputError(f"is {shown(value)}", expected=expected, remedy=remedy, input=name)


def is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Return whether a value is a number that can be compared; it may be infinite."""
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and not math.isnan(value)
    except OverflowError:  # an integer that no float can hold
        return False


def check_whole(name: str, value: Any, least: float = -math.inf, most: float = math.inf) -> None:
    """Raise InputError unless the argument `name` is an integer from `least` to `most`."""
    limits = "" if math.isinf(least) else f", {least} or more"
    limits = f", {least} to {most}" if math.isfinite(most) else limits
    right = is_whole(value) and least <= value <= most
    require(right, name, value, f"a whole number{limits}")


def check_flag(name: str, value: Any) -> None:
    require(isinstance(value, bool), name, value, "True or False")


def check_instance(name: str, value: Any, kind: type) -> None:
    """Raise InputError unless the argument `name` is an object of that public class."""
    if not isinstance(value, kind):
        expected = f"tb.{kind.__name__}(...)"
        raise InputError(f"is {shown(value)}", expected=expected, input=name)


def check_function(name: str, value: Any) -> None:
    require(value is None or callable(value), name, value, "a function, or None")


def check_seconds(name: str, value: Any) -> None:
    require(is_number(value) and value > 0, name, value, "seconds, more than 0")


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


class Range(NamedTuple):
    """The values that a field may have: their description in messages, and a test."""

    words: str
    holds: Callable[[Any], bool]


def between(low: float, high: float) -> Range:
    """Return the range of numbers strictly between `low` and `high`."""
    words = f"a number above {low}, below {high}"
    return Range(words, lambda value: _is(value, Real) and low < value < high)


def above(low: float, most: float) -> Range:
    """Return the range of numbers above `low`, up to `most`."""
    words = f"a number above {low}, up to {most}"
    return Range(words, lambda value: _is(value, Real) and low < value <= most)


def number(least: float, most: float = math.inf) -> Range:
    """Return the range of finite numbers from `least` to `most`."""
    words = f"a number {_ends(least, most)}"
    return Range(words, lambda v: _is(v, Real) and least <= v <= most and v < math.inf)


def whole(least: int, most: float = math.inf) -> Range:
    """Return the range of whole numbers from `least` to `most`."""
    words = f"a whole number {_ends(least, most)}"
    return Range(words, lambda value: _is(value, Integral) and least <= value <= most)


def _is(value: Any, kind: type) -> bool:  # without narrowing: mypy cannot compare a Real
    return isinstance(value, kind)


def _ends(least: float, most: float) -> str:
    return f"of {least} or more" if most == math.inf else f"from {least} to {most}"


def check(part: object, /, **ranges: Range) -> None:
    """Raise InputError if a field of `part` is not in its range."""
    for name, allowed in ranges.items():
        value = getattr(part, name)
        if not allowed.holds(value):
            # A number is quoted with all its digits, and 0.0 as 0.
            text = str(value).removesuffix(".0") if isinstance(value, Real) else repr(value)
            raise InputError(f"is {text}", expected=allowed.words, input=name)
