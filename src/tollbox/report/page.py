"""The page of a report: its data, and one HTML file that contains everything it needs.

1. Text of a study is data. It is embedded as JSON that cannot close its tag, and the script of the
   page inserts it as text, never as markup.
2. The page fetches nothing, and its content policy forbids it. Charts use plotly's JavaScript
   (`plotly.js-basic-dist-min` 4.1.1: lines, points, bars), which `vendor/` ships with its licence.
3. Numbers have five digits; infinite and unknown ones are None (`rounded`).
4. Alarms of a detector are shown together with its alarms on benign sessions, since they mean
   nothing alone.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np

from ..core.result import By, Values
from ..studies.grid import Series
from ..studies.results import StudyResults
from ..studies.store.codec import End
from . import DistanceRule, statistics, summary
from .gallery import gallery
from .paper_table import PaperTable, TableColumn, TableRow, price_label
from .ranking import Estimate, Standings, first_cost
from .runs import MARKS, BestRun, CellCurve, SeriesRuns, best_runs, key_of

PLACE = re.compile(r"\{\{(\w+)\}\}")
GENERATOR = b'<meta name="generator" content="tollbox">'
"""Bytes near the start of every page that tollbox writes."""
LEVELS = tuple(float(f"{digit}e{decade}") for decade in range(-4, 2) for digit in (1, 2, 3, 5))
MOST_LEVELS = 6
ITERATIONS = 60
"""Maximum number of iterations in the chart of shares."""
STYLES = 6
"""Number of line styles on the page."""
MOST_ATTACKS = 0.8
"""Minimum number of points of the default level, relative to the level with the most points."""
BEFORE = 0.8
"""Start of the success curves, relative to the cost of the first point."""


def page(data: dict[str, Any]) -> str:
    return assemble(data, packaged("page.js"))


def assemble(data: dict[str, Any], script: str, css: str = "") -> str:
    """Return a page of this data; `script` and `css` are added to those that all pages share."""
    # JSON for a script element: ASCII, and no `<` that could close the element.
    text = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    parts = {
        "title": escape(data["title"]).encode("ascii", "xmlcharrefreplace").decode(),
        "css": packaged("page.css") + css,
        "data": text,
        "plotly": packaged("vendor/plotly-basic.min.js"),
        "script": packaged("shared.js") + script,
    }
    # In one pass, so that text of a part that looks like a placeholder stays as it is.
    return PLACE.sub(lambda place: parts[place[1]], packaged("page.html"))


def packaged(name: str, package: str = __package__) -> str:
    return files(package).joinpath(name).read_text("utf-8")


def rounded(value: Any) -> Any:
    """Return data with five digits in each float, and None for those that are not finite."""
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [rounded(each) for each in value]
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value


def page_data(
    results: StudyResults,
    rule: DistanceRule,
    all_series: Sequence[SeriesRuns],
    table: PaperTable,
    ranking: Standings,
) -> dict[str, Any]:
    """Return the data of a study's page."""
    study, record = results.study, results.record
    levels = levels_of(all_series)
    with_runs = [runs for runs in all_series if runs.runs]
    efforts = [
        rounded({**runs.key, "level": level, **statistics.effort(runs.runs, level)._asdict()})
        for runs in with_runs
        for level in levels
    ]
    data = {
        "title": study.name,
        "made": f"{datetime.date.today()}, tollbox {record.environment.tollbox}",
        "reading": rule.caption,
        "norm": str(study.norm),
        "summary": summary.summary(results, all_series, table),
        "notes": summary.notes(results, all_series),
        "models": [model.name for model in study.models],
        "prices": [
            {"name": tariff.name, "label": price_label(tariff), "budget": tariff.limits.budget}
            for tariff in study.tariffs
        ],
        "attacks": attack_styles(table.rows),
        "table": _table(table),
        "ranking": _ranking(ranking, [row.attack for row in table.rows]),
        "curves": [
            {**runs.key, "by": by, **_points(runs.runs, runs.marks(by), by)}
            for runs in with_runs
            for by in runs.axes
        ],
        "best": list(_best_curves(with_runs, table)),
        "levels": levels,
        "level": usual_level(levels, efforts),
        "tradeoff": efforts,
        "success": list(_success(with_runs, levels)),
        "phases": [{**runs.key, "phases": _phases(runs.runs)} for runs in with_runs],
        "alarms": alarms(results),
        "shares": [{**runs.key, **shares} for runs in with_runs if (shares := _shares(runs.runs))],
        "gallery": gallery(results, all_series, table),
        "environment": dataclasses.asdict(record.environment)
        | {f"model {name}": summary.model_settings(m) for name, m in record.models.items()}
        | {f"surrogate of {name}": word for name, word in results.surrogates.items()},
        "commands": summary.commands(results),
    }
    return dict(rounded(data))


def attack_styles(rows: Sequence[TableRow]) -> list[dict[str, Any]]:
    """Return the attacks with their line styles.

    A method has the same style in every family; an attack with changed fields, an unused one.
    """
    sizes = Counter(row.family for row in rows)
    methods = list(dict.fromkeys(r.method for r in rows if r.method and sizes[r.family] > 1))
    taken: set[tuple[str, int]] = set()
    styles: dict[str, int] = {}
    for row in sorted(rows, key=lambda row: row.method is None):
        usual = [methods.index(row.method)] if row.method in methods else []
        free = itertools.chain(usual, range(len(methods), STYLES), itertools.count())
        unused = (n for n in free if (row.family, n) not in taken)
        styles[row.attack] = 0 if sizes[row.family] == 1 else next(unused)
        taken.add((row.family, styles[row.attack]))
    return [
        {"name": row.attack, "family": row.family, "method": row.words, "kind": row.kind}
        | {"style": styles[row.attack]}
        for row in rows
    ]


def _column(column: TableColumn) -> dict[str, Any]:
    return {"model": column.model, "price": column.tariff.name, "by": column.by}


def _table(table: PaperTable) -> dict[str, Any]:
    def cells(row: TableRow) -> list[dict[str, Any] | None]:
        return [cell._asdict() if cell is not None and cell.runs else None for cell in row.cells]

    return {
        "columns": [{**_column(c), "label": c.head, "budget": c.mark} for c in table.columns],
        "rows": [
            {"family": row.family, "method": row.words, "attack": row.attack, "cells": cells(row)}
            for row in table.rows
        ],
        "best": [cell for row in table.of_all for cell in cells(row)],
    }


def _ranking(found: Standings, attacks: Sequence[str]) -> dict[str, Any]:
    """Return O of each series, and its G relative to each of the attacks in their order."""

    def known(estimate: Estimate | None) -> Estimate | None:
        return estimate if estimate is not None and estimate.images else None

    return {
        "against": found.reference,
        "cap": found.cap_text,
        "best": found.best_known,
        "ranges": [
            {**_column(c), "first": first_cost(c.mark), "last": c.mark} for c in found.columns
        ],
        "standings": [
            {
                **_column(each.column),
                "attack": each.attack,
                "ratios": [known(each.ratios.get(attack)) for attack in attacks],
                "optimality": known(each.optimality),
                "seconds": each.seconds,
                "speed": each.speed,
            }
            for each in found.standings
        ],
    }


def _best_curves(with_runs: Sequence[SeriesRuns], table: PaperTable) -> Iterator[dict[str, Any]]:
    """Yield curves of the best of all attacks, for each model and price with several attacks."""
    for model, price in dict.fromkeys((c.model, c.tariff.name) for c in table.columns):
        runs = best_runs(with_runs, model, price)
        here = [s for s in with_runs if (s.model, s.price) == (model, price)]
        for by in max((s.axes for s in here), key=len) if runs else ():
            ends = [end for s in here for end in s.marks(by)[[0, -1]]]
            marks = np.unique(np.geomspace(min(ends), max(ends), MARKS))
            yield {"model": model, "price": price, "by": by, **_points(runs, marks, by)}


def _points(runs: Sequence[CellCurve | BestRun], marks: Values, by: By) -> dict[str, Any]:
    medians = statistics.medians_at(runs, marks, by, draws=200)
    y, low, high = zip(*(median[:3] for median in medians), strict=True)
    return {"x": marks, "y": y, "low": low, "high": high}


def _success(with_runs: Sequence[SeriesRuns], levels: Sequence[float]) -> Iterator[dict[str, Any]]:
    """Yield the share of images within each level at each cost.

    All curves of a model and price start at 0, at a cost before any attack has a point.
    """
    firsts: dict[tuple[str, str], float] = {}
    for runs in with_runs:
        key = runs.model, runs.price
        firsts[key] = min(runs.marks("cost")[0], firsts.get(key, math.inf))
    for runs in with_runs:
        marks = np.append(BEFORE * firsts[runs.model, runs.price], runs.marks("cost"))
        for level in levels:
            rates = statistics.success(runs.runs, level, marks, "cost")
            yield {**runs.key, "level": level, "x": marks, "y": rates}


def usual_level(levels: Sequence[float], efforts: Sequence[dict[str, Any]]) -> float | None:
    """Return the smallest level reached by most of the attacks that reach any level."""
    points = Counter(each["level"] for each in efforts if each["queries"] is not None)
    enough = MOST_ATTACKS * max(points.values(), default=0)
    return next((level for level in sorted(levels) if points[level] >= enough), None)


def levels_of(all_series: Sequence[SeriesRuns]) -> list[float]:
    """Return round distances within the range of those that were reached."""
    final = [run.distances[-1] for runs in all_series for run in runs.runs if len(run.distances)]
    if not final:
        return []
    low, high = np.percentile(final, [10, 95])
    inside = [level for level in LEVELS if low <= level <= 2.5 * high]
    return inside[-MOST_LEVELS:] or [float(f"{np.median(final):.1g}")]


def _phases(runs: Sequence[CellCurve]) -> dict[str, float]:
    total: Counter[str] = Counter()
    for run in runs:
        total.update(run.phases)
    return {phase: cost / len(runs) for phase, cost in total.items()}


def _shares(runs: Sequence[CellCurve]) -> dict[str, Any]:
    """Return the planned and realised share of adversarial answers in each iteration."""
    longest = min(ITERATIONS, max(len(run.shares) for run in runs))
    means = [
        np.mean([run.shares[t] for run in runs if len(run.shares) > t], axis=0)
        for t in range(longest)
    ]
    if not means:
        return {}
    planned, realised = np.transpose(means)
    return {"t": list(range(1, longest + 1)), "planned": planned, "realised": realised}


def alarms(results: StudyResults) -> dict[str, Any] | None:
    """Return the alarms of each series and of benign sessions; None without a detector."""
    watch = results.record.detector
    if watch is None:
        return None
    by_series = defaultdict[Series, list[End]](list)
    for end in results.finished():
        if end.stop.attacked:
            by_series[results.grid.place(end.cell).series].append(end)
    rows = []
    for series, ends in by_series.items():
        firsts = [end.first_alarm for end in ends if end.first_alarm is not None]
        rows.append(
            {
                **key_of(series),
                "runs": len(ends),
                "share": len(firsts) / len(ends),
                "per_query": sum(e.alarms for e in ends) / max(1, sum(e.queries for e in ends)),
                "queries": float(np.median([f.queries for f in firsts])) if firsts else None,
                "flagged": float(np.median([f.flagged for f in firsts])) if firsts else None,
            }
        )
    benign = [
        {"model": name, "runs": s.all.sessions, "share": s.all.rate, "per_query": s.all.per_query}
        for name, s in watch.benign.items()
    ]
    return {"sentences": watch.sentences, "rows": rows, "benign": benign}
