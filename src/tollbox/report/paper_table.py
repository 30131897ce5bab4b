"""The table in the paper's form: attack and method down, model and price across, medians inside.

An attack of a study has its place by its preset; where the preset is used more than once, or fields
of it are changed, its own name is its method. The best method of an attack is marked in each
column: the least median, among those of one family. A price may have several columns, each read at
a cost of its own, all from the same runs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..attacks.methods import Kind, Method
from ..attacks.presets import PRESETS
from ..core.result import By
from ..studies.spec.specs import AttackSpec, Tariff
from ..studies.spec.study import Study
from .runs import Reading, SeriesRuns
from .statistics import Median, median_at


class TableRow(NamedTuple):
    """Where an attack stands in the table."""

    family: str
    words: str
    """Its method, or its own name if that says more."""
    attack: str
    method: Method | None
    """None if fields of the preset are changed."""
    kind: Kind


class TableColumn(NamedTuple):
    """A model and a price, read at a cost: at the budget, unless there is another."""

    model: str
    tariff: Tariff
    at: float | None = None

    @property
    def mark(self) -> float:
        """Where the column is read: at its own cost, at the budget, or at the cap on queries."""
        return min(self.tariff.budget, self.tariff.max_queries) if self.at is None else self.at

    @property
    def by(self) -> By:
        """What the mark counts."""
        return "cost" if math.isfinite(self.tariff.budget) else "queries"

    @property
    def head(self) -> str:
        """The title of the column."""
        return f"c* = {self.tariff.name}"


@dataclass(frozen=True)
class PaperTable:
    """Medians by method and column; None where nothing is finished."""

    columns: list[TableColumn]
    rows: list[TableRow]
    cells: list[list[Median | None]]

    def is_best(self, row: int, column: int) -> bool:
        """Whether this median is the least of several in its family, in its column."""
        median = self.cells[row][column]
        if median is None or not math.isfinite(median.value):
            return False
        family = self.rows[row].family
        values = [
            cell.value
            for other, cells in zip(self.rows, self.cells, strict=True)
            if other.family == family and (cell := cells[column]) is not None
        ]
        return len(values) > 1 and median.value == min(v for v in values if not math.isnan(v))


def rows_of(study: Study) -> list[TableRow]:
    """The attacks of a study, families together, in the order in which they first come."""
    uses = Counter(spec.preset for spec in study.attacks)
    rows = [_row(spec, uses[spec.preset] > 1) for spec in study.attacks]
    families = list(dict.fromkeys(row.family for row in rows))
    return sorted(rows, key=lambda row: families.index(row.family))


def _row(spec: AttackSpec, used_twice: bool) -> TableRow:
    preset = PRESETS[spec.preset]
    named = used_twice or spec.overrides or spec.name != spec.preset
    words = spec.name if named else preset.words
    method = None if spec.overrides else preset.method
    return TableRow(preset.family, words, spec.name, method, preset.method.kind)


def paper_table(
    study: Study,
    all_series: Sequence[SeriesRuns],
    reading: Reading,
    marks: Mapping[str, Sequence[float]] | None = None,
) -> PaperTable:
    """The table of a study's series; `marks` are the costs to read at, by the name of the price."""
    columns = [
        TableColumn(model.name, tariff, at)
        for model in study.models
        for tariff in study.tariffs
        for at in (marks or {}).get(tariff.name, (None,))
    ]
    rows = rows_of(study)
    by_name = {
        (r.series.attack.name, r.series.model.name, r.series.tariff.name): r for r in all_series
    }
    cells: list[list[Median | None]] = []
    for row in rows:
        each = (by_name[row.attack, column.model, column.tariff.name] for column in columns)
        cells.append([_cell(runs, c, reading) for runs, c in zip(each, columns, strict=True)])
    return PaperTable(columns, rows, cells)


def _cell(runs: SeriesRuns, column: TableColumn, reading: Reading) -> Median | None:
    if not runs.runs:
        return None
    return median_at(runs.runs, column.mark, column.by, reading)
