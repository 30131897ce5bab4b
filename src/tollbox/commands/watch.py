"""Live progress on stderr: a bar on a terminal, else a plain line every few seconds.

It says: images done of all, how many are under way, queries a second, and the median distance of
those that are done (without images that the model misclassifies anyway, and runs cut short).
"""

from __future__ import annotations

import time
from types import TracebackType

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from ..engine import Progress
from ..errors import Stop
from ..results import CUT_SHORT

LOG_EVERY = 5.0
REDRAW_EVERY = 0.1


class Watch:
    """Shows a run; `update` is what the engine calls after each batch."""

    def __init__(self, console: Console, total: int, what: str = "images") -> None:
        self._console, self._total, self._what = console, total, what
        self._distances: list[float] = []
        self._next = 0.0
        self._bars: Bars | None = None
        self._task = TaskID(0)

    def __enter__(self) -> Watch:
        if self._console.is_terminal:
            self._bars = Bars(
                BarColumn(bar_width=24),
                MofNCompleteColumn(),
                TextColumn("{task.description}", markup=False),
                TimeElapsedColumn(),
                console=self._console,
            )
            self._task = self._bars.add_task(self._what, total=self._total)
            self._bars.start()
        else:
            self._next = time.monotonic() + LOG_EVERY
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def update(self, now: Progress) -> None:
        """Show where the run stands, at most every so often."""
        self._distances += [
            result.distance
            for result in now.finished
            if result.stop not in (Stop.ALREADY_MISCLASSIFIED, *CUT_SHORT)
        ]
        if time.monotonic() < self._next and now.done < self._total:
            return
        text = self._text(now)
        if self._bars is not None:
            self._next = time.monotonic() + REDRAW_EVERY
            self._bars.update(self._task, completed=now.done, description=text)
        elif time.monotonic() >= self._next:
            self._next = time.monotonic() + LOG_EVERY
            self._console.print(f"{now.done}/{self._total} {text}", soft_wrap=True)

    def _text(self, now: Progress) -> str:
        rate = now.queries / now.seconds if now.seconds > 0 else 0.0
        reached = f", median l2 {np.median(self._distances):.3g}" if self._distances else ""
        return f"{self._what}, {now.live} live, {rate:,.0f} queries/s{reached}"
