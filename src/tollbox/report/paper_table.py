"""The table in the paper's form: attack and method down, model and price across, medians inside.

An attack of a study has its place by its preset; where the preset is used more than once, or fields
of it are changed, its own name is its method. In each column the least median is marked, and every
other that is not told from it (`statistics.told_apart`), whatever its family. Where attacks of our
own are set apart, the others are marked as if those were not there. A price may have several
columns, each read at a cost of its own, all from the same runs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..attacks.preset import Kind, Method
from ..core.metric import Metric
from ..core.result import By
from ..studies.specs import AttackSpec, Tariff
from ..studies.study import Study
from .reading import Reading
from .runs import SeriesRuns
from .statistics import Mark, Median, median_at, told_apart


def price_label(tariff: Tariff) -> str:
    """A price as a reader is told it: c* = 100, how many classes have a price, or how it grows."""
    name, ratio = price_words(tariff)
    return name + (f"c* = {ratio}" if ratio else "")


def price_words(tariff: Tariff) -> tuple[str, str]:
    """What stands before c*, if anything, and c* itself, which prices per class, or one that grows,
    do not have."""
    prices = tariff.prices
    if prices.classes is not None:
        return f"{tariff.name}: per class ({len(prices.classes)} listed)", ""
    if prices.escalation is not None:
        return f"{tariff.name}: growing ({prices.escalation})", ""
    ratio = prices.source / prices.other if prices.other else math.inf
    name = "" if tariff.name == f"{ratio:g}" else f"{tariff.name}: "
    return name, "∞" if math.isinf(ratio) else f"{ratio:g}"


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
        return (
            min(self.tariff.limits.budget, self.tariff.limits.max_queries)
            if self.at is None
            else self.at
        )

    @property
    def by(self) -> By:
        """What the mark counts."""
        return "cost" if math.isfinite(self.tariff.limits.budget) else "queries"

    @property
    def head(self) -> str:
        """The title of the column."""
        return price_label(self.tariff)


@dataclass(frozen=True)
class PaperTable:
    """Medians by method and column; None where nothing is finished."""

    columns: list[TableColumn]
    rows: list[TableRow]
    cells: list[list[Median | None]]
    best: list[list[bool]]
    """Whether a median is the least of its column, or not told from it. Where our own attacks are
    set apart: theirs as always, any other if it is so among the others."""
    norm: Metric = Metric.L2
    """What the medians are in."""
    of_all: Sequence[Median | None] = ()
    """By column, the best of all attacks (`best_of_all.py`), where that is shown."""

    def only(self, columns: Sequence[int]) -> PaperTable:
        """The table with these columns alone."""
        return PaperTable(
            [self.columns[i] for i in columns],
            self.rows,
            [[cells[i] for i in columns] for cells in self.cells],
            [[best[i] for i in columns] for best in self.best],
            self.norm,
            [self.of_all[i] for i in columns] if self.of_all else (),
        )


def rows_of(study: Study) -> list[TableRow]:
    """The attacks of a study, families together, in the order in which they first come."""
    uses = Counter(spec.preset for spec in study.attacks)
    rows = [_row(spec, uses[spec.preset] > 1) for spec in study.attacks]
    families = list(dict.fromkeys(row.family for row in rows))
    return sorted(rows, key=lambda row: families.index(row.family))


def _row(spec: AttackSpec, used_twice: bool) -> TableRow:
    preset = spec.described
    named = used_twice or spec.overrides or spec.name != spec.preset
    words = spec.name if named else preset.words
    method = None if spec.overrides else preset.method
    return TableRow(preset.family, words, spec.name, method, preset.method.kind)


def paper_table(
    study: Study,
    all_series: Sequence[SeriesRuns],
    reading: Reading,
    marks: Mapping[str, Sequence[float]] | None = None,
    own_apart: bool = False,
) -> PaperTable:
    """The table of a study's series; `marks` are the costs to read at, by the name of the price.
    With `own_apart` attacks of our own do not take a mark away from the others."""
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
    series = [
        [by_name[row.attack, column.model, column.tariff.name] for column in columns]
        for row in rows
    ]
    cells = [
        [_cell(runs, c, reading) for runs, c in zip(each, columns, strict=True)] for each in series
    ]
    others = [n for n, row in enumerate(rows) if not own_apart or row.kind is not Kind.OWN]
    by_column = []
    for i, column in enumerate(columns):
        mark = _mark(column, reading)
        best = _best([each[i] for each in series], [each[i] for each in cells], mark)
        if len(others) < len(rows):
            among = _best([series[n][i] for n in others], [cells[n][i] for n in others], mark)
            for n, marked in zip(others, among, strict=True):
                best[n] = marked
        by_column.append(best)
    best_rows = [list(row) for row in zip(*by_column, strict=True)]
    return PaperTable(columns, rows, cells, best_rows, study.norm)


def _mark(column: TableColumn, reading: Reading) -> Mark:
    return Mark(column.mark, column.by, reading)


def _cell(runs: SeriesRuns, column: TableColumn, reading: Reading) -> Median | None:
    return median_at(runs.runs, *_mark(column, reading)) if runs.runs else None


def _best(series: Sequence[SeriesRuns], medians: Sequence[Median | None], mark: Mark) -> list[bool]:
    """Of the rows of a column: the least median, and those that are not told from it."""
    known = {
        row: median.value
        for row, median in enumerate(medians)
        if median is not None and not math.isnan(median.value)
    }
    least = min(known, key=known.__getitem__, default=None)
    if least is None or len(known) == 1 or math.isinf(known[least]):
        return [False] * len(medians)
    nearest = series[least].runs
    return [
        row == least or (row in known and not told_apart(nearest, each.runs, mark))
        for row, each in enumerate(series)
    ]
