"""A study as CSV files.

    cells.csv   a row for each finished cell
    steps.csv   a row for each point that was nearer than all before it, with all that had been
                spent once it was found
    images.txt  content hash, label and name of each image: what `images.list` of a study takes

With a price, costs are those that the same answers would have had then.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TextIO

from .reading import COLUMNS, StudyResults, cost_at

FILES = frozenset({"cells.csv", "steps.csv", "images.txt"})
STEPS = ("model", "attack", "price", "seed", "image", "cost", "flagged", "queries", "distance")


def write_csv(results: StudyResults, folder: Path, price: float | None = None) -> None:
    """Write all files into a folder."""
    with _file(folder / "cells.csv") as file:
        cells = csv.DictWriter(file, COLUMNS)
        cells.writeheader()
        cells.writerows(results.rows(price))
    with _file(folder / "steps.csv") as file:
        steps = csv.writer(file)
        steps.writerow(STEPS)
        for _, (series, seed, image), trace in results.traces():
            content, label, _ = results.images[image]
            head = (series.model.name, series.attack.name, series.tariff.name, seed, content)
            for row in trace.improvements(series.tariff.prices.for_source(label), label):
                cost = row.cost if price is None else cost_at(price, row.source, row.queries)
                steps.writerow((*head, cost, row.source, row.queries, row.distance))
    with _file(folder / "images.txt") as file:
        for content, label, name in results.images:
            file.write(f"{content} {label} {' '.join(name.split())}\n")


def _file(path: Path) -> TextIO:
    return open(path, "w", newline="", encoding="utf-8", errors="backslashreplace")
