"""Two audits beside each other: two models, or one before and after it was hardened.

1. Compared are the images that both have, by content and label, and that both classify correctly.
2. What is compared at an ε and a price is the cost of half of the images: the ratio of the two,
   with the 95 % interval over draws of the same images for both.
3. Both are read at the same ε, at the prices that both planned with, and by the attacks that are
   finished on both: of more attacks the cheapest costs less. Their suites and budgets have to be
   the same, or the words say that they are not.
4. Where half of the images were not reached on one side, there is no ratio.
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
from ..report.numbers import distance
from ..report.runs import SeriesRuns
from ..report.words import counted
from ..studies.results import StudyResults
from . import answers
from .answers import Reached, interval, quantile, rank
from .data import MARKS, number, price, prices_of, reference_price, share, suite_data
from .evidence import Evidence
from .questions import Questions, headline, steps
from .verdict import level_words

FEWEST = 6
"""Images that can tell two audits apart."""


def against(this: Evidence, other: Evidence, questions: Questions) -> dict[str, Any]:
    """What the page shows of two audits, as plain data."""
    left_out = _series(this) ^ _series(other)
    if not _series(this) & _series(other):
        raise InputError(
            f"{other.results.folder} has no attack that is finished there and in "
            f"{this.results.folder}",
            expected="at least one that is finished on all images of both",
            remedy="go on with the audits first",
            input="against",
        )
    this, other = _finished(this, other), _finished(other, this)
    rows = _common(this, other)
    values = this.values
    nearest = [each.nearest[places] for each, places in zip((this, other), rows, strict=True)]
    both = np.maximum(*nearest)
    levels = questions.levels(both, values)
    if not questions.epsilons:  # what half were brought within on a side
        either = {*levels, *questions.levels(np.minimum(*nearest), values)}
        half = min(quantile(each, 0.5) for each in nearest)
        levels = sorted(level for level in either if level >= half) or levels
    chosen = headline(levels, *nearest)
    prices = [each for each in prices_of(this) if each in prices_of(other)]
    sides = [
        each.reached(levels).only(places) for each, places in zip((this, other), rows, strict=True)
    ]
    ratios = [
        {
            "level": level,
            "price": price(each),
            **cost_ratio([side.at(level) for side in sides], each),
        }
        for level in range(len(levels))
        for each in prices
    ]
    named = [{"epsilon": number(level), "steps": number(steps(level, values))} for level in levels]
    names = _names(this, other)
    data = {
        "name": names[0],
        "other": names[1],
        "images": len(rows[0]),
        "levels": named,
        "headline": chosen,
        "ratios": ratios,
        "curves": _curves(this, other, rows, levels, prices),
        "same_suite": suite_data(this) == suite_data(other),
        "left_out": [{"attack": name, "price": price(at)} for name, at in sorted(left_out)],
    }
    return data | {"verdict": _verdict(data, named[chosen], reference_price(prices))}


def check_other(folder: Path, shape: Sequence[int], images: Collection[tuple[str, int]]) -> None:
    """Raise InputError unless a folder has an audit that one of these images, by content and label,
    can be compared with once it is run."""
    with StudyResults(folder) as results:
        other = Evidence.of(results)
        _check_shapes(shape, other.settings["shape"])
        if not {(known[:2]) for known in results.images}.intersection(images):
            raise _nothing_common(folder, "this audit")


def _series(evidence: Evidence) -> set[tuple[str, float]]:
    return {_key(runs) for runs in evidence.complete}


def _key(runs: SeriesRuns) -> tuple[str, float]:
    return runs.series.attack.name, runs.series.tariff.prices.true_ratio


def _finished(this: Evidence, other: Evidence) -> Evidence:
    """An audit with nothing but what is finished on the other, too."""
    both = _series(other)
    return replace(this, complete=[runs for runs in this.complete if _key(runs) in both])


def _names(this: Evidence, other: Evidence) -> tuple[str, str]:
    if this.name != other.name:
        return this.name, other.name
    folders = this.results.folder, other.results.folder
    short = folders[0].name, folders[1].name
    return short if short[0] != short[1] else (str(folders[0]), str(folders[1]))


def _common(this: Evidence, other: Evidence) -> tuple[list[int], list[int]]:
    """The rows of the images that both audits measured."""
    _check_shapes(this.settings["shape"], other.settings["shape"])
    places: list[dict[tuple[str, int], int]] = []
    for each in (this, other):
        images = each.reached([]).images
        known = each.results.images
        places.append({(known[image][:2]): row for row, image in enumerate(images)})
    common = [key for key in places[0] if key in places[1]]
    if not common:
        raise _nothing_common(other.results.folder, str(this.results.folder))
    return [places[0][key] for key in common], [places[1][key] for key in common]


def _check_shapes(this: Sequence[int], other: Sequence[int]) -> None:
    if list(this) != list(other):
        sizes = [" x ".join(map(str, each)) for each in (this, other)]
        raise InputError(
            f"has images of {sizes[1]}, and this audit of {sizes[0]}",
            expected="the same images",
            input="against",
        )


def _nothing_common(other: Path, this: str) -> InputError:
    return InputError(
        f"{other} has measured none of the images of {this}",
        expected="an audit of the same images, by content and label",
        input="against",
    )


def cost_ratio(sides: Sequence[Reached], at_price: float) -> dict[str, Any]:
    """What half of the images cost on the first side by that on the second (rules 2 and 4)."""
    costs = [answers.costs(side, at_price) for side in sides]
    middle = rank(0.5, len(costs[0]))

    def ratio(rows: NDArray[np.int64]) -> Values:
        halves = [np.sort(each[rows], axis=1)[:, middle] for each in costs]
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(halves[0] / halves[1])

    reached = [share(np.isfinite(each)) for each in costs]
    found = float(ratio(np.arange(len(costs[0]))[None])[0])
    halves_reached = all(math.isfinite(quantile(each, 0.5)) for each in costs)
    if not halves_reached or not math.isfinite(found):
        return {"ratio": None, "low": None, "high": None, "reached": reached}
    low, high = interval(
        lambda rows: np.nan_to_num(ratio(rows), nan=1.0, posinf=math.inf), len(costs[0])
    )
    return {
        "ratio": number(found),
        "low": number(float(low)),
        "high": number(float(high)),
        "reached": reached,
    }


def _curves(
    this: Evidence,
    other: Evidence,
    rows: tuple[list[int], list[int]],
    levels: list[float],
    prices: list[float],
) -> dict[str, Any]:
    marks = np.geomspace(levels[0] / 2, 4 * levels[-1], MARKS)
    lines = []
    for each, places in zip((this, other), rows, strict=True):
        reached = each.reached([float(mark) for mark in marks]).only(places)
        lines.append(
            [
                {
                    "price": price(p),
                    "middle": [
                        number(quantile(answers.costs(reached.at(n), p), 0.5))
                        for n in range(len(marks))
                    ],
                }
                for p in prices
                if math.isfinite(p)
            ]
        )
    return {
        "steps": [number(steps(float(mark), this.values)) for mark in marks],
        "this": lines[0],
        "other": lines[1],
    }


def _verdict(data: dict[str, Any], level: dict[str, Any], dear: float) -> list[str]:
    here = [row for row in data["ratios"] if row["level"] == data["headline"]]
    known = {row["price"]: row for row in here if row["ratio"] is not None}
    within, one = level_words(level), data["images"] == 1
    half = "the one image" if one else f"half of the {counted(data['images'], 'image')}"
    said = []
    if not known:
        reached = here[0]["reached"]
        names = data["name"], data["other"]
        shares = ", ".join(f"{r:.0%} on {n}" for r, n in zip(reached, names, strict=True))
        if one:
            where = [name for name, part in zip(names, reached, strict=True) if part]
            shares = f"on {where[0]} only" if where else "on neither"
        said.append(
            f"Within {within} {half} {'was' if one else 'were'} not reached on both: {shares}; "
            "there is no ratio."
        )
    else:
        at = price(dear) if price(dear) in known else next(iter(known))
        row = known[at]
        low, high = row["low"], row["high"]
        told = data["images"] >= FEWEST and (low > 1 or (high is not None and high < 1))
        ends = "" if one else f"[{distance(low)}, {'∞' if high is None else distance(high)}] "
        what = (
            f"bringing {half} within {within} costs {distance(row['ratio'])} {ends}times as much "
            f"as on {data['other']} where a flagged answer costs {at}"
        )
        said.append(
            f"On {data['name']} {what}."
            if told
            else f"The two are not told apart: on {data['name']} {what}."
        )
    if not data["same_suite"]:
        said.append("Their attacks, prices or budgets are not the same, so the ratio is of both.")
    if data["left_out"]:
        said.append(
            f"{counted(len(data['left_out']), 'attack')} at a price, not finished on both, "
            f"{'is' if len(data['left_out']) == 1 else 'are'} left out of this."
        )
    return said
