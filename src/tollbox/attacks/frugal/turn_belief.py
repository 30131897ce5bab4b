"""The belief about turns: how far an estimate turns the perturbation, and what that is worth.

As seen from the source, x_t lies at distance r in the direction u; the boundary, approximated by a
plane, has the normal g. Along an estimate with information I (overshoot_belief.py), g has the
component b = sqrt(I) |g|_v orthogonal to u; along u itself it has a = <u, g>. On the circle with
diameter x_t - x* in their plane, the last adversarial point lies at the angle phi with

    tan^2 phi = b^2 / a^2 = q I,    and r becomes r cos phi.

On a plane q is 1/k^2, with the slope k of overshoot_belief.py. Real boundaries bend, and turns are
smaller, so q is learned separately. It changes slowly, and every turn measures it: a Kalman filter
keeps a normal belief about log q, whose variance grows with each iteration and shrinks with each
turn. With several priors each has log q = c + rho, with a common part c and its own part rho. The
belief answers three questions:

- Which prior to draw from (`best_prior`). The mean of an estimate is S g, where S is the covariance
  of the directions, so a narrow prior is exhausted once u lies along S g. Its turns become small,
  and the next estimate uses the prior with the largest mean plus standard deviation of log q. So
  each prior is tried again after a while.
- How much information to request (`best_information`). The distance falls by the factor
  exp(-log(1 + q I) / 2) for a cost of I / rate plus the cost C of the search. The gain per cost is
  largest where, with y = q I and k = q C rate, y + k = (1 + y) log(1 + y).
- Where to search (`BeliefPath`). phi probably lies near arctan sqrt(q I), so the search divides the
  belief about phi, not the arc, into equal bins, which are finer where the boundary is likely.

Where the arc meets the boundary, the margin falls by r b per radian, and samples of radius delta
spread it by delta |g|_v. A bin of BIN_SHARE times delta / (r sqrt I) therefore leaves the next
estimate a point from which its samples reach well across the boundary (`bin_width`).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import lambertw, ndtr

from ...core.ask import Iterate
from ...engine.points import LinearPoint
from ...parts.paths import Circle, Path
from ...theory.search_costs import optimal_search_cost

FIRST_LOG_Q, LOG_Q_SPREAD = math.log(1 / 64), 1.5
"""Initial mean and standard deviation of c."""
REFERENCE = (0.0, 0.0)
"""Initial mean and standard deviation of rho for the prior that others are compared with."""
LOG_Q_DRIFT, OFFSET_DRIFT = 0.2, 0.15
"""Standard deviations of the changes in c and in each rho per iteration."""
TURN_NOISE = 0.6
"""Standard deviation of one turn's measurement of log q."""
BIN_SHARE = 0.5
"""Width of a bin as a share of the spread of the margin over the samples."""
MIN_BINS, MAX_BINS = 4, 256
SMALLEST_ANGLE, LARGEST_ANGLE = 1e-4, 1.5
"""Range of turns, in radians."""
SMALLEST_K = 1e-12
"""Minimum of q C rate, below which the information is at one of its limits anyway."""
MIN_INFORMATION, MAX_INFORMATION = 5.0, 2000.0
"""Range of the information requested from an estimate."""


class TurnBelief:
    """The belief about each prior's log q, for one image; `offsets` are the initial mean and
    standard deviation of each prior's rho."""

    def __init__(self, *offsets: tuple[float, float]) -> None:
        offsets = offsets or (REFERENCE,)
        self._first = (
            np.array([FIRST_LOG_Q, *(mean for mean, _ in offsets)]),
            np.diag([LOG_Q_SPREAD**2, *(spread**2 for _, spread in offsets)]),
        )
        self._mean, self._covariance = self._first
        self._drift = np.diag([LOG_Q_DRIFT**2] + [OFFSET_DRIFT**2] * len(offsets))
        self._rows = np.hstack([np.ones((len(offsets), 1)), np.eye(len(offsets))])

    def _log_q(self, prior: int) -> tuple[float, float]:
        """Return the mean and the variance of a prior's log q."""
        row = self._rows[prior]
        return float(row @ self._mean), float(row @ self._covariance @ row)

    def best_prior(self) -> int:
        """Return the first prior with the largest mean plus standard deviation of log q."""
        beliefs = [self._log_q(prior) for prior in range(len(self._rows))]
        return int(np.argmax([mean + math.sqrt(variance) for mean, variance in beliefs]))

    def best_information(self, search: float, prior: int = 0) -> float:
        """Return the information with the largest gain per cost; `search` is C times the rate."""
        q = math.exp(self._log_q(prior)[0])
        return min(max(_best_y(q * search) / q, MIN_INFORMATION), MAX_INFORMATION)

    def optimistic_gain(self, information: float, cost: float, prior: int = 0) -> float:
        """Return twice the decrease in log r per cost if log q is one standard deviation above its
        mean; `cost` includes the search."""
        mean, variance = self._log_q(prior)
        return math.log1p(math.exp(mean + math.sqrt(variance)) * information) / cost

    def predict(self, information: float, prior: int = 0) -> tuple[float, float]:
        """Return the mean and the standard deviation of log tan phi for the next turn."""
        mean, variance = self._log_q(prior)
        return (mean + math.log(information)) / 2, math.sqrt(variance + TURN_NOISE**2) / 2

    def update(self, angle: float, information: float, prior: int = 0) -> None:
        """Update the belief with the angle by which an estimate turned the perturbation."""
        measured = 2 * math.log(math.tan(max(angle, SMALLEST_ANGLE))) - math.log(information)
        mean, variance = self._log_q(prior)
        direction = self._covariance @ self._rows[prior]
        gain = direction / (variance + TURN_NOISE**2)
        self._mean = self._mean + gain * (measured - mean)
        self._covariance = self._covariance - np.outer(gain, direction)

    def widen(self) -> None:
        """Add the uncertainty of one more iteration."""
        self._covariance = self._covariance + self._drift

    def reset(self) -> None:
        """Return to the initial belief, for an unrelated iterate."""
        self._mean, self._covariance = self._first


def _best_y(k: float) -> float:
    """Return the y = q I that maximises log(1 + y) / (y + k).

    With x = log(1 + y), y + k = (1 + y) log(1 + y) is (x - 1) exp(x - 1) = (k - 1) / e, which
    Lambert's function solves.
    """
    return math.expm1(1 + float(lambertw((max(k, SMALLEST_K) - 1) / math.e).real))


def bin_width(distance: float, delta: float, information: float) -> float:
    """Return the width of a bin, in radians, that suits the next estimate."""
    return BIN_SHARE * delta / (distance * math.sqrt(information))


search_cost = lru_cache(maxsize=4096)(optimal_search_cost)
"""Expected cost of a search over a given number of bins at a given price ratio."""

_ANGLES = np.concatenate([[0.0], np.geomspace(SMALLEST_ANGLE, LARGEST_ANGLE, 400)])
_LOG_TANGENTS = np.concatenate([[-np.inf], np.log(np.tan(_ANGLES[1:]))])


class BeliefPath(Path):
    """A path along a circle on which the boundary lies before T(theta) with probability theta.

    log tan phi is believed to be normal with mean `middle` and standard deviation `spread`. A share
    `tail` of the belief is spread over the whole arc.
    """

    def __init__(
        self, circle: Circle, start: Iterate, middle: float, spread: float, tail: float
    ) -> None:
        self.start, self.length = start, start.distance
        self.circle, self._tail = circle, tail
        self._middle, self._spread = middle, spread
        mass = (1 - tail) * ndtr((_LOG_TANGENTS - middle) / spread) + tail * _ANGLES / LARGEST_ANGLE
        self._mass = mass / mass[-1]

    def count_bins(self, width: float) -> int:
        """Return the number of bins of equal belief whose middle ones have the given width."""
        phi = math.atan(math.exp(self._middle))
        narrow = math.sqrt(2 * math.pi) * self._spread * math.sin(phi) * math.cos(phi)
        density = (1 - self._tail) / narrow + self._tail / LARGEST_ANGLE
        return int(min(max(math.ceil(1 / (density * width)), MIN_BINS), MAX_BINS))

    def angle(self, theta: float) -> float:
        return float(np.interp(theta, self._mass, _ANGLES))

    def linear_point(self, theta: float) -> LinearPoint:
        return self.circle.at(self.angle(theta))
