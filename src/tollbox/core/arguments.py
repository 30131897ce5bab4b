"""Arguments that are one number: what may be given for one, refused in one sentence.

A bool is no number, nor is text, and NaN is none either. Integers of numpy are integers.
"""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

from ..errors import InputError

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


def check_function(name: str, value: Any) -> None:
    """Raise InputError unless the argument `name` can be called, or is None."""
    if value is not None and not callable(value):
        raise InputError(f"is {shown(value)}", expected="a function, or None", input=name)


def check_seconds(name: str, value: Any) -> None:
    """Raise InputError unless the argument `name` is a time above 0; it may be infinite."""
    if not (is_number(value) and value > 0):
        raise InputError(f"is {shown(value)}", expected="seconds, more than 0", input=name)
