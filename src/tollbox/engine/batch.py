"""Batches: their size, the rows of the live cells that fill the next one, and one in flight.

1. A model may take batches of one size only; every batch then has that size, trial batches
   included. If the model is metered, that size must be 1, since padding would be charged.
2. Wanted rows come first. Spare rows, which may turn out to be unneeded, only replace padding.
3. Small asks come before large ones, and cells with a small cost before cells with a large one.
4. Rows whose answers were recorded earlier fill separate batches (`recalled`).
5. Labels, distances and any other values that wait to be read cross to the host in one transfer
   per batch; waiting for it is the only synchronisation.
6. An attack declares how many points it holds on the model's device (`BoundedAttack`). Cells share
   a fixed part of that device's memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core.cell import Cell
from ..core.execution import Execution
from ..core.model import Model
from ..core.problem import BoundedAttack
from ..core.validation import require
from ..errors import InputError
from .cell_run import CellRun
from .pending import Failure, Pending

LARGEST_BATCH = 65_536
MOST_TRIAL_ROWS = 256
"""Maximum number of rows of a batch that only tests a model."""
DEFAULT_ROWS = 256
"""Points that an attack is assumed to hold if it does not declare it (`BoundedAttack`)."""
SMALL_ASK = 4
"""Maximum number of rows of an ask that is served before larger ones."""

CellRuns = dict[int, CellRun]
"""Live cells by slot."""
Shuffle = Callable[[list[CellRun]], None]


def default_batch_size(model: Model) -> int:
    return model.batch or batch_size_on(model.device)


def batch_size_on(device: torch.device) -> int:
    """Return the default batch size of a model that takes any."""
    return 256 if device.type == "cuda" else 64


def default_live(batch_size: int) -> int:
    return max(64, 2 * batch_size)


def trial_batch_size(model: Model, batch_size: int | None) -> int:
    """Return the number of rows of a batch that only tests a model, outside a run."""
    if model.batch is not None:
        return model.batch
    return min(batch_size or default_batch_size(model), MOST_TRIAL_ROWS)


def batch_size_for(model: Model, execution: Execution) -> int:
    """Return the batch size of a run; raise InputError if the model does not take it."""
    batch_size = execution.batch_size or default_batch_size(model)
    expected = f"{model.batch}, the only batch size that the model takes"
    require(model.batch in (None, batch_size), "batch_size", batch_size, expected)
    if execution.metered and model.batch not in (None, 1):
        raise InputError(
            f"is set, but the model takes batches of {model.batch} only: padding would be charged",
            expected="a model that takes batches of any size, or of 1",
            input="metered",
        )
    return batch_size


def held_bytes(cell: Cell) -> int:
    """Return the maximum number of bytes of the points that a cell holds."""
    attack = cell.attack
    rows = attack.rows if isinstance(attack, BoundedAttack) else DEFAULT_ROWS
    return int(rows + 4) * cell.image.numel() * max(4, cell.image.element_size())


def memory_for_points(device: torch.device) -> float:
    """Return the bytes for all attacks: half of a GPU's free memory, a quarter of the host's."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] / 2
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 4


class RowSpan(NamedTuple):
    """Rows `first` to `last` of one run of one ask."""

    pending: Pending
    run_number: int
    first: int
    last: int
    slot: int
    """The slot of the cell, which is the row of its source image in the sender's table."""

    @property
    def size(self) -> int:
        return self.last - self.first


def split(spans: Sequence[RowSpan], at: int) -> tuple[list[RowSpan], list[RowSpan]]:
    """Return the first `at` rows of all, and the others."""
    front: list[RowSpan] = []
    for position, span in enumerate(spans):
        if span.size > at:
            if at == 0:
                return front, list(spans[position:])
            middle = span.first + at
            first, second = span._replace(last=middle), span._replace(first=middle)
            return [*front, first], [second, *spans[position + 1 :]]
        front.append(span)
        at -= span.size
    return front, []


@dataclass
class InFlightBatch:
    """A batch whose values are on their way to the host."""

    spans: list[RowSpan]
    failures: Sequence[tuple[RowSpan, Failure]]
    values: Tensor
    """Labels (`shape`), distances (`shape`), then the distances of `steps`; float64."""
    shape: int
    event: torch.cuda.Event | None
    recalled: bool = False
    """Whether the labels come from a history, not from the model."""
    steps: list[dict[str, Any]] = field(default_factory=list)
    """Accepted steps whose distances arrive with this batch."""
    ended: list[tuple[CellRun, Tensor | None]] = field(default_factory=list)
    """Cells that ended, and the copies of their best points that arrive with this batch."""

    def land(self) -> NDArray[np.float64]:
        """Wait until the values have arrived, and return them."""
        if self.event is not None:
            self.event.synchronize()
        return self.values.numpy()


def to_host(image: Tensor | None) -> Tensor | None:
    """Return a copy on the host that is complete once the next batch has landed."""
    if image is None or image.device.type != "cuda":
        return None if image is None else image.to("cpu")
    host = torch.empty(image.shape, dtype=image.dtype, pin_memory=True)
    return host.copy_(image, non_blocking=True)


def wanted_rows(ready: CellRuns, enough: int) -> int:
    """Return how many rows are wanted; the count may stop at `enough`."""
    total = 0
    for cell_run in ready.values():
        total += cell_run.pending.wanted_rows if cell_run.pending is not None else 0
        if total >= enough:
            break
    return total


def assembled(
    ready: CellRuns,
    fillers: Iterable[CellRun],
    rows: int,
    padded: Callable[[int], int],
    shuffle: Shuffle | None,
) -> list[RowSpan]:
    """Return `rows` wanted rows of `ready`, then spare rows of `fillers` up to the batch shape
    `padded(rows)`. A cell without further wanted rows leaves `ready`."""
    spans: list[RowSpan] = []
    space = rows
    order = sorted(ready.values(), key=_priority)
    if shuffle is not None:
        shuffle(order)
    for cell_run in order:
        if space == 0:
            break
        space -= _cut(cell_run, spans, space, spare=False)
        if cell_run.pending is None or cell_run.pending.wanted_rows == 0:
            del ready[cell_run.slot]
    rows -= space
    space = padded(rows) - rows
    if space == 0:
        return spans
    able = [cell_run for cell_run in fillers if cell_run.pending and cell_run.pending.can_spare]
    share = -(-space // len(able)) if able else 0
    for cell_run in able:
        space -= _cut(cell_run, spans, min(share, space), spare=True)
    return spans


def recalled(
    recalling: CellRuns, ready: CellRuns, space: int
) -> tuple[list[RowSpan], NDArray[np.int64]]:
    """Return up to `space` rows of `recalling` that histories answer, and their labels.

    A cell without further such rows leaves `recalling`; it moves to `ready` if it wants others.
    """
    spans: list[RowSpan] = []
    labels: list[NDArray[np.int64]] = []
    for cell_run in list(recalling.values()):
        pending, history = cell_run.pending, cell_run.history
        if pending is None or history is None:
            raise RuntimeError("a cell has nothing to recall")
        for number, rows in cell_run.recallable():
            rows = min(rows, space)
            if rows == 0:
                return spans, np.concatenate(labels)
            first = pending.send(number, rows)
            spans.append(RowSpan(pending, number, first, first + rows, cell_run.slot))
            labels.append(history.labels(cell_run.ask_number, number, first, first + rows))
            space -= rows
        if not cell_run.recallable():
            del recalling[cell_run.slot]
            if pending.wanted_rows > 0:
                ready[cell_run.slot] = cell_run
    return spans, np.concatenate(labels)


def _priority(cell_run: CellRun) -> tuple[bool, float]:
    """Put small asks first, since they come one after another and each waits for its batch; then
    the cells with the smallest cost, so that all finish together and the last batches are full."""
    small = cell_run.pending is not None and cell_run.pending.wanted_rows <= SMALL_ASK
    return not small, cell_run.spent


def _cut(cell_run: CellRun, spans: list[RowSpan], space: int, spare: bool) -> int:
    """Take up to `space` rows of a cell's ask, and return how many."""
    pending, taken = cell_run.pending, 0
    if pending is None:
        return 0
    if not spare and pending.wanted_rows == 1 and len(pending.runs) == 1:  # the most frequent case
        first = pending.send(0, 1)
        spans.append(RowSpan(pending, 0, first, first + 1, cell_run.slot))
        return 1
    for number in range(len(pending.runs)):
        rows = pending.spare(number) if spare else pending.wanted(number)
        rows = min(rows, space - taken)
        if rows > 0:
            first = pending.send(number, rows)
            spans.append(RowSpan(pending, number, first, first + rows, cell_run.slot))
            taken += rows
    return taken
