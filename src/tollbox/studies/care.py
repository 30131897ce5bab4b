"""What is done about shards whose process dies, or whose model hangs.

1. A shard whose process died goes on in a fresh one, so often as `MOST_RESTARTS` says: what was
   recorded is not asked again, so nothing is lost, and no number changes. A model that kills its
   process each time does not loop for ever.
2. At the time limit a shard ends after the batch under way. If that does not come back, its process
   is ended from outside after a grace time: the larger of `GRACE_SECONDS`, `GRACE_SHARE` of the
   limit, and twice the longest time between two reports so far, since batches may be slow.
3. A shard's clock starts with its first report, when its images have been loaded.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ..engine.executors import Job, Stopper
from .shard import Event, Options, ShardDied, Tell

MOST_RESTARTS = 2
GRACE_SECONDS = 10.0
GRACE_SHARE = 0.1
LOOK_SECONDS = 0.5
"""Time between two looks at a model in this process."""


@dataclass
class _Clock:
    """When a shard began, and when it reported last."""

    began: float
    last: float
    longest: float = 0.0
    """Between two reports."""


class ShardCare:
    """Watches over the shards of a run; `tell` must hear all that they report."""

    def __init__(
        self,
        job: Callable[[Path, Options], Job],
        paths: Sequence[Path],
        options: Options,
        tell: Tell,
        stopper: Stopper,
    ) -> None:
        self._job, self._paths, self._options = job, paths, options
        self._tell, self._stopper = tell, stopper
        self._began = time.monotonic()
        self._clocks: dict[int, _Clock] = {}
        self._restarts: Counter[int] = Counter()
        self.hung = 0.0
        """For how many seconds a model had not answered when its process was ended."""

    def tell(self, event: Event) -> None:
        """Take the time of a report, and pass it on."""
        now = time.monotonic()
        clock = self._clocks.setdefault(event.shard, _Clock(now, now))
        clock.longest, clock.last = max(clock.longest, now - clock.last), now
        self._tell(event)

    def silence(self, shard: int) -> float:
        """Seconds for which a shard has not reported though its time is up; 0 within the grace."""
        limit, clock = self._options.time_limit, self._clocks.get(shard)
        if clock is None or math.isinf(limit):
            return 0.0
        grace = max(GRACE_SECONDS, GRACE_SHARE * limit, 2 * clock.longest)
        now = time.monotonic()
        return now - clock.last if now > max(clock.began + limit, clock.last) + grace else 0.0

    def overdue(self, place: int) -> bool:
        """Whether a shard's process is to be ended."""
        silence = self.silence(place)
        self.hung = self.hung or silence
        return silence > 0

    def replacement(self, place: int, died: str) -> Job | None:
        """What is left of a shard whose process died, unless that happens too often."""
        if self._stopper.reason is not None or self.hung:
            return None
        self._restarts[place] += 1
        again = self._restarts[place] <= MOST_RESTARTS
        self._tell(ShardDied(place, died, again))
        if not again:
            return None
        self._clocks.pop(place, None)
        left = self._options.time_limit - (time.monotonic() - self._began)
        return self._job(self._paths[place], replace(self._options, time_limit=max(1e-3, left)))

    def sentence(self) -> str:
        """What is said of a model that hangs."""
        return (
            f"the time is up, and the model has not answered for {self.hung:.0f} s: it was ended. "
            f"All that was recorded is kept: go on with `tollbox resume {self._paths[0].parent}`."
        )

    @contextmanager
    def watching(self, hang: Callable[[str], None] | None) -> Iterator[None]:
        """While the one shard is run in this process: if its model hangs, `hang` is called in
        another thread with a sentence, and is to end the process."""
        if hang is None or math.isinf(self._options.time_limit):
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
