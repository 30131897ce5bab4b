"""Workers: cells distributed over processes, each with its own engine and copy of the model.

An attack that sends one query at a time keeps a Python process busy before it keeps a model busy.
Two or three processes fill a GPU, and on a CPU one process per core is faster than threads.

1. A worker requests a cell when it has room; each cell goes to one worker. The results are those of
   one process (docs/design.md, rule 4), exactly if a row of the network depends only on itself.
2. A worker on the CPU gets its share of the threads.
3. The cells of a worker that dies stop with `MODEL_ERROR` and the reason. If all workers die, the
   remaining cells stop in the same way.
4. Processes are spawned: a script that uses them needs `if __name__ == "__main__":`.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import pickle
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass, replace

from ..core.cell import Cell
from ..core.execution import Execution, check_workers
from ..core.model import Model, as_model
from ..core.result import Result
from ..core.stop import Stop
from ..core.validation import check_flag
from ..engine.engine import Engine, Progress
from ..errors import InputError, TollboxError
from .executors import JobEnd, Link, Stopper, fewer_notice, within_cores
from .process import ProcessPool, dumped

REPORT_SECONDS = 0.1
"""Minimum time between two reports from a worker while no cell finishes."""


class Workers(ProcessPool):
    """A pool of processes that run cells. Use it as a context manager, for one run or several:

    with Workers(model, 2) as workers:
        execution = tb.Execution(workers=workers)
        results = tb.run(attack, model, images, labels, budget=1000, execution=execution)
    """

    def __init__(self, model: Model, count: int, *, force: bool = False) -> None:
        """Start `count` processes, at most one per core unless `force` is set; fewer if memory
        runs out."""
        check_workers(count)
        check_flag("force", force)
        if (notice := fewer_notice(count, count, force, "force=True")) is not None:
            warnings.warn(notice, stacklevel=2)
        super().__init__(within_cores(count, force), as_model(model))
        self._stopper = Stopper()

    def stop(self, reason: Stop = Stop.INTERRUPTED) -> None:
        self._stopper(reason)

    def run_cells(
        self,
        cells: Iterable[Cell],
        *,
        execution: Execution | None = None,
        layout: str | None = None,
        classes: int | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> Iterator[Result]:
        """Run cells, and yield each result when its cell finishes. `layout` is the memory layout of
        the model, `classes` the number of its classes, if it is known."""
        count, sized = self.count, isinstance(cells, Sized)
        if count == 0:
            raise InputError("these workers were closed: make new ones.")
        execution = execution or Execution()
        live = execution.live
        if isinstance(cells, Sized):
            count = max(1, min(count, len(cells)))
            live = len(cells) if live is None else live  # else the first worker would take all
        each = None if live is None else max(1, math.ceil(live / count))
        each_execution = replace(execution, live=each, workers=1)
        about = sized, layout, classes, each_execution
        jobs = [_CellJob(job, 1 / count, *about) for job in range(count)]
        self._stopper = stopper = Stopper()
        coordinator = _CellCoordinator(cells, count, stopper)
        began = time.monotonic()
        ends = self.run(jobs, report=coordinator.hear, answer=coordinator.answer, stopper=stopper)
        with contextlib.closing(ends):
            for end in ends:
                if end is not None:
                    coordinator.job_ended(end)
                now = coordinator.progress(time.monotonic() - began)
                if progress is not None:
                    progress(now)
                yield from now.finished
        yield from coordinator.left_over()
        if coordinator.error is not None:
            raise coordinator.error


class _CellCoordinator:
    def __init__(self, cells: Iterable[Cell], count: int, stopper: Stopper) -> None:
        self._sized = isinstance(cells, Sized)
        self._waiting = enumerate(cells)
        self._stopper = stopper
        self._cells: list[dict[int, Cell]] = [{} for _ in range(count)]
        """For each worker, its cells by their position in the input."""
        self._last = [Progress(0, 0, 0, 0, 0.0, ())] * count
        self._finished: list[Result] = []
        self._done = 0
        self._deaths: list[str] = []
        self.error: Exception | None = None
        """The first error; it is raised when the cells in progress have finished."""

    def answer(self, job: int, _: object) -> tuple[int, bytes] | None:
        """Return the next cell for a worker, with its position; None if there is none."""
        if self.error is not None or (self._stopper.reason is not None and not self._sized):
            return None
        try:
            index, cell = next(self._waiting)
            # pickle would send the whole tensor of which an image is a view
            tensors = {name: getattr(cell, name) for name in ("image", "start", "mask")}
            copies = {name: each.clone() for name, each in tensors.items() if each is not None}
            content = dumped(replace(cell, **copies), cell.name or f"image {index}")
        except StopIteration:
            return None
        except Exception as error:  # from the cell, or from the iterator that makes the images
            self.error = error
            return None
        self._cells[job][index] = cell
        return index, content

    def hear(self, report: tuple[int, Progress]) -> None:
        job, now = report
        self._last[job] = now
        for result in now.finished:
            del self._cells[job][result.index]
        self._finished += now.finished

    def job_ended(self, end: JobEnd) -> None:
        self.error = self.error or end.error
        if end.died:
            self._deaths.append(end.died)
            reason = f"the worker process died ({end.died}); its unfinished cells are lost"
            cells, self._cells[end.job] = self._cells[end.job], {}
            self._finished += [_lost(index, cell, reason) for index, cell in cells.items()]
            self._last[end.job] = replace(self._last[end.job], live=0)

    def progress(self, seconds: float) -> Progress:
        """Return the progress of all workers together, with the results since the last call."""
        finished, self._finished = tuple(self._finished), []
        self._done += len(finished)
        columns = zip(*((last.live, last.queries, last.rows) for last in self._last), strict=True)
        live, queries, rows = map(sum, columns)
        return Progress(self._done, live, queries, rows, seconds, finished)

    def left_over(self) -> Iterator[Result]:
        """Yield results for the cells that no worker is left to run."""
        if len(self._deaths) < len(self._cells) or self.error is not None:
            return
        reason = f"all worker processes died ({', '.join(self._deaths)})"
        if self._sized:
            yield from (_lost(index, cell, reason) for index, cell in self._waiting)
        else:
            self.error = TollboxError(f"{reason}: the remaining images were not attacked.")


def _lost(index: int, cell: Cell, reason: str) -> Result:
    return Result.of(cell, index, Stop.MODEL_ERROR, reason=reason)


@dataclass
class _CellJob:
    number: int
    memory: float
    """Share of the memory for points that this worker may use."""
    sized: bool
    """Whether the number of cells is known."""
    layout: str | None
    classes: int | None
    execution: Execution

    def __call__(self, model: Model, link: Link) -> None:
        self._link, self._next_report = link, 0.0
        self._indices: dict[int, int] = {}  # position in the input, by position in this worker
        if self.layout is not None:
            model = model.in_layout(self.layout)
        if self.classes is not None:
            model = replace(model, classes=self.classes)
        engine = Engine(model, self.execution, memory=self.memory, progress=self._progress)
        link.on_stop(engine.stop)
        for _ in engine.run(self if self.sized else iter(self)):
            pass

    def __iter__(self) -> Iterator[Cell]:
        """Yield cells from the coordinator until there are no more."""
        for position in itertools.count():
            if (answer := self._link.ask(None)) is None:
                return
            self._indices[position], content = answer
            yield pickle.loads(content)

    def __len__(self) -> int:
        return 0  # not used: a stopped engine takes all remaining cells if there is a length

    def _progress(self, now: Progress) -> None:
        finished = tuple(replace(r, index=self._indices.pop(r.index)) for r in now.finished)
        if finished or now.seconds >= self._next_report:
            self._next_report = now.seconds + REPORT_SECONDS
            self._link.report((self.number, replace(now, finished=finished)))
