"""An experiment's figure, or table, as files in the paper's form.

A figure is NAME.svg, NAME.pdf and NAME.png; a table NAME.md, NAME.csv and NAME.tex. What was run,
and how distances are read, stands in the title or the caption, which in LaTeX is a comment. What is
ours, and not of the paper, is marked in all of them.
"""

from __future__ import annotations

import dataclasses
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from ..attacks.preset import Kind
from ..report import figures, table_files
from ..report.distance_rule import DistanceRule
from ..report.formatting import counted
from ..report.paper_table import PaperTable, paper_table
from ..report.runs import series_of
from ..report.summary import notes
from ..studies.results import StudyResults
from . import comparison, concept_pictures, low_cost_share, m_sweep, search_cost, search_picture
from . import comparison as tradeoff
from .experiments import NOT_IN_THE_PAPER, Experiment, Scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURE, TABLE = ("svg", "pdf", "png"), ("md", "csv", "tex")
BOLD = "Bold: the best of a column, and all that is not told from it."
BOLD_APART = (
    "{} is ours, not in the paper. Bold: the best of the paper's rows in a column, and all of them "
    "that are not told from it, as if ours were not there; ours where it is the best of all rows, "
    "or not told from the best."
)
BRACKETS = "In brackets 95 % intervals over images."


def names_of(experiment: Experiment) -> frozenset[str]:
    """The files of an experiment."""
    return frozenset(
        f"{experiment.name}.{kind}" for kind in (TABLE if experiment.table else FIGURE)
    )


def write(
    experiment: Experiment,
    scale: Scale,
    results: StudyResults | None,
    reading: DistanceRule,
    folder: Path,
) -> None:
    """Write the files of an experiment; `results` is its study, if it has one."""
    if experiment.table and results is not None:
        for kind, text in tables(experiment, scale, results, reading).items():
            (folder / f"{experiment.name}.{kind}").write_text(text, encoding="utf-8")
    else:
        drawn = (
            picture(experiment) if results is None else figure(experiment, scale, results, reading)
        )
        figures.save(drawn, *(folder / f"{experiment.name}.{kind}" for kind in FIGURE))


def picture(experiment: Experiment) -> Figure:
    """A picture that has no study."""
    return {
        "search-picture": search_picture.draw,
        "concept-picture": concept_pictures.draw_agrest_and_search,
        "estimates-picture": concept_pictures.draw_estimates,
    }[experiment.name]()


def figure(
    experiment: Experiment, scale: Scale, results: StudyResults, reading: DistanceRule
) -> Figure:
    """The figure of a study."""
    title = f"{', '.join(_models(results))}; {counted(results.grid.images, 'image')}"
    if experiment.name == "tradeoff":
        ratio = results.study.tariffs[0].name
        return tradeoff.draw(
            results, experiment.level[scale], f"{title}; planned with c* = {ratio}"
        )
    read = (
        "iterates, which can move away again" if reading is DistanceRule.PAPER else "hard budgets"
    )
    if experiment.name == "stealthy":
        return comparison.by_price(results, reading, f"{title}; {read}")
    if experiment.name == "clip":
        ratio = results.study.tariffs[0].name
        head = f"{counted(results.grid.images, 'image')}; planned with c* = {ratio}; {read}"
        return comparison.by_model(results, reading, head)
    if experiment.name == "m-sweep":
        return m_sweep.draw(results, reading)
    drawn = {"search-cost": search_cost.draw, "low-cost-share": low_cost_share.draw}
    return drawn[experiment.name](results)


def tables(
    experiment: Experiment, scale: Scale, results: StudyResults, reading: DistanceRule
) -> dict[str, str]:
    """A table, by kind of file."""
    all_series = series_of(results)
    marks = experiment.marks.get(scale)
    table = _marked(paper_table(results.study, all_series, reading, marks, separate_own=True))
    caption = _caption(experiment, table, results, reading)
    remarks = textwrap.wrap(caption, 98)
    return {
        "md": _markdown(f"{caption} {BRACKETS}", table, notes(results, all_series)),
        "csv": table_files.comma_separated(table),
        "tex": "".join(f"% {line}\n" for line in remarks) + table_files.latex(table),
    }


def _marked(table: PaperTable) -> PaperTable:
    """The table, where each row that the paper does not have says so."""
    rows = [
        row._replace(words=f"{row.words}, {NOT_IN_THE_PAPER}") if row.kind is Kind.OWN else row
        for row in table.rows
    ]
    return dataclasses.replace(table, rows=rows)


def _caption(
    experiment: Experiment, table: PaperTable, results: StudyResults, reading: DistanceRule
) -> str:
    clean = "" if results.study.charge_clean else " The query of the clean image is not charged."
    ours = [row.family for row in table.rows if row.kind is Kind.OWN]
    bold = BOLD_APART.format(" and ".join(dict.fromkeys(ours))) if ours else BOLD
    return (
        f"{experiment.place}: median {table.norm.sign} distance. {', '.join(_models(results))}; "
        f"{counted(results.grid.images, 'image')}. Distances are {_read(reading)}.{clean} {bold} "
        "In parentheses the share of images with an adversarial point, where it is below 100 %."
    )


def _markdown(caption: str, table: PaperTable, remarks: list[str]) -> str:
    """Where a price has several costs, with a table for each price."""
    parts = [caption, *remarks]
    prices = list(dict.fromkeys((c.model, c.tariff.name) for c in table.columns))
    if len(prices) == len(table.columns):
        return "\n\n".join([*parts, table_files.markdown(table)])
    for price in prices:
        keep = [i for i, c in enumerate(table.columns) if (c.model, c.tariff.name) == price]
        parts.append(table_files.markdown(table.only(keep)))
    return "\n\n".join(parts)


def _read(reading: DistanceRule) -> str:
    if reading is DistanceRule.PAPER:
        return "those of the iterates, interpolated linearly (the paper's reading)"
    return "the best that was asked under a hard budget"


def _models(results: StudyResults) -> list[str]:
    return [model.name for model in results.study.models]
