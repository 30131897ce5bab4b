"""SurFree (Maho, Furon, Le Merrer 2021): arcs in random planes, without any estimate.

Iteration t: turn from the boundary point x_t towards a random direction, and search the arc in the
plane of x_t - x* and that direction for the last adversarial point. Every arc that has one reduces
the distance. The paper's reduced form searches the whole arc. SurFree's authors first try a few
angles on both sides, up to an adaptive largest angle; the sweep is a part. After the last iteration
the line to the source is searched again; a budget usually stops the attack earlier.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..core.ask import Asking, Iterate
from ..core.problem import Problem
from ..core.stop import Stop
from ..parts.directions import Directions, TernarySpectrum
from ..parts.paths import Circle, Quarter, Segment, Sweep
from ..parts.registry import Limit
from ..parts.searches import Search
from .descent import FromBoundary


@dataclass(frozen=True)
class SurFree(FromBoundary):
    """SurFree with a start, searches, directions and a sweep as parts."""

    arc_search: Search
    directions: Directions = field(default_factory=TernarySpectrum)
    sweep: Sweep = field(default_factory=Quarter)
    iterations: Limit = 100_000

    @property
    def rows(self) -> int:
        return self.directions.rows

    def descend(self, problem: Problem, iterate: Iterate) -> Asking[Stop]:
        away = iterate.point - problem.source
        directions = self.directions.begin(problem, self.iterations, away)
        sweep = self.sweep.begin()
        for _ in range(self.iterations):
            circle = Circle.through(problem.source, iterate.point, next(directions))
            arc = yield from sweep(iterate, circle)
            if arc is None:
                continue
            moved = yield from self.arc_search(problem, arc)
            if moved is not iterate:
                iterate = moved
                problem.accept(iterate)
        problem.accept((yield from self.search(problem, Segment(problem.source, iterate))))
        return Stop.ITERATIONS
