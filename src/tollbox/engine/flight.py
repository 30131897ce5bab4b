"""Pieces and flights: rows of asks as a batch is made up of them, and a batch on its way back.

Labels, distances and whatever else waits to be read cross to the host in one transfer per batch;
waiting for it is the only synchronisation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .pending import Failure, Pending


class Piece(NamedTuple):
    """Rows `first` to `last` of one run of one ask; `slot` is where its source image lies."""

    pending: Pending
    run_number: int
    first: int
    last: int
    slot: int

    @property
    def size(self) -> int:
        """Number of rows."""
        return self.last - self.first

    def split(self, at: int) -> tuple[Piece, Piece]:
        """The first `at` rows, and the others."""
        middle = self.first + at
        return (
            Piece(self.pending, self.run_number, self.first, middle, self.slot),
            Piece(self.pending, self.run_number, middle, self.last, self.slot),
        )


def split(pieces: Sequence[Piece], at: int) -> tuple[list[Piece], list[Piece]]:
    """The first `at` rows of all, and the others."""
    front: list[Piece] = []
    for position, piece in enumerate(pieces):
        if piece.size > at:
            if at == 0:
                return front, list(pieces[position:])
            one, two = piece.split(at)
            return [*front, one], [two, *pieces[position + 1 :]]
        front.append(piece)
        at -= piece.size
    return front, []


@dataclass(frozen=True)
class Flight:
    """Values on their way to the host."""

    pieces: list[Piece]
    failures: Sequence[tuple[Piece, Failure]]
    values: Tensor
    """Labels (`shape`), distances (`shape`), then what else was waiting; float64."""
    shape: int
    event: torch.cuda.Event | None
    recalled: bool = False
    """The labels are from a history, not from the model."""

    def land(self) -> NDArray[np.float64]:
        """Wait until the values have arrived, and give them."""
        if self.event is not None:
            self.event.synchronize()
        return self.values.numpy()
