"""SurFree (Maho, Furon, Le Merrer 2021): arcs in random planes, without any estimate.

Iteration t: turn from the boundary point x_t towards a random direction, and search the arc in the
plane of x_t - x* and that direction for the last adversarial point. Every asked arc that holds one
is a step nearer. The paper's reduced form searches the whole arc; its authors first try a few
angles to both sides, with a largest angle that adapts: the sweep is a part. After the last
iteration the line to the source is searched once more; a budget mostly ends the attack before.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..core.ask import Asking
from ..core.metric import Metric
from ..core.problem import Problem
from ..core.stop import Stop
from ..core.validation import MAX_LIMIT, check, whole
from ..parts.directions import Directions, TernarySpectrum
from ..parts.paths import Segment
from ..parts.searches import Search
from ..parts.starts import Start, find_start
from ..parts.sweeps import Quarter, Sweep


@dataclass(frozen=True)
class SurFree:
    """SurFree with a start, searches, directions and a sweep as parts."""

    start: Start
    search: Search
    """Of the line from the start to the source, and of the last one."""
    arc_search: Search
    directions: Directions = field(default_factory=TernarySpectrum)
    sweep: Sweep = field(default_factory=Quarter)
    iterations: int = 100_000

    metrics = (Metric.L2,)

    def __post_init__(self) -> None:
        check(self, iterations=whole(1, MAX_LIMIT))

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
        sweep = self.sweep.begin(problem)
        for _ in range(self.iterations):
            arc = yield from sweep(iterate, turn())
            if arc is None:
                continue
            moved = yield from self.arc_search(problem, arc)
            if moved is not iterate:
                iterate = moved
                problem.accept(iterate)
        problem.accept((yield from self.search(problem, Segment(problem.source, iterate))))
        return Stop.ITERATIONS
