"""Curves against cost or queries, with a panel for each price or model.

1. Up to `MOST_IN_PANEL` attacks share a panel. If there are more, each family has a row of panels
   in which the curves of the other families are grey.
2. Names are at the right ends of the curves, moved apart where they would overlap. If they do not
   fit, each row has a legend instead.
3. A dotted line continues a curve from where its budget is spent to the right end of the axis.
4. A curve with a note is black and dash-dotted, and a legend shows the note.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.result import Values
from . import axes
from .axes import Axes, Figure, Line2D

MOST_IN_PANEL = 7
LONGEST_AT_END = 18
"""Maximum number of characters in names at the ends of curves."""
LINE_HEIGHT = 12.0
"""Minimum distance between names, in points."""
OTHERS = "#cccccc"
"""The colour of other families' curves."""
OWN_WEIGHT, OTHER_WEIGHT = {"linewidth": 1.8, "zorder": 2.5}, {"linewidth": 0.8, "zorder": 2.0}
"""Line weights for the curves of a row's own family, and for the others."""
NOTED = ((0, (6, 1.5, 1.5, 1.5)), axes.INK)
"""Line style and colour of a curve with a note."""

Looks = Mapping[str, tuple[Any, str]]
"""Line style and colour by curve name."""


@dataclass(frozen=True)
class Curve:
    """A curve of values against costs. Infinite and unknown values are not drawn."""

    name: str
    costs: Values
    values: Values
    family: str = ""
    note: str = ""
    """Legend text that sets the curve apart from all others; empty if nothing does."""


@dataclass(frozen=True)
class CurvePanel:
    """The curves of one price or model."""

    title: str
    curves: Sequence[Curve]
    across: str | None = None
    """Label of the horizontal axis, if it differs from that of the other panels."""

    @property
    def shown(self) -> list[Curve]:
        """The curves, with only the points that a log axis can show; empty curves are left out."""
        masks = [np.isfinite(curve.values) & (curve.costs > 0) for curve in self.curves]
        return [
            replace(curve, costs=curve.costs[mask], values=curve.values[mask])
            for curve, mask in zip(self.curves, masks, strict=True)
            if mask.any()
        ]

    @property
    def last(self) -> float:
        """The right end of the axis, where the names are."""
        names = {curve.name for curve in self.shown}
        return max((float(c.costs[-1]) for c in self.curves if c.name in names), default=1.0)


def draw_curves(
    panels: Sequence[CurvePanel],
    title: str,
    across: str = "cost per image",
    up: str = "median ℓ2 distance",
    linear: bool = False,
    steps: bool = True,
) -> Figure:
    """Draw curves on log axes; with `linear`, the vertical axis is linear, from 0 to 1.

    With `steps` a value holds up to the next one; without, straight lines join the values.
    """
    rows = _rows(panels)
    longest = max((len(name) for looks in rows.values() for name in looks), default=0)
    most = max(len(looks) for looks in rows.values())
    at_ends = longest <= LONGEST_AT_END and most <= MOST_IN_PANEL
    width = 4.6 * len(panels) + (0.6 if at_ends else 2.6)
    figure = axes.new_figure(width, 4.0 if len(rows) == 1 else 2.7 * len(rows) + 0.8, title)
    grid = figure.subplots(len(rows), len(panels), sharex="col", sharey=True, squeeze=False)
    grid[0][0].set(yscale="linear" if linear else "log")
    for line, (family, looks) in zip(grid, rows.items(), strict=True):
        for axis, panel in zip(line, panels, strict=True):
            _draw_panel(axis, panel, looks, "steps-post" if steps else "default")
            axes.name_panel(axis, f"{family}, {panel.title}" if family else panel.title, size=10)
        line[0].set_ylabel(up)
    for axis, panel in zip(grid[-1], panels, strict=True):
        axis.set_xlabel(panel.across or across)
    for axis, panel in zip(grid.flat, itertools.cycle(panels)):  # once all curves are drawn
        first = min((float(curve.costs[0]) for curve in panel.shown), default=1.0)
        axis.set_xlim(first if first < panel.last else panel.last / 10, panel.last)
        axes.log_ticks(axis.xaxis)
        if linear:
            axis.set_ylim(-0.02, 1.02)
            axes.plain_numbers(axis.yaxis)
        else:
            axes.log_ticks(axis.yaxis, axes.ROUND)
        axes.style(axis)
    common = _common_keys(panels, len(rows) > 1)
    axes.legend_below(figure, common, handlelength=3.2)  # long enough for all kinds of dashes
    if at_ends:
        with axes.any_letters():
            figure.draw_without_rendering()  # places the axes
    for line, looks in zip(grid, rows.values(), strict=True):
        if at_ends:
            for axis, panel in zip(line, panels, strict=True):
                _name_ends(axis, [curve for curve in panel.shown if curve.name in looks], looks)
        else:
            keys = [_key(name, look) for name, look in looks.items()]
            axes.legend(line[-1], handles=keys, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _rows(panels: Sequence[CurvePanel]) -> dict[str, Looks]:
    """Return the looks of the curves in each row, by family; one unnamed row for few curves."""
    families: dict[str, list[str]] = {}
    curves = {curve.name: curve for panel in panels for curve in panel.curves}
    for name, curve in curves.items():
        families.setdefault(curve.family, []).append(name)
    if len(curves) <= MOST_IN_PANEL or len(families) == 1:
        families = {"": list(curves)}
    rows: dict[str, Looks] = {}
    for family, members in families.items():
        looks = itertools.cycle(axes.LINE_LOOKS)
        rows[family] = {name: NOTED if curves[name].note else next(looks) for name in members}
    return rows


def _draw_panel(axis: Axes, panel: CurvePanel, looks: Looks, drawstyle: Any) -> None:
    axis.set_xscale("log")
    for curve in panel.shown:
        own = curve.name in looks
        dashes, colour = looks[curve.name] if own else ("-", OTHERS)
        look = {"color": colour, "linestyle": dashes, "drawstyle": drawstyle}
        look |= {"marker": "o" if len(curve.costs) == 1 else "", "solid_capstyle": "round"}
        look |= OWN_WEIGHT if own else OTHER_WEIGHT
        axis.plot(curve.costs, curve.values, markersize=4, **look)
        if own and curve.costs[-1] < panel.last:
            ends, tail = [curve.costs[-1], panel.last], [curve.values[-1]] * 2
            axis.plot(ends, tail, ":", color=colour, linewidth=1)


def _name_ends(axis: Axes, curves: Sequence[Curve], looks: Looks) -> None:
    """Write names at the right ends of the curves, moved apart where they would overlap."""
    ends = sorted(((float(c.values[-1]), c.name) for c in curves), key=lambda end: end[0])
    last = axis.get_xlim()[1]
    points = 72 / axis.figure.dpi
    frame = axis.get_window_extent()
    tops = [axis.transData.transform((last, value))[1] for value, _ in ends]
    heights = [points * (top - frame.y0) for top in tops]
    places = _apart(heights, points * frame.height)
    for (value, name), height, place in zip(ends, heights, places, strict=True):
        text = axis.annotate(
            axes.literal(name), (last, value), (5, place - height), textcoords="offset points"
        )
        text.set(color=looks[name][1], va="center", fontsize=10, annotation_clip=False)


def _apart(heights: Sequence[float], top: float) -> list[float]:
    """Move ascending heights until they are at least a line apart and all between 0 and `top`."""
    places, last = list(heights), len(heights) - 1
    for _ in range(100):  # neighbours that overlap push each other apart
        for i in range(1, len(places)):
            lacking = max(0.0, LINE_HEIGHT - (places[i] - places[i - 1]))
            places[i - 1] -= lacking / 2
            places[i] += lacking / 2
    return [
        min(max(place, LINE_HEIGHT * i), top - LINE_HEIGHT * (last - i))
        for i, place in enumerate(places)
    ]


def _common_keys(panels: Sequence[CurvePanel], grouped: bool) -> list[Line2D]:
    """Return legend entries for notes, grey curves and dotted lines."""
    curves = [(curve, panel) for panel in panels for curve in panel.shown]
    keys = [_key(note, NOTED) for note in dict.fromkeys(c.note for c, _ in curves if c.note)]
    if grouped:
        keys.append(axes.legend_key("the other attacks", OTHERS, linewidth=0.8))
    if any(curve.costs[-1] < panel.last for curve, panel in curves):
        text = "budget spent: the last median holds"
        keys.append(axes.legend_key(text, axes.INK, linestyle=":", linewidth=1))
    return keys


def _key(name: str, look: tuple[Any, str]) -> Line2D:
    dashes, colour = look
    return axes.legend_key(axes.literal(name), colour, linestyle=dashes, linewidth=1.8)
