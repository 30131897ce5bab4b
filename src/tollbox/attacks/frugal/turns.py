"""Turns: how far an estimate of so much information turns the perturbation, and what that is worth.

Seen from the source, x_t lies at distance r in the direction u; the boundary, taken for a plane,
has the normal g. An estimate of information I (overshoot.py) has the part b = sqrt(I) |g|_v of g
across u, and u itself has a = <u, g>. On the circle over x_t - x* in the plane of the two the last
adversarial point lies at the angle phi with

    tan^2 phi = b^2 / a^2 = q I,    and r becomes r cos phi.

On a plane q is 1/k^2, with the slope k of overshoot.py. Real boundaries bend, and turns are smaller
than that; so q is learned by itself. It changes slowly, and every turn measures it: log q is
believed to be normal, with a variance that grows from one iteration to the next and shrinks by what
a turn tells (a Kalman filter). Of several priors each has log q = c + rho, a part c that is common
to all and a part rho of its own. It serves three times:

- Which prior to draw from. The mean of an estimate is S g, S the covariance of the directions, so
  a narrow prior is exhausted one day: once u lies along S g nothing is left to turn to. Its turns
  become small, and the next estimate is of the prior for which most is to be hoped, that with the
  largest mean of log q and a spread more: so each is tried again after a while (`best_prior`).
- How much to ask. The distance falls by the factor exp(-log(1 + q I) / 2) for a cost of I / rate
  and the cost C of the search. The gain per cost is largest where, with y = q I and k = q C rate,
  y + k = (1 + y) log(1 + y) (`best_information`). There is no schedule like sqrt(t).
- Where to search. phi is likely to lie near arctan sqrt(q I): the search divides not the arc but
  what is believed of phi into equal bins (`BeliefPath`), finer where the boundary is likely to be.

How fine: where the arc meets the boundary, the margin falls by r b per radian, and samples of
radius delta spread it by delta |g|_v: a bin of a share BIN_SHARE of delta / (r sqrt I) leaves the
next estimate a point that is well within its samples.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import lambertw, ndtr
from torch import Tensor

from ...core.ask import Iterate
from ...engine.points import LinearPoint
from ...parts.paths import Circle
from ...theory.search_costs import optimal_search_cost

FIRST_LOG_Q, LOG_Q_SPREAD = math.log(1 / 64), 1.5
"""c at first, and its spread."""
REFERENCE = (0.0, 0.0)
"""rho at first, and its spread, of the prior that the others are measured by."""
LOG_Q_DRIFT, OFFSET_DRIFT = 0.2, 0.15
"""By how much c and each rho change in an iteration."""
TURN_NOISE = 0.6
"""Spread of what one turn tells of log q."""
BIN_SHARE = 0.5
"""Of what a sample spreads the margin by."""
FEWEST_BINS, MOST_BINS = 4, 256
"""Of a search."""
SMALLEST_ANGLE, LARGEST_ANGLE = 1e-4, 1.5
"""In radians."""
SMALLEST_K = 1e-12
"""A smaller q C rate counts as this; what is asked is `LEAST_INFORMATION` or `MOST_INFORMATION`."""
LEAST_INFORMATION, MOST_INFORMATION = 5.0, 2000.0
"""Information of an estimate."""


class TurnBelief:
    """What is believed of one image's log q, of each of some priors."""

    def __init__(self, *offsets: tuple[float, float]) -> None:
        """`offsets`: what is believed of each prior's rho at first, its mean and its spread."""
        offsets = offsets or (REFERENCE,)
        self._first = (
            np.array([FIRST_LOG_Q, *(mean for mean, _ in offsets)]),
            np.diag([LOG_Q_SPREAD**2, *(spread**2 for _, spread in offsets)]),
        )
        self._mean, self._covariance = self._first
        self._drift = np.diag([LOG_Q_DRIFT**2] + [OFFSET_DRIFT**2] * len(offsets))
        self._rows = np.hstack([np.ones((len(offsets), 1)), np.eye(len(offsets))])

    def _log_q(self, prior: int) -> tuple[float, float]:
        """The mean and the variance of a prior's log q."""
        row = self._rows[prior]
        return float(row @ self._mean), float(row @ self._covariance @ row)

    def best_prior(self) -> int:
        """The prior for which most is to be hoped; of equal ones the first."""
        beliefs = [self._log_q(prior) for prior in range(len(self._rows))]
        return int(np.argmax([mean + math.sqrt(variance) for mean, variance in beliefs]))

    def best_information(self, search: float, prior: int = 0) -> float:
        """The information that is worth asking for, if a search costs as much as `search`."""
        q = math.exp(self._log_q(prior)[0])
        return min(max(_best_gain(q * search) / q, LEAST_INFORMATION), MOST_INFORMATION)

    def hoped_gain(self, information: float, cost: float, prior: int = 0) -> float:
        """Gain per cost, twice log r, of an estimate that costs as much with its search, if log q
        is a spread above its mean: as `best_prior` hopes."""
        mean, variance = self._log_q(prior)
        return math.log1p(math.exp(mean + math.sqrt(variance)) * information) / cost

    def predict(self, information: float, prior: int = 0) -> tuple[float, float]:
        """log tan phi of the next turn, and its spread."""
        mean, variance = self._log_q(prior)
        return (mean + math.log(information)) / 2, math.sqrt(variance + TURN_NOISE**2) / 2

    def update(self, angle: float, information: float, prior: int = 0) -> None:
        """Learn from an estimate of so much information that it turned by an angle."""
        measured = 2 * math.log(math.tan(max(angle, SMALLEST_ANGLE))) - math.log(information)
        mean, variance = self._log_q(prior)
        direction = self._covariance @ self._rows[prior]
        gain = direction / (variance + TURN_NOISE**2)
        self._mean = self._mean + gain * (measured - mean)
        self._covariance = self._covariance - np.outer(gain, direction)

    def forget(self) -> None:
        """Believe what was believed at first: the iterate is another."""
        self._mean, self._covariance = self._first

    def pass_iteration(self) -> None:
        """What is known of log q ages by an iteration."""
        self._covariance = self._covariance + self._drift


def _best_gain(k: float) -> float:
    """y = q I at the largest log(1 + y) / (y + k). With x = log(1 + y), y + k = (1 + y) log(1 + y)
    is (x - 1) exp(x - 1) = (k - 1) / e, which Lambert's function solves."""
    return math.expm1(1 + float(lambertw((max(k, SMALLEST_K) - 1) / math.e).real))


def bin_width(distance: float, delta: float, information: float) -> float:
    """The width of a bin, in radians, that leaves a point fit for the next estimate."""
    return BIN_SHARE * delta / (distance * math.sqrt(information))


@lru_cache(maxsize=4096)
def search_cost(count: int, ratio: float) -> float:
    """What a search over so many bins is expected to cost."""
    return optimal_search_cost(count, ratio)


_ANGLES = np.concatenate([[0.0], np.geomspace(SMALLEST_ANGLE, LARGEST_ANGLE, 400)])
_LOG_TANGENTS = np.concatenate([[-np.inf], np.log(np.tan(_ANGLES[1:]))])


class BeliefPath:
    """A path along a circle: T(theta) is where the boundary is believed to lie before, with
    probability theta. A share `tail` of the belief is spread over the whole arc."""

    def __init__(
        self, circle: Circle, start: Iterate, middle: float, spread: float, tail: float
    ) -> None:
        self.start, self.length = start, start.distance
        self.circle, self._tail = circle, tail
        self._middle, self._spread = middle, spread
        mass = (1 - tail) * ndtr((_LOG_TANGENTS - middle) / spread) + tail * _ANGLES / LARGEST_ANGLE
        self._mass = mass / mass[-1]

    def count_bins(self, width: float) -> int:
        """Into how many bins of equal belief the path is divided, so that those in the middle of
        the belief are of that width."""
        phi = math.atan(math.exp(self._middle))
        narrow = math.sqrt(2 * math.pi) * self._spread * math.sin(phi) * math.cos(phi)
        density = (1 - self._tail) / narrow + self._tail / LARGEST_ANGLE
        return int(min(max(math.ceil(1 / (density * width)), FEWEST_BINS), MOST_BINS))

    def angle(self, theta: float) -> float:
        """The angle at theta."""
        return float(np.interp(theta, self._mass, _ANGLES))

    def __call__(self, theta: float) -> Tensor:
        """T(theta)."""
        return self.linear_point(theta).point()

    def linear_point(self, theta: float) -> LinearPoint:
        """The terms of T(theta)."""
        return self.circle.at(self.angle(theta))
