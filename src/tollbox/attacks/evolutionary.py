"""Evolutionary Attack (Dong, Su, Wu, Li, Liu, Zhang, Zhu, CVPR 2019): a walk by (1+1)-CMA-ES.

Algorithm 1. A direction has m coefficients, as those of a small image that is enlarged. Each has a
variance c_i, initially 1, and p_c is the evolution path, initially 0. Every step, from x at the
distance r:

    draw      z ~ N(0, C) in m / 20 random coefficients, chosen with probability in proportion to
              c_i; the others are 0
    query     x + mu (x* - x) + z, where z is enlarged to the length sigma r, moved to the distance
              (1 - mu) r from x*
    if it is adversarial, accept it:
              p_c = (1 - c_c) p_c + sqrt(c_c (2 - c_c)) z
              c_i = (1 - c_cov) c_i + c_cov p_c,i^2

After every 30 steps, mu is multiplied by exp(P - 1/5), where P is their share of successes.
Until a point is adversarial, the next ones are known, so one ask holds up to 30 steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

import torch
from torch import Tensor

from ..core.ask import Ask, Asking, Iterate, Until
from ..core.problem import Problem
from ..core.stop import Stop
from ..core.validation import whole
from ..parts.registry import Count, InnerFraction, Limit, Positive, PositiveFraction
from ..parts.subspaces import Prior, Resize, drawing_for
from ..parts.vectors import LazyRows, unit
from .boundary import PHASE
from .descent import FromBoundary

TARGET = 0.2
"""Share of successes at which mu does not change (the one-fifth rule)."""
SMALLEST = 1e-12
"""Minimum of mu; the maximum is 1, which leads to x*."""


def chosen(variances: Tensor, noise: Tensor, count: int) -> Tensor:
    """Return 1 for `count` coefficients, chosen without replacement with probability in proportion
    to their variances, and 0 for the others.

    An exponential random number divided by a weight is the smallest with probability in proportion
    to the weight; -log(Phi(noise)) is such a number.
    """
    times = torch.special.log_ndtr(noise).div_(variances).flatten()
    first = times.topk(count).indices  # they are negative: the largest are the first
    return torch.zeros_like(times).scatter_(0, first, 1.0).view_as(variances)


@dataclass(frozen=True)
class Evolutionary(FromBoundary):
    """Evolutionary Attack, with a start, a search and a prior as parts."""

    prior: Prior = field(default_factory=lambda: Resize(5))
    """Enlargement of coefficients to an image; m is their number."""
    steps: Limit = 100_000
    mu: InnerFraction = 0.01
    """Initial source step, a fraction of the distance."""
    sigma: Positive = 0.03
    """Length of z, a fraction of the distance."""
    c_c: PositiveFraction = 0.01
    c_cov: PositiveFraction = 0.001
    every: Annotated[int, whole(1, 1000)] = 30
    """Number of steps after which mu changes."""
    fewer: Count = 20
    """m divided by the number of coefficients that a step changes."""

    @property
    def rows(self) -> int:
        """Maximum number of points held: proposals of one ask, and the terms of one of them."""
        return min(self.every, 64) + 12

    def descend(self, problem: Problem, iterate: Iterate) -> Asking[Stop]:
        source, draw = problem.source, drawing_for(problem, self.prior)
        variances, path = source.new_ones(draw.shape), source.new_zeros(draw.shape)
        count = max(1, variances.numel() // self.fewer)
        noise = problem.noise(PHASE, 0, self.steps, (2, *draw.shape))
        mu, done, successes = self.mu, 0, 0

        def z(number: int) -> Tensor:
            drawn, weights = noise[number : number + 1][0]
            step: Tensor = weights * variances.sqrt() * chosen(variances, drawn, count)
            return step

        def proposal(mu: float) -> Callable[[int], Tensor]:
            away, r = iterate.point - source, iterate.distance

            def point(step: int) -> Tensor:
                moved = draw(z(step)[None], self.sigma * r)[0].add_(away, alpha=1 - mu)
                return unit(moved).mul_((1 - mu) * r).add_(source).clamp_(0, 1)

            return point

        while done < self.steps:
            last = min(done + self.every - done % self.every, self.steps)
            point = proposal(mu)
            rows = LazyRows.stack(range(done, last), point)
            answers = yield Ask(rows, until=Until.ADVERSARIAL, phase=PHASE)
            done += len(answers)
            distance = float(answers.distances[-1])
            if answers.adversarial[-1] and distance < iterate.distance:
                step = z(done - 1)
                iterate = Iterate(point(done - 1), distance)
                problem.note(source_step=mu)
                problem.accept(iterate)
                path = (1 - self.c_c) * path + math.sqrt(self.c_c * (2 - self.c_c)) * step
                variances = (1 - self.c_cov) * variances + self.c_cov * path.square()
                successes += 1
            if done % self.every == 0:
                mu = min(max(mu * math.exp(successes / self.every - TARGET), SMALLEST), 1.0)
                successes = 0
        return Stop.ITERATIONS
