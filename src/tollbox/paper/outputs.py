"""The figure or table of an experiment as files, in the paper's form.

A figure is NAME.svg, NAME.pdf and NAME.png; a table is NAME.md, NAME.csv and NAME.tex. The title or
caption says what was run and by which rule distances are measured; in LaTeX it is a comment.
tollbox's own attacks, which the paper does not have, are marked everywhere.
"""

from __future__ import annotations

import dataclasses
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from ..attacks.presets import Kind
from ..report import figures, table_files
from ..report.distance_rule import DistanceRule
from ..report.formatting import counted
from ..report.paper_table import PaperTable, paper_table
from ..report.runs import series_of
from ..report.summary import notes
from ..studies.results import StudyResults
from . import comparison, low_cost_share, m_sweep, search_cost
from .experiments import NOT_IN_THE_PAPER, Experiment, Scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURE, TABLE = ("svg", "pdf", "png"), ("md", "csv", "tex")
BOLD = (
    "Bold marks the smallest median of a column, and all that are not significantly different from "
    "it."
)
BOLD_SEPARATE = (
    "{0} is tollbox's own, not in the paper. Bold marks the smallest median of the paper's rows in "
    "a column, and all of them that are not significantly different from it. {0} is bold if it has "
    "the smallest median of all rows, or is not significantly different from it."
)


def names_of(experiment: Experiment) -> frozenset[str]:
    """Return the names of an experiment's files."""
    kinds = TABLE if experiment.table else FIGURE
    return frozenset(f"{experiment.name}.{kind}" for kind in kinds)


def write(
    experiment: Experiment, scale: Scale, results: StudyResults, rule: DistanceRule, folder: Path
) -> None:
    """Write the files of an experiment."""
    if experiment.table:
        for kind, text in tables(experiment, scale, results, rule).items():
            (folder / f"{experiment.name}.{kind}").write_text(text, encoding="utf-8")
    else:
        drawn = figure(experiment, scale, results, rule)
        figures.save(drawn, *(folder / f"{experiment.name}.{kind}" for kind in FIGURE))


def figure(
    experiment: Experiment, scale: Scale, results: StudyResults, rule: DistanceRule
) -> Figure:
    """Return the figure of an experiment."""
    images = counted(results.grid.images, "image")
    title = f"{_models(results)}; {images}"
    planned = f"planned with c* = {results.study.tariffs[0].name}"
    paper = rule is DistanceRule.PAPER
    distances = "iterates, which can move away again" if paper else "hard budgets"
    if experiment.name == "tradeoff":
        return comparison.draw(results, experiment.level[scale], f"{title}; {planned}")
    if experiment.name == "stealthy":
        return comparison.by_price(results, rule, f"{title}; {distances}")
    if experiment.name == "clip":
        return comparison.by_model(results, rule, f"{images}; {planned}; {distances}")
    if experiment.name == "m-sweep":
        return m_sweep.draw(results, rule)
    return {"search-cost": search_cost.draw, "low-cost-share": low_cost_share.draw}[
        experiment.name
    ](results)


def tables(
    experiment: Experiment, scale: Scale, results: StudyResults, rule: DistanceRule
) -> dict[str, str]:
    """Return the table of an experiment by kind of file."""
    all_series = series_of(results)
    marks = experiment.marks.get(scale)
    table = paper_table(results.study, all_series, rule, marks, separate_own=True)
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
    bold = BOLD_SEPARATE.format(" and ".join(own)) if own else BOLD
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
    """Return one table, or a table for each price if prices have several costs."""
    prices = list(dict.fromkeys((c.model, c.tariff.name) for c in table.columns))
    if len(prices) == len(table.columns):
        return [table_files.markdown(table)]
    columns = [
        [i for i, c in enumerate(table.columns) if (c.model, c.tariff.name) == price]
        for price in prices
    ]
    return [table_files.markdown(table.only(each)) for each in columns]


def _models(results: StudyResults) -> str:
    return ", ".join(model.name for model in results.study.models)
