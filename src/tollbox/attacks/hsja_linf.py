"""HopSkipJump for ℓ∞ (Chen, Jordan, Wainwright 2020), with the same parts as for ℓ2.

Iteration t: estimate a direction g at the boundary point x_t with n_0 sqrt(t) queries, as for ℓ2;
step |x_t - x*|∞ / sqrt(t) along sign(g), halved until the point is adversarial; project: clip that
point to the smallest ℓ∞ ball around the source in which it stays adversarial (`paths.Box`), whose
radius is searched for. All points in [0,1].

A step that never becomes adversarial leaves the iterate where it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from ..core.ask import Asking, Iterate, first_adversarial
from ..core.metric import Metric
from ..core.problem import Problem
from ..core.stop import Stop
from ..parts.paths import Box
from .descent import Project, descend
from .hsja import Halved, Hopping


@dataclass(frozen=True)
class HSJALinf(Hopping):
    """HopSkipJump for ℓ∞ with a start, a search and an estimate as parts."""

    queries: int = 100

    metrics = (Metric.LINF,)

    def __call__(self, problem: Problem) -> Asking[Stop]:
        """Attack one image."""

        def move(t: int, iterate: Iterate, direction: Tensor, project: Project) -> Asking[Iterate]:
            step = direction.sign() * (iterate.distance / math.sqrt(t))
            moved = yield from first_adversarial(Halved(iterate.point, step, self.halvings), "step")
            if moved is None:
                return iterate
            return (yield from project(Box(problem.source, moved)))

        return descend(problem, self, move)
