"""Curves against cost or queries, a panel for each price or model, with their names at their ends.

1. Up to `MOST_IN_PANEL` attacks are drawn in one panel. More are grouped: a row of panels for each
   family, where the curves of the other families are grey, so that all can still be compared.
2. Names stand at the right ends of the curves, moved apart where they would touch. Where they do
   not fit, because they are long or many, there is a legend for each row instead.
3. A dotted line leads from where a curve ends, its budget spent, to its name.
4. A curve with a note is set apart from all others: black, dashes and dots, and the note is in a
   legend.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .axes import (
    INK,
    LINE_LOOKS,
    ROUND,
    head,
    lay_out,
    legend,
    legend_below,
    legend_key,
    literal,
    log_ticks,
    name_panel,
    new_figure,
    plain_numbers,
    style,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

MOST_IN_PANEL = 7
LONGEST_AT_END = 18
"""Letters of a name at the end of its curve, at most."""
LINE_HEIGHT = 12.0
"""Points from one name to the next, at least."""
OTHERS = "#cccccc"
"""The colour of curves of other families."""
TAIL = "budget spent"
APART = ((0, (6, 1.5, 1.5, 1.5)), INK)
"""Line style and colour of a curve that is set apart."""


@dataclass(frozen=True)
class Curve:
    """A step curve: `values` hold from each cost to the next; what is not finite is not drawn."""

    name: str
    costs: NDArray[np.float64]
    values: NDArray[np.float64]
    family: str = ""
    note: str = ""
    """What sets it apart from all others, if anything does."""

    @property
    def drawn(self) -> NDArray[np.bool_]:
        """What a log axis can show."""
        return np.isfinite(self.values) & (self.costs > 0)


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
    up: str = "median ℓ2 distance",
    linear: bool = False,
    steps: bool = True,
) -> Figure:
    """Median distance against cost, one panel a price, on common log axes; or something else,
    against another log axis, on a linear one from 0 to 1. With `steps` a value holds up to the next
    one; without, values are joined by straight lines."""
    rows = _rows(panels)
    families = list(rows)
    at_ends = _fit_at_ends(rows)
    width = 4.6 * len(panels) + (0.6 if at_ends else 2.6)
    figure = new_figure(width, 4.0 if len(rows) == 1 else 2.7 * len(rows) + 0.8)
    head(figure, title)
    grid = figure.subplots(len(rows), len(panels), sharex="col", sharey=True, squeeze=False)
    grid[0][0].set(yscale="linear" if linear else "log")
    for line, family in zip(grid, families, strict=True):
        for axis, panel in zip(line, panels, strict=True):
            _draw_panel(axis, panel, rows[family], "steps-post" if steps else "default")
            name_panel(axis, f"{family}, {panel.title}" if family else panel.title, size=10)
        line[0].set_ylabel(up)
    for axis, panel in zip(grid[-1], panels, strict=True):
        axis.set_xlabel(panel.across or across)
    _finish_axes(grid, panels, linear)
    common = _common_keys(grid, panels, len(rows) > 1)
    legend_below(figure, common, handlelength=3.2)  # long enough for all kinds of dashes
    if at_ends:
        lay_out(figure)
        for line, looks in zip(grid, rows.values(), strict=True):
            for axis, panel in zip(line, panels, strict=True):
                _name_ends(axis, [curve for curve in panel.curves if curve.name in looks], looks)
    else:
        for line, looks in zip(grid, rows.values(), strict=True):
            keys = [
                legend_key(literal(name), colour, linestyle=dashes, linewidth=1.8)
                for name, (dashes, colour) in looks.items()
            ]
            legend(line[-1], handles=keys, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


Looks = Mapping[str, tuple[Any, str]]
"""Line style and colour, by the name of the curve."""


def _rows(panels: Sequence[CurvePanel]) -> dict[str, Looks]:
    """The looks of the attacks of each row, by its family; one row without a name for few."""
    families: dict[str, list[str]] = {}
    names = {curve.name: curve.family for panel in panels for curve in panel.curves}
    apart = {curve.name for panel in panels for curve in panel.curves if curve.note}
    for name, family in names.items():
        families.setdefault(family, []).append(name)
    if len(names) <= MOST_IN_PANEL or len(families) == 1:
        families = {"": list(names)}
    rows: dict[str, Looks] = {}
    for family, members in families.items():
        looks = itertools.cycle(LINE_LOOKS)
        rows[family] = {name: APART if name in apart else next(looks) for name in members}
    return rows


def _fit_at_ends(rows: Mapping[str, Looks]) -> bool:
    longest = max((len(name) for looks in rows.values() for name in looks), default=0)
    most = max(len(looks) for looks in rows.values())
    return longest <= LONGEST_AT_END and most <= MOST_IN_PANEL


def _draw_panel(axis: Axes, panel: CurvePanel, looks: Looks, drawstyle: str) -> None:
    axis.set_xscale("log")
    for curve in panel.curves:
        shown = curve.drawn
        if not shown.any():
            continue
        own = curve.name in looks
        dashes, colour = looks[curve.name] if own else ("-", OTHERS)
        axis.plot(
            curve.costs[shown],
            curve.values[shown],
            drawstyle=drawstyle,
            linestyle=dashes,
            marker="o" if shown.sum() == 1 else "",
            markersize=4,
            color=colour,
            linewidth=1.8 if own else 0.8,
            zorder=2.5 if own else 2,
            solid_capstyle="round",
        )
    last = _last(panel)
    for curve in panel.curves:
        if curve.name in looks and curve.drawn.any():
            end, value = curve.costs[curve.drawn][-1], curve.values[curve.drawn][-1]
            if end < last:
                colour = looks[curve.name][1]
                axis.plot([end, last], [value, value], ":", color=colour, linewidth=1, label=TAIL)


def _last(panel: CurvePanel) -> float:
    """Where the names stand."""
    ends = [float(curve.costs[-1]) for curve in panel.curves if curve.drawn.any()]
    return max(ends, default=1.0)


def _finish_axes(grid: Any, panels: Sequence[CurvePanel], linear: bool) -> None:
    for line in grid:
        for axis, panel in zip(line, panels, strict=True):
            firsts = [float(c.costs[c.drawn][0]) for c in panel.curves if c.drawn.any()]
            first, last = min(firsts, default=1.0), _last(panel)
            axis.set_xlim(first if first < last else last / 10, last)
            if linear:
                axis.set_ylim(-0.02, 1.02)
                plain_numbers(axis.yaxis)
            else:
                log_ticks(axis.yaxis, ROUND)
            log_ticks(axis.xaxis)
            style(axis)


def _name_ends(axis: Axes, curves: Sequence[Curve], looks: Looks) -> None:
    """Names at the right ends of the curves, moved apart where they would touch."""
    ends = [(float(c.values[c.drawn][-1]), c.name) for c in curves if c.drawn.any()]
    ends.sort(key=lambda end: end[0])
    last = axis.get_xlim()[1]
    points = 72 / axis.figure.dpi
    bottom = axis.get_window_extent().y0
    heights = [points * (axis.transData.transform((last, value))[1] - bottom) for value, _ in ends]
    places = _apart(heights, points * axis.get_window_extent().height)
    for (value, name), height, place in zip(ends, heights, places, strict=True):
        axis.annotate(
            literal(name),
            (last, value),
            xytext=(5, place - height),
            textcoords="offset points",
            color=looks[name][1],
            va="center",
            fontsize=10,
            annotation_clip=False,
        )


def _apart(heights: Sequence[float], top: float) -> list[float]:
    """Rising heights, moved until neighbours are a line apart and all are between 0 and `top`."""
    places = list(heights)
    for _ in range(100):  # neighbours that touch push each other apart
        for i in range(1, len(places)):
            lacking = max(0.0, LINE_HEIGHT - (places[i] - places[i - 1]))
            places[i - 1] -= lacking / 2
            places[i] += lacking / 2
    for i in range(len(places)):
        places[i] = max(places[i], LINE_HEIGHT * i)
    for i in range(len(places) - 1, -1, -1):
        places[i] = min(places[i], top - LINE_HEIGHT * (len(places) - 1 - i))
    return places


def _common_keys(grid: Any, panels: Sequence[CurvePanel], grouped: bool) -> list[Line2D]:
    """What the names do not say."""
    dashes, colour = APART
    curves = [curve for panel in panels for curve in panel.curves if curve.drawn.any()]
    keys = [
        legend_key(literal(note), colour, linestyle=dashes, linewidth=1.8)
        for note in dict.fromkeys(curve.note for curve in curves if curve.note)
    ]
    if grouped:
        keys.append(legend_key("the other attacks", OTHERS, linewidth=0.8))
    labels = {line.get_label() for row in grid for axis in row for line in axis.lines}
    if TAIL in labels:
        keys.append(legend_key(f"{TAIL}: the last median holds", INK, linestyle=":", linewidth=1))
    return keys
