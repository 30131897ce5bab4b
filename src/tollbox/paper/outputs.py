"""An experiment's figure, or table, as files in the paper's form.

A figure is NAME.svg, NAME.pdf and NAME.png; a table NAME.md, NAME.csv and NAME.tex. What was run,
and how distances are read, stands in the title or the caption.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..report import figures, table_files
from ..report.paper_table import PaperTable, paper_table
from ..report.runs import Reading, SeriesRuns, lines
from ..report.words import counted, notes
from ..studies.reading import StudyResults
from .experiments import Experiment, Scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURE, TABLE = ("svg", "pdf", "png"), ("md", "csv", "tex")


def names_of(made: Experiment) -> frozenset[str]:
    """The files of an experiment."""
    return frozenset(f"{made.name}.{kind}" for kind in (TABLE if made.table else FIGURE))


def write(
    made: Experiment, scale: Scale, found: StudyResults | None, reading: Reading, folder: Path
) -> None:
    """Write the files of an experiment; `found` is its study, if it has one."""
    if made.table and found is not None:
        for kind, text in tables(made, scale, found, reading).items():
            (folder / f"{made.name}.{kind}").write_text(text, encoding="utf-8")
    else:
        drawn = picture(made) if found is None else figure(made, scale, found, reading)
        figures.save(drawn, *(folder / f"{made.name}.{kind}" for kind in FIGURE))


def picture(made: Experiment) -> Figure:
    """A picture that has no study."""
    from . import concept_pictures, search_picture

    return {
        "search-picture": search_picture.draw,
        "concept-picture": concept_pictures.draw_agrest_and_search,
        "estimates-picture": concept_pictures.draw_estimates,
    }[made.name]()


def figure(made: Experiment, scale: Scale, found: StudyResults, reading: Reading) -> Figure:
    """The figure of a study."""
    from . import comparison, low_cost_share, m_sweep, search_cost, tradeoff

    title = f"{', '.join(_models(found))}; {counted(len(found.images), 'image')}"
    if made.name == "tradeoff":
        ratio = found.study.tariffs[0].name
        return tradeoff.draw(found, made.level[scale], f"{title}; planned with c* = {ratio}")
    read = "iterates, interpolated" if reading is Reading.PAPER else "hard budgets"
    if made.name == "stealthy":
        return comparison.by_price(found, reading, f"{title}; {read}")
    if made.name == "clip":
        ratio = found.study.tariffs[0].name
        head = f"{counted(len(found.images), 'image')}; planned with c* = {ratio}; {read}"
        return comparison.by_model(found, reading, head)
    if made.name == "m-sweep":
        return m_sweep.draw(found, reading)
    drawn = {"search-cost": search_cost.draw, "low-cost-share": low_cost_share.draw}
    return drawn[made.name](found)


def tables(made: Experiment, scale: Scale, found: StudyResults, reading: Reading) -> dict[str, str]:
    """A table, by kind of file."""
    every = list(lines(found))
    table = paper_table(found.study, every, reading, made.marks.get(scale))
    return {
        "md": _markdown(made, table, found, every, reading),
        "csv": table_files.comma_separated(table),
        "tex": table_files.latex(table),
    }


def _markdown(
    made: Experiment,
    table: PaperTable,
    found: StudyResults,
    every: list[SeriesRuns],
    reading: Reading,
) -> str:
    """With a caption; where a price has several costs, a table for each price."""
    clean = "" if found.study.charge_clean else " The query of the clean image is not charged."
    caption = (
        f"{made.place}: median l2 distance. {', '.join(_models(found))}; "
        f"{counted(len(found.images), 'image')}. Distances are {_read(reading)}.{clean} The best "
        "of each attack is bold; in brackets 95 % intervals over images; in parentheses the share "
        "of images with an adversarial point, where it is below 100 %."
    )
    parts = [caption, *notes(found, every)]
    prices = list(dict.fromkeys((c.model, c.tariff.name) for c in table.columns))
    if len(prices) == len(table.columns):
        return "\n\n".join([*parts, table_files.markdown(table)])
    for price in prices:
        keep = [i for i, c in enumerate(table.columns) if (c.model, c.tariff.name) == price]
        part = PaperTable(
            [table.columns[i] for i in keep],
            table.rows,
            [[cells[i] for i in keep] for cells in table.cells],
        )
        parts.append(table_files.markdown(part))
    return "\n\n".join(parts)


def _read(reading: Reading) -> str:
    if reading is Reading.PAPER:
        return "those of the iterates, interpolated linearly (the paper's reading)"
    return "the best that was asked under a hard budget"


def _models(found: StudyResults) -> list[str]:
    return [model.name for model in found.study.models]
