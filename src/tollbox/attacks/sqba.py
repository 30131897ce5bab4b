"""SQBA, the Small Query Black-box Attack (Park, McLaughlin, Miller, WACV 2024): HopSkipJump whose
first directions are the signs of a surrogate's gradient.

Start       the image of these signs at the source (1 where positive, else 0); if it is flagged, the
            same at that image, and so on. If none is adversarial, the start of the attack.
Directions  signs at ten points between the source and x_t. The points x_t + 2 delta sign are
            queried, the closest to the source first, until one is adversarial (if none is, the
            closest counts). The direction is that to x_t + delta sign, clipped; delta is 0.1 at
            t = 1, then 0.01 |x_t - x*|. Steps and searches are HopSkipJump's.
Switch      after the first step shorter than 1 in l2, directions are estimates from 10 sqrt(t)
            samples at the radius 0.01 |x_t - x*|.

The gradient is that of the margin; with several networks, the sum of their unit gradients.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.ask import Ask, Asking, Iterate, Until, first_adversarial
from ..core.problem import Problem
from ..core.stop import Stop
from ..parts.estimates import FIRST_DELTA, PHASE
from ..parts.paths import inward
from ..parts.registry import Count, CountFrom0, NonNegative
from ..parts.starts import PHASE as START
from ..parts.vectors import unit, unit_rows
from .hsja import Halving, halved
from .surrogates import OptionalSurrogate

SHARES = torch.linspace(0.1, 0.9, 10).view(-1, 1, 1, 1)
"""Points between the source and x_t, as shares of the way."""


@dataclass(frozen=True)
class SQBA(Halving):
    """SQBA, with a start, a search, an estimate and a surrogate."""

    queries: Count = 10
    shortest: NonNegative = 1.0
    """Length of a step in l2 below which estimates replace the surrogate."""
    sign_images: CountFrom0 = 100
    """Maximum number of images of signs that are tried as a start."""
    surrogate: OptionalSurrogate = None

    def first_point(self, problem: Problem) -> Asking[Iterate | None]:
        image = problem.source
        for _ in range(0 if problem.start_image is not None else self.sign_images):
            signs = self._signs(problem, image[None])
            if signs is None:
                break
            before, image = image, problem.within_mask(signs[0].clamp(0, 1))
            if torch.equal(image, before):
                break
            found = yield from first_adversarial(image[None], START)
            if found is not None:
                return found
        return (yield from super().first_point(problem))

    def descend(self, problem: Problem, iterate: Iterate, first: int = 1) -> Asking[Stop]:
        project, step = self.projection(problem), math.inf
        while step >= self.shortest and first <= self.iterations:
            delta = FIRST_DELTA if first == 1 else 0.01 * iterate.distance
            direction = yield from self._guided(problem, iterate, delta)
            if direction is None:
                break
            length = iterate.distance / math.sqrt(first)
            points = halved(iterate.point, direction * length, self.halvings)
            moved = yield from first_adversarial(points, "step")
            if moved is None:
                break
            step = float(torch.linalg.vector_norm(moved.point - iterate.point))
            iterate = yield from project(inward(problem.source, moved, problem.norm))
            problem.accept(iterate)
            first += 1
        return (yield from super().descend(problem, iterate, first))

    def _guided(self, problem: Problem, iterate: Iterate, delta: float) -> Asking[Tensor | None]:
        """Return the surrogate's direction at x_t, or None if it has none."""
        away = iterate.point - problem.source
        signs = self._signs(problem, problem.source + SHARES.to(away) * away)
        if signs is None:
            return None
        points = (iterate.point + 2 * delta * signs).clamp_(0, 1)
        distances = torch.linalg.vector_norm((points - problem.source).flatten(1), dim=1)
        order = distances.argsort(stable=True)
        answers = yield Ask(points[order], until=Until.ADVERSARIAL, phase=PHASE)
        row = len(answers) - 1 if answers.adversarial[-1] else 0
        return unit((iterate.point + delta * signs[order[row]]).clamp_(0, 1) - iterate.point)

    def _signs(self, problem: Problem, points: Tensor) -> Tensor | None:
        """Return the signs of the gradient at each point, or None if there is no gradient."""
        if self.surrogate is None:
            return None
        total = torch.zeros_like(points)
        for found in self.surrogate.margins(problem, points):
            total += torch.nan_to_num(unit_rows(found.gradients))
        return total.sign() if bool(total.any()) else None
