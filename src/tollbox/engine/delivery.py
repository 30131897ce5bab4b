"""Delivery: the answers of a landed batch, and the cells that receive them.

1. A span is delivered to the cell that sent it, if the cell still waits for it. A cell that ended
   waits for nothing.
2. Rows from the first one that the model could not decide on count as not answered.
3. Labels that were recorded earlier stand, whatever the model answers now. If the points differ
   from the recorded ones, the cell has diverged from its history, and the span is not recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.model import UNDECIDED
from ..core.stop import Stop
from .batch import InFlightBatch, RowSpan
from .cell_run import CellRun
from .journal import Answered
from .pending import Failure

NOT_NUMBERS = Failure(Stop.MODEL_ERROR, "the model's scores for a point are not numbers (NaN)")


class Arrival(NamedTuple):
    """The answers to a span."""

    cell_run: CellRun
    span: RowSpan
    labels: NDArray[np.int64]
    """Labels of the rows that were decided."""
    distances: NDArray[np.float64]

    def divergence(self) -> str | None:
        """Describe how it differs from the recording of these rows, if it does."""
        history, number = self.cell_run.history, self.cell_run.ask_number
        if history is None:
            return None
        if history.fits(number, self.span.run_number, self.span.first, self.distances):
            return None
        return f"ask {number} ({self.span.pending.ask.phase}) is at another distance"

    def deliver(self) -> None:
        span = self.span
        span.pending.take(span.run_number, self.labels, self.distances)
        if len(self.labels) < span.size:
            span.pending.fail(span.run_number, span.size - len(self.labels), NOT_NUMBERS)


def records(arrived: Sequence[Arrival]) -> list[Answered]:
    """Return the answers for the journal: none of a cell that has ended, and only those before the
    first row of a run without an answer, since the rows after it count as not sent."""
    recorded: list[Answered] = []
    broken: set[tuple[int, int]] = set()
    for cell_run, span, labels, distances in arrived:
        number = span.run_number
        run = span.slot, number
        failed = span.pending.runs[number].failure is not None
        if cell_run.ended is not None or run in broken or failed:
            continue
        if len(labels):
            ask, distance = cell_run.ask_number, float(distances[-1])
            recorded.append(Answered(cell_run.index, ask, number, span.first, labels, distance))
        if len(labels) < span.size:
            broken.add(run)
    return recorded


def recipient(span: RowSpan, cell_runs: Mapping[int, CellRun]) -> CellRun | None:
    """Return the live cell that sent a span, if it still waits for it."""
    cell_run = cell_runs.get(span.slot)
    return cell_run if cell_run is not None and cell_run.pending is span.pending else None


def arrivals(
    batch: InFlightBatch,
    labels: NDArray[np.int64],
    distances: NDArray[np.float64],
    cell_runs: Mapping[int, CellRun],
) -> Iterator[Arrival]:
    """Yield the answers to the spans of a batch for which a live cell still waits."""
    undecided = bool((labels == UNDECIDED).any())
    first = 0
    for span in batch.spans:
        last = first + span.size
        cell_run = recipient(span, cell_runs)
        if cell_run is not None:
            end = last
            if undecided:
                end = first + int(np.append(labels[first:last] == UNDECIDED, True).argmax())
            decided = labels[first:end]
            if cell_run.history is not None and not batch.recalled:
                decided = cell_run.history.confirmed(
                    cell_run.ask_number, span.run_number, span.first, decided
                )
            yield Arrival(cell_run, span, decided, distances[first:end])
        first = last
