"""Arrivals: what a landed batch brings, and to whom.

1. A piece is for the cell that sent it, if that still waits for it: a cell that ended waits for
   nothing.
2. Rows from the first that the model could not decide on are not answered.
3. Labels that were recorded earlier stand, whatever the model answers now. If the points are not
   those that were recorded, the cell has diverged from its history, and the piece is not recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.model import UNDECIDED
from ..core.stop import Stop
from .cell_run import CellRun
from .in_flight import Flight, Piece
from .journal import Answered
from .pending import Failure

NOT_NUMBERS = Failure(Stop.MODEL_ERROR, "the model's scores for a point are not numbers (NaN)")


class Arrival(NamedTuple):
    """The answers to a piece."""

    cell_run: CellRun
    piece: Piece
    labels: NDArray[np.int64]
    """Of the rows that were decided."""
    distances: NDArray[np.float64]

    @property
    def record(self) -> Answered:
        """As it goes into the journal."""
        cell_run, piece = self.cell_run, self.piece
        return Answered(
            cell_run.index,
            cell_run.ask_number,
            piece.run_number,
            piece.first,
            self.labels,
            float(self.distances[-1]),
        )

    def divergence(self) -> str | None:
        """How it differs from what was recorded of these rows, if it does."""
        history, number = self.cell_run.history, self.cell_run.ask_number
        if history is None:
            return None
        if history.fits(number, self.piece.run_number, self.piece.first, self.distances):
            return None
        return f"ask {number} ({self.piece.pending.ask.phase}) is at another distance"

    def deliver(self) -> None:
        """Give the answers to the cell."""
        piece = self.piece
        piece.pending.take(piece.run_number, self.labels, self.distances)
        if len(self.labels) < piece.size:
            piece.pending.fail(piece.run_number, piece.size - len(self.labels), NOT_NUMBERS)


def records(arrived: Sequence[Arrival]) -> list[Answered]:
    """What goes into the journal: nothing of a cell that has ended; of a run, the rows up to the
    first that has no answer, since those after it were not asked."""
    recorded: list[Answered] = []
    broken: set[tuple[int, int]] = set()
    for arrival in arrived:
        piece = arrival.piece
        run = piece.slot, piece.run_number
        failed = piece.pending.runs[piece.run_number].failure is not None
        if arrival.cell_run.ended is not None or run in broken or failed:
            continue
        if len(arrival.labels):
            recorded.append(arrival.record)
        if len(arrival.labels) < piece.size:
            broken.add(run)
    return recorded


def recipient(piece: Piece, cell_runs: Mapping[int, CellRun]) -> CellRun | None:
    """The cell that sent a piece, if it still waits for it; `cell_runs` are under way, by slot."""
    cell_run = cell_runs.get(piece.slot)
    return cell_run if cell_run is not None and cell_run.pending is piece.pending else None


def arrivals(
    flight: Flight,
    labels: NDArray[np.int64],
    distances: NDArray[np.float64],
    cell_runs: Mapping[int, CellRun],
) -> Iterator[Arrival]:
    """The pieces of a batch for which a cell still waits."""
    undecided = bool((labels == UNDECIDED).any())
    first = 0
    for piece in flight.pieces:
        last = first + piece.size
        cell_run = recipient(piece, cell_runs)
        if cell_run is not None:
            end = last
            if undecided:
                end = first + int(np.append(labels[first:last] == UNDECIDED, True).argmax())
            decided = labels[first:end]
            if cell_run.history is not None and not flight.recalled:
                decided = cell_run.history.confirmed(
                    cell_run.ask_number, piece.run_number, piece.first, decided
                )
            yield Arrival(cell_run, piece, decided, distances[first:end])
        first = last
