"""The figures of a report as SVG, PDF and PNG, drawn from the same data as the page."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from ..attacks.methods import Kind
from . import figures
from .figures import Curve, CurvePanel
from .tradeoff import TradeoffPoint, draw_tradeoff

KINDS = ("svg", "pdf", "png")


def write_figures(data: dict[str, Any], folder: Path) -> list[str]:
    """Median l2 against cost and against flagged queries, success rates, and costs by phase."""
    names = []
    for model in data["models"]:
        tag = f"-{_plain(model)}" if len(data["models"]) > 1 else ""
        for by, axis in (("cost", "cost per image"), ("source", "flagged queries per image")):
            curves = [c for c in data["curves"] if (c["model"], c["by"]) == (model, by)]
            panels = _panels(data, curves)
            if panels:
                title = f"{data['title']}: median l2, {data['reading']}"
                name = f"median-l2-by-{'cost' if by == 'cost' else 'flagged'}{tag}"
                figure = figures.draw_curves(panels, title, axis)
                names += _saved(figure, folder, name)
        success = [c for c in data["success"] if (c["model"], c["level"]) == (model, data["level"])]
        panels = _panels(data, success)
        if panels:
            title = f"{data['title']}: share of images within l2 {data['level']:g}"
            figure = figures.draw_curves(
                panels, title, "cost per image", "share of images", linear=True
            )
            names += _saved(figure, folder, f"success{tag}")
        points = _tradeoff_points(data, model)
        if any(math.isfinite(point.queries) for point in points):
            figure = draw_tradeoff(points, data["level"], data["title"])
            names += _saved(figure, folder, f"tradeoff{tag}")
        bars = [b for b in data["phases"] if b["model"] == model]
        if bars:
            names += _saved(figures.draw_phases(bars), folder, f"cost-by-phase{tag}")
    return names


def _tradeoff_points(data: dict[str, Any], model: str) -> list[TradeoffPoint]:
    kinds = {attack["name"]: Kind(attack["kind"]) for attack in data["attacks"]}
    return [
        TradeoffPoint(
            each["attack"],
            each["price"] if len(data["prices"]) > 1 else "",
            kinds[each["attack"]],
            *(math.inf if each[key] is None else each[key] for key in ("flagged", "queries")),
        )
        for each in data["tradeoff"]
        if (each["model"], each["level"]) == (model, data["level"])
    ]


def _panels(data: dict[str, Any], curves: list[dict[str, Any]]) -> list[CurvePanel]:
    panels = []
    for price in data["prices"]:
        at_price = [
            Curve(c["attack"], _values(c["x"]), _values(c["y"]))
            for c in curves
            if c["price"] == price["name"]
        ]
        if any(np.isfinite(curve.values).any() for curve in at_price):
            panels.append(CurvePanel(price["label"], at_price))
    return panels


def _values(numbers: list[float | None]) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array([np.nan if number is None else number for number in numbers])


def _saved(figure: Any, folder: Path, name: str) -> list[str]:
    files = [f"{name}.{kind}" for kind in KINDS]
    figures.save(figure, *(folder / file for file in files))
    return files


def _plain(name: str) -> str:
    """A name as part of a file's name."""
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)
