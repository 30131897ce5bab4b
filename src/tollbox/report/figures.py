"""Figures, drawn with matplotlib's object interface: no global state, no display.

Text is dark grey, lines carry their names at their ends, and nothing is drawn that says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
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


@dataclass(frozen=True)
class Picture:
    """An image, its adversarial point, and words for above and below."""

    original: NDArray[np.float32]
    """(c, h, w) in [0,1]."""
    adversarial: NDArray[np.float32]
    above: str
    below: str


def draw_curves(panels: Sequence[Panel], title: str) -> Figure:
    """Median l2 against cost, one panel a price, on common log axes."""
    figure = Figure(figsize=(4.6 * len(panels) + 0.6, 4.0), layout="constrained")
    figure.suptitle(title, color=INK, fontsize=11, x=0.01, ha="left")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    names = list(dict.fromkeys(curve.name for panel in panels for curve in panel.curves))
    colours = dict(zip(names, COLOURS, strict=False))
    for axis, panel in zip(axes, panels, strict=True):
        _draw_panel(axis, panel, colours)
    axes[0].set_ylabel("median l2 distance", color=INK)
    return figure


def _draw_panel(axis: Axes, panel: Panel, colours: Mapping[str, str]) -> None:
    axis.set(xscale="log", yscale="log")
    ends: list[tuple[float, Curve]] = []
    last = 1.0
    first = np.inf
    for curve in panel.curves:
        shown = np.isfinite(curve.values)
        if not shown.any():
            continue
        axis.step(
            curve.costs[shown],
            curve.values[shown],
            where="post",
            color=colours[curve.name],
            linewidth=1.8,
            solid_capstyle="round",
        )
        last, first = max(last, curve.costs[-1]), min(first, curve.costs[shown][0])
        ends.append((float(curve.values[shown][-1]), curve))
    axis.set_title(panel.title, color=INK, fontsize=10, loc="left")
    axis.set_xlabel("cost per image", color=INK)
    if np.isfinite(first):
        axis.set_xlim(first, last)
    _name_ends(axis, ends, last, colours)
    axis.grid(True, axis="y", which="major", color=FAINT, linewidth=0.8)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(colors=INK, which="both", labelsize=9)
    plain = FuncFormatter(lambda value, _: f"{value:,g}")
    low, high = axis.get_ylim()
    axis.yaxis.set_major_locator(LogLocator(subs=ROUND if high / low < 30 else (1.0,)))
    axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if last / first < 50 else (1.0,)))
    axis.yaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_major_formatter(plain)
    axis.xaxis.set_major_formatter(plain)
    axis.xaxis.set_minor_formatter(NullFormatter())


def _name_ends(
    axis: Axes, ends: list[tuple[float, Curve]], last: float, colours: Mapping[str, str]
) -> None:
    """Names at the right ends of the curves, moved apart where they would touch."""
    ends = sorted(ends, key=lambda end: end[0])
    shifts = [0.0] * len(ends)
    for i in range(1, len(ends)):
        if ends[i][0] / ends[i - 1][0] < 1.12:
            shifts[i - 1] -= 6
            shifts[i] += 6
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


def draw_pictures(pictures: Sequence[Picture], title: str) -> Figure:
    """A strip: originals, adversarial images, and their differences, amplified alike."""
    columns = len(pictures)
    figure = Figure(figsize=(1.55 * columns + 1.2, 5.6), layout="constrained")
    figure.suptitle(title, color=INK, fontsize=11, x=0.01, ha="left")
    axes = figure.subplots(3, columns, squeeze=False)
    largest = max((float(np.abs(p.adversarial - p.original).max()) for p in pictures), default=1.0)
    factor = max(1, int(0.5 / largest)) if largest > 0 else 1
    words = ("original", "adversarial", f"difference ×{factor}\n(grey: none)")
    for row, word in enumerate(words):
        axes[row, 0].set_ylabel(word, color=INK, fontsize=10)
    for column, picture in enumerate(pictures):
        apart = np.clip(0.5 + factor * (picture.adversarial - picture.original), 0, 1)
        for row, image in enumerate((picture.original, picture.adversarial, apart)):
            axis = axes[row, column]
            shown = image[0] if len(image) == 1 else image.transpose(1, 2, 0)
            axis.imshow(shown, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
            axis.set(xticks=[], yticks=[])
            axis.spines[:].set_color(FAINT)
        axes[0, column].set_title(picture.above, color=INK, fontsize=9)
        axes[1, column].set_title(picture.below, color=INK, fontsize=9)
    return figure


def save(figure: Figure, *files: Path) -> None:
    """Write a figure; the suffix of each file says how."""
    for file in files:
        figure.savefig(file, dpi=160, metadata={"Date": None} if file.suffix == ".svg" else None)
