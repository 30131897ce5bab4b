"""The ranking over budgets as Markdown, CSV and LaTeX: G and O with their intervals, the range of
costs, and the time that each series took."""

from __future__ import annotations

import csv
import io
import math
import textwrap

from ..files.tables import plain_text
from .numbers import count, distance, interval
from .paper_table import TableColumn
from .ranking import Estimate, first_cost
from .standings import Standing, Standings
from .table_files import line, tex, tex_price

HEADS = ("attack", "G", "O", "images", "seconds", "queries/s")


NONE = Estimate(math.nan, math.nan, math.nan, 0)


def _range(column: TableColumn) -> str:
    """Costs from 500 to 10 000."""
    what = "costs" if column.by == "cost" else "queries"
    return f"{what} from {count(first_cost(column.mark))} to {count(column.mark)}"


def _told(estimate: Estimate | None) -> str:
    if estimate is None or not estimate.images:
        return "–"
    return f"{distance(estimate.value)} {interval(estimate.low, estimate.high)}"


def _time(standing: Standing) -> tuple[float | None, float | None]:
    return standing.seconds, standing.speed


def explanation(found: Standings) -> str:
    """What the numbers are, in a paragraph."""
    return (
        f"G: the part of {found.against}'s distance that an attack has, as a geometric mean over "
        "images and over costs that are equal ratios apart, paired; below 1 it is nearer. O: how "
        f"much of the way to the {found.best_known} it has come, image by image, on a log scale: 1 "
        "if it is there at every cost, 0 if it never finds an adversarial image. No adversarial "
        f"image counts as {found.cap.words}. In brackets 95 % intervals over images. Seconds are "
        "those of all engines together."
    )


def ranking_markdown(found: Standings) -> str:
    """A table for each model and price, the nearest attack first."""
    parts = [explanation(found)]
    for column in found.columns:
        rows = [
            [
                each.attack,
                _told(each.ratios.get(found.against)),
                _told(each.optimality),
                str(each.optimality.images),
                *("–" if value is None else distance(value) for value in _time(each)),
            ]
            for each in found.ranked(column)
        ]
        where = f"{column.model}, {column.head}, {_range(column)}:"
        rules = "|" + "---|" * len(HEADS)
        parts += [where, "\n".join([line([*HEADS]), rules, *map(line, rows)])]
    return "\n\n".join(parts) + "\n"


def ranking_csv(found: Standings) -> str:
    """A line for each attack, model and price."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(
        (
            *("attack", "model", "price", "by", "from", "to", "against"),
            *("G", "G_low", "G_high", "G_images", "O", "O_low", "O_high", "O_images"),
            *("cap", "seconds", "queries_per_second"),
        )
    )
    for column in found.columns:
        where = (column.model, column.tariff.name, column.by, first_cost(column.mark), column.mark)
        for each in found.ranked(column):
            ratio = each.ratios.get(found.against, NONE)
            numbers = (*ratio, *each.optimality, found.cap.value, *_time(each))
            writer.writerow(map(plain_text, (each.attack, *where, found.against, *numbers)))
    return file.getvalue()


def ranking_latex(found: Standings) -> str:
    """G and O, prices across; attacks in the order of the study."""
    columns = found.columns
    names = list(dict.fromkeys(each.attack for each in found.standings))
    lines = [f"% {words}" for words in textwrap.wrap(explanation(found), 98)]
    lines.append(rf"\begin{{tabular}}{{l{'cc' * len(columns)}}}")
    heads = [f"{tex(c.model)}, {tex_price(c.tariff)}" for c in columns]
    lines += [r"\toprule", "".join(rf" & \multicolumn{{2}}{{c}}{{{h}}}" for h in heads) + r" \\"]
    lines += [r"\textit{Attack}" + r" & $G$ & $O$" * len(columns) + r" \\", r"\midrule"]
    for name in names:
        cells = []
        for column in columns:
            here = (s for s in found.standings if (s.attack, s.column) == (name, column))
            each = next(here, None)
            pair = (
                (None, None) if each is None else (each.ratios.get(found.against), each.optimality)
            )
            cells += [tex(_told(value)).replace("–", "--") for value in pair]
        lines.append(" & ".join([tex(name), *cells]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"
