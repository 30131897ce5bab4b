"""The journal: answers are durable before the attacks receive them, and can be replayed.

1. The engine passes the labels of every batch to `record` before an attack receives any of them.
   Once `record` has returned, they are not lost.
2. A cell that was started earlier has a `History`. Its attack runs again from the start and sends
   the same queries. Rows in the history are answered from it, without the model.
3. The last row of every span was recorded with its distance. If a distance differs, or a run is
   shorter than its recording, the history belongs to another run (another device, another version):
   the cell stops, and `diverged` receives the reason.
4. The rows that were recorded last are sent once more (unless the model is metered), to detect a
   model that answers differently the second time. The recorded labels stand.
5. Alarms of a detector (alarms.py) are recorded as run `ALARMS` of their ask: for each charged row
   of all its runs, in order, 1 if it raised an alarm.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

TOLERANCE = 1e-6
"""Relative difference up to which distances are considered equal."""
ALARMS = -1
"""Run number under which the alarms of an ask are recorded."""
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
    """Distance of the last row."""


class Journal(Protocol):
    """Where the engine records answers, and finds those of an earlier run."""

    def record(self, answers: Sequence[Answered], /) -> None:
        """Make answers durable, or raise; after an error no attack receives them."""

    def history(self, cell: int, /) -> History | None: ...

    def diverged(self, cell: int, why: str, /) -> None:
        """Handle a cell whose queries no longer match its recording."""


class _Recorded:
    """The labels of the first rows of one run of one ask."""

    def __init__(self) -> None:
        self.labels: list[Labels] = []
        self.rows = 0
        self.checks: dict[int, float] = {}

    def add(self, first: int, labels: Labels, distance: float) -> None:
        if first > self.rows:
            raise ValueError(f"rows {self.rows} to {first} are missing")
        fresh = labels[self.rows - first :]
        if len(fresh):  # earlier records stand
            self.labels.append(fresh)
            self.rows += len(fresh)
            self.checks[self.rows - 1] = distance

    def between(self, first: int, last: int) -> Labels:
        if len(self.labels) > 1:
            self.labels = [np.concatenate(self.labels)]
        return self.labels[0][first:last]


class History:
    """The recording of one cell."""

    def __init__(self, answers: Iterable[Answered], again: bool) -> None:
        """`again`: whether the rows that were recorded last are sent again."""
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
        """Number of rows that the model answered differently the second time."""

    def _recorded(self, ask: int, run: int) -> _Recorded | None:
        return self._asks.get(ask, {}).get(run)

    def known(self, ask: int, run: int) -> int:
        """Return how many rows of a run the history answers."""
        recorded = self._recorded(ask, run)
        if recorded is None:
            return 0
        if self._asked_again is not None and self._asked_again[:2] == (ask, run):
            return min(recorded.rows, self._asked_again[2])
        return recorded.rows

    def labels(self, ask: int, run: int, first: int, last: int) -> Labels:
        return self._asks[ask][run].between(first, last)

    def alarms(self, ask: int, first: int, last: int) -> NDArray[np.bool_]:
        """Return whether charged rows of an ask raised alarms, for the rows that were recorded."""
        recorded = self._recorded(ask, ALARMS)
        if recorded is None or recorded.rows <= first:
            return np.zeros(0, np.bool_)
        return recorded.between(first, last).astype(np.bool_)

    def confirmed(self, ask: int, run: int, first: int, labels: Labels) -> Labels:
        """Return the model's current labels, replaced by recorded ones where those exist, and count
        the differences."""
        recorded = self._recorded(ask, run)
        if recorded is None or recorded.rows <= first or len(labels) == 0:
            return labels
        before = recorded.between(first, min(first + len(labels), recorded.rows))
        self.differences += int((before != labels[: len(before)]).sum())
        return np.concatenate([before, labels[len(before) :]])

    def fits(self, ask: int, run: int, first: int, distances: NDArray[np.float64]) -> bool:
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
        return any(
            recorded.rows > (sizes[run] if run < len(sizes) else 0)
            for run, recorded in self._asks.get(ask, {}).items()
            if run != ALARMS
        )
