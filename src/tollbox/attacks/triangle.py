"""TriA, the Triangle Attack (Wang, Zhang, Tong, Gong, He, Li, Liu 2022): by the law of sines.

In a plane through x* and x_t, spanned by u = x_t - x* and a random low-frequency direction v
orthogonal to u, the points x*, x_t and the next one form a triangle with the angle beta at x* and
alpha at the next point. By the law of sines, the next point lies at the distance

    |x_t - x*| sin(alpha + beta) / sin(alpha),   closer than x_t if beta > pi - 2 alpha

(alpha = pi/2 is the circle of CGBA and SurFree; a larger alpha lies inside it). Iteration: query
the smallest beta on both sides of u. If neither point is adversarial, alpha falls by 2 * 0.005, and
another plane follows. Otherwise search beta from there up to pi - alpha, where the point is x*, by
two bisections; alpha rises by 0.1. It stays within 0.1 of pi/2.

The smallest beta requires a gain of 2 to 4 %, which no plane has near the closest boundary point.
`patience` planes in a row without an adversarial point stop the attack.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ..core.ask import Ask, Asking, Iterate, Until
from ..core.problem import Problem
from ..core.stop import Stop
from ..engine.points import LinearPoint
from ..parts.directions import Directions, SingleWaves
from ..parts.paths import QUARTER_TURN, SWEEP, Circle, Path
from ..parts.registry import Fraction, Limit, PositiveFraction
from ..parts.searches import Search
from ..parts.vectors import LazyRows
from .descent import FromBoundary

MIN_BETA = math.pi / 16
"""Excess of beta over the angle at which the point is as far from x* as x_t; at most alpha / 2."""


def corner(circle: Circle, alpha: float, beta: float) -> LinearPoint:
    """Return the third corner of a triangle, on the other side of u if beta is negative. The circle
    provides the two axes, both as long as x_t - x*."""
    share = math.sin(alpha + abs(beta)) / math.sin(alpha)
    along, across = share * math.cos(beta), share * math.sin(beta)
    return LinearPoint(circle.source, circle.away, along, circle.side, across)


class Triangle(Path):
    """The path of the corner from beta = `first`, where `start` lies, to x*."""

    def __init__(self, circle: Circle, alpha: float, start: Iterate, first: float) -> None:
        self.start, self.length = start, start.distance
        self._circle, self._alpha, self._first = circle, alpha, first
        self._last = math.copysign(math.pi - alpha, first)

    def linear_point(self, theta: float) -> LinearPoint:
        beta = self._first + (self._last - self._first) * theta
        return corner(self._circle, self._alpha, beta)


@dataclass(frozen=True)
class TriA(FromBoundary):
    """The Triangle Attack with a start, searches and directions as parts."""

    triangle_search: Search
    """Search for beta; a relative tolerance of 1/4 gives two bisections, as published."""
    directions: Directions = field(default_factory=SingleWaves)
    rise: Fraction = 0.1
    """Increase of alpha after a plane with an adversarial point."""
    fall: Fraction = 0.005
    """Decrease of alpha for each of the two answers in a plane without an adversarial point."""
    reach: PositiveFraction = 0.1
    """Maximum difference between alpha and a right angle."""
    patience: Limit = 1000
    """Number of consecutive planes without an adversarial point that stops the attack."""
    iterations: Limit = 100_000

    @property
    def rows(self) -> int:
        return self.directions.rows

    def descend(self, problem: Problem, iterate: Iterate) -> Asking[Stop]:
        away = iterate.point - problem.source
        directions = self.directions.begin(problem, self.iterations, away)
        alpha, failed = QUARTER_TURN, 0
        for _ in range(self.iterations):
            circle = Circle.through(problem.source, iterate.point, next(directions))
            beta = max(math.pi - 2 * alpha, 0.0) + min(MIN_BETA, alpha / 2)
            sides = [corner(circle, alpha, beta), corner(circle, alpha, -beta)]
            points = LazyRows.stack(sides, LinearPoint.point)
            answers = yield Ask(points, until=Until.ADVERSARIAL, phase=SWEEP)
            if not answers.adversarial[-1]:
                alpha = max(alpha - 2 * self.fall, QUARTER_TURN - self.reach)
                failed += 1
                if failed == self.patience:
                    return Stop.CONVERGED
                continue
            failed, row = 0, len(answers) - 1
            found = Iterate(sides[row].point(), float(answers.distances[row]))
            path = Triangle(circle, alpha, found, -beta if row else beta)
            iterate = yield from self.triangle_search(problem, path)
            alpha = min(alpha + self.rise, QUARTER_TURN + self.reach)
            problem.accept(iterate)
        return Stop.ITERATIONS
