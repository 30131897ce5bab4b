"""Progress of a study: a line for the total, and one for each series.

A terminal updates the lines in place. Elsewhere, a plain log shows the total every ten seconds, and
each series when it is done.

A running cell counts as the share of its budget (or of its maximum queries) that is spent. The
remaining time is estimated from the pace in the second half of the elapsed time, because loading
and replaying say little about the rest. It is shown once `SURE_SHARE` of the work is done.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ..core.metric import Metric
from ..studies.events import CellEnded, Event, WorkerLost, WorkerProgress
from ..studies.results import StudyResults
from ..studies.status import counts_in_median
from ..workers.executors import OnLoss
from .output import FAILED, clock, end_process, say

LOG_SECONDS = 10.0
REDRAW_SECONDS = 0.2
SAMPLE_SECONDS = 0.5
"""Minimum seconds between two samples of the pace."""
SURE_SHARE = 0.05
THEN = {
    OnLoss.NOW: "another one takes over its cells",
    OnLoss.LATER: "its cells wait until another one is free",
    OnLoss.END: "its cells are left, and the others continue",
}
"""Clauses that say what happens to the cells of a lost worker."""


@dataclass
class _SeriesProgress:
    name: str
    cells: int
    norm: Metric
    done: int = 0
    failed: int = 0
    distances: list[float] = field(default_factory=list)
    queries: dict[int, int] = field(default_factory=dict)
    """Queries since this run started, by worker."""
    spent: dict[int, float] = field(default_factory=dict)
    """Sum of the shares of their budgets that running cells have spent, by worker."""

    @property
    def work(self) -> float:
        """Number of finished cells, plus the shares of running ones."""
        return min(self.cells, self.done + sum(self.spent.values()))

    @property
    def under_way(self) -> bool:
        return bool(self.queries) and self.done < self.cells

    def columns(self) -> list[str]:
        failed = f" ({self.failed} failed)" if self.failed else ""
        return [
            self.name,
            f"{self.done}/{self.cells}{failed}",
            _percent(self.work / self.cells) if self.under_way else "",
            f"median {self.norm} {np.median(self.distances):.3g}" if self.distances else "",
            "done" if self.done >= self.cells else "",
        ]


class Pace:
    """The speed of the work, and the time that remains."""

    def __init__(self, now: float, work: float, total: float) -> None:
        self._began, self._first, self._total = now, work, total
        self._samples = deque([(now, work)])

    def left(self, now: float, work: float) -> float | None:
        """Return the remaining seconds; None while it is too early to estimate them."""
        samples = self._samples
        if now - samples[-1][0] >= SAMPLE_SECONDS:
            samples.append((now, work))
        while len(samples) > 1 and samples[1][0] <= (self._began + now) / 2:
            samples.popleft()
        then, before = samples[0]
        enough = work - self._first >= SURE_SHARE * (self._total - self._first)
        if not enough or work <= before or now <= then:
            return None
        return (self._total - work) * (now - then) / (work - before)


def _joined(parts: Sequence[str]) -> str:
    return ", ".join(part for part in parts if part)


def _percent(share: float) -> str:
    return f"{math.floor(100 * share)} %"


class StudyProgress:
    """The progress display of a running study; the run calls `tell` with every event."""

    def __init__(
        self,
        console: Console,
        results: StudyResults,
        failed: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Set `failed` if failed cells run again."""
        self._console, self._clock = console, clock
        self._series = []
        for each in results.status():
            again = each.failed if failed else 0
            done, kept = each.done - again, each.failed - again
            self._series.append(_SeriesProgress(each.name, each.cells, each.norm, done, kept))
        for end in results.finished():
            if counts_in_median(end.stop):
                self._series[results.grid.series_of(end.cell)].distances.append(end.distance)
        self._live: Live | None = None
        self._cells = sum(series.cells for series in self._series)
        self._began = self._next = clock()
        self._pace = Pace(self._began, self._work, self._cells)

    @property
    def _work(self) -> float:
        return sum(series.work for series in self._series)

    def __enter__(self) -> StudyProgress:
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        self._next = self._clock() + (0.0 if self._live else LOG_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def announce(self, message: str) -> None:
        """Print a message at once; a signal handler may call this."""
        with contextlib.suppress(RuntimeError):  # the signal came while stderr was being written
            if self._live is None:
                say(message)
            else:
                self._live.console.print(f"tollbox: {message}", soft_wrap=True)

    def end_process(self, message: str, code: int = FAILED) -> None:
        """End the display, and then the process (`output.end_process`)."""
        try:
            self.__exit__()
        finally:
            end_process(message, code)

    def tell(self, event: Event) -> None:
        """Process an event, and redraw the display if it is due."""
        if isinstance(event, WorkerLost):
            self.announce(f"worker {event.worker} {event.how}; {THEN[event.then]}.")
        elif isinstance(event, WorkerProgress):
            for number, series in enumerate(self._series):
                series.spent[event.worker] = event.spent.get(number, 0.0)
                if number in event.queries:
                    series.queries[event.worker] = event.queries[number]
        elif isinstance(event, CellEnded):
            self._ended(event)
        now = self._clock()
        left = self._pace.left(now, self._work)
        if now >= self._next:
            self._next = now + (REDRAW_SECONDS if self._live else LOG_SECONDS)
            self._show(now, left)

    def _ended(self, event: CellEnded) -> None:
        series = self._series[event.series]
        series.done += 1
        series.spent[event.worker] = max(0.0, series.spent.get(event.worker, 0.0) - 1)
        series.failed += event.stop.failed
        if counts_in_median(event.stop):
            series.distances.append(event.distance)
        if series.done >= series.cells and self._live is None:
            name, *others = series.columns()
            self._console.print(f"{name}: {_joined(others)}", soft_wrap=True)

    def _show(self, now: float, left: float | None) -> None:
        queries = sum(sum(series.queries.values()) for series in self._series)
        total = [
            f"total: {sum(series.done for series in self._series)}/{self._cells} cells",
            f"{_percent(self._work / self._cells)} of the work",
            f"{queries / max(1e-3, now - self._began):,.0f} queries/s",
            "" if left is None else f"about {clock(left)} left",
        ]
        if self._live is None:
            self._console.print(_joined(total), soft_wrap=True)
            return
        room = max(1, self._console.height - 2)
        visible = self._series
        if len(visible) > room:  # running ones first
            visible = sorted(visible, key=lambda series: not series.under_way)[:room]
        table = Table.grid(padding=(0, 2))
        for series in visible:
            table.add_row(*series.columns())
        self._live.update(Group(Text(_joined(total)), table), refresh=True)
