"""A study as CSV files.

    cells.csv    a row for each finished cell
    steps.csv    a row for each point that was nearer than all before it, with all that had been
                 spent once it was found
    images.txt   content hash, label and name of each image: what `images.list` of a study takes
    export.json  which study it is of

1. With a price, costs are those that the same answers would have had then; `counted_price` says
   which price the costs of a row are counted at.
2. A folder with the export of another study is left as it is.
3. Text that a spreadsheet would take for a formula is marked as text.
"""

from __future__ import annotations

import csv
import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from ..errors import InputError
from ..files.output import check_free
from ..files.tables import plain_text
from .reading import COLUMNS, StudyResults, cost_at, price_name

MARKER = "export.json"
FILES = frozenset({"cells.csv", "steps.csv", "images.txt", MARKER})
STEPS = (
    *("model", "attack", "price", "counted_price", "seed", "image"),
    *("cost", "flagged", "queries", "distance", "norm"),
)


def export_folder(study: Path, price: float | None = None) -> Path:
    """Where an export goes unless it is said: a folder for each price."""
    return study / ("export" if price is None else f"export-price-{price_name(price)}")


def check_folder(results: StudyResults, folder: Path) -> None:
    """Raise InputError unless a folder is free, or has nothing but an export of this study."""
    check_free(folder, FILES, replace=True)
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    try:
        marker = json.loads((folder / MARKER).read_text(encoding="utf-8"))
        same = marker["identity"] == _identity(results)
    except (OSError, ValueError, KeyError, TypeError):
        same = False
    if not same:
        raise InputError(
            f"{folder} has an export that is not known to be of this study",
            remedy="remove it, or give another folder",
            input="out",
        )


def write_csv(results: StudyResults, folder: Path, price: float | None = None) -> None:
    """Write all files into a folder."""
    with _file(folder / "cells.csv") as file:
        cells = csv.writer(file)
        cells.writerow(COLUMNS)
        cells.writerows(map(plain_text, row.values()) for row in results.rows(price))
    norm = str(results.record.norm)
    with _file(folder / "steps.csv") as file:
        steps = csv.writer(file)
        steps.writerow(STEPS)
        for _, (series, seed, image), trace in results.traces():
            content, label, _ = results.images[image]
            names = series.model.name, series.attack.name, series.tariff.name
            counted = series.tariff.name if price is None else price_name(price)
            head = (*map(plain_text, (*names, counted)), seed, content)
            goal = results.study.goal.for_label(label)
            for row in trace.improvements(series.tariff.prices.for_source(label, goal), goal):
                cost = row.cost if price is None else cost_at(price, row.source, row.queries)
                steps.writerow((*head, cost, row.source, row.queries, row.distance, norm))
    with _file(folder / "images.txt") as file:
        for content, label, name in results.images:
            file.write(f"{content} {label} {' '.join(name.split())}\n")
    marker = {"study": results.record.name, "identity": _identity(results)}
    with _file(folder / MARKER) as file:
        file.write(json.dumps(marker, indent=1) + "\n")


def _identity(results: StudyResults) -> str:
    """What tells a study from others: its text, where it is, its models and its images."""
    record = results.record
    models = {name: asdict(model) for name, model in record.models.items()}
    values = record.text, str(record.folder), models, results.digest
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _file(path: Path) -> TextIO:
    return open(path, "w", newline="", encoding="utf-8", errors="backslashreplace")
