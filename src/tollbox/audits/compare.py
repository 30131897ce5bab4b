"""The comparison of two audits: of two models, or of one model before and after hardening.

1. It covers the images, matched by content and label, that both models classify correctly.
2. At each ε and price, it is the ratio of the costs of attacking half of the images. The 95 %
   interval comes from draws of the same images for both audits. The difference is significant if
   the interval excludes 1 and there are at least six images.
3. Both sides use the same ε, the prices that both audits have, and the attacks that are finished in
   both, since more attacks would find lower costs. A sentence says if their suites differ.
4. If fewer than half of the images were reached on one side, there is no ratio.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.result import Values
from ..errors import InputError
from ..report.formatting import confidence, counted, distance
from ..report.statistics import FEWEST_IMAGES
from ..studies.grid import Series
from ..studies.results import StudyResults
from . import costs
from .costs import Accounts, AuditRuns, interval, quantile, rank
from .criteria import Criteria, headline
from .data import MARKS, level_data, number, price, prices_of, reference_price, share, suite_data
from .verdict import level_words

NOT_SIGNIFICANT = "The difference is not significant: at"


def compare(this: AuditRuns, other: AuditRuns, criteria: Criteria) -> dict[str, Any]:
    finished = [{_key(runs.series) for runs in each.complete} for each in (this, other)]
    both = finished[0] & finished[1]
    if not both:
        here, there = this.results.folder, other.results.folder
        given = f"{there} has no attack that is finished there and in {here}"
        expected = "at least one that is finished on all images of both"
        remedy = "resume the audits first"
        raise InputError(given, expected=expected, remedy=remedy, input="against")
    this, other = (
        replace(each, complete=[runs for runs in each.complete if _key(runs.series) in both])
        for each in (this, other)
    )
    rows = _common(this, other)
    values = this.values
    smallest = [each.smallest[places] for each, places in zip((this, other), rows, strict=True)]
    levels = criteria.levels(np.maximum(*smallest), values)
    if not criteria.epsilons:  # keep those at which either audit reached half of the images
        either = {*levels, *criteria.levels(np.minimum(*smallest), values)}
        half = min(quantile(each, 0.5) for each in smallest)
        levels = sorted(level for level in either if level >= half) or levels
    chosen = headline(levels, *smallest)
    prices = [each for each in prices_of(this) if each in prices_of(other)]

    def accounts(epsilons: Sequence[float]) -> list[list[Accounts]]:
        """Return the accounts of the common images on each side, at each ε."""
        return [
            [at.only(places) for at in each.accounts(epsilons)]
            for each, places in zip((this, other), rows, strict=True)
        ]

    ratios = [
        {"level": level, "price": price(each), **cost_ratio(at, each)}
        for level, at in enumerate(zip(*accounts(levels), strict=True))
        for each in prices
    ]
    marks = np.geomspace(levels[0] / 2, 4 * levels[-1], MARKS).tolist()
    finite = [each for each in prices if math.isfinite(each)]
    curves = [[_curve(side, each) for each in finite] for side in accounts(marks)]
    named = [level_data(level, values) for level in levels]
    sides = this.results, other.results
    called = [(each.study.name, each.folder.name, str(each.folder)) for each in sides]
    pairs = list(zip(*called, strict=True))
    names = next((pair for pair in pairs if pair[0] != pair[1]), pairs[-1])
    left_out = sorted(finished[0] ^ finished[1])
    data = {
        "name": names[0],
        "other": names[1],
        "images": len(rows[0]),
        "levels": named,
        "headline": chosen,
        "ratios": ratios,
        "curves": {
            "steps": [level_data(mark, values)["steps"] for mark in marks],
            "this": curves[0],
            "other": curves[1],
        },
        "same_suite": suite_data(this) == suite_data(other),
        "left_out": [{"attack": name, "price": price(at)} for name, at in left_out],
    }
    return data | {"verdict": _verdict(data, named[chosen], price(reference_price(prices)))}


def check_other(folder: Path, shape: Sequence[int], images: Collection[tuple[str, int]]) -> None:
    """Raise InputError unless `folder` has an audit of one of these images (content, label)."""
    with StudyResults(folder) as results:
        _check_shapes(shape, AuditRuns.of(results).settings["shape"])
        if not {known[:2] for known in results.images}.intersection(images):
            raise _nothing_common(folder, "this audit")


def _key(series: Series) -> tuple[str, float]:
    return series.attack.name, series.tariff.prices.true_ratio


def _common(this: AuditRuns, other: AuditRuns) -> tuple[list[int], list[int]]:
    """Return the rows, in each audit, of the images that both measured."""
    _check_shapes(this.settings["shape"], other.settings["shape"])
    places = []
    for each in (this, other):
        measured, known = each.accounts([0.0])[0].images, each.results.images
        places.append({known[image][:2]: row for row, image in enumerate(measured)})
    common = [key for key in places[0] if key in places[1]]
    if not common:
        raise _nothing_common(other.results.folder, str(this.results.folder))
    return [places[0][key] for key in common], [places[1][key] for key in common]


def _check_shapes(this: Sequence[int], other: Sequence[int]) -> None:
    if list(this) != list(other):
        sizes = [" x ".join(map(str, each)) for each in (this, other)]
        given = f"has images of {sizes[1]}, but this audit has images of {sizes[0]}"
        raise InputError(given, expected="the same images", input="against")


def _nothing_common(other: Path, this: str) -> InputError:
    given = f"{other} has measured none of the images of {this}"
    expected = "an audit of the same images, by content and label"
    return InputError(given, expected=expected, input="against")


def cost_ratio(sides: Sequence[Accounts], at_price: float) -> dict[str, Any]:
    """Return the ratio of the two sides' costs of attacking half of the images (rule 2)."""
    found = [costs.costs(side, at_price) for side in sides]
    middle = rank(0.5, len(found[0]))

    def ratio(rows: NDArray[np.int64]) -> Values:
        halves = [np.sort(each[rows], axis=1)[:, middle] for each in found]
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(halves[0] / halves[1])

    reached = [share(np.isfinite(each)) for each in found]
    value = float(ratio(np.arange(len(found[0]))[None])[0])
    if not all(math.isfinite(quantile(each, 0.5)) for each in found) or not math.isfinite(value):
        return {"ratio": None, "low": None, "high": None, "reached": reached}
    ends = interval(lambda rows: np.nan_to_num(ratio(rows), nan=1, posinf=np.inf), len(found[0]))
    low, high = (number(float(end)) for end in ends)
    return {"ratio": number(value), "low": low, "high": high, "reached": reached}


def _curve(accounts: Sequence[Accounts], at_price: float) -> dict[str, Any]:
    """Return the cost of attacking half of the images, at each ε."""
    middle = [number(quantile(costs.costs(at, at_price), 0.5)) for at in accounts]
    return {"price": price(at_price), "middle": middle}


def _verdict(data: dict[str, Any], level: dict[str, Any], reference: float | str) -> list[str]:
    here = [row for row in data["ratios"] if row["level"] == data["headline"]]
    known = {row["price"]: row for row in here if row["ratio"] is not None}
    within, one = level_words(level), data["images"] == 1
    half = "the one image" if one else f"half of the {counted(data['images'], 'image')}"
    names = data["name"], data["other"]
    if known:
        row = known.get(reference) or next(iter(known.values()))
        low, high = row["low"], row["high"]
        excluded = low > 1 or (high is not None and high < 1)
        start = "At" if excluded and data["images"] >= FEWEST_IMAGES else NOT_SIGNIFICANT
        ends = confidence(distance(low), "∞" if high is None else distance(high))
        sentence = (
            f"{start} c* = {row['price']}, attacking {half} within {within} costs "
            f"{distance(row['ratio'])} times{'' if one else f' ({ends})'} as much on {names[0]} as "
            f"on {names[1]}."
        )
    else:
        reached = dict(zip(names, here[0]["reached"], strict=True))
        text = ", ".join(f"{share:.0%} on {name}" for name, share in reached.items())
        if one:
            where = [name for name, share in reached.items() if share]
            text = f"on {where[0]} only" if where else "on neither"
        subject = f"{half} {'was' if one else 'were'}"
        sentence = f"No ratio: {subject} not reached within {within} on both: {text}."
    sentences = [sentence]
    if not data["same_suite"]:
        sentences.append(
            "The audits differ in their attacks, prices or budgets, which affects the ratio."
        )
    left_out = len(data["left_out"])
    if left_out:
        attacks, verb = counted(left_out, "attack"), "is" if left_out == 1 else "are"
        sentences.append(f"{attacks} at a price, not finished on both, {verb} left out.")
    return sentences
