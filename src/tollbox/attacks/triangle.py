"""TriA, the Triangle Attack (Wang, Zhang, Tong, Gong, He, Li, Liu 2022): by the law of sines.

In a plane through x* and x_t, spanned by u = x_t - x* and a random low frequency v across it, the
points x*, x_t and the next one are a triangle with the angle beta at x* and alpha at the next one.
By the law of sines the next one lies at the distance

    |x_t - x*| sin(alpha + beta) / sin(alpha),   nearer than x_t if beta > pi - 2 alpha

(alpha = pi/2: the circle of CGBA and SurFree; more: inside of it). Iteration: ask at the least beta
on both sides of u; if neither is adversarial, alpha falls by 2 * 0.005, and another plane follows;
else search beta from there up to pi - alpha, where the point is x*, by two bisections, and alpha
rises by 0.1. It stays within 0.1 of pi/2.

The least beta asks for a gain of 2 to 4 %: near the nearest point no plane has one. `patience`
planes in a row without an adversarial point end the attack.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
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

LEAST_BETA = math.pi / 16
"""The least beta, beyond where the point is as far as x_t; or half of alpha."""


@dataclass(frozen=True)
class Corner:
    """The third corner of a triangle, by beta: positive to one side, negative to the other."""

    circle: Circle
    """Of which only the two axes are used, both as long as x_t - x*."""
    alpha: float

    def at(self, beta: float) -> LinearPoint:
        """The terms of the point."""
        share = math.sin(self.alpha + abs(beta)) / math.sin(self.alpha)
        along, across = share * math.cos(beta), share * math.sin(beta)
        return LinearPoint(self.circle.source, self.circle.away, along, self.circle.side, across)


@dataclass(frozen=True)
class Triangle:
    """A path: the corner from beta = `first`, where `start` lies, to x* at beta = `last`."""

    corner: Corner
    start: Iterate
    first: float
    last: float

    @property
    def length(self) -> float:
        """Length in l2, roughly."""
        return self.start.distance

    def __call__(self, theta: float) -> Tensor:
        """T(theta)."""
        return self.mixture(theta).point()

    def mixture(self, theta: float) -> LinearPoint:
        """The terms of T(theta)."""
        return self.corner.at(self.first + (self.last - self.first) * theta)


class _Sides:
    """Rows: the corner at beta and at -beta."""

    def __init__(self, corner: Corner, beta: float) -> None:
        self._points = [corner.at(beta), corner.at(-beta)]

    def __len__(self) -> int:
        return len(self._points)

    def __getitem__(self, rows: slice) -> Tensor:
        return torch.stack([point.point() for point in self._points[rows]])


@dataclass(frozen=True)
class TriA:
    """The Triangle Attack with a start, searches and directions as parts."""

    start: Start
    search: Search
    """Of the line from the start to the source."""
    triangle_search: Search
    """Of beta; with a relative tolerance of 1/4 two bisections, as published."""
    directions: Directions = field(default_factory=SingleWaves)
    rise: float = 0.1
    """Of alpha after a plane in which a point was adversarial."""
    fall: float = 0.005
    """Of alpha for every flagged answer of a plane in which none was."""
    reach: float = 0.1
    """How far alpha may be from a right angle."""
    patience: int = 1000
    """Planes without an adversarial point, in a row, that end it."""
    iterations: int = 100_000

    metrics = (Metric.L2,)

    def __post_init__(self) -> None:
        check(self, rise=number(0, 1), fall=number(0, 1), reach=above(0, 1))
        check(self, patience=whole(1, MAX_LIMIT), iterations=whole(1, MAX_LIMIT))

    @property
    def rows(self) -> int:
        """The most points held at a time."""
        return self.directions.rows

    def __call__(self, problem: Problem) -> Asking[Stop]:
        """Attack one image."""
        begun = yield from find_start(problem, self.start)
        if begun is None:
            return Stop.NO_START
        iterate = yield from self.search(problem, Segment(problem.source, begun))
        problem.accept(iterate)
        turn = self.directions.begin(problem, self.iterations, iterate.point - problem.source)
        alpha, failed = QUARTER_TURN, 0
        for _ in range(self.iterations):
            circle = Circle.through(problem.source, iterate.point, turn())
            corner = Corner(circle, alpha)
            beta = max(math.pi - 2 * alpha, 0.0) + min(LEAST_BETA, alpha / 2)
            answers = yield Ask(_Sides(corner, beta), until=Until.ADVERSARIAL, phase=PHASE)
            if not answers.adversarial[-1]:
                alpha = max(alpha - 2 * self.fall, QUARTER_TURN - self.reach)
                failed += 1
                if failed == self.patience:
                    return Stop.CONVERGED
                continue
            failed = 0
            side = 1 if len(answers) == 1 else -1
            start = Iterate(corner.at(side * beta).point(), float(answers.distances[-1]))
            path = Triangle(corner, start, side * beta, side * (math.pi - alpha))
            iterate = yield from self.triangle_search(problem, path)
            alpha = min(alpha + self.rise, QUARTER_TURN + self.reach)
            problem.accept(iterate)
        return Stop.ITERATIONS
