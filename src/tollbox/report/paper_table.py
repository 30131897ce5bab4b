"""The table in the paper's form: a row per attack and method, a column per model and price.

1. The preset of an attack determines its row. If a preset is used more than once, or its fields are
   changed, the attack's own name is shown as the method.
2. In each column the smallest median is marked, and so is every other that is not significantly
   different from it (`statistics.significantly_different`). With `separate_own`, the other attacks
   are marked as if tollbox's own were absent.
3. A price may have several columns, each at a different cost, all from the same runs.
4. The best of all attacks (`runs.best_runs`) is not an attack: it has no mark and no rank.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..attacks.presets import Kind, Method
from ..core.metric import Metric
from ..core.result import By
from ..studies.specs import Tariff
from ..studies.study import Study
from .runs import SeriesRuns, best_runs
from .statistics import Median, median_at, significantly_different

Escape = Callable[[str], str]
BEST_OF_ALL = "best of all attacks"
BEST_OF_ALL_NOTE = "for each image, if the attacker knew which to use"


def price_label(
    tariff: Tariff, template: str = "c* = {}", infinite: str = "∞", escape: Escape = str
) -> str:
    """Return a price as text: c* = 100, the number of priced classes, or how it grows."""
    prices = tariff.prices
    if prices.classes is not None:
        return escape(f"{tariff.name}: per class ({len(prices.classes)} listed)")
    if prices.escalation is not None:
        return escape(f"{tariff.name}: growing ({prices.escalation})")
    ratio = prices.source / prices.other if prices.other else math.inf
    name = "" if tariff.name == f"{ratio:g}" else escape(f"{tariff.name}: ")
    return name + template.format(infinite if math.isinf(ratio) else f"{ratio:g}")


class TableRow(NamedTuple):
    family: str
    words: str
    """The method in words, or the attack's own name (rule 1)."""
    attack: str
    method: Method | None
    """The preset's method; None if fields of the preset are changed."""
    kind: Kind | None
    cells: Sequence[Median | None] = ()
    """Medians by column; None where no run is finished."""


class TableColumn(NamedTuple):
    """A model and a price, at one cost."""

    model: str
    tariff: Tariff
    at: float | None = None
    """The cost; None for the budget or the maximum number of queries."""

    @property
    def mark(self) -> float:
        """The cost of the column: `at`, or the smaller of budget and maximum number of queries."""
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
    columns: list[TableColumn]
    rows: list[TableRow]
    norm: Metric = Metric.L2
    of_all: Sequence[TableRow] = ()
    """The row for the best of all attacks; empty if it is not shown."""


def rows_of(study: Study) -> list[TableRow]:
    """Return a row per attack, grouped by family; families are in order of their first attack."""
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
    marks: Mapping[str, Sequence[float]] | None = None,
    separate_own: bool = False,
) -> PaperTable:
    """Return the table of a study; `marks` maps a price to the costs of its columns."""
    columns = [
        TableColumn(model.name, tariff, at)
        for model in study.models
        for tariff in study.tariffs
        for at in (marks or {}).get(tariff.name, (None,))
    ]
    rows = rows_of(study)
    own = {n for n, row in enumerate(rows) if separate_own and row.kind is Kind.OWN}
    by_name = {(r.attack, r.model, r.price): r for r in all_series}
    by_column = []
    for column in columns:
        series = [by_name[row.attack, column.model, column.tariff.name] for row in rows]
        cells = [median_at(s.runs, column.mark, column.by) if s.runs else None for s in series]
        medians = {n: cell.value for n, cell in enumerate(cells) if cell is not None and cell.runs}
        best = _best(medians, series, column)
        if own:
            others = {n: value for n, value in medians.items() if n not in own}
            best = best & own | _best(others, series, column)
        by_column.append([c and c._replace(best=n in best) for n, c in enumerate(cells)])
    by_row = zip(rows, zip(*by_column, strict=True), strict=True)
    return PaperTable(columns, [row._replace(cells=cells) for row, cells in by_row], study.norm)


def _best(
    medians: Mapping[int, float], series: Sequence[SeriesRuns], column: TableColumn
) -> set[int]:
    """Return the rows in `medians` that are marked (rule 2)."""
    least = min(medians, key=medians.__getitem__, default=None)
    if least is None or len(medians) == 1 or math.isinf(medians[least]):
        return set()
    smallest, where = series[least].runs, (column.mark, column.by)
    others = (n for n in medians if n != least)
    return {least} | {
        n for n in others if not significantly_different(smallest, series[n].runs, *where)
    }


def with_best_of_all(table: PaperTable, all_series: Sequence[SeriesRuns]) -> PaperTable:
    """Return the table with a row for the best of all attacks."""
    cells = []
    for column in table.columns:
        runs = best_runs(all_series, column.model, column.tariff.name)
        cells.append(median_at(runs, column.mark, column.by) if runs else None)
    return replace(table, of_all=[TableRow(BEST_OF_ALL, BEST_OF_ALL_NOTE, "", None, None, cells)])
