"""The figures of a report as SVG, PDF and PNG files, drawn from the data of the page."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..attacks.presets import Kind
from ..core.metric import Metric
from . import axes
from .axes import Figure
from .curves import MOST_IN_PANEL, Curve, CurvePanel, draw_curves
from .formatting import count
from .tradeoff import TradeoffPoint, draw_tradeoff

BEST, NOTE = "best of all", "best attack for each image"
"""Name of the curve for the best of all attacks, short enough for its end, and its note."""
KINDS = ("svg", "pdf", "png")
MOST_LEGEND_COLUMNS = 4
ENOUGH_ATTACKS = 0.5
"""Share of attacks that should have points in the trade-off."""


def write_figures(data: dict[str, Any], folder: Path) -> list[str]:
    """Write all figures for each model, and return the names of the files."""
    names = []
    for model in data["models"]:
        plain = "".join(c if c.isalnum() or c in "-_." else "-" for c in model)
        tag = f"-{plain}" if len(data["models"]) > 1 else ""
        for name, figure in _figures(data, model):
            files = [f"{name}{tag}.{kind}" for kind in KINDS]
            save(figure, *(folder / file for file in files))
            names += files
    return names


def save(figure: Figure, *files: Path) -> None:
    """Write a figure in the format of each file's suffix; equal figures give equal files."""
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": "tollbox"}), axes.any_letters():
        for file in files:
            dated = {".svg": "Date", ".pdf": "CreationDate"}.get(file.suffix)
            figure.savefig(file, dpi=160, metadata=None if dated is None else {dated: None})


def _figures(data: dict[str, Any], model: str) -> Iterator[tuple[str, Figure]]:
    """Yield the figures of a model with their names; empty figures are left out."""
    title, tag = f"{data['title']}, {model}", data["norm"]
    norm = Metric(tag).sign
    of_model = {
        key: [item for item in data[key] if item["model"] == model]
        for key in ("curves", "best", "success", "tradeoff", "phases")
    }
    data = {**data, **of_model}
    room = len(data["attacks"]) < MOST_IN_PANEL
    for by, name, axis in (
        ("cost", f"median-{tag}-by-cost", "cost per image"),
        ("source", f"median-{tag}-by-flagged", "flagged queries per image"),
    ):
        curves, best = ([c for c in data[key] if c["by"] == by] for key in ("curves", "best"))
        panels = _panels(data, curves, best if room else ())
        if panels:
            text = f"{title}: median {norm}, {data['reading']}"
            yield name, draw_curves(panels, text, axis, f"median {norm} distance")
    ranking = _draw_ranking(data, model, f"{title}: over all budgets")
    if ranking is not None:
        yield "ranking", ranking
    panels = _panels(data, [c for c in data["success"] if c["level"] == data["level"]])
    if panels:
        text = f"{title}: share of images within {norm} {data['level']:g}"
        figure = draw_curves(panels, text, "cost per image", "share of images", linear=True)
        yield "success", figure
    level = tradeoff_level(data)
    if level is not None:
        yield "tradeoff", draw_tradeoff(_tradeoff_points(data, level), level, title, norm=norm)
    if data["phases"]:
        yield "cost-by-phase", draw_phases(data["phases"], f"{title}: cost by phase")


def draw_phases(bars: Sequence[Mapping[str, Any]], title: str = "") -> Figure:
    """Draw the cost by phase: a stacked bar for each attack and price."""
    figure = axes.new_figure(6.4, 0.32 * len(bars) + 1.6, title)
    axis = figure.subplots()
    phases = list(dict.fromkeys(phase for bar in bars for phase in bar["phases"]))
    totals = np.array([sum(bar["phases"].values()) or 1.0 for bar in bars])
    left = np.zeros(len(bars))
    rows = np.arange(len(bars))
    for phase, colour in zip(phases, itertools.cycle(axes.PHASE_COLOURS)):
        shares = np.array([bar["phases"].get(phase, 0.0) for bar in bars]) / totals
        axis.barh(rows, shares, left=left, color=colour, label=axes.literal(phase), height=0.7)
        left += shares
    axis.set_yticks(rows, [f"{axes.literal(bar['attack'])}, c* = {bar['price']}" for bar in bars])
    axis.set(xlim=(0, 1), ylim=(len(bars) - 0.5, -0.5))
    axis.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    axis.set_xlabel("share of the cost")
    if phases:
        columns = min(len(phases), MOST_LEGEND_COLUMNS)
        axes.legend(axis, ncols=columns, loc="lower left", bbox_to_anchor=(0, 1.0))
    axes.style(axis, grid=None)
    axis.spines["left"].set_visible(False)
    return figure


def _draw_ranking(data: dict[str, Any], model: str, title: str) -> Figure | None:
    """Draw G of each attack with its interval, on a log axis, with a panel for each price."""
    names = [attack["name"] for attack in data["attacks"]]
    labels = {price["name"]: price["label"] for price in data["prices"]}
    reference = data["ranking"]["against"]
    panels = {}
    for each in data["ranking"]["ranges"]:
        estimates = {
            s["attack"]: s["ratios"][names.index(reference)]
            for s in data["ranking"]["standings"]
            if (s["model"], s["price"]) == (model, each["price"])
        }
        if each["model"] == model and each["price"] in labels and any(estimates.values()):
            unit = "cost" if each["by"] == "cost" else "queries"
            costs = f"{unit} {count(each['first'])} to {count(each['last'])}"
            panels[f"{labels[each['price']]}, {costs}"] = estimates
    if len(names) < 2 or not panels:
        return None
    figure = axes.new_figure(2.2 + 3.2 * len(panels), 0.3 * len(names) + 1.6, title)
    row_axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axis, (head, estimates) in zip(row_axes, panels.items(), strict=True):
        axis.set_xscale("log")
        axis.axvline(1.0, color=axes.INK, linewidth=0.8, linestyle=":")
        for row, name in enumerate(names):
            if estimates.get(name) is not None:
                value, low, high = estimates[name][:3]
                axis.plot([low, high], [row, row], color=axes.COLOURS[0], linewidth=1.6)
                axis.plot([value], [row], "o", color=axes.COLOURS[0], markersize=4.5)
        low, high = axis.get_xlim()
        short = high / low < axes.SHORT[axes.ROUND]
        axes.log_ticks(axis.xaxis, axes.ROUND if short else axes.FEW_ROUND)
        axis.set_xlabel(axes.literal(f"G: distance relative to {reference}", longest=None))
        axes.name_panel(axis, head)
        axes.style(axis, grid=None)
    row_axes[0].set_yticks(range(len(names)), [axes.literal(name) for name in names])
    row_axes[0].set_ylim(len(names) - 0.5, -0.5)
    return figure


def tradeoff_level(data: dict[str, Any]) -> float | None:
    """Return the report's level if at least half of the attacks reach it.

    Otherwise return the smallest level that half reach, or else the one that the most reach.
    """
    found: dict[float, list[bool]] = {level: [] for level in data["levels"]}
    for each in data["tradeoff"]:
        if each["level"] in found:
            found[each["level"]].append(each["queries"] is not None)
    reached = {level: float(np.mean(each)) for level, each in found.items() if any(each)}
    enough = [level for level, share in reached.items() if share >= ENOUGH_ATTACKS]
    if not reached:
        return None
    if data["level"] in enough:
        return float(data["level"])
    return float(min(enough) if enough else max(reached, key=lambda level: reached[level]))


def _tradeoff_points(data: dict[str, Any], level: float) -> list[TradeoffPoint]:
    kinds = {attack["name"]: Kind(attack["kind"]) for attack in data["attacks"]}
    return [
        TradeoffPoint(
            each["attack"],
            each["price"] if len(data["prices"]) > 1 else "",
            kinds[each["attack"]],
            *(math.inf if each[key] is None else each[key] for key in ("flagged", "queries")),
        )
        for each in data["tradeoff"]
        if each["level"] == level
    ]


def _panels(
    data: dict[str, Any], curves: list[dict[str, Any]], best: Sequence[dict[str, Any]] = ()
) -> list[CurvePanel]:
    """Return a panel for each price that has curves; `best` has those for the best of all."""
    families = {attack["name"]: attack["family"] for attack in data["attacks"]}
    order = list(families)
    panels = []
    for price in data["prices"]:
        at_price = [c for c in curves if c["price"] == price["name"]]
        at_price.sort(key=lambda curve: order.index(curve["attack"]))
        drawn = [_curve(c, c["attack"], family=families[c["attack"]]) for c in at_price]
        if CurvePanel(price["label"], drawn).shown:
            drawn += [_curve(c, BEST, note=NOTE) for c in best if c["price"] == price["name"]]
            panels.append(CurvePanel(price["label"], drawn))
    return panels


def _curve(data: Mapping[str, Any], name: str, **look: str) -> Curve:
    x, y = (np.array(data[key], float) for key in ("x", "y"))  # None becomes NaN
    return Curve(name, x, y, **look)
