"""Sign Flip (Chen, Zhang, Hu, Wu, ECCV 2020) for ℓ∞: smaller balls and random flips of signs.

From the first boundary point, the perturbation delta takes two queries a step (Algorithm 1):

    project   add alpha times random signs, clip to the ball of radius |delta|∞ - alpha; keep the
              result if it is adversarial
    flip      turn the sign of each value with its probability p; keep the result if it is
              adversarial, and then add 1e-4 to p where nothing was flipped, and subtract it where
              something was

Signs, flips and p belong to the pixels of a smaller image, which is enlarged. After every 10 steps,
alpha grows by the factor 1.5 if more than 7 projections were kept, and shrinks if fewer than 3
were; all p grow or shrink by 0.001 by the same rule for flips. p stays within [1e-4, 0.01].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from ..core.ask import Ask, Asking, Iterate
from ..core.metric import Metric
from ..core.problem import Problem
from ..core.stop import Stop
from ..core.validation import MAX_VALUE, number
from ..parts.registry import Count, InnerFraction, Limit
from ..parts.subspaces import resized
from .boundary import PHASE
from .descent import FromBoundary

LOW, HIGH = 0.3, 0.7
"""Shares of successes between which a setting does not change."""
ADAPTATION = 1.5
SMALLEST = 1e-9
"""Minimum of alpha."""
LEAST, MOST = 1e-4, 0.01
"""Limits of the probability of a flip."""
SMALL_CHANGE, CHANGE = 1e-4, 1e-3
"""Changes of the probability after a flip that was kept, and after `every` steps."""


def turn(kept: int, tried: int) -> int:
    """Return 1 if a setting must grow, -1 if it must shrink, else 0."""
    return (kept > HIGH * tried) - (kept < LOW * tried)


@dataclass(frozen=True)
class SignFlip(FromBoundary):
    """Sign Flip, with a start and a search as parts."""

    steps: Limit = 100_000
    alpha: InnerFraction = 0.004
    """Initial decrease of the distance by a projection."""
    flips: InnerFraction = 0.001
    """p, the initial probability of a flip."""
    every: Count = 10
    """Number of steps after which alpha and p change."""
    factor: Annotated[float, number(1, MAX_VALUE)] = 1.0
    """Side of the image divided by that of the smaller image of signs."""

    metrics = (Metric.LINF,)
    rows = 12
    """Maximum number of points held: the terms of one step."""

    def descend(self, problem: Problem, iterate: Iterate) -> Asking[Stop]:
        source = problem.source
        channels, height, width = source.shape
        small = (1, channels, math.ceil(height / self.factor), math.ceil(width / self.factor))
        noise = problem.noise(PHASE, 0, self.steps, (2, *small))
        delta, alpha, kept = iterate.point - source, self.alpha, [0, 0]
        radius = iterate.distance
        probability = source.new_full(small, self.flips)

        def enlarged(signs: Tensor) -> Tensor:
            return resized(signs, (height, width))[0]

        def proposal(change: Tensor) -> Tensor:
            return (source + change).clamp_(0, 1)

        for step in range(self.steps):
            signs, drawn = noise[step : step + 1][0]
            smaller = max(radius - alpha, 0.0)
            added = problem.only_mask(enlarged(signs.sign() * alpha))
            projected = (delta + added).clamp_(-smaller, smaller)
            answers = yield Ask(proposal(projected)[None], phase=PHASE)
            if answers.adversarial[0]:
                delta, radius = projected, smaller
                iterate = Iterate(proposal(delta), float(answers.distances[0]))
                kept[0] += 1
            turned = 1 - 2 * (torch.special.ndtr(drawn) < probability).to(delta.dtype)
            flipped = torch.where(enlarged(turned) < 0, -delta, delta)
            answers = yield Ask(proposal(flipped)[None], phase=PHASE)
            if answers.adversarial[0]:
                delta = flipped
                iterate = Iterate(proposal(delta), float(answers.distances[0]))
                probability = (probability + SMALL_CHANGE * turned).clamp_(LEAST, MOST)
                kept[1] += 1
            problem.note(alpha=alpha)
            problem.accept(iterate)
            if (step + 1) % self.every == 0:
                alpha = max(alpha * ADAPTATION ** turn(kept[0], self.every), SMALLEST)
                change = CHANGE * turn(kept[1], self.every)
                probability, kept = (probability + change).clamp_(LEAST, MOST), [0, 0]
        return Stop.ITERATIONS
