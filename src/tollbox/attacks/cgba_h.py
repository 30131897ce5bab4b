"""CGBA-H (Reza, Rahmati, Wu, Dai 2023): CGBA from the other side, for curved boundaries.

Iteration t: estimate a direction g at the boundary point x_t, at the angle theta from x_t - x*; ask
on the half circle of CGBA (paths.py) at the angles theta/2, theta/4, ... until one is adversarial;
search the line from there to the source. CGBA walks away from x_t until it leaves the adversarial
side; this comes from the side of g, and so does not stop at a near crossing: a targeted class may
be a thin one. Every point of the circle is nearer than x_t.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.ask import Asking, Iterate, first_adversarial
from ..core.problem import Problem
from ..core.stop import Stop
from ..parts.paths import Circle, Segment
from ..parts.sweeps import PHASE
from .descent import Project, descend
from .hsja import Hopping


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
