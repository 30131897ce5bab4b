"""Measured overshoot: how far outside the boundary to sample, learned from the answers themselves.

An answer at `point + shift u + delta v`, u the unit vector from the source to a boundary point and
v a random direction, is adversarial with a probability of about

    p = Phi(z),   z = k (slack + shift) / delta + bend,   k = <u, g> / |g|_v

where g is the normal and |g|_v the spread of <v, g>. The slope k is unknown; `slack`, how far the
point itself lies outside, is known up to the tolerance of the search that found it. If the boundary
were a plane that would be all. Real ones bend, and pixels end at 0 and 1: samples around a boundary
point are then on one side more often than on the other (on ResNet-50 and ResNet-20 two of five are
adversarial, in the median, and on a sphere all but a few). That is the second unknown, `bend`;
without it such answers could only mean that k is nothing, and the aim would be anywhere. There is
no dimension in this, no assumption on an angle, and no schedule.

- The answers at one point tell k and b = k slack / delta + bend, no more: z = k shift / delta + b.
  So for each slope of a grid there is a weight and a normal belief of b, with mean m and variance
  v. A chunk multiplies it by the likelihood of its counts, on some nodes around m; of what comes
  out the weight, the mean and the variance are kept.
- What is expected of an answer then has closed forms. With s = sqrt(1 + v) and y = (k shift + m)/s
  the share of a slope is Phi(y), and the mean of phi(z) is phi(y) / s. That of the information is
  phi(y) / s times a factor of y and s that changes slowly, between 1.6 and 2 where it matters: a
  table.
- One answer tells phi(z)^2 / (p (1-p)) of what the normal is (its Fisher information, in units of
  |g|_v^2), and costs p + c* (1-p). The next chunk goes where the expected information per expected
  cost is largest (`aim`). For a known k that is the optimum of the paper's theorem, as d grows.
- The score of an answer, by which its direction counts in the estimate, is phi/p if it was
  adversarial and -phi/(1-p) if not: Algorithm 3's weights where p is the share that was found, and
  right across chunks with different shifts, one-sided ones included. With what is believed of phi
  and p in place of them, an answer tells the product of the two scores.
- From one point to the next what is believed of slope and bend is widened; where in its tolerance
  the next lies is not known. What b told is shared between bend and slack by their variances.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

Values = NDArray[np.float64]

Z_STEP = 0.02
LARGEST_Z = 8.0
"""z beyond this counts as this."""
LAST_ROW = round(2 * LARGEST_Z / Z_STEP)
MIDDLE_ROW = LAST_ROW / 2 + 0.5
"""Of the tables, where z = 0; the half is for rounding."""
LOG_SLOPES: Values = np.arange(-2.0, 8.01, 0.25)
SLOPES: Values = np.exp(LOG_SLOPES)
LARGEST_SLACK = 1e9
"""A larger slack counts as this."""
PART_WIDTH, MOST_PARTS = 2.0, 6
"""The slack is divided into parts of this width in z, by the mean of log k; so many at most."""
LARGEST_BEND = 3.0
"""The mean of a bend is no larger than this when the point moves on."""
FIRST_LOG_SLOPE, LOG_SLOPE_SPREAD, BEND_SPREAD = 2.0, 1.5, 0.75
"""What is believed of log k at first, before any answer; and the spread of the bend."""
LOG_SLOPE_DRIFT, BEND_DRIFT = 0.4, 0.25
"""By how much log k and the bend may change from one point to the next."""
FARTHEST_INWARD = 0.9
"""A shift goes no farther towards the source than this share of the way, and outward no farther
than the distance itself."""
LEAST_SHARE = 1e-9
"""No share is believed to be nearer to 0 or 1."""
LEAST_BELIEF = 1e-9
"""What a slope keeps of belief when the point moves on."""
NEGLIGIBLE_WEIGHT = 1e-3
"""Slopes less likely than this, beside the likeliest, are left out when means are taken."""
AIMED_Z: Values = np.linspace(-6.0, 6.0, 49)
"""The z that are aimed at, for the mean of log k; farther apart, to three spreads, while it is not
known where the boundary lies."""
LARGEST_RATIO = 1000.0
"""A dearer c* is planned as this, infinity too: time is never free."""
NODE_STEP, LARGEST_NODE = 0.25, 3.0
"""Nodes of b lie at m + sqrt(v) sinh(x), x in these steps: to ten spreads, densest at m."""
STRAY_SHARE, STRAY_SPREAD = 1e-4, 5.0
"""This share of a belief of b is normal with so many times its spread: nothing is out of the
question."""
LEVEL_STEP, LEVELS = 0.1, 32
"""Steps of log s in the table of the information, and their number."""


def limit_ratio(ratio: float) -> float:
    """The c* to plan with: no dearer than `LARGEST_RATIO`, and no cheaper than its inverse."""
    return min(max(ratio, 1 / LARGEST_RATIO), LARGEST_RATIO)


class _Tables(NamedTuple):
    """By rows of z, or of y."""

    passed: Values
    """log p."""
    failed: Values
    """log(1 - p)."""
    low: Values
    """p."""
    density: Values
    """phi."""
    information: Values
    """phi^2 / (p (1-p))."""
    told: Values
    """The mean information times s: all rows of the first level of s, of the second, ..."""


@lru_cache(maxsize=1)
def _tables() -> _Tables:
    y = np.arange(-LARGEST_Z, LARGEST_Z + Z_STEP / 2, Z_STEP)
    passed, failed, density = log_ndtr(y), log_ndtr(-y), _density(y)
    information = density * density / np.exp(passed + failed)
    z = np.arange(-10.0, 10.01, 0.2)
    told = _density(z) ** 2 / np.exp(log_ndtr(z) + log_ndtr(-z))
    levels = [information]
    for s in np.exp(LEVEL_STEP * np.arange(1, LEVELS)):
        spread = math.sqrt(s * s - 1)
        levels.append(_density((z - s * y[:, None]) / spread) @ told * (0.2 * s / spread))
    return _Tables(passed, failed, ndtr(y), density, information, np.concatenate(levels))


def _density(z: Values) -> Values:
    return np.asarray(np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi))


def _table_rows(at: Values) -> NDArray[np.intp]:
    """The rows of the tables at MIDDLE_ROW + z / Z_STEP, an array that is used up."""
    np.maximum(at, 0.0, out=at)
    return np.minimum(at, LAST_ROW, out=at).astype(np.intp)


def _nodes() -> tuple[Values, Values]:
    """Places of the nodes of a normal belief, and powers 0, 1, 2 of them, weighed by it."""
    x = np.arange(-LARGEST_NODE, LARGEST_NODE + NODE_STEP / 2, NODE_STEP)
    at = np.sinh(x)
    stray = STRAY_SHARE / STRAY_SPREAD * _density(at / STRAY_SPREAD)
    weights = np.cosh(x) * ((1 - STRAY_SHARE) * _density(at) + stray)
    return at, np.stack([weights, weights * at, weights * at * at], 1) / weights.sum()


NODES, MOMENTS = _nodes()
LEAST_VARIANCE = NODE_STEP**2 / 12
"""Of b after a chunk, beside what it was: nodes tell no more."""


@lru_cache(maxsize=64)
def _kernel(count: int, drift: float) -> Values:
    apart = np.subtract.outer(np.arange(count), np.arange(count)) / drift
    weights = np.exp(-0.5 * apart**2)
    return np.asarray(weights / weights.sum(0))


def _widening(grid: Values, drift: float) -> Values:
    """The matrix that widens a belief on a grid of equal steps by a drift."""
    return _kernel(len(grid), drift / (grid[1] - grid[0]))


class Scores(NamedTuple):
    """What an answer counts."""

    passed: float
    """If it was adversarial."""
    failed: float
    """If it was not; counted as minus this."""
    share: float
    """Of adversarial answers, expected."""

    @property
    def information(self) -> float:
        """Of one answer, weighed so."""
        return self.passed * self.failed


class Optimum(NamedTuple):
    """The best place to ask, for a slope that is known."""

    z: float
    rate: float
    """Information per cost."""
    share: float
    """Of adversarial answers."""


@lru_cache(maxsize=64)
def optimum(ratio: float) -> Optimum:
    """Where an answer tells most for what it costs, at a price c*."""
    t = _tables()
    rates = t.information / (t.low + ratio * (1 - t.low))
    row = int(rates.argmax())
    return Optimum(-LARGEST_Z + Z_STEP * row, float(rates[row]), float(t.low[row]))


class Belief:
    """About one image's slope, bend and slack. Shifts and slacks are in units of delta."""

    def __init__(self, ratio: float) -> None:
        self._ratio, self._farthest = ratio, math.inf
        weights = np.exp(-0.5 * ((LOG_SLOPES - FIRST_LOG_SLOPE) / LOG_SLOPE_SPREAD) ** 2)
        bends = np.zeros_like(weights), np.full_like(weights, BEND_SPREAD**2)
        self._place(weights / weights.sum(), *bends, 0.0)

    def _place(self, weights: Values, bends: Values, variances: Values, slack: float) -> None:
        """At a new point: the weight of each slope, mean and variance of its bend; and up to which
        slack. The parts of a slack are rows one after the other, all for the first slope first."""
        width = slack * math.exp(min(float(weights @ LOG_SLOPES), LARGEST_Z))
        parts = self._parts = math.ceil(min(max(width / PART_WIDTH, 1), MOST_PARTS))
        self._slopes = SLOPES.repeat(parts)
        self._bends = bends.repeat(parts), variances.repeat(parts)
        middles = np.multiply.outer(SLOPES, slack * (np.arange(parts) + 0.5) / parts).ravel()
        self._slack = middles, (self._slopes * (slack / parts)) ** 2 / 12
        self._believe((weights / parts).repeat(parts), *map(np.add, self._bends, self._slack))

    def _believe(self, weights: Values, means: Values, variances: Values) -> None:
        """The weight of each slope and part, and mean and variance of its b."""
        self._weights, self._means, self._variances = weights, means, variances
        found = np.flatnonzero(weights > NEGLIGIBLE_WEIGHT * weights.max())
        likely, self._spread = weights[found], np.sqrt(1 + variances[found])
        self._likely = likely / likely.sum()
        self._narrow = self._likely / self._spread
        self._at = self._slopes[found], means[found]
        scale = (1 / Z_STEP) / self._spread
        self._rows = self._at[0] * scale, self._at[1] * scale + MIDDLE_ROW

    def begin(self, slack: float, points: int = 1, distance: float = math.inf) -> None:
        """A new point, up to `slack` outside, at a distance from the source, so many points after
        the last. Whatever their number, no more is forgotten than was not known at first."""
        self._farthest = distance
        drift = min(LOG_SLOPE_DRIFT * math.sqrt(points), LOG_SLOPE_SPREAD)
        bending = min(BEND_DRIFT * math.sqrt(points), BEND_SPREAD)
        means, variances = self._bend_moments()
        weights = self._weights + LEAST_BELIEF
        powers = np.array([weights, weights * means, weights * (means * means + variances)])
        powers = powers.reshape(3, len(SLOPES), self._parts).sum(2)
        weights, means, squares = powers @ _widening(LOG_SLOPES, drift).T
        means, squares = means / weights, squares / weights
        variances = np.maximum(squares - means * means, 0.0) + bending**2
        bends = np.clip(means, -LARGEST_BEND, LARGEST_BEND)
        self._place(weights / weights.sum(), bends, variances, min(slack, LARGEST_SLACK))

    def _bend_moments(self) -> tuple[Values, Values]:
        """Mean and variance of the bend for each slope and part, by what is believed of b."""
        (bends, variances), (slack, slack_variances) = self._bends, self._slack
        gain = variances / (variances + slack_variances)
        means = bends + gain * (self._means - bends - slack)
        return means, gain * (gain * self._variances + slack_variances)

    @property
    def log_slope(self) -> float:
        """The mean of log k."""
        return float(self._weights.reshape(-1, self._parts).sum(1) @ LOG_SLOPES)

    @property
    def bend(self) -> float:
        """The mean of the bend."""
        return float(self._weights @ self._bend_moments()[0])

    @property
    def best_share(self) -> float:
        """The share of adversarial answers that is aimed at."""
        return optimum(self._ratio).share

    def aim(self) -> float:
        """The shift of the next answers."""
        t, (slopes, means) = _tables(), self._at
        places = -means / slopes  # where the shares would be halves
        middle = float(places @ self._likely)
        squares = (places - middle) ** 2 + (self._spread / slopes) ** 2 - slopes**-2
        apart = math.sqrt(max(float(squares @ self._likely), 0.0))  # rounded, it may be below 0
        shifts = middle + AIMED_Z * max(math.exp(-self.log_slope), 3 * apart / AIMED_Z[-1])
        shifts = np.clip(shifts, -FARTHEST_INWARD * self._farthest, self._farthest)
        rows = self._expected_rows(shifts)
        low = t.low.take(rows) @ self._likely
        levels = np.minimum(np.log(self._spread) * (1 / LEVEL_STEP) + 0.5, LEVELS - 1)
        rows += levels.astype(np.intp) * len(t.low)
        rates = t.told.take(rows) @ self._narrow / (self._ratio + (1 - self._ratio) * low)
        return float(shifts[int(rates.argmax())])

    def _expected_rows(self, shifts: Values) -> NDArray[np.intp]:
        """The row of y at each shift, for each slope and part that is likely."""
        steps, starts = self._rows
        at = np.multiply.outer(shifts, steps)
        at += starts
        return _table_rows(at)

    def update(self, shift: float, passed: int, failed: int) -> None:
        """So many adversarial and other answers at a shift."""
        t, spreads = _tables(), np.sqrt(self._variances)
        at = np.multiply.outer(spreads * (1 / Z_STEP), NODES)
        at += ((self._means + self._slopes * shift) * (1 / Z_STEP) + MIDDLE_ROW)[:, None]
        log = (passed * t.passed + failed * t.failed).take(_table_rows(at))
        log -= log.max()
        told = np.exp(log, out=log) @ MOMENTS
        total = np.maximum(told[:, 0], 1e-300)
        first, second = told[:, 1] / total, told[:, 2] / total
        weights = self._weights * told[:, 0] + 1e-300
        self._believe(
            weights / weights.sum(),
            self._means + spreads * first,
            self._variances * (second - first * first + LEAST_VARIANCE),
        )

    def scores(self, *shifts: float) -> list[Scores]:
        """What answers at each of some shifts count, by what is believed now."""
        t, rows = _tables(), self._expected_rows(np.array(shifts))
        low, density = t.low.take(rows) @ self._likely, t.density.take(rows) @ self._narrow
        return [_scores(*each) for each in zip(low.tolist(), density.tolist(), strict=True)]


def _scores(low: float, density: float) -> Scores:
    low = min(max(low, LEAST_SHARE), 1 - LEAST_SHARE)
    return Scores(density / low, density / (1 - low), low)
