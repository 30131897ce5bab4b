"""Figures 3 and 7: median ℓ2 of the asymmetric attacks and of Stealthy HSJA as the cost grows.

1. Figure 3 has a panel for each price, against the total cost, and a last one for c* = ∞. There the
   paper lets attacks plan with its largest finite price and counts flagged queries alone. Random
   numbers do not depend on the price, so these are the runs of that price, drawn against their
   flagged queries.
2. Figure 7 has a panel for each model, against flagged queries.
3. A budget is a cost, and attacks spend it on other answers to different degrees; so against
   flagged queries curves end at different places, and a run that has ended counts with what it
   reached.
4. A curve of our own has a look of its own, and the legend says that the paper does not have it.

Figure 1: flagged against all queries that each attack takes to come within a distance.
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
from .experiments import OURS, attack_kind, attack_name, is_ours, number, price_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure


FLAGGED = "flagged queries per image"


def by_price(results: StudyResults, reading: DistanceRule, title: str) -> Figure:
    """Figure 3."""
    all_series, prices = series_of(results), results.study.tariffs
    panels = []
    for tariff in prices:
        chosen = [runs for runs in all_series if runs.series.tariff == tariff]
        panels.append(_panel(chosen, price_name(tariff), "cost", reading))
    head = f"c* = ∞, planned with {number(prices[-1].prices.ratio)}"
    panels.append(_panel(chosen, head, "source", reading))
    return draw_curves(panels, title, "total cost per image", steps=reading is DistanceRule.HARD)


def by_model(results: StudyResults, reading: DistanceRule, title: str) -> Figure:
    """Figure 7."""
    all_series = series_of(results)
    panels = []
    for model in results.study.models:
        chosen = [runs for runs in all_series if runs.series.model == model]
        panels.append(_panel(chosen, model.name, "source", reading))
    return draw_curves(panels, title, steps=reading is DistanceRule.HARD)


def _panel(chosen: list[SeriesRuns], head: str, by: By, reading: DistanceRule) -> CurvePanel:
    curves = [_curve(runs, by, reading) for runs in chosen if runs.runs]
    return CurvePanel(head, curves, FLAGGED if by == "source" else None)


def _curve(runs: SeriesRuns, by: By, reading: DistanceRule) -> Curve:
    marks = runs.marks(by)
    values = [median(column) for column in distances_at(runs.runs, marks, by, reading).T]
    spec = runs.series.attack
    note = OURS if is_ours(spec) else ""
    return Curve(attack_name(spec), marks, np.array(values), note=note)


def points_of(results: StudyResults, level: float) -> list[TradeoffPoint]:
    """Each attack; each attack and price, if there are several."""
    points = []
    for runs in series_of(results):
        spec = runs.series.attack
        price = runs.series.tariff.name if len(results.study.tariffs) > 1 else ""
        each = effort(runs.runs, level)
        points.append(
            TradeoffPoint(attack_name(spec), price, attack_kind(spec), each.flagged, each.queries)
        )
    return points


def draw(results: StudyResults, level: float, title: str) -> Figure:
    """The figure of a study."""
    return draw_tradeoff(points_of(results, level), level, title, own=OURS)
