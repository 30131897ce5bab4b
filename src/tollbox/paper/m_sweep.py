"""Median distance by m, the rate at which AGREST's overshoot is scheduled.

1. A study has each preset several times, with different `estimate.m`. The attacks of a preset form
   a curve in the order of their m. The marker of the preset's own m, the paper's choice, is filled.
2. Distances are those at the budget. Intervals are 95 % intervals over images. If half of the
   images have no adversarial point, the median is infinite: it is not drawn, and the figure says
   so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..attacks.presets import PRESETS
from ..errors import InputError
from ..parts.estimates import Agrest
from ..report.axes import COLOURS, INK, ROUND, fixed_ticks, legend, log_ticks, name_panel, style
from ..report.axes import panels as side_by_side
from ..report.distance_rule import DistanceRule
from ..report.formatting import short_cost
from ..report.paper_table import TableColumn
from ..report.runs import SeriesRuns, series_of
from ..report.statistics import Median, median_at
from ..studies.results import StudyResults

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = ("o", "s", "D", "^", "v", "P")
APART = 1.04
"""Factor by which curves are moved sideways, so that their intervals do not overlap."""


class Point(NamedTuple):
    """An attack of the sweep."""

    m: float
    median: Median
    published: bool
    """Whether it is the preset's own m."""


class RateSweep(NamedTuple):
    """A preset by m."""

    name: str
    points: list[Point]


class SweepPanel(NamedTuple):
    """A model and a price."""

    column: TableColumn
    title: str
    sweeps: list[RateSweep]


def panels(results: StudyResults, rule: DistanceRule = DistanceRule.HARD) -> list[SweepPanel]:
    """Return the sweeps of a study by model and price."""
    all_series = [
        runs for runs in series_of(results) if _rate(runs.series.attack.attack) is not None
    ]
    if not any(runs.runs for runs in all_series):
        raise InputError(
            "no run of an attack with AGREST is finished: expected several attacks of a preset, "
            'as preset = "a-hsja" with estimate.m = 0.02; resume the study, or add them.'
        )
    sweep_panels = []
    for model in results.study.models:
        for tariff in results.study.tariffs:
            column = TableColumn(model.name, tariff)
            column_series = [
                r for r in all_series if (r.series.model, r.series.tariff) == (model, tariff)
            ]
            presets = dict.fromkeys(runs.series.attack.preset for runs in column_series)
            sweeps = [
                _sweep(p, [r for r in column_series if r.series.attack.preset == p], column, rule)
                for p in presets
            ]
            images = max((p.median.images for sweep in sweeps for p in sweep.points), default=0)
            limit = f"total {column.by} {short_cost(column.mark)}"
            title = f"{model.name}, c* = {tariff.name}, {limit}, {images} images\n{rule.caption}"
            sweep_panels.append(SweepPanel(column, title, sweeps))
    return sweep_panels


def _rate(attack: object) -> float | None:
    """Return m if the attack has AGREST."""
    estimate = getattr(attack, "estimate", None)
    return estimate.m if isinstance(estimate, Agrest) else None


def _sweep(
    preset: str, all_series: Sequence[SeriesRuns], column: TableColumn, rule: DistanceRule
) -> RateSweep:
    published = _rate(PRESETS[preset].attack)
    points = []
    for runs in all_series:
        m = _rate(runs.series.attack.attack)
        if m is not None and runs.runs:
            median = median_at(runs.runs, column.mark, column.by, rule)
            points.append(Point(m, median, m == published))
    return RateSweep(preset, sorted(points, key=lambda point: point.m))


def draw(results: StudyResults, rule: DistanceRule = DistanceRule.HARD) -> Figure:
    """Draw the median ℓ2 against m, with a panel for each model and price."""
    shown = panels(results, rule)
    figure, axes = side_by_side(len(shown), 3.7)
    for axis, panel in zip(axes, shown, strict=True):
        _draw_panel(axis, panel)
    axes[0].set_ylabel("median ℓ2 distance")
    return figure


def _draw_panel(axis: Axes, panel: SweepPanel) -> None:
    axis.set(xscale="log", yscale="log")
    middle = (len(panel.sweeps) - 1) / 2
    medians = [point.median for sweep in panel.sweeps for point in sweep.points]
    ends = [v for median in medians for v in (median.value, median.high) if math.isfinite(v)]
    top = 1.2 * max(ends, default=1.0)  # of an interval without an upper end
    for number, sweep in enumerate(panel.sweeps):
        _draw_sweep(axis, sweep, number, APART ** (number - middle), top)
    axis.plot([], [], color=INK, linewidth=1.2, alpha=0.55, label="95 % interval")
    name_panel(axis, panel.title)
    axis.set_xlabel("m (filled: the published value)")
    rates = sorted({point.m for sweep in panel.sweeps for point in sweep.points})
    fixed_ticks(axis.xaxis, rates)
    log_ticks(axis.yaxis, ROUND)
    legend(axis)
    style(axis)
    absent = [
        f"{sweep.name} at {point.m:g}"
        for sweep in panel.sweeps
        for point in sweep.points
        if math.isinf(point.median.value)
    ]
    if absent:
        text = f"half without an adversarial point:\n{', '.join(absent)}"
        axis.text(0.02, 0.02, text, transform=axis.transAxes, fontsize=8, color=INK)


def _draw_sweep(axis: Axes, sweep: RateSweep, number: int, aside: float, top: float) -> None:
    colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
    shown = [point for point in sweep.points if math.isfinite(point.median.value)]
    across = [point.m * aside for point in shown]
    axis.plot(across, [p.median.value for p in shown], color=colour, linewidth=1.4, zorder=2)
    for x, point in zip(across, shown, strict=True):
        high = point.median.high if math.isfinite(point.median.high) else top
        axis.plot([x, x], [point.median.low, high], color=colour, linewidth=1.2, alpha=0.55)
        axis.plot(
            x,
            point.median.value,
            marker,
            color=colour,
            markersize=6,
            markerfacecolor=colour if point.published else "white",
            zorder=3,
        )
    axis.plot(
        [],
        [],
        marker=marker,
        color=colour,
        linewidth=1.4,
        markerfacecolor="white",
        label=PRESETS[sweep.name].title,
    )
