"""Measured overshoot: how far outside the boundary to sample, learned from the answers themselves.

Around a boundary point, take the boundary for a plane. An answer at `point + shift u + delta v`, u
the unit vector away from the source and v a random direction, is then adversarial with probability

    p = Phi(z),   z = k (slack + shift) / delta,   k = <u, g> / |g|_v

where g is the normal and |g|_v the spread of <v, g>: k is the one unknown slope, and `slack`, how
far the point itself lies outside, is known up to the tolerance of the search that found it. There
is no dimension in this, no assumption on an angle, and no schedule.

- The belief about (log k, slack) is a table of weights on a grid; each chunk of answers multiplies
  it by the likelihood of its counts.
- One answer tells phi(z)^2 / (p (1-p)) of what the normal is (its Fisher information, in units of
  |g|_v^2), and costs p + c* (1-p). The next chunk goes where the expected information per expected
  cost is largest (`aim`). For a known k that is the optimum of the paper's theorem, as d grows.
- The score of an answer, by which its direction counts in the estimate, is phi/p if it was
  adversarial and -phi/(1-p) if not: Algorithm 3's weights where p is the share that was found, and
  right across chunks with different shifts, one-sided ones included. With what is believed of phi
  and p in place of them, an answer tells the product of the two scores.
- From one iteration to the next the belief about k is widened.
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
LOG_SLOPES: Values = np.arange(-2.0, 8.01, 0.125)
PLACES: Values = (np.arange(6) + 0.5) / 6
"""Where in its tolerance the point may lie."""
GUESS, SPREAD = 2.0, 1.5
"""What is believed of log k at first, before any answer."""
INWARD = 0.9
"""A shift goes no farther towards the source than this share of the way, and outward no farther
than the distance itself."""
CERTAIN = 1e-9
"""No share is believed to be nearer to 0 or 1."""
UNLIKELY = 1e-9
"""What a slope keeps of belief when it moves on."""
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
    """About one image's slope and slack. Shifts and slacks are in units of delta."""

    def __init__(self, ratio: float) -> None:
        self._ratio, self._farthest = ratio, math.inf
        self._slopes = np.exp(LOG_SLOPES)[:, None]
        log = -0.5 * ((LOG_SLOPES - GUESS) / SPREAD) ** 2
        self._log = np.repeat(log[:, None], len(PLACES), axis=1)
        self._slack = np.zeros(len(PLACES))[None, :]
        self._weights = self._normal()

    def _normal(self) -> Values:
        self._log -= self._log.max()
        weights = np.exp(self._log)
        return np.asarray(weights / weights.sum())

    def begin(self, slack: float, drift: float, distance: float = math.inf) -> None:
        """A new point, up to `slack` outside, at a distance from the source; log k may have changed
        by about `drift`."""
        self._farthest = distance
        over_k = self._weights.sum(1)
        apart = (LOG_SLOPES[:, None] - LOG_SLOPES[None, :]) / drift
        moved = np.exp(-0.5 * apart**2) @ over_k + UNLIKELY
        self._log = np.repeat(np.log(moved)[:, None], len(PLACES), axis=1)
        self._slack = slack * PLACES[None, :]
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
        t = _tables()
        typical = math.exp(self.log_slope)
        shifts = AIMS / typical - float(self._slack.mean())
        shifts = np.clip(shifts, -INWARD * self._farthest, self._farthest)
        rows = _rows(self._slopes[None] * (self._slack[None] + shifts[:, None, None]))
        information = np.einsum("abc,bc->a", t.information[rows], self._weights)
        low = np.einsum("abc,bc->a", t.low[rows], self._weights)
        rate = information / (low + self._ratio * (1 - low))
        return float(shifts[int(rate.argmax())])

    def update(self, shift: float, passed: int, failed: int) -> None:
        """So many adversarial and other answers at a shift."""
        t = _tables()
        rows = _rows(self._slopes * (self._slack + shift))
        self._log += passed * t.passed[rows] + failed * t.failed[rows]
        self._weights = self._normal()

    def scores(self, shift: float) -> Scores:
        """What answers at a shift count, by what is believed now."""
        t = _tables()
        rows = _rows(self._slopes * (self._slack + shift))
        low, density = (float((table[rows] * self._weights).sum()) for table in (t.low, t.density))
        low = min(max(low, CERTAIN), 1 - CERTAIN)
        return Scores(density / low, density / (1 - low), low)
