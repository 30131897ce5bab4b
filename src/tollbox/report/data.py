"""The ranking over budgets as plain data, for the page.

What a detector said of the queries of a study, beside what it says of harmless ones.

A row for each series, and, for each model, one of benign sessions: alarms mean nothing alone.

Floors: a CSV file of distances that are known to suffice, as a white-box attack finds them.

It has the columns image (the hash of its content, as in `cells.csv` and `images.txt`) and distance,
and model where the study has several. Images that the study has not are passed over.

What the page of a report shows, as plain data: every number finite, None for what is not.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..data.tables import rows_of, shortened
from ..errors import FileError
from ..studies.results import StudyResults
from ..studies.store.codec import End
from . import statistics as medians
from . import words
from .best_of_all import with_best_of_all
from .curve_data import best_curves, key_of, marks_of, series_curves
from .gallery import gallery
from .numbers import rounded
from .paper_table import PaperTable, TableRow, paper_table, price_label
from .ranking import Estimate, Standings, first_cost, standings
from .reading import Reading
from .runs import SeriesRuns, series_of


def ranking_data(found: Standings, attacks: Sequence[str]) -> dict[str, Any]:
    """Each series with its O, and its G beside each of the attacks, in their order."""
    return {
        "against": found.against,
        "cap": found.cap.words,
        "best": found.best_known,
        "ranges": [
            {
                "model": column.model,
                "price": column.tariff.name,
                "by": column.by,
                "first": rounded(first_cost(column.mark)),
                "last": rounded(column.mark),
            }
            for column in found.columns
        ],
        "standings": [
            {
                "model": each.column.model,
                "price": each.column.tariff.name,
                "attack": each.attack,
                "ratios": [_estimate(each.ratios.get(attack)) for attack in attacks],
                "optimality": _estimate(each.optimality),
                "seconds": rounded(each.seconds),
                "speed": rounded(each.speed),
            }
            for each in found.standings
        ],
    }


def _estimate(estimate: Estimate | None) -> list[float | None] | None:
    """Value, low, high, images; None over none."""
    if estimate is None or not estimate.images:
        return None
    return [*map(rounded, estimate[:3]), estimate.images]


def alarms(results: StudyResults) -> dict[str, Any] | None:
    """For the page; None if nobody watched."""
    watch = results.record.detector
    if watch is None:
        return None
    ends = defaultdict[int, list[End]](list)
    for end in results.finished():
        if end.stop.attacked:
            ends[results.grid.series_of(end.cell)].append(end)
    rows = [
        {
            "model": series.model.name,
            "price": series.tariff.name,
            "attack": series.attack.name,
            **_said(ends[series.number]),
        }
        for series in results.grid.series
        if ends[series.number]
    ]
    benign = [
        {
            "model": name,
            "runs": panel.all.sessions,
            "share": panel.all.rate,
            "per_query": panel.all.per_query,
        }
        for name, panel in watch.benign.items()
    ]
    return {"sentences": watch.sentences, "rows": rows, "benign": benign}


def _said(ends: list[End]) -> dict[str, Any]:
    firsts = [end.first_alarm for end in ends if end.first_alarm is not None]
    queries = sum(end.queries for end in ends)
    return {
        "runs": len(ends),
        "share": round(len(firsts) / len(ends), 4),
        "per_query": sum(end.alarms for end in ends) / max(1, queries),
        "queries": float(np.median([first.queries for first in firsts])) if firsts else None,
        "flagged": float(np.median([first.flagged for first in firsts])) if firsts else None,
    }


def read_floors(file: Path, results: StudyResults) -> dict[tuple[str, int], float]:
    """By model and image."""
    models = [model.name for model in results.study.models]
    numbers = {content: number for number, (content, _, _) in enumerate(results.images)}
    columns = ("image", "distance", "model") if len(models) > 1 else ("image", "distance")
    floors: dict[tuple[str, int], float] = {}
    for line, (image, text, *model) in rows_of(file, columns):
        where = f"{file}, line {line}"
        try:
            distance = float(text)
        except ValueError:
            distance = math.nan
        if not 0 < distance < math.inf:
            raise FileError(
                f"the distance is {shortened(text)!r}", expected="a number above 0", where=where
            )
        if model and model[0] not in models:
            raise FileError(
                f"the model is {shortened(model[0])!r}",
                expected=f"one of {', '.join(models)}",
                where=where,
            )
        if image in numbers:
            key = (model[0] if model else models[0]), numbers[image]
            floors[key] = min(distance, floors.get(key, math.inf))
    if not floors:
        raise FileError(
            f"{file} has no image of this study",
            expected="hashes of images, as `tollbox export` writes them",
        )
    return floors


LEVELS = tuple(float(f"{digit}e{decade}") for decade in range(-4, 2) for digit in (1, 2, 3, 5))
MOST_LEVELS = 6
ITERATIONS = 60
"""Of the plot of shares, at most."""
STYLES = 6
"""Kinds of line that the page has."""
MOST_ATTACKS = 0.8
"""Share of the points, over attacks and prices, that the usual level has."""
BEFORE = 0.8
"""Where success curves begin: this part of the cost of the first point."""


def page_data(
    results: StudyResults,
    reading: Reading = Reading.HARD,
    all_series: Sequence[SeriesRuns] | None = None,
    table: PaperTable | None = None,
    ranking: Standings | None = None,
) -> dict[str, Any]:
    """All that the page of a study shows; the others are parts of it, if they have been made."""
    study = results.study
    all_series = series_of(results) if all_series is None else all_series
    if table is None:
        table = with_best_of_all(paper_table(study, all_series, reading), all_series, reading)
    ranking = ranking or standings(results, all_series, table.columns, reading)
    levels = levels_of(all_series)
    efforts = [_effort(runs, level) for runs in all_series if runs.runs for level in levels]
    return {
        "title": study.name,
        "made": f"{datetime.date.today()}, tollbox {results.record.environment.tollbox}",
        "reading": reading.words,
        "norm": str(study.norm),
        "summary": words.summary(results, all_series, table),
        "notes": words.notes(results, all_series),
        "models": [model.name for model in study.models],
        "prices": [
            {
                "name": tariff.name,
                "label": price_label(tariff),
                "budget": rounded(tariff.limits.budget),
            }
            for tariff in study.tariffs
        ],
        "attacks": drawn_attacks(table.rows),
        "table": _table(table),
        "ranking": ranking_data(ranking, [row.attack for row in table.rows]),
        "curves": list(series_curves(all_series, reading)),
        "best": list(best_curves(all_series, table, reading)),
        "levels": levels,
        "level": usual_level(levels, efforts),
        "tradeoff": efforts,
        "success": [
            _success(runs, level, first, reading)
            for runs, first in zip(all_series, _firsts(all_series), strict=True)
            if runs.runs
            for level in levels
        ],
        "phases": [{**key_of(runs), "phases": _phases(runs)} for runs in all_series if runs.runs],
        "alarms": alarms(results),
        "shares": [shares for runs in all_series if (shares := _shares(runs)) is not None],
        "gallery": gallery(results, all_series, table),
        "environment": dataclasses.asdict(results.record.environment)
        | {f"model {name}": words.running(model) for name, model in results.record.models.items()}
        | {f"surrogate of {name}": word for name, word in results.surrogates.items()},
        "commands": words.commands(results),
    }


def drawn_attacks(rows: Sequence[TableRow]) -> list[dict[str, Any]]:
    """The attacks with how they are drawn where there are many: a style for each method, the same
    in every family, and for an attack that is no preset as it stands one that its family has
    free."""
    sizes = Counter(row.family for row in rows)
    methods = list(dict.fromkeys(r.method for r in rows if r.method and sizes[r.family] > 1))
    taken: dict[str, set[int]] = {family: set() for family in sizes}
    styles: dict[str, int] = {}
    for row in sorted(rows, key=lambda row: row.method is None):
        usual = [methods.index(row.method)] if row.method in methods else []
        free = itertools.chain(usual, range(len(methods), STYLES), itertools.count())
        style = 0 if sizes[row.family] == 1 else next(n for n in free if n not in taken[row.family])
        taken[row.family].add(style)
        styles[row.attack] = style
    return [
        {
            "name": row.attack,
            "family": row.family,
            "method": row.words,
            "kind": row.kind,
            "style": styles[row.attack],
        }
        for row in rows
    ]


def _table(table: PaperTable) -> dict[str, Any]:
    return {
        "columns": [
            {
                "model": column.model,
                "price": column.tariff.name,
                "label": column.head,
                "budget": rounded(column.mark),
                "by": column.by,
            }
            for column in table.columns
        ],
        "rows": [
            {
                "family": row.family,
                "method": row.words,
                "attack": row.attack,
                "cells": [
                    _cell(cell, table.best[number][column])
                    for column, cell in enumerate(table.cells[number])
                ],
            }
            for number, row in enumerate(table.rows)
        ],
        "best": [_cell(cell, False) for cell in table.of_all],
    }


def _cell(cell: medians.Median | None, best: bool) -> dict[str, Any] | None:
    if cell is None or cell.runs == 0:
        return None
    return {
        "value": rounded(cell.value),
        "low": rounded(cell.low),
        "high": rounded(cell.high),
        "success": round(cell.success, 4),
        "runs": cell.runs,
        "images": cell.images,
        "best": best,
    }


def _effort(runs: SeriesRuns, level: float) -> dict[str, Any]:
    effort = medians.effort(runs.runs, level)
    return {
        **key_of(runs),
        "level": level,
        "flagged": rounded(effort.flagged),
        "queries": rounded(effort.queries),
        "share": round(effort.share, 4),
    }


def _firsts(all_series: Sequence[SeriesRuns]) -> list[float]:
    """For each series a cost before any attack on its model, at its price, has a point."""

    def key(runs: SeriesRuns) -> tuple[str, str]:
        return runs.series.model.name, runs.series.tariff.name

    firsts: dict[tuple[str, str], float] = {}
    for runs in all_series:
        if runs.runs:
            firsts[key(runs)] = min(marks_of(runs, "cost")[0], firsts.get(key(runs), math.inf))
    return [BEFORE * firsts.get(key(runs), math.inf) for runs in all_series]


def _success(runs: SeriesRuns, level: float, first: float, reading: Reading) -> dict[str, Any]:
    """The share within the level at each cost; it begins at `first`, where it is 0."""
    marks = np.append(first, marks_of(runs, "cost"))
    rates = medians.success(runs.runs, level, marks, "cost", reading)
    return {
        **key_of(runs),
        "level": level,
        "x": [rounded(mark) for mark in marks],
        "y": [rounded(rate) for rate in rates],
    }


def usual_level(levels: Sequence[float], efforts: Sequence[dict[str, Any]]) -> float | None:
    """The smallest level at which most attacks have a point of those that have one at any level."""
    points = {
        level: sum(e["queries"] is not None for e in efforts if e["level"] == level)
        for level in levels
    }
    enough = MOST_ATTACKS * max(points.values(), default=0)
    return next((level for level in sorted(levels) if points[level] >= enough), None)


def levels_of(all_series: Sequence[SeriesRuns]) -> list[float]:
    """Round distances within the range of what was reached."""
    final = [run.distances[-1] for runs in all_series for run in runs.runs if len(run.distances)]
    if not final:
        return []
    low, high = np.percentile(final, [10, 95])
    inside = [level for level in LEVELS if low <= level <= 2.5 * high]
    return inside[-MOST_LEVELS:] or [float(f"{np.median(final):.1g}")]


def _phases(runs: SeriesRuns) -> dict[str, float]:
    """Mean cost of each phase, for one image."""
    total: dict[str, float] = {}
    for run in runs.runs:
        for phase, cost in run.phases.items():
            total[phase] = total.get(phase, 0.0) + cost
    return {phase: float(f"{cost / len(runs.runs):.4g}") for phase, cost in total.items()}


def _shares(runs: SeriesRuns) -> dict[str, Any] | None:
    """Planned and realised share of low-cost answers, by the number of the estimate."""
    longest = min(ITERATIONS, max((len(run.shares) for run in runs.runs), default=0))
    if longest == 0:
        return None
    planned, realised = [], []
    for t in range(longest):
        at = np.array([run.shares[t] for run in runs.runs if len(run.shares) > t])
        planned.append(round(float(at[:, 0].mean()), 5))
        realised.append(round(float(at[:, 1].mean()), 5))
    steps = list(range(1, longest + 1))
    return {**key_of(runs), "t": steps, "planned": planned, "realised": realised}
