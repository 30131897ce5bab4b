"""Numbers as audit.json has them.

An audit's attacks over all budgets: G beside its first attack and O (`report/ranking.py`), each
at the price that it planned with; and, for the page alone, the time that they took.

Series count once they are finished, as everywhere in an audit: what is known of an image, and so O,
is of these alone. Where flagged answers alone cost something there is no budget to rank over.

An audit's answers as plain data: what audit.json holds, and what the page is made of.

Every number is finite, rounded to six digits; None is infinite: not reached by any run, or, of a
price, that no price is too high. Nothing in it depends on when or in how many goes it was run.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.goal import class_words
from ..core.result import Values
from ..report.paper_table import TableColumn
from ..report.ranking import Estimate, Standings, first_cost, standings, time_of
from ..report.reading import Reading
from ..report.runs import SeriesRuns
from . import answers
from .answers import QUANTILES, Quantile, Reached
from .evidence import Evidence
from .questions import Questions, headline, steps
from .suite import FACTORS, QUERIES_FACTOR


def number(value: float) -> float | int | None:
    """A finite number of six digits, whole if it is; None of what is not finite."""
    if value is None or not math.isfinite(value):
        return None
    rounded = float(f"{value:.6g}")
    return int(rounded) if rounded.is_integer() else rounded


def price(ratio: float) -> float | int | str:
    """c*, as JSON has it."""
    return "inf" if math.isinf(ratio) else number(ratio) or 0


def share(which: Any) -> float:
    """The share of what is true, 0 of nothing."""
    each = np.asarray(which)
    return round(float(each.mean()), 6) if each.size else 0.0


def over_budgets(evidence: Evidence) -> Standings:
    """Where the finished series stand."""
    results = evidence.results
    [model] = results.study.models
    priced = [tariff for tariff in results.study.tariffs if math.isfinite(tariff.limits.budget)]
    columns = [TableColumn(model.name, tariff) for tariff in priced]
    return standings(results, evidence.complete, columns, Reading.HARD)


def ranking_data(found: Standings) -> dict[str, Any]:
    """As audit.json has it: nothing in it depends on the time that anything took."""
    return {
        "against": found.against,
        "cap": found.cap.words,
        "costs": [
            {"price": price(column.tariff.prices.true_ratio), "by": column.by}
            | {"first": number(first_cost(column.mark)), "last": number(column.mark)}
            for column in found.columns
        ],
        "standings": [
            {"attack": each.attack, "price": price(each.column.tariff.prices.true_ratio)}
            | {"G": _estimate(each.ratios.get(found.against)), "O": _estimate(each.optimality)}
            for each in found.standings
        ],
    }


def times(evidence: Evidence) -> list[dict[str, Any]]:
    """Of each finished series the seconds of all engines together, and queries a second; None if
    that was not recorded."""
    seconds = evidence.results.seconds() or {}
    found = []
    for runs in evidence.complete:
        each = time_of(evidence.results, runs, seconds.get(runs.series.number))
        named = zip(("seconds", "speed"), each, strict=True)
        found.append({name: None if value is None else number(value) for name, value in named})
    return found


def _estimate(found: Estimate | None) -> dict[str, Any] | None:
    """None over no images."""
    if found is None or not found.images:
        return None
    return {n: number(v) for n, v in zip(("value", "low", "high"), found[:3], strict=True)}


FORMAT = 1
WORTHS = (100.0, 1000.0, 10_000.0, 100_000.0)
"""What a changed image may be worth, beside what is asked."""
MARKS = 40
"""ε at which the curves are read."""
REFERENCE = 100.0
"""The price that weakest images are found at, and that the verdict names beside 1."""
WEAKEST = 6


def audit_data(evidence: Evidence, questions: Questions) -> dict[str, Any]:
    """All answers, but for their words."""
    values, nearest = evidence.values, evidence.nearest
    levels = questions.levels(nearest, values)
    chosen = headline(levels, nearest)
    reached = evidence.reached(levels)
    at = [reached.at(level) for level in range(len(levels))]
    prices = prices_of(evidence)
    worths = sorted({*WORTHS, *(() if questions.worth is None else (float(questions.worth),))})
    return {
        "format": FORMAT,
        "model": evidence.name,
        "images": {
            "given": evidence.given,
            "misclassified": evidence.misclassified,
            "measured": len(reached.images),
            "shape": evidence.settings["shape"],
            "values": values,
        },
        "questions": questions.to_json(),
        "suite": suite_data(evidence),
        "left_out": [
            {"attack": series.attack.name, "price": price(series.tariff.prices.true_ratio)}
            | {"finished": done, "cells": evidence.results.grid.width}
            for series, done in evidence.left_out
        ],
        "levels": [
            {"epsilon": number(level), "steps": number(steps(level, values))}
            | {"reached": share(nearest <= level)}
            for level in levels
        ],
        "failed": evidence.failed,
        "headline": chosen,
        "prices": [price(each) for each in prices],
        "reference": price(reference_price(prices)),
        "costs": [
            _row(level, each, answers.costs(at[level], each))
            for level, each in ((level, each) for level in range(len(levels)) for each in prices)
        ],
        "policy": None
        if questions.policy is None
        else [
            {"level": level, **_quantiles(answers.policy_costs(at[level], questions.policy.prices))}
            for level in range(len(levels))
        ],
        "flagged": [
            {"level": level, **_quantiles(answers.flagged_answers(at[level]))}
            for level in range(len(levels))
        ],
        "break_even": [
            {"level": level, "worth": number(worth), **_break_even(at[level], worth)}
            for level in range(len(levels))
            for worth in worths
        ],
        "curves": curves(evidence, levels, prices, questions),
        "runs": [
            _series(runs, reached, place, chosen) for place, runs in enumerate(evidence.complete)
        ],
        "ranking": ranking_data(over_budgets(evidence)),
        "cheapest": _cheapest(evidence, at[chosen], prices),
        "weakest": weakest(evidence, at[chosen], prices),
        "environment": dataclasses.asdict(evidence.results.record.environment),
        "digest": evidence.results.digest,
    }


def prices_of(evidence: Evidence) -> list[float]:
    """The prices that were planned with, rising; at least that of equal answers."""
    ratios = (tariff.prices.true_ratio for tariff in evidence.results.study.tariffs)
    return sorted({1.0, *ratios})


def suite_data(evidence: Evidence) -> dict[str, Any]:
    """Attacks, prices and budgets, as they were run."""
    study = evidence.results.study
    return {
        "attacks": [attack.name for attack in study.attacks],
        "budget": number(evidence.settings["budget"]),
        "budgets": [
            {"price": price(tariff.prices.true_ratio), "budget": number(tariff.limits.budget)}
            | {"queries": number(tariff.limits.max_queries)}
            for tariff in study.tariffs
        ],
        "factors": {f"{ratio:g}": factor for ratio, factor in FACTORS.items()},
        "queries_factor": QUERIES_FACTOR,
        "seeds": list(study.seeds),
    }


def curves(
    evidence: Evidence, levels: Sequence[float], prices: Sequence[float], questions: Questions
) -> dict[str, Any]:
    """Quantiles of the cost at many ε, for each price."""
    nearest = evidence.nearest[np.isfinite(evidence.nearest)]
    if not len(nearest):
        return {"steps": [], "lines": []}
    low = max(float(np.quantile(nearest, 0.05)), levels[-1] / 1e3)
    marks = np.geomspace(min(low, levels[0]), 4 * levels[-1], MARKS)
    marks = np.unique([*marks, *levels])
    reached = evidence.reached([float(mark) for mark in marks])
    at = [reached.at(place) for place in range(len(marks))]
    lines = [
        {"price": price(each), **_band([answers.costs(a, each) for a in at])} for each in prices
    ]
    if questions.policy is not None:
        costs = [answers.policy_costs(a, questions.policy.prices) for a in at]
        lines.append({"policy": questions.policy.name, **_band(costs)})
    return {
        "epsilon": [number(float(mark)) for mark in marks],
        "steps": [number(steps(float(mark), evidence.values)) for mark in marks],
        "lines": lines,
    }


def _band(costs: Sequence[Values]) -> dict[str, Any]:
    table = [[number(answers.quantile(each, q)) for each in costs] for q in QUANTILES]
    return dict(zip(("low", "middle", "high"), table, strict=True))


def _row(level: int, at_price: float, costs: Values) -> dict[str, Any]:
    return {"level": level, "price": price(at_price), **_quantiles(costs)}


def _quantiles(costs: Values) -> dict[str, Any]:
    found = zip(QUANTILES, answers.quantiles(costs), strict=True)
    return {
        "quantiles": [_quantile(q, each) for q, each in found],
        "never": share(np.isinf(costs)),
    }


def _quantile(q: float, found: Quantile) -> dict[str, Any]:
    names = ("value", "low", "high")
    return {"share": q, **{n: number(v) for n, v in zip(names, found, strict=True)}}


def _break_even(at: Reached, worth: float) -> dict[str, Any]:
    prices = answers.break_even(at, worth)
    found = zip(QUANTILES, answers.quantiles(prices), strict=True)
    return {
        "quantiles": [_quantile(q, each) for q, each in found],
        "pays_at_1": share(prices >= 1),
    }


def _series(runs: SeriesRuns, reached: Reached, place: int, chosen: int) -> dict[str, Any]:
    """A row of the suite's table."""
    count, planned = len(runs.runs), runs.series.tariff.prices.true_ratio
    only = [place]
    own = Reached(
        reached.images,
        reached.flagged[:, only, chosen],
        reached.others[:, only, chosen],
        reached.distances[:, only],
    )
    costs = answers.costs(own, planned)
    phases: Counter[str] = Counter()
    for run in runs.runs:
        phases.update(run.phases)
    total = sum(phases.values())
    return {
        "attack": runs.series.attack.name,
        "price": price(planned),
        "runs": count,
        "queries": number(_mean([run.spent["queries"] for run in runs.runs])),
        "flagged": number(_mean([run.spent["source"] for run in runs.runs])),
        "distance": number(answers.quantile(own.distances.min(axis=1), 0.5)),
        "reached": share(np.isfinite(costs)),
        "cost": number(answers.quantile(costs, 0.5)),
        "phases": {name: number(cost / total) for name, cost in phases.items()} if total else {},
    }


def _cheapest(evidence: Evidence, at: Reached, prices: Sequence[float]) -> list[dict[str, Any]]:
    """For each price: how many of the images each attack is the cheapest for."""
    attacks = [runs.series.attack.name for runs in evidence.complete]
    rows = []
    for each in prices:
        with np.errstate(invalid="ignore"):
            cost = at.flagged if math.isinf(each) else at.others + each * at.flagged
        won: Counter[str] = Counter()
        for line in cost:
            if np.isfinite(line).any():
                won[attacks[int(np.argmin(line))]] += 1
        rows.append({"price": price(each), "images": dict(sorted(won.items()))})
    return rows


def weakest(evidence: Evidence, at: Reached, prices: Sequence[float]) -> list[dict[str, Any]]:
    """The images that are cheapest to change, by their cost at the reference price; with the run
    that is."""
    reference = reference_price(prices)
    costs = answers.costs(at, reference)
    order = [row for row in np.argsort(costs, kind="stable") if math.isfinite(costs[row])]
    names = evidence.results.record.class_names
    found = []
    for row in order[:WEAKEST]:
        each = at.others[row] + reference * at.flagged[row]
        column = int(np.argmin(each))
        runs, image = evidence.complete[column], at.images[row]
        content, label, name = evidence.results.images[image]
        found.append(
            {
                "image": image,
                "name": name,
                "content": content,
                "label": class_words(label, names),
                "attack": runs.series.attack.name,
                "planned": price(runs.series.tariff.prices.true_ratio),
                "cost": number(float(costs[row])),
                "flagged": number(float(at.flagged[row, column])),
                "others": number(float(at.others[row, column])),
                "distance": number(float(at.distances[row, column])),
                "series": runs.series.number,
            }
        )
    return found


def reference_price(prices: Sequence[float]) -> float:
    """The price that weakest images are found at: 100, or the finite one that is nearest to it."""
    finite = [each for each in prices if math.isfinite(each)]
    return min(finite, key=lambda each: abs(math.log(max(each, 1e-9) / REFERENCE)))


def accounts(at: Reached) -> list[list[list[int]]]:
    """For each image the accounts (flagged, others) that are cheapest at some price: fewer of the
    one, or of the other, than any other run's."""
    fronts = []
    for flagged, others in zip(at.flagged, at.others, strict=True):
        known = np.isfinite(flagged)
        pairs = sorted(
            {(int(f), int(o)) for f, o in zip(flagged[known], others[known], strict=True)}
        )
        front: list[list[int]] = []
        for f, o in pairs:
            if not front or o < front[-1][1]:
                front.append([f, o])
        fronts.append(front)
    return fronts


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else math.nan
