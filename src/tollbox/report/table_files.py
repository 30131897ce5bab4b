"""The paper's table as Markdown, CSV and LaTeX.

The best of a column is bold, and so is all that is not told from it; the share of runs with an
adversarial point is given where it is below 100 %, and an infinite median is ∞. All numbers of a
column have the same decimals: as many as give its middle median three digits. LaTeX needs booktabs
and multirow. The best of all attacks, where a table has it, is the last row, and never bold.

The ranking over budgets as Markdown, CSV and LaTeX: G and O with their intervals, the range of
costs, and the time that each series took.
"""

from __future__ import annotations

import csv
import io
import math
import statistics
import textwrap
from collections import Counter

from ..data.tables import plain_text
from ..studies.specs import Tariff
from . import best_of_all
from .numbers import count, distance, interval, percent
from .paper_table import PaperTable, TableColumn, price_words
from .ranking import Estimate, Standing, Standings, first_cost
from .statistics import Median
from .words import thousands

ESCAPES = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "∞": r"$\infty$",
    "\N{NARROW NO-BREAK SPACE}": r"\,",
}


def markdown(table: PaperTable, intervals: bool = True) -> str:
    """With intervals in brackets, unless they are not wanted."""
    heads = [
        "attack",
        "method",
        *(f"{c.model}, {c.head}, {thousands(c.mark)}" for c in table.columns),
    ]
    lines = [line(heads), "|" + "---|" * len(heads)]
    for row, method in enumerate(table.rows):
        columns = range(len(table.columns))
        cells = [_shown_cell(table, row, column, intervals) for column in columns]
        lines.append(line([method.family, method.words, *cells]))
    if table.of_all:
        cells = [
            _written(cell, False, decimals_of(table, column), intervals)
            for column, cell in enumerate(table.of_all)
        ]
        lines.append(line([best_of_all.NAME, best_of_all.WORDS, *cells]))
    return "\n".join(lines) + "\n"


def line(cells: list[str]) -> str:
    """A line of a table in Markdown."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _shown_cell(table: PaperTable, row: int, column: int, intervals: bool) -> str:
    cell, best = table.cells[row][column], table.best[row][column]
    return _written(cell, best, decimals_of(table, column), intervals)


def _written(cell: Median | None, best: bool, decimals: int, intervals: bool) -> str:
    if cell is None or cell.runs == 0:
        return "–"
    value = fixed(cell.value, decimals)
    value = f"**{value}**" if best else value
    rate = f" ({percent(cell.success)})" if cell.success < 1 else ""
    ends = [fixed(end, decimals) for end in (cell.low, cell.high)]
    return f"{value}{f' [{ends[0]}, {ends[1]}]' if intervals else ''}{rate}"


def decimals_of(table: PaperTable, column: int) -> int:
    """How many decimals the numbers of a column have."""
    cells = [cells[column] for cells in table.cells]
    values = [cell.value for cell in cells if cell is not None and 0 < cell.value < math.inf]
    return max(0, 2 - math.floor(math.log10(statistics.median(values)))) if values else 2


def fixed(value: float, decimals: int) -> str:
    """A distance; ∞ if there is none, – if it is not known."""
    return "∞" if math.isinf(value) else "–" if math.isnan(value) else f"{value:.{decimals}f}"


def comma_separated(table: PaperTable) -> str:
    """A line for each method and column."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    heads = ("family", "method", "attack", "model", "price", "at")
    values = ("median", "low", "high", "success", "runs", "images")
    writer.writerow((*heads, *values, "norm"))
    rows = [(method[:3], cells) for method, cells in zip(table.rows, table.cells, strict=True)]
    if table.of_all:
        rows.append(((best_of_all.NAME, best_of_all.WORDS, ""), list(table.of_all)))
    for names, cells in rows:
        for column, cell in zip(table.columns, cells, strict=True):
            if cell is not None:
                where = (column.model, column.tariff.name, column.mark)
                writer.writerow(map(plain_text, (*names, *where, *cell, str(table.norm))))
    return file.getvalue()


def latex(table: PaperTable) -> str:
    """In the form of the paper's Table 1, or, with several costs for a price, of Tables 2 and 3."""
    count = len(table.columns)
    lines = [rf"\begin{{tabular}}{{ll{'c' * count}}}", r"\toprule"]
    models = Counter(column.model for column in table.columns)
    spans = [rf"\multicolumn{{{n}}}{{c}}{{{tex(model)}}}" for model, n in models.items()]
    lines.append(" & & " + " & ".join(spans) + r" \\")
    prices = Counter((column.model, tex_price(column.tariff)) for column in table.columns)
    heads = [(price, n) for (_, price), n in prices.items()]
    each = [head if n == 1 else rf"\multicolumn{{{n}}}{{c}}{{{head}}}" for head, n in heads]
    lines.append(" & & " + " & ".join(each) + r" \\")
    marks = [thousands(column.mark) for column in table.columns]
    lines.append(r"\textit{Attack} & \textit{Method} & " + " & ".join(marks) + r" \\")
    before = ""
    for row, method in enumerate(table.rows):
        if method.family != before:
            size = sum(other.family == method.family for other in table.rows)
            lines.append(r"\midrule")
            first = rf"\multirow{{{size}}}{{*}}{{{tex(method.family)}}}"
        else:
            first = ""
        before = method.family
        cells = [
            _tex_cell(table.cells[row][column], table.best[row][column], decimals_of(table, column))
            for column in range(count)
        ]
        lines.append(" & ".join([first, tex(method.words), *cells]) + r" \\")
    if table.of_all:
        cells = [
            _tex_cell(cell, False, decimals_of(table, column))
            for column, cell in enumerate(table.of_all)
        ]
        names = [rf"\multicolumn{{2}}{{l}}{{{best_of_all.NAME}}}"]
        lines += [r"\midrule", " & ".join([*names, *cells]) + r" \\"]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def tex(text: str) -> str:
    """Text as LaTeX shows it literally."""
    return "".join(ESCAPES.get(letter, letter) for letter in text)


def tex_price(tariff: Tariff) -> str:
    """A price as LaTeX."""
    name, ratio = price_words(tariff)
    ratio = r"\infty" if ratio == "∞" else ratio
    return tex(name) + (rf"$c^\star={ratio}$" if ratio else "")


def _tex_cell(cell: Median | None, best: bool, decimals: int) -> str:
    if cell is None or cell.runs == 0:
        return "--"
    value = fixed(cell.value, decimals).replace("∞", r"$\infty$").replace("–", "--")
    value = rf"\textbf{{{value}}}" if best else value
    return value + (rf" \small({tex(percent(cell.success))})" if cell.success < 1 else "")


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
