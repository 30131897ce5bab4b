"""The two base classes of attacks that descend along the boundary.

`FromBoundary`: find a start, and the boundary on the path from it to the source (`paths.inward`).
Accept that point, and continue from there (`descend`).

`Descent`, the descent of HSJA, GeoDA, CGBA and their successors. For t = 1, 2, ...: estimate a
direction with n_0 sqrt(t) queries (or by another schedule, or at the cost of such an estimate),
move along it to the next boundary point, and accept that point. An estimate without information
leaves the iterate unchanged; `blind_limit` of them in a row stop the attack.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from ..core.ask import Asking, Iterate, Rows, first_adversarial
from ..core.by_side import at_side
from ..core.metric import Metric
from ..core.problem import Problem, Sampled
from ..core.stop import Stop
from ..parts.estimates import Estimate
from ..parts.paths import Path, inward
from ..parts.registry import Checked, Count, Limit
from ..parts.searches import Search
from ..parts.starts import Start, find_start

Project = Callable[[Path], Asking[Iterate]]
"""The attack's search, with the tolerance that its estimate needs."""
Move = Callable[[int, Iterate, Tensor, Project], Asking[Iterate]]
"""Function of t, x_t, the direction and the search; returns the next boundary point, or x_t."""


def sampled_by(problem: Problem, part: object, name: str) -> Sampled | None:
    """Return what a part samples, as a setting of the attack that calls the part `name`."""
    find = getattr(part, "finest", None)
    sampled = None if find is None else find(problem)
    return sampled and sampled._replace(setting=f"{name}.{sampled.setting}")


@dataclass(frozen=True)
class FromBoundary(Checked):
    """An attack that first searches for the boundary between a start and the source."""

    start: Start
    search: Search
    """Search for the boundary along a path towards the source."""

    metrics = (Metric.L2,)

    @property
    def finds_targets(self) -> bool:
        """Whether its start may find a point of a target class."""
        return getattr(self.start, "finds_targets", False)

    def __call__(self, problem: Problem) -> Asking[Stop]:
        attack = at_side(self, min(problem.source.shape[1:]))  # another attack may call this one
        start = yield from attack.first_point(problem)
        if start is None:
            return Stop.NO_START
        path = inward(problem.source, start, problem.norm)
        iterate = yield from attack.projection(problem)(path)
        problem.accept(iterate)
        return (yield from attack.descend(problem, iterate))

    def first_point(self, problem: Problem) -> Asking[Iterate | None]:
        return find_start(problem, self.start)

    def projection(self, problem: Problem) -> Project:
        return lambda path: self.search(problem, path)

    def descend(self, problem: Problem, iterate: Iterate) -> Asking[Stop]:
        """Continue from the first boundary point; return the reason for stopping."""
        raise NotImplementedError


@dataclass(frozen=True)
class Descent(FromBoundary):
    """An attack that alternates estimates and moves."""

    estimate: Estimate
    queries: Count = 30
    """n_0: the vanilla estimate at iteration t has n_0 sqrt(t) queries."""
    blind_limit: Limit = 10
    """Number of consecutive estimates without information that stops the attack."""
    iterations: Limit = 10_000

    @property
    def rows(self) -> int:
        return self.estimate.rows

    def finest(self, problem: Problem) -> Sampled | None:
        return sampled_by(problem, self.estimate, "estimate")

    def planned(self, t: int) -> int:
        """Return n'_t, the number of queries in the vanilla estimate at iteration t."""
        return int(self.queries * math.sqrt(t))

    def begin(self, problem: Problem) -> Move:
        """Return the move function for one image, with its own state."""
        raise NotImplementedError

    def projection(self, problem: Problem) -> Project:
        scale = self.estimate.tolerance_scale(problem)
        return lambda path: self.search(problem, path, scale)

    def descend(self, problem: Problem, iterate: Iterate, first: int = 1) -> Asking[Stop]:
        move, project = self.begin(problem), self.projection(problem)
        estimate, blind = self.estimate.begin(problem), 0
        for t in range(first, self.iterations + 1):
            direction = yield from estimate(t, iterate, self.planned(t))
            blind = blind + 1 if direction is None else 0
            if blind == self.blind_limit:
                return Stop.NO_INFORMATION
            if direction is not None:
                iterate = yield from move(t, iterate, direction, project)
            problem.accept(iterate)
        return Stop.ITERATIONS


def step_and_project(
    problem: Problem, iterate: Iterate, points: Rows, project: Project, phase: str = "step"
) -> Asking[Iterate]:
    """Search from the first adversarial of `points` to the source; if none is, return `iterate`."""
    moved = yield from first_adversarial(points, phase)
    if moved is None:
        return iterate
    return (yield from project(inward(problem.source, moved, problem.norm)))
