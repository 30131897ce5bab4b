"""Values that depend on the size of the image.

1. A field of an attack or a part may hold two values: `small` for images whose smaller side is
   below 112 pixels, half of 224, and `large` for all others. Authors publish settings for data sets
   of 28 to 64 pixels and of 224 pixels, and none for sizes in between.
2. `Cell.fitted` and attacks choose one of the two once per image, before anything else reads the
   attack.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

from .validation import MAX_VALUE, check, whole

T = TypeVar("T")

BELOW = 112


@dataclass(frozen=True)
class BySide:
    """A pair of values: one for small images and one for large images."""

    small: Any
    large: Any
    below: int = BELOW

    def __post_init__(self) -> None:
        check(self, below=whole(1, MAX_VALUE))

    def __repr__(self) -> str:
        return f"{self.large!r} (below {self.below} pixels: {self.small!r})"


def by_side(small: Any, large: Any, below: int = BELOW) -> Any:
    """Return a value for any field of an attack or a part. It stands for `small` if the smaller
    side of the image is below `below` pixels, and for `large` otherwise."""
    return BySide(small, large, below)


def at_side(value: T, side: float, around: tuple[int, ...] = ()) -> T:
    """Return an attack or a part with its values for images of that side, or the same object if
    none of its values depends on the size. `around` has the ids of the objects that contain it."""
    if isinstance(value, BySide):
        chosen: T = value.small if side < value.below else value.large
        return at_side(chosen, side, around)
    if not is_dataclass(value) or isinstance(value, type) or id(value) in around:
        return value
    changes = {}
    for name in (each.name for each in fields(value) if each.init):
        before = getattr(value, name, None)
        after = at_side(before, side, (*around, id(value)))
        if after is not before:
            changes[name] = after
    return replace(value, **changes) if changes else value
