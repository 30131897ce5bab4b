"""Inward: a start on the cheap side.

A large perturbation is adversarial at once, for the price of one cheap answer; then inward, to the
boundary on its ray. Growing noise from the source costs a flagged answer for every level instead.

1. Rays are random images of low frequencies, below one cut after another: which kind is near is a
   property of the model, so several are tried and the nearest is kept.
2. The first ray is searched by its radius in steps of a tenth, at the least expected cost. Another
   is asked once, a step nearer than the best so far: if that is flagged it is dropped, and else it
   is searched from there. So a ray that is no better costs one flagged answer; and the more that
   costs, the fewer are tried.
3. The nearest is searched once more, to a hundredth.
4. Where no ray is adversarial at its far end, growing noise is what is left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from ..core.ask import Ask, Asking, Iterate
from ..core.problem import Problem
from ..core.ranges import MANY, check, whole
from ..engine.mixtures import Mixture
from .overshoot import planned
from .priors import Spectrum
from .registry import register
from .searches import narrowed, optimal_rule
from .starts import PHASE, GrowingNoise, Start

FAR, NEAR = 0.35, 0.005
"""Radii of the first search, per pixel."""
STEP = 0.9
CELLS = 12
"""Of the last step, in the end."""
KINDS = tuple(Spectrum(cut, grey=1 / 3) for cut in (28, 56, 14, 112))


class Ray:
    """From far to near along a ray from the source, equal steps being equal ratios of radii."""

    def __init__(
        self, source: Tensor, way: Tensor, start: Iterate, far: float, near: float
    ) -> None:
        self.start, self.length = start, start.distance
        self._source, self._way, self._far, self._near = source, way, far, near

    def radius(self, theta: float) -> float:
        """The radius at theta."""
        return self._far * math.pow(self._near / self._far, theta)

    def __call__(self, theta: float) -> Tensor:
        """T(theta)."""
        return self.mixture(theta).point()

    def mixture(self, theta: float) -> Mixture:
        """The terms of T(theta)."""
        return Mixture(self._source, self._way, self.radius(theta))


@register(Start)
@dataclass(frozen=True)
class Inward:
    """From a large low-frequency perturbation inward, the nearest of several."""

    tries: int = 12
    """Rays at c* = 1 and below; of dearer ones a (1 + log10 c*)-th, and 2 at least."""

    def __post_init__(self) -> None:
        check(self, tries=whole(1, MANY))

    tolerance = 1 - STEP ** (1 / CELLS)
    """How near to the boundary the start is, as a share of its distance."""

    def __call__(self, problem: Problem) -> Asking[Iterate | None]:
        """The nearest boundary point of several rays."""
        ratio = planned(problem.prices.ratio)
        shape, scale = tuple(problem.source.shape), math.sqrt(problem.dimension)
        best: tuple[Iterate, Tensor, float] | None = None
        tries = max(min(self.tries, 2), math.ceil(self.tries / (1 + max(0.0, math.log10(ratio)))))
        for number in range(tries):
            drawing = KINDS[number % len(KINDS)].begin(problem)
            noise = problem.noise("inward", number, 1, drawing.shape, block=1)
            way = drawing(noise[0:1], 1.0).view(shape)
            far = FAR * scale if best is None else best[2] * STEP
            point = Mixture(problem.source, way, far).point()
            answers = yield Ask(point[None], phase=PHASE)
            if not answers.adversarial[0]:
                continue
            start = Iterate(point, float(answers.distances[0]))
            best = yield from _searched(problem, ratio, way, start, far, NEAR * scale)
        if best is None:
            best = yield from self._grown(problem, ratio)
        if best is None:
            return None
        found, way, radius = best
        ray = Ray(problem.source, way, found, radius, radius * STEP)
        return (yield from narrowed(ray, CELLS, optimal_rule(ratio, CELLS), PHASE))[0]

    def _grown(
        self, problem: Problem, ratio: float
    ) -> Asking[tuple[Iterate, Tensor, float] | None]:
        start = yield from GrowingNoise()(problem)
        if start is None:
            return None
        way = start.point - problem.source
        return (yield from _searched(problem, ratio, way, start, 1.0, NEAR / FAR))


def _searched(
    problem: Problem, ratio: float, way: Tensor, start: Iterate, far: float, near: float
) -> Asking[tuple[Iterate, Tensor, float]]:
    """The last adversarial point of a ray, to one step, with its radius."""
    near = min(near, far / 2)
    count = math.ceil(math.log(near / far) / math.log(STEP))
    ray = Ray(problem.source, way, start, far, near)
    found, cell = yield from narrowed(ray, count, optimal_rule(ratio, count), PHASE)
    return found, way, ray.radius(cell / count)
