"""Parts: the classes that a study file can name, and the values that their fields accept.

1. A kind is the protocol that annotates an attack's field: Start, Search, Estimate, Subspace,
   Prior, Directions, Sweep, Comparison, Blocks.
2. One line above its class registers a part and makes it a frozen dataclass, in a file that
   `parts/__init__.py` imports:

       @register(Search)
       class TenSteps: ...

   `search.part = "TenSteps"` then works in every study file. All fields have defaults, so that the
   name is enough to create the part.
3. A field's annotation holds its range. `Checked` refuses other values. A value that depends on the
   size of the image (`by_side`) is two values, and both are checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, TypeVar, dataclass_transform, get_origin, get_type_hints

from ..core.by_side import at_side
from ..core.validation import (
    MAX_DEPTH,
    MAX_LIMIT,
    MAX_VALUE,
    Range,
    above,
    between,
    check,
    number,
    whole,
)

T = TypeVar("T")

PARTS: dict[Any, tuple[type, ...]] = {}
"""Registered classes by kind."""

Positive = Annotated[float, above(0, MAX_VALUE)]
NonNegative = Annotated[float, number(0, MAX_VALUE)]
Fraction = Annotated[float, number(0, 1)]
PositiveFraction = Annotated[float, above(0, 1)]
Power = Annotated[float, number(0, 10)]
InnerFraction = Annotated[float, between(0, 1)]
Count = Annotated[int, whole(1, MAX_VALUE)]
CountFrom0 = Annotated[int, whole(0, MAX_VALUE)]
Depth = Annotated[int, whole(1, MAX_DEPTH)]
Limit = Annotated[int, whole(1, MAX_LIMIT)]


def optional(values: Range) -> Range:
    """Return the range with None added."""
    return Range(f"{values.words}, or None", lambda value: value is None or values.holds(value))


@cache
def _ranges(part: type) -> dict[str, Range]:
    hints = get_type_hints(part, include_extras=True).items()
    return {name: hint.__metadata__[0] for name, hint in hints if get_origin(hint) is Annotated}


class Checked:
    """Base of dataclasses whose fields must be in the ranges of their annotations."""

    def __post_init__(self) -> None:
        part: type = type(self)
        forms = [at_side(self, side) for side in (0, math.inf)]  # checked when they are made
        if all(form is self for form in forms):
            check(self, **_ranges(part))
            self.check_together()

    def check_together(self) -> None:
        """Raise InputError if fields that are in their ranges do not fit together."""


@dataclass_transform(frozen_default=True)
def register(*kinds: Any) -> Callable[[type[T]], type[T]]:
    """Register a class as a part of the given kinds, so that study files can name it."""

    def add(part: type[T]) -> type[T]:
        if "__dataclass_fields__" not in vars(part):
            part = dataclass(frozen=True)(part)
        for kind in kinds:
            known = PARTS.get(kind, ())
            if part.__name__ in {other.__name__ for other in known}:
                raise ValueError(f"two parts of the kind {kind.__name__} called {part.__name__}")
            PARTS[kind] = (*known, part)
        return part

    return add
