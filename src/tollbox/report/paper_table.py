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

from ..attacks.presets import PRESETS
from ..core.result import By
from ..studies.spec.specs import AttackSpec, Tariff
from ..studies.spec.study import Study
from .runs import Reading, SeriesRuns
from .statistics import Median, median_at

METHODS = {
    "+as": "VA+AS",
    "+agrest": "VA+AGREST",
    "-original": "original",
}


class Method(NamedTuple):
    """Where an attack stands in the table."""

    family: str
    method: str
    attack: str


class Column(NamedTuple):
    """A model and a price, read at a cost: what it may cost, unless another is given."""

    model: str
    tariff: Tariff
    at: float | None = None

    @property
    def mark(self) -> float:
        """Where the column is read: where it is told, at the budget, or at the cap on queries."""
        return min(self.tariff.budget, self.tariff.max_queries) if self.at is None else self.at

    @property
    def by(self) -> By:
        """What that is a number of."""
        return "cost" if math.isfinite(self.tariff.budget) else "queries"

    @property
    def head(self) -> str:
        """What it says above the column."""
        return f"c* = {self.tariff.name}"


@dataclass(frozen=True)
class PaperTable:
    """Medians by method and column; None where nothing is finished."""

    columns: list[Column]
    rows: list[Method]
    cells: list[list[Median | None]]

    def best(self, row: int, column: int) -> bool:
        """Is this the least of its family in the column?"""
        mine = self.cells[row][column]
        if mine is None or not math.isfinite(mine.value):
            return False
        family = self.rows[row].family
        values = [
            cell.value
            for method, cells in zip(self.rows, self.cells, strict=True)
            if method.family == family and (cell := cells[column]) is not None
        ]
        return len(values) > 1 and mine.value == min(v for v in values if not math.isnan(v))


def methods(study: Study) -> list[Method]:
    """The attacks of a study, placed."""
    uses = Counter(spec.preset for spec in study.attacks)
    return [_method(spec, uses[spec.preset] > 1) for spec in study.attacks]


def _method(spec: AttackSpec, several: bool) -> Method:
    family = PRESETS[spec.preset].family
    if several or spec.overrides or spec.name != spec.preset:
        return Method(family, spec.name, spec.name)
    if spec.preset.startswith("a-"):
        searches_only = family == "SurFree"
        added = "VA+AS" if searches_only else "VA+AS+AGREST"
        return Method(family, f"{added} (A-{family})", spec.name)
    if spec.preset.startswith("stealthy-"):
        return Method(family, "stealthy", spec.name)
    ends = [words for end, words in METHODS.items() if spec.preset.endswith(end)]
    return Method(family, ends[0] if ends else "VA", spec.name)


def paper_table(
    study: Study,
    lines: Sequence[SeriesRuns],
    reading: Reading,
    marks: Mapping[str, Sequence[float]] | None = None,
) -> PaperTable:
    """The table of a study's lines; `marks` are the costs to read at, by the name of the price."""
    columns = [
        Column(model.name, tariff, at)
        for model in study.models
        for tariff in study.tariffs
        for at in (marks or {}).get(tariff.name, (None,))
    ]
    rows = sorted(methods(study), key=lambda method: _order(study, method))
    found = {(r.line.attack.name, r.line.model.name, r.line.tariff.name): r for r in lines}
    cells: list[list[Median | None]] = []
    for method in rows:
        each = (found[method.attack, column.model, column.tariff.name] for column in columns)
        cells.append([_cell(runs, c, reading) for runs, c in zip(each, columns, strict=True)])
    return PaperTable(columns, rows, cells)


def _order(study: Study, method: Method) -> tuple[int, int]:
    """Families as they come first in the study; their methods as they come."""
    placed = methods(study)
    families = list(dict.fromkeys(each.family for each in placed))
    return families.index(method.family), placed.index(method)


def _cell(runs: SeriesRuns, column: Column, reading: Reading) -> Median | None:
    if not runs.runs:
        return None
    return median_at(runs.runs, column.mark, column.by, reading)
