"""The engine: many attacks, one model.

1. A batch is filled with the next queries of all live cells, whatever their attack, price or step.
2. On a GPU, the next batch is launched while the model computes the previous one. Each batch has
   one synchronisation.
3. Cells are admitted while there is room for their number and for the points that they may hold.
4. Every cell stops with a reason. An error stops the cells concerned and no others.
5. Nothing may depend on the order in which live cells are served: tests shuffle it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..core.cell import Cell
from ..core.device import keep_freed
from ..core.execution import Execution
from ..core.ledger import Ledger
from ..core.model import Model, as_model
from ..core.result import Result
from ..core.stop import Stop
from ..core.validation import check_function, check_instance
from .alarms import detect
from .batch import (
    Arrival,
    CellRuns,
    InFlightBatch,
    RowSpan,
    Shuffle,
    assembled,
    batch_size_for,
    default_live,
    memory_for_points,
    recalled,
    records,
    to_host,
    wanted_rows,
)
from .cell_run import CellRun
from .journal import Journal, Labels
from .resolution import ResolutionCheck
from .sender import Sender


@dataclass(frozen=True)
class Progress:
    """Counts over all images so far, and the results of the last batch."""

    done: int
    live: int
    queries: int
    """Number of queries charged."""
    rows: int
    """Number of rows computed, including padding and rows that were not needed."""
    seconds: float
    finished: tuple[Result, ...]
    """The results that this batch completed."""


ADMITTED_AT_A_TIME = 4
"""Number of cells admitted between two waits for a batch; this takes less time than a batch."""


class Engine:
    """A runner of cells on one model; `run` yields each result when its cell finishes."""

    def __init__(
        self,
        model: Model,
        execution: Execution | None = None,
        *,
        memory: float = 1.0,
        progress: Callable[[Progress], None] | None = None,
        journal: Journal | None = None,
        shuffle: Shuffle | None = None,
    ) -> None:
        """`memory` is the share of the memory for points that this engine may use."""
        model, execution = as_model(model), Execution() if execution is None else execution
        check_instance("execution", execution, Execution)
        batch_size = batch_size_for(model, execution)
        check_function("progress", progress)
        one_shape, metered = execution.one_shape, execution.metered
        self.sender = Sender(
            model, batch_size, one_shape, metered, execution.retries, self._asked_to_stop
        )
        self._model, self._execution = model, execution
        self._resolves = ResolutionCheck(self.sender)
        self._live_limit = execution.live or default_live(batch_size)
        self._memory = memory * memory_for_points(model.device)
        self._began = time.monotonic()
        self._progress, self._journal, self._shuffle = progress, journal, shuffle
        self._most_in_flight = 2 if model.device.type == "cuda" else 1
        if model.device.type == "cpu":
            keep_freed()
        self._cell_runs: CellRuns = {}
        self._ready: CellRuns = {}
        """Live cells that need rows from the model."""
        self._recalling: CellRuns = {}
        """Live cells whose next answers are recorded."""
        self._held_bytes = 0
        """Bytes of the points that live cells may hold."""
        self._free_slots: list[int] = []
        self._in_flight: deque[InFlightBatch] = deque()
        self._iterate_distances: list[tuple[Tensor, dict[str, Any]]] = []
        """Distances that are read with the next batch, and the steps that wait for them."""
        self._ended: list[CellRun] = []
        """Cells whose best points are read with the next batch."""
        self._finished: deque[Result] = deque()
        self._image_shape: tuple[int, ...] | None = None
        self._done = self._queries = self._rows = 0
        self._stopping: Stop | None = None

    def stop(self, reason: Stop = Stop.INTERRUPTED) -> None:
        """Stop all cells after the batches in flight; safe to call from a signal handler."""
        self._stopping = self._stopping or reason

    def _asked_to_stop(self) -> Stop | None:
        if time.monotonic() - self._began > float(self._execution.time_limit):
            self.stop(Stop.TIME_LIMIT)
        return self._stopping

    def run(self, cells: Iterable[Cell]) -> Iterator[Result]:
        """Run cells and yield each result when its cell finishes, in no particular order.

        After a cell that is refused, or an error in the iterable, no further cells are admitted;
        live cells finish, and their results are yielded, before the error is raised. After a stop,
        cells that have not started get its reason, if the iterable has a length.
        """
        self._began = time.monotonic()
        waiting = enumerate(cells)
        refusal: Exception | None = None
        more, admitted = True, 0
        while more or self._cell_runs or self._in_flight or self._has_news():
            if (reason := self._asked_to_stop()) is not None:
                self._end_all(reason)
            while more and self._has_room():
                if self._stopping is not None and not isinstance(cells, Sized):
                    more = False  # an iterable without a length may be infinite
                    break
                try:
                    self._admit(*next(waiting))
                except StopIteration:
                    more = False
                except Exception as error:  # from the check of the cell, or from the iterable
                    refusal, more = error, False
                admitted += 1
                if self._in_flight and admitted % ADMITTED_AT_A_TIME == 0:
                    self._land()
                free = len(self._in_flight) < self._most_in_flight
                enough = self.sender.batch_size if self._in_flight else self.sender.least_worthy
                if free and wanted_rows(self._ready, enough) >= enough:
                    self._dispatch()  # without waiting for all cells to be admitted
            self._dispatch()
            if self._in_flight:
                self._land()
            while self._finished:
                yield self._finished.popleft()
        if refusal is not None:
            raise refusal

    def under_way(self) -> list[tuple[int, Ledger]]:
        """Return the position and the ledger of each live cell."""
        return [(run.index, run.ledger) for run in self._cell_runs.values()]

    def _has_room(self) -> bool:
        if self._stopping is not None:
            return not self._ended  # the remaining cells stop one by one, without a query
        room = self._held_bytes < self._memory or not self._cell_runs
        return len(self._cell_runs) < self._live_limit and room

    @torch.no_grad()
    def _admit(self, index: int, cell: Cell) -> None:
        name = cell.name or f"image {index}"
        self._image_shape = cell.check(self._model, name, self._image_shape)
        history = None if self._journal is None else self._journal.history(index)
        slot = self._free_slots.pop() if self._free_slots else len(self._cell_runs)
        metered, check = self._execution.metered, self._resolves
        cell_run = CellRun(index, cell, slot, self._model, metered, history, check)
        if self._stopping is None:
            self.sender.builder.place(slot, cell_run.problem)
            cell_run.start()
        else:
            cell_run.end(self._stopping)
        self._cell_runs[slot] = cell_run
        self._held_bytes += cell_run.held_bytes
        self._advance(cell_run)

    def _advance(self, cell_run: CellRun) -> None:
        """Advance a cell as far as possible without the model."""
        slot = cell_run.slot
        self._recalling.pop(slot, None)  # its next query may not be recorded
        if cell_run.advance() and not self._end_diverged(cell_run, cell_run.divergence()):
            waiting = self._recalling if cell_run.recallable() else self._ready
            waiting[slot] = cell_run
        self._queries += cell_run.newly_charged()
        self._iterate_distances += cell_run.iterate_distances
        cell_run.iterate_distances = []
        if cell_run.ended is not None:
            self._ready.pop(slot, None)
            del self._cell_runs[slot]
            self._held_bytes -= cell_run.held_bytes
            self._free_slots.append(slot)
            self._ended.append(cell_run)

    @torch.no_grad()
    def _end_all(self, reason: Stop) -> None:
        while self._in_flight:
            self._land()
        for cell_run in list(self._cell_runs.values()):
            cell_run.end(reason)
            self._advance(cell_run)

    def _end_diverged(self, cell_run: CellRun, divergence: str | None) -> bool:
        """Stop a cell if its queries no longer match the recording; return whether it stopped."""
        if divergence is None or self._journal is None:
            return False
        cell_run.abandon(divergence)
        self._journal.diverged(cell_run.index, divergence)
        return True

    def _has_news(self) -> bool:
        """Return whether something must be read from the device even without rows to send."""
        return bool(self._ended or self._iterate_distances)

    @torch.no_grad()
    def _dispatch(self) -> None:
        batch_size = self.sender.batch_size
        while len(self._in_flight) < self._most_in_flight:
            if self._recalling:
                self._launch(*recalled(self._recalling, self._ready, self.sender.batch_size))
                continue
            batches = self._most_in_flight - len(self._in_flight)
            wanted = wanted_rows(self._ready, batches * batch_size)
            rows = self.sender.rows_to_launch(wanted, batches)
            if rows == 0 or (self._in_flight and not self.sender.is_worth_it(rows)):
                break
            runs = self._cell_runs.values()
            fillers = (run for run in runs if run.slot not in self._recalling)
            self._launch(assembled(self._ready, fillers, rows, self.sender.padded, self._shuffle))
        if not self._in_flight and self._has_news():
            self._launch([])

    def _launch(self, spans: list[RowSpan], known: Labels | None = None) -> None:
        """Send a batch; with known labels, only compute its distances."""
        waiting, self._iterate_distances = self._iterate_distances, []
        ended, self._ended = self._ended, []
        points = [cell_run.best for cell_run in ended]
        images = [None if point is None else to_host(point) for point in points]
        batches = self.sender.send(spans, [distance for distance, _ in waiting], known)
        self._rows += sum(batch.shape for batch in batches if not batch.recalled)
        batches[0].steps = [step for _, step in waiting]
        batches[0].ended = list(zip(ended, images, strict=True))
        self._in_flight += batches

    @torch.no_grad()
    def _land(self) -> None:
        """Wait for the oldest batch, record its answers, and advance its cells."""
        batch = self._in_flight.popleft()
        concerned: CellRuns = {}
        arrived: list[Arrival] = []
        for arrival in batch.arrivals():
            cell_run = arrival.span.cell_run
            concerned[cell_run.slot] = cell_run
            if not self._end_diverged(cell_run, arrival.divergence()):
                arrived.append(arrival)
        arrived = [arrival for arrival in arrived if arrival.span.is_awaited]
        recorded = [] if batch.recalled else records(arrived)
        for arrival in arrived:
            arrival.deliver()
        for span, failure in batch.failures:
            if span.is_awaited:
                concerned[span.cell_run.slot] = span.cell_run
                span.pending.fail(span.run_number, span.size, failure)
        recorded += detect(concerned.values())
        if self._journal is not None and (recorded or not batch.recalled):
            self._journal.record(recorded)
        for cell_run in concerned.values():
            self._advance(cell_run)
        self._finish(batch.ended)

    def _finish(self, ended: list[tuple[CellRun, Tensor | None]]) -> None:
        """Make the results of cells whose best points have arrived, and report progress."""
        warnings = *self.sender.memory_warnings, *self._model.notices
        results = tuple(cell_run.result(image, warnings) for cell_run, image in ended)
        self._finished += results
        self._done += len(results)
        if self._progress is not None:
            seconds, live = time.monotonic() - self._began, len(self._cell_runs)
            self._progress(Progress(self._done, live, self._queries, self._rows, seconds, results))
