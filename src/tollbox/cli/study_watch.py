"""Progress of a study: a line for each series.

On a terminal they are redrawn in place; elsewhere a plain log has the lines that are under way,
every ten seconds, and each line when it is done. Speed is charged queries per second since the
line began; the share is of what the model makes alone, measured before the run.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from dataclasses import dataclass, field

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.table import Table

from ..studies.reading import StudyResults
from ..studies.shard import CellEnded, Event, ShardDied, ShardProgress
from ..studies.status import counts_in_median
from .codes import FAILED
from .streams import say

LOG_SECONDS = 10.0
REDRAW_SECONDS = 0.2


@dataclass
class _SeriesProgress:
    """One series, as it is shown."""

    name: str
    cells: int
    done: int = 0
    failed: int = 0
    fresh: int = 0
    """Cells that were attacked to their end since this run began."""
    fresh_queries: int = 0
    distances: list[float] = field(default_factory=list)
    queries: dict[int, int] = field(default_factory=dict)
    """Since this run began, by shard."""
    began: float | None = None
    ended: float | None = None

    @property
    def under_way(self) -> bool:
        """It was begun, and is not done."""
        return self.began is not None and self.done < self.cells

    @property
    def rate(self) -> float:
        """Queries/s."""
        if self.began is None:
            return 0.0
        seconds = (self.ended or time.monotonic()) - self.began
        return sum(self.queries.values()) / seconds if seconds > 0 else 0.0

    @property
    def left(self) -> float:
        """Seconds, roughly; NaN if nothing is known yet."""
        if self.done >= self.cells:
            return 0.0
        if not self.fresh or self.rate == 0:
            return math.nan
        each = self.fresh_queries / self.fresh
        under_way = sum(self.queries.values()) - self.fresh_queries
        return max(0.0, each * (self.cells - self.done) - under_way) / self.rate

    def columns(self, raw: float | None) -> list[str]:
        """Its columns."""
        rate = self.rate
        failed = f" ({self.failed} failed)" if self.failed else ""
        return [
            self.name,
            f"{self.done}/{self.cells}{failed}",
            f"{rate:,.0f} queries/s" if rate else "",
            f"{rate / raw:.2f} of raw" if rate and raw else "",
            f"median l2 {np.median(self.distances):.3g}" if self.distances else "",
            "done"
            if self.done >= self.cells
            else ""
            if math.isnan(self.left)
            else _clock(self.left),
        ]


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d} left" if hours else f"{minutes}:{rest:02d} left"


class StudyWatch:
    """Shows a study's run; `tell` is what the run calls."""

    def __init__(self, console: Console, results: StudyResults, failed: bool = False) -> None:
        """`failed`: cells that failed are run again."""
        self._console = console
        self._series = [
            _SeriesProgress(s.name, s.cells, s.done - s.failed)
            if failed
            else _SeriesProgress(s.name, s.cells, s.done, s.failed)
            for s in results.status()
        ]
        for end in results.finished():
            if counts_in_median(end.stop):
                self._series[results.grid.series_of(end.cell)].distances.append(end.distance)
        self._raw: float | None = None
        self._live: Live | None = None
        self._next = 0.0

    def __enter__(self) -> StudyWatch:
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        self._next = time.monotonic() + (0.0 if self._live else LOG_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def announce(self, message: str) -> None:
        """Say something at once; a signal handler may call this."""
        with contextlib.suppress(RuntimeError):  # the signal came while stderr was being written
            if self._live is None:
                say(message)
            else:
                self._live.console.print(f"tollbox: {message}", soft_wrap=True)

    def end_process(self, message: str) -> None:
        """Say something, and end the process; for a thread, while the main one hangs."""
        try:
            self.__exit__()
            say(message)
        finally:
            os._exit(FAILED)

    def tell(self, event: Event) -> None:
        """Take in what happened, and show it every now and then."""
        if isinstance(event, ShardDied):
            then = (
                "a fresh one goes on with its cells"
                if event.again
                else "its cells are left, and the others go on"
            )
            self.announce(f"the process of shard {event.shard} died ({event.how}); {then}.")
        elif isinstance(event, ShardProgress):
            for number, queries in event.queries.items():
                series = self._series[number]
                series.began = series.began or time.monotonic() - 1e-3
                series.queries[event.shard] = queries
        elif isinstance(event, CellEnded):
            self._ended(event)
        if time.monotonic() >= self._next:
            self._show()

    def _ended(self, event: CellEnded) -> None:
        series = self._series[event.series]
        series.done += 1
        if event.stop.attacked:  # else it says nothing about the others
            series.fresh += 1
            series.fresh_queries += event.queries
        series.failed += event.stop.failed
        if counts_in_median(event.stop):
            series.distances.append(event.distance)
        series.began = series.began or time.monotonic() - 1e-3
        if series.done >= series.cells:
            series.ended = time.monotonic()
            if self._live is None:
                self._log(series)

    def _show(self) -> None:
        if self._live is not None:
            self._next = time.monotonic() + REDRAW_SECONDS
            table = Table.grid(padding=(0, 2))
            for series in self._visible():
                table.add_row(*series.columns(self._raw))
            self._live.update(table, refresh=True)
            return
        self._next = time.monotonic() + LOG_SECONDS
        for series in self._series:
            if series.under_way:
                self._log(series)

    def _log(self, series: _SeriesProgress) -> None:
        name, *others = series.columns(self._raw)
        words = ", ".join(part for part in others if part)
        self._console.print(f"{name}: {words}", soft_wrap=True)

    def _visible(self) -> list[_SeriesProgress]:
        """As many series as fit: those under way first, then in order."""
        room = max(1, self._console.height - 1)
        if len(self._series) <= room:
            return self._series
        return sorted(self._series, key=lambda series: not series.under_way)[:room]
