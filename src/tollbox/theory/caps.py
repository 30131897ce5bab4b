"""Closed forms from the paper: caps, the overshoot omega*, the initial cosine, and the schedule.

Let u be uniform on the unit sphere of R^d, g the unit normal of a locally linear boundary, and
x = omega cos(alpha) / delta the overshoot in units of the sampling radius. Then

    p(x) = P(<g, u> >= -x) = 1/2 + sign(x)/2 I_{x^2}(1/2, (d-1)/2)          cap lemma

is the share of low-cost answers (I: regularised incomplete beta function). An estimate is best for
its cost at the x that maximises

    log J(x) = (d-1) log(1 - x^2) - log p - log(1-p) - log(c* - (c*-1) p)    optimal parameters

In units s = x sqrt(d), the optimum depends little on d. There is one maximum x*, where the slope of
log J is 0. Below c* = 1, flagged answers are the cheaper ones, and the problem is mirrored:
x*(c*) = -x*(1/c*).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc, betaincc, gammaln

from ..core.validation import expect

LEAST_COMPLEMENT = 1e-290
"""Minimum of 1 - p at an optimum; its inverse is the maximum of the mirrored ratio 1/c*."""
LARGEST_ATANH = 18.0
"""Maximum v in the search for x = tanh(v), which resolves x near 0 and near 1 equally well."""


def cap_probability(x: float, d: int) -> float:
    """Return p(x), the share of low-cost answers at overshoot x (cap lemma)."""
    if x < 0:
        return cap_complement(-x, d)
    return 0.5 + 0.5 * float(betainc(0.5, (d - 1) / 2, min(1.0, x * x)))


def cap_complement(x: float, d: int) -> float:
    """Return 1 - p(x), accurately even where it is tiny."""
    if x < 0:
        return cap_probability(-x, d)
    if x * x < 0.5:
        return 0.5 * float(betaincc(0.5, (d - 1) / 2, x * x))
    return 0.5 * float(betainc((d - 1) / 2, 0.5, max(0.0, (1 - x) * (1 + x))))


def _log_rest(x: float) -> float:
    """Return log(1 - x^2), accurately for x near 0 and near 1."""
    return math.log1p(-x * x) if x * x < 0.5 else math.log((1 - x) * (1 + x))


def log_objective(x: float, d: int, ratio: float) -> float:
    """Return log J from the optimal-parameters theorem at overshoot x and price ratio c*."""
    high, low = cap_complement(x, d), cap_probability(x, d)
    if high <= 0 or low <= 0 or abs(x) >= 1:
        return -math.inf
    cost = ratio * high + low  # c* - (c*-1) p
    return (d - 1) * _log_rest(x) - math.log(low) - math.log(high) - math.log(cost)


def _slope(x: float, d: int, ratio: float) -> float:
    """Return (1 - x^2) times the derivative of log J: positive below x*, negative above."""
    high, low = cap_complement(x, d), cap_probability(x, d)
    if high < LEAST_COMPLEMENT:
        return -float(d)
    fall = expected_weighted_height(x, d) * (d - 1)  # (1 - x^2) p'(x)
    return fall * (1 / high - 1 / low + (ratio - 1) / (ratio * high + low)) - 2 * (d - 1) * x


@lru_cache(maxsize=256)
def optimal_overshoot(ratio: float, d: int) -> float:
    """Return x*, the overshoot with the best estimate for its cost, in units of
    delta / cos(alpha)."""
    right = 0 < ratio < math.inf and d >= 2
    expect(right, f"c* = {ratio:g}, d = {d}", "a finite c* above 0 and d of 2 or more")
    if ratio == 1:
        return 0.0
    if ratio < 1:
        return -optimal_overshoot(min(1 / ratio, 1 / LEAST_COMPLEMENT), d)
    if _slope(math.tanh(LARGEST_ATANH), d, ratio) > 0:
        return math.tanh(LARGEST_ATANH)
    v = brentq(lambda v: _slope(math.tanh(v), d, ratio), 0.0, LARGEST_ATANH, xtol=1e-15, rtol=1e-14)
    return math.tanh(float(v))


def optimal_queries(cost: float, ratio: float, d: int) -> float:
    """Return n*, the number of queries in an estimate with expected cost `cost` at x*."""
    x = optimal_overshoot(ratio, d)
    return cost / (ratio * cap_complement(x, d) + cap_probability(x, d))


def initial_cosine(d: int) -> float:
    """Return E cos(alpha_1) for a random direction with a positive cosine (initial-cosine theorem,
    corrected: the published proof drops the factor 1/P(0) = 2)."""
    return float(np.exp(gammaln(d / 2) - gammaln((d + 1) / 2)) / math.sqrt(math.pi))


def scheduled_cosine(t: int, first: float, m: float) -> float:
    """Return cos(alpha_t) from the overshooting scheduler: 1 - (1 - cos alpha_1) t^-m."""
    return 1 - (1 - first) * math.pow(t, -m)


def expected_weighted_height(x: float, d: int) -> float:
    """Return E[phi <g, u>] at overshoot x (Stokes lemma), which does not depend on beta."""
    if abs(x) >= 1:
        return 0.0
    return initial_cosine(d) / 2 * math.exp((d - 1) / 2 * _log_rest(x))


def objective(x: float, d: int, queries: float, beta: float | None = None) -> float:
    """Return J of the expected-cosine theorem: sqrt(n) E[phi <g, u>] / sqrt(E phi^2). By default
    beta is p(x), which is optimal."""
    low, high = cap_probability(x, d), cap_complement(x, d)
    square = low * high if beta is None else beta**2 * high + (1 - beta) ** 2 * low
    if square <= 0:
        return 0.0
    return math.sqrt(queries / square) * expected_weighted_height(x, d)


def expected_cosine(x: float, d: int, queries: float, beta: float | None = None) -> float:
    """Return the expected cosine between an estimate and the true normal: J / sqrt(1 + J^2).

    J is the mean along the normal over the length of the orthogonal part. The theorem uses the
    latter as the whole length, which agrees for J much smaller than 1.
    """
    j = objective(x, d, queries, beta)
    return j / math.sqrt(1 + j * j)
