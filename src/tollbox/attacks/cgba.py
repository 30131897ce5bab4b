"""CGBA (Reza, Rahmati, Wu, Dai 2023): along half a circle, towards an estimated normal.

Iteration t: estimate a direction g at the boundary point x_t; search the arc from x_t towards g, in
the plane of x_t - x* and g, for the last adversarial point. Which piece of the arc is searched is
the sweep's: up to the angle of g as in the paper's code, or found by galloping as its authors do.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from ..core.ask import Asking, Iterate
from ..core.metric import Metric
from ..core.problem import Problem
from ..core.ranges import MAX_LIMIT, MAX_VALUE, check, whole
from ..core.stop import Stop
from ..parts.estimates import Estimate
from ..parts.searches import Search
from ..parts.starts import Start
from ..parts.sweeps import Sweep, ToDirection
from .descent import Project, descend


@dataclass(frozen=True)
class CGBA:
    """CGBA with a start, a search, an estimate and a sweep as parts."""

    start: Start
    search: Search
    estimate: Estimate
    sweep: Sweep = field(default_factory=ToDirection)
    queries: int = 30
    """n_0: the vanilla estimate at iteration t has n_0 sqrt(t) queries."""
    blind_limit: int = 10
    iterations: int = 10_000

    metrics = (Metric.L2,)

    def __post_init__(self) -> None:
        check(self, queries=whole(1, MAX_VALUE))
        check(self, blind_limit=whole(1, MAX_LIMIT), iterations=whole(1, MAX_LIMIT))

    @property
    def rows(self) -> int:
        """The most points held at a time."""
        return self.estimate.rows

    def __call__(self, problem: Problem) -> Asking[Stop]:
        """Attack one image."""
        sweep = self.sweep.begin(problem)

        def move(_: int, iterate: Iterate, direction: Tensor, project: Project) -> Asking[Iterate]:
            arc = yield from sweep(iterate, direction)
            return iterate if arc is None else (yield from project(arc))

        return descend(problem, self, move)
