"""The registry of parts: which classes a study file can name for each kind of part.

1. A kind is the protocol that annotates an attack's field: Start, Search, Estimate, Subspace,
   Prior, Directions, Sweep.
2. One line above its class registers a part, in a file that `parts/__init__.py` imports:

       @register(Search)
       @dataclass(frozen=True)
       class TenSteps: ...

   `search.part = "TenSteps"` then works in every study file. All fields have defaults, so that the
   name is enough to create the part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

PARTS: dict[Any, tuple[type, ...]] = {}
"""Registered classes by kind."""


def register(*kinds: Any) -> Callable[[type[T]], type[T]]:
    """Register a class as a part of the given kinds, so that study files can name it."""

    def add(part: type[T]) -> type[T]:
        for kind in kinds:
            known = PARTS.get(kind, ())
            if part.__name__ in {other.__name__ for other in known}:
                raise ValueError(f"two parts of the kind {kind.__name__} called {part.__name__}")
            PARTS[kind] = (*known, part)
        return part

    return add
