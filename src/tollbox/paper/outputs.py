"""Files with the figure or table of an experiment, in the paper's form.

1. A figure is NAME.svg, NAME.pdf and NAME.png; a table is NAME.md, NAME.csv and NAME.tex. The title
   or caption says what was run and, where it matters, the distance rule; in LaTeX it is a comment.
2. Figure 3 has a panel for each price, against the total cost, and a last one for c* = ∞. There the
   paper's attacks plan with the largest finite price, and only flagged queries count. Random
   numbers do not depend on the price, so this panel shows the runs at that price against their
   flagged queries.
3. Figure 7 has a panel for each model, against flagged queries. A budget is a cost, and attacks
   spend different shares of it on other answers. So the curves stop at different numbers of flagged
   queries; a run that has stopped keeps its last distance.
4. tollbox's own attacks are not in the paper. They are marked wherever they appear.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import textwrap
from pathlib import Path

import numpy as np

from ..attacks.presets import Kind
from ..core.result import By
from ..report import DistanceRule, figures, table_files
from ..report.axes import Figure
from ..report.curves import Curve, CurvePanel, draw_curves
from ..report.formatting import counted
from ..report.paper_table import PaperTable, paper_table
from ..report.runs import SeriesRuns, series_of
from ..report.statistics import distances_at, effort, median
from ..report.summary import notes
from ..report.tradeoff import TradeoffPoint, draw_tradeoff
from ..studies.results import StudyResults
from ..studies.specs import AttackSpec, Tariff
from . import operations
from .experiments import Experiment, Scale

NOT_IN_THE_PAPER = "not in the paper"
OWN = f"tollbox's own, {NOT_IN_THE_PAPER}"
"""Legend entry for tollbox's own attacks in figures."""
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
FIGURE, TABLE = ("svg", "pdf", "png"), ("md", "csv", "tex")
BOLD = "Bold marks the smallest median of {}, and every other that is not significantly different."
OWN_ROWS = (
    "{0} is tollbox's own, not in the paper. {1} {0} is bold if it has the smallest median of all "
    "rows, or is not significantly different from it."
)


def attack_name(spec: AttackSpec) -> str:
    """Return the attack's title (A-HSJA, or Frugal (tollbox)), or the name that the study gives."""
    name = spec.described.title if spec.name == spec.preset else spec.name
    return f"{name} (tollbox)" if is_own(spec) else name


def is_own(spec: AttackSpec) -> bool:
    """Return whether the attack is tollbox's own, and so not in the paper."""
    return spec.described.method.kind is Kind.OWN


def price_name(tariff: Tariff) -> str:
    """Return c* = 5, c* = 10⁴ or c* = ∞; a name that the study gives replaces the number."""
    if tariff.name == "inf":
        return "c* = ∞"
    plain = tariff.name == f"{tariff.prices.ratio:g}"
    return f"c* = {number(tariff.prices.ratio) if plain else tariff.name}"


def number(ratio: float) -> str:
    """Return a ratio as text: 5, 300 or 10⁵."""
    power = math.log10(ratio) if ratio > 0 else math.nan
    if power >= 2 and power == round(power):
        return f"10{str(round(power)).translate(RAISED)}"
    return f"{ratio:g}"


def by_price(results: StudyResults, rule: DistanceRule, title: str) -> Figure:
    """Draw Figure 3."""
    all_series, prices = series_of(results, rule), results.study.tariffs
    panels = []
    for tariff in prices:
        chosen = [runs for runs in all_series if runs.series.tariff == tariff]
        panels.append(_panel(chosen, price_name(tariff), "cost"))
    head = f"c* = ∞, planned with {number(prices[-1].prices.ratio)}"
    panels.append(_panel(chosen, head, "source"))
    return draw_curves(panels, title, "total cost per image", steps=rule is DistanceRule.HARD)


def by_model(results: StudyResults, rule: DistanceRule, title: str) -> Figure:
    """Draw Figure 7."""
    all_series = series_of(results, rule)
    panels = [
        _panel([r for r in all_series if r.series.model == model], model.name, "source")
        for model in results.study.models
    ]
    return draw_curves(panels, title, steps=rule is DistanceRule.HARD)


def _panel(chosen: list[SeriesRuns], head: str, by: By) -> CurvePanel:
    curves = []
    for runs in chosen:
        if runs.runs:
            spec, marks = runs.series.attack, runs.marks(by)
            values = [median(column) for column in distances_at(runs.runs, marks, by).T]
            note = OWN if is_own(spec) else ""
            curves.append(Curve(attack_name(spec), marks, np.array(values), note=note))
    return CurvePanel(head, curves, "flagged queries per image" if by == "source" else None)


def points_of(results: StudyResults, level: float) -> list[TradeoffPoint]:
    points = []
    for runs in series_of(results):
        spec = runs.series.attack
        price = runs.price if len(results.study.tariffs) > 1 else ""
        each, kind = effort(runs.runs, level), spec.described.method.kind
        points.append(TradeoffPoint(attack_name(spec), price, kind, each.flagged, each.queries))
    return points


def tradeoff(results: StudyResults, level: float, title: str) -> Figure:
    """Draw Figure 1."""
    return draw_tradeoff(points_of(results, level), level, title, own=OWN)


def names_of(experiment: Experiment) -> frozenset[str]:
    kinds = TABLE if experiment.table else FIGURE
    return frozenset(f"{experiment.name}.{kind}" for kind in kinds)


def write(
    experiment: Experiment, scale: Scale, results: StudyResults, rule: DistanceRule, folder: Path
) -> None:
    if experiment.table:
        for kind, text in tables(experiment, scale, results, rule).items():
            (folder / f"{experiment.name}.{kind}").write_text(text, encoding="utf-8")
    else:
        drawn = figure(experiment, scale, results, rule)
        figures.save(drawn, *(folder / f"{experiment.name}.{kind}" for kind in FIGURE))


def figure(
    experiment: Experiment, scale: Scale, results: StudyResults, rule: DistanceRule
) -> Figure:
    images = counted(results.grid.images, "image")
    title = f"{_models(results)}; {images}"
    planned = f"planned with c* = {results.study.tariffs[0].name}"
    paper = rule is DistanceRule.PAPER
    distances = "iterates, which can move away again" if paper else "hard budgets"
    match experiment.name:
        case "tradeoff":
            return tradeoff(results, experiment.level[scale], f"{title}; {planned}")
        case "stealthy":
            return by_price(results, rule, f"{title}; {distances}")
        case "clip":
            return by_model(results, rule, f"{images}; {planned}; {distances}")
        case "m-sweep":
            return operations.draw_sweep(results, rule)
        case "search-cost":
            return operations.draw_search_costs(results)
        case _:
            return operations.draw_shares(results)


def tables(
    experiment: Experiment, scale: Scale, results: StudyResults, rule: DistanceRule
) -> dict[str, str]:
    all_series = series_of(results, rule)
    marks = experiment.marks.get(scale)
    table = paper_table(results.study, all_series, marks, separate_own=True)
    rows = [
        row._replace(words=f"{row.words}, {NOT_IN_THE_PAPER}") if row.kind is Kind.OWN else row
        for row in table.rows
    ]
    table = dataclasses.replace(table, rows=rows)
    caption = _caption(experiment, table, results, rule)
    parts = [f"{caption} Brackets are 95 % intervals over images.", *notes(results, all_series)]
    return {
        "md": "\n\n".join([*parts, *_markdown(table)]),
        "csv": table_files.comma_separated(table),
        "tex": textwrap.indent(textwrap.fill(caption, 98), "% ") + f"\n{table_files.latex(table)}",
    }


def _caption(
    experiment: Experiment, table: PaperTable, results: StudyResults, rule: DistanceRule
) -> str:
    clean = "" if results.study.charge_clean else " The query of the clean image is not charged."
    own = dict.fromkeys(row.family for row in table.rows if row.kind is Kind.OWN)
    bold = BOLD.format("the paper's rows in a column" if own else "a column")
    bold = OWN_ROWS.format(" and ".join(own), bold) if own else bold
    distances = (
        "those of the iterates, interpolated linearly (the paper's rule)"
        if rule is DistanceRule.PAPER
        else "the smallest found under a hard budget"
    )
    return (
        f"{experiment.place}: median {table.norm.sign} distance. {_models(results)}; "
        f"{counted(results.grid.images, 'image')}. Distances are {distances}.{clean} {bold} "
        "Parentheses show the share of images with an adversarial point if it is below 100 %."
    )


def _markdown(table: PaperTable) -> list[str]:
    """Return one table, or one for each model and price if any has several columns."""
    columns = table.columns
    prices = [(column.model, column.tariff) for column in columns]
    by_price = itertools.groupby(range(len(columns)), prices.__getitem__)
    groups = [list(group) for _, group in by_price]
    if len(groups) == len(columns):
        return [table_files.markdown(table)]
    parts = []
    for group in groups:
        rows = [row._replace(cells=[row.cells[n] for n in group]) for row in table.rows]
        part = dataclasses.replace(table, columns=[columns[n] for n in group], rows=rows)
        parts.append(table_files.markdown(part))
    return parts


def _models(results: StudyResults) -> str:
    return ", ".join(model.name for model in results.study.models)
