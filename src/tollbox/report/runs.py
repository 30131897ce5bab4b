"""The runs of a study as arrays, grouped by series (model, price and attack).

1. A run keeps the distances it reached, each with its cost, flagged queries and queries; the
   amounts it spent; and the amounts up to which its distance is known. The rest of the trace is
   dropped, so that ten thousand cells fit into memory.
2. A distance counts from the smallest budget that would have sufficed for it: the amount spent
   before its query plus the price of the most expensive answer (`Result.distance_at`).
3. The paper's rule differs (`DistanceRule.PAPER`): only iterates count, each at the amount spent
   when it was accepted, and distances in between are interpolated linearly.
4. "Best of all attacks" is the smallest distance that any attack reached on each image at each
   cost, as if the attacker knew which attack to use.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..core.result import AXES, By, Values, known_up_to, needed, reached_at
from ..core.stop import Stop
from ..studies.grid import Place, Series
from ..studies.results import StudyResults
from ..studies.store.codec import End, Trace
from . import DistanceRule

MARKS = 48
"""Maximum number of points in a curve, so that a page about ten thousand cells stays small."""


@dataclass(frozen=True)
class CellCurve:
    """The run of one cell: its distances against the amounts spent."""

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
    """(n, 2): planned and realised share of adversarial answers in each estimate."""
    rule: DistanceRule = DistanceRule.HARD

    def at(self, marks: Values, by: By) -> Values:
        """Return the distance at each mark: infinite before any was reached, NaN if unknown."""
        if self.rule is DistanceRule.HARD:
            distances = reached_at(self.needs[by], self.distances, marks)
        elif len(self.reached) == 0:
            distances = np.full(len(marks), math.inf)
        else:
            distances = np.interp(marks, self.iterates[by], self.reached, left=math.inf)
        return np.where(marks > self.known[by], math.nan, distances)


@dataclass(frozen=True)
class BestRun:
    """The runs of all attacks on one image with one seed."""

    image: int
    runs: Sequence[CellCurve]

    def at(self, marks: Values, by: By) -> Values:
        return np.asarray(np.min([run.at(marks, by) for run in self.runs], axis=0))


def key_of(series: Series) -> dict[str, str]:
    names = series.model.name, series.tariff.name, series.attack.name
    return dict(zip(("model", "price", "attack"), names, strict=True))


@dataclass(frozen=True)
class SeriesRuns:
    """The finished runs of a series, except those on images that are misclassified anyway."""

    series: Series
    runs: list[CellCurve]
    misclassified: int

    @property
    def key(self) -> dict[str, str]:
        return key_of(self.series)

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
        """The horizontal axes of the series' curves."""
        flagged = any(run.spent["source"] > 0 for run in self.runs)
        return ("cost", "source") if flagged else ("cost",)

    def marks(self, by: By) -> Values:
        """Return log-spaced marks from the first point to the budget or the most spent by a run."""
        last = max(run.spent[by] for run in self.runs)
        budget = self.series.tariff.limits.budget
        if by == "cost" and math.isfinite(budget):
            last = budget
        first = min([*(run.needs[by][0] for run in self.runs if len(run.distances)), last])
        if not first < last:
            return np.array([max(last, 1.0)])
        return np.unique(np.geomspace(max(first, last / 1e6), last, MARKS))


def series_of(results: StudyResults, rule: DistanceRule = DistanceRule.HARD) -> list[SeriesRuns]:
    curves = defaultdict[int, list[CellCurve]](list)
    misclassified = Counter[int]()
    for end, trace in results.runs(steps=True):
        place = results.grid.place(end.cell)
        if end.stop is Stop.ALREADY_MISCLASSIFIED:
            misclassified[place.series.number] += 1
        else:
            curves[place.series.number].append(_curve(results, place, end, trace, rule))
    for runs in curves.values():
        runs.sort(key=lambda run: (run.image, run.seed))
    return [
        SeriesRuns(series, curves[series.number], misclassified[series.number])
        for series in results.grid.series
    ]


def _curve(
    results: StudyResults, place: Place, end: End, trace: Trace, rule: DistanceRule
) -> CellCurve:
    tariff, improvements, steps = place.series.tariff, trace.improvements, trace.steps
    label = results.images[place.image][1]
    goal = results.study.goal.for_label(label)
    ledger = trace.ledger(tariff.prices.for_source(label, goal), goal, results.study.detector)
    spent: dict[By, float] = {"cost": end.cost, "source": end.flagged, "queries": end.queries}
    accepted = np.array([(step.cost, step.source, step.source + step.other) for step in steps])
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
        dict(zip(AXES, accepted.astype(float).reshape(-1, len(AXES)).T, strict=True)),
        np.array([step.distance for step in steps], float),
        spent,
        {by: known_up_to(end.stop, by, spent=spent[by], limits=tariff.limits) for by in AXES},
        ledger.by_phase,
        np.array(shares).reshape(-1, 2),
        rule,
    )


def best_runs(all_series: Sequence[SeriesRuns], model: str, price: str) -> list[BestRun]:
    """Return the best of all attacks on a model at a price; empty unless at least two have runs."""
    here = (s for s in all_series if (s.model, s.price) == (model, price))
    series = [{(run.image, run.seed): run for run in each.runs} for each in here if each.runs]
    if len(series) < 2:
        return []
    common = sorted(set.intersection(*(set(runs) for runs in series)))
    return [BestRun(key[0], [runs[key] for runs in series]) for key in common]
