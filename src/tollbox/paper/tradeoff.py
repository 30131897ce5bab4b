"""Figure 1: flagged against all queries that each attack takes to come within a distance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..report.runs import series_of
from ..report.statistics import effort
from ..report.tradeoff import TradeoffPoint, draw_tradeoff
from ..studies.reading import StudyResults
from .names import OURS, attack_kind, attack_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
