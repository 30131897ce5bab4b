"""Attacks ranked over all budgets, rather than at one: two numbers, from arrays of distances.

    G   exp of the mean, over costs and images, of log(d / d_ref): what part of a reference's
        distance an attack has, at whatever cost
    O   1 - mean over costs and images of clip(log(d / d*) / log(cap / d*), 0, 1): 1 if it is at
        every cost where the best that is known of the image, d*, is; 0 if it is nowhere

1. Distances are (runs, costs), at costs that are equal ratios apart (`log_spaced`). No adversarial
   point is an infinite distance, and counts as the cap; so does what is farther than it.
2. Two attacks are paired: a row of each is the same image and seed. A run that is not known at all
   of the costs is left out, with its pair.
3. An image counts once, with the mean of its runs. The interval of 95 % draws images.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..core.metric import Metric
from ..core.result import Values
from .statistics import PERCENTILES, Images, bootstrap

COSTS = 24
FIRST_SHARE = 0.05
"""Of the last cost: where the costs begin."""
NEAREST = 1e-9
"""Of the cap: no distance counts as less, so that all have a logarithm."""


class Estimate(NamedTuple):
    """A number with its 95 % interval, and the images that it is over; NaN over none."""

    value: float
    low: float
    high: float
    images: int

    @property
    def exponential(self) -> Estimate:
        """Of a mean of logs, the geometric mean."""
        value, low, high = map(math.exp, (self.value, self.low, self.high))
        return Estimate(value, low, high, self.images)


def cap_in(norm: Metric, size: int) -> float:
    """Half of the range in every pixel of an image of so many values: as far as a black image is
    from a mid-grey one."""
    return 0.5 if norm is Metric.LINF else 0.5 * math.sqrt(size)


def first_cost(last: float) -> float:
    """Where the costs begin that end with `last`."""
    return FIRST_SHARE * last


def log_spaced(last: float) -> Values:
    """The costs, equal ratios apart."""
    return np.geomspace(first_cost(last), last, COSTS)


def mean_logs(distances: Values, cap: float) -> Values:
    """Of each run, the mean over costs of the log of its distance; NaN if one is not known."""
    return np.asarray(np.log(np.clip(distances, NEAREST * cap, cap)).mean(axis=1))


def distance_ratio(distances: Values, reference: Values, images: Images, cap: float) -> Estimate:
    """G of an attack; the rows of both are the same runs, and `images` has the image of each."""
    logs = np.stack([mean_logs(reference, cap), mean_logs(distances, cap)], axis=1)
    return distance_ratios(logs, 0, images)[1]


def distance_ratios(logs: Values, reference: int, images: Images) -> list[Estimate]:
    """G of several attacks beside one of them, each over the runs that both have; `logs` are
    (runs, attacks), of `mean_logs`, NaN where there is no such run."""
    differences = logs - logs[:, [reference]]
    alike: dict[bytes, list[int]] = {}
    for attack, known in enumerate(~np.isnan(differences.T)):
        alike.setdefault(known.tobytes(), []).append(attack)
    found: dict[int, Estimate] = {}
    for attacks in alike.values():
        means = _means(differences[:, attacks], images)
        found |= dict(zip(attacks, means, strict=True))
    return [found[attack].exponential for attack in range(len(found))]


def optimality(distances: Values, best: Values, images: Images, cap: float) -> Estimate:
    """O of an attack; `best` is d* of each run's image. An image that nobody brings below the cap
    tells nothing, and is left out."""
    return _means((1 - lags(distances, best, cap))[:, None], images)[0]


def lags(distances: Values, best: Values, cap: float) -> Values:
    """Of each run, how far it is behind the best on average, from 0 to 1; NaN if not known."""
    best = np.where(best < cap, np.maximum(best, NEAREST * cap), math.nan)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        behind = np.log(np.maximum(distances, best) / best) / np.log(cap / best)
    return np.asarray(np.clip(behind, 0, 1).mean(axis=1))


def _means(values: Values, images: Images) -> list[Estimate]:
    """The mean over images of each column of (runs, columns), with its interval; runs that are not
    known are left out."""
    known = ~np.isnan(values).any(axis=1)
    names, place = np.unique(images[known], return_inverse=True)
    if not len(names):
        return [Estimate(math.nan, math.nan, math.nan, 0)] * values.shape[1]
    sums = np.zeros((len(names), values.shape[1]))
    np.add.at(sums, place, values[known])
    of_image = sums / np.bincount(place)[:, None]
    drawn = bootstrap(lambda rows: of_image[rows].mean(axis=1), np.arange(len(names)))
    low, high = np.percentile(drawn, PERCENTILES, axis=0, method="nearest")
    means = zip(of_image.mean(axis=0), low, high, strict=True)
    return [Estimate(float(mean), float(a), float(b), len(names)) for mean, a, b in means]
