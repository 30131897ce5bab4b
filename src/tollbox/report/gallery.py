"""The gallery: a few images, what they became at several costs, and the difference, amplified.

Images are made again from the recorded answers, without the model. Where that cannot be done (the
images have gone, the study was run on another device) the page says why.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InputError
from ..files.packages import optional
from ..studies.reading import StudyResults
from .paper_table import PaperTable
from .runs import SeriesRuns

IMAGES = 4
PARTS = (1 / 16, 1 / 4, 1.0)
"""Of the budget."""
LARGEST = 224
"""Pixels of a side on the page; larger images are shown smaller."""


def gallery(
    results: StudyResults, all_series: Sequence[SeriesRuns], table: PaperTable
) -> dict[str, Any]:
    """Rows of pictures, or a note that says why there are none."""
    chosen = _chosen(all_series, table)
    if chosen is None:
        return {"note": None, "rows": []}
    try:
        return {"note": None, "rows": _rows(results, chosen)}
    except (InputError, OSError, RuntimeError) as error:
        return {"note": f"The images cannot be shown: {error}", "rows": []}


def _chosen(all_series: Sequence[SeriesRuns], table: PaperTable) -> SeriesRuns | None:
    """The series whose median is least in the last column that has one."""
    for column in reversed(range(len(table.columns))):
        where = table.columns[column]
        named = {
            method.attack: cell.value
            for method, cells in zip(table.rows, table.cells, strict=True)
            if (cell := cells[column]) is not None
        }
        for runs in sorted(all_series, key=lambda r: named.get(r.series.attack.name, np.inf)):
            series = runs.series
            if (series.model.name, series.tariff.name) == (where.model, where.tariff.name) and any(
                len(run.distances) for run in runs.runs
            ):
                return runs
    return None


def _rows(results: StudyResults, chosen: SeriesRuns) -> list[dict[str, Any]]:
    series, width = chosen.series, results.grid.width
    seeds = list(results.study.seeds)
    runs = [run for run in chosen.runs if len(run.distances) and run.seed == seeds[0]]
    runs = [
        runs[i] for i in np.linspace(0, len(runs) - 1, min(IMAGES, len(runs))).round().astype(int)
    ]
    moments = []
    for run in runs:
        cell = series.number * width + run.image
        top = min(series.tariff.budget, run.spent["cost"])
        costs = [max(part * top, float(run.needs["cost"][0])) for part in PARTS]
        moments += [(cell, cost) for cost in sorted(set(costs))]
    replays = results.replays(moments)
    pictures = results.pictures
    rows: list[dict[str, Any]] = []
    for run in runs:
        cell = series.number * width + run.image
        original = pictures[run.image]
        shots = [
            _shot(original, result.adversarial, cost, result.distance)
            for (number, cost), result in zip(moments, replays, strict=True)
            if number == cell and result.adversarial is not None
        ]
        _, label, name = results.images[run.image]
        rows.append(
            {
                "name": name,
                "label": f"class {label}",
                "attack": series.attack.name,
                "price": f"c* = {series.tariff.name}",
                "original": _png(original.numpy()),
                "shots": shots,
            }
        )
    return rows


def _shot(original: Tensor, reached: Tensor, cost: float, distance: float) -> dict[str, Any]:
    apart = (reached.double() - original.double()).numpy()
    largest = float(np.abs(apart).max())
    factor = max(1, int(0.5 / largest)) if largest > 0 else 1
    return {
        "cost": float(f"{cost:.5g}"),
        "distance": float(f"{distance:.5g}"),
        "image": _png(reached.numpy()),
        "difference": _png(np.clip(0.5 + factor * apart, 0, 1)),
        "factor": factor,
    }


def _png(image: NDArray[Any]) -> str:
    """A data URI of an image (c, h, w) in [0,1]."""
    pillow = optional("PIL.Image", "the images of a page are written with it", extra="report")
    planes = image[:3] if len(image) >= 3 else image[:1].repeat(3, axis=0)
    array = np.ascontiguousarray((planes.transpose(1, 2, 0) * 255).round().astype(np.uint8))
    picture = pillow.fromarray(array)
    if max(picture.size) > LARGEST:
        picture.thumbnail((LARGEST, LARGEST))
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
