"""A study's runs as a report reads them: arrays, by the series of the grid.

1. Of each run: at which cost (flagged queries, queries) which distance was reached, where it ended,
   and up to where that is known. Nothing else of a trace is held, so that a study of ten thousand
   cells fits into memory.
2. A distance counts from the cost under which it would have been reached: what was spent before the
   row, and the dearest answer (`Result.distance_at`).
3. The paper reads otherwise: the distances of the iterates alone, each at what was spent when it
   was accepted, and in between on a straight line (`Reading.PAPER`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..core.goal import Goal
from ..core.result import AXES, By, Values, known_up_to, needed, reached_at
from ..core.stop import Stop
from ..studies.grid import Place, Series
from ..studies.results import StudyResults
from ..studies.specs import DetectorSpec
from ..studies.store.codec import End, Trace
from .reading import Reading


@dataclass(frozen=True)
class CellCurve:
    """The run of one cell: what it reached against what it spent."""

    image: int
    seed: int
    stop: Stop
    needs: dict[By, Values]
    """From which cost, flagged queries or queries on each of `distances` counts."""
    distances: Values
    iterates: dict[By, Values]
    """What was spent when each iterate was accepted."""
    reached: Values
    """The distances of the iterates."""
    spent: dict[By, float]
    known: dict[By, float]
    """Up to where it is known what was reached."""
    phases: dict[str, float]
    """What each phase cost."""
    shares: Values
    """(n, 2): the share of low-cost answers that an estimate planned with, and what it got."""

    def at(self, marks: Values, by: By, reading: Reading) -> Values:
        """The distance at each mark: infinite before the first, NaN where it is not known."""
        if reading is Reading.HARD:
            distances = reached_at(self.needs[by], self.distances, marks)
        elif len(self.reached) == 0:
            distances = np.full(len(marks), math.inf)
        else:
            places = self.iterates[by]
            distances = np.interp(marks, places, self.reached)
            distances = np.where(marks < places[0], math.inf, distances)
        return np.where(marks > self.known[by], math.nan, distances)


@dataclass(frozen=True)
class SeriesRuns:
    """The finished runs of a series that count: not those of images misclassified anyway."""

    series: Series
    runs: list[CellCurve]
    misclassified: int


def series_of(results: StudyResults) -> list[SeriesRuns]:
    """The series of a study with their runs."""
    curves: dict[int, list[CellCurve]] = {series.number: [] for series in results.grid.series}
    misclassified = dict.fromkeys(curves, 0)
    ends = {end.cell: end for end in results.finished()}
    for cell, place, trace in results.traces():
        if cell not in ends:  # it has just been finished
            continue
        number, end = place.series.number, ends[cell]
        if end.stop is Stop.ALREADY_MISCLASSIFIED:
            misclassified[number] += 1
        else:
            label = results.images[place.image][1]
            goal = results.study.goal.for_label(label)
            curves[number].append(_curve(place, label, goal, end, trace, results.study.detector))
    for runs in curves.values():
        runs.sort(key=lambda run: (run.image, run.seed))
    return [
        SeriesRuns(series, curves[series.number], misclassified[series.number])
        for series in results.grid.series
    ]


def _curve(
    place: Place, label: int, goal: Goal, end: End, trace: Trace, detector: DetectorSpec | None
) -> CellCurve:
    tariff = place.series.tariff
    ledger = trace.ledger(tariff.prices.for_source(label, goal), goal, detector)
    spent: dict[By, float] = {"cost": end.cost, "source": end.flagged, "queries": end.queries}
    notes = [step.notes for step in trace.steps]
    improvements = trace.improvements
    return CellCurve(
        place.image,
        place.seed,
        end.stop,
        {by: needed(improvements, ledger.prices, by, ledger.alarm_price) for by in AXES},
        np.array([row.distance for row in improvements], float),
        {
            "cost": np.array([step.cost for step in trace.steps], float),
            "source": np.array([step.source for step in trace.steps], float),
            "queries": np.array([step.source + step.other for step in trace.steps], float),
        },
        np.array([step.distance for step in trace.steps], float),
        spent,
        {by: known_up_to(end.stop, by, spent=spent[by], limits=tariff.limits) for by in AXES},
        ledger.by_phase,
        np.array(
            [
                (note["planned_share"], note["share"])
                for note in notes
                if "planned_share" in note and note.get("share") is not None
            ]
        ).reshape(-1, 2),
    )
