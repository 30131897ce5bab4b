"""Inward: a start on the cheap side.

A large perturbation is adversarial at once, for the price of one cheap answer; then inward, to the
boundary on its ray. Growing noise from the source costs a flagged answer for every level instead.

1. Rays are random images of low frequencies, below one cut after another: which kind is near is a
   property of the model, so several are tried and the nearest is kept. One may be given, a
   surrogate's gradient: it comes second, and the last one is left out for it.
2. The first ray is searched by its radius in steps of a tenth, at the least expected cost. Another
   is asked once, a step nearer than the best so far: if that is flagged it is dropped, and else it
   is searched from there. So a ray that is no better costs one flagged answer; and the more that
   costs, the fewer are tried.
3. The nearest is searched once more, to a hundredth.
4. Where no ray is adversarial at its far end (the model takes such noise for the source class)
   growing noise is what is left. From c* = `DEAR` on white, black and the image's inverse come
   before it: its many flagged answers buy a nearer start, and are then too dear.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..core.ask import Ask, Asking, Iterate, first_adversarial
from ..core.problem import Problem
from ..core.ranges import MAX_VALUE, check, whole
from ..engine.mixtures import Mixture
from .overshoot import limit_ratio
from .priors import Spectrum
from .registry import register
from .searches import narrow, optimal_rule
from .starts import PHASE, GrowingNoise, Start

FARTHEST_RADIUS, NEAREST_RADIUS = 0.35, 0.005
"""Radii of the first search, per pixel."""
RADIUS_STEP = 0.9
LAST_BINS = 12
"""Of the last step, in the end."""
RAY_SPECTRA = tuple(Spectrum(cut, grey=1 / 3) for cut in (28, 56, 14, 8, 112))
DEAR = 10.0
"""c* from which on growing noise is too dear to be tried first."""
SMOOTH = 14.0
"""A ray of frequencies below this is smooth."""


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


class Nearest(NamedTuple):
    """Where the nearest ray meets the boundary."""

    iterate: Iterate
    smooth: bool | None
    """Whether the ray was smooth, which says what the model looks at; None for another kind."""
    given: bool = False
    """Whether it is the ray that was given."""


@register(Start)
@dataclass(frozen=True)
class Inward:
    """From a large low-frequency perturbation inward, the nearest of several."""

    tries: int = 12
    """Rays at c* = 1 and below; of dearer ones a (1 + log10 c*)-th, and 2 at least."""

    def __post_init__(self) -> None:
        check(self, tries=whole(1, MAX_VALUE))

    tolerance = 1 - RADIUS_STEP ** (1 / LAST_BINS)
    """How near to the boundary the start is, as a share of its distance."""

    def __call__(self, problem: Problem) -> Asking[Iterate | None]:
        """The nearest boundary point of several rays."""
        nearest = yield from self.nearest(problem)
        return None if nearest is None else nearest.iterate

    def nearest(self, problem: Problem, given: Tensor | None = None) -> Asking[Nearest | None]:
        """The same, with the kind of the ray; `given` is the direction of one more."""
        ratio = limit_ratio(problem.prices.ratio)
        shape, scale = tuple(problem.source.shape), math.sqrt(problem.dimension)
        best: tuple[Iterate, Tensor, float] | None = None
        smooth: bool | None = None
        kept: Tensor | None = None
        tries = max(min(self.tries, 2), math.ceil(self.tries / (1 + max(0.0, math.log10(ratio)))))
        for number in range(tries):
            place = number if given is None or number == 0 else number - 1
            spectrum = RAY_SPECTRA[place % len(RAY_SPECTRA)]
            if given is not None and number == 1:
                way = given
            else:
                drawing = spectrum.begin(problem)
                noise = problem.noise("inward", place, 1, drawing.shape)
                way = drawing(noise[0:1], 1.0).view(shape)
            far = FARTHEST_RADIUS * scale if best is None else best[2] * RADIUS_STEP
            point = Mixture(problem.source, way, far).point()
            answers = yield Ask(point[None], phase=PHASE)
            if not answers.adversarial[0]:
                continue
            start = Iterate(point, float(answers.distances[0]))
            best = yield from _search_ray(problem, ratio, way, start, far, NEAREST_RADIUS * scale)
            kept, smooth = way, spectrum.cut <= SMOOTH if way is not given else None
        if best is None:
            best = yield from _from_afar(problem, ratio)
        if best is None:
            return None
        iterate, way, radius = best
        ray = Ray(problem.source, way, iterate, radius, radius * RADIUS_STEP)
        iterate, _ = yield from narrow(ray, LAST_BINS, optimal_rule(ratio, LAST_BINS), PHASE)
        return Nearest(iterate, smooth, given is not None and kept is given)


def _from_afar(problem: Problem, ratio: float) -> Asking[tuple[Iterate, Tensor, float] | None]:
    """Inward from an image that has nothing to do with rays."""
    source = problem.source
    start = None
    if ratio >= DEAR:
        extremes = torch.stack([torch.ones_like(source), torch.zeros_like(source), 1 - source])
        start = yield from first_adversarial(extremes, PHASE)
    if start is None:
        start = yield from GrowingNoise()(problem)
    if start is None:
        return None
    way, near = start.point - source, NEAREST_RADIUS / FARTHEST_RADIUS
    return (yield from _search_ray(problem, ratio, way, start, 1.0, near))


def _search_ray(
    problem: Problem, ratio: float, way: Tensor, start: Iterate, far: float, near: float
) -> Asking[tuple[Iterate, Tensor, float]]:
    """The last adversarial point of a ray, to one step, with its radius."""
    near = min(near, far / 2)
    count = math.ceil(math.log(near / far) / math.log(RADIUS_STEP))
    ray = Ray(problem.source, way, start, far, near)
    iterate, place = yield from narrow(ray, count, optimal_rule(ratio, count), PHASE)
    return iterate, way, ray.radius(place / count)
