"""Where labels go beside their points, so that they meet neither each other nor a line.

Each label tries places around its point, the nearest first, and takes the first that is free of
earlier labels, of all points and of the line's dots, and within the frame; if none is, the one that
meets least. All is in pixels.

The trade-off: flagged against all queries that each attack takes to come within a distance.

1. A point is an attack, at the medians over images of both counts; a panel is a price, and all
   panels have the same axes. The markers tell kinds of attacks apart: vanilla, stealthy,
   asymmetric, and our own.
2. An attack that does not come within the distance for half of the images has no point, and is
   named below the axes. No flagged query at all is drawn at one, and the axis says so.
3. Both axes are logarithmic and span a factor of four at least, so that small differences look
   small. The dotted line, where half of the queries are flagged, is always within them.
4. Up to `MOST_NAMES` attacks have their names beside their points; more have numbers, and a legend.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..attacks.presets import Kind
from ..core.metric import Metric
from .axes import (
    COLOURS,
    INK,
    any_letters,
    head,
    lay_out,
    legend,
    legend_below,
    legend_key,
    literal,
    log_ticks,
    name_panel,
    new_figure,
    style,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Place = NDArray[np.float64] | Sequence[float]

MARKER = 6.0
"""Half of the side of a point's marker."""
GAPS = (4.0, 12.0, 22.0, 34.0, 48.0, 64.0)
"""From the marker to the label."""
BESIDE = MARKER + GAPS[0] + 1.0
"""From the point to the edge of a label that needs no leader line."""
ANGLES = (0, 180, 90, 270, 45, 315, 135, 225, 20, 340, 160, 200)
"""Degrees, to the right first."""


class Box(NamedTuple):
    """A rectangle."""

    left: float
    bottom: float
    right: float
    top: float

    def meets(self, other: Box) -> bool:
        """Whether the two share a place."""
        across = self.left < other.right and other.left < self.right
        return across and self.bottom < other.top and other.bottom < self.top

    def holds(self, points: Any) -> int:
        """How many of the points (n, 2) are inside."""
        inside = (points >= [self.left, self.bottom]) & (points <= [self.right, self.top])
        return int(inside.all(axis=1).sum())


def place_labels(
    points: Sequence[Place], sizes: Sequence[tuple[float, float]], dots: Any, frame: Box
) -> list[tuple[float, float]]:
    """How far the middle of each label, of this width and height, is from its point."""
    markers = [
        Box(x - MARKER, y - MARKER, x + MARKER, y + MARKER)
        for x, y in (map(float, p) for p in points)
    ]
    placed: list[Box] = []
    shifts = []
    for (x, y), size in zip(points, sizes, strict=True):
        best = math.inf
        for shift in _candidates(*size):
            box = _around(float(x) + shift[0], float(y) + shift[1], *size)
            cost = 4 * sum(box.meets(other) for other in (*placed, *markers)) + min(
                3, box.holds(dots)
            )
            within = frame.left <= box.left and box.right <= frame.right
            cost += 0 if within and frame.bottom <= box.bottom and box.top <= frame.top else 2
            if cost < best:
                best, chosen, chosen_box = cost, shift, box
            if cost == 0:
                break
        placed.append(chosen_box)
        shifts.append(chosen)
    return shifts


def _around(x: float, y: float, width: float, height: float) -> Box:
    return Box(x - width / 2 - 1, y - height / 2 - 1, x + width / 2 + 1, y + height / 2 + 1)


def _candidates(width: float, height: float) -> list[tuple[float, float]]:
    """Middles of a label around its point, so that the gap to the marker is the same all round."""
    return [
        (
            math.cos(math.radians(angle)) * (MARKER + gap + width / 2),
            math.sin(math.radians(angle)) * (MARKER + gap + height / 2),
        )
        for gap in GAPS
        for angle in ANGLES
    ]


LOOKS = {
    Kind.VANILLA: ("o", COLOURS[0]),
    Kind.STEALTHY: ("s", COLOURS[2]),
    Kind.ASYMMETRIC: ("D", COLOURS[1]),
    Kind.OWN: ("*", COLOURS[3]),
}
MOST_NAMES = 12
"""Of attacks, in a panel."""
HALF = "half of the queries flagged"
LETTERS_ACROSS = 62
"""Of a line below a panel."""


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
    def across(self) -> float:
        """Its place on a log axis."""
        return max(1.0, self.flagged)

    @property
    def shown(self) -> bool:
        """Whether it has a place."""
        return math.isfinite(self.queries)


def draw_tradeoff(
    points: Sequence[TradeoffPoint],
    level: float,
    title: str,
    own: str = str(Kind.OWN),
    norm: str = Metric.L2.sign,
) -> Figure:
    """The figure; `own` is what the legend says of our own attacks, `norm` what `level` is in."""
    prices = list(dict.fromkeys(point.price for point in points)) or [""]
    attacks = list(dict.fromkeys(point.attack for point in points))
    numbered = len(attacks) > MOST_NAMES
    marks = {name: str(n) if numbered else literal(name) for n, name in enumerate(attacks, 1)}
    figure = new_figure(5.2 * len(prices) + (2.4 if numbered else 1.2), 5.0)
    head(figure, title)
    axes = figure.subplots(1, len(prices), sharex=True, sharey=True, squeeze=False)[0]
    for axis, price in zip(axes, prices, strict=True):
        at_price = [point for point in points if point.price == price]
        _draw_points(axis, at_price)
        if price:
            name_panel(axis, f"c* = {price}", size=10)
        axis.set_xlabel(_axis_label(at_price, level, norm))
    _draw_axes(axes, [point for point in points if point.shown])
    axes[0].set_ylabel(f"all queries to come within {norm} of {level:g} (median)")
    kinds = {point.kind for point in points if point.shown}
    keys = [
        legend_key(
            own if kind is Kind.OWN else str(kind),
            colour,
            marker=marker,
            linestyle="none",
            markersize=7,
        )
        for kind, (marker, colour) in LOOKS.items()
        if kind in kinds
    ]
    keys.append(legend_key(HALF, INK, linestyle=":", linewidth=1.0))
    legend_below(figure, keys)
    if numbered:
        names = [
            legend_key(f"{n}  {literal(name)}", INK, linestyle="none")
            for n, name in enumerate(attacks, 1)
        ]
        legend(
            axes[-1],
            handles=names,
            loc="upper left",
            bbox_to_anchor=(1.0, 1.0),
            handlelength=0,
            handletextpad=0,
        )
    lay_out(figure)
    for axis, price in zip(axes, prices, strict=True):
        _name_points(axis, [p for p in points if p.price == price and p.shown], marks)
    return figure


def _draw_points(axis: Axes, points: Sequence[TradeoffPoint]) -> None:
    for kind, (marker, colour) in LOOKS.items():
        group = [point for point in points if point.kind is kind and point.shown]
        axis.plot(
            [point.across for point in group],
            [point.queries for point in group],
            marker,
            color=colour,
            markersize=10 if marker == "*" else 7,
            label=str(kind),
            linestyle="none",
        )


def _draw_axes(axes: Any, shown: Sequence[TradeoffPoint]) -> None:
    across = _limits([point.across for point in shown])
    low, high = _limits([point.queries for point in shown])
    up = min(low, 1.2 * across[1]), max(high, 2.4 * across[0])  # some of the dotted line
    for axis in axes:
        axis.set(xscale="log", yscale="log", xlim=across, ylim=up)
        axis.plot(across, [2 * x for x in across], ":", color=INK, linewidth=1.0, zorder=1)
        log_ticks(axis.xaxis)
        log_ticks(axis.yaxis)
        style(axis, "both")


def _limits(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values, default=1.0), max(values, default=10.0)
    margin = max(1.25, math.sqrt(4 * low / high))
    return low / margin, high * margin


def _axis_label(points: Sequence[TradeoffPoint], level: float, norm: str) -> str:
    lines = [f"flagged queries to come within {norm} of {level:g} (median)"]
    if any(point.flagged < 1 for point in points):
        lines.append("none at all is drawn at 1")
    absent = [literal(point.attack) for point in points if not point.shown]
    if absent:
        text = f"not reached for half of the images: {', '.join(absent)}"
        lines += textwrap.wrap(text, LETTERS_ACROSS)
    return "\n".join(lines)


def _name_points(axis: Axes, shown: Sequence[TradeoffPoint], marks: dict[str, str]) -> None:
    """A name beside each point, away from other names, points and the dotted line."""
    shown = sorted(shown, key=lambda point: point.queries)
    places = [axis.transData.transform((point.across, point.queries)) for point in shown]
    ends = np.array(axis.get_xlim())
    line = axis.transData.transform(np.column_stack([ends, 2 * ends]))
    dots = np.linspace(line[0], line[1], 400)
    texts = [
        axis.annotate(
            marks[point.attack],
            (point.across, point.queries),
            xytext=(0, 0),
            textcoords="offset points",
            fontsize=9,
            ha="center",
            va="center",
            color=LOOKS[point.kind][1],
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
            arrowprops={
                "arrowstyle": "-",
                "color": LOOKS[point.kind][1],
                "linewidth": 0.6,
                "shrinkB": 5,
            },
        )
        for point in shown
    ]
    with any_letters():
        boxes = [text.get_window_extent() for text in texts]
    sizes = [(box.width, box.height) for box in boxes]
    frame = axis.get_window_extent()
    points_of_pixel = 72 / axis.figure.dpi
    shifts = place_labels(places, sizes, dots, Box(frame.x0, frame.y0, frame.x1, frame.y1))
    for text, (x, y), (width, height) in zip(texts, shifts, sizes, strict=True):
        text.set_position((points_of_pixel * x, points_of_pixel * y))
        if text.arrow_patch is not None:  # a leader line, for a name that is not beside its point
            away = max(abs(x) - width / 2, abs(y) - height / 2)
            text.arrow_patch.set_visible(away > BESIDE)
