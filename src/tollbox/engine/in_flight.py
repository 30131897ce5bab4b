"""Pieces and flights: the rows of asks that make up a batch, and a batch on its way to the host.

Labels, distances and whatever else waits to be read cross to the host in one transfer per batch;
waiting for it is the only synchronisation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .cell_run import CellRun
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


@dataclass
class BatchInFlight:
    """A batch on its way, and what else waits for it to land."""

    flight: Flight
    steps: list[dict[str, Any]]
    """The accepted steps whose distances come with it."""
    ended: list[tuple[CellRun, Tensor | None]]
    """Cells that have ended, and the copies of their best points that come with it."""


def to_host(image: Tensor | None) -> Tensor | None:
    """A copy on the host that is complete once the next batch has landed."""
    if image is None or image.device.type != "cuda":
        return None if image is None else image.to("cpu")
    host = torch.empty(image.shape, dtype=image.dtype, pin_memory=True)
    return host.copy_(image, non_blocking=True)
