"""Figures, drawn with matplotlib's object interface: no global state, no display.

Text is dark grey, lines carry their names at their ends, and nothing is drawn that says nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator
from numpy.typing import NDArray

INK = "#333333"
FAINT = "#dddddd"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
"""Told apart by the colour-blind too (Okabe and Ito)."""


ROUND = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
"""Ticks within a decade."""


@dataclass(frozen=True)
class Curve:
    """A step curve: `values` hold from each cost to the next; what is not finite is not drawn."""

    name: str
    costs: NDArray[np.float64]
    values: NDArray[np.float64]


@dataclass(frozen=True)
class Panel:
    """Curves under one price."""

    title: str
    curves: Sequence[Curve]
    across: str | None = None
    """What this panel's axis has, if not what all have."""


def draw_curves(
    panels: Sequence[Panel],
    title: str,
    across: str = "cost per image",
    up: str = "median l2 distance",
    linear: bool = False,
    steps: bool = True,
) -> Figure:
    """Median l2 against cost, one panel a price, on common log axes; or something else, against
    another log axis, on a linear one from 0 to 1. With `steps` a value holds up to the next one;
    without, values are joined by straight lines."""
    figure = Figure(figsize=(4.6 * len(panels) + 0.6, 4.0), layout="constrained")
    figure.suptitle(title, color=INK, fontsize=11, x=0.01, ha="left")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    names = list(dict.fromkeys(curve.name for panel in panels for curve in panel.curves))
    colours = dict(zip(names, itertools.cycle(COLOURS), strict=False))
    for axis, panel in zip(axes, panels, strict=True):
        _draw_panel(axis, panel, colours, linear, steps)
        axis.set_xlabel(panel.across or across, color=INK)
    axes[0].set_ylabel(up, color=INK)
    return figure


def _draw_panel(
    axis: Axes, panel: Panel, colours: Mapping[str, str], linear: bool, steps: bool
) -> None:
    axis.set(xscale="log", yscale="linear" if linear else "log")
    if linear:
        axis.set_ylim(0, 1.02)
    ends: list[tuple[float, Curve]] = []
    last = 1.0
    first = np.inf
    for curve in panel.curves:
        shown = np.isfinite(curve.values)
        if not shown.any():
            continue
        axis.plot(
            curve.costs[shown],
            curve.values[shown],
            drawstyle="steps-post" if steps else "default",
            color=colours[curve.name],
            linewidth=1.8,
            solid_capstyle="round",
        )
        last, first = max(last, curve.costs[-1]), min(first, curve.costs[shown][0])
        ends.append((float(curve.values[shown][-1]), curve))
    for value, curve in ends:  # from where a curve ends to its name
        end = curve.costs[np.isfinite(curve.values)][-1]
        if end < last:
            axis.plot([end, last], [value, value], ":", color=colours[curve.name], linewidth=1.0)
    axis.set_title(panel.title, color=INK, fontsize=10, loc="left")
    if np.isfinite(first):
        axis.set_xlim(first, last)
    _name_ends(axis, ends, last, colours, linear)
    axis.grid(True, axis="y", which="major", color=FAINT, linewidth=0.8)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(colors=INK, which="both", labelsize=9)
    plain = FuncFormatter(lambda value, _: f"{value:,g}")
    if not linear:
        low, high = axis.get_ylim()
        axis.yaxis.set_major_locator(LogLocator(subs=ROUND if high / low < 30 else (1.0,)))
    axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if last / first < 50 else (1.0,)))
    axis.yaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_major_formatter(plain)
    axis.xaxis.set_major_formatter(plain)
    axis.xaxis.set_minor_formatter(NullFormatter())


LINE = 12.0
"""Points from one name to the next, at least."""


def _name_ends(
    axis: Axes,
    ends: list[tuple[float, Curve]],
    last: float,
    colours: Mapping[str, str],
    linear: bool,
) -> None:
    """Names at the right ends of the curves, moved apart where they would touch."""
    ends = sorted(ends, key=lambda end: end[0])
    low, high = axis.get_ylim()
    tall = 72 * axis.figure.get_figheight() * 0.75  # type: ignore[union-attr]

    def height(value: float) -> float:
        if linear:
            return tall * (value - low) / (high - low)
        return float(tall * np.log(value / low) / np.log(high / low))

    heights = [height(value) for value, _ in ends]
    places = list(heights)
    for _ in range(100):  # neighbours that touch push each other apart
        for i in range(1, len(places)):
            lacking = max(0.0, LINE - (places[i] - places[i - 1]))
            places[i - 1] -= lacking / 2
            places[i] += lacking / 2
    shifts = [place - at for place, at in zip(places, heights, strict=True)]
    for (value, curve), shift in zip(ends, shifts, strict=True):
        axis.annotate(
            curve.name,
            (last, value),
            xytext=(5, shift),
            textcoords="offset points",
            color=colours[curve.name],
            va="center",
            fontsize=10,
            annotation_clip=False,
        )


def draw_tradeoff(points: Sequence[Mapping[str, Any]], level: float) -> Figure:
    """Flagged against all queries that it took to come within a distance, a marker a price."""
    figure = Figure(figsize=(5.6, 4.4), layout="constrained")
    axis = figure.subplots()
    names = list(dict.fromkeys(point["attack"] for point in points))
    for name, colour in zip(names, itertools.cycle(COLOURS)):
        mine = [point for point in points if point["attack"] == name]
        across, up = [max(1, p["flagged"]) for p in mine], [p["queries"] for p in mine]
        axis.plot(across, up, "o-", color=colour, linewidth=1.2, markersize=6, label=name)
        for point in mine:
            axis.annotate(
                f"c* = {point['price']}",
                (max(1, point["flagged"]), point["queries"]),
                xytext=(5, 4),
                textcoords="offset points",
                fontsize=8,
                color=INK,
            )
    axis.set(xscale="log", yscale="log")
    for scale, limits in ((axis.xaxis, axis.set_xlim), (axis.yaxis, axis.set_ylim)):
        low, high = scale.get_view_interval()
        wider = max(1.0, math.sqrt(4 * low / high))  # at least a factor of four from end to end
        limits(low / wider, high * wider)
        scale.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 50 else (1.0,)))
        scale.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        scale.set_minor_formatter(NullFormatter())
    axis.set_xlabel(f"flagged queries to reach l2 < {level:g} (median)", color=INK)
    axis.set_ylabel("all queries (median)", color=INK)
    axis.legend(frameon=False, labelcolor=INK, fontsize=9)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(colors=INK, which="both", labelsize=9)
    axis.grid(True, color=FAINT, linewidth=0.8)
    axis.set_axisbelow(True)
    return figure


def draw_phases(bars: Sequence[Mapping[str, Any]]) -> Figure:
    """Where the cost went: a stacked bar for each attack and price."""
    figure = Figure(figsize=(6.4, 0.32 * len(bars) + 1.3), layout="constrained")
    axis = figure.subplots()
    phases = list(dict.fromkeys(phase for bar in bars for phase in bar["phases"]))
    names = [f"{bar['attack']}, c* = {bar['price']}" for bar in bars]
    totals = [sum(bar["phases"].values()) or 1.0 for bar in bars]
    left = np.zeros(len(bars))
    for phase, colour in zip(phases, itertools.cycle(COLOURS)):
        each = zip(bars, totals, strict=True)
        shares = np.array([bar["phases"].get(phase, 0.0) / total for bar, total in each])
        axis.barh(names, shares, left=left, color=colour, label=phase, height=0.7)
        left += shares
    axis.invert_yaxis()
    axis.set_xlim(0, 1)
    axis.set_xlabel("share of the cost", color=INK)
    axis.legend(
        frameon=False,
        labelcolor=INK,
        fontsize=9,
        ncols=len(phases),
        loc="lower left",
        bbox_to_anchor=(0, 1.0),
    )
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(colors=INK, labelsize=9)
    return figure


def save(figure: Figure, *files: Path) -> None:
    """Write a figure; the suffix of each file says how. The same figure is the same file."""
    with rc_context({"svg.hashsalt": "tollbox"}):
        for file in files:
            dated = {".svg": "Date", ".pdf": "CreationDate"}.get(file.suffix)
            figure.savefig(file, dpi=160, metadata=None if dated is None else {dated: None})
