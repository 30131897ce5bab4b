"""AHA (Li, Ji, Chen, Zhang, Hong, Zhang, Li, Li, Huang, Wu, ICCV 2021): a walk whose directions
have a mean from the answers so far.

Blocks of pixels move together. The bias b has one value for each block and channel, initially 0.
Every step, from x at the distance r:

    eta = N(0, 1) |x - x*| + b,      with |x - x*| averaged over each block
    query     y = x + alpha (x* - x) + beta r eta / |eta|, clipped
    if y is adversarial, accept it; b = (1 - m) b + m eta if it is, and (1 - m) b - m eta if not

A step expects the gain alpha r + beta <eta, x* - x> / |eta|, and its actual gain is r - |y - x*| if
y was accepted, otherwise 0. The agreement is the smaller of both, in absolute values, as a share of
the larger. After every 30 steps, alpha is multiplied by (0.8 + their mean agreement)^2. An alpha
below 1e-9 starts again from its first value.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional

from ..core.ask import Ask, Asking, Iterate
from ..core.problem import Problem
from ..core.stop import Stop
from ..parts.registry import Count, InnerFraction, Limit, Positive
from ..parts.vectors import unit
from .boundary import PHASE
from .descent import FromBoundary

SMALLEST = 1e-9
"""Source step below which alpha starts again; the largest is 1, which leads to x*."""
GROWTH = 0.8
"""alpha grows if the mean agreement is above 1 - GROWTH."""
NEGLIGIBLE = 1e-12


def agreement(expected: list[float], actual: list[float]) -> float:
    """Return the mean of the smaller gain as a share of the larger, in absolute values."""
    pairs = [sorted((abs(one), abs(other))) for one, other in zip(expected, actual, strict=True)]
    return sum(smaller / (larger + NEGLIGIBLE) for smaller, larger in pairs) / len(pairs)


@dataclass(frozen=True)
class AHA(FromBoundary):
    """AHA, with a start and a search as parts."""

    steps: Limit = 100_000
    alpha: InnerFraction = 0.01
    """Initial source step, a fraction of the distance."""
    beta: Positive = 0.01
    """Length of a random step, a fraction of the distance."""
    m: InnerFraction = 0.01
    """Weight of the last direction in the bias."""
    every: Count = 30
    """Number of steps after which alpha changes."""
    block: Count = 4
    """Side of a block in pixels."""

    rows = 12
    """Maximum number of points held: the terms of one proposal."""

    def descend(self, problem: Problem, iterate: Iterate) -> Asking[Stop]:
        source = problem.source
        channels, *sides = source.shape
        height, width = (max(1, side // self.block) for side in sides)
        noise = problem.noise(PHASE, 0, self.steps, (1, channels, height, width))
        bias, alpha = source.new_zeros(1, channels, height, width), self.alpha
        expected: list[float] = []
        actual: list[float] = []
        for step in range(self.steps):
            way, r = source - iterate.point, iterate.distance
            weights = functional.adaptive_avg_pool2d(way.abs()[None], (height, width))
            eta = noise[step : step + 1][0] * weights + bias
            along = unit(problem.only_mask(functional.interpolate(eta, tuple(sides))[0]))
            point = torch.add(iterate.point, way, alpha=alpha).add_(along, alpha=self.beta * r)
            point = point.clamp_(0, 1)
            answers = yield Ask(point[None], phase=PHASE)
            # Without clipping, |y - x*|^2 = ((1 - alpha)^2 + beta^2) r^2 less 2 (1 - alpha) beta r
            # times <eta, x* - x> / |eta|: no number is read from the device.
            squared = float(answers.distances[0]) ** 2
            shorter = ((1 - alpha) ** 2 + self.beta**2) * r**2 - squared
            expected.append(alpha * r + (shorter / (2 * (1 - alpha) * r) if alpha < 1 else 0.0))
            actual.append(0.0)
            if answers.adversarial[0]:
                iterate = Iterate(point, float(answers.distances[0]))
                actual[-1] = r - iterate.distance
                problem.note(source_step=alpha)
                problem.accept(iterate)
            bias = bias * (1 - self.m) + eta * (self.m if answers.adversarial[0] else -self.m)
            if (step + 1) % self.every == 0:
                alpha *= (GROWTH + agreement(expected, actual)) ** 2
                alpha = min(alpha, 1.0) if alpha >= SMALLEST else self.alpha
                expected, actual = [], []
        return Stop.ITERATIONS
