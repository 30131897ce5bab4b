"""The belief about the overshoot: how far outside the boundary to sample, learned from the answers.

(The paper's closed form of the optimal overshoot, omega*, is in theory/caps.py.)

An answer at `point + shift u + delta v`, where u is the unit vector from the source to a boundary
point and v a random direction, is adversarial with a probability of about

    p = Phi(z),   z = k (slack + shift) / delta + bend,   k = <u, g> / |g|_v

where g is the normal and |g|_v the standard deviation of <v, g>. The slope k is unknown. The
`slack`, the gap between the point and the boundary, is known up to the tolerance of the search.
Real boundaries bend, and pixels are clipped at 0 and 1, so samples around a boundary point favour
one side (the median adversarial share is two in five on ResNet-50 and ResNet-20; on a sphere nearly
all are). The second unknown, `bend`, accounts for this; without it, such answers could only mean
that k is 0. The model needs no dimension, no assumption about an angle, and no schedule.

- The answers at one point determine only k and b = k slack / delta + bend: z = k shift / delta + b.
  Each slope of a grid has a weight and a normal belief about b, with mean m and variance v. A chunk
  multiplies this belief by the likelihood of its counts on nodes around m; only the product's
  weight, mean and variance are kept.
- Expectations have closed forms. With s = sqrt(1 + v) and y = (k shift + m) / s, the share of a
  slope is Phi(y), and the mean of phi(z) is phi(y) / s. The mean information is phi(y) / s times a
  slowly varying factor of y and s, between 1.6 and 2 where it matters, which is tabulated.
- One answer carries the Fisher information phi(z)^2 / (p (1-p)) about the normal, in units of
  |g|_v^2, and costs p + c* (1-p). The next chunk goes where the expected information per expected
  cost is largest (`aim`). For a known k this is the optimum of the paper's Theorem 3, as d grows.
- The score of an answer, the weight of its direction in the estimate, is phi/p if it is adversarial
  and -phi/(1-p) if not. These are the weights of Algorithm 3 where p is the observed share, and
  they remain right across chunks with different shifts, one-sided chunks included. With the
  believed phi and p, the information of an answer is the product of the two scores.
- Between points the belief about slope and bend is widened, and the position within the slack is
  unknown again. What was learned about b is divided between bend and slack by their variances.
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
"""Limit of |z| in the tables."""
LAST_ROW = round(2 * LARGEST_Z / Z_STEP)
MIDDLE_ROW = LAST_ROW / 2 + 0.5
"""Row of the tables where z = 0, plus a half for rounding."""
LOG_SLOPES: Values = np.arange(-2.0, 8.01, 0.25)
SLOPES: Values = np.exp(LOG_SLOPES)
LARGEST_SLACK = 1e9
PART_WIDTH, MAX_PARTS = 2.0, 6
"""Width in z, at the mean of log k, of the parts of the slack, and their maximum number."""
LARGEST_BEND = 3.0
"""Limit of the mean bend when the point changes."""
FIRST_LOG_SLOPE, LOG_SLOPE_SPREAD, BEND_SPREAD = 2.0, 1.5, 0.75
"""Initial mean and standard deviation of log k, and initial standard deviation of the bend."""
LOG_SLOPE_DRIFT, BEND_DRIFT = 0.4, 0.25
"""Standard deviations by which log k and the bend change from one point to the next."""
FARTHEST_INWARD = 0.9
"""Limit of an inward shift, as a share of the distance; the limit outward is the distance."""
MIN_SHARE = 1e-9
"""Minimum difference between a believed share and 0 or 1."""
MIN_WEIGHT = 1e-9
"""Minimum weight of a slope when the point changes."""
NEGLIGIBLE_WEIGHT = 1e-3
"""Slopes with a smaller weight relative to the likeliest are omitted from means."""
AIMED_Z: Values = np.linspace(-6.0, 6.0, 49)
"""Candidate z for the mean of log k; spread wider, to three standard deviations, while the position
of the boundary is uncertain."""
LARGEST_RATIO = 1000.0
"""Largest c* used for planning, even if c* is infinite: time is never free."""
NODE_STEP, LARGEST_NODE = 0.25, 3.0
"""Step and limit of x for nodes of b at m + sqrt(v) sinh(x): to ten standard deviations, densest
at m."""
STRAY_SHARE, STRAY_SPREAD = 1e-4, 5.0
"""Share of the belief about b that has a wider standard deviation, and the factor by which it is
wider, so that no value is excluded."""
LEVEL_STEP, LEVELS = 0.1, 32
"""Step and number of values of log s in the table of mean information."""
TINY = 1e-300


def limit_ratio(ratio: float) -> float:
    """Return the c* to plan with, between 1 / `LARGEST_RATIO` and `LARGEST_RATIO`."""
    return min(max(ratio, 1 / LARGEST_RATIO), LARGEST_RATIO)


def _density(z: Values) -> Values:
    return np.asarray(np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi))


class _Tables(NamedTuple):
    """Functions of z, or y, by row."""

    log_passed: Values  # log p
    log_failed: Values  # log(1 - p)
    share: Values  # p
    density: Values  # phi
    information: Values  # phi^2 / (p (1-p))
    mean_information: Values
    """Mean information times s: all rows for the first value of s, for the second, ..."""


@lru_cache(maxsize=1)
def _tables() -> _Tables:
    y = np.arange(-LARGEST_Z, LARGEST_Z + Z_STEP / 2, Z_STEP)
    passed, failed, density = log_ndtr(y), log_ndtr(-y), _density(y)
    information = density * density / np.exp(passed + failed)
    z = np.arange(-10.0, 10.01, 0.2)
    at_z = _density(z) ** 2 / np.exp(log_ndtr(z) + log_ndtr(-z))
    levels = [information]
    for s in np.exp(LEVEL_STEP * np.arange(1, LEVELS)):
        spread = math.sqrt(s * s - 1)
        levels.append(_density((z - s * y[:, None]) / spread) @ at_z * (0.2 * s / spread))
    return _Tables(passed, failed, ndtr(y), density, information, np.concatenate(levels))


def _table_rows(at: Values) -> NDArray[np.intp]:
    """Return the table rows for `at`, which is MIDDLE_ROW + z / Z_STEP and is overwritten."""
    np.maximum(at, 0.0, out=at)
    return np.minimum(at, LAST_ROW, out=at).astype(np.intp)


def _nodes() -> tuple[Values, Values]:
    """Return the nodes of a normal belief, and their powers 0, 1, 2 weighted by it."""
    x = np.arange(-LARGEST_NODE, LARGEST_NODE + NODE_STEP / 2, NODE_STEP)
    at = np.sinh(x)
    stray = STRAY_SHARE / STRAY_SPREAD * _density(at / STRAY_SPREAD)
    weights = np.cosh(x) * ((1 - STRAY_SHARE) * _density(at) + stray)
    return at, np.stack([weights, weights * at, weights * at * at], 1) / weights.sum()


NODES, MOMENTS = _nodes()
MIN_VARIANCE = NODE_STEP**2 / 12
"""Minimum ratio of the variance of b after and before a chunk: the resolution of the nodes."""


@lru_cache(maxsize=64)
def _widening(drift: float) -> Values:
    """Return the matrix that widens a belief on the grid of log slopes by a drift."""
    count, steps = len(LOG_SLOPES), drift / (LOG_SLOPES[1] - LOG_SLOPES[0])
    apart = np.subtract.outer(np.arange(count), np.arange(count)) / steps
    weights = np.exp(-0.5 * apart**2)
    return np.asarray(weights / weights.sum(0))


class Scores(NamedTuple):
    """The weights of an answer in an estimate."""

    passed: float  # of an adversarial answer
    failed: float  # minus the weight of any other answer
    share: float  # expected share of adversarial answers

    @property
    def information(self) -> float:
        """Information of one answer with these weights."""
        return self.passed * self.failed


class Optimum(NamedTuple):
    """The best place for queries if the slope is known."""

    z: float
    rate: float  # information per cost
    share: float  # share of adversarial answers


@lru_cache(maxsize=64)
def optimum(ratio: float) -> Optimum:
    """Return the position with the most information per cost at a price ratio c*."""
    t = _tables()
    rates = t.information / (t.share + ratio * (1 - t.share))
    row = int(rates.argmax())
    return Optimum(-LARGEST_Z + Z_STEP * row, float(rates[row]), float(t.share[row]))


class OvershootBelief:
    """The belief about one image's slope, bend and slack. Shifts and slacks are in units of delta.

    The slack is divided into parts. Arrays have one entry for each part of each slope: all parts of
    the first slope, then all parts of the second, ...
    """

    def __init__(self, ratio: float) -> None:
        self._ratio, self._farthest = ratio, math.inf
        weights = np.exp(-0.5 * ((LOG_SLOPES - FIRST_LOG_SLOPE) / LOG_SLOPE_SPREAD) ** 2)
        bends = np.zeros_like(weights), np.full_like(weights, BEND_SPREAD**2)
        self._place(weights / weights.sum(), *bends, 0.0)

    def _place(self, weights: Values, bends: Values, variances: Values, slack: float) -> None:
        """Set the belief at a new point: the weight, mean bend and its variance for each slope, and
        the largest slack."""
        width = slack * math.exp(min(float(weights @ LOG_SLOPES), LARGEST_Z))
        parts = self._parts = math.ceil(min(max(width / PART_WIDTH, 1), MAX_PARTS))
        self._slopes = SLOPES.repeat(parts)
        self._bends = bends.repeat(parts), variances.repeat(parts)
        middles = np.multiply.outer(SLOPES, slack * (np.arange(parts) + 0.5) / parts).ravel()
        self._slack = middles, (self._slopes * (slack / parts)) ** 2 / 12
        self._believe((weights / parts).repeat(parts), *map(np.add, self._bends, self._slack))

    def _believe(self, weights: Values, means: Values, variances: Values) -> None:
        """Set the weight of each entry, and the mean and variance of its b."""
        self._weights, self._means, self._variances = weights, means, variances
        found = np.flatnonzero(weights > NEGLIGIBLE_WEIGHT * weights.max())
        likely, self._spread = weights[found], np.sqrt(1 + variances[found])
        self._likely = likely / likely.sum()
        self._narrow = self._likely / self._spread
        self._at = self._slopes[found], means[found]
        scale = (1 / Z_STEP) / self._spread
        self._rows = self._at[0] * scale, self._at[1] * scale + MIDDLE_ROW

    def begin(self, slack: float, points: int = 1, distance: float = math.inf) -> None:
        """Move to a new point, `points` after the last: at most `slack` outside the boundary, and
        `distance` from the source. The belief never becomes wider than it was initially."""
        self._farthest = distance
        drift = min(LOG_SLOPE_DRIFT * math.sqrt(points), LOG_SLOPE_SPREAD)
        bending = min(BEND_DRIFT * math.sqrt(points), BEND_SPREAD)
        means, variances = self._bend_moments()
        weights = self._weights + MIN_WEIGHT
        powers = np.array([weights, weights * means, weights * (means * means + variances)])
        powers = powers.reshape(3, len(SLOPES), self._parts).sum(2)
        weights, means, squares = powers @ _widening(drift).T
        means, squares = means / weights, squares / weights
        variances = np.maximum(squares - means * means, 0.0) + bending**2
        bends = np.clip(means, -LARGEST_BEND, LARGEST_BEND)
        self._place(weights / weights.sum(), bends, variances, min(slack, LARGEST_SLACK))

    def _bend_moments(self) -> tuple[Values, Values]:
        """Return the mean and variance of the bend for each entry, given the belief about b."""
        (bends, variances), (slack, slack_variances) = self._bends, self._slack
        gain = variances / (variances + slack_variances)
        means = bends + gain * (self._means - bends - slack)
        return means, gain * (gain * self._variances + slack_variances)

    @property
    def log_slope(self) -> float:
        """Mean of log k."""
        return float(self._weights.reshape(-1, self._parts).sum(1) @ LOG_SLOPES)

    @property
    def bend(self) -> float:
        """Mean of the bend."""
        return float(self._weights @ self._bend_moments()[0])

    def aim(self) -> float:
        """Return the shift of the next queries."""
        t, (slopes, means) = _tables(), self._at
        places = -means / slopes  # where the share is a half
        middle = float(places @ self._likely)
        squares = (places - middle) ** 2 + (self._spread / slopes) ** 2 - slopes**-2
        apart = math.sqrt(max(float(squares @ self._likely), 0.0))  # rounding may make it negative
        shifts = middle + AIMED_Z * max(math.exp(-self.log_slope), 3 * apart / AIMED_Z[-1])
        shifts = np.clip(shifts, -FARTHEST_INWARD * self._farthest, self._farthest)
        rows = self._expected_rows(shifts)
        share = t.share.take(rows) @ self._likely
        levels = np.minimum(np.log(self._spread) * (1 / LEVEL_STEP) + 0.5, LEVELS - 1)
        rows += levels.astype(np.intp) * len(t.share)
        information = t.mean_information.take(rows) @ self._narrow
        rates = information / (self._ratio + (1 - self._ratio) * share)
        return float(shifts[int(rates.argmax())])

    def _expected_rows(self, shifts: Values) -> NDArray[np.intp]:
        """Return the table row of y at each shift, for each likely entry."""
        steps, starts = self._rows
        at = np.multiply.outer(shifts, steps)
        at += starts
        return _table_rows(at)

    def update(self, shift: float, passed: int, failed: int) -> None:
        """Learn from the numbers of adversarial and other answers at a shift."""
        t, spreads = _tables(), np.sqrt(self._variances)
        at = np.multiply.outer(spreads * (1 / Z_STEP), NODES)
        at += ((self._means + self._slopes * shift) * (1 / Z_STEP) + MIDDLE_ROW)[:, None]
        log = (passed * t.log_passed + failed * t.log_failed).take(_table_rows(at))
        log -= log.max()
        moments = np.exp(log, out=log) @ MOMENTS
        total = np.maximum(moments[:, 0], TINY)
        first, second = moments[:, 1] / total, moments[:, 2] / total
        weights = self._weights * moments[:, 0] + TINY
        self._believe(
            weights / weights.sum(),
            self._means + spreads * first,
            self._variances * (second - first * first + MIN_VARIANCE),
        )

    def scores(self, *shifts: float) -> list[Scores]:
        """Return the scores of answers at the shifts, given the current belief."""
        t, rows = _tables(), self._expected_rows(np.array(shifts))
        shares, densities = t.share.take(rows) @ self._likely, t.density.take(rows) @ self._narrow
        found = []
        for believed, density in zip(shares.tolist(), densities.tolist(), strict=True):
            share = min(max(believed, MIN_SHARE), 1 - MIN_SHARE)
            found.append(Scores(density / share, density / (1 - share), share))
        return found
