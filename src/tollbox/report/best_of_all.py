"""The best of all attacks: of each image, at each cost, the smallest distance that any attack has,
as if the attacker knew beforehand which to use.

It is no attack: no table marks it, and it has no rank. A run of it stands for the runs of all
attacks on one image with one seed, at one price on one model; where one of these is not known, it
is not either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..core.result import By, Values
from .paper_table import PaperTable, TableColumn
from .reading import Reading
from .runs import CellCurve, SeriesRuns
from .statistics import Median, median_at

NAME = "best of all attacks"
WORDS = "for each image, as if the attacker knew which"


@dataclass(frozen=True)
class BestRun:
    """The runs of all attacks on one image."""

    image: int
    seed: int
    runs: Sequence[CellCurve]

    def at(self, marks: Values, by: By, reading: Reading) -> Values:
        """The smallest distance at each mark."""
        return np.asarray(np.min([run.at(marks, by, reading) for run in self.runs], axis=0))


def with_best_of_all(
    table: PaperTable, all_series: Sequence[SeriesRuns], reading: Reading
) -> PaperTable:
    """The table with the medians of the best of all attacks."""

    def cell(column: TableColumn) -> Median | None:
        runs = best_runs(all_series, column.model, column.tariff.name)
        return median_at(runs, column.mark, column.by, reading) if runs else None

    return replace(table, of_all=[cell(column) for column in table.columns])


def best_runs(all_series: Sequence[SeriesRuns], model: str, price: str) -> list[BestRun]:
    """On a model at a price: what all attacks with runs have; nothing of a single attack."""
    here = (s for s in all_series if (s.series.model.name, s.series.tariff.name) == (model, price))
    series = [{(run.image, run.seed): run for run in each.runs} for each in here if each.runs]
    if len(series) < 2:
        return []
    common = sorted(set.intersection(*(set(runs) for runs in series)))
    return [BestRun(*key, [runs[key] for runs in series]) for key in common]
