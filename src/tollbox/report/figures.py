"""Bars of costs by phase, the ranking over budgets, and how a figure becomes a file."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .axes import (
    COLOURS,
    FEW_ROUND,
    INK,
    PHASE_COLOURS,
    ROUND,
    SHORT,
    any_letters,
    head,
    legend,
    literal,
    log_ticks,
    name_panel,
    new_figure,
    style,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_LEGEND_COLUMNS = 4


def draw_phases(bars: Sequence[Mapping[str, Any]], title: str = "") -> Figure:
    """Where the cost went: a stacked bar for each attack and price."""
    figure = new_figure(6.4, 0.32 * len(bars) + 1.6)
    head(figure, title)
    axis = figure.subplots()
    phases = list(dict.fromkeys(phase for bar in bars for phase in bar["phases"]))
    totals = [sum(bar["phases"].values()) or 1.0 for bar in bars]
    left = np.zeros(len(bars))
    rows = np.arange(len(bars))
    for phase, colour in zip(phases, itertools.cycle(PHASE_COLOURS)):
        each = zip(bars, totals, strict=True)
        shares = np.array([bar["phases"].get(phase, 0.0) / total for bar, total in each])
        axis.barh(rows, shares, left=left, color=colour, label=literal(phase), height=0.7)
        left += shares
    axis.set_yticks(rows, [f"{literal(bar['attack'])}, c* = {bar['price']}" for bar in bars])
    axis.set(xlim=(0, 1), ylim=(len(bars) - 0.5, -0.5))
    axis.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    axis.set_xlabel("share of the cost")
    if phases:
        columns = min(len(phases), MOST_LEGEND_COLUMNS)
        legend(axis, ncols=columns, loc="lower left", bbox_to_anchor=(0, 1.0))
    style(axis, grid=None)
    axis.spines["left"].set_visible(False)
    return figure


def draw_ranking(
    panels: Sequence[tuple[str, Sequence[Sequence[float] | None]]],
    attacks: Sequence[str],
    against: str,
    title: str = "",
) -> Figure:
    """G of each attack with its interval, on a log axis, a panel for each price: value, low and
    high of each attack, or nothing."""
    figure = new_figure(2.2 + 3.2 * len(panels), 0.3 * len(attacks) + 1.6)
    head(figure, title)
    rows = np.arange(len(attacks))
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axis, (name, estimates) in zip(axes, panels, strict=True):
        axis.set_xscale("log")
        axis.axvline(1.0, color=INK, linewidth=0.8, linestyle=":")
        for row, estimate in zip(rows, estimates, strict=True):
            if estimate is not None:
                value, low, high = estimate[:3]
                axis.plot([low, high], [row, row], color=COLOURS[0], linewidth=1.6)
                axis.plot([value], [row], "o", color=COLOURS[0], markersize=4.5)
        low, high = axis.get_xlim()
        log_ticks(axis.xaxis, ROUND if high / low < SHORT[ROUND] else FEW_ROUND)
        axis.set_xlabel(literal(f"G: part of {against}'s distance", longest=None))
        name_panel(axis, name)
        style(axis, grid=None)
    axes[0].set_yticks(rows, [literal(name) for name in attacks])
    axes[0].set_ylim(len(attacks) - 0.5, -0.5)
    return figure


def save(figure: Figure, *files: Path) -> None:
    """Write a figure; the suffix of each file says how. The same figure is the same file."""
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": "tollbox"}), any_letters():
        for file in files:
            dated = {".svg": "Date", ".pdf": "CreationDate"}.get(file.suffix)
            figure.savefig(file, dpi=160, metadata=None if dated is None else {dated: None})
