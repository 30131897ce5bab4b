"""A shard: its cells run on this machine, in this process, with every answer written down first.

1. Model after model; the cells of one go through one engine, whatever attack or price.
2. A cell that ended is saved. One that the clock or an interruption ended is not: its answers are
   recorded, and it goes on when the study is resumed.
3. A cell that does not ask what it asked before is named, and left as it is; with `rerun` it is
   begun anew.
4. `tell` is called with what happens, for whoever shows it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch

from ..core.cell import Cell
from ..core.model import Model
from ..core.result import Result
from ..core.stop import Stop
from ..engine.engine import Engine, Progress
from ..engine.journal import Answered, History
from .loading import Loaded, compare_images, compare_model, environment, fingerprint
from .status import FAILED
from .store.store import Store

UNFINISHED = (Stop.INTERRUPTED, Stop.TIME_LIMIT)
TELL_EVERY = 0.25
PROBES = 3
"""Batches for the raw model's speed."""


@dataclass(frozen=True)
class CellEnded:
    """A cell came to its end; `line` is its line of the grid."""

    cell: int
    line: int
    stop: Stop
    distance: float
    queries: int


@dataclass(frozen=True)
class ShardProgress:
    """Where a shard's run on a model stands: queries by line since it began, those of finished
    cells included."""

    shard: int
    seconds: float
    queries: dict[int, int]
    live: int


@dataclass(frozen=True)
class ModelBegun:
    """A model is about to be attacked; `raw` images/s is its speed alone, if it was measured."""

    model: str
    raw: float | None


Event = CellEnded | ShardProgress | ModelBegun
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
    share: float = 1.0
    """Of the machine's memory."""


class _Journal:
    """The engine's journal, in a store."""

    def __init__(self, store: Store, cells: Sequence[int], again: bool) -> None:
        self._store, self._cells, self._again = store, cells, again
        self._answers = store.answers(set(cells))
        self.diverged_cells: dict[int, str] = {}

    def record(self, answers: Sequence[Answered]) -> None:
        if answers:
            self._store.record([a._replace(cell=self._cells[a.cell]) for a in answers])

    def history(self, cell: int) -> History | None:
        answers = self._answers.pop(self._cells[cell], None)
        return None if answers is None else History(answers, self._again)

    def diverged(self, cell: int, why: str) -> None:
        self.diverged_cells[self._cells[cell]] = why


class Shard:
    """One shard, open and checked."""

    def __init__(self, store: Store, loaded: Loaded, options: Options, tell: Tell) -> None:
        self._store, self._loaded, self._options, self._tell = store, loaded, options, tell
        self._stopping: Stop | None = None
        self._engine: Engine | None = None
        self._end = time.monotonic() + options.time_limit
        self._outcome = Outcome()
        compare_images(loaded, store.images(), store.path.parent)

    def stop(self, reason: Stop = Stop.INTERRUPTED) -> None:
        """End after the batches under way; safe to call from a signal handler."""
        self._stopping = self._stopping or reason
        if self._engine is not None:
            self._engine.stop(self._stopping)

    def run(self) -> Outcome:
        """Run what is left."""
        about, grid = self._store.about, self._loaded.grid
        cells = grid.shard(about["shard"], about["shards"])
        if self._options.failed:
            failed = [end.cell for end in self._store.results() if end.stop in FAILED]
            self._store.forget(failed)
        finished = {end.cell for end in self._store.results()}
        per_model = len(grid) // len(self._loaded.study.models)
        for number, spec in enumerate(self._loaded.study.models):
            mine = [c for c in cells if c // per_model == number and c not in finished]
            if mine and self._stopping is None:
                model = self._loaded.model(spec)
                now = fingerprint(self._loaded, spec, model)
                where = self._store.path.parent
                compare_model(spec, now, about["models"][spec.name], where)
                self._tell(ModelBegun(spec.name, model_speed(self._loaded, model)))
                self._run(model, mine)
            elif mine:
                self._outcome.unfinished |= dict.fromkeys(mine)
        return self._outcome

    def _run(self, model: Model, cells: list[int]) -> None:
        """Run cells of one model; those that diverge once more, if that is wanted."""
        again = not self._loaded.study.metered
        journal = _Journal(self._store, cells, again)
        self._pass(model, cells, journal)
        diverged = journal.diverged_cells
        if not (diverged and self._options.rerun and self._stopping is None):
            self._outcome.diverged |= self._explained(diverged)
            return
        for cell, why in diverged.items():
            self._store.restart(cell, why)
        self._outcome.restarted += len(diverged)
        self._pass(model, list(diverged), _Journal(self._store, list(diverged), again))

    def _pass(self, model: Model, cells: list[int], journal: _Journal) -> None:
        study, grid = self._loaded.study, self._loaded.grid
        lines = [grid.line_of(cell) for cell in cells]
        watch = _Watch(self._tell, self._store.about["shard"], lines)
        self._engine = Engine(
            model,
            batch_size=study.batch_size,
            metered=study.metered,
            one_shape=study.one_shape,
            time_limit=max(1e-3, self._end - time.monotonic()),
            memory=self._options.share,
            journal=journal,
            progress=watch.progress,
        )
        watch.engine = self._engine
        if self._stopping is not None:
            self._engine.stop(self._stopping)
        for result in self._engine.run(_Cells(self._loaded, cells)):
            cell = cells[result.index]
            if cell in journal.diverged_cells:
                continue
            if result.stop in UNFINISHED:
                self._outcome.unfinished[cell] = replace(result, index=cell)
                continue
            self._store.save(cell, result, study.keep_images)
            ledger = result.ledger
            line = grid.line_of(cell)
            self._tell(CellEnded(cell, line, result.stop, result.distance, ledger.queries))
        self._engine = None

    def _explained(self, diverged: dict[int, str]) -> dict[int, str]:
        then, now = self._store.about["environment"], environment(self._loaded.device)
        changed = [f"{key} was {then[key]}, is {now[key]}" for key in now if then[key] != now[key]]
        reason = "; ".join(changed) or "nothing is known to have changed"
        return {cell: f"{why} ({reason})" for cell, why in diverged.items()}


@torch.no_grad()
def model_speed(loaded: Loaded, model: Model) -> float | None:
    """Images/s of a model alone, roughly; None if it is metered, or fails."""
    study, images = loaded.study, loaded.images.images
    if study.metered:
        return None
    size = study.batch_size or model.batch or (256 if model.device.type == "cuda" else 64)
    batch = images[torch.arange(size) % len(images)].to(model.device, model.work_dtype)
    best = math.inf
    try:
        for _ in range(PROBES):
            began = time.perf_counter()
            model(model.sent(batch.clone())).cpu()
            best = min(best, time.perf_counter() - began)
    except Exception:  # the model's own: it is met again, and told, where it matters
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


class _Watch:
    """Tells every now and then where a run stands."""

    def __init__(self, tell: Tell, shard: int, lines: list[int]) -> None:
        self._tell, self._shard, self._lines = tell, shard, lines
        self.engine: Engine | None = None
        self._done: dict[int, int] = {}
        self._next = 0.0

    def progress(self, now: Progress) -> None:
        for result in now.finished:
            line = self._lines[result.index]
            self._done[line] = self._done.get(line, 0) + result.ledger.queries
        if time.monotonic() >= self._next and self.engine is not None:
            self._next = time.monotonic() + TELL_EVERY
            queries = dict(self._done)
            for index, count in self.engine.under_way():
                line = self._lines[index]
                queries[line] = queries.get(line, 0) + count
            self._tell(ShardProgress(self._shard, now.seconds, queries, now.live))
