"""The trade-off: flagged queries against all queries that each attack needs to reach a distance.

1. A point is an attack, at the medians of both counts over images. A panel is a price, and all
   panels have the same axes. Markers show the kind of attack.
2. An attack that does not reach the distance for half of the images has no point, and is named
   below the axes. Zero flagged queries are drawn at 1, and the axis says so.
3. Both axes are logarithmic and span at least a factor of four, so that small differences look
   small. They always include the dotted line, where half of the queries are flagged.
4. Up to `MOST_NAMES` attacks have their names at their points; more have numbers, and a legend.
5. Each name tries places around its point in order of distance. It takes the first that is free of
   earlier names, of all points and of the dotted line, and within the frame; otherwise the one with
   the least overlap. All positions are in pixels.
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
from . import axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKER = 6.0
"""Half of the side of a point's marker."""
GAPS = (4.0, 12.0, 22.0, 34.0, 48.0, 64.0)
"""Gaps between the marker and its name."""
CLOSE = MARKER + GAPS[0] + 1.0
"""Maximum distance of a name that needs no leader line."""
ANGLES = (0, 180, 90, 270, 45, 315, 135, 225, 20, 340, 160, 200)
"""Directions of a name in degrees, to the right first."""
LOOKS = {
    Kind.VANILLA: ("o", axes.COLOURS[0]),
    Kind.STEALTHY: ("s", axes.COLOURS[2]),
    Kind.ASYMMETRIC: ("D", axes.COLOURS[1]),
    Kind.OWN: ("*", axes.COLOURS[3]),
}
MOST_NAMES = 12
"""Maximum number of attacks with names in a panel."""
LINE_LETTERS = 62
"""Maximum number of letters in a line below a panel."""


class Box(NamedTuple):
    """A rectangle."""

    left: float
    bottom: float
    right: float
    top: float

    def overlaps(self, other: Box) -> bool:
        across = self.left < other.right and other.left < self.right
        return across and self.bottom < other.top and other.bottom < self.top


def place_labels(
    points: Sequence[NDArray[np.float64] | Sequence[float]],
    sizes: Sequence[tuple[float, float]],
    dots: Any,
    frame: Box,
) -> list[tuple[float, float]]:
    """Return the shift of each label's middle from its point (rule 5); `sizes` are of the labels.

    `dots` (n, 2) are points of the dotted line.
    """
    markers = [
        Box(x - MARKER, y - MARKER, x + MARKER, y + MARKER)
        for x, y in (map(float, p) for p in points)
    ]
    placed: list[Box] = []
    shifts = []
    for (x, y), (width, height) in zip(points, sizes, strict=True):
        best = math.inf
        for gap, angle in ((gap, math.radians(angle)) for gap in GAPS for angle in ANGLES):
            shift = (
                math.cos(angle) * (MARKER + gap + width / 2),
                math.sin(angle) * (MARKER + gap + height / 2),
            )
            right, up = float(x) + shift[0], float(y) + shift[1]
            half, tall = width / 2 + 1, height / 2 + 1
            box = Box(right - half, up - tall, right + half, up + tall)
            on_line = ((dots >= box[:2]) & (dots <= box[2:])).all(axis=1).sum()
            overlap = 4 * sum(box.overlaps(other) for other in (*placed, *markers))
            overlap += min(3, int(on_line))
            within = frame.left <= box.left and box.right <= frame.right
            overlap += 0 if within and frame.bottom <= box.bottom and box.top <= frame.top else 2
            if overlap < best:
                best, chosen, chosen_box = overlap, shift, box
            if overlap == 0:
                break
        placed.append(chosen_box)
        shifts.append(chosen)
    return shifts


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
        """Its position on a log axis."""
        return max(1.0, self.flagged)

    @property
    def shown(self) -> bool:
        return math.isfinite(self.queries)


def draw_tradeoff(
    points: Sequence[TradeoffPoint],
    level: float,
    title: str,
    own: str = str(Kind.OWN),
    norm: str = Metric.L2.sign,
) -> Figure:
    """Draw the figure; `own` is the legend of tollbox's own attacks, `norm` that of `level`."""
    prices = list(dict.fromkeys(point.price for point in points)) or [""]
    attacks = list(dict.fromkeys(point.attack for point in points))
    numbered = len(attacks) > MOST_NAMES
    labels = {name: str(n) if numbered else axes.literal(name) for n, name in enumerate(attacks, 1)}
    figure = axes.new_figure(5.2 * len(prices) + (2.4 if numbered else 1.2), 5.0)
    axes.head(figure, title)
    row_axes = figure.subplots(1, len(prices), sharex=True, sharey=True, squeeze=False)[0]
    for axis, price in zip(row_axes, prices, strict=True):
        at_price = [point for point in points if point.price == price]
        for kind, (marker, colour) in LOOKS.items():
            group = [point for point in at_price if point.kind is kind and point.shown]
            axis.plot(
                [point.across for point in group],
                [point.queries for point in group],
                marker,
                color=colour,
                markersize=10 if marker == "*" else 7,
                label=str(kind),
                linestyle="none",
            )
        if price:
            axes.name_panel(axis, f"c* = {price}", size=10)
        axis.set_xlabel(_axis_label(at_price, level, norm))
    shown = [point for point in points if point.shown]
    _draw_axes(row_axes, shown)
    row_axes[0].set_ylabel(f"all queries to reach {norm} {level:g} (median)")
    kinds = {point.kind for point in shown}
    keys = [
        axes.legend_key(
            own if kind is Kind.OWN else str(kind),
            colour,
            marker=marker,
            linestyle="none",
            markersize=7,
        )
        for kind, (marker, colour) in LOOKS.items()
        if kind in kinds
    ]
    keys.append(
        axes.legend_key("half of the queries flagged", axes.INK, linestyle=":", linewidth=1.0)
    )
    axes.legend_below(figure, keys)
    if numbered:
        names = [
            axes.legend_key(f"{n}  {axes.literal(name)}", axes.INK, linestyle="none")
            for n, name in enumerate(attacks, 1)
        ]
        place = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
        axes.legend(row_axes[-1], handles=names, handlelength=0, handletextpad=0, **place)
    axes.lay_out(figure)
    for axis, price in zip(row_axes, prices, strict=True):
        _name_points(axis, [point for point in shown if point.price == price], labels)
    return figure


def _draw_axes(row_axes: Any, shown: Sequence[TradeoffPoint]) -> None:
    across = _limits([point.across for point in shown])
    low, high = _limits([point.queries for point in shown])
    up = min(low, 1.2 * across[1]), max(high, 2.4 * across[0])  # some of the dotted line
    for axis in row_axes:
        axis.set(xscale="log", yscale="log", xlim=across, ylim=up)
        axis.plot(across, [2 * x for x in across], ":", color=axes.INK, linewidth=1.0, zorder=1)
        axes.log_ticks(axis.xaxis)
        axes.log_ticks(axis.yaxis)
        axes.style(axis, "both")


def _limits(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values, default=1.0), max(values, default=10.0)
    margin = max(1.25, math.sqrt(4 * low / high))
    return low / margin, high * margin


def _axis_label(points: Sequence[TradeoffPoint], level: float, norm: str) -> str:
    lines = [f"flagged queries to reach {norm} {level:g} (median)"]
    if any(point.flagged < 1 for point in points):
        lines.append("0 is drawn at 1")
    absent = [axes.literal(point.attack) for point in points if not point.shown]
    if absent:
        text = f"not reached for half of the images: {', '.join(absent)}"
        lines += textwrap.wrap(text, LINE_LETTERS)
    return "\n".join(lines)


def _name_points(axis: Axes, shown: Sequence[TradeoffPoint], labels: dict[str, str]) -> None:
    """Write a name at each point, away from other names, points and the dotted line."""
    shown = sorted(shown, key=lambda point: point.queries)
    places = [axis.transData.transform((point.across, point.queries)) for point in shown]
    ends = np.array(axis.get_xlim())
    line = axis.transData.transform(np.column_stack([ends, 2 * ends]))
    dots = np.linspace(line[0], line[1], 400)
    texts = []
    for point in shown:
        colour = LOOKS[point.kind][1]
        leader = {"arrowstyle": "-", "color": colour, "linewidth": 0.6, "shrinkB": 5}
        text = axis.annotate(
            labels[point.attack],
            (point.across, point.queries),
            xytext=(0, 0),
            textcoords="offset points",
            fontsize=9,
            ha="center",
            va="center",
            color=colour,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
            arrowprops=leader,
        )
        texts.append(text)
    with axes.any_letters():
        boxes = [text.get_window_extent() for text in texts]
    sizes = [(box.width, box.height) for box in boxes]
    frame = axis.get_window_extent()
    points_of_pixel = 72 / axis.figure.dpi
    shifts = place_labels(places, sizes, dots, Box(frame.x0, frame.y0, frame.x1, frame.y1))
    for text, (x, y), (width, height) in zip(texts, shifts, sizes, strict=True):
        text.set_position((points_of_pixel * x, points_of_pixel * y))
        if text.arrow_patch is not None:  # the leader line
            away = max(abs(x) - width / 2, abs(y) - height / 2)
            text.arrow_patch.set_visible(away > CLOSE)
