"""The paper's table and the ranking over budgets as Markdown, CSV and LaTeX.

Bold marks the best of a column and every median that is not significantly different from it. The
share of runs with an adversarial point is shown if it is below 100 %. All numbers of a column have
the same number of decimals, so that its middle median has three digits. LaTeX needs booktabs and
multirow. The best of all attacks, if a table has it, is the last row and never bold.
"""

from __future__ import annotations

import csv
import io
import math
import statistics
import textwrap
from collections import Counter
from collections.abc import Iterable

from ..data.tables import plain_text
from ..studies.specs import Tariff
from .formatting import brackets, count, distance, percent, short_cost
from .paper_table import BEST_OF_ALL, BEST_OF_ALL_NOTE, PaperTable, price_parts
from .ranking import Estimate, Standings, first_cost
from .statistics import Median

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
    "–": "--",
    "\N{NARROW NO-BREAK SPACE}": r"\,",
}
UNKNOWN = Estimate(math.nan, math.nan, math.nan, 0)


def markdown(table: PaperTable, intervals: bool = True) -> str:
    """Return the table as Markdown, by default with intervals in brackets."""
    heads = [f"{c.model}, {c.head}, {short_cost(c.mark)}" for c in table.columns]

    def cell(median: Median | None, best: bool, decimals: int) -> str:
        if median is None or median.runs == 0:
            return "–"
        value, low, high = (fixed(number, decimals) for number in median[:3])
        value = f"**{value}**" if best else value
        rate = f" ({percent(median.success)})" if median.success < 1 else ""
        return f"{value}{f' [{low}, {high}]' if intervals else ''}{rate}"

    decimals = [decimals_of(table, column) for column in range(len(table.columns))]
    rows = [
        [row.family, row.words, *map(cell, cells, best, decimals)]
        for row, cells, best in zip(table.rows, table.cells, table.best, strict=True)
    ]
    if table.of_all:
        cells = map(cell, table.of_all, [False] * len(decimals), decimals)
        rows.append([BEST_OF_ALL, BEST_OF_ALL_NOTE, *cells])
    return _markdown_table(["attack", "method", *heads], rows) + "\n"


def _markdown_table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    heads = list(heads)
    return "\n".join([line(heads), "|" + "---|" * len(heads), *map(line, rows)])


def decimals_of(table: PaperTable, column: int) -> int:
    """Return the number of decimals of a column."""
    cells = [cells[column] for cells in table.cells]
    values = [cell.value for cell in cells if cell is not None and 0 < cell.value < math.inf]
    return max(0, 2 - math.floor(math.log10(statistics.median(values)))) if values else 2


def fixed(value: float, decimals: int) -> str:
    """Return a distance with this number of decimals; ∞ if infinite, – if unknown."""
    return "∞" if math.isinf(value) else "–" if math.isnan(value) else f"{value:.{decimals}f}"


def _csv(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows(map(plain_text, row) for row in rows)
    return file.getvalue()


def comma_separated(table: PaperTable) -> str:
    """Return the table as CSV, with a line for each method and column."""
    rows = [(method[:3], cells) for method, cells in zip(table.rows, table.cells, strict=True)]
    if table.of_all:
        rows.append(((BEST_OF_ALL, BEST_OF_ALL_NOTE, ""), list(table.of_all)))
    heads = ("family", "method", "attack", "model", "price", "at")
    values = ("median", "low", "high", "success", "runs", "images", "norm")
    return _csv(
        (*heads, *values),
        (
            (*names, column.model, column.tariff.name, column.mark, *cell, str(table.norm))
            for names, cells in rows
            for column, cell in zip(table.columns, cells, strict=True)
            if cell is not None
        ),
    )


def latex(table: PaperTable) -> str:
    """Return the table as LaTeX, in the form of the paper's Tables 1 to 3."""
    count = len(table.columns)
    models = Counter(column.model for column in table.columns)
    spans = [rf"\multicolumn{{{n}}}{{c}}{{{tex(model)}}}" for model, n in models.items()]
    prices = Counter((column.model, tex_price(column.tariff)) for column in table.columns)
    heads = [
        price if n == 1 else rf"\multicolumn{{{n}}}{{c}}{{{price}}}"
        for (_, price), n in prices.items()
    ]
    marks = [short_cost(column.mark) for column in table.columns]
    lines = [
        rf"\begin{{tabular}}{{ll{'c' * count}}}",
        r"\toprule",
        " & & " + " & ".join(spans) + r" \\",
        " & & " + " & ".join(heads) + r" \\",
        r"\textit{Attack} & \textit{Method} & " + " & ".join(marks) + r" \\",
    ]

    def cell(median: Median | None, best: bool, decimals: int) -> str:
        if median is None or median.runs == 0:
            return "--"
        value = tex(fixed(median.value, decimals))
        value = rf"\textbf{{{value}}}" if best else value
        return value + (rf" \small({tex(percent(median.success))})" if median.success < 1 else "")

    decimals = [decimals_of(table, column) for column in range(count)]
    sizes = Counter(row.family for row in table.rows)
    before = ""
    for row, medians, best in zip(table.rows, table.cells, table.best, strict=True):
        first = ""
        if row.family != before:
            lines.append(r"\midrule")
            first = rf"\multirow{{{sizes[row.family]}}}{{*}}{{{tex(row.family)}}}"
        before = row.family
        cells = map(cell, medians, best, decimals)
        lines.append(" & ".join([first, tex(row.words), *cells]) + r" \\")
    if table.of_all:
        cells = map(cell, table.of_all, [False] * count, decimals)
        name = rf"\multicolumn{{2}}{{l}}{{{BEST_OF_ALL}}}"
        lines += [r"\midrule", " & ".join([name, *cells]) + r" \\"]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def tex(text: str) -> str:
    """Return text that LaTeX shows literally."""
    return "".join(ESCAPES.get(letter, letter) for letter in text)


def tex_price(tariff: Tariff) -> str:
    name, ratio = price_parts(tariff)
    ratio = r"\infty" if ratio == "∞" else ratio
    return tex(name) + (rf"$c^\star={ratio}$" if ratio else "")


def _estimate(estimate: Estimate | None) -> str:
    if estimate is None or not estimate.images:
        return "–"
    return f"{distance(estimate.value)} {brackets(estimate.low, estimate.high)}"


def explanation(found: Standings) -> str:
    """Return a paragraph that explains the numbers of the ranking."""
    return (
        f"G is the attack's distance relative to {found.reference}: the geometric mean over the "
        "same images and over log-spaced costs. Below 1 the attack has the smaller distance. O "
        f"compares the attack with the {found.best_known} on each image, on a log scale: 1 if it "
        "has that distance at every cost, 0 if it never finds an adversarial image. A run without "
        f"an adversarial image counts as {found.cap_text}. Brackets are 95 % intervals over "
        "images. Seconds are summed over all workers."
    )


def ranking_markdown(found: Standings) -> str:
    """Return a Markdown table for each model and price, sorted by G."""
    parts = [explanation(found)]
    for column in found.columns:
        rows = [
            [
                each.attack,
                _estimate(each.ratios.get(found.reference)),
                _estimate(each.optimality),
                str(each.optimality.images),
                *(
                    "–" if value is None else distance(value)
                    for value in (each.seconds, each.speed)
                ),
            ]
            for each in found.ranked(column)
        ]
        unit = "costs" if column.by == "cost" else "queries"
        costs = f"{unit} from {count(first_cost(column.mark))} to {count(column.mark)}"
        heads = ("attack", "G", "O", "images", "seconds", "queries/s")
        parts += [f"{column.model}, {column.head}, {costs}:", _markdown_table(heads, rows)]
    return "\n\n".join(parts) + "\n"


def ranking_csv(found: Standings) -> str:
    """Return the ranking as CSV, with a line for each attack, model and price."""
    heads = (
        *("attack", "model", "price", "by", "from", "to", "against"),
        *("G", "G_low", "G_high", "G_images", "O", "O_low", "O_high", "O_images"),
        *("cap", "seconds", "queries_per_second"),
    )
    rows: list[tuple[object, ...]] = []
    for column in found.columns:
        where = (column.model, column.tariff.name, column.by, first_cost(column.mark), column.mark)
        for each in found.ranked(column):
            ratio = each.ratios.get(found.reference, UNKNOWN)
            numbers = (*ratio, *each.optimality, found.cap, each.seconds, each.speed)
            rows.append((each.attack, *where, found.reference, *numbers))
    return _csv(heads, rows)


def ranking_latex(found: Standings) -> str:
    """Return G and O as LaTeX, prices across, attacks in the order of the study."""
    columns = found.columns
    lines = [f"% {line}" for line in textwrap.wrap(explanation(found), 98)]
    lines.append(rf"\begin{{tabular}}{{l{'cc' * len(columns)}}}")
    heads = [f"{tex(c.model)}, {tex_price(c.tariff)}" for c in columns]
    lines += [r"\toprule", "".join(rf" & \multicolumn{{2}}{{c}}{{{h}}}" for h in heads) + r" \\"]
    lines += [r"\textit{Attack}" + r" & $G$ & $O$" * len(columns) + r" \\", r"\midrule"]
    for name in dict.fromkeys(each.attack for each in found.standings):
        cells = [tex(name)]
        for column in columns:
            here = (s for s in found.standings if (s.attack, s.column) == (name, column))
            each = next(here, None)
            ratio = None if each is None else each.ratios.get(found.reference)
            cells += [
                tex(_estimate(ratio)),
                tex(_estimate(None if each is None else each.optimality)),
            ]
        lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"
