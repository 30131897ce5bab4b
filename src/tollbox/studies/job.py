"""An engine's job: cells that it pulls from the desk, with every answer written down first.

1. It loads the images, models and surrogates itself, and checks them against what the study was
   begun with.
2. Model after model; the cells of one go through one engine, whatever attack or price. When there
   are no more it asks again, since an engine that was lost may have left some.
3. It waits for the desk before an attack hears an answer. If the desk has none for it, its epoch is
   over: it ends, and nothing of what it had under way counts.
4. In a process of its own, a batch for which there is not enough memory, however small it is made,
   ends the job and no cell: it goes on in another process.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from ..core.cell import Cell
from ..core.execution import Execution
from ..core.ledger import Ledger
from ..core.model import Model
from ..core.stop import Stop
from ..engine.engine import Engine
from ..engine.journal import Answered, History
from ..engine.progress import Progress
from ..engine.sizes import default_batch_size, default_live, trial_batch_size
from ..errors import TollboxError
from ..workers.executors import Link
from .coordinator import Begin, Begun, Diverged, Ended, Open, Record, Take, Unfinished, pack
from .events import EngineProgress, ModelBegun, Options, Tell
from .fingerprint import (
    check_unchanged,
    current_environment,
    recorded_study,
)
from .grid import Grid
from .inputs import StudyInputs, load
from .specs import Tariff
from .store.record import StudyRecord

TELL_SECONDS = 0.25
"""Time between two reports of progress."""
SPEED_BATCHES = 3
"""Batches that measure the speed of the model alone."""


class EpochOver(TollboxError):
    """The desk takes nothing more from this engine."""


@dataclass
class Loader:
    """The study of a record with its images: the one at hand, or loaded once in this process."""

    loaded: StudyInputs | None = None
    models: Mapping[str, Model] = field(default_factory=dict)

    def __call__(self, record: StudyRecord) -> StudyInputs:
        """The study."""
        if self.loaded is None:
            study = recorded_study(record, files=not self.models)
            self.loaded = load(study, self.models, record)
        return self.loaded


@dataclass(frozen=True)
class EngineJob:
    """Run cells as long as there are any."""

    engine: int
    """Its number."""
    record: StudyRecord
    folder: Path
    """Of the study's stores, which only the desk opens."""
    options: Options

    def __call__(self, load_study: Loader, link: Link) -> None:
        """Load the study, see whether all is as it was, and run."""
        desk = _Window(link)
        record, folder = self.record, self.folder
        loaded = load_study(record)
        begun: Begun = desk.ask(Begin())
        desk.epoch = begun.epoch
        loaded.check_against(record, begun.images, folder)
        run = EngineRun(self, loaded, desk, begun.seconds)
        link.on_stop(run.stop)
        run.run()


@dataclass
class _Window:
    """The desk, as an engine sees it."""

    link: Link
    epoch: int = 0

    def ask(self, request: Any) -> Any:
        """Ask, and wait for the answer."""
        answer = self.link.ask(request)
        if answer is None:
            raise EpochOver("the study is no longer run by this engine.")
        return answer


class DeskJournal:
    """The engine's journal, which the desk keeps."""

    def __init__(self, desk: _Window, record: StudyRecord, ask_again: bool) -> None:
        """`ask_again`: the rows that were recorded last are asked once more."""
        self._desk, self._study, self._ask_again = desk, record, ask_again
        self.cells: list[int] = []
        """The numbers in the grid of the engine's cells."""
        self._taken: deque[tuple[int, list[Answered] | None]] = deque()
        """Cells that came with the last, and were not begun."""
        self._answers: dict[int, list[Answered]] = {}
        self.diverged_cells: dict[int, str] = {}
        """By their place in the engine."""

    def take(self, model: int) -> int | None:
        """The next cell of a model, if there is one."""
        if not self._taken:
            self._taken.extend(self._desk.ask(Take(self._desk.epoch, model)))
        if not self._taken:
            return None
        cell, answers = self._taken.popleft()
        if answers is not None:
            self._answers[len(self.cells)] = answers
        self.cells.append(cell)
        return cell

    def record(self, answers: Sequence[Answered]) -> None:
        """Have the labels of a batch committed."""
        if answers:
            numbered = [a._replace(cell=self.cells[a.cell]) for a in answers]
            self._desk.ask(Record(self._desk.epoch, pack(numbered, self._study)))

    def history(self, cell: int) -> History | None:
        """What was recorded of a cell earlier."""
        answers = self._answers.pop(cell, None)
        return None if answers is None else History(answers, self._ask_again)

    def diverged(self, cell: int, why: str) -> None:
        """The cell does not ask what it asked earlier."""
        self.diverged_cells[cell] = why


class EngineRun:
    """One run of an engine's job, all checked."""

    def __init__(self, job: EngineJob, loaded: StudyInputs, desk: _Window, seconds: float) -> None:
        self._job, self._loaded, self._desk = job, loaded, desk
        self._stopping = None if seconds > 0 else Stop.TIME_LIMIT
        self._engine: Engine | None = None
        self._end = time.monotonic() + seconds

    def stop(self, reason: Stop = Stop.INTERRUPTED) -> None:
        """End after the batches under way; safe to call from a signal handler."""
        self._stopping = self._stopping or reason
        if self._engine is not None:
            self._engine.stop(self._stopping)

    def run(self) -> None:
        """Run what is left, of all models."""
        record, folder, study = self._job.record, self._job.folder, self._loaded.study
        for number, spec in enumerate(study.models):
            if self._stopping is not None or not self._share(number):
                continue
            self._desk.link.tell(ModelBegun(self._job.engine, spec.name))
            model = self._loaded.model(spec)
            check_unchanged(record, self._loaded.model_fingerprint(spec), folder)
            size = study.execution.batch_size
            if study.execution.exact:
                begun = record.exactness_of(spec.name)
                model, size = self._loaded.exact_model(spec, begun, folder), begun.shapes[-1]
            while self._stopping is None and (share := self._share(number)):
                self._run_cells(model, number, size, share)

    def _share(self, model: int) -> int:
        return int(self._desk.ask(Open(self._desk.epoch, model)))

    def _run_cells(self, model: Model, number: int, size: int | None, share: int) -> None:
        """Run cells of a model, at most `share` at a time, in batches of `size`."""
        study, desk = self._loaded.study, self._desk
        journal = DeskJournal(desk, self._job.record, ask_again=not study.execution.metered)
        rows = size or default_batch_size(model)
        live = min(share, default_live(rows))
        if self._job.options.in_order:
            live = min(live, max(self._loaded.grid.width, rows // 2))
        reporter = _Reporter(desk.link.tell, self._job.engine, self._loaded.grid, journal.cells)
        self._engine = Engine(
            model,
            Execution(
                batch_size=size,
                live=live,
                metered=study.execution.metered,
                one_shape=study.execution.one_shape or study.execution.exact,
                time_limit=max(1e-3, self._end - time.monotonic()),
            ),
            memory=self._job.options.share,
            journal=journal,
            progress=reporter.progress,
        )
        reporter.engine = self._engine
        if self._stopping is not None:
            self._engine.stop(self._stopping)
        for result in self._engine.run(self._pulled(journal, number)):
            cell, why = journal.cells[result.index], journal.diverged_cells.get(result.index)
            if why is not None:
                desk.link.tell(Diverged(desk.epoch, cell, why, self._changes()))
                continue
            if result.stop.unfinished:
                desk.link.tell(Unfinished(desk.epoch, cell, result))
                continue
            exhausted = result.stop.failed and self._engine.sender.exhausted
            if exhausted and self._job.options.own_process:
                raise MemoryError(result.reason)
            kept = result if study.keep_images else replace(result, adversarial=None)
            desk.link.tell(Ended(desk.epoch, cell, kept))
        self._engine = None

    def _pulled(self, journal: DeskJournal, model: int) -> Iterator[Cell]:
        """Cells, each when the engine has room."""
        while (cell := journal.take(model)) is not None:
            yield self._loaded.cell(self._loaded.grid.place(cell))

    def _changes(self) -> str:
        now = current_environment(self._loaded.device)
        return self._job.record.environment.changes(now) or "nothing is known to have changed"


@torch.no_grad()
def model_speed(loaded: StudyInputs, model: Model) -> float | None:
    """Images/s of a model alone, roughly; None if it is metered, or fails."""
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
    except Exception:  # the model's own error, which is reported when its cells are run
        return None
    return size / best


class _Reporter:
    """Tells every now and then where a run stands."""

    def __init__(self, tell: Tell, engine: int, grid: Grid, cells: Sequence[int]) -> None:
        """`cells` are the numbers in the grid of the engine's cells, as they come."""
        self._tell, self._number, self._grid, self._cells = tell, engine, grid, cells
        self.engine: Engine | None = None
        self._finished: Counter[int] = Counter()
        self._next = 0.0

    def _series(self, index: int) -> int:
        return self._grid.series_of(self._cells[index])

    def progress(self, now: Progress) -> None:
        for result in now.finished:
            self._finished[self._series(result.index)] += result.ledger.queries
        if time.monotonic() >= self._next and self.engine is not None:
            self._next = time.monotonic() + TELL_SECONDS
            queries, spent = self._finished.copy(), defaultdict[int, float](float)
            for result in now.finished:  # until their end is told
                spent[self._series(result.index)] += 1
            for index, ledger in self.engine.under_way():
                tariff = self._grid.place(self._cells[index]).series.tariff
                queries[self._series(index)] += ledger.queries
                spent[self._series(index)] += spent_share(ledger, tariff)
            self._tell(EngineProgress(self._number, dict(queries), dict(spent)))


def spent_share(ledger: Ledger, tariff: Tariff) -> float:
    """How much of what an image may cost or take is spent, from 0 to 1."""
    limits = tariff.limits  # 0 of one that is infinite
    shares = [ledger.queries / limits.max_queries, ledger.flagged / limits.max_flagged]
    if limits.budget > 0:
        shares.append(ledger.cost / limits.budget)
    return min(1.0, max(shares))
