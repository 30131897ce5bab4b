"""TriA, the Triangle Attack (Wang, Zhang, Tong, Gong, He, Li, Liu 2022): by the law of sines.

In a plane through x* and x_t, spanned by u = x_t - x* and a random low frequency v orthogonal to
it, the points x*, x_t and the next one form a triangle with the angle beta at x* and alpha at the
next point. By the law of sines the next point lies at the distance

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

from torch import Tensor

from ..core.ask import Ask, Asking, Iterate, Until
from ..core.metric import Metric
from ..core.problem import Problem
from ..core.stop import Stop
from ..core.validation import MAX_LIMIT, above, check, number, whole
from ..engine.points import LinearPoint
from ..parts.directions import Directions, SingleWaves
from ..parts.paths import QUARTER_TURN, Circle, Segment
from ..parts.searches import Search
from ..parts.starts import Start, find_start
from ..parts.sweeps import PHASE
from ..parts.vectors import LazyRows

MIN_BETA = math.pi / 16
"""Smallest beta beyond where the point is as far as x_t; or half of alpha, if that is smaller."""


@dataclass(frozen=True)
class Corner:
    """The third corner of a triangle by beta: positive on one side, negative on the other."""

    circle: Circle
    """Provides the two axes, both as long as x_t - x*."""
    alpha: float

    def at(self, beta: float) -> LinearPoint:
        share = math.sin(self.alpha + abs(beta)) / math.sin(self.alpha)
        along, across = share * math.cos(beta), share * math.sin(beta)
        return LinearPoint(self.circle.source, self.circle.away, along, self.circle.side, across)


@dataclass(frozen=True)
class Triangle:
    """The path of the corner from beta = `first`, where `start` lies, to x* at beta = `last`."""

    corner: Corner
    start: Iterate
    first: float
    last: float

    @property
    def length(self) -> float:
        return self.start.distance

    def __call__(self, theta: float) -> Tensor:
        return self.linear_point(theta).point()

    def linear_point(self, theta: float) -> LinearPoint:
        return self.corner.at(self.first + (self.last - self.first) * theta)


@dataclass(frozen=True)
class TriA:
    """The Triangle Attack with a start, searches and directions as parts."""

    start: Start
    search: Search
    """Search of the line from the start to the source."""
    triangle_search: Search
    """Search of beta; a relative tolerance of 1/4 gives two bisections, as published."""
    directions: Directions = field(default_factory=SingleWaves)
    rise: float = 0.1
    """Increase of alpha after a plane with an adversarial point."""
    fall: float = 0.005
    """Decrease of alpha for each flagged answer of a plane without an adversarial point."""
    reach: float = 0.1
    """Maximum difference between alpha and a right angle."""
    patience: int = 1000
    """Number of planes in a row without an adversarial point that stop the attack."""
    iterations: int = 100_000

    metrics = (Metric.L2,)

    def __post_init__(self) -> None:
        check(self, rise=number(0, 1), fall=number(0, 1), reach=above(0, 1))
        check(self, patience=whole(1, MAX_LIMIT), iterations=whole(1, MAX_LIMIT))

    @property
    def rows(self) -> int:
        return self.directions.rows

    def __call__(self, problem: Problem) -> Asking[Stop]:
        start = yield from find_start(problem, self.start)
        if start is None:
            return Stop.NO_START
        iterate = yield from self.search(problem, Segment(problem.source, start))
        problem.accept(iterate)
        away = iterate.point - problem.source
        next_direction = self.directions.begin(problem, self.iterations, away)
        alpha, failed = QUARTER_TURN, 0
        for _ in range(self.iterations):
            corner = Corner(Circle.through(problem.source, iterate.point, next_direction()), alpha)
            beta = max(math.pi - 2 * alpha, 0.0) + min(MIN_BETA, alpha / 2)
            sides = [corner.at(beta), corner.at(-beta)]
            points = LazyRows.stack(sides, LinearPoint.point)
            answers = yield Ask(points, until=Until.ADVERSARIAL, phase=PHASE)
            if not answers.adversarial[-1]:
                alpha = max(alpha - 2 * self.fall, QUARTER_TURN - self.reach)
                failed += 1
                if failed == self.patience:
                    return Stop.CONVERGED
                continue
            failed = 0
            side = 1 if len(answers) == 1 else -1
            found = Iterate(corner.at(side * beta).point(), float(answers.distances[-1]))
            path = Triangle(corner, found, side * beta, side * (math.pi - alpha))
            iterate = yield from self.triangle_search(problem, path)
            alpha = min(alpha + self.rise, QUARTER_TURN + self.reach)
            problem.accept(iterate)
        return Stop.ITERATIONS
