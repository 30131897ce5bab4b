"""The figures of a report: curves with their names at their ends, and bars of costs by phase."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .axes import (
    COLOURS,
    ROUND,
    head,
    legend,
    log_ticks,
    name_panel,
    new_figure,
    plain_numbers,
    style,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Curve:
    """A step curve: `values` hold from each cost to the next; what is not finite is not drawn."""

    name: str
    costs: NDArray[np.float64]
    values: NDArray[np.float64]


@dataclass(frozen=True)
class CurvePanel:
    """Curves under one price."""

    title: str
    curves: Sequence[Curve]
    across: str | None = None
    """What this panel's axis has, if not what all have."""


def draw_curves(
    panels: Sequence[CurvePanel],
    title: str,
    across: str = "cost per image",
    up: str = "median l2 distance",
    linear: bool = False,
    steps: bool = True,
) -> Figure:
    """Median l2 against cost, one panel a price, on common log axes; or something else, against
    another log axis, on a linear one from 0 to 1. With `steps` a value holds up to the next one;
    without, values are joined by straight lines."""
    figure = new_figure(4.6 * len(panels) + 0.6, 4.0)
    head(figure, title)
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    names = list(dict.fromkeys(curve.name for panel in panels for curve in panel.curves))
    colours = dict(zip(names, itertools.cycle(COLOURS), strict=False))
    for axis, panel in zip(axes, panels, strict=True):
        _draw_panel(axis, panel, colours, linear, steps)
        axis.set_xlabel(panel.across or across)
    axes[0].set_ylabel(up)
    return figure


def _draw_panel(
    axis: Axes, panel: CurvePanel, colours: Mapping[str, str], linear: bool, steps: bool
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
    name_panel(axis, panel.title, size=10)
    if np.isfinite(first):
        axis.set_xlim(first, last)
    _name_ends(axis, ends, last, colours, linear)
    log_ticks(axis.xaxis)
    if linear:
        plain_numbers(axis.yaxis)
    else:
        log_ticks(axis.yaxis, ROUND)
    style(axis)


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


def draw_phases(bars: Sequence[Mapping[str, Any]]) -> Figure:
    """Where the cost went: a stacked bar for each attack and price."""
    figure = new_figure(6.4, 0.32 * len(bars) + 1.3)
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
    axis.set_xlabel("share of the cost")
    legend(axis, ncols=len(phases), loc="lower left", bbox_to_anchor=(0, 1.0))
    style(axis, grid=None)
    axis.spines["left"].set_visible(False)
    return figure


def save(figure: Figure, *files: Path) -> None:
    """Write a figure; the suffix of each file says how. The same figure is the same file."""
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": "tollbox"}):
        for file in files:
            dated = {".svg": "Date", ".pdf": "CreationDate"}.get(file.suffix)
            figure.savefig(file, dpi=160, metadata=None if dated is None else {dated: None})
