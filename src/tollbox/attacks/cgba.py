"""CGBA and CGBA-H (Reza, Rahmati, Wu, Dai 2023): arcs towards an estimated normal.

`CGBA`, iteration t: estimate a direction g at the boundary point x_t, and search the arc from x_t
towards g, in the plane of x_t - x* and g, for the last adversarial point. The sweep chooses the
piece: up to the angle of g, as in the paper's code, or by galloping, as CGBA's authors do.

`CGBAH`, for curved boundaries: estimate a direction g at the angle theta from x_t - x*. Query the
same half circle (paths.py) at the angles theta/2, theta/4, ... until a point is adversarial, and
search the line from there to the source. CGBA moves away from x_t until it leaves the adversarial
side. CGBA-H approaches from g, so a crossing close to x_t does not stop it: the region of a target
class may be thin. Every point of the circle is closer to the source than x_t.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..core.ask import Asking, Iterate
from ..core.problem import Problem
from ..parts.paths import SWEEP, Circle, Sweep, ToDirection
from ..parts.registry import Depth
from ..parts.vectors import LazyRows
from .descent import Descent, Move, Project, step_and_project


@dataclass(frozen=True)
class CGBA(Descent):
    """CGBA with a start, a search, an estimate and a sweep as parts."""

    sweep: Sweep = field(default_factory=ToDirection)

    def begin(self, problem: Problem) -> Move:
        sweep = self.sweep.begin()

        def move(_: int, iterate: Iterate, direction: Tensor, project: Project) -> Asking[Iterate]:
            circle = Circle.through(problem.source, iterate.point, direction)
            arc = yield from sweep(iterate, circle)
            return iterate if arc is None else (yield from project(arc))

        return move


@dataclass(frozen=True)
class CGBAH(Descent):
    """CGBA-H with a start, a search and an estimate as parts."""

    halvings: Depth = 39

    def begin(self, problem: Problem) -> Move:
        def move(_: int, iterate: Iterate, direction: Tensor, project: Project) -> Asking[Iterate]:
            circle = Circle.through(problem.source, iterate.point, direction)
            theta = torch.acos(circle.cosine.clamp(-1, 1))
            points = LazyRows.stack(
                range(1, self.halvings + 1), lambda k: circle.at_unknown(theta * 0.5**k)
            )
            return step_and_project(problem, iterate, points, project, SWEEP)

        return move
