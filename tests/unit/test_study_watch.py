"""What is shown of a study's progress, by a clock of the test's own."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

import tollbox as tb
from tollbox.cli.progress import LOG_SECONDS, Pace, StudyProgress
from tollbox.core.stop import Stop
from tollbox.studies.create import create
from tollbox.studies.events import CellEnded, WorkerProgress
from tollbox.studies.inputs import load


def test_the_pace_says_nothing_before_it_knows() -> None:
    pace = Pace(0.0, work=10.0, total=110.0)
    assert pace.left(10.0, 10.0) is None
    assert pace.left(20.0, 14.9) is None
    assert pace.left(30.0, 15.0) is not None


def test_the_pace_is_that_of_late() -> None:
    """What was recorded is replayed in no time, and the rest takes a second for each cell."""
    pace = Pace(0.0, work=0.0, total=200.0)
    for second in range(1, 101):
        left = pace.left(float(second), 50.0 + second)
    assert left == pytest.approx(50.0)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def results(tiny_study: tb.Study) -> Iterator[tb.studies.StudyResults]:
    create(load(tiny_study), Path("out"), "run")
    with tb.studies.StudyResults("out") as found:
        yield found


def test_the_log_has_one_line_for_all_of_the_study(results: tb.studies.StudyResults) -> None:
    """Twelve cells in four series; ten seconds for each cell, two of them at a time."""
    clock, out = Clock(), io.StringIO()
    with StudyProgress(Console(file=out, width=200), results, clock=clock) as watch:
        for tenth in range(1, 31):
            clock.now += 1.0
            watch.tell(WorkerProgress(0, {0: 7 * tenth}, {0: ((tenth - 1) % 10 + 1) / 10}))
            watch.tell(WorkerProgress(1, {3: 7 * tenth}, {3: ((tenth - 1) % 10 + 1) / 10}))
            if tenth % 10 == 0:
                for shard, series in ((0, 0), (1, 3)):
                    watch.tell(CellEnded(shard, tenth, series, Stop.BUDGET, 0.5, 70))
    lines = out.getvalue().splitlines()
    names = [series.name for series in results.status()]
    assert [line for line in lines if not line.startswith("total: ")] == [
        f"{names[0]}: 3/3, median l2 0.5, done",
        f"{names[3]}: 3/3, median l2 0.5, done",
    ]
    totals = [line for line in lines if line.startswith("total: ")]
    assert len(totals) == 30 / LOG_SECONDS
    assert totals[-1] == "total: 4/12 cells, 49 % of the work, 14 queries/s, about 0:00:30 left"
    assert "raw" not in out.getvalue()


def test_a_terminal_shows_all_series_below_the_total(results: tb.studies.StudyResults) -> None:
    clock, out = Clock(), io.StringIO()
    console = Console(file=out, width=100, height=30, force_terminal=True)
    with StudyProgress(console, results, clock=clock) as watch:
        clock.now += 8.0
        watch.tell(WorkerProgress(0, {0: 80, 1: 80}, {0: 1.5, 1: 1.5}))
    shown = out.getvalue()
    assert "total: 0/12 cells, 25 % of the work, 20 queries/s, about 0:00:24 left" in shown
    assert shown.count("0/3  50 %") == 2 * shown.count("total")
    for series in results.status():
        assert series.name in shown
