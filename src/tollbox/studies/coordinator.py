"""The coordinator of a study: the only owner of its stores. It hands out cells and saves results.

1. Workers request cells, a few at a time, each with its recorded answers. The coordinator commits
   what they send before it acknowledges it, so labels are durable before an attack sees them
   (rule 9). Nothing else writes to the stores.
2. Each start of a worker has an epoch, which all its messages carry. When the worker is lost, its
   epoch is over and its cells return. A message of an old epoch, or about a cell that another
   worker has, is refused and changes nothing.
3. A worker gets the cells of its own shard first, and then those of other shards. A cell that was
   in progress in `MOST_DEATHS` workers that died, without a label in between, is not tried again.
4. Each cell is in one worker at a time. Results are those of one worker (rule 4).
5. A finished cell is saved. A cell that is interrupted, or reaches the time limit, is not: its
   answers are recorded, and it continues when the study is resumed.
6. The time between two batches of a worker is divided among the series in the batch, by their rows.
   It is written every few seconds; a process that is killed loses only that.
7. A cell whose queries no longer match the recording is reported and left unchanged. With `rerun`
   it is restarted.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from ..core.result import Result
from ..engine.journal import Answered
from ..workers.executors import Loss, OnLoss
from .events import CellEnded, Event, Options, Outcome
from .store.codec import pack_answers
from .store.record import StudyRecord
from .store.store import Store
from .supervisor import Supervisor

MOST_DEATHS = 3
MOST_AT_ONCE = 16
"""Maximum number of cells in one answer. Several at once hide the delay of a slow network."""
WRITE_SECONDS = 5.0
"""Time between two writes of the seconds of each series."""


# -- requests and reports of workers --------------------------------------------------------------


class Start(NamedTuple):
    """A worker starts; the answer is `Started`."""


class Started(NamedTuple):
    """What a worker has to know at its start."""

    epoch: int
    images: list[tuple[str, int, str]]
    """Recorded content hash, label and name of each image."""
    seconds: float
    """Time left."""


class Share(NamedTuple):
    """Request for the number of cells of a model that a worker may run at a time; 0 if none is
    left."""

    epoch: int
    model: int


class Take(NamedTuple):
    """Request for the next cells of a model. The answer is a list of cell numbers with their
    recorded answers, or None for a cell without; it is empty if no cell is left."""

    epoch: int
    model: int


class Record(NamedTuple):
    """The labels of a batch, by shard: cells with their numbers of rows, and packed answers. The
    answer is True once they are committed."""

    epoch: int
    parts: list[tuple[int, Mapping[int, int], bytes]]


class Ended(NamedTuple):
    """A cell has finished, or was interrupted."""

    epoch: int
    cell: int
    result: Result


class Diverged(NamedTuple):
    """The queries of a cell no longer match the recording."""

    epoch: int
    cell: int
    why: str
    changes: str
    """What has changed since the study was created."""


# -- the coordinator ------------------------------------------------------------------------------


@dataclass
class WorkerSlot:
    """A worker as the coordinator sees it."""

    epoch: int = 0
    cells: set[int] = field(default_factory=set)
    """Cells in progress."""
    last_batch: float = 0.0
    """When the last batch arrived, or the worker was about to start with a model."""


class Coordinator:
    """The stores of a folder, open for writing, and the cells that remain."""

    def __init__(
        self,
        stores: Mapping[int, Store],
        options: Options,
        supervisor: Supervisor,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`stores` are given by shard."""
        self._stores, self._options, self.supervisor = stores, options, supervisor
        self._clock, self._written = clock, clock()
        self._seconds = defaultdict[int, float](float)
        """Seconds by series that are not written yet."""
        record = next(iter(stores.values())).study
        self._shards, self._width = record.shards, record.width
        self._per_model = len(record.series) * record.width // len(record.models)
        self._left: dict[tuple[int, int], deque[int]] = {}
        """Cells that wait, by model and shard."""
        self._unread: set[int] = set()
        """Waiting cells whose answers have not been read from the store."""
        self._answers: dict[int, list[Answered]] = {}
        self._slots = [WorkerSlot() for _ in supervisor.workers]
        self._epoch = 0
        self._deaths: Counter[int] = Counter()
        self._given_up: set[int] = set()
        self.outcome = Outcome()
        for store in stores.values():
            if options.failed:
                store.forget([end.cell for end in store.results() if end.stop.failed])
            finished = {end.cell for end in store.results()}
            for cell in store.study.shard_cells:
                if cell not in finished:
                    self._queue(cell).append(cell)
                    self._unread.add(cell)
        self.had_work = bool(self._unread)

    def _queue(self, cell: int) -> deque[int]:
        return self._left.setdefault((cell // self._per_model, cell % self._shards), deque())

    @property
    def idle(self) -> bool:
        """Whether no worker has a cell."""
        return not any(slot.cells for slot in self._slots)

    @property
    def finished(self) -> bool:
        """Whether no cell is left that a worker could run."""
        return self.idle and not any(self._left.values())

    def end(self) -> Outcome:
        """Return the outcome; every cell that has not finished is unfinished."""
        self._write_seconds()
        waiting = [cell for cells in self._left.values() for cell in cells]
        held = [cell for slot in self._slots for cell in slot.cells]
        for cell in sorted([*waiting, *held, *self._given_up]):
            self.outcome.unfinished.setdefault(cell, None)
        return self.outcome

    # -- requests ---------------------------------------------------------------------------------

    def answer(self, job: int, request: Any) -> Any:
        """Return the answer to a worker's request; None if its epoch is over."""
        slot = self._slots[job]
        if isinstance(request, Start):
            self._take_back(slot, died=False)
            self._epoch += 1
            slot.epoch, slot.last_batch = self._epoch, self._clock()
            images = next(iter(self._stores.values())).images()
            return Started(slot.epoch, images, self.supervisor.seconds_left())
        if request.epoch != slot.epoch:
            return None
        if isinstance(request, Record):
            return self._record(slot, request)
        queues = [q for (model, _), q in self._left.items() if model == request.model and q]
        left = sum(map(len, queues))
        if isinstance(request, Share):
            slot.last_batch = self._clock()
            return math.ceil(left / len(self._slots))  # else the first worker would take all
        if not queues:
            return []
        own = self._left.get((request.model, self.supervisor.workers[job] % self._shards))
        queue = own or max(queues, key=len)
        count = max(1, min(MOST_AT_ONCE, len(queue), left // (4 * len(self._slots))))
        if not self._unread.isdisjoint(queue):
            self._read_answers([cell for cells in queues for cell in cells])
        cells = [queue.popleft() for _ in range(count)]
        slot.cells.update(cells)
        return [(cell, self._answers.pop(cell, None)) for cell in cells]

    def _read_answers(self, cells: Sequence[int]) -> None:
        unread = self._unread & set(cells)
        self._unread -= unread
        for shard, store in self._stores.items():
            wanted = {cell for cell in unread if cell % self._shards == shard}
            if wanted:
                self._answers |= store.answers(wanted)

    def _record(self, slot: WorkerSlot, request: Record) -> bool | None:
        """Commit the labels of a batch, and count the time since the last one."""
        if any(not cells.keys() <= slot.cells for _, cells, _ in request.parts):
            return None
        rows = Counter[int]()
        for shard, cells, content in request.parts:
            self._stores[shard].record(content)
            for cell, count in cells.items():
                self._deaths.pop(cell, None)
                rows[cell // self._width] += count
        now = self._clock()
        for series, count in rows.items():
            self._seconds[series] += (now - slot.last_batch) * count / rows.total()
        slot.last_batch = now
        if now - self._written >= WRITE_SECONDS:
            self._write_seconds()
        return True

    def _write_seconds(self) -> None:
        next(iter(self._stores.values())).add_seconds(self._seconds)
        self._seconds.clear()
        self._written = self._clock()

    # -- reports ----------------------------------------------------------------------------------

    def hear(self, report: Event | Ended | Diverged) -> None:
        """Process a worker's report; events are passed on."""
        if not isinstance(report, Ended | Diverged):
            self.supervisor.tell(report)
            return
        cell, epoch = report.cell, report.epoch
        job = next((n for n, slot in enumerate(self._slots) if slot.epoch == epoch), None)
        if job is None or cell not in self._slots[job].cells:
            return  # the epoch is over
        self._slots[job].cells.remove(cell)
        if isinstance(report, Ended) and report.result.stop.unfinished:
            self.outcome.unfinished[cell] = replace(report.result, index=cell)
        elif isinstance(report, Ended):
            result, worker = report.result, self.supervisor.workers[job]
            self._stores[cell % self._shards].save(cell, result)
            series, queries = cell // self._width, result.ledger.queries
            self.supervisor.tell(
                CellEnded(worker, cell, series, result.stop, result.distance, queries)
            )
        elif self._options.rerun:
            self._stores[cell % self._shards].restart(cell, report.why)
            self.outcome.restarted += 1
            self._queue(cell).append(cell)
        else:
            self.outcome.diverged[cell] = f"{report.why} ({report.changes})"

    # -- losses -----------------------------------------------------------------------------------

    def lost(self, loss: Loss) -> OnLoss:
        """Take the cells of a lost worker back; return what happens to the worker."""
        self._take_back(self._slots[loss.job], died=True)
        return self.supervisor.lost(loss)

    def overdue(self, job: int) -> bool:
        return self.supervisor.overdue(job)

    def _take_back(self, slot: WorkerSlot, died: bool) -> None:
        """End the epoch of a worker, and queue its cells for others."""
        for cell in sorted(slot.cells, reverse=True):
            self._deaths[cell] += died
            if self._deaths[cell] >= MOST_DEATHS:
                self._given_up.add(cell)
            else:
                self._queue(cell).appendleft(cell)
                self._unread.add(cell)
        slot.cells, slot.epoch = set(), 0


@contextmanager
def open_stores(paths: Mapping[int, Path]) -> Iterator[dict[int, Store]]:
    """Open the stores of shards for writing."""
    with ExitStack() as stack:
        yield {
            shard: stack.enter_context(Store.open(path, write=True))
            for shard, path in paths.items()
        }


def pack(
    answers: Sequence[Answered], record: StudyRecord
) -> list[tuple[int, Mapping[int, int], bytes]]:
    """Return the answers of a batch in the form of `Record`."""
    by_shard = defaultdict[int, list[Answered]](list)
    for answered in answers:
        by_shard[answered.cell % record.shards].append(answered)
    parts: list[tuple[int, Mapping[int, int], bytes]] = []
    for shard, some in by_shard.items():
        rows = Counter[int]()
        for answered in some:
            rows[answered.cell] += len(answered.labels)
        parts.append((shard, rows, pack_answers(some)))
    return parts
