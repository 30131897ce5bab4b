"""Figures 1, 3 and 7: attacks compared as the cost grows.

1. Figure 1 shows flagged queries against all queries that each attack needs to reach a distance.
2. Figure 3 has a panel for each price, against the total cost, and a last one for c* = ∞. There the
   paper's attacks plan with the largest finite price, and only flagged queries count. Random
   numbers do not depend on the price, so these are the runs of that price, against their flagged
   queries.
3. Figure 7 has a panel for each model, against flagged queries.
4. A budget is a cost, and attacks spend different parts of it on other answers. So against flagged
   queries curves stop at different places; a run that has stopped keeps its last distance.
5. Curves of tollbox's own attacks look different, and the legend says that they are not in the
   paper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..core.result import By
from ..report.curves import Curve, CurvePanel, draw_curves
from ..report.distance_rule import DistanceRule
from ..report.runs import SeriesRuns, series_of
from ..report.statistics import distances_at, effort, median
from ..report.tradeoff import TradeoffPoint, draw_tradeoff
from ..studies.results import StudyResults
from .experiments import OWN, attack_name, is_own, number, price_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def by_price(results: StudyResults, rule: DistanceRule, title: str) -> Figure:
    """Draw Figure 3."""
    all_series, prices = series_of(results), results.study.tariffs
    panels = []
    for tariff in prices:
        chosen = [runs for runs in all_series if runs.series.tariff == tariff]
        panels.append(_panel(chosen, price_name(tariff), "cost", rule))
    head = f"c* = ∞, planned with {number(prices[-1].prices.ratio)}"
    panels.append(_panel(chosen, head, "source", rule))
    return draw_curves(panels, title, "total cost per image", steps=rule is DistanceRule.HARD)


def by_model(results: StudyResults, rule: DistanceRule, title: str) -> Figure:
    """Draw Figure 7."""
    all_series = series_of(results)
    panels = [
        _panel([r for r in all_series if r.series.model == model], model.name, "source", rule)
        for model in results.study.models
    ]
    return draw_curves(panels, title, steps=rule is DistanceRule.HARD)


def _panel(chosen: list[SeriesRuns], head: str, by: By, rule: DistanceRule) -> CurvePanel:
    curves = []
    for runs in chosen:
        if runs.runs:
            spec, marks = runs.series.attack, runs.marks(by)
            values = [median(column) for column in distances_at(runs.runs, marks, by, rule).T]
            note = OWN if is_own(spec) else ""
            curves.append(Curve(attack_name(spec), marks, np.array(values), note=note))
    return CurvePanel(head, curves, "flagged queries per image" if by == "source" else None)


def points_of(results: StudyResults, level: float) -> list[TradeoffPoint]:
    """Return a point for each attack and price."""
    points = []
    for runs in series_of(results):
        spec = runs.series.attack
        price = runs.price if len(results.study.tariffs) > 1 else ""
        each, kind = effort(runs.runs, level), spec.described.method.kind
        points.append(TradeoffPoint(attack_name(spec), price, kind, each.flagged, each.queries))
    return points


def draw(results: StudyResults, level: float, title: str) -> Figure:
    """Draw Figure 1."""
    return draw_tradeoff(points_of(results, level), level, title, own=OWN)
