"""The journal: answers are durable before the attacks see them, and can be replayed.

1. The engine hands every batch's labels to `record` before any attack sees them. What `record`
   has returned from is not lost.
2. A cell that was begun earlier has a `History`. Its attack is run again from the start, and asks
   the same again (rule 4): the rows that are in the history are answered from it, without the model
   and at no price but that of making the points.
3. Whether it does ask the same is checked: the last row of every piece was recorded with its
   distance. Where it differs, or a run is shorter than what was recorded of it, the history is of
   another run (another device, another version): the cell ends, and `diverged` says why.
4. The rows that were recorded last are asked once more (unless the model is metered), to detect a
   model that answers differently the second time. What was recorded stands.
5. A detector's alarms (alarms.py) are recorded likewise, as run `ALARMS` of their ask: for each
   charged row of all its runs, in order, 1 if it raised one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

TOLERANCE = 1e-6
"""Relative difference up to which distances count as the same."""

ALARMS = -1
"""The number of the run under which the alarms of an ask are recorded."""
Labels = NDArray[np.int64]


class Answered(NamedTuple):
    """Rows `first`, `first` + 1, ... of one run of a cell's ask number `ask`, and their labels."""

    cell: int
    """Position of the cell in the engine's input."""
    ask: int
    run: int
    first: int
    labels: Labels
    distance: float
    """Of the last of them."""


class Journal(Protocol):
    """Where the engine writes answers down, and finds those of an earlier run."""

    def record(self, answers: Sequence[Answered], /) -> None:
        """Make them durable; raises if that cannot be done, and then no attack sees them."""

    def history(self, cell: int, /) -> History | None:
        """What was recorded of a cell earlier."""

    def diverged(self, cell: int, why: str, /) -> None:
        """The cell does not ask what it asked earlier."""


class _Recorded:
    """One run of one ask: labels of a prefix of its rows."""

    def __init__(self) -> None:
        self.labels: list[Labels] = []
        self.rows = 0
        self.checks: dict[int, float] = {}

    def add(self, first: int, labels: Labels, distance: float) -> None:
        if first > self.rows:
            raise ValueError(f"rows {self.rows} to {first} are missing")
        fresh = labels[self.rows - first :]
        if len(fresh):  # what was there before stands
            self.labels.append(fresh)
            self.rows += len(fresh)
            self.checks[self.rows - 1] = distance

    def between(self, first: int, last: int) -> Labels:
        if len(self.labels) > 1:
            self.labels = [np.concatenate(self.labels)]
        return self.labels[0][first:last]


class History:
    """What was recorded of one cell."""

    def __init__(self, answers: Iterable[Answered], again: bool) -> None:
        """`again`: the rows that were recorded last are to be asked again."""
        self._asks: dict[int, dict[int, _Recorded]] = {}
        last: tuple[int, int, int] | None = None
        for answered in answers:
            runs = self._asks.setdefault(answered.ask, {})
            recorded = runs.setdefault(answered.run, _Recorded())
            recorded.add(answered.first, answered.labels, answered.distance)
            if answered.run != ALARMS:
                last = answered.ask, answered.run, answered.first
        self._asked_again = last if again else None
        self.differences = 0
        """Rows that the model answered differently when they were asked again."""

    def _recorded(self, ask: int, run: int) -> _Recorded | None:
        return self._asks.get(ask, {}).get(run)

    def known(self, ask: int, run: int) -> int:
        """How many rows of a run are answered from here."""
        recorded = self._recorded(ask, run)
        if recorded is None:
            return 0
        if self._asked_again is not None and self._asked_again[:2] == (ask, run):
            return min(recorded.rows, self._asked_again[2])
        return recorded.rows

    def labels(self, ask: int, run: int, first: int, last: int) -> Labels:
        """The labels of rows that are known."""
        return self._asks[ask][run].between(first, last)

    def alarms(self, ask: int, first: int, last: int) -> NDArray[np.bool_]:
        """Whether charged rows of an ask raised alarms, as far as it was recorded."""
        recorded = self._recorded(ask, ALARMS)
        if recorded is None or recorded.rows <= first:
            return np.zeros(0, np.bool_)
        return recorded.between(first, last).astype(np.bool_)

    def confirmed(self, ask: int, run: int, first: int, labels: Labels) -> Labels:
        """The labels of rows that the model has answered now: where they were recorded, as they
        were then; what differs is counted."""
        recorded = self._recorded(ask, run)
        if recorded is None or recorded.rows <= first or len(labels) == 0:
            return labels
        before = recorded.between(first, min(first + len(labels), recorded.rows))
        self.differences += int((before != labels[: len(before)]).sum())
        return np.concatenate([before, labels[len(before) :]])

    def fits(self, ask: int, run: int, first: int, distances: NDArray[np.float64]) -> bool:
        """Are these the distances that were recorded, where one was?"""
        recorded = self._recorded(ask, run)
        if recorded is None:
            return True
        return all(
            math.isclose(distances[row - first], distance, rel_tol=TOLERANCE)
            or (math.isnan(distance) and math.isnan(distances[row - first]))
            for row, distance in recorded.checks.items()
            if first <= row < first + len(distances)
        )

    def longer_than(self, ask: int, sizes: Sequence[int]) -> bool:
        """Was more recorded of an ask than it has now?"""
        return any(
            recorded.rows > (sizes[run] if run < len(sizes) else 0)
            for run, recorded in self._asks.get(ask, {}).items()
            if run != ALARMS
        )
