"""Progress: what a caller is told of a run while it goes on, after each batch."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.result import Result


@dataclass(frozen=True)
class Progress:
    """Where a run stands, given to the `progress` callback after each batch."""

    done: int
    live: int
    queries: int
    """Charged so far, over all images."""
    rows: int
    """Computed so far, padding and unneeded rows included."""
    seconds: float
    finished: tuple[Result, ...]
    """The results that this batch brought."""
