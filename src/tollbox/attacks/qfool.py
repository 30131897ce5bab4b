"""qFool (Liu, Moosavi-Dezfooli, Frossard 2019): steps along one normal as long as it pays.

At the boundary point P_i: estimate the normal with n_0 queries in each round; xi is the unit vector
of the sum. Query x* + k r xi, k = 1, 2, ..., where r is the smallest distance found, until one is
adversarial, and search the line from there to the source for x_adv. Another round follows as long
as the gain at P_i, per query of its estimates, is more than epsilon times the previous round's.
Then P_{i+1} is the closest x_adv, if closer than P_i. The boundary is assumed to be flat near the
source, so that a normal found far away still points to a close point.

The gain is the difference between the distances of P_i and x_adv, which is known without a
synchronisation; the published rule uses the distance between the two points.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.ask import Asking, Iterate, first_adversarial
from ..core.problem import Problem
from ..parts.paths import Segment
from ..parts.rays import outward
from ..parts.registry import Count, InnerFraction
from ..parts.vectors import unit
from .descent import Descent, Move, Project


@dataclass(frozen=True)
class QFool(Descent):
    """qFool with a start, a search and an estimate as parts."""

    queries: Count = 100
    """n_0, the number of queries in every round."""
    epsilon: InnerFraction = 0.7
    """Minimum gain per query after a round, as a share of the previous round's."""
    rounds: Count = 10
    """Maximum number of rounds at a boundary point."""
    steps: Count = 100
    """Maximum number of steps outward from the source."""

    def planned(self, t: int) -> int:  # noqa: ARG002
        return self.queries

    def begin(self, problem: Problem) -> Move:
        total = torch.zeros_like(problem.source)
        done, previous = 0, 0.0
        closest: Iterate | None = None

        def move(_: int, iterate: Iterate, normal: Tensor, project: Project) -> Asking[Iterate]:
            """Run one round at P_i; return P_i if another round pays, otherwise P_{i+1}."""
            nonlocal done, previous, closest
            total.add_(normal)
            done += 1
            radius = (closest or iterate).distance
            points = outward(problem.source, unit(total) * radius, self.steps)
            moved = yield from first_adversarial(points, "step")
            rate = 0.0
            if moved is not None:
                found = yield from project(Segment(problem.source, moved))
                rate = (iterate.distance - found.distance) / done
                if found.distance < radius:
                    closest = found
            if done < self.rounds and (done == 1 or rate > self.epsilon * max(previous, 0.0)):
                previous = rate
                return iterate
            next_point = closest or iterate
            total.zero_()
            done, previous, closest = 0, 0.0, None
            return next_point

        return move
