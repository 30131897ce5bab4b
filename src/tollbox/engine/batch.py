"""Assembly: which rows of the cells under way make up the next batch.

1. Wanted rows come first; spare rows, which may turn out unneeded, only fill what would be padding.
2. Small asks come before large ones, and cells that have spent little before those that have spent
   much.
3. Rows whose answers were recorded earlier make up batches of their own (`recalled`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from .cell_run import CellRun
from .in_flight import Piece
from .sender import Sender

SMALL_ASK = 4
"""Rows of an ask that is served before larger ones."""

CellRuns = dict[int, CellRun]
"""Cells under way, by their slots."""
Shuffle = Callable[[list[CellRun]], None]


def wanted_rows(ready: CellRuns, enough: int) -> int:
    """How many rows are wanted; counts no further than `enough`."""
    total = 0
    for cell_run in ready.values():
        total += cell_run.pending.wanted_rows if cell_run.pending is not None else 0
        if total >= enough:
            break
    return total


def assembled(
    ready: CellRuns, fillers: Iterable[CellRun], sender: Sender, rows: int, shuffle: Shuffle | None
) -> list[Piece]:
    """`rows` rows for the next batch: wanted ones of `ready`, then spare ones of `fillers`.

    A cell of which no more rows are wanted leaves `ready`.
    """
    pieces: list[Piece] = []
    space = rows
    order = sorted(ready.values(), key=_priority)
    if shuffle is not None:
        shuffle(order)
    for cell_run in order:
        if space == 0:
            break
        space -= _cut(cell_run, pieces, space, spare=False)
        if cell_run.pending is None or cell_run.pending.wanted_rows == 0:
            del ready[cell_run.slot]
    rows -= space
    space = sender.padded(rows) - rows
    if space == 0:
        return pieces
    able = [cell_run for cell_run in fillers if cell_run.pending and cell_run.pending.can_spare]
    share = -(-space // len(able)) if able else 0
    for cell_run in able:
        space -= _cut(cell_run, pieces, min(share, space), spare=True)
    return pieces


def recalled(
    recalling: CellRuns, ready: CellRuns, space: int
) -> tuple[list[Piece], NDArray[np.int64]]:
    """Up to `space` rows of `recalling` that are answered from histories, and their labels.

    A cell that has no more such rows leaves `recalling`, for `ready` if it wants others.
    """
    pieces: list[Piece] = []
    labels: list[NDArray[np.int64]] = []
    for cell_run in list(recalling.values()):
        pending, history = cell_run.pending, cell_run.history
        if pending is None or history is None:
            raise RuntimeError("a cell recalls nothing")
        for number, rows in cell_run.recallable():
            rows = min(rows, space)
            if rows == 0:
                return pieces, np.concatenate(labels)
            first = pending.send(number, rows)
            pieces.append(Piece(pending, number, first, first + rows, cell_run.slot))
            labels.append(history.labels(cell_run.ask_number, number, first, first + rows))
            space -= rows
        if not cell_run.recallable():
            del recalling[cell_run.slot]
            if pending.wanted_rows > 0:
                ready[cell_run.slot] = cell_run
    return pieces, np.concatenate(labels)


def _priority(cell_run: CellRun) -> tuple[bool, float]:
    """Small asks first, since they come one after another and each waits for its batch; then those
    who have spent least, so that all end together and the last batches are full too."""
    small = cell_run.pending is not None and cell_run.pending.wanted_rows <= SMALL_ASK
    return not small, cell_run.spent


def _cut(cell_run: CellRun, pieces: list[Piece], space: int, spare: bool) -> int:
    """Take up to `space` rows of a cell's ask; returns how many."""
    pending, taken = cell_run.pending, 0
    if pending is None:
        return 0
    if not spare and pending.wanted_rows == 1 and len(pending.runs) == 1:  # the most frequent case
        first = pending.send(0, 1)
        pieces.append(Piece(pending, 0, first, first + 1, cell_run.slot))
        return 1
    for number in range(len(pending.runs)):
        rows = pending.spare(number) if spare else pending.wanted(number)
        rows = min(rows, space - taken)
        if rows > 0:
            first = pending.send(number, rows)
            pieces.append(Piece(pending, number, first, first + rows, cell_run.slot))
            taken += rows
    return taken
