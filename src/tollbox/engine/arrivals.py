"""Arrivals: what a landed batch brings, and to whom.

1. A piece is for the cell that sent it, if that still waits for it: a cell that ended waits for
   nothing.
2. Rows from the first that the model could not decide on are not answered.
3. Labels that were recorded earlier stand, whatever the model says now; and if the points are not
   those that were recorded, the piece is from another run, which is told before it is recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.model import UNDECIDED
from ..core.stop import Stop
from .cell_run import CellRun
from .journal import Answered
from .pending import Failure
from .sender import Flight, Piece

NOT_NUMBERS = Failure(Stop.MODEL_ERROR, "the model's scores for a point are not numbers (NaN)")


class Arrival(NamedTuple):
    """The answers to a piece."""

    live: CellRun
    piece: Piece
    labels: NDArray[np.int64]
    """Of the rows that were decided."""
    distances: NDArray[np.float64]

    @property
    def answered(self) -> Answered:
        """As it is recorded."""
        live, piece = self.live, self.piece
        far = float(self.distances[-1])
        return Answered(live.index, live.asked, piece.number, piece.first, self.labels, far)

    def differs(self) -> str | None:
        """What tells it from what was recorded of these rows, if anything does."""
        live, piece = self.live, self.piece
        if live.history is None:
            return None
        if live.history.fits(live.asked, piece.number, piece.first, self.distances):
            return None
        return f"ask {live.asked} ({piece.pending.ask.phase}) is at another distance"

    def deliver(self) -> None:
        """Tell the cell."""
        piece = self.piece
        piece.pending.take(piece.number, self.labels, self.distances)
        if len(self.labels) < piece.size:
            piece.pending.fail(piece.number, piece.size - len(self.labels), NOT_NUMBERS)


def to_record(arrived: Sequence[Arrival]) -> list[Answered]:
    """What is written down: nothing of a cell that has ended; of a run, the rows up to the first
    that has no answer, since what lies behind it was not asked."""
    found: list[Answered] = []
    broken: set[tuple[int, int]] = set()
    for one in arrived:
        run = one.piece.slot, one.piece.number
        failed = one.piece.pending.runs[one.piece.number].failure is not None
        if one.live.ended is not None or run in broken or failed:
            continue
        if len(one.labels):
            found.append(one.answered)
        if len(one.labels) < one.piece.size:
            broken.add(run)
    return found


def waiting(piece: Piece, lives: Mapping[int, CellRun]) -> CellRun | None:
    """The cell that sent a piece, if it still waits for it."""
    live = lives.get(piece.slot)
    return live if live is not None and live.pending is piece.pending else None


def arrivals(
    flight: Flight,
    labels: NDArray[np.int64],
    distances: NDArray[np.float64],
    lives: Mapping[int, CellRun],
) -> Iterator[Arrival]:
    """The pieces of a batch that somebody waits for; `lives` are the cells under way, by slot."""
    undecided = bool((labels == UNDECIDED).any())
    first = 0
    for piece in flight.pieces:
        last = first + piece.size
        live = waiting(piece, lives)
        if live is not None:
            end = last
            if undecided:
                end = first + int(np.append(labels[first:last] == UNDECIDED, True).argmax())
            said = labels[first:end]
            if live.history is not None and not flight.recalled:
                said = live.history.confirmed(live.asked, piece.number, piece.first, said)
            yield Arrival(live, piece, said, distances[first:end])
        first = last
