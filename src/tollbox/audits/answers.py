"""What an attack costs, from recorded answers alone: pure functions of what runs had reached.

1. Every point that a run found nearer than all before has an account: so many flagged answers and
   so many others up to and with it. Along a run both grow, so of a run only the first point within
   ε counts.
2. Re-pricing: at c* = c that point costs others + c x flagged, exactly. At c* = infinity only
   flagged answers count. A price that grows (`Prices.escalating`) costs others + p(1) + … +
   p(flagged).
3. An image costs what the cheapest of all runs on it costs, whatever price a run had planned with:
   an attacker may plan with any. So costs rise with the price, and fall with ε.
4. It is an upper bound on what an attacker needs. An image that no run brought within ε costs
   infinitely much here: it is not known what it takes.
5. A quantile is a cost: the smallest at which at least that share of the images is reached. It is
   never between two images, and infinite where fewer are reached at all.
6. The break-even price of an image is the largest c at which a run costs no more than `worth`: the
   largest (worth - others) / flagged over runs. At a higher price none of these attacks pays. It is
   infinite where a run took no flagged answer, and 0 where none pays at any price.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.prices import Prices
from ..core.result import Values
from ..report.runs import SeriesRuns
from ..report.statistics import PERCENTILES, bootstrap

QUANTILES = (0.1, 0.5, 0.9)


class Reached(NamedTuple):
    """(images, series, ε): the account of the first point within ε, infinite where there is none;
    `images` has the numbers of the images, `distances` (images, series) how near each run came."""

    images: list[int]
    flagged: Values
    others: Values
    distances: Values

    def at(self, level: int) -> Reached:
        """Those at one ε: (images, series)."""
        flagged, others = self.flagged[:, :, level], self.others[:, :, level]
        return Reached(self.images, flagged, others, self.distances)

    def only(self, rows: Sequence[int]) -> Reached:
        """Those of some of the images, by their rows."""
        images = [self.images[row] for row in rows]
        return Reached(images, *(each[list(rows)] for each in self[1:]))


def reached(series: Sequence[SeriesRuns], epsilons: Sequence[float]) -> Reached:
    """What the runs of series reached, over the images that they have; one run of each."""
    images = sorted({run.image for runs in series for run in runs.runs})
    rows = {image: row for row, image in enumerate(images)}
    shape = len(images), len(series)
    flagged = np.full((*shape, len(epsilons)), math.inf)
    others = flagged.copy()
    nearest = np.full(shape, math.inf)
    levels = np.asarray(epsilons, float)
    for number, runs in enumerate(series):
        for run in runs.runs:
            if not len(run.distances):
                continue
            place = rows[run.image], number
            nearest[place] = run.distances[-1]
            first = np.searchsorted(-run.distances, -levels)  # the first that is not farther
            there = first < len(run.distances)
            source = run.needs["source"][first[there]] - 1
            flagged[place][there] = source
            others[place][there] = run.needs["queries"][first[there]] - source
    return Reached(images, flagged, others, nearest)


def costs(at: Reached, price: float) -> Values:
    """What each image costs at c* = price (rules 2 and 3); infinite where it is not reached."""
    with np.errstate(invalid="ignore"):
        each = at.flagged if math.isinf(price) else at.others + price * at.flagged
    return _least(np.where(np.isfinite(at.flagged), each, math.inf))


def policy_costs(at: Reached, prices: Prices) -> Values:
    """What each image costs under prices of which only the number of flagged answers matters."""
    known = np.isfinite(at.flagged)
    counts = np.stack([np.where(known, at.others, 0), np.where(known, at.flagged, 0)], axis=-1)
    if prices.escalation is None:
        each = counts[..., 0] * prices.other + counts[..., 1] * prices.source
    else:
        each = prices.cost(counts.astype(np.int64))
    return _least(np.where(known, each, math.inf))


def flagged_answers(at: Reached) -> Values:
    """The fewest flagged answers that each image takes."""
    return costs(at, math.inf)


def break_even(at: Reached, worth: float) -> Values:
    """The price above which no run on an image costs `worth` or less (rule 6)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        prices = (worth - at.others) / at.flagged
        prices = np.where(at.flagged == 0, math.inf, prices)
    pays = np.isfinite(at.flagged) & (at.others <= worth)
    if at.flagged.shape[1] == 0:
        return np.zeros(len(at.images))
    return np.asarray(np.where(pays, prices, 0.0).max(axis=1))


def _least(values: Values) -> Values:
    return np.asarray(values.min(axis=1, initial=math.inf))


class Quantile(NamedTuple):
    """A quantile over images with its 95 % interval."""

    value: float
    low: float
    high: float


def rank(share: float, count: int) -> int:
    """The place, from 0, of the smallest of `count` values that at least `share` are not above."""
    return max(0, math.ceil(round(share * count, 9)) - 1)


def quantile(values: Values, share: float) -> float:
    """The smallest of the values that at least `share` of them are not above; NaN of nothing."""
    return float(np.sort(values)[rank(share, len(values))]) if len(values) else math.nan


def quantiles(values: Values, shares: Sequence[float] = QUANTILES) -> list[Quantile]:
    """Quantiles over images, each with the percentile interval over draws of images."""
    if not len(values):
        return [Quantile(math.nan, math.nan, math.nan)] * len(shares)
    places = [rank(share, len(values)) for share in shares]

    def of_draws(rows: NDArray[np.int64]) -> Values:
        return np.asarray(np.sort(values[rows], axis=1)[:, places])

    found = np.sort(values)[places]
    ends = interval(of_draws, len(values))
    return [Quantile(*map(float, three)) for three in zip(found, *ends, strict=True)]


def interval(statistic: Callable[[NDArray[np.int64]], Values], count: int) -> tuple[Values, Values]:
    """The 95 % percentile interval of a statistic, over draws of `count` images."""
    drawn = bootstrap(statistic, np.arange(count))
    low, high = np.percentile(drawn, PERCENTILES, axis=0, method="nearest")
    return low, high
