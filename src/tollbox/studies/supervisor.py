"""What is done about engines that lose their process, or whose model hangs.

1. An engine whose process died goes on in a fresh one, and its cells go back to the desk: what was
   recorded is not asked again, so nothing is lost, and no number changes. The second time it waits
   until another process is free, with one process less, since memory may have run out; the third
   time it ends. A model that kills its process each time does not loop for ever.
2. An engine whose process has not enough memory waits until another process is free, with one
   process less. If there was no other process beside it, it ends.
3. On a cluster processes die with their nodes, and memory is that of many machines: there an engine
   goes on elsewhere, nine times while no cell ends.
4. At the time limit an engine ends after the batch under way. If that does not come back, its
   process is ended from outside after a grace time: the larger of `GRACE_SECONDS`, `GRACE_SHARE` of
   the limit, and twice the longest time between two reports so far, since batches may be slow.
5. There is one clock for all engines. It starts when the first has loaded its images.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..workers.executors import Loss, Stopper, Then
from .events import CellEnded, EngineLost, Event, Tell

AFTER_DEATHS = (Then.NOW, Then.LATER, Then.END)
"""What becomes of an engine when its process died for the first time, the second, the third."""
ELSEWHERE = (Then.NOW,) * 9 + (Then.END,)
"""The same on a cluster, since a cell ended last."""
GRACE_SECONDS = 10.0
GRACE_SHARE = 0.1
LOOK_SECONDS = 0.5
"""Time between two looks at a model in this process."""


@dataclass
class _Clock:
    """When an engine reported."""

    last: float
    longest: float = 0.0
    """Between two reports."""


class EngineCare:
    """Watches over the engines of a run; `tell` must hear all that they report."""

    def __init__(
        self,
        folder: Path,
        engines: Sequence[int],
        time_limit: float,
        tell: Tell,
        stopper: Stopper,
        cluster: bool = False,
    ) -> None:
        """`engines` are the numbers of the engines, in the order of their jobs."""
        self._folder, self._engines, self._time_limit = folder, engines, time_limit
        self._tell, self._stopper, self._cluster = tell, stopper, cluster
        self.take_back: Callable[[int], None] | None = None
        """Called with the place of an engine that is lost."""
        self._end: float | None = None
        """Of the time; None before the first engine has loaded its images."""
        self._clocks: dict[int, _Clock] = {}
        self._deaths: Counter[int] = Counter()
        self.out_of_memory = False
        """An engine was ended since there is not enough memory, even without others beside it."""
        self.hung = 0.0
        """For how many seconds a model had not answered when its process was ended."""

    def tell(self, event: Event) -> None:
        """Take the time of a report, and pass it on."""
        now = time.monotonic()
        clock = self._clocks.setdefault(event.engine, _Clock(now))
        clock.longest, clock.last = max(clock.longest, now - clock.last), now
        if self._cluster and isinstance(event, CellEnded):
            self._deaths.clear()
        self._tell(event)

    def seconds_left(self) -> float:
        """The time that is left."""
        now = time.monotonic()
        self._end = now + self._time_limit if self._end is None else self._end
        return max(0.0, self._end - now)

    @property
    def time_is_up(self) -> bool:
        """Whether no time is left."""
        return self._end is not None and time.monotonic() >= self._end

    def silence(self, engine: int) -> float:
        """Seconds for which an engine was silent though its time is up; 0 within the grace."""
        clock = self._clocks.get(engine)
        if clock is None or self._end is None:
            return 0.0
        grace = max(GRACE_SECONDS, GRACE_SHARE * self._time_limit, 2 * clock.longest)
        now = time.monotonic()
        return now - clock.last if now > max(self._end, clock.last) + grace else 0.0

    def overdue(self, place: int) -> bool:
        """Whether an engine's process is to be ended."""
        silence = self.silence(self._engines[place])
        self.hung = self.hung or silence
        return silence > 0

    def lost(self, loss: Loss) -> Then:
        """What becomes of an engine that lost its process."""
        if self.take_back is not None:
            self.take_back(loss.job)
        if self._stopper.reason is not None or self.hung:
            return Then.END
        engine = self._engines[loss.job]
        if loss.memory and not self._cluster:
            then, how = Then.END if loss.alone else Then.LATER, f"ran out of memory ({loss.how})"
            self.out_of_memory = self.out_of_memory or loss.alone
        else:
            orders = ELSEWHERE if self._cluster else AFTER_DEATHS
            then, how = orders[self._deaths[engine]], f"died ({loss.how})"
            self._deaths[engine] += 1
        self._clocks.pop(engine, None)
        self._tell(EngineLost(engine, how, then))
        return then

    def sentence(self) -> str:
        """What is said of a model that hangs."""
        return (
            f"the time is up, and the model has not answered for {self.hung:.0f} s: it was ended. "
            f"All that was recorded is kept: go on with `tollbox resume {self._folder}`."
        )

    @contextmanager
    def watching(self, hang: Callable[[str], None] | None) -> Iterator[None]:
        """While the one engine is run in this process: if its model hangs, `hang` is called in
        another thread with a sentence, and is to end the process."""
        if hang is None or math.isinf(self._time_limit):
            yield
            return
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(LOOK_SECONDS):
                if self.overdue(0):
                    hang(self.sentence())
                    return

        threading.Thread(target=watch, daemon=True).start()
        try:
            yield
        finally:
            ended.set()
