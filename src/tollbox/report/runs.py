"""The runs of a study as arrays, grouped by series (model, price and attack).

1. A run keeps which distance it reached at which cost (flagged queries, queries), what it spent,
   and up to where its distance is known. The rest of a trace is dropped, so that ten thousand
   cells fit into memory.
2. A distance counts from the budget under which it would have been reached: the amount spent
   before its query plus the price of the most expensive answer (`Result.distance_at`).
3. The paper's rule differs (`DistanceRule.PAPER`): only iterates count, each at the amount spent
   when it was accepted, and distances in between are interpolated linearly.
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
from .distance_rule import DistanceRule

MARKS = 48
"""Maximum number of points of a curve, so that a page of ten thousand cells stays small."""


@dataclass(frozen=True)
class CellCurve:
    """The run of one cell: its distances against what it spent."""

    image: int
    seed: int
    stop: Stop
    needs: dict[By, Values]
    """Cost, flagged queries and queries from which each of `distances` counts."""
    distances: Values
    iterates: dict[By, Values]
    """Amounts spent when each iterate was accepted."""
    reached: Values
    """Distances of the iterates."""
    spent: dict[By, float]
    known: dict[By, float]
    """Largest amounts at which the distance is known."""
    phases: dict[str, float]
    """Cost of each phase."""
    shares: Values
    """(n, 2): planned and realised share of low-cost answers of each estimate."""

    def at(self, marks: Values, by: By, rule: DistanceRule) -> Values:
        """Return the distance at each mark: infinite before the first point, NaN if unknown."""
        if rule is DistanceRule.HARD:
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
    """The finished runs of a series, without those on images that are misclassified anyway."""

    series: Series
    runs: list[CellCurve]
    misclassified: int

    @property
    def key(self) -> dict[str, str]:
        """Names that identify the series on a page."""
        return {"model": self.model, "price": self.price, "attack": self.attack}

    @property
    def model(self) -> str:
        return self.series.model.name

    @property
    def price(self) -> str:
        return self.series.tariff.name

    @property
    def attack(self) -> str:
        return self.series.attack.name

    @property
    def axes(self) -> tuple[By, ...]:
        """Axes against which its curves are drawn."""
        flagged = any(run.spent["source"] > 0 for run in self.runs)
        return ("cost", "source") if flagged else ("cost",)

    def marks(self, by: By) -> Values:
        """Return log-spaced marks from the first point of any run to where the last run stops."""
        budget = self.series.tariff.limits.budget
        last = max(run.spent[by] for run in self.runs)
        if by == "cost" and math.isfinite(budget):
            last = budget
        first = min([*(run.needs[by][0] for run in self.runs if len(run.distances)), last])
        if not first < last:
            return np.array([max(last, 1.0)])
        spaced = np.geomspace(max(first, last / 1e6), last, MARKS)
        return np.unique(np.append(spaced[:-1], last))


def series_of(results: StudyResults) -> list[SeriesRuns]:
    """Return the series of a study with their runs."""
    curves: dict[int, list[CellCurve]] = {series.number: [] for series in results.grid.series}
    misclassified = dict.fromkeys(curves, 0)
    for end, trace in results.runs(steps=True):
        place = results.grid.place(end.cell)
        number = place.series.number
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
    tariff, steps = place.series.tariff, trace.steps
    ledger = trace.ledger(tariff.prices.for_source(label, goal), goal, detector)
    spent: dict[By, float] = {"cost": end.cost, "source": end.flagged, "queries": end.queries}
    improvements = trace.improvements
    shares = [
        (step.notes["planned_share"], step.notes["share"])
        for step in steps
        if "planned_share" in step.notes and step.notes.get("share") is not None
    ]
    return CellCurve(
        place.image,
        place.seed,
        end.stop,
        {by: needed(improvements, ledger.prices, by, ledger.alarm_price) for by in AXES},
        np.array([row.distance for row in improvements], float),
        {
            "cost": np.array([step.cost for step in steps], float),
            "source": np.array([step.source for step in steps], float),
            "queries": np.array([step.source + step.other for step in steps], float),
        },
        np.array([step.distance for step in steps], float),
        spent,
        {by: known_up_to(end.stop, by, spent=spent[by], limits=tariff.limits) for by in AXES},
        ledger.by_phase,
        np.array(shares).reshape(-1, 2),
    )
