"""Medians against cost and against flagged queries, as plain data for the page.

Curves are read at a few dozen marks, evenly spaced on a log axis, and rounded: a page of ten
thousand cells must stay small.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..core.result import By, Values
from . import statistics as medians
from .best_of_all import best_runs
from .numbers import rounded
from .paper_table import PaperTable, TableColumn
from .reading import Reading
from .runs import SeriesRuns

MARKS = 48


def key_of(runs: SeriesRuns) -> dict[str, str]:
    """What a series goes by on the page."""
    series = runs.series
    return {
        "model": series.model.name,
        "price": series.tariff.name,
        "attack": series.attack.name,
    }


def _axes(runs: SeriesRuns) -> tuple[By, ...]:
    """What its curves are drawn against."""
    flagged = any(run.spent["source"] > 0 for run in runs.runs)
    return ("cost", "source") if flagged else ("cost",)


def marks_of(runs: SeriesRuns, by: By) -> Values:
    """Marks from where the first run has a point to where the last ends."""
    firsts = [run.needs[by][0] for run in runs.runs if len(run.distances)]
    column = TableColumn(runs.series.model.name, runs.series.tariff)
    last = max(run.spent[by] for run in runs.runs)
    if by == "cost" and math.isfinite(column.tariff.limits.budget):
        last = column.tariff.limits.budget
    first = min([*firsts, last])
    if not first < last:
        return np.array([max(last, 1.0)])
    first = max(first, last / 1e6)
    return np.unique(np.append(np.geomspace(first, last, MARKS)[:-1], last))


def series_curves(all_series: Sequence[SeriesRuns], reading: Reading) -> Iterator[dict[str, Any]]:
    """Of every series that has runs."""
    for runs in all_series:
        for by in _axes(runs) if runs.runs else ():
            yield {**key_of(runs), "by": by, **_points(runs.runs, marks_of(runs, by), by, reading)}


def best_curves(
    all_series: Sequence[SeriesRuns], table: PaperTable, reading: Reading
) -> Iterator[dict[str, Any]]:
    """Of the best of all attacks, at each price on each model, where there are several."""
    for model, price in dict.fromkeys((c.model, c.tariff.name) for c in table.columns):
        runs = best_runs(all_series, model, price)
        where = {"model": model, "price": price}
        here = [s for s in all_series if s.runs and key_of(s).items() >= where.items()]
        for by in max(map(_axes, here), key=len) if runs else ():
            ends = [end for s in here for end in marks_of(s, by)[[0, -1]]]
            marks = np.unique(np.geomspace(min(ends), max(ends), MARKS))
            yield {**where, "by": by, **_points(runs, marks, by, reading)}


def _points(runs: Sequence[medians.Run], marks: Values, by: By, reading: Reading) -> dict[str, Any]:
    """Medians at marks, with their intervals."""
    low, middle, high = [], [], []
    table = medians.table_of(runs, marks, by, reading)
    images = np.array([run.image for run in runs])
    for column in table.T:
        known = ~np.isnan(column)
        middle.append(medians.median(column))
        ends = (
            medians.interval(column[known], images[known], draws=200)
            if known.any()
            else (math.nan, math.nan)
        )
        low.append(ends[0])
        high.append(ends[1])
    return {
        "x": [rounded(mark) for mark in marks],
        "y": [rounded(value) for value in middle],
        "low": [rounded(value) for value in low],
        "high": [rounded(value) for value in high],
    }
