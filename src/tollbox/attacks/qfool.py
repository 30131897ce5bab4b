"""qFool (Liu, Moosavi-Dezfooli, Frossard 2019): along one normal as long as it pays.

At the boundary point P_i: estimate the normal with n_0 queries, and n_0 more in each round, all
summed to xi. Query x* + k r xi, k = 1, 2, ..., r the distance of the last point found, until one is
adversarial, and search the line from there to the source: x_adv. Another round follows as long as
the gain at P_i, per query of its estimates, is more than epsilon of the previous round's. Then
P_{i+1} = x_adv, if that is closer. The boundary is assumed to be flat near the source, so that a
normal found far away still points to a close point.

The gain is the difference between the distances of P_i and x_adv, which is known without a
synchronisation; the published rule uses the distance between the two points.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.ask import Asking, Iterate
from ..core.problem import Problem
from ..core.stop import Stop
from ..core.validation import MAX_VALUE, between, check, whole
from ..parts.paths import Segment
from ..parts.rays import walk_outward
from ..parts.vectors import unit
from .descent import Descent, Project, descend


@dataclass(frozen=True)
class QFool(Descent):
    """qFool with a start, a search and an estimate as parts."""

    queries: int = 100
    """n_0, the number of queries of every round."""
    epsilon: float = 0.7
    """Minimum gain per query of a round, as a share of the previous round's."""
    rounds: int = 10
    """Maximum number of rounds at a boundary point."""
    steps: int = 100
    """Maximum number of steps outward from the source."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self, epsilon=between(0, 1), rounds=whole(1, MAX_VALUE), steps=whole(1, MAX_VALUE))

    def __call__(self, problem: Problem) -> Asking[Stop]:
        move = _Rounds(self, problem).move
        return descend(problem, self, move, lambda _: self.queries)


class _Rounds:
    """The rounds at one boundary point after another; P_i is the iterate of the descent."""

    def __init__(self, attack: QFool, problem: Problem) -> None:
        self._attack, self._problem = attack, problem
        self._reset()

    def _reset(self) -> None:
        self._total = torch.zeros_like(self._problem.source)
        self._done, self._rate = 0, 0.0
        self._closest: Iterate | None = None

    def move(self, _: int, iterate: Iterate, normal: Tensor, project: Project) -> Asking[Iterate]:
        """Run one round at P_i; return P_i if another pays, otherwise P_{i+1}."""
        self._total += normal
        self._done += 1
        radius = (self._closest or iterate).distance
        step = unit(self._total) * radius
        moved = yield from walk_outward(self._problem, step, self._attack.steps)
        rate = 0.0
        if moved is not None:
            found = yield from project(Segment(self._problem.source, moved))
            rate = (iterate.distance - found.distance) / self._done
            if found.distance < radius:
                self._closest = found
        if self._done < self._attack.rounds:
            previous, self._rate = self._rate, rate
            if self._done == 1 or rate > self._attack.epsilon * max(previous, 0.0):
                return iterate
        next_point = self._closest or iterate
        self._reset()
        return next_point
