"""The results of an audit as plain data, for audit.json and the page.

1. Numbers are finite, with six significant digits. Infinity becomes None: no run reached the image,
   or no price is high enough. Nothing depends on when, or in how many sessions, the audit ran.
2. Only finished series count. The ranking over all budgets (`report/ranking.py`) counts each attack
   at the price that it planned with. If only flagged answers have a price, there is no budget to
   rank over.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.goal import class_words
from ..core.result import Values
from ..report.paper_table import TableColumn
from ..report.ranking import Estimate, first_cost, standings, times_of
from ..report.runs import SeriesRuns
from ..studies.grid import Series
from ..studies.specs import Tariff
from . import costs
from .costs import QUANTILES, Accounts, AuditRuns
from .criteria import Criteria, headline, steps
from .suite import FACTORS, QUERIES_FACTOR

FORMAT = 1
WORTHS = (100.0, 1000.0, 10_000.0, 100_000.0)
"""Worths of a changed image that are always reported."""
MARKS = 40
"""Number of log-spaced ε on a curve."""
REFERENCE = 100.0
"""Preferred price for finding the weakest images; the verdict reports it along with c* = 1."""
WEAKEST = 6


def number(value: float | None) -> float | int | None:
    """Return a number rounded to six digits, as an integer if it is whole; None if not finite."""
    if value is None or not math.isfinite(value):
        return None
    rounded = float(f"{value:.6g}")
    return int(rounded) if rounded.is_integer() else rounded


def price(ratio: float) -> float | int | str:
    """Return c* as a value for JSON; "inf" if it is infinite."""
    return "inf" if math.isinf(ratio) else number(ratio) or 0


def price_of(tariff: Tariff) -> float | int | str:
    return price(tariff.prices.true_ratio)


def share(which: Any) -> float:
    """Return the fraction of true values; 0 if there are none."""
    each = np.asarray(which)
    return round(float(each.mean()), 6) if each.size else 0.0


def series_key(series: Series) -> dict[str, Any]:
    return {"attack": series.attack.name, "price": price_of(series.tariff)}


def level_data(level: float, values: int) -> dict[str, Any]:
    return {"epsilon": number(level), "steps": number(steps(level, values))}


def audit_data(runs: AuditRuns, criteria: Criteria) -> dict[str, Any]:
    values, smallest, results = runs.values, runs.smallest, runs.results
    levels = criteria.levels(smallest, values)
    chosen = headline(levels, smallest)
    accounts = runs.accounts(levels)
    prices = prices_of(runs)
    worths = sorted({*WORTHS, *(() if criteria.worth is None else (float(criteria.worth),))})
    policy = criteria.policy
    misclassified = max((each.misclassified for each in runs.complete), default=None)
    return {
        "format": FORMAT,
        "model": results.study.name,
        "images": {
            "given": results.grid.images,
            "misclassified": misclassified,
            "measured": len(smallest),
            "shape": runs.settings["shape"],
            "values": values,
        },
        "criteria": criteria.to_json(),
        "suite": suite_data(runs),
        "left_out": [
            {**series_key(series), "finished": done, "cells": results.grid.width}
            for series, done in runs.left_out
        ],
        "levels": [
            {**level_data(level, values), "reached": share(smallest <= level)} for level in levels
        ],
        "failed": sum(run.stop.failed for run in runs.runs),
        "headline": chosen,
        "prices": [price(each) for each in prices],
        "reference": price(reference_price(prices)),
        "costs": [
            {"level": level, "price": price(each), **_quantiles(costs.costs(at, each))}
            for level, at in enumerate(accounts)
            for each in prices
        ],
        "policy": policy
        and [
            {"level": level, **_quantiles(costs.policy_costs(at, policy.prices))}
            for level, at in enumerate(accounts)
        ],
        "flagged": [
            {"level": level, **_quantiles(costs.costs(at, math.inf))}
            for level, at in enumerate(accounts)
        ],
        "break_even": [
            {"level": level, "worth": number(worth), **_break_even(at, worth)}
            for level, at in enumerate(accounts)
            for worth in worths
        ],
        "curves": _curves(runs, levels, prices, criteria),
        "runs": [_series(each, accounts[chosen], n) for n, each in enumerate(runs.complete)],
        "ranking": _ranking(runs),
        "cheapest": _cheapest(runs, accounts[chosen], prices),
        "weakest": _weakest(runs, accounts[chosen], prices),
        "environment": dataclasses.asdict(results.record.environment),
        "digest": results.digest,
    }


def prices_of(runs: AuditRuns) -> list[float]:
    """Return 1 and the prices that the attacks planned with, in ascending order."""
    ratios = (tariff.prices.true_ratio for tariff in runs.results.study.tariffs)
    return sorted({1.0, *ratios})


def reference_price(prices: Sequence[float]) -> float:
    """Return the finite price closest to `REFERENCE` on a log scale."""
    finite = [each for each in prices if math.isfinite(each)]
    return min(finite, key=lambda each: abs(math.log(max(each, 1e-9) / REFERENCE)))


def suite_data(runs: AuditRuns) -> dict[str, Any]:
    study = runs.results.study
    budgets = [
        {
            "price": price_of(tariff),
            "budget": number(tariff.limits.budget),
            "queries": number(tariff.limits.max_queries),
        }
        for tariff in study.tariffs
    ]
    return {
        "attacks": [attack.name for attack in study.attacks],
        "budget": number(runs.settings["budget"]),
        "budgets": budgets,
        "factors": {f"{ratio:g}": factor for ratio, factor in FACTORS.items()},
        "queries_factor": QUERIES_FACTOR,
        "seeds": list(study.seeds),
    }


def _quantile_rows(values: Values) -> list[dict[str, Any]]:
    found = zip(QUANTILES, costs.quantiles(values), strict=True)
    return [{"share": q, **_numbers(each)} for q, each in found]


def _numbers(found: Estimate) -> dict[str, Any]:
    return {"value": number(found.value), "low": number(found.low), "high": number(found.high)}


def _quantiles(values: Values) -> dict[str, Any]:
    return {"quantiles": _quantile_rows(values), "never": share(np.isinf(values))}


def _break_even(at: Accounts, worth: float) -> dict[str, Any]:
    prices = costs.break_even(at, worth)
    return {"quantiles": _quantile_rows(prices), "pays_at_1": share(prices >= 1)}


def _curves(
    runs: AuditRuns, levels: Sequence[float], prices: Sequence[float], criteria: Criteria
) -> dict[str, Any]:
    """Return quantiles of the cost at many ε, for each price."""
    smallest = runs.smallest[np.isfinite(runs.smallest)]
    if not len(smallest):
        return {"steps": [], "lines": []}
    low = max(float(np.quantile(smallest, 0.05)), levels[-1] / 1e3)
    spaced = np.geomspace(min(low, levels[0]), 4 * levels[-1], MARKS)
    marks = np.unique([*spaced, *levels]).tolist()
    at = runs.accounts(marks)

    def band(found: Sequence[Values]) -> dict[str, Any]:
        table = [[number(costs.quantile(each, q)) for each in found] for q in QUANTILES]
        return dict(zip(("low", "middle", "high"), table, strict=True))

    lines = [{"price": price(each), **band([costs.costs(a, each) for a in at])} for each in prices]
    if criteria.policy is not None:
        found = [costs.policy_costs(a, criteria.policy.prices) for a in at]
        lines.append({"policy": criteria.policy.name, **band(found)})
    named = [level_data(mark, runs.values) for mark in marks]
    return {key: [each[key] for each in named] for key in ("epsilon", "steps")} | {"lines": lines}


def _series(runs: SeriesRuns, at: Accounts, place: int) -> dict[str, Any]:
    found = at.costs(runs.series.tariff.prices.true_ratio)[:, place]
    phases: Counter[str] = Counter()
    for run in runs.runs:
        phases.update(run.phases)
    total, count = sum(phases.values()), len(runs.runs)
    queries, flagged = (sum(run.spent[by] for run in runs.runs) for by in ("queries", "source"))
    return {
        **series_key(runs.series),
        "runs": count,
        "queries": number(queries / count) if count else None,
        "flagged": number(flagged / count) if count else None,
        "distance": number(costs.quantile(at.distances[:, place], 0.5)),
        "reached": share(np.isfinite(found)),
        "cost": number(costs.quantile(found, 0.5)),
        "phases": {name: number(cost / total) for name, cost in phases.items()} if total else {},
    }


def _ranking(runs: AuditRuns) -> dict[str, Any]:
    results = runs.results
    [model] = results.study.models
    priced = [tariff for tariff in results.study.tariffs if math.isfinite(tariff.limits.budget)]
    columns = [TableColumn(model.name, tariff) for tariff in priced]
    found = standings(results, runs.complete, columns)

    def estimate(each: Estimate | None) -> dict[str, Any] | None:
        return None if each is None or not each.images else _numbers(each)

    return {
        "against": found.reference,
        "cap": found.cap_text,
        "costs": [
            {
                "price": price_of(column.tariff),
                "by": column.by,
                "first": number(first_cost(column.mark)),
                "last": number(column.mark),
            }
            for column in found.columns
        ],
        "standings": [
            {
                "attack": each.attack,
                "price": price_of(each.column.tariff),
                "G": estimate(each.ratios.get(found.reference)),
                "O": estimate(each.optimality),
            }
            for each in found.standings
        ],
    }


def times(runs: AuditRuns) -> list[Mapping[str, Any]]:
    """Return each finished series' seconds, summed over workers, and its queries per second."""
    found = times_of(runs.results, runs.complete)
    return [{"seconds": number(each), "speed": number(speed)} for each, speed in found]


def _cheapest(runs: AuditRuns, at: Accounts, prices: Sequence[float]) -> list[dict[str, Any]]:
    """Return the number of images for which each attack is the cheapest, at each price."""
    attacks = [each.attack for each in runs.complete]
    rows = []
    for each in prices:
        cheapest = Counter(
            attacks[int(np.argmin(line))] for line in at.costs(each) if np.isfinite(line).any()
        )
        rows.append({"price": price(each), "images": dict(sorted(cheapest.items()))})
    return rows


def _weakest(runs: AuditRuns, at: Accounts, prices: Sequence[float]) -> list[dict[str, Any]]:
    """Return the images that are cheapest to attack at the reference price, with those runs."""
    found = at.costs(reference_price(prices))
    least = found.min(axis=1, initial=math.inf)
    rows = []
    for row in np.argsort(least, kind="stable")[:WEAKEST]:
        if not math.isfinite(least[row]):
            break
        column = int(np.argmin(found[row]))
        series, image = runs.complete[column].series, at.images[row]
        content, label, name = runs.results.images[image]
        rows.append(
            {
                "image": image,
                "name": name,
                "content": content,
                "label": class_words(label, runs.results.record.class_names),
                "attack": series.attack.name,
                "planned": price_of(series.tariff),
                "cost": number(least[row]),
                "flagged": number(at.flagged[row, column]),
                "others": number(at.others[row, column]),
                "distance": number(at.distances[row, column]),
                "series": series.number,
            }
        )
    return rows


def price_fronts(at: Accounts) -> list[list[list[int]]]:
    """Return each image's Pareto front of accounts (flagged, others): no other can be cheapest."""
    fronts = []
    for flagged, others in zip(at.flagged, at.others, strict=True):
        front: list[list[int]] = []
        for f, o in sorted(zip(flagged, others, strict=True)):
            if math.isfinite(f) and (not front or o < front[-1][1]):
                front.append([int(f), int(o)])
        fronts.append(front)
    return fronts
