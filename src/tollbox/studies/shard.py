"""A shard: its cells run on this machine, in this process, with every answer written down first.

1. Model after model; the cells of one go through one engine, whatever attack or price.
2. A cell that ended is saved. One that the clock or an interruption ended is not: its answers are
   recorded, and it continues when the study is resumed.
3. A cell that does not ask what it asked before is named, and left as it is; with `rerun` it is
   begun anew.
4. `tell` is called with what happens, for whoever shows it.
5. In a process of its own, a batch for which there is not enough memory, however small it is made,
   ends the run of the shard and no cell: it goes on in another process.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch

from ..core.cell import Cell
from ..core.ledger import Ledger
from ..core.model import Model
from ..core.result import Result
from ..core.stop import Stop
from ..engine.engine import Engine, Progress, trial_batch_size
from ..engine.executors import Then
from ..engine.journal import Answered, History
from .identity import check_model, current_environment
from .loading import Loaded
from .spec.specs import Tariff
from .store.store import Store

TELL_SECONDS = 0.25
"""Time between two reports of progress."""
SPEED_BATCHES = 3
"""Batches that measure the speed of the model alone."""


@dataclass(frozen=True)
class CellEnded:
    """A cell came to its end; `series` is the number of its series."""

    shard: int
    cell: int
    series: int
    stop: Stop
    distance: float
    queries: int


@dataclass(frozen=True)
class ShardProgress:
    """Where a shard's run on a model stands."""

    shard: int
    queries: dict[int, int]
    """By series, since the run on this model began; those of finished cells included."""
    spent: dict[int, float]
    """By series, the cells under way, each counted as the share of its budget that is spent."""


@dataclass(frozen=True)
class ModelBegun:
    """A shard is about to load and attack a model."""

    shard: int
    model: str


@dataclass(frozen=True)
class ShardLost:
    """A shard lost its process."""

    shard: int
    how: str
    """What the process did: "died (signal 9)"."""
    then: Then
    """What becomes of its cells."""


Event = CellEnded | ShardProgress | ModelBegun | ShardLost
Tell = Callable[[Event], None]


@dataclass
class Outcome:
    """How a shard's run went."""

    unfinished: dict[int, Result | None] = field(default_factory=dict)
    """Cells that did not come to their end, and what they had reached; None if not begun."""
    diverged: dict[int, str] = field(default_factory=dict)
    """Cells that do not ask what they asked before, and where that showed."""
    restarted: int = 0

    def add(self, other: Outcome) -> None:
        """Count in what another shard did."""
        self.unfinished |= other.unfinished
        self.diverged |= other.diverged
        self.restarted += other.restarted


@dataclass(frozen=True)
class Options:
    """How a study is run; none of it changes a number."""

    rerun: bool = False
    """Begin cells anew that do not ask what they asked before."""
    failed: bool = False
    """Run cells again that ended in an error."""
    time_limit: float = math.inf
    force_workers: bool = False
    """As many processes as shards, even if they are more than cores."""
    share: float = 1.0
    """Of the machine's memory."""
    own_process: bool = False
    """The shard has a process of its own: if memory runs out, it goes on in another."""


class StoreJournal:
    """The engine's journal, in a store."""

    def __init__(self, store: Store, cells: Sequence[int], ask_again: bool) -> None:
        """`cells` are the numbers in the grid of the engine's cells; `ask_again`: the rows that
        were recorded last are asked once more."""
        self._store, self._cells, self._ask_again = store, cells, ask_again
        self._answers = store.answers(set(cells))
        self.diverged_cells: dict[int, str] = {}

    def record(self, answers: Sequence[Answered]) -> None:
        """Commit the labels of a batch."""
        if answers:
            self._store.record([a._replace(cell=self._cells[a.cell]) for a in answers])

    def history(self, cell: int) -> History | None:
        """What was recorded of a cell earlier."""
        answers = self._answers.pop(self._cells[cell], None)
        return None if answers is None else History(answers, self._ask_again)

    def diverged(self, cell: int, why: str) -> None:
        """The cell does not ask what it asked earlier."""
        self.diverged_cells[self._cells[cell]] = why


class Shard:
    """One shard, open and checked."""

    def __init__(self, store: Store, loaded: Loaded, options: Options, tell: Tell) -> None:
        self._store, self._loaded, self._options, self._tell = store, loaded, options, tell
        self._stopping = None if options.time_limit > 0 else Stop.TIME_LIMIT
        self._engine: Engine | None = None
        self._end = time.monotonic() + options.time_limit
        self._outcome = Outcome()

    def stop(self, reason: Stop = Stop.INTERRUPTED) -> None:
        """End after the batches under way; safe to call from a signal handler."""
        self._stopping = self._stopping or reason
        if self._engine is not None:
            self._engine.stop(self._stopping)

    def run(self) -> Outcome:
        """Run what is left."""
        record, grid = self._store.study, self._loaded.grid
        if self._options.failed:
            self._store.forget([end.cell for end in self._store.results() if end.stop.failed])
        finished = {end.cell for end in self._store.results()}
        left = [cell for cell in record.shard_cells if cell not in finished]
        per_model = len(grid) // len(self._loaded.study.models)
        for number, spec in enumerate(self._loaded.study.models):
            cells = [cell for cell in left if cell // per_model == number]
            if cells and self._stopping is None:
                self._tell(ModelBegun(record.shard, spec.name))
                model, now = self._loaded.model(spec), self._loaded.fingerprint(spec)
                folder = self._store.path.parent
                check_model(spec, now, record.models[spec.name], folder)
                size = self._loaded.study.batch_size
                if self._loaded.study.exact:
                    begun = record.exactness_of(spec.name)
                    model, size = self._loaded.exact_model(spec, begun, folder), begun.shapes[-1]
                self._run_model(model, cells, size)
            elif cells:
                self._outcome.unfinished |= dict.fromkeys(cells)
        return self._outcome

    def _run_model(self, model: Model, cells: list[int], size: int | None) -> None:
        """Run cells of one model, in batches of `size`; those that diverge once more, if that is
        asked for."""
        ask_again = not self._loaded.study.metered
        journal = StoreJournal(self._store, cells, ask_again)
        self._run_cells(model, cells, size, journal)
        diverged = journal.diverged_cells
        if not (diverged and self._options.rerun and self._stopping is None):
            self._outcome.diverged |= self._explain(diverged)
            return
        for cell, why in diverged.items():
            self._store.restart(cell, why)
        self._outcome.restarted += len(diverged)
        cells = list(diverged)
        self._run_cells(model, cells, size, StoreJournal(self._store, cells, ask_again))

    def _run_cells(
        self, model: Model, cells: list[int], size: int | None, journal: StoreJournal
    ) -> None:
        study, grid = self._loaded.study, self._loaded.grid
        series = [grid.series_of(cell) for cell in cells]
        tariffs = [grid.place(cell).series.tariff for cell in cells]
        reporter = _Reporter(self._tell, self._store.study.shard, series, tariffs)
        self._engine = Engine(
            model,
            batch_size=size,
            metered=study.metered,
            one_shape=study.one_shape or study.exact,
            time_limit=max(1e-3, self._end - time.monotonic()),
            memory=self._options.share,
            journal=journal,
            progress=reporter.progress,
        )
        reporter.engine = self._engine
        if self._stopping is not None:
            self._engine.stop(self._stopping)
        for result in self._engine.run(_Cells(self._loaded, cells)):
            cell = cells[result.index]
            if cell in journal.diverged_cells:
                continue
            if result.stop.unfinished:
                self._outcome.unfinished[cell] = replace(result, index=cell)
                continue
            if result.stop.failed and self._engine.sender.exhausted and self._options.own_process:
                raise MemoryError(result.reason)
            self._store.save(cell, result, study.keep_images)
            self._tell(
                CellEnded(
                    self._store.study.shard,
                    cell,
                    series[result.index],
                    result.stop,
                    result.distance,
                    result.ledger.queries,
                )
            )
        self._engine = None

    def _explain(self, diverged: dict[int, str]) -> dict[int, str]:
        now = current_environment(self._loaded.device)
        changes = self._store.study.environment.changes(now) or "nothing is known to have changed"
        return {cell: f"{why} ({changes})" for cell, why in diverged.items()}


@torch.no_grad()
def model_speed(loaded: Loaded, model: Model) -> float | None:
    """Images/s of a model alone, roughly; None if it is metered, or fails."""
    study, images = loaded.study, loaded.images.images
    if study.metered:
        return None
    size = trial_batch_size(model, study.batch_size)
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


class _Cells:
    """Cells made when they are needed; their number is known."""

    def __init__(self, loaded: Loaded, cells: list[int]) -> None:
        self._loaded, self._cells = loaded, cells

    def __len__(self) -> int:
        return len(self._cells)

    def __iter__(self) -> Iterator[Cell]:
        grid = self._loaded.grid
        for cell in self._cells:
            yield self._loaded.cell(grid.place(cell))


class _Reporter:
    """Tells every now and then where a run stands."""

    def __init__(self, tell: Tell, shard: int, series: list[int], tariffs: list[Tariff]) -> None:
        """`series` are the numbers of the series that the engine's cells are in."""
        self._tell, self._shard, self._series, self._tariffs = tell, shard, series, tariffs
        self.engine: Engine | None = None
        self._finished: Counter[int] = Counter()
        self._next = 0.0

    def progress(self, now: Progress) -> None:
        for result in now.finished:
            self._finished[self._series[result.index]] += result.ledger.queries
        if time.monotonic() >= self._next and self.engine is not None:
            self._next = time.monotonic() + TELL_SECONDS
            queries, spent = self._finished.copy(), defaultdict[int, float](float)
            for result in now.finished:  # until their end is told
                spent[self._series[result.index]] += 1
            for index, ledger in self.engine.under_way():
                queries[self._series[index]] += ledger.queries
                spent[self._series[index]] += spent_share(ledger, self._tariffs[index])
            self._tell(ShardProgress(self._shard, dict(queries), dict(spent)))


def spent_share(ledger: Ledger, tariff: Tariff) -> float:
    """How much of what an image may cost or take is spent, from 0 to 1."""
    shares = [ledger.queries / tariff.max_queries]  # 0 if it is infinite
    if tariff.budget > 0:
        shares.append(ledger.cost / tariff.budget)
    return min(1.0, max(shares))
