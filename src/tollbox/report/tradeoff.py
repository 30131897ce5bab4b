"""The trade-off: flagged against all queries that each attack takes to come within a distance.

1. A point is an attack at a price, at the medians over images of both counts. The markers tell
   kinds of attacks apart: vanilla, stealthy, asymmetric, and our own. A line joins the prices of an
   attack.
2. An attack that does not come within the distance for half of the images has no point, and is
   named below the axes. No flagged query at all is drawn at one, and the axis says so.
3. Both axes span a factor of four at least, so that small differences look small. The dotted line
   is where half of the queries are flagged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..attacks.methods import Kind
from .axes import COLOURS, INK, head, legend, log_ticks, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOOKS = {
    Kind.VANILLA: ("o", COLOURS[0]),
    Kind.STEALTHY: ("s", COLOURS[2]),
    Kind.ASYMMETRIC: ("D", COLOURS[1]),
    Kind.OWN: ("*", COLOURS[3]),
}
LETTER_WIDTH, LETTER_HEIGHT = 0.017, 0.045
"""About the size of a letter, in parts of the axes."""


class TradeoffPoint(NamedTuple):
    """An attack at a price."""

    attack: str
    price: str
    """Empty if there is only one."""
    kind: Kind
    flagged: float
    queries: float
    """Infinite if the distance is not reached for half of the images."""

    @property
    def name(self) -> str:
        """What stands beside it."""
        return f"{self.attack}, c* = {self.price}" if self.price else self.attack

    @property
    def across(self) -> float:
        """Its place on a log axis."""
        return max(1.0, self.flagged)


def draw_tradeoff(points: Sequence[TradeoffPoint], level: float, title: str) -> Figure:
    """The figure."""
    figure = new_figure(6.6, 5.0)
    head(figure, title)
    axis = figure.subplots()
    shown = [point for point in points if math.isfinite(point.queries)]
    for kind, (marker, colour) in LOOKS.items():
        group = [point for point in shown if point.kind is kind]
        for attack in dict.fromkeys(point.attack for point in group if point.price):
            prices = [point for point in group if point.attack == attack]
            across, up = [p.across for p in prices], [p.queries for p in prices]
            axis.plot(across, up, color=colour, linewidth=0.6, alpha=0.5, zorder=1)
        across, up = [p.across for p in group], [p.queries for p in group]
        size = 10 if marker == "*" else 7
        label = str(kind) if group else None
        axis.plot(across, up, marker, color=colour, markersize=size, label=label, linestyle="none")
    _draw_axes(axis)
    _label_axes(axis, level, points)
    _name_points(axis, shown)
    legend(axis, loc="lower right")
    style(axis, "both")
    return figure


def _draw_axes(axis: Axes) -> None:
    axis.set(xscale="log", yscale="log")
    for scale, limits in ((axis.xaxis, axis.set_xlim), (axis.yaxis, axis.set_ylim)):
        low, high = scale.get_view_interval()
        low, high = (low, high) if low > 0 else (1.0, 10.0)  # there is no point
        margin = max(1.25, math.sqrt(4 * low / high))
        limits(low / margin, high * margin)
        log_ticks(scale)
    ends = np.array(axis.get_xlim())
    axis.plot(ends, 2 * ends, ":", color=INK, linewidth=1.0, label="half of them flagged", zorder=1)
    axis.set_xlim(*ends)


def _label_axes(axis: Axes, level: float, points: Sequence[TradeoffPoint]) -> None:
    lines = [f"flagged queries to come within l2 of {level:g} (median)"]
    if any(point.flagged < 1 for point in points):
        lines[0] += "; none at all is drawn at 1"
    absent = [point.name for point in points if not math.isfinite(point.queries)]
    if absent:
        lines.append(f"not reached for half of the images: {', '.join(absent)}")
    axis.set_xlabel("\n".join(lines), wrap=True)
    axis.set_ylabel("all queries (median)")


def _name_points(axis: Axes, shown: Sequence[TradeoffPoint]) -> None:
    """A name beside each point, above or below it so that neighbours do not meet."""
    placed: list[tuple[float, float, float]] = []
    across, up = (np.log(axis.get_xlim()), np.log(axis.get_ylim()))
    for point in sorted(shown, key=lambda point: point.queries):
        x = (math.log(point.across) - across[0]) / (across[1] - across[0])
        y = (math.log(point.queries) - up[0]) / (up[1] - up[0])
        height, end = y, x + LETTER_WIDTH * (len(point.name) + 2)
        while any(x < b and a < end and abs(height - c) < LETTER_HEIGHT for a, b, c in placed):
            height += LETTER_HEIGHT / 4
        placed.append((x, end, height))
        axis.annotate(
            point.name,
            (x, y),
            xycoords="axes fraction",
            xytext=(x + 0.015, height),
            textcoords="axes fraction",
            fontsize=9,
            va="center",
            color=LOOKS[point.kind][1],
        )
