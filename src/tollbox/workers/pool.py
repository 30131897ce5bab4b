"""Workers: the same cells over several processes, each with an engine and a model of its own.

An attack that asks point by point keeps one Python process busy before it keeps a model busy. Two
or three processes fill the GPU, and on a CPU a process per core does better than threads.

1. A worker asks for a cell when it has room; each cell goes to one worker. Results are those of one
   process (rule 4), exactly so where a row of the network depends on nothing else.
2. The model travels by pickle, once; a worker on the CPU takes its share of the threads.
3. The cells of a worker that dies end as `MODEL_ERROR`, with the reason. If all have died, so do
   the cells that are left.
4. There are no more workers than cores unless they are forced, nor than cells if these have a
   length.
5. Processes are spawned: a script that uses them needs `if __name__ == "__main__":`.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..core.cell import Cell
from ..core.execution import Execution, check_workers
from ..core.model import Model, as_model
from ..core.result import Result
from ..core.stop import Stop
from ..core.validation import check_flag
from ..engine.engine import Engine
from ..engine.progress import Progress
from ..errors import InputError, TollboxError
from .executors import JobEnd, Link, Stopper, fewer_notice, within_cores
from .process import Processes, dumped, loaded

REPORT_SECONDS = 0.1
"""Seconds between two reports of a worker while no cell is finished."""


class Workers:
    """Processes that wait for cells. Use it as a context, for one run or for several:

    with Workers(model, 2) as workers:
        execution = tb.Execution(workers=workers)
        results = tb.run(attack, model, images, labels, budget=1000, execution=execution)
    """

    def __init__(self, model: Model, count: int, *, force: bool = False) -> None:
        """`count` processes, but no more than cores unless `force`; there are fewer if there is not
        enough memory."""
        check_workers(count)
        check_flag("force", force)
        if (notice := fewer_notice(count, count, force, "force=True")) is not None:
            warnings.warn(notice, stacklevel=2)
        self._processes = Processes(within_cores(count, force), as_model(model))
        self._stopper = Stopper()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def count(self) -> int:
        """How many processes there are."""
        return self._processes.count

    def close(self) -> None:
        """End all of them."""
        self._processes.close()

    def stop(self, reason: Stop = Stop.INTERRUPTED) -> None:
        """End all cells after the batches under way."""
        self._stopper(reason)

    def run(
        self,
        cells: Iterable[Cell],
        *,
        execution: Execution | None = None,
        layout: str | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> Iterator[Result]:
        """Run cells and yield each result when it is finished; the model is put into `layout`."""
        count = self.count
        if count == 0:
            raise InputError("these workers were closed: make new ones.")
        execution = execution or Execution()
        live, sized = execution.live, isinstance(cells, Sized)
        if isinstance(cells, Sized):
            count = max(1, min(count, len(cells)))
            live = len(cells) if live is None else live  # else the first would take all
        each = None if live is None else max(1, math.ceil(live / count))
        each_execution = replace(execution, live=each, workers=1)
        jobs = [_Job(place, 1 / count, sized, layout, each_execution) for place in range(count)]
        self._stopper = Stopper()
        return self._run(jobs, _Distribution(cells, count, self._stopper), progress)

    def _run(
        self,
        jobs: list[_Job],
        distribution: _Distribution,
        progress: Callable[[Progress], None] | None,
    ) -> Iterator[Result]:
        began = time.monotonic()
        events = self._processes.run(
            jobs,
            tell=distribution.take_report,
            answer=distribution.next_cell,
            stopper=self._stopper,
        )
        with contextlib.closing(events):
            for end in events:
                if end is not None:
                    distribution.take_end(end)
                finished = distribution.take_finished()
                if progress is not None:
                    progress(distribution.progress(time.monotonic() - began, finished))
                yield from finished
        yield from distribution.left_over()
        if distribution.error is not None:
            raise distribution.error


class _Report(NamedTuple):
    """What a worker reports."""

    job: int
    finished: list[Result]
    live: int
    queries: int
    rows: int


class _Distribution:
    """Which worker has which cells, and what they have reported."""

    def __init__(self, cells: Iterable[Cell], count: int, stopper: Stopper) -> None:
        self._sized = isinstance(cells, Sized)
        self._waiting = enumerate(cells)
        self._stopper = stopper
        self._cells: list[dict[int, Cell]] = [{} for _ in range(count)]
        """Of each worker the cells under way, by their position in the input."""
        self._last = [_Report(job, [], 0, 0, 0) for job in range(count)]
        self._finished: list[Result] = []
        self._done = 0
        self._deaths: list[str] = []
        self.error: Exception | None = None
        """The first error, which is raised when all that was under way is finished."""

    def next_cell(self, job: int, _: object) -> tuple[int, bytes] | None:
        """The next cell for a worker; None if there is none."""
        if self.error is not None or (self._stopper.reason is not None and not self._sized):
            return None
        try:
            index, cell = next(self._waiting)
            content = dumped(_without_views(cell), cell.name or f"image {index}")
        except StopIteration:
            return None
        except Exception as error:  # of the cell, or of whoever makes the images
            self.error = error
            return None
        self._cells[job][index] = cell
        return index, content

    def take_report(self, report: _Report) -> None:
        self._last[report.job] = report
        for result in report.finished:
            del self._cells[report.job][result.index]
        self._finished += report.finished

    def take_end(self, end: JobEnd) -> None:
        """A worker has finished, failed or died."""
        self.error = self.error or end.error
        if end.died:
            self._deaths.append(end.died)
            reason = f"the worker process died ({end.died}); what it had found out is lost"
            cells = self._cells[end.job]
            self._finished += [_lost(index, cell, reason) for index, cell in cells.items()]
            self._cells[end.job] = {}
            self._last[end.job] = self._last[end.job]._replace(live=0)

    def take_finished(self) -> tuple[Result, ...]:
        """The results that have come since this was called last."""
        finished, self._finished = tuple(self._finished), []
        self._done += len(finished)
        return finished

    def progress(self, seconds: float, finished: tuple[Result, ...]) -> Progress:
        """Where all workers stand together."""
        last = self._last
        return Progress(
            self._done,
            sum(report.live for report in last),
            sum(report.queries for report in last),
            sum(report.rows for report in last),
            seconds,
            finished,
        )

    def left_over(self) -> Iterator[Result]:
        """The cells that no worker is left to run."""
        if len(self._deaths) < len(self._cells) or self.error is not None:
            return
        reason = f"all worker processes died ({', '.join(self._deaths)})"
        if self._sized:
            yield from (_lost(index, cell, reason) for index, cell in self._waiting)
        else:
            self.error = TollboxError(f"{reason}: the images that are left were not attacked.")


def _lost(index: int, cell: Cell, reason: str) -> Result:
    return Result.of(cell, index, Stop.MODEL_ERROR, reason=reason)


def _without_views(cell: Cell) -> Cell:
    """The cell with images of its own: a view would take all that it is a view of along."""
    start = None if cell.start is None else cell.start.clone()
    mask = None if cell.mask is None else cell.mask.clone()
    return replace(cell, image=cell.image.clone(), start=start, mask=mask)


# -- in the other process -------------------------------------------------------------------------


@dataclass(frozen=True)
class _Job:
    """The work of one worker: as many cells as it can get."""

    place: int
    memory: float
    """Its share of the memory."""
    sized: bool
    """The cells are known to end."""
    layout: str | None
    execution: Execution

    def __call__(self, model: Model, link: Link) -> None:
        _Worker(self, model, link).run()


class _Worker:
    """One run of one worker."""

    def __init__(self, job: _Job, model: Model, link: Link) -> None:
        self._job, self._link = job, link
        self._indices: dict[int, int] = {}
        """From the position of a cell here to its position in the whole input."""
        self._last = _Report(job.place, [], 0, 0, 0)
        self._finished: list[Result] = []
        self._reported = 0.0
        if job.layout is not None:
            model = model.in_layout(job.layout)
        self._engine = Engine(model, job.execution, memory=job.memory, progress=self._progress)

    def run(self) -> None:
        self._link.on_stop(self._engine.stop)
        try:
            for _ in self._engine.run(_Pulled(self._pull) if self._job.sized else self._pull()):
                pass
        finally:
            self._report()

    def _pull(self) -> Iterator[Cell]:
        for position in itertools.count():
            answer = self._link.ask(None)
            if answer is None:
                return
            self._indices[position], content = answer
            yield loaded(content)

    def _progress(self, now: Progress) -> None:
        self._last = _Report(self._job.place, [], now.live, now.queries, now.rows)
        for result in now.finished:
            self._finished.append(replace(result, index=self._indices.pop(result.index)))
        if self._finished or time.monotonic() - self._reported > REPORT_SECONDS:
            self._report()

    def _report(self) -> None:
        self._reported = time.monotonic()
        finished, self._finished = self._finished, []
        self._link.tell(self._last._replace(finished=finished))


class _Pulled:
    """Cells that come one by one, and are known to end."""

    def __init__(self, pull: Callable[[], Iterator[Cell]]) -> None:
        self._pull = pull

    def __iter__(self) -> Iterator[Cell]:
        return self._pull()

    def __len__(self) -> int:
        return 0
