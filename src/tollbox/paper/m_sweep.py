"""Median distance by m, the rate at which AGREST's overshoot is scheduled.

1. A study has each preset several times, with different `estimate.m`. The attacks of a preset form
   a curve in the order of their m. The marker of the preset's own m, the paper's choice, is filled.
2. Distances are those at the budget. Intervals are 95 % intervals over images. If half of the
   images have no adversarial point, the median is infinite: it is not drawn, and the figure says
   so.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

from ..attacks.presets import PRESETS
from ..errors import InputError
from ..parts.estimates import Agrest
from ..report import DistanceRule, axes
from ..report.axes import Axes, Figure
from ..report.formatting import short_cost
from ..report.paper_table import TableColumn
from ..report.runs import series_of
from ..report.statistics import Median, median_at
from ..studies.results import StudyResults

MARKERS = ("o", "s", "D", "^", "v", "P")
APART = 1.04
"""Factor by which curves are moved sideways, so that their intervals do not overlap."""


class Point(NamedTuple):
    m: float
    median: Median
    published: bool
    """Whether it is the preset's own m."""


class SweepPanel(NamedTuple):
    """A model and a price."""

    title: str
    sweeps: dict[str, list[Point]]
    """The attacks of each preset, in the order of their m."""

    @property
    def points(self) -> list[tuple[str, Point]]:
        return [(preset, point) for preset, points in self.sweeps.items() for point in points]


def panels(results: StudyResults, rule: DistanceRule = DistanceRule.HARD) -> list[SweepPanel]:
    """Return the sweeps of a study by model and price."""
    study = results.study
    all_series = [
        runs for runs in series_of(results, rule) if _rate(runs.series.attack.attack) is not None
    ]
    if not any(runs.runs for runs in all_series):
        raise InputError(
            "no run of an attack with AGREST is finished: expected several attacks of a preset, "
            'as preset = "a-hsja" with estimate.m = 0.02; resume the study, or add them.'
        )
    sweep_panels = []
    for model, tariff in itertools.product(study.models, study.tariffs):
        column = TableColumn(model.name, tariff)
        sweeps: dict[str, list[Point]] = {}
        for runs in all_series:
            if (runs.series.model, runs.series.tariff) == (model, tariff):
                preset, m = runs.series.attack.preset, _rate(runs.series.attack.attack)
                points = sweeps.setdefault(preset, [])
                if m is not None and runs.runs:
                    median = median_at(runs.runs, column.mark, column.by)
                    points.append(Point(m, median, m == _rate(PRESETS[preset].attack)))
                    points.sort(key=lambda point: point.m)
        images = max((p.median.images for each in sweeps.values() for p in each), default=0)
        limit = f"total {column.by} {short_cost(column.mark)}"
        title = f"{model.name}, c* = {tariff.name}, {limit}, {images} images\n{rule.caption}"
        sweep_panels.append(SweepPanel(title, sweeps))
    return sweep_panels


def _rate(attack: object) -> float | None:
    """Return m if the attack has AGREST."""
    estimate = getattr(attack, "estimate", None)
    return estimate.m if isinstance(estimate, Agrest) else None


def draw(results: StudyResults, rule: DistanceRule = DistanceRule.HARD) -> Figure:
    """Draw the median ℓ2 against m, with a panel for each model and price."""
    return axes.draw_panels(panels(results, rule), _draw_panel, "median ℓ2 distance", 3.7)


def _draw_panel(axis: Axes, panel: SweepPanel) -> None:
    axis.set(xscale="log", yscale="log")
    middle = (len(panel.sweeps) - 1) / 2
    ends = [v for _, p in panel.points for v in (p.median.value, p.median.high) if math.isfinite(v)]
    top = 1.2 * max(ends, default=1.0)  # of an interval without an upper end
    for number, (preset, points) in enumerate(panel.sweeps.items()):
        _draw_sweep(axis, preset, points, number, APART ** (number - middle), top)
    axis.plot([], [], color=axes.INK, linewidth=1.2, alpha=0.55, label="95 % interval")
    axes.name_panel(axis, panel.title)
    axis.set_xlabel("m (filled: the published value)")
    axes.fixed_ticks(axis.xaxis, sorted({point.m for _, point in panel.points}))
    axes.log_ticks(axis.yaxis, axes.ROUND)
    axes.legend(axis)
    absent = [f"{name} at {p.m:g}" for name, p in panel.points if math.isinf(p.median.value)]
    if absent:
        text = f"half without an adversarial point:\n{', '.join(absent)}"
        axis.text(0.02, 0.02, text, transform=axis.transAxes, fontsize=8, color=axes.INK)


def _draw_sweep(
    axis: Axes, preset: str, points: list[Point], number: int, aside: float, top: float
) -> None:
    colour, marker = axes.COLOURS[number % len(axes.COLOURS)], MARKERS[number % len(MARKERS)]
    shown = [point for point in points if math.isfinite(point.median.value)]
    across = [point.m * aside for point in shown]
    axis.plot(across, [p.median.value for p in shown], color=colour, linewidth=1.4, zorder=2)
    for x, point in zip(across, shown, strict=True):
        value, low, high = point.median[:3]
        high = high if math.isfinite(high) else top
        axis.plot([x, x], [low, high], color=colour, linewidth=1.2, alpha=0.55)
        face = colour if point.published else "white"
        axis.plot(x, value, marker, color=colour, ms=6, mfc=face, zorder=3)
    label = PRESETS[preset].title
    axis.plot([], [], marker=marker, color=colour, linewidth=1.4, mfc="white", label=label)
