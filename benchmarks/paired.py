"""Statistics of paired distances: medians in which infinity counts, and the ratio of the medians of
two attacks on the same images, with a bootstrap interval that draws images, not distances.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tollbox.report.statistics import PERCENTILES, bootstrap

Values = NDArray[np.float64]
RESAMPLES = 10_000
UNDEFINED = 0.025
"""Share of resamples without a ratio (infinite by infinite) above which there is no interval."""


class Ratio(NamedTuple):
    """A ratio and its 95 % interval; NaN where there is none."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        if math.isnan(self.value):
            return "–"
        if math.isnan(self.low):
            return told(self.value)
        return f"{told(self.value)} [{told(self.low)}, {told(self.high)}]"


def told(value: float) -> str:
    return "∞" if math.isinf(value) else f"{value:.2f}"


def median(values: Values) -> float:
    """The median; NaN of nothing."""
    return float(np.median(values)) if len(values) else math.nan


def geometric_mean(values: Values, axis: int | None = None) -> Any:
    """The geometric mean."""
    return np.exp(np.mean(np.log(values), axis=axis))


def success(values: Values) -> float:
    """The share of finite values; NaN of nothing."""
    return float(np.isfinite(values).mean()) if len(values) else math.nan


def ratio(
    values: Values,
    base: Values,
    statistic: Callable[..., Any] = np.median,
    seed: int = 0,
) -> Ratio:
    """statistic(values) / statistic(base) with the bootstrap's percentile interval, paired."""
    count = len(values)
    if count == 0:
        return Ratio(math.nan, math.nan, math.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        value = float(np.float64(statistic(values)) / np.float64(statistic(base)))
        found = bootstrap(
            lambda rows: statistic(values[rows], axis=1) / statistic(base[rows], axis=1),
            np.arange(count),
            seed,
            RESAMPLES,
        )
    defined = found[~np.isnan(found)]
    if len(defined) < (1 - UNDEFINED) * RESAMPLES:
        return Ratio(value, math.nan, math.nan)
    low, high = np.percentile(defined, PERCENTILES, method="nearest")
    return Ratio(value, float(low), float(high))


def each(values: Values, base: Values) -> Ratio:
    """Geometric mean of values / base over the images where both are finite, with an interval."""
    both = np.isfinite(values) & np.isfinite(base)
    return ratio(values[both], base[both], geometric_mean)
