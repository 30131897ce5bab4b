"""Batches: their size, the rows of the live cells that fill the next one, and their answers.

1. A model may take batches of one size only; every batch then has that size, trial batches
   included. If the model is metered, that size must be 1, since padding would be charged.
2. Wanted rows come first. Spare rows, which may turn out to be unneeded, only replace padding.
3. Rows whose answers were recorded earlier fill separate batches (`recalled`).
4. Labels, distances and any other values that wait to be read cross to the host in one transfer
   per batch; waiting for it is the only synchronisation.
5. Cells share a fixed part of the memory of the model's device (`memory_for_points`).
6. Only a cell that still waits for answers receives them. The first row that the model could not
   decide on, and those after it, count as not answered.
7. Labels that were recorded earlier stand, whatever the model answers now. If the points differ
   from the recorded ones, the cell has diverged from its history, and they are not recorded.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core.execution import Execution
from ..core.model import UNDECIDED, Model
from ..core.stop import Stop
from ..core.validation import require
from ..errors import InputError
from .cell_run import CellRun
from .journal import Answered, Labels
from .pending import Failure, Pending

MOST_TRIAL_ROWS = 256
"""Maximum number of rows of a batch that only tests a model."""
SMALL_ASK = 4
"""Maximum number of rows of an ask that is served before larger ones."""
NOT_NUMBERS = Failure(Stop.MODEL_ERROR, "the model's scores for a point are not numbers (NaN)")

CellRuns = dict[int, CellRun]
"""Live cells by slot."""
Shuffle = Callable[[list[CellRun]], None]


def batch_size_on(device: torch.device) -> int:
    return 256 if device.type == "cuda" else 64


def default_batch_size(model: Model) -> int:
    return model.batch or batch_size_on(model.device)


def default_live(batch_size: int) -> int:
    return max(64, 2 * batch_size)


def trial_batch_size(model: Model, batch_size: int | None) -> int:
    """Return the number of rows of a batch that only tests a model, outside a run."""
    return model.batch or min(batch_size or default_batch_size(model), MOST_TRIAL_ROWS)


def batch_size_for(model: Model, execution: Execution) -> int:
    """Return the batch size of a run; raise InputError if the model does not take it."""
    batch_size = execution.batch_size or default_batch_size(model)
    expected = f"{model.batch}, the only batch size that the model takes"
    require(model.batch in (None, batch_size), "batch_size", batch_size, expected)
    if execution.metered and model.batch not in (None, 1):
        why = f"the model takes batches of {model.batch} only: padding would be charged"
        expected = "a model that takes batches of any size, or of 1"
        raise InputError(f"is set, but {why}", expected=expected, input="metered")
    return batch_size


def memory_for_points(device: torch.device) -> float:
    """Return the bytes for all attacks: half of a GPU's free memory, or a quarter of all RAM."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] / 2
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 4


class RowSpan(NamedTuple):
    """Rows `first` to `last` - 1 of one run of one ask."""

    cell_run: CellRun
    pending: Pending
    run_number: int
    first: int
    last: int

    @property
    def size(self) -> int:
        return self.last - self.first

    @property
    def is_awaited(self) -> bool:
        """Whether its cell still waits for it; a finished cell waits for nothing."""
        return self.cell_run.pending is self.pending


def split(spans: Sequence[RowSpan], at: int) -> tuple[list[RowSpan], list[RowSpan]]:
    """Split the spans after their first `at` rows, and return both parts."""
    front: list[RowSpan] = []
    back: list[RowSpan] = []
    for span in spans:
        middle = min(span.last, span.first + at)
        at -= middle - span.first
        if middle > span.first:
            front.append(span._replace(last=middle))
        if middle < span.last:
            back.append(span._replace(first=middle))
    return front, back


class Arrival(NamedTuple):
    """The answers to a span."""

    span: RowSpan
    labels: Labels
    """Labels of the rows that were decided."""
    distances: NDArray[np.float64]

    def divergence(self) -> str | None:
        span, history = self.span, self.span.cell_run.history
        number = span.cell_run.ask_number
        if history is None or history.fits(number, span.run_number, span.first, self.distances):
            return None
        return f"ask {number} ({span.pending.ask.phase}) is at another distance"

    def deliver(self) -> None:
        span = self.span
        span.pending.take(span.run_number, self.labels, self.distances)
        if len(self.labels) < span.size:
            span.pending.fail(span.run_number, span.size - len(self.labels), NOT_NUMBERS)


def records(arrived: Sequence[Arrival]) -> list[Answered]:
    """Return the answers for the journal: in each run, only those before the first unanswered row,
    since the rows after it count as not sent."""
    recorded: list[Answered] = []
    broken: set[tuple[int, int]] = set()
    for span, labels, distances in arrived:
        cell_run, number = span.cell_run, span.run_number
        run = cell_run.slot, number
        if run in broken or span.pending.runs[number].failure is not None:
            continue
        if len(labels):
            ask, distance = cell_run.ask_number, float(distances[-1])
            recorded.append(Answered(cell_run.index, ask, number, span.first, labels, distance))
        if len(labels) < span.size:
            broken.add(run)
    return recorded


@dataclass
class InFlightBatch:
    """A batch whose values are on their way to the host."""

    spans: Sequence[RowSpan]
    failures: Sequence[tuple[RowSpan, Failure]]
    values: Tensor
    """Labels (`shape`), distances (`shape`), then the distances of `steps`; float64."""
    shape: int
    event: torch.cuda.Event | None
    recalled: bool
    """Whether the labels come from a history, not from the model."""
    steps: list[dict[str, Any]] = field(default_factory=list)
    """Accepted steps whose distances arrive with this batch."""
    ended: list[tuple[CellRun, Tensor | None]] = field(default_factory=list)
    """Finished cells, and the copies of their best points that arrive with this batch."""

    def land(self) -> NDArray[np.float64]:
        """Wait until the values have arrived, and return them."""
        if self.event is not None:
            self.event.synchronize()
        return self.values.numpy()

    def arrivals(self) -> Iterator[Arrival]:
        """Wait for the batch, and yield the answers to the spans that are still awaited."""
        values, shape = self.land(), self.shape
        labels, distances = values[:shape].astype(np.int64), values[shape : 2 * shape]
        for step, distance in zip(self.steps, values[2 * shape :].tolist(), strict=True):
            step["distance"] = distance
        undecided = bool((labels == UNDECIDED).any())
        first = 0
        for span in self.spans:
            last = first + span.size
            if span.is_awaited:
                end, cell_run = last, span.cell_run
                if undecided:
                    end = first + int(np.append(labels[first:last] == UNDECIDED, True).argmax())
                decided = labels[first:end]
                if cell_run.history is not None and not self.recalled:
                    decided = cell_run.history.confirmed(
                        cell_run.ask_number, span.run_number, span.first, decided
                    )
                yield Arrival(span, decided, distances[first:end])
            first = last


def to_host(values: Tensor) -> Tensor:
    """Return a copy on the host that is complete once the next batch has landed."""
    if not values.is_cuda:
        return values.to("cpu")
    host = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
    return host.copy_(values, non_blocking=True)


def wanted_rows(ready: CellRuns, enough: int) -> int:
    """Return how many rows are wanted; the count may stop at `enough`."""
    total = 0
    for cell_run in ready.values():
        total += cell_run.wanted_rows
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
    """Return up to `rows` wanted rows of `ready`, then spare rows of `fillers` that fill the batch
    shape (`padded`). A cell without further wanted rows leaves `ready`."""
    spans: list[RowSpan] = []
    space = rows
    order = sorted(ready.values(), key=_priority)
    if shuffle is not None:
        shuffle(order)
    for cell_run in order:
        if space == 0:
            break
        space -= _cut(cell_run, spans, space, spare=False)
        if cell_run.wanted_rows == 0:
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


def recalled(recalling: CellRuns, ready: CellRuns, space: int) -> tuple[list[RowSpan], Labels]:
    """Return up to `space` rows of `recalling` that histories answer, and their labels. A cell
    without further such rows leaves `recalling`; it moves to `ready` if it wants others."""
    spans: list[RowSpan] = []
    labels: list[Labels] = []
    for cell_run in list(recalling.values()):
        pending, history = cell_run.pending, cell_run.history
        if pending is None or history is None:
            raise RuntimeError("a cell has nothing to recall")
        for number, rows in cell_run.recallable():
            rows = min(rows, space)
            if rows == 0:
                return spans, np.concatenate(labels)
            span = _next_rows(cell_run, pending, number, rows)
            spans.append(span)
            labels.append(history.labels(cell_run.ask_number, number, span.first, span.last))
            space -= rows
        if not cell_run.recallable():
            del recalling[cell_run.slot]
            if pending.wanted_rows > 0:
                ready[cell_run.slot] = cell_run
    return spans, np.concatenate(labels)


def _priority(cell_run: CellRun) -> tuple[bool, float]:
    """Return a sort key: small asks first, since each waits for the batch of the one before; then
    by share of the budget spent, so that cells finish together and the last batches are full."""
    return cell_run.wanted_rows > SMALL_ASK, cell_run.spent


def _cut(cell_run: CellRun, spans: list[RowSpan], space: int, spare: bool) -> int:
    """Take up to `space` rows of a cell's ask, and return how many."""
    pending, taken = cell_run.pending, 0
    if pending is None:
        return 0
    if not spare and pending.wanted_rows == 1 and len(pending.runs) == 1:  # the most frequent case
        spans.append(_next_rows(cell_run, pending, 0, 1))
        return 1
    for number in range(len(pending.runs)):
        rows = pending.spare(number) if spare else pending.wanted(number)
        rows = min(rows, space - taken)
        if rows > 0:
            spans.append(_next_rows(cell_run, pending, number, rows))
            taken += rows
    return taken


def _next_rows(cell_run: CellRun, pending: Pending, number: int, rows: int) -> RowSpan:
    first = pending.send(number, rows)
    return RowSpan(cell_run, pending, number, first, first + rows)
