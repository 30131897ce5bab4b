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
from collections.abc import Iterable, Sequence
from functools import partial

from ..data.tables import plain_text
from ..studies.specs import Tariff
from .formatting import brackets, count, distance, percent, short_cost
from .paper_table import Escape, PaperTable, price_label
from .ranking import UNKNOWN, Estimate, Standings, first_cost
from .statistics import Median

ESCAPES = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        **{letter: rf"\{letter}" for letter in "{}&%$#_"},
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "∞": r"$\infty$",
        "–": "--",
        "\N{NARROW NO-BREAK SPACE}": r"\,",
    }
)


def markdown(table: PaperTable) -> str:
    """Return the table as Markdown, with intervals in brackets."""
    heads = [f"{c.model}, {c.head}, {short_cost(c.mark)}" for c in table.columns]
    cell = partial(_cell, bold="**{}**", rate=" ({})", ends=" [{}, {}]", escape=str)
    decimals = decimals_of(table)
    rows = [
        [row.family, row.words, *map(cell, row.cells, decimals)]
        for row in (*table.rows, *table.of_all)
    ]
    return _markdown_table(["attack", "method", *heads], rows) + "\n"


def _cell(
    median: Median | None, decimals: int, bold: str, rate: str, ends: str, escape: Escape
) -> str:
    """Return the text of a median; `bold`, `rate` and `ends` are templates."""
    if median is None or median.runs == 0:
        return escape("–")
    value, low, high = (escape(fixed(number, decimals)) for number in median[:3])
    value = bold.format(value) if median.best else value
    share = rate.format(escape(percent(median.success))) if median.success < 1 else ""
    return value + ends.format(low, high) + share


def _markdown_table(heads: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return "\n".join([line(heads), "|" + "---|" * len(heads), *map(line, rows)])


def decimals_of(table: PaperTable) -> list[int]:
    decimals = []
    for cells in zip(*(row.cells for row in table.rows), strict=True):
        values = [cell.value for cell in cells if cell is not None and 0 < cell.value < math.inf]
        middle = statistics.median(values or [1.0])
        decimals.append(max(0, 2 - math.floor(math.log10(middle))))
    return decimals


def fixed(value: float, decimals: int) -> str:
    """Return a distance with this number of decimals; ∞ if infinite, – if unknown."""
    return f"{value:.{decimals}f}" if math.isfinite(value) else distance(value)


def _csv(heads: str, rows: Iterable[Iterable[object]]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(heads.split())
    writer.writerows(map(plain_text, row) for row in rows)
    return file.getvalue()


def comma_separated(table: PaperTable) -> str:
    """Return the table as CSV, with a line for each method and column."""
    heads = "family method attack model price at median low high success runs images norm"
    rows = (
        (*row[:3], column.model, column.tariff.name, column.mark, *cell[:6], str(table.norm))
        for row in (*table.rows, *table.of_all)
        for column, cell in zip(table.columns, row.cells, strict=True)
        if cell is not None
    )
    return _csv(heads, rows)


def latex(table: PaperTable) -> str:
    """Return the table as LaTeX, in the form of the paper's Tables 1 to 3."""
    models = Counter(column.model for column in table.columns)
    prices = Counter((column.model, tex_price(column.tariff)) for column in table.columns)
    lines = [
        ["", "", *(_span(n, tex(model)) for model, n in models.items())],
        ["", "", *(price if n == 1 else _span(n, price) for (_, price), n in prices.items())],
        [r"\textit{Attack}", r"\textit{Method}", *(short_cost(c.mark) for c in table.columns)],
    ]
    cell = partial(_cell, bold=r"\textbf{{{}}}", rate=r" \small({})", ends="", escape=tex)
    decimals = decimals_of(table)
    sizes = Counter(row.family for row in table.rows)
    groups = []
    for family, n in sizes.items():
        rows = [row for row in table.rows if row.family == family]
        groups.append([["", tex(row.words), *map(cell, row.cells, decimals)] for row in rows])
        groups[-1][0][0] = rf"\multirow{{{n}}}{{*}}{{{tex(family)}}}"
    for row in table.of_all:
        groups.append([[_span(2, tex(row.family), "l"), *map(cell, row.cells, decimals)]])
    return _tabular("ll" + "c" * len(table.columns), [lines, *groups])


def _span(columns: int, text: str, align: str = "c") -> str:
    return rf"\multicolumn{{{columns}}}{{{align}}}{{{text}}}"


def _tabular(align: str, groups: Iterable[Iterable[Iterable[str]]]) -> str:
    """Return groups of lines of cells as LaTeX, with a rule before each group."""
    body = "\\midrule\n".join(
        "".join(" & ".join(line) + " \\\\\n" for line in group) for group in groups
    )
    head = rf"\begin{{tabular}}{{{align}}}"
    return f"{head}\n\\toprule\n{body}\\bottomrule\n\\end{{tabular}}\n"


def tex(text: str) -> str:
    return text.translate(ESCAPES)


def tex_price(tariff: Tariff) -> str:
    return price_label(tariff, r"$c^\star={}$", r"\infty", tex)


def _estimate(estimate: Estimate) -> str:
    if not estimate.images:
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
        rows = []
        for each in found.ranked(column):
            estimates = map(_estimate, (found.ratio(each), each.optimality))
            times = ("–" if t is None else distance(t) for t in (each.seconds, each.speed))
            rows.append([each.attack, *estimates, str(each.optimality.images), *times])
        unit = "costs" if column.by == "cost" else "queries"
        costs = f"{unit} from {count(first_cost(column.mark))} to {count(column.mark)}"
        heads = ("attack", "G", "O", "images", "seconds", "queries/s")
        parts += [f"{column.model}, {column.head}, {costs}:", _markdown_table(heads, rows)]
    return "\n\n".join(parts) + "\n"


def ranking_csv(found: Standings) -> str:
    """Return the ranking as CSV, with a line for each attack, model and price."""
    where = "attack model price by from to against"
    numbers = "G G_low G_high G_images O O_low O_high O_images cap seconds queries_per_second"
    rows: list[tuple[object, ...]] = []
    for column in found.columns:
        costs = column.by, first_cost(column.mark), column.mark
        for each in found.ranked(column):
            place = each.attack, column.model, column.tariff.name, *costs, found.reference
            estimates = *found.ratio(each), *each.optimality
            rows.append((*place, *estimates, found.cap, each.seconds, each.speed))
    return _csv(f"{where} {numbers}", rows)


def ranking_latex(found: Standings) -> str:
    """Return G and O as LaTeX, prices across, attacks in the order of the study."""
    columns = found.columns
    heads = [_span(2, f"{tex(c.model)}, {tex_price(c.tariff)}") for c in columns]
    by_place = {(each.attack, each.column): each for each in found.standings}
    body = []
    for name in dict.fromkeys(each.attack for each in found.standings):
        here = [by_place.get((name, column)) for column in columns]
        pairs = [(found.ratio(s), s.optimality) if s else (UNKNOWN, UNKNOWN) for s in here]
        body.append([tex(name), *(tex(_estimate(each)) for pair in pairs for each in pair)])
    head = [["", *heads], [r"\textit{Attack}", *("$G$", "$O$") * len(columns)]]
    comment = textwrap.indent(textwrap.fill(explanation(found), 98), "% ")
    return f"{comment}\n{_tabular('l' + 'cc' * len(columns), [head, body])}"
