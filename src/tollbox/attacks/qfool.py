"""qFool (Liu, Moosavi-Dezfooli, Frossard 2019): along one normal as long as it pays.

At the boundary point P_i: estimate the normal with n_0 queries, and n_0 more in each round, all
added up to xi; ask at x* + k r xi, k = 1, 2, ..., r the distance of the last point found, until one
is adversarial, and search the line from there to the source: x_adv. Another round follows as long
as what was gained at P_i, per query of its estimates, is more than epsilon of what it was in the
round before; then P_{i+1} = x_adv, if that is nearer. The boundary is taken to be flat near the
source, so that a normal found far away still points to a near point.

What is gained is the distance of P_i less that of x_adv, which is known without a synchronisation;
the published rule has the way from one to the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.ask import Asking, Iterate
from ..core.metric import Metric
from ..core.problem import Problem
from ..core.stop import Stop
from ..core.validation import MAX_LIMIT, MAX_VALUE, between, check, whole
from ..parts.estimates import Estimate
from ..parts.paths import Segment
from ..parts.rays import walk_outward
from ..parts.searches import Search
from ..parts.starts import Start
from ..parts.vectors import unit
from .descent import Project, descend


@dataclass(frozen=True)
class QFool:
    """qFool with a start, a search and an estimate as parts."""

    start: Start
    search: Search
    estimate: Estimate
    queries: int = 100
    """n_0, of every round."""
    epsilon: float = 0.7
    """A round must bring more than this share of what the one before brought, per query."""
    rounds: int = 10
    """At a boundary point, at most."""
    steps: int = 100
    """Outward from the source, at most."""
    blind_limit: int = 10
    iterations: int = 10_000

    metrics = (Metric.L2,)

    def __post_init__(self) -> None:
        check(self, queries=whole(1, MAX_VALUE), epsilon=between(0, 1))
        check(self, rounds=whole(1, MAX_VALUE), steps=whole(1, MAX_VALUE))
        check(self, blind_limit=whole(1, MAX_LIMIT), iterations=whole(1, MAX_LIMIT))

    @property
    def rows(self) -> int:
        """The most points held at a time."""
        return self.estimate.rows

    def __call__(self, problem: Problem) -> Asking[Stop]:
        """Attack one image."""
        move = _Rounds(self, problem).move
        return descend(problem, self, move, lambda _: self.queries)


class _Rounds:
    """The rounds at one boundary point after another, P_i being the iterate of the descent."""

    def __init__(self, attack: QFool, problem: Problem) -> None:
        self._attack, self._problem = attack, problem
        self._begin()

    def _begin(self) -> None:
        self._total = torch.zeros_like(self._problem.source)
        self._done, self._rate = 0, 0.0
        self._nearest: Iterate | None = None

    def move(self, _: int, iterate: Iterate, normal: Tensor, project: Project) -> Asking[Iterate]:
        """One round at P_i: P_i while another pays, else P_{i+1}."""
        self._total += normal
        self._done += 1
        radius = (self._nearest or iterate).distance
        step = unit(self._total) * radius
        moved = yield from walk_outward(self._problem, step, self._attack.steps)
        rate = 0.0
        if moved is not None:
            found = yield from project(Segment(self._problem.source, moved))
            rate = (iterate.distance - found.distance) / self._done
            if found.distance < radius:
                self._nearest = found
        if self._done < self._attack.rounds and self._pays(rate):
            return iterate
        next_point = self._nearest or iterate
        self._begin()
        return next_point

    def _pays(self, rate: float) -> bool:
        """Whether another round does; `rate` is kept for the next."""
        before, self._rate = self._rate, rate
        return self._done == 1 or rate > self._attack.epsilon * max(before, 0.0)
