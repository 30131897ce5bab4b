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

- The belief about (log k, bend, slack) is a table of weights on a grid; each chunk of answers
  multiplies it by the likelihood of its counts.
- One answer tells phi(z)^2 / (p (1-p)) of what the normal is (its Fisher information, in units of
  |g|_v^2), and costs p + c* (1-p). The next chunk goes where the expected information per expected
  cost is largest (`aim`). For a known k that is the optimum of the paper's theorem, as d grows.
- The score of an answer, by which its direction counts in the estimate, is phi/p if it was
  adversarial and -phi/(1-p) if not: Algorithm 3's weights where p is the share that was found, and
  right across chunks with different shifts, one-sided ones included. With what is believed of phi
  and p in place of them, an answer tells the product of the two scores.
- From one point to the next what is believed of slope and bend is widened; where in its tolerance
  the next lies is not known.
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
LOG_SLOPES: Values = np.arange(-2.0, 8.01, 0.25)
LARGEST_SLACK = 1e9
"""A larger slack counts as this."""
SLACK_SHARES: Values = (np.arange(6) + 0.5) / 6
"""Where in its tolerance the point may lie."""
BENDS: Values = np.arange(-3.0, 3.01, 0.25)
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
"""What a slope and a bend keep of belief when the point moves on."""
NEGLIGIBLE_WEIGHT = 1e-3
"""What is less likely than this, beside what is likeliest, is left out when means are taken."""
AIMED_Z: Values = np.linspace(-6.0, 6.0, 49)
"""The z that are aimed at, for the mean of log k; farther apart, to three spreads, while it is not
known where the boundary lies."""
LARGEST_RATIO = 1000.0
"""A dearer c* is planned as this, infinity too: time is never free."""


def limit_ratio(ratio: float) -> float:
    """The c* to plan with: no dearer than `LARGEST_RATIO`, and no cheaper than its inverse."""
    return min(max(ratio, 1 / LARGEST_RATIO), LARGEST_RATIO)


class _Tables(NamedTuple):
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


@lru_cache(maxsize=1)
def _tables() -> _Tables:
    z = np.arange(-LARGEST_Z, LARGEST_Z + Z_STEP / 2, Z_STEP)
    passed, failed = log_ndtr(z), log_ndtr(-z)
    log_density = -z * z / 2 - 0.5 * math.log(2 * math.pi)
    return _Tables(
        passed, failed, ndtr(z), np.exp(log_density), np.exp(2 * log_density - passed - failed)
    )


def _table_rows(z: Values) -> NDArray[np.intp]:
    """The rows of the tables."""
    return np.clip(np.rint((z + LARGEST_Z) / Z_STEP), 0, round(2 * LARGEST_Z / Z_STEP)).astype(
        np.intp
    )


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
        self._ratio, self._farthest, self._slack = ratio, math.inf, np.zeros(len(SLACK_SHARES))
        log = (
            -0.5 * ((LOG_SLOPES[:, None] - FIRST_LOG_SLOPE) / LOG_SLOPE_SPREAD) ** 2
            - 0.5 * (BENDS / BEND_SPREAD) ** 2
        )
        self._log = np.repeat(log[:, :, None], len(SLACK_SHARES), axis=2)
        self._weigh()

    def _weigh(self) -> None:
        self._log -= self._log.max()
        weights = np.exp(self._log)
        self._weights = weights / weights.sum()
        slope, bend, place = np.nonzero(weights > NEGLIGIBLE_WEIGHT)
        likely = self._weights[slope, bend, place]
        self._likely = likely / likely.sum()
        self._at = np.exp(LOG_SLOPES[slope]), BENDS[bend], place

    def begin(self, slack: float, points: int = 1, distance: float = math.inf) -> None:
        """A new point, up to `slack` outside, at a distance from the source, so many points after
        the last. Whatever their number, no more is forgotten than was not known at first."""
        self._farthest, self._slack = distance, min(slack, LARGEST_SLACK) * SLACK_SHARES
        drift = min(LOG_SLOPE_DRIFT * math.sqrt(points), LOG_SLOPE_SPREAD)
        bending = min(BEND_DRIFT * math.sqrt(points), BEND_SPREAD)
        moved = _widening(LOG_SLOPES, drift) @ self._weights.sum(2) @ _widening(BENDS, bending).T
        self._log = np.repeat(np.log(moved + LEAST_BELIEF)[:, :, None], len(SLACK_SHARES), axis=2)
        self._weigh()

    def _rows(self, shift: float | Values) -> NDArray[np.intp]:
        """The rows of the tables for all that is likely, at a shift, or at each of a column."""
        slopes, bends, place = self._at
        z = slopes * (self._slack[place] + shift) + bends
        return _table_rows(z)

    @property
    def log_slope(self) -> float:
        """The mean of log k."""
        return float(self._weights.sum((1, 2)) @ LOG_SLOPES)

    @property
    def bend(self) -> float:
        """The mean of the bend."""
        return float(self._weights.sum((0, 2)) @ BENDS)

    @property
    def best_share(self) -> float:
        """The share of adversarial answers that is aimed at."""
        return optimum(self._ratio).share

    def aim(self) -> float:
        """The shift of the next answers."""
        t, (slopes, bends, place) = _tables(), self._at
        places = -self._slack[place] - bends / slopes  # where the shares would be halves
        middle = float(places @ self._likely)
        apart = math.sqrt(float((places - middle) ** 2 @ self._likely))
        shifts = middle + AIMED_Z * max(math.exp(-self.log_slope), 3 * apart / AIMED_Z[-1])
        shifts = np.clip(shifts, -FARTHEST_INWARD * self._farthest, self._farthest)
        rows = self._rows(shifts[:, None])
        information, low = t.information[rows] @ self._likely, t.low[rows] @ self._likely
        return float(shifts[int((information / (low + self._ratio * (1 - low))).argmax())])

    def update(self, shift: float, passed: int, failed: int) -> None:
        """So many adversarial and other answers at a shift."""
        t = _tables()
        outside = np.exp(LOG_SLOPES)[:, None, None] * (self._slack + shift)
        rows = _table_rows(outside + BENDS[:, None])
        self._log += passed * t.passed[rows] + failed * t.failed[rows]
        self._weigh()

    def scores(self, shift: float) -> Scores:
        """What answers at a shift count, by what is believed now."""
        t, rows = _tables(), self._rows(shift)
        low, density = (float(table[rows] @ self._likely) for table in (t.low, t.density))
        low = min(max(low, LEAST_SHARE), 1 - LEAST_SHARE)
        return Scores(density / low, density / (1 - low), low)
