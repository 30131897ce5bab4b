"""Tangent Attack (Ma, Guo, Chen, Yong, Wang, NeurIPS 2021): HopSkipJump with a tangent point as
its step.

Iteration t: estimate the normal u of the boundary at x_t. On the half of the ball with centre x_t
and radius R on u's side, the next point is k, the tangent point from x* in the plane of x_t - x*
and u (Theorem 1). R is |x_t - x*| / sqrt(t), halved until k is adversarial. If it never is, the
iterate stays unchanged. Otherwise search the line from k to the source, as HopSkipJump does.

A tangent is perpendicular to the radius, so k lies on the circle with the diameter from x_t to x*
(`Circle`). As seen from x*, its angle from x_t is arcsin(R / |x_t - x*|), and its distance
sqrt(|x_t - x*|^2 - R^2). At t = 1 the first k would be x* itself, which is not queried.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from ..core.ask import Asking, Iterate
from ..core.problem import Problem
from ..parts.paths import Circle
from ..parts.registry import Count, Depth
from ..parts.vectors import LazyRows
from .descent import Descent, Move, Project, step_and_project


def tangents(circle: Circle, shares: Sequence[float]) -> LazyRows:
    """Return the tangent points from x* to balls around x_t with the radii share |x_t - x*|."""
    return LazyRows.stack(shares, lambda share: circle.at(math.asin(share)).point())


@dataclass(frozen=True)
class Tangent(Descent):
    """Tangent Attack with a start, a search and an estimate as parts."""

    queries: Count = 100
    halvings: Depth = 20

    def begin(self, problem: Problem) -> Move:
        def move(t: int, iterate: Iterate, direction: Tensor, project: Project) -> Asking[Iterate]:
            circle = Circle.through(problem.source, iterate.point, direction)
            shares = [0.5**k / math.sqrt(t) for k in range(self.halvings + 1)]
            points = tangents(circle, [share for share in shares if share < 1])
            return step_and_project(problem, iterate, points, project)

        return move
