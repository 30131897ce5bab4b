"""Figure 1: flagged against all queries that each attack takes to come within a distance.

A point is an attack, at the medians over images of both counts. An attack that does not come within
the distance for half of the images has no point, and is named below the axes. The line is where
half of the queries are flagged.
"""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from ..attacks.methods import Kind
from ..report.figures import COLOURS, FAINT, INK
from ..report.runs import lines
from ..report.statistics import Effort, effort
from ..studies.reading import StudyResults
from .names import attack_kind, attack_name

LOOKS = {
    Kind.VANILLA: ("o", COLOURS[0]),
    Kind.STEALTHY: ("s", COLOURS[2]),
    Kind.ASYMMETRIC: ("D", COLOURS[1]),
    Kind.OWN: ("*", COLOURS[3]),
}
WIDE, TALL = 0.017, 0.045
"""About the size of a letter, in parts of the axes."""


def efforts(found: StudyResults, level: float) -> list[tuple[str, Kind, Effort]]:
    """(name, kind, effort) of each attack; of each attack and price, if there are several."""
    made = []
    for runs in lines(found):
        spec = runs.line.attack
        at = f", c* = {runs.line.tariff.name}" if len(found.study.tariffs) > 1 else ""
        made.append((attack_name(spec) + at, attack_kind(spec), effort(runs.runs, level)))
    return made


def draw(found: StudyResults, level: float, title: str) -> Figure:
    """The figure of a study."""
    points = efforts(found, level)
    figure = Figure(figsize=(6.6, 5.0), layout="constrained")
    figure.suptitle(title, color=INK, fontsize=11, x=0.01, ha="left")
    axis = figure.subplots()
    shown = [point for point in points if math.isfinite(point[2].queries)]
    for kind, (marker, colour) in LOOKS.items():
        mine = [each for _, its, each in shown if its == kind]
        across, up = [max(1.0, each.flagged) for each in mine], [each.queries for each in mine]
        axis.plot(across, up, marker, color=colour, markersize=7, label=kind, linestyle="none")
    absent = [name for name, _, each in points if not math.isfinite(each.queries)]
    _axes(axis, level, absent)
    _names(axis, shown)
    axis.legend(frameon=False, labelcolor=INK, fontsize=9, loc="lower right")
    return figure


def _axes(axis: Axes, level: float, absent: list[str]) -> None:
    axis.set(xscale="log", yscale="log")
    for scale, limits in ((axis.xaxis, axis.set_xlim), (axis.yaxis, axis.set_ylim)):
        low, high = scale.get_view_interval()
        low, high = (low, high) if low > 0 else (1.0, 10.0)  # there is no point
        wider = max(1.25, math.sqrt(4 * low / high))  # at least a factor of four from end to end
        low, high = low / wider, high * wider
        limits(low, high)
        scale.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 100 else (1.0,)))
        scale.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        scale.set_minor_formatter(NullFormatter())
    ends = np.array(axis.get_xlim())
    axis.plot(ends, 2 * ends, ":", color=INK, linewidth=1.0, label="half of them flagged", zorder=1)
    axis.set_xlim(*ends)
    missing = f"\nnot reached for half of the images: {', '.join(absent)}" if absent else ""
    axis.set_xlabel(f"flagged queries to come within l2 of {level:g}{missing}", color=INK)
    axis.set_ylabel("all queries", color=INK)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(colors=INK, which="both", labelsize=9)
    axis.grid(True, color=FAINT, linewidth=0.8)
    axis.set_axisbelow(True)


def _names(axis: Axes, shown: list[tuple[str, Kind, Effort]]) -> None:
    """A name beside each point, above or below it so that neighbours do not meet."""
    placed: list[tuple[float, float, float]] = []
    across, up = (np.log(axis.get_xlim()), np.log(axis.get_ylim()))
    for name, kind, each in sorted(shown, key=lambda point: point[2].queries):
        x = (math.log(max(1.0, each.flagged)) - across[0]) / (across[1] - across[0])
        y = (math.log(each.queries) - up[0]) / (up[1] - up[0])
        height, end = y, x + WIDE * (len(name) + 2)
        while any(x < b and a < end and abs(height - c) < TALL for a, b, c in placed):
            height += TALL / 4
        placed.append((x, end, height))
        axis.annotate(
            name,
            (x, y),
            xycoords="axes fraction",
            xytext=(x + 0.015, height),
            textcoords="axes fraction",
            fontsize=9,
            va="center",
            color=LOOKS[kind][1],
        )
