"""Boundary Attack (Brendel, Rauber, Bethge 2018) as in Foolbox 3: a walk along the boundary.

From x at distance r of the source x*, with a random unit vector eta orthogonal to x - x*:

    orthogonal step   y = x* + (x - x* + s r eta) / sqrt(1 + s^2), on the sphere of radius r
    source step       z = y + e r towards x*, at the distance (1 - e) r

Every step queries z, and accepts it if it is adversarial and has a smaller distance. Every tenth
step is a check, which also queries y. If more than half of the last 100 checks found y adversarial,
s and e grow by the factor 1.5; if less than a fifth did, they shrink. If more than a quarter of the
last 30 found z adversarial, e grows; if less than a tenth did, it shrinks. A window is cleared when
its step changes. The attack has converged when e is below 1e-7.

Until a z is adversarial the next ones are known, so up to nine steps are one ask.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.ask import Ask, Asking, Iterate, Until
from ..core.metric import Metric
from ..core.noise import Noise
from ..core.problem import Problem
from ..core.stop import Stop
from ..core.validation import MAX_LIMIT, MAX_VALUE, above, between, check, whole
from ..parts.paths import Segment
from ..parts.searches import Search
from ..parts.starts import Start, find_start
from ..parts.vectors import unit

PHASE = "walk"
ORTHOGONAL_RATES = (0.2, 0.5)
SOURCE_RATES = (0.1, 0.25)
"""Fractions of adversarial answers between which a step does not change."""
SMALLEST, LARGEST = 1e-12, 1000
"""Limits of a step. A source step is at most 1, which leads to x*."""


class _Window:
    """The last answers to one kind of proposal."""

    def __init__(self, size: int, rates: tuple[float, float]) -> None:
        self._answers: deque[bool] = deque(maxlen=size)
        self._size, self._rates = size, rates

    def turn(self, adversarial: bool) -> int:
        """Add an answer; return 1 if the step must grow, -1 if it must shrink, else 0."""
        self._answers.append(adversarial)
        share, (low, high) = sum(self._answers) / self._size, self._rates
        if len(self._answers) < self._size or low <= share <= high:
            return 0
        self._answers.clear()
        return 1 if share > high else -1


class _Proposals:
    """Rows z of `count` steps from one iterate, the first being step `first`."""

    def __init__(
        self,
        source: Tensor,
        iterate: Iterate,
        noise: Noise,
        first: int,
        count: int,
        steps: tuple[float, float],
    ) -> None:
        self._source, self._noise, self._first, self._count = source, noise, first, count
        self._away, self._distance = iterate.point - source, iterate.distance
        self._inward = unit(self._away)
        self._orthogonal_step, self._source_step = steps

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, rows: slice) -> Tensor:
        first, last, _ = rows.indices(self._count)
        return torch.stack([self.pair(row)[0] for row in range(first, last)])

    def pair(self, row: int) -> tuple[Tensor, Tensor]:
        """Return z and y of one step, computed alone: a row does not depend on its slice."""
        place = self._first + row
        eta = self._noise[place : place + 1][0]
        eta = eta - torch.dot(eta.flatten(), self._inward.flatten()) * self._inward
        s, r = self._orthogonal_step, self._distance
        sphere = torch.add(self._away, unit(eta), alpha=s * r).div_(math.sqrt(1 + s * s))
        sphere = sphere.add_(self._source).clamp_(0, 1)
        way = self._source - sphere
        left = torch.linalg.vector_norm(way)  # r, or less where pixels were clipped
        length = (left - (1 - self._source_step) * r).clamp_min_(0)
        share = length / left.clamp_min(torch.finfo(left.dtype).tiny)
        return torch.addcmul(sphere, way, share).clamp_(0, 1), sphere


@dataclass(frozen=True)
class BoundaryAttack:
    """Boundary Attack, with a start and a search as parts."""

    start: Start
    search: Search
    """The search along the line from the start to the source."""
    steps: int = 25_000
    orthogonal_step: float = 0.01
    """s, a fraction of the distance."""
    source_step: float = 0.01
    """e, a fraction of the distance."""
    adaptation: float = 1.5
    convergence: float = 1e-7
    """The source step below which the attack has converged."""
    check_every: int = 10
    orthogonal_window: int = 100
    """Number of checks that decide on s and e together."""
    source_window: int = 30
    """Number of checks that decide on e alone."""

    metrics = (Metric.L2,)

    def __post_init__(self) -> None:
        check(self, steps=whole(1, MAX_LIMIT), check_every=whole(1, MAX_VALUE))
        check(self, orthogonal_step=above(0, LARGEST), source_step=between(0, 1))
        check(self, adaptation=above(1, MAX_VALUE), convergence=above(0, 1))
        check(self, orthogonal_window=whole(1, MAX_VALUE), source_window=whole(1, MAX_VALUE))

    @property
    def rows(self) -> int:
        """Maximum number of points held: the proposals of one ask, and the terms of one."""
        return min(self.check_every, 64) + 8

    def __call__(self, problem: Problem) -> Asking[Stop]:
        first = yield from find_start(problem, self.start)
        if first is None:
            return Stop.NO_START
        iterate = yield from self.search(problem, Segment(problem.source, first))
        problem.accept(iterate)
        noise = problem.noise(PHASE, 0, self.steps)
        s, e = self.orthogonal_step, self.source_step
        orthogonal = _Window(self.orthogonal_window, ORTHOGONAL_RATES)
        inward = _Window(self.source_window, SOURCE_RATES)
        done = 0
        while done < self.steps:
            if e < self.convergence:
                return Stop.CONVERGED
            ahead = self.check_every - 1 - done % self.check_every
            count = min(max(ahead, 1), self.steps - done)
            points = _Proposals(problem.source, iterate, noise, done, count, (s, e))
            if ahead:
                answers = yield Ask(points, until=Until.ADVERSARIAL, phase=PHASE)
                asked = len(answers)
            else:
                answers = yield Ask(torch.stack(points.pair(0)), phase=PHASE)
                asked = 1
            done += asked
            last = asked - 1
            distance = float(answers.distances[last])
            if answers.adversarial[last] and distance < iterate.distance:
                iterate = Iterate(points[last:asked][0], distance)
                problem.note(orthogonal_step=s, source_step=e)
                problem.accept(iterate)
            if not ahead:
                both = self.adaptation ** orthogonal.turn(bool(answers.adversarial[1]))
                own = self.adaptation ** inward.turn(bool(answers.adversarial[0]))
                s = min(max(s * both, SMALLEST), LARGEST)
                e = min(max(e * both * own, SMALLEST), 1.0)
        return Stop.ITERATIONS
