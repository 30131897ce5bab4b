"""A study as CSV files.

    cells.csv   a line for each finished cell
    steps.csv   a line for each point that was nearer than all before it, with the account before it
    images.txt  content hash, label and name of each image: what `images.list` of a study takes

With a price, costs are those that the same answers would have had then.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TextIO

from .reading import COLUMNS, StudyResults, cost_at
from .store import codec as records

FILES = frozenset({"cells.csv", "steps.csv", "images.txt"})
STEPS = ("model", "attack", "price", "seed", "image", "cost", "flagged", "queries", "distance")


def write_csv(found: StudyResults, folder: Path, price: float | None = None) -> None:
    """Write all files into a folder."""
    with _file(folder / "cells.csv") as file:
        cells = csv.DictWriter(file, COLUMNS)
        cells.writeheader()
        cells.writerows(found.rows(price))
    with _file(folder / "steps.csv") as file:
        steps = csv.writer(file)
        steps.writerow(STEPS)
        for _, place, trace in found.traces():
            line, seed, image = place
            content = found.images[image][0]
            head = (line.model.name, line.attack.name, line.tariff.name, seed, content)
            steps.writerows(
                (
                    *head,
                    cost if price is None else cost_at(price, source, queries),
                    source,
                    queries,
                    l2,
                )
                for cost, source, queries, l2 in records.improvements_of(trace)
            )
    with _file(folder / "images.txt") as file:
        file.writelines(
            f"{content} {label} {' '.join(name.split())}\n" for content, label, name in found.images
        )


def _file(path: Path) -> TextIO:
    return open(path, "w", newline="", encoding="utf-8", errors="backslashreplace")
