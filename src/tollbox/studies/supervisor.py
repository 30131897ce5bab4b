"""The supervisor of a study's workers: what happens if a process is lost, or a model hangs.

1. A worker whose process died continues in a new one, and its cells return to the coordinator.
   Recorded answers are not queried again, so nothing is lost and no number changes. The second
   time, the worker waits for a free process, with one process fewer, since memory may be short. The
   third time it ends, so a model that always kills its process does not loop for ever.
2. A worker whose process ran out of memory waits for a free process, with one process fewer. If
   that process was the only one, the worker ends.
3. On a cluster, processes die with their nodes, and memory is that of many machines. There a worker
   continues elsewhere, at most nine times while no cell finishes.
4. At the time limit, a worker stops after the batch in progress. If the model does not return, the
   process is killed after a grace time: the largest of `GRACE_SECONDS`, `GRACE_SHARE` of the limit,
   and twice the longest time between two reports so far, since batches may be slow.
5. One clock serves all workers. It starts when the first worker has loaded its images.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..workers.executors import Loss, OnLoss, Stopper
from .events import CellEnded, Event, Tell, WorkerLost

AFTER_DEATHS = (OnLoss.NOW, OnLoss.LATER, OnLoss.END)
"""What happens to a worker at the first, second and third death of its process."""
ON_CLUSTER = (OnLoss.NOW,) * 9 + (OnLoss.END,)
"""The same on a cluster, for deaths since a cell last finished."""
GRACE_SECONDS = 10.0
GRACE_SHARE = 0.1
CHECK_SECONDS = 0.5
"""Time between two checks of a model in this process."""


class Supervisor:
    """Receives the events of all workers, and decides what happens when one is lost."""

    def __init__(
        self,
        folder: Path,
        workers: Sequence[int],
        time_limit: float,
        tell: Tell,
        stopper: Stopper,
        cluster: bool = False,
    ) -> None:
        """`workers` are the numbers of the workers, in the order of their jobs."""
        self.workers = workers
        self._folder, self._time_limit, self._tell = folder, time_limit, tell
        self._stopper, self._cluster = stopper, cluster
        self._end: float | None = None
        """When the time is up; None before the first worker has loaded its images."""
        self._reported: dict[int, float] = {}
        """When each worker last reported."""
        self._longest = defaultdict[int, float](float)
        """Longest time between two reports of each worker."""
        self._deaths: Counter[int] = Counter()
        self.out_of_memory = False
        """Whether a worker ended because memory is too small even for one process."""
        self.hung = 0.0
        """Seconds for which a model had not answered when its process was killed."""

    def tell(self, event: Event) -> None:
        """Note the time of an event, and pass it on."""
        now, worker = time.monotonic(), event.worker
        passed = now - self._reported.get(worker, now)
        self._longest[worker] = max(self._longest[worker], passed)
        self._reported[worker] = now
        if self._cluster and isinstance(event, CellEnded):
            self._deaths.clear()
        self._tell(event)

    def seconds_left(self) -> float:
        """Return the time left; the first call starts the clock."""
        now = time.monotonic()
        self._end = now + self._time_limit if self._end is None else self._end
        return max(0.0, self._end - now)

    @property
    def time_is_up(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end

    def overdue(self, job: int) -> bool:
        """Return whether a worker is silent for longer than the grace time after the time limit."""
        worker, now = self.workers[job], time.monotonic()
        last = self._reported.get(worker)
        if last is None or self._end is None:
            return False
        grace = max(GRACE_SECONDS, GRACE_SHARE * self._time_limit, 2 * self._longest[worker])
        if now <= max(self._end, last) + grace:
            return False
        self.hung = self.hung or now - last
        return True

    def lost(self, loss: Loss) -> OnLoss:
        """Decide what happens to a worker that lost its process."""
        if self._stopper.reason is not None or self.hung:
            return OnLoss.END
        worker = self.workers[loss.job]
        if loss.memory and not self._cluster:
            then = OnLoss.END if loss.alone else OnLoss.LATER
            how = f"ran out of memory ({loss.how})"
            self.out_of_memory = self.out_of_memory or loss.alone
        else:
            then = (ON_CLUSTER if self._cluster else AFTER_DEATHS)[self._deaths[worker]]
            how = f"died ({loss.how})"
            self._deaths[worker] += 1
        self._reported.pop(worker, None)
        self._longest.pop(worker, None)
        self._tell(WorkerLost(worker, how, then))
        return then

    def hang_message(self) -> str:
        return (
            f"time limit reached, and the model has not answered for {self.hung:.0f} s: it was "
            "stopped. All recorded answers are kept. Resume with "
            f"`tollbox resume {self._folder}`."
        )

    @contextmanager
    def watch_own_process(self, on_hang: Callable[[str], None] | None) -> Iterator[None]:
        """Watch the single worker while it runs in this process. If its model hangs, `on_hang` is
        called in another thread with a message, and must end the process."""
        if on_hang is None or math.isinf(self._time_limit):
            yield
            return
        finished = threading.Event()

        def watch() -> None:
            while not finished.wait(CHECK_SECONDS):
                if self.overdue(0):
                    on_hang(self.hang_message())
                    return

        threading.Thread(target=watch, daemon=True).start()
        try:
            yield
        finally:
            finished.set()
