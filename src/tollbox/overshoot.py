"""Measured overshoot: how far outside the boundary to sample, learned from the answers themselves.

Around a boundary point, take the boundary for a plane. An answer at `point + shift u + delta v`, u
the unit vector away from the source and v a random direction, is then adversarial with probability

    p = Phi(z),   z = k (slack + shift) / delta + bend,   k = <u, g> / |g|_v

where g is the normal and |g|_v the spread of <v, g>: k is the one unknown slope, and `slack`, how
far the point itself lies outside, is known up to the tolerance of the search that found it. Real
boundaries bend, and pixels end at 0 and 1: samples around a point of the boundary are then on one
side more often than on the other (on ResNet-50 three of four are flagged at delta = 0.16 r). That
is the second unknown, `bend`; without it a belief that is told so can only say that k is nothing,
and aims anywhere. There is no dimension in this, no assumption on an angle, and no schedule.

- The belief about (log k, bend) is a table of weights on a grid; each chunk of answers multiplies
  it by the likelihood of its counts.
- One answer tells phi(z)^2 / (p (1-p)) of what the normal is (its Fisher information, in units of
  |g|_v^2), and costs p + c* (1-p). The next chunk goes where the expected information per expected
  cost is largest (`aim`). For a known k that is the optimum of the paper's theorem, as d grows.
- The score of an answer, by which its direction counts in the estimate, is phi/p if it was
  adversarial and -phi/(1-p) if not: Algorithm 3's weights where p is the share that was found, and
  right across chunks with different shifts, one-sided ones included. With what is believed of phi
  and p in place of them, an answer tells the product of the two scores.
- From one iteration to the next the belief is widened. Where in its tolerance a new point lies is
  not known: that widens what is believed of the bend, by k times the tolerance.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

Values = NDArray[np.float64]

STEP = 0.02
REACH = 8.0
"""z beyond this counts as this."""
LOG_SLOPES: Values = np.arange(-2.0, 8.01, 0.25)
BENDS: Values = np.arange(-3.0, 3.01, 0.25)
GUESS, SPREAD, BENT = 2.0, 1.5, 0.75
"""What is believed of log k at first, before any answer; and the spread of the bend."""
BENDING = 0.25
"""By how much the bend may change from one point to the next."""
INWARD = 0.9
"""A shift goes no farther towards the source than this share of the way, and outward no farther
than the distance itself."""
CERTAIN = 1e-9
"""No share is believed to be nearer to 0 or 1."""
UNLIKELY = 1e-9
"""What a slope keeps of belief when it moves on."""
RARE = 1e-4
"""What is less likely than this, beside what is likeliest, is left out where aims are compared."""
AIMS: Values = np.linspace(-6.0, 6.0, 49)
"""The z that are aimed at, for the mean of log k."""
DEAREST = 1000.0
"""A dearer c* is planned as this, infinity too: time is never free."""


def planned(ratio: float) -> float:
    """The c* that is planned with."""
    return min(max(ratio, 1 / DEAREST), DEAREST)


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
    z = np.arange(-REACH, REACH + STEP / 2, STEP)
    passed, failed = log_ndtr(z), log_ndtr(-z)
    log_density = -z * z / 2 - 0.5 * math.log(2 * math.pi)
    return _Tables(
        passed, failed, ndtr(z), np.exp(log_density), np.exp(2 * log_density - passed - failed)
    )


def _rows(z: Values) -> NDArray[np.intp]:
    return np.clip(np.rint((z + REACH) / STEP), 0, round(2 * REACH / STEP)).astype(np.intp)


def _shares(log: Values) -> Values:
    """Weights that add up to 1 along the last axis, of these logarithms."""
    weights = np.exp(log)
    return np.asarray(weights / weights.sum(-1, keepdims=True))


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


class Best(NamedTuple):
    """The best place to ask, for a slope that is known."""

    z: float
    rate: float
    """Information per cost."""
    share: float
    """Of adversarial answers."""


@lru_cache(maxsize=64)
def best(ratio: float) -> Best:
    """Where an answer tells most for what it costs, at a price c*."""
    t = _tables()
    rates = t.information / (t.low + ratio * (1 - t.low))
    row = int(rates.argmax())
    return Best(-REACH + STEP * row, float(rates[row]), float(t.low[row]))


class Belief:
    """About one image's slope and bend. Shifts and slacks are in units of delta."""

    def __init__(self, ratio: float) -> None:
        self._ratio, self._farthest, self._slack = ratio, math.inf, 0.0
        self._slopes = np.exp(LOG_SLOPES)[:, None]
        log = -0.5 * ((LOG_SLOPES - GUESS) / SPREAD) ** 2
        self._log = log[:, None] - 0.5 * (BENDS / BENT) ** 2
        self._weights = self._normal()

    def _normal(self) -> Values:
        self._log -= self._log.max()
        weights = np.exp(self._log)
        return np.asarray(weights / weights.sum())

    def begin(self, slack: float, drift: float, distance: float = math.inf) -> None:
        """A new point, up to `slack` outside, at a distance from the source; log k may have changed
        by about `drift`."""
        self._farthest, self._slack = distance, slack / 2
        apart = (LOG_SLOPES[:, None] - LOG_SLOPES[None, :]) / drift
        moved = _shares(-0.5 * apart**2).T @ self._weights
        widths = np.minimum(np.hypot(BENDING, self._slopes * slack / math.sqrt(12)), REACH)
        bent = _shares(-0.5 * ((BENDS[:, None] - BENDS[None, :]) / widths[:, :, None]) ** 2)
        moved = np.einsum("kb,kbc->kc", moved, bent)
        self._log = np.log(moved + UNLIKELY)
        self._weights = self._normal()

    @property
    def log_slope(self) -> float:
        """The mean of log k."""
        return float(self._weights.sum(1) @ LOG_SLOPES)

    @property
    def best_share(self) -> float:
        """The share of adversarial answers that is aimed at."""
        return best(self._ratio).share

    def aim(self) -> float:
        """The shift of the next answers."""
        t, weights = _tables(), self._weights
        shifts = (AIMS - float(weights.sum(0) @ BENDS)) / math.exp(self.log_slope) - self._slack
        shifts = np.clip(shifts, -INWARD * self._farthest, self._farthest)
        slope, bend = np.nonzero(weights > RARE * weights.max())
        likely = weights[slope, bend]
        rows = _rows(self._slopes[slope, 0] * (self._slack + shifts[:, None]) + BENDS[bend])
        information, low = t.information[rows] @ likely, t.low[rows] @ likely
        rate = information / (low + self._ratio * (likely.sum() - low))
        return float(shifts[int(rate.argmax())])

    def update(self, shift: float, passed: int, failed: int) -> None:
        """So many adversarial and other answers at a shift."""
        t = _tables()
        rows = _rows(self._slopes * (self._slack + shift) + BENDS)
        self._log += passed * t.passed[rows] + failed * t.failed[rows]
        self._weights = self._normal()

    def scores(self, shift: float) -> Scores:
        """What answers at a shift count, by what is believed now."""
        t = _tables()
        rows = _rows(self._slopes * (self._slack + shift) + BENDS)
        low, density = (float((table[rows] * self._weights).sum()) for table in (t.low, t.density))
        low = min(max(low, CERTAIN), 1 - CERTAIN)
        return Scores(density / low, density / (1 - low), low)
