"""Two audits beside each other: two models, or one before and after it was hardened.

1. Compared are the images that both have, by content and label, and that both classify correctly.
2. What is compared at an ε and a price is the cost of half of the images: the ratio of the two,
   with the 95 % interval over draws of the same images for both.
3. Both are read at the same ε, and at the prices that both planned with. Their suites and budgets
   have to be the same, or the words say that they are not.
4. Where half of the images were not reached on one side, there is no ratio.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.result import Values
from ..errors import InputError
from ..report.numbers import distance
from ..report.words import counted
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
        {"level": level, "price": price(each), **_ratio([side.at(level) for side in sides], each)}
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
    }
    return data | {"verdict": _verdict(data, named[chosen], reference_price(prices))}


def _names(this: Evidence, other: Evidence) -> tuple[str, str]:
    if this.name != other.name:
        return this.name, other.name
    folders = this.results.folder, other.results.folder
    short = folders[0].name, folders[1].name
    return short if short[0] != short[1] else (str(folders[0]), str(folders[1]))


def _common(this: Evidence, other: Evidence) -> tuple[list[int], list[int]]:
    """The rows of the images that both audits measured."""
    if this.settings["shape"] != other.settings["shape"]:
        sizes = [" x ".join(map(str, each.settings["shape"])) for each in (this, other)]
        raise InputError(
            f"has images of {sizes[1]}, and this audit of {sizes[0]}",
            expected="the same images",
            input="against",
        )
    places: list[dict[tuple[str, int], int]] = []
    for each in (this, other):
        images = each.reached([]).images
        known = each.results.images
        places.append({(known[image][:2]): row for row, image in enumerate(images)})
    common = [key for key in places[0] if key in places[1]]
    if not common:
        raise InputError(
            f"{other.results.folder} has measured none of the images of {this.results.folder}",
            expected="an audit of the same images, by content and label",
            input="against",
        )
    return [places[0][key] for key in common], [places[1][key] for key in common]


def _ratio(sides: Sequence[Reached], at_price: float) -> dict[str, Any]:
    costs = [answers.costs(side, at_price) for side in sides]
    middle = rank(0.5, len(costs[0]))

    def ratio(rows: NDArray[np.int64]) -> Values:
        halves = [np.sort(each[rows], axis=1)[:, middle] for each in costs]
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(halves[0] / halves[1])

    reached = [share(np.isfinite(each)) for each in costs]
    found = float(ratio(np.arange(len(costs[0]))[None])[0])
    if not math.isfinite(found):
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
    within, images = level_words(level), counted(data["images"], "image")
    said = []
    if not known:
        reached = here[0]["reached"]
        said.append(
            f"Within {within} half of the {images} were not reached on both: {reached[0]:.0%} on "
            f"{data['name']}, {reached[1]:.0%} on {data['other']}; there is no ratio."
        )
    else:
        at = price(dear) if price(dear) in known else next(iter(known))
        row = known[at]
        low, high = row["low"], row["high"]
        told = data["images"] >= FEWEST and (low > 1 or (high is not None and high < 1))
        ends = f"[{distance(low)}, {'∞' if high is None else distance(high)}]"
        what = (
            f"bringing half of the {images} within {within} costs {distance(row['ratio'])} {ends} "
            f"times as much as on {data['other']} where a flagged answer costs {at}"
        )
        said.append(
            f"On {data['name']} {what}."
            if told
            else f"The two are not told apart: on {data['name']} {what}."
        )
    if not data["same_suite"]:
        said.append("Their attacks, prices or budgets are not the same, so the ratio is of both.")
    return said
