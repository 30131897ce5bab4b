"""CGBA (Reza, Rahmati, Wu, Dai 2023): along half a circle, towards an estimated normal.

Iteration t: estimate a direction g at the boundary point x_t; search the arc from x_t towards g, in
the plane of x_t - x* and g, for the last adversarial point. Which piece of the arc is searched is
the sweep's: up to the angle of g as in the paper's code, or found by galloping as its authors do.

CGBA-H (Reza, Rahmati, Wu, Dai 2023): CGBA from the other side, for curved boundaries.

Iteration t: estimate a direction g at the boundary point x_t, at the angle theta from x_t - x*; ask
on the half circle of CGBA (paths.py) at the angles theta/2, theta/4, ... until one is adversarial;
search the line from there to the source. CGBA walks away from x_t until it leaves the adversarial
side; this comes from the side of g, and so does not stop at a near crossing: a targeted class may
be a thin one. Every point of the circle is nearer than x_t.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..core.ask import Asking, Iterate, first_adversarial
from ..core.metric import Metric
from ..core.problem import Problem
from ..core.stop import Stop
from ..core.validation import MAX_LIMIT, MAX_VALUE, check, whole
from ..parts.estimates import Estimate
from ..parts.paths import Circle, Segment
from ..parts.searches import Search
from ..parts.starts import Start
from ..parts.sweeps import PHASE, Sweep, ToDirection
from .descent import Project, descend
from .hsja import Hopping


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


class _HalvedAngles:
    """Rows of a circle at the angles last 2^-k, k = 1, 2, ...; only the device knows `last`."""

    def __init__(self, circle: Circle, last: Tensor, count: int) -> None:
        self._circle, self._last, self._count = circle, last, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, rows: slice) -> Tensor:
        first, last, _ = rows.indices(self._count)
        angles = (self._last * 0.5 ** (k + 1) for k in range(first, last))
        return torch.stack([self._circle.at_unknown(angle) for angle in angles])


@dataclass(frozen=True)
class CGBAH(Hopping):
    """CGBA-H with a start, a search and an estimate as parts."""

    halvings: int = 39

    def __call__(self, problem: Problem) -> Asking[Stop]:
        """Attack one image."""

        def move(_: int, iterate: Iterate, direction: Tensor, project: Project) -> Asking[Iterate]:
            circle = Circle.through(problem.source, iterate.point, direction)
            theta = torch.acos(circle.cosine.clamp(-1, 1))
            points = _HalvedAngles(circle, theta, self.halvings)
            moved = yield from first_adversarial(points, PHASE)
            if moved is None:
                return iterate
            return (yield from project(Segment(problem.source, moved)))

        return descend(problem, self, move)
