"""The table in the paper's form: a row per attack and method, a column per model and price.

1. The preset of an attack determines its row. If a preset is used more than once, or its fields are
   changed, the attack's own name is shown as the method.
2. In each column the smallest median is marked, and every other that is not significantly different
   from it (`statistics.significantly_different`). With `separate_own`, tollbox's own attacks do not
   take the mark away from the others.
3. A price may have several columns, each at a different cost, all from the same runs.
4. "Best of all attacks" is the smallest distance that any attack reached on each image at each
   cost, as if the attacker knew which attack to use. It is not an attack: it has no mark and no
   rank. It needs the runs of all attacks on an image with a seed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..attacks.presets import Kind, Method
from ..core.metric import Metric
from ..core.result import By, Values
from ..studies.specs import Tariff
from ..studies.study import Study
from .distance_rule import DistanceRule
from .runs import CellCurve, SeriesRuns
from .statistics import Mark, Median, median_at, significantly_different

BEST_OF_ALL = "best of all attacks"
BEST_OF_ALL_NOTE = "for each image, if the attacker knew which to use"


def price_label(tariff: Tariff) -> str:
    """Return a price for a reader: c* = 100, the number of priced classes, or how it grows."""
    name, ratio = price_parts(tariff)
    return name + (f"c* = {ratio}" if ratio else "")


def price_parts(tariff: Tariff) -> tuple[str, str]:
    """Return the text before c*, and c*, which is empty for prices per class or growing prices."""
    prices = tariff.prices
    if prices.classes is not None:
        return f"{tariff.name}: per class ({len(prices.classes)} listed)", ""
    if prices.escalation is not None:
        return f"{tariff.name}: growing ({prices.escalation})", ""
    ratio = prices.source / prices.other if prices.other else math.inf
    name = "" if tariff.name == f"{ratio:g}" else f"{tariff.name}: "
    return name, "∞" if math.isinf(ratio) else f"{ratio:g}"


class TableRow(NamedTuple):
    """An attack in the table."""

    family: str
    words: str
    """The method, or the attack's own name if that says more."""
    attack: str
    method: Method | None
    """None if fields of the preset are changed."""
    kind: Kind


class TableColumn(NamedTuple):
    """A model and a price, at a cost."""

    model: str
    tariff: Tariff
    at: float | None = None
    """The cost; None for the budget."""

    @property
    def mark(self) -> float:
        """The cost of the column: `at`, the budget, or the maximum number of queries."""
        limits = self.tariff.limits
        return min(limits.budget, limits.max_queries) if self.at is None else self.at

    @property
    def by(self) -> By:
        """The unit of `mark`."""
        return "cost" if math.isfinite(self.tariff.limits.budget) else "queries"

    @property
    def head(self) -> str:
        return price_label(self.tariff)


@dataclass(frozen=True)
class PaperTable:
    """Medians by row and column; None where no run is finished."""

    columns: list[TableColumn]
    rows: list[TableRow]
    cells: list[list[Median | None]]
    best: list[list[bool]]
    """Whether each median is marked (rule 2)."""
    norm: Metric = Metric.L2
    of_all: Sequence[Median | None] = ()
    """Best of all attacks by column, if that is shown."""

    def only(self, columns: Sequence[int]) -> PaperTable:
        """Return the table with these columns alone."""
        return PaperTable(
            [self.columns[i] for i in columns],
            self.rows,
            [[cells[i] for i in columns] for cells in self.cells],
            [[best[i] for i in columns] for best in self.best],
            self.norm,
            [self.of_all[i] for i in columns] if self.of_all else (),
        )


def rows_of(study: Study) -> list[TableRow]:
    """Return the attacks of a study, families together, in the order of their first attack."""
    uses = Counter(spec.preset for spec in study.attacks)
    rows = []
    for spec in study.attacks:
        preset = spec.described
        named = uses[spec.preset] > 1 or spec.overrides or spec.name != spec.preset
        words = spec.name if named else preset.words
        method = None if spec.overrides else preset.method
        rows.append(TableRow(preset.family, words, spec.name, method, preset.method.kind))
    families = list(dict.fromkeys(row.family for row in rows))
    return sorted(rows, key=lambda row: families.index(row.family))


def paper_table(
    study: Study,
    all_series: Sequence[SeriesRuns],
    rule: DistanceRule,
    marks: Mapping[str, Sequence[float]] | None = None,
    separate_own: bool = False,
) -> PaperTable:
    """Return the table of a study; `marks` has the costs of the columns by price."""
    columns = [
        TableColumn(model.name, tariff, at)
        for model in study.models
        for tariff in study.tariffs
        for at in (marks or {}).get(tariff.name, (None,))
    ]
    rows = rows_of(study)
    by_name = {(r.attack, r.model, r.price): r for r in all_series}
    by_column = []
    for column in columns:
        mark = Mark(column.mark, column.by, rule)
        series = [by_name[row.attack, column.model, column.tariff.name] for row in rows]
        cells = [median_at(each.runs, *mark) if each.runs else None for each in series]
        best = _best(series, cells, mark)
        others = [n for n, row in enumerate(rows) if not separate_own or row.kind is not Kind.OWN]
        if len(others) < len(rows):
            among = _best([series[n] for n in others], [cells[n] for n in others], mark)
            for n, marked in zip(others, among, strict=True):
                best[n] = marked
        by_column.append((cells, best))
    return PaperTable(
        columns,
        rows,
        [[cells[n] for cells, _ in by_column] for n in range(len(rows))],
        [[best[n] for _, best in by_column] for n in range(len(rows))],
        study.norm,
    )


def _best(series: Sequence[SeriesRuns], medians: Sequence[Median | None], mark: Mark) -> list[bool]:
    known = {
        row: median.value
        for row, median in enumerate(medians)
        if median is not None and not math.isnan(median.value)
    }
    least = min(known, key=known.__getitem__, default=None)
    if least is None or len(known) == 1 or math.isinf(known[least]):
        return [False] * len(medians)
    smallest = series[least].runs
    return [
        row == least or (row in known and not significantly_different(smallest, each.runs, mark))
        for row, each in enumerate(series)
    ]


@dataclass(frozen=True)
class BestRun:
    """The runs of all attacks on one image."""

    image: int
    seed: int
    runs: Sequence[CellCurve]

    def at(self, marks: Values, by: By, rule: DistanceRule) -> Values:
        """Return the smallest distance at each mark."""
        return np.asarray(np.min([run.at(marks, by, rule) for run in self.runs], axis=0))


def with_best_of_all(
    table: PaperTable, all_series: Sequence[SeriesRuns], rule: DistanceRule
) -> PaperTable:
    """Return the table with the medians of the best of all attacks."""
    cells = []
    for column in table.columns:
        runs = best_runs(all_series, column.model, column.tariff.name)
        cells.append(median_at(runs, column.mark, column.by, rule) if runs else None)
    return replace(table, of_all=cells)


def best_runs(all_series: Sequence[SeriesRuns], model: str, price: str) -> list[BestRun]:
    """Return the best of all attacks on a model at a price; empty if only one attack has runs."""
    here = (s for s in all_series if (s.model, s.price) == (model, price))
    series = [{(run.image, run.seed): run for run in each.runs} for each in here if each.runs]
    if len(series) < 2:
        return []
    common = sorted(set.intersection(*(set(runs) for runs in series)))
    return [BestRun(*key, [runs[key] for runs in series]) for key in common]
