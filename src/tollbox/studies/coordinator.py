"""The coordinator of a study: the only owner of its stores, and the supervisor of its workers.

1. Workers request cells, a few at a time, each with its recorded answers. The coordinator commits
   what they send before it acknowledges it, so labels are durable before an attack sees them
   (rule 9 of the design). Nothing else writes to the stores.
2. Each start of a worker has an epoch, which all its messages carry. When the worker is lost, its
   epoch is over and its cells are queued again. A message from an old epoch, or about a cell that
   another worker has, is refused and changes nothing. So each cell is in one worker at a time.
3. A worker gets the cells of its own images first, at all prices, since it may keep what surrogates
   say about an image. Then it gets those of others. A cell that was in progress in `MOST_DEATHS`
   workers that died, without a label in between, is not tried again.
4. A finished cell is saved. A cell that is interrupted, or reaches the time limit, continues from
   its recorded answers when the study is resumed.
5. The time between two batches of a worker is divided among the series in the batch, in proportion
   to their rows. It is written every few seconds, so a kill loses only the time since then.
6. A cell whose queries no longer match the recording is reported and left unchanged. With `rerun`
   it is restarted.
7. A worker whose process died continues in a new one. The second time, it waits for a free process,
   with one process fewer, since memory may be short. The third time it stops, so that a model that
   always kills its process does not loop for ever. A worker that ran out of memory waits at once;
   if its process was the only one, it stops.
8. On a cluster, processes die with their nodes, and each machine has its own memory. There a worker
   continues elsewhere, at most nine times while no cell finishes.
9. At the time limit, a worker stops after the batch in progress. If the model does not return, the
   process is killed after a grace time: the largest of `GRACE_SECONDS`, `GRACE_SHARE` of the limit,
   and twice the longest time between two reports so far, since batches may be slow. One clock
   serves all workers. It starts when the first worker has loaded its images.

Messages from a worker are tuples of a kind, the worker's epoch, and the content. Requests:

    start   answered with the epoch, the recorded images, and the seconds left; has epoch 0
    share   model; answered with the number of its cells to run at a time, 0 if none is left
    take    model; answered with [(cell, its recorded answers or None), ...], empty if none is left
    record  the labels of a batch (`pack`); answered with True once they are committed

Reports, in addition to events: "ended" with a cell and its result, and "diverged" with a cell, the
first difference, and what has changed since the study was created.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..core.result import Result
from ..engine.journal import Answered
from ..workers.executors import Loss, OnLoss, Stopper
from .events import CellEnded, Event, Options, Outcome, Tell, WorkerLost
from .store.codec import pack_answers
from .store.store import Store

MOST_DEATHS = 3
MOST_AT_ONCE = 16
"""Maximum number of cells in one answer. Several at once hide the latency of a connection."""
WRITE_SECONDS = 5.0
"""Time between two writes of the seconds that each series took."""
AFTER_DEATHS = (OnLoss.NOW, OnLoss.LATER, OnLoss.END)
"""Actions after the first, second and third death of a worker's process."""
ON_CLUSTER = (OnLoss.NOW,) * 9 + (OnLoss.END,)
"""The same on a cluster, counting deaths since a cell last finished."""
GRACE_SECONDS = 10.0
GRACE_SHARE = 0.1
Labels = list[tuple[int, Mapping[int, int], bytes]]
"""The labels of a batch, by shard: the number of rows of each cell, and the packed answers."""


@dataclass
class WorkerSlot:
    """A worker as the coordinator sees it, with its cells in progress."""

    number: int
    epoch: int = 0
    cells: set[int] = field(default_factory=set)
    last_batch: float = 0.0
    """Time at which the last batch arrived, or the worker was about to start on a model."""
    deaths: int = 0
    last_report: float | None = None
    """Time of the last report from its process; None before the first one."""
    longest: float = 0.0
    """Longest time between two reports from its process."""


class Coordinator:
    """The stores of a folder, open for writing, the cells that remain, and their workers."""

    def __init__(
        self,
        stores: Sequence[Store],
        options: Options,
        workers: int,
        tell: Tell,
        stopper: Stopper,
        cluster: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Queue the cells that remain for `workers` workers; worker n (from 0) runs job n."""
        self._stores = {store.study.shard: store for store in stores}
        self._options, self._tell = options, tell
        self._stopper, self._cluster = stopper, cluster
        self._clock, self._written = clock, clock()
        self._end: float | None = None
        """Time at which the run stops; None before the first worker has loaded its images."""
        self._seconds = defaultdict[int, float](float)
        """Seconds that are not written yet, by series."""
        self._first, self.folder = stores[0], stores[0].path.parent
        record = self._first.study
        self._shards, self._width = record.shards, record.width
        self._per_model = len(record.series) * record.width // len(record.models)
        self._left: dict[tuple[int, int], deque[int]] = {}
        """Waiting cells, by model and the worker that gets them first."""
        self._unread: set[int] = set()
        """Waiting cells whose answers have not been read from the store."""
        self._answers: dict[int, list[Answered]] = {}
        self._slots = [WorkerSlot(number) for number in range(workers)]
        self._epoch = 0
        self._deaths: Counter[int] = Counter()
        self.out_of_memory = False
        """Whether a worker stopped because memory is too small even for one process."""
        self.hung = 0.0
        """Seconds for which a model had not answered when its process was killed."""
        self.outcome = Outcome()
        for store in stores:
            if options.failed:
                store.forget([end.cell for end in store.results() if end.stop.failed])
            finished = {end.cell for end in store.results()}
            self._unread.update(cell for cell in store.study.shard_cells if cell not in finished)
        images = sorted({cell % record.width for cell in self._unread})
        self._owners = {image: number % workers for number, image in enumerate(images)}
        """The worker that gets the cells of an image first."""
        for cell in sorted(self._unread):
            self._queue(cell).append(cell)
        self.had_work = bool(self._unread)

    def _queue(self, cell: int) -> deque[int]:
        owner = self._owners[cell % self._width]
        return self._left.setdefault((cell // self._per_model, owner), deque())

    @property
    def finished(self) -> bool:
        """Whether no worker has a cell, and either no cell or no time is left."""
        if any(slot.cells for slot in self._slots):
            return False
        time_is_up = self._end is not None and self._clock() >= self._end
        return time_is_up or not any(self._left.values())

    def end(self) -> Outcome:
        """Return the outcome, in which every cell that is still queued or held is unfinished."""
        self._write_seconds()
        held = [slot.cells for slot in self._slots]
        for cell in sorted(itertools.chain(*self._left.values(), *held)):
            self.outcome.unfinished.setdefault(cell, None)
        return self.outcome

    # -- requests ---------------------------------------------------------------------------------

    def answer(self, job: int, request: tuple[Any, ...]) -> Any:
        """Return the answer to a worker's request; None if its epoch is over."""
        slot, (kind, epoch, *content) = self._slots[job], request
        if kind == "start":
            return self._start(slot)
        if epoch != slot.epoch:
            return None
        if kind == "record":
            return self._record(slot, *content)
        return self._take(slot, *content) if kind == "take" else self._share(slot, *content)

    def _start(self, slot: WorkerSlot) -> tuple[int, list[tuple[str, int, str]], float]:
        self._take_back(slot, died=False)
        self._epoch += 1
        now = self._clock()
        slot.epoch, slot.last_batch = self._epoch, now
        if self._end is None:
            self._end = now + self._options.time_limit
        return slot.epoch, self._first.images(), max(0.0, self._end - now)

    def _share(self, slot: WorkerSlot, model: int) -> int:
        slot.last_batch = self._clock()
        left = sum(len(queue) for (of, _), queue in self._left.items() if of == model)
        return math.ceil(left / len(self._slots))  # otherwise the first worker would take all

    def _take(self, slot: WorkerSlot, model: int) -> list[tuple[int, list[Answered] | None]]:
        queues = [queue for (of, _), queue in self._left.items() if of == model and queue]
        if not queues:
            return []
        queue = self._left.get((model, slot.number)) or max(queues, key=len)
        left = sum(map(len, queues))
        count = max(1, min(MOST_AT_ONCE, len(queue), left // (4 * len(self._slots))))
        if not self._unread.isdisjoint(queue):
            unread = self._unread.intersection(itertools.chain(*queues))
            self._unread -= unread
            for shard, store in self._stores.items():
                wanted = {cell for cell in unread if cell % self._shards == shard}
                self._answers |= store.answers(wanted) if wanted else {}
        cells = [queue.popleft() for _ in range(count)]
        slot.cells.update(cells)
        return [(cell, self._answers.pop(cell, None)) for cell in cells]

    def _record(self, slot: WorkerSlot, labels: Labels) -> bool | None:
        """Commit the labels of a batch, and count the time since the last one."""
        if any(not cells.keys() <= slot.cells for _, cells, _ in labels):
            return None
        rows = Counter[int]()
        for shard, cells, content in labels:
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
        self._first.add_seconds(self._seconds)
        self._seconds.clear()
        self._written = self._clock()

    # -- reports ----------------------------------------------------------------------------------

    def hear(self, report: Event | tuple[Any, ...]) -> None:
        """Process a worker's report; pass on events."""
        if not isinstance(report, tuple):
            self._pass_on(report)
            return
        kind, epoch, cell, *content = report
        for worker, slot in enumerate(self._slots):
            if slot.epoch == epoch and cell in slot.cells:  # else the epoch is over
                slot.cells.remove(cell)
                if kind == "ended":
                    self._ended(worker, cell, *content)
                else:
                    self._diverged(cell, *content)

    def _ended(self, worker: int, cell: int, result: Result) -> None:
        if result.stop.unfinished:
            self.outcome.unfinished[cell] = replace(result, index=cell)
            return
        self._stores[cell % self._shards].save(cell, result)
        if self._cluster:
            for slot in self._slots:
                slot.deaths = 0
        series, queries = cell // self._width, result.ledger.queries
        self._pass_on(CellEnded(worker, cell, series, result.stop, result.distance, queries))

    def _diverged(self, cell: int, why: str, changes: str) -> None:
        if self._options.rerun:
            self._stores[cell % self._shards].restart(cell, why)
            self.outcome.restarted += 1
            self._queue(cell).append(cell)
        else:
            self.outcome.diverged[cell] = f"{why} ({changes})"

    def _pass_on(self, event: Event) -> None:
        now, slot = self._clock(), self._slots[event.worker]
        if slot.last_report is not None:
            slot.longest = max(slot.longest, now - slot.last_report)
        slot.last_report = now
        self._tell(event)

    # -- losses -----------------------------------------------------------------------------------

    def lost(self, loss: Loss) -> OnLoss:
        """Take back the cells of a lost worker; return what happens to the worker."""
        slot = self._slots[loss.job]
        self._take_back(slot, died=True)
        if self._stopper.reason is not None or self.hung:
            return OnLoss.END
        if loss.memory and not self._cluster:
            then = OnLoss.END if loss.alone else OnLoss.LATER
            how = f"ran out of memory ({loss.how})"
            self.out_of_memory = self.out_of_memory or loss.alone
        else:
            then = (ON_CLUSTER if self._cluster else AFTER_DEATHS)[slot.deaths]
            how = f"died ({loss.how})"
            slot.deaths += 1
        slot.last_report, slot.longest = None, 0.0
        self._tell(WorkerLost(loss.job, how, then))
        return then

    def _take_back(self, slot: WorkerSlot, died: bool) -> None:
        """End the epoch of a worker, and queue its cells for others."""
        for cell in sorted(slot.cells, reverse=True):
            self._deaths[cell] += died
            if self._deaths[cell] >= MOST_DEATHS:
                self.outcome.unfinished.setdefault(cell, None)  # given up
            else:
                self._queue(cell).appendleft(cell)
                self._unread.add(cell)
        slot.cells, slot.epoch = set(), 0

    def overdue(self, job: int) -> bool:
        """Return whether a worker stayed silent for the grace time after the time limit."""
        slot, now = self._slots[job], self._clock()
        if slot.last_report is None or self._end is None:
            return False
        grace = max(GRACE_SECONDS, GRACE_SHARE * self._options.time_limit, 2 * slot.longest)
        if now <= max(self._end, slot.last_report) + grace:
            return False
        self.hung = self.hung or now - slot.last_report
        return True

    def hang_message(self) -> str:
        return (
            f"time limit reached, and the model has not answered for {self.hung:.0f} s: it was "
            "stopped. All recorded answers are kept. Resume with "
            f"`tollbox resume {self.folder}`."
        )


def pack(answers: Sequence[Answered], shards: int) -> Labels:
    """Pack the answers of a batch by shard, for the request "record" to the coordinator."""
    by_shard = defaultdict[int, list[Answered]](list)
    for answered in answers:
        by_shard[answered.cell % shards].append(answered)
    labels: Labels = []
    for shard, some in by_shard.items():
        rows = Counter[int]()
        for answered in some:
            rows[answered.cell] += len(answered.labels)
        labels.append((shard, rows, pack_answers(some)))
    return labels
