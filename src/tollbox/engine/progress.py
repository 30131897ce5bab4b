"""Progress: how far a run is, passed to the `progress` callback after each batch."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.result import Result


@dataclass(frozen=True)
class Progress:
    """Counts over all images so far, and the results of the last batch."""

    done: int
    live: int
    queries: int
    """Queries that were charged."""
    rows: int
    """Rows that were computed, including padding and rows that were not needed."""
    seconds: float
    finished: tuple[Result, ...]
    """The results that this batch completed."""
