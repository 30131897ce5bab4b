"""The job of a worker: it runs cells from the coordinator, which records every answer first.

1. A worker loads the images, models and surrogates itself, and compares them with the record of the
   study.
2. It runs one model after another. All cells of a model go through one engine, whatever the attack
   or the price. When no cell is left, it asks again: cells of a lost worker may have returned.
3. It waits for the coordinator before an attack receives an answer. If the coordinator refuses, the
   worker's epoch is over: the job stops, and its unfinished cells do not count.
4. If a worker in its own process has too little memory even for the smallest batch, the job fails,
   not the cell, and continues in another process.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from ..core.cell import Cell
from ..core.execution import Execution
from ..core.model import Model
from ..core.stop import Stop
from ..engine.batch import default_batch_size, default_live, trial_batch_size
from ..engine.engine import Engine, Progress
from ..engine.journal import Answered, History
from ..errors import TollboxError
from ..workers.executors import Link
from .coordinator import pack
from .events import ModelStarted, Options, WorkerProgress
from .fingerprint import check_unchanged, current_environment, recorded_study
from .inputs import StudyInputs, load
from .store.record import StudyRecord

REPORT_SECONDS = 0.25
"""Time between two reports of progress."""
SPEED_BATCHES = 3
"""Number of batches used to measure the speed of a model."""


class EpochOver(TollboxError):
    """The refusal of the coordinator to accept anything more from this worker."""


@dataclass
class Loader:
    """A function that returns the study of a record with its images, loaded once or given."""

    loaded: StudyInputs | None = None
    models: Mapping[str, Model] = field(default_factory=dict)
    trust: bool = False
    """Whether the user trusts model files. It travels with this object, and not in the environment,
    which processes that the user did not mean would inherit."""

    def __call__(self, record: StudyRecord) -> StudyInputs:
        if self.loaded is None:
            study = recorded_study(record, files=not self.models)
            self.loaded = load(study, self.models, record, self.trust)
        return self.loaded


@dataclass(frozen=True)
class WorkerJob:
    """The job of one worker: it runs cells until none remain."""

    worker: int
    record: StudyRecord
    folder: Path
    """Folder of the stores, which only the coordinator opens."""
    options: Options

    def __call__(self, load_study: Loader, link: Link) -> None:
        """Load the study, compare it with the record, and run it."""
        run = WorkerRun(self, load_study(self.record), link)
        link.on_stop(run.stop)
        run.run()


class WorkerRun:
    """One run of a worker's job, and the journal of its engines, which the coordinator stores."""

    def __init__(self, job: WorkerJob, loaded: StudyInputs, link: Link) -> None:
        self._job, self._loaded, self._link = job, loaded, link
        self._epoch = 0
        self._epoch, images, seconds = self._ask("start")
        self._end = time.monotonic() + seconds
        self._stopping = None if seconds > 0 else Stop.TIME_LIMIT
        self._engine: Engine | None = None
        self._cells: list[int] = []
        """Number in the grid of each of the engine's cells."""
        self._answers: dict[int, list[Answered]] = {}
        """Recorded answers of cells that have not started, by position in the engine."""
        self._diverged: dict[int, str] = {}
        """Reasons why cells differ from their recording, by position in the engine."""
        self._finished: Counter[int] = Counter()
        """Queries of the engine's finished cells, by series."""
        self._next_report = 0.0
        loaded.check_against(job.record, images, job.folder)

    def _ask(self, kind: str, *content: Any) -> Any:
        answer = self._link.ask((kind, self._epoch, *content))
        if answer is None:
            raise EpochOver("the coordinator no longer accepts answers from this worker.")
        return answer

    def stop(self, reason: Stop = Stop.INTERRUPTED) -> None:
        """Stop after the batches in progress; a signal handler may call this."""
        self._stopping = self._stopping or reason
        if self._engine is not None:
            self._engine.stop(self._stopping)

    def run(self) -> None:
        loaded, record, folder = self._loaded, self._job.record, self._job.folder
        how = loaded.study.execution
        for number, spec in enumerate(loaded.study.models):
            if self._stopping is not None or not self._ask("share", number):
                continue
            self._link.report(ModelStarted(self._job.worker, spec.name))
            model = loaded.model(spec)
            check_unchanged(record, loaded.model_fingerprint(spec), folder)
            if how.exact:
                recorded = record.exactness_of(spec.name)
                model = loaded.exact_model(spec, recorded, folder)
                how = replace(how, batch_size=recorded.shapes[-1], one_shape=True)
            while self._stopping is None and (share := self._ask("share", number)):
                self._run_cells(model, number, how, share)

    def _run_cells(self, model: Model, number: int, how: Execution, share: int) -> None:
        """Run cells of model `number`, at most `share` at a time."""
        options = self._job.options
        rows = how.batch_size or default_batch_size(model)
        live = min(share, default_live(rows))
        if options.in_order:
            live = min(live, max(self._loaded.grid.width, rows // 2))
        self._cells, self._answers, self._diverged, self._finished = [], {}, {}, Counter()
        engine = self._engine = Engine(
            model,
            replace(how, live=live, time_limit=max(1e-3, self._end - time.monotonic())),
            memory=options.share,
            journal=self,
            progress=lambda now: self._report_progress(now, engine),
        )
        if self._stopping is not None:
            engine.stop(self._stopping)
        for result in engine.run(self._take_cells(number)):
            cell, why = self._cells[result.index], self._diverged.get(result.index)
            if why is not None:
                now = current_environment(self._loaded.device)
                changes = self._job.record.environment.changes(now)
                known = changes or "nothing is known to have changed"
                self._link.report(("diverged", self._epoch, cell, why, known))
                continue
            if result.stop.failed and engine.sender.exhausted and options.own_process:
                raise MemoryError(result.reason)
            if not (self._loaded.study.keep_images or result.stop.unfinished):
                result = replace(result, adversarial=None)
            self._link.report(("ended", self._epoch, cell, result))
        self._engine = None

    def _take_cells(self, model: int) -> Iterator[Cell]:
        """Yield cells of a model, each when the engine has room."""
        while taken := self._ask("take", model):
            for cell, answers in taken:
                if answers is not None:
                    self._answers[len(self._cells)] = answers
                self._cells.append(cell)
                yield self._loaded.cell(self._loaded.grid.place(cell))

    def _report_progress(self, now: Progress, engine: Engine) -> None:
        """Report the state of the run every `REPORT_SECONDS`."""
        grid = self._loaded.grid
        done = [(grid.series_of(self._cells[result.index]), result) for result in now.finished]
        for series, result in done:
            self._finished[series] += result.ledger.queries
        if time.monotonic() < self._next_report:
            return
        self._next_report = time.monotonic() + REPORT_SECONDS
        queries, spent = self._finished.copy(), defaultdict[int, float](float)
        for series, _ in done:  # until the coordinator reports that they finished
            spent[series] += 1
        for index, ledger in engine.under_way():
            cell = self._cells[index]
            limits, flagged = grid.place(cell).series.tariff.limits, ledger.flagged
            queries[grid.series_of(cell)] += ledger.queries
            spent[grid.series_of(cell)] += limits.spent(ledger.cost, ledger.queries, flagged)
        self._link.report(WorkerProgress(self._job.worker, dict(queries), dict(spent)))

    def record(self, answers: Sequence[Answered]) -> None:
        """Send the labels of a batch, and wait until they are committed."""
        if answers:
            numbered = [a._replace(cell=self._cells[a.cell]) for a in answers]
            self._ask("record", pack(numbered, self._job.record.shards))

    def history(self, cell: int) -> History | None:
        answers = self._answers.pop(cell, None)
        # the rows that were recorded last are queried again, unless each query is billed
        repeat = not self._loaded.study.execution.metered
        return None if answers is None else History(answers, repeat)

    def diverged(self, cell: int, why: str) -> None:
        self._diverged[cell] = why


@torch.no_grad()
def model_speed(loaded: StudyInputs, model: Model) -> float | None:
    """Return the approximate images/s of the model by itself; None if it is metered or fails."""
    study, images = loaded.study, loaded.images.images
    if study.execution.metered:
        return None
    size = trial_batch_size(model, study.execution.batch_size)
    batch = images[torch.arange(size) % len(images)].to(model.device, model.dtype)
    best = math.inf
    try:
        for _ in range(SPEED_BATCHES):
            began = time.perf_counter()
            model(model.sent(batch.clone())).cpu()
            best = min(best, time.perf_counter() - began)
    except Exception:  # an error in the model, which is reported when its cells run
        return None
    return size / best
