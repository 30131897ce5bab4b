"""Checks of arguments, such as numbers, flags and images; an error message is one sentence.

1. A bool is not a number, nor is text or NaN. NumPy integers are integers.
2. The fields of a part have ranges, checked once, when the part is created:

       def __post_init__(self) -> None:
           check(self, tau=between(0, 1), levels=whole(1, MAX_VALUE))

   No range includes infinity or NaN, except `CAP`, which includes infinity.
3. A range excludes what cannot run (a division by 0, points that overflow, a loop without queries),
   not what is unwise: upper limits are far beyond any practical use.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterable
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

DTYPES = ("float64", "float32", "bfloat16", "float16")
"""Precisions in which a network may compute, as names: help texts must not import torch."""
DTYPE_NAMES = f"{', '.join(DTYPES[:-1])} or {DTYPES[-1]}"
MOST_CHARACTERS = 60
"""Maximum length of a value quoted in a message."""
MAX_VALUE = 10**6
"""Upper limit of most ranges."""
MAX_LIMIT = 10**9
"""Upper limit of settings that a budget makes irrelevant long before they reach it."""
MOST_CLASSES = 1_000_000
"""Maximum number of flagged labels, so that a typo cannot exhaust the memory."""
MAX_DEPTH = 1000
"""Upper limit of the number of times that something is halved or divided."""

TIME = re.compile("".join(rf"(?:(\d+(?:\.\d+)?){unit})?" for unit in "hms"))


def shown(value: Any) -> str:
    """Return a value as a message quotes it: its repr, or its type if the repr is long."""
    try:
        text = str(value) if isinstance(value, Real) else repr(value)  # 0.5, not np.float64(0.5)
    except Exception:  # the value's own code, or an integer of thousands of digits
        return type(value).__name__
    return text if len(text) <= MOST_CHARACTERS and "\n" not in text else type(value).__name__


def require(ok: bool, name: str, value: Any, expected: str, remedy: str = "") -> None:
    """Raise InputError about the argument `name`, which is `value`, unless `ok`."""
    if not ok:
        raise InputError(f"is {shown(value)}", expected=expected, remedy=remedy, input=name)


def expect(ok: bool, given: str, expected: str, remedy: str = "", input: str = "") -> None:
    """Raise InputError unless `ok`; its message says what was `given`."""
    if not ok:
        raise InputError(given, expected=expected, remedy=remedy, input=input)


def is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_several(value: Any) -> bool:
    """Return whether a value has elements; text has none, nor has an array without dimensions."""
    return (
        isinstance(value, Iterable)
        and not isinstance(value, str | bytes)
        and getattr(value, "shape", None) != ()
    )


def plain(value: Any) -> Any:
    """Return any number, or NumPy or torch scalar, as a Python number; others unchanged."""
    with contextlib.suppress(Exception):  # not a scalar, or a tensor that cannot be read
        value = value.item()
    if not is_number(value):
        return value
    return int(value) if is_whole(value) else float(value)


def is_number(value: Any) -> bool:
    """Return whether a value is a real number; it may be infinite but not NaN."""
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and not math.isnan(value)
    except OverflowError:  # an integer that no float can hold
        return False


class Range(NamedTuple):
    """The values that a field may have: their description in messages, and a test."""

    words: str
    holds: Callable[[Any], bool]


def between(low: float, high: float) -> Range:
    words = f"a number above {low}, below {high}"
    return Range(words, lambda value: is_number(value) and low < value < high)


def above(low: float, most: float) -> Range:
    words = f"a number above {low}, up to {most}"
    return Range(words, lambda value: is_number(value) and low < value <= most)


def number(least: float, most: float = math.inf) -> Range:
    words = f"a {'finite ' if most == math.inf else ''}number{_ends(least, most)}"
    return Range(words, lambda v: is_number(v) and least <= v <= most and v < math.inf)


def whole(least: float = -math.inf, most: float = math.inf) -> Range:
    words = f"a whole number{_ends(least, most)}"
    return Range(words, lambda value: is_whole(value) and least <= value <= most)


def _ends(least: float, most: float) -> str:
    if most < math.inf:
        return f" from {least} to {most}"
    return "" if least == -math.inf else f" of {least} or more"


def or_none(allowed: Range) -> Range:
    return Range(allowed.words, lambda value: value is None or allowed.holds(value))


CLASS = Range("a class, 0 or more, below 2**63", whole(0, 2**63 - 1).holds)
CAP = Range(
    "a whole number of 1 or more",
    lambda v: is_number(v) and v >= 1 and (math.isinf(v) or v % 1 == 0),
)
"""Whole numbers above 0, and infinity for no cap."""


def check(part: object, /, **ranges: Range) -> None:
    """Raise InputError if a field of `part` is not in its range; make numbers plain: those of
    NumPy overflow, and those of `fractions` cannot be printed like floats."""
    for name, allowed in ranges.items():
        value = getattr(part, name)
        require(allowed.holds(value), name, value, allowed.words)
        if is_number(value):
            object.__setattr__(part, name, plain(value))


def check_whole(name: str, value: Any, least: float = -math.inf, most: float = math.inf) -> None:
    """Raise InputError unless the argument `name` is an integer from `least` to `most`."""
    allowed = whole(least, most)
    require(allowed.holds(value), name, value, allowed.words)


def check_seed(name: str, value: Any) -> None:
    check_whole(name, value, 0, 2**63 - 1)


def check_flag(name: str, value: Any) -> None:
    require(isinstance(value, bool), name, value, "True or False")


def check_instance(name: str, value: Any, kind: type) -> None:
    """Raise InputError unless the argument `name` is an instance of the public class `kind`."""
    require(isinstance(value, kind), name, value, f"tb.{kind.__name__}(...)")


def check_function(name: str, value: Any) -> None:
    require(value is None or callable(value), name, value, "a function, or None")


def checked_seconds(name: str, value: Any) -> float:
    """Return a time in seconds: a number of them, or a text with units such as '1h30m', or 'inf'.
    A text without a unit is refused."""
    if not isinstance(value, str):
        require(is_number(value) and value > 0, name, value, "seconds, more than 0")
        return float(value)
    text = value.strip().lower()
    parts = TIME.fullmatch(text)
    hours, minutes, seconds = (float(part or 0) for part in (parts.groups() if parts else "000"))
    total = math.inf if text == "inf" else 3600 * hours + 60 * minutes + seconds
    bare = text.replace(".", "", 1).isdecimal() and float(text) > 0
    remedy = f"write {text}s for seconds" if bare else ""
    require(total > 0, name, value, "a time, such as 90s, 8m or 1h30m", remedy)
    return total


def check_range(image: Tensor, subject: str) -> None:
    """Raise InputError unless all values are finite and in [0,1]; `subject` names the image."""
    low, high = (value.item() for value in image.aminmax())
    finite = math.isfinite(low) and math.isfinite(high)
    expect(finite, f"{subject} has values that are not finite", "values in [0,1]")
    given = f"{subject} has values from {low:g} to {high:g}"
    expect(low >= 0 and high <= 1, given, "[0,1]", "divide by 255?" if high > 1.5 else "")
