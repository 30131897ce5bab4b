"""Closed forms: caps, overshoot, initial cosine, schedule, expected search costs. numpy and scipy.

Let u be uniform on the unit sphere of R^d, g the unit normal of a locally linear boundary, and
x = omega cos(alpha) / delta the overshoot in units of the sampling radius. Then

    p(x) = P(<g, u> >= -x) = 1/2 + sign(x)/2 I_{x^2}(1/2, (d-1)/2)          cap lemma

is the share of low-cost answers (I: regularised incomplete beta). The best estimate for its cost is
at the x that maximises

    log J(x) = (d-1) log(1 - x^2) - log p - log(1-p) - log(c* - (c*-1) p)    optimal parameters

In units s = x sqrt(d) the optimum hardly depends on d. Below c* = 1 the cheap side is the source
class, and everything is mirrored: x*(c*) = -x*(1/c*).
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar
from scipy.special import betainc, betaincc, gammaln

from .errors import InputError

MAX_S = 40.0
"""No optimum lies beyond this many standard deviations: 1 - p would be below 1e-300."""


def cap_probability(x: float, d: int) -> float:
    """p(x): the share of low-cost answers at overshoot x = omega cos(alpha)/delta (cap lemma)."""
    half = 0.5 * float(betainc(0.5, (d - 1) / 2, min(1.0, x * x)))
    return 0.5 + math.copysign(half, x)


def cap_complement(x: float, d: int) -> float:
    """1 - p(x), accurate where it is tiny."""
    if x < 0:
        return cap_probability(-x, d)
    return 0.5 * float(betaincc(0.5, (d - 1) / 2, min(1.0, x * x)))


def log_objective(x: float, d: int, ratio: float) -> float:
    """log J of the optimal-parameters theorem at overshoot x and cost ratio c*."""
    high, low = cap_complement(x, d), cap_probability(x, d)
    if high <= 0 or low <= 0 or abs(x) >= 1:
        return -math.inf
    cost = ratio * high + low  # c* - (c*-1) p
    return (d - 1) * math.log1p(-x * x) - math.log(low) - math.log(high) - math.log(cost)


@lru_cache(maxsize=256)
def optimal_overshoot(ratio: float, d: int) -> float:
    """x*, the overshoot in units of delta / cos(alpha) that estimates best for its cost."""
    if not ratio > 0 or d < 2:
        raise InputError(f"c* = {ratio:g}, d = {d}: expected c* above 0 and d of 2 or more.")
    if ratio == 1:
        return 0.0
    if ratio < 1:
        return -optimal_overshoot(1 / ratio, d)
    root = math.sqrt(d)
    highest = min(MAX_S, root * (1 - 1e-9))
    found = minimize_scalar(
        lambda s: -log_objective(s / root, d, ratio),
        bounds=(0.0, highest),
        method="bounded",
        options={"xatol": 1e-9},
    )
    return float(found.x) / root


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


def split(width: int, ratio: float) -> int:
    """Where asymmetric search asks in an interval of `width` cells, from its adversarial end on:
    ceil(width / (c* + 1)), and never at the far end (Algorithm 1)."""
    return min(math.ceil(width / (ratio + 1)), width - 1)


def expected_search_cost(cells: int, ratio: float, split_ratio: float | None = None) -> float:
    """Expected cost of asymmetric search over `cells` cells with the boundary uniform among them.

    By the recursion C(m) = q (C(k) + c*) + (1-q) (C(m-k) + 1), k the split, q = k/m, C(1) = 0.
    `split_ratio` is the c* that the search splits for, if it is not the price: 1 is binary search.
    """
    planned = ratio if split_ratio is None else split_ratio
    cost: NDArray[np.float64] = np.zeros(cells + 1)
    for width in range(2, cells + 1):
        k = split(width, planned)
        flagged = k * (cost[k] + ratio)
        passed = (width - k) * (cost[width - k] + 1)
        cost[width] = (flagged + passed) / width
    return float(cost[cells])


def expected_line_search_cost(cells: int, ratio: float) -> float:
    """Expected cost of asking cell after cell until the first flagged answer (one stage).

    Of `cells` equally likely places the last needs no flagged answer: the source follows it.
    """
    answered = sum(range(1, cells))  # low-cost answers before the boundary, over all places
    return (answered + (cells - 1) * ratio) / cells


@lru_cache(maxsize=64)
def optimal_share(ratio: float) -> float:
    """q = x^c* with x + x^c* = 1: the share of an interval on the flagged side of the cost-optimal
    split, in the limit of many cells."""
    if not ratio > 0:
        raise InputError(f"c* = {ratio:g}: expected a ratio above 0.")
    root = brentq(lambda log_x: math.exp(log_x) + math.exp(ratio * log_x) - 1, -700.0, -1e-300)
    return math.exp(ratio * float(root))


@dataclass(frozen=True)
class OptimalSplits:
    """The cost-optimal search over up to n cells, exactly.

    A search is a binary tree whose leaves are the cells, and whose branches cost 1 (adversarial)
    and c* (flagged). The best tree for m + 1 equally likely leaves is the best for m with its
    cheapest leaf split; so W(m), m times the expected cost, has rising differences, and the best
    split of m is found by moving on from that of m - 1.
    """

    total: NDArray[np.float64]
    """W(m): the expected cost times m."""
    first: NDArray[np.int64]
    """Where to ask in m cells, counted from the adversarial end."""

    def cost(self, cells: int) -> float:
        """Expected cost over `cells` cells."""
        return float(self.total[cells]) / cells


@lru_cache(maxsize=8)
def optimal_splits(cells: int, ratio: float) -> OptimalSplits:
    """The cost-optimal search for every number of cells up to `cells`."""
    total = [0.0] * (cells + 1)
    leaves = [0.0]
    for m in range(2, cells + 1):
        cheapest = heapq.heapreplace(leaves, leaves[0] + 1)
        heapq.heappush(leaves, cheapest + ratio)
        total[m] = total[m - 1] + cheapest + 1 + ratio
    first, k = [0] * (cells + 1), 1
    for m in range(2, cells + 1):

        def cost(k: int, m: int = m) -> float:
            return total[k] + k * ratio + total[m - k] + m - k

        while k < m - 1 and cost(k + 1) < cost(k):
            k += 1
        first[m] = k
    return OptimalSplits(np.array(total), np.array(first, np.int64))


def expected_weighted_height(x: float, d: int) -> float:
    """E[phi <g, u>] at overshoot x (Stokes lemma): whatever the weight beta."""
    if abs(x) >= 1:
        return 0.0
    return initial_cosine(d) / 2 * math.exp((d - 1) / 2 * math.log1p(-x * x))


def objective(x: float, d: int, queries: float, beta: float | None = None) -> float:
    """J of the expected-cosine theorem: sqrt(n) E[phi <g, u>] / sqrt(E phi^2); beta is p(x) if not
    given, which is optimal."""
    low, high = cap_probability(x, d), cap_complement(x, d)
    weight = low if beta is None else beta
    square = weight**2 * high + (1 - weight) ** 2 * low
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
