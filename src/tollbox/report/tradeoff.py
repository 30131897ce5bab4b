"""The trade-off: flagged queries against all queries that each attack needs to reach a distance.

1. Each attack has a point, at the medians of both counts over images. Each price has a panel, and
   all panels share their axes. Markers show the kind of attack.
2. An attack that does not reach the distance for half of the images has no point, and is named
   below the axes. Zero flagged queries are drawn at 1, and the axis says so.
3. Axes span at least a factor of four, so that small differences look small. They always include
   part of the dotted line, on which half of the queries are flagged.
4. Each name is tried at positions around its point, the closest first. It takes the one with the
   least overlap with earlier names, points and the dotted line, preferably in the frame. All
   positions are in pixels.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..attacks.presets import Kind
from . import axes
from .axes import Axes, Figure

MARKER = 6.0
"""Half the side of a point's marker."""
GAPS = (4.0, 12.0, 22.0, 34.0, 48.0, 64.0)
"""Gaps between the marker and its name."""
CLOSE = MARKER + GAPS[0] + 1.0
"""Maximum distance at which a name needs no leader line."""
ANGLES = np.radians([0, 180, 90, 270, 45, 315, 135, 225, 20, 340, 160, 200])
WAYS = np.column_stack([np.cos(ANGLES), np.sin(ANGLES)])
"""Directions in which a name is tried, right first."""
LOOKS = {
    Kind.VANILLA: ("o", axes.COLOURS[0]),
    Kind.STEALTHY: ("s", axes.COLOURS[2]),
    Kind.ASYMMETRIC: ("D", axes.COLOURS[1]),
    Kind.OWN: ("*", axes.COLOURS[3]),
}
MOST_NAMES = 12
"""Maximum number of attacks named at their points; more are numbered."""
LINE_LETTERS = 62
"""Maximum number of characters in a line below a panel."""


class TradeoffPoint(NamedTuple):
    """An attack at a price."""

    attack: str
    price: str
    """The price's name; empty if there is only one price."""
    kind: Kind
    flagged: float
    queries: float
    """Median number of queries; infinite if the distance is not reached for half of the images."""

    @property
    def across(self) -> float:
        """The horizontal position, on a log axis."""
        return max(1.0, self.flagged)

    @property
    def shown(self) -> bool:
        return math.isfinite(self.queries)


def draw_tradeoff(
    points: Sequence[TradeoffPoint], level: float, title: str, own: str = "own", norm: str = "ℓ2"
) -> Figure:
    """Draw the figure. `own` labels tollbox's own attacks in the legend; `norm` names the norm."""
    prices = list(dict.fromkeys(point.price for point in points)) or [""]
    attacks = list(dict.fromkeys(point.attack for point in points))
    numbered = len(attacks) > MOST_NAMES
    labels = {name: str(n) if numbered else axes.literal(name) for n, name in enumerate(attacks, 1)}
    figure = axes.new_figure(5.2 * len(prices) + (2.4 if numbered else 1.2), 5.0, title)
    row_axes = figure.subplots(1, len(prices), sharex=True, sharey=True, squeeze=False)[0]
    for axis, price in zip(row_axes, prices, strict=True):
        at_price = [point for point in points if point.price == price]
        for kind, (marker, colour) in LOOKS.items():
            group = [p for p in at_price if p.kind is kind and p.shown]
            x, y = [point.across for point in group], [point.queries for point in group]
            size = 10 if marker == "*" else 7
            axis.plot(x, y, marker, color=colour, markersize=size, label=str(kind))
        if price:
            axes.name_panel(axis, f"c* = {price}", size=10)
        axis.set_xlabel(_axis_label(at_price, level, norm))
    shown = [point for point in points if point.shown]
    across = _limits([point.across for point in shown])
    low, high = _limits([point.queries for point in shown])
    up = min(low, 1.2 * across[1]), max(high, 2.4 * across[0])  # includes some of the dotted line
    for axis in row_axes:
        axis.set(xscale="log", yscale="log", xlim=across, ylim=up)
        axis.plot(across, [2 * x for x in across], ":", color=axes.INK, linewidth=1.0, zorder=1)
        axes.log_ticks(axis.xaxis)
        axes.log_ticks(axis.yaxis)
        axes.style(axis, "both")
    row_axes[0].set_ylabel(f"all queries to reach {norm} {level:g} (median)")
    words = {kind: own if kind is Kind.OWN else str(kind) for kind in LOOKS}
    keys = [
        axes.legend_key(words[kind], colour, marker=marker, linestyle="none", markersize=7)
        for kind, (marker, colour) in LOOKS.items()
        if any(point.kind is kind for point in shown)
    ]
    half = "half of the queries flagged"
    keys.append(axes.legend_key(half, axes.INK, linestyle=":", linewidth=1.0))
    axes.legend_below(figure, keys)
    if numbered:
        names = [
            axes.legend_key(f"{n}  {axes.literal(name)}", axes.INK, linestyle="none")
            for n, name in enumerate(attacks, 1)
        ]
        place = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
        axes.legend(row_axes[-1], handles=names, handlelength=0, handletextpad=0, **place)
    with axes.any_letters():
        figure.draw_without_rendering()  # places the axes
        for axis, price in zip(row_axes, prices, strict=True):
            _name_points(axis, [point for point in shown if point.price == price], labels)
    return figure


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
    """Write a name at each point (rule 4)."""
    from matplotlib.transforms import Bbox

    shown = sorted(shown, key=lambda point: point.queries)
    places = [axis.transData.transform((point.across, point.queries)) for point in shown]
    taken = [Bbox([place - MARKER, place + MARKER]) for place in places]
    ends = np.array(axis.get_xlim())
    line = axis.transData.transform(np.column_stack([ends, 2 * ends]))
    dots, frame = np.linspace(line[0], line[1], 400), axis.get_window_extent()

    def overlap(box: Bbox) -> float:
        inside = np.all(frame.min <= box.min) and np.all(box.max <= frame.max)
        on_line = min(3, box.count_contains(dots))
        return 4 * box.count_overlaps(taken) + on_line + (0 if inside else 2)

    for point, place in zip(shown, places, strict=True):
        colour = LOOKS[point.kind][1]
        text = axis.annotate(
            labels[point.attack],
            (point.across, point.queries),
            (0, 0),
            textcoords="offset points",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.6, "shrinkB": 5},
        )
        text.set(fontsize=9, ha="center", va="center", color=colour)
        half = np.array(text.get_window_extent().size) / 2
        middles = (place + way * (MARKER + gap + half) for gap in GAPS for way in WAYS)
        box = min((Bbox([at - half - 1, at + half + 1]) for at in middles), key=overlap)
        taken.append(box)
        shift = box.get_points().mean(axis=0) - place
        x, y = 72 / axis.figure.dpi * shift
        text.set_position((x, y))
        if text.arrow_patch is not None:  # the leader line
            text.arrow_patch.set_visible((abs(shift) - half).max() > CLOSE)
