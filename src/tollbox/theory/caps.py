"""Closed forms: caps, overshoot, initial cosine, schedule. What searches cost is in search_costs.

Let u be uniform on the unit sphere of R^d, g the unit normal of a locally linear boundary, and
x = omega cos(alpha) / delta the overshoot in units of the sampling radius. Then

    p(x) = P(<g, u> >= -x) = 1/2 + sign(x)/2 I_{x^2}(1/2, (d-1)/2)          cap lemma

is the share of low-cost answers (I: regularised incomplete beta). The best estimate for its cost is
at the x that maximises

    log J(x) = (d-1) log(1 - x^2) - log p - log(1-p) - log(c* - (c*-1) p)    optimal parameters

In units s = x sqrt(d) the optimum hardly depends on d. There is one maximum, x*, where the slope of
log J is 0. Below c* = 1 the cheap side is the source class, and everything is mirrored:
x*(c*) = -x*(1/c*).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc, betaincc, gammaln

from ..errors import InputError

LEAST_COMPLEMENT = 1e-290
"""No optimum lies where 1 - p is below this; so c* counts up to its inverse."""
LARGEST_ATANH = 18.0
"""x = tanh(v) is looked for up to this v, with the same resolution near 0 and near 1."""


def cap_probability(x: float, d: int) -> float:
    """p(x): the share of low-cost answers at overshoot x = omega cos(alpha)/delta (cap lemma)."""
    if x < 0:
        return cap_complement(-x, d)
    return 0.5 + 0.5 * float(betainc(0.5, (d - 1) / 2, min(1.0, x * x)))


def cap_complement(x: float, d: int) -> float:
    """1 - p(x), accurate where it is tiny."""
    if x < 0:
        return cap_probability(-x, d)
    if x * x < 0.5:
        return 0.5 * float(betaincc(0.5, (d - 1) / 2, x * x))
    return 0.5 * float(betainc((d - 1) / 2, 0.5, max(0.0, (1 - x) * (1 + x))))


def _log_rest(x: float) -> float:
    """log(1 - x^2), accurate for x near 0 and near 1."""
    return math.log1p(-x * x) if x * x < 0.5 else math.log((1 - x) * (1 + x))


def log_objective(x: float, d: int, ratio: float) -> float:
    """log J of the optimal-parameters theorem at overshoot x and cost ratio c*."""
    high, low = cap_complement(x, d), cap_probability(x, d)
    if high <= 0 or low <= 0 or abs(x) >= 1:
        return -math.inf
    cost = ratio * high + low  # c* - (c*-1) p
    return (d - 1) * _log_rest(x) - math.log(low) - math.log(high) - math.log(cost)


def _slope(x: float, d: int, ratio: float) -> float:
    """(1 - x^2) times the derivative of log J; above 0 up to x*, and below 0 from there on."""
    high, low = cap_complement(x, d), cap_probability(x, d)
    if high < LEAST_COMPLEMENT:
        return -float(d)
    fall = expected_weighted_height(x, d) * (d - 1)  # (1 - x^2) p'(x)
    return fall * (1 / high - 1 / low + (ratio - 1) / (ratio * high + low)) - 2 * (d - 1) * x


@lru_cache(maxsize=256)
def optimal_overshoot(ratio: float, d: int) -> float:
    """x*, the overshoot in units of delta / cos(alpha) that estimates best for its cost."""
    if not 0 < ratio < math.inf or d < 2:
        raise InputError(
            f"c* = {ratio:g}, d = {d}", expected="a finite c* above 0 and d of 2 or more"
        )
    if ratio == 1:
        return 0.0
    if ratio < 1:
        return -optimal_overshoot(min(1 / ratio, 1 / LEAST_COMPLEMENT), d)
    if _slope(math.tanh(LARGEST_ATANH), d, ratio) > 0:
        return math.tanh(LARGEST_ATANH)
    v = brentq(lambda v: _slope(math.tanh(v), d, ratio), 0.0, LARGEST_ATANH, xtol=1e-15, rtol=1e-14)
    return math.tanh(float(v))


def optimal_queries(cost: float, ratio: float, d: int) -> float:
    """n*, how many queries an estimate of expected cost `cost` has at the optimal overshoot."""
    x = optimal_overshoot(ratio, d)
    return cost / (ratio * cap_complement(x, d) + cap_probability(x, d))


def initial_cosine(d: int) -> float:
    """E cos(alpha_1) for a random direction of positive cosine (initial-cosine theorem, corrected:
    the published proof drops the factor 1/P(0) = 2)."""
    return float(np.exp(gammaln(d / 2) - gammaln((d + 1) / 2)) / math.sqrt(math.pi))


def scheduled_cosine(t: int, first: float, m: float) -> float:
    """cos(alpha_t) as the overshooting scheduler has it: 1 - (1 - cos alpha_1) t^-m."""
    return 1 - (1 - first) * math.pow(t, -m)


def expected_weighted_height(x: float, d: int) -> float:
    """E[phi <g, u>] at overshoot x (Stokes lemma): whatever the weight beta."""
    if abs(x) >= 1:
        return 0.0
    return initial_cosine(d) / 2 * math.exp((d - 1) / 2 * _log_rest(x))


def objective(x: float, d: int, queries: float, beta: float | None = None) -> float:
    """J of the expected-cosine theorem: sqrt(n) E[phi <g, u>] / sqrt(E phi^2); beta is p(x) if not
    given, which is optimal."""
    low, high = cap_probability(x, d), cap_complement(x, d)
    square = low * high if beta is None else beta**2 * high + (1 - beta) ** 2 * low
    if square <= 0:
        return 0.0
    return math.sqrt(queries / square) * expected_weighted_height(x, d)


def expected_cosine(x: float, d: int, queries: float, beta: float | None = None) -> float:
    """The expected cosine of an estimate with the true normal: J / sqrt(1 + J^2).

    J is the ratio of the estimate's mean along the normal to the length of its part across it,
    which the theorem takes for the whole length; for J small against 1 the two agree.
    """
    j = objective(x, d, queries, beta)
    return j / math.sqrt(1 + j * j)
