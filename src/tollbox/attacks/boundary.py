"""Boundary Attack (Brendel, Rauber, Bethge 2018) as in Foolbox 3: a walk along the boundary.

From x at distance r from the source x*, with a random unit vector eta orthogonal to x - x*:

    orthogonal step   y = x* + (x - x* + s r eta) / sqrt(1 + s^2), on the sphere of radius r
    source step       z = y + e r towards x*, at the distance (1 - e) r

Every step queries z, and accepts it if it is adversarial and has a smaller distance. Every tenth
step is a check, which also queries y. If more than half of the last 100 checks found y adversarial,
s and e grow by the factor 1.5; if fewer than a fifth did, they shrink. If more than a quarter of
the last 30 found z adversarial, e grows; if fewer than a tenth did, it shrinks. A window is cleared
when its step changes. The attack has converged when e is below 1e-7.

Until a z is adversarial, the next ones are known, so one ask holds up to nine steps.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from ..core.ask import Ask, Asking, Iterate, Until
from ..core.noise import Noise
from ..core.problem import Problem
from ..core.stop import Stop
from ..core.validation import MAX_VALUE, above
from ..parts.registry import Count, InnerFraction, Limit, PositiveFraction
from ..parts.vectors import LazyRows, unit
from .descent import FromBoundary

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


Pair = Callable[[int], tuple[Tensor, Tensor]]
"""Function from the number of a step to its z and y."""


def _proposals(source: Tensor, iterate: Iterate, noise: Noise, s: float, e: float) -> Pair:
    away, r = iterate.point - source, iterate.distance
    inward = unit(away)

    def pair(step: int) -> tuple[Tensor, Tensor]:
        eta = noise[step : step + 1][0]
        eta = eta - torch.dot(eta.flatten(), inward.flatten()) * inward
        sphere = torch.add(away, unit(eta), alpha=s * r).div_(math.sqrt(1 + s * s))
        sphere = sphere.add_(source).clamp_(0, 1)
        way = source - sphere
        left = torch.linalg.vector_norm(way)  # r, or less where pixels were clipped
        length = (left - (1 - e) * r).clamp_min_(0)
        share = length / left.clamp_min(torch.finfo(left.dtype).tiny)
        return torch.addcmul(sphere, way, share).clamp_(0, 1), sphere

    return pair


def _only_z(pair: Pair, steps: range) -> LazyRows:
    return LazyRows.stack(steps, lambda step: pair(step)[0])


@dataclass(frozen=True)
class BoundaryAttack(FromBoundary):
    """Boundary Attack, with a start and a search as parts."""

    steps: Limit = 25_000
    orthogonal_step: Annotated[float, above(0, LARGEST)] = 0.01
    """s, a fraction of the distance."""
    source_step: InnerFraction = 0.01
    """e, a fraction of the distance."""
    adaptation: Annotated[float, above(1, MAX_VALUE)] = 1.5
    convergence: PositiveFraction = 1e-7
    """The source step below which the attack has converged."""
    check_every: Count = 10
    orthogonal_window: Count = 100
    """Number of checks that determine the change of s and e together."""
    source_window: Count = 30
    """Number of checks that determine the change of e alone."""

    @property
    def rows(self) -> int:
        """Maximum number of points held: proposals of one ask, and the terms of one of them."""
        return min(self.check_every, 64) + 8

    def descend(self, problem: Problem, iterate: Iterate) -> Asking[Stop]:
        noise = problem.noise(PHASE, 0, self.steps)
        s, e = self.orthogonal_step, self.source_step
        orthogonal = _Window(self.orthogonal_window, ORTHOGONAL_RATES)
        inward = _Window(self.source_window, SOURCE_RATES)
        done = 0
        while done < self.steps:
            if e < self.convergence:
                return Stop.CONVERGED
            pair = _proposals(problem.source, iterate, noise, s, e)
            ahead = self.check_every - 1 - done % self.check_every
            if ahead:
                steps = range(done, min(done + ahead, self.steps))
                answers = yield Ask(_only_z(pair, steps), until=Until.ADVERSARIAL, phase=PHASE)
                last = len(answers) - 1
            else:
                answers = yield Ask(torch.stack(pair(done)), phase=PHASE)
                last = 0
            distance = float(answers.distances[last])
            if answers.adversarial[last] and distance < iterate.distance:
                iterate = Iterate(pair(done + last)[0], distance)
                problem.note(orthogonal_step=s, source_step=e)
                problem.accept(iterate)
            done += last + 1
            if not ahead:
                both = self.adaptation ** orthogonal.turn(bool(answers.adversarial[1]))
                own = self.adaptation ** inward.turn(bool(answers.adversarial[0]))
                s = min(max(s * both, SMALLEST), LARGEST)
                e = min(max(e * both * own, SMALLEST), 1.0)
        return Stop.ITERATIONS
