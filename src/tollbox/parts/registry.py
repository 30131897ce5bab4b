"""The registry: which classes can take the place of a part, by kind. Study files name them so.

1. A kind is the protocol that annotates an attack's field: Start, Search, Estimate, Subspace,
   Prior, Directions, Sweep.
2. A part is registered by one line above its class, in a file that `parts/__init__.py` imports:

       @register(Search)
       @dataclass(frozen=True)
       class TenSteps: ...

   From then on `search.part = "TenSteps"` works in every study file. All its fields have defaults,
   so that a name is enough to make one.
3. A field that was renamed is still read by its old name, so that study files written before, and
   those that stores keep, stay readable (`RENAMED_FIELDS`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

PARTS: dict[Any, tuple[type, ...]] = {}
"""By kind, the classes that can take its place."""

RENAMED_FIELDS: dict[str, dict[str, str]] = {
    "Frugal": {
        "wide": "fallback_prior",
        "own": "reweighing_prior",
        "every": "reweighing_period",
        "own_information": "reweighing_information",
        "share": "relative_delta",
    },
}
"""By class, the fields of attacks and parts that had another name."""


def register(*kinds: Any) -> Callable[[type[T]], type[T]]:
    """Let study files name a class wherever an attack has a part of one of these kinds."""

    def add(part: type[T]) -> type[T]:
        for kind in kinds:
            known = PARTS.get(kind, ())
            if part.__name__ in {other.__name__ for other in known}:
                raise ValueError(f"two parts of the kind {kind.__name__} called {part.__name__}")
            PARTS[kind] = (*known, part)
        return part

    return add
