"""RayStart: a start on the cheap side.

A large perturbation is adversarial at once, for the price of one cheap answer; then inward, to the
boundary on its ray. Growing noise from the source costs a flagged answer for every level instead.

1. Rays are random images of low frequencies, below one cut after another: which kind is near is a
   property of the model, so several are tried and the nearest is kept; after three the next is of
   the kind that won. One may be given, a
   surrogate's gradient: it comes second, and the last one is left out for it.
2. The first ray is searched by its radius in steps of a tenth, at the least expected cost. Another
   is asked once, a step nearer than the best so far: if that is flagged it is dropped, and else it
   is searched from there. So a ray that is no better costs one flagged answer; and the more that
   costs, the fewer are tried.
3. The nearest is searched once more, to a hundredth.
4. Where no ray is adversarial at its far end (the model takes such noise for the source class)
   growing noise is what is left. From c* = `DEAR` on white, black and the image's inverse come
   before it, the nearest first: its many flagged answers buy a nearer start, and are then too
   dear. From such a start the kinds of rays that were not tried yet are. From `VERY_DEAR` on, where
   a start has a few flagged answers to spend, the first ray leads to an image of uniform noise,
   which is seldom flagged.
5. A start from which no turn leads on (`nearer`): some fresh rays, each asked once, a step nearer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ...core.ask import Ask, Asking, Iterate, first_adversarial
from ...core.problem import Problem
from ...core.validation import MAX_VALUE, check, whole
from ...engine.points import LinearPoint
from ...parts.priors import Spectrum
from ...parts.registry import register
from ...parts.searches import narrow, optimal_rule
from ...parts.starts import PHASE, GrowingNoise, NoiseImage, Start
from ...parts.subspaces import drawing_for
from .overshoot import limit_ratio

FARTHEST_RADIUS, NEAREST_RADIUS = 0.35, 0.005
"""Radii of the first search, per pixel."""
RADIUS_STEP = 0.9
LAST_BINS = 12
"""Of the last step, in the end."""
ROUGH_NEXT, SMOOTH_NEXT = (
    tuple(Spectrum(cut, grey=1 / 3) for cut in cuts)
    for cuts in ((28, 56, 14, 112, 8), (28, 56, 14, 8, 112))
)
"""Kinds of rays, by whether the nearest so far is smooth."""
DEAR = 10.0
"""c* from which on growing noise is too dear to be tried first."""
VERY_DEAR = 300.0
"""c* from which on the first ray leads to an image of noise."""
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
        return self.linear_point(theta).point()

    def linear_point(self, theta: float) -> LinearPoint:
        """The terms of T(theta)."""
        return LinearPoint(self._source, self._way, self.radius(theta))


class Nearest(NamedTuple):
    """Where the nearest ray meets the boundary."""

    iterate: Iterate
    smooth: bool | None
    """Whether the ray was smooth, which says what the model looks at; None for another kind."""
    given: bool = False
    """Whether it is the ray that was given."""


@register(Start)
@dataclass(frozen=True)
class RayStart:
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
        tries = self._tries(ratio)
        best = yield from _try_rays(problem, ratio, range(tries), given=given)
        if best is None:
            best = yield from _from_afar(problem, ratio, range(tries, len(ROUGH_NEXT)))
        if best is None:
            return None
        iterate = yield from _narrow(problem, ratio, best)
        return Nearest(iterate, best.smooth, best.given)

    def nearer(self, problem: Problem, iterate: Iterate, number: int) -> Asking[Nearest | None]:
        """A nearer one than an iterate from which no turn leads on, if a fresh ray finds it;
        `number` counts the calls from 0."""
        ratio = limit_ratio(problem.prices.ratio)
        first = max(self.tries, len(ROUGH_NEXT)) + number * self.tries
        for fresh in range(first, first + self.tries):
            rays = range(fresh, fresh + 1)
            found = yield from _try_rays(problem, ratio, rays, within=iterate.distance)
            if found is not None:
                nearer = yield from _narrow(problem, ratio, found)
                return Nearest(nearer, found.smooth)
        return None

    def _tries(self, ratio: float) -> int:
        least = min(self.tries, 2)
        return max(least, math.ceil(self.tries / (1 + max(0.0, math.log10(ratio)))))


class _Found(NamedTuple):
    """The last adversarial point of a ray, to one step."""

    iterate: Iterate
    way: Tensor
    radius: float
    smooth: bool | None = None
    given: bool = False


def _try_rays(
    problem: Problem,
    ratio: float,
    numbers: range,
    *,
    within: float = math.inf,
    given: Tensor | None = None,
) -> Asking[_Found | None]:
    """The nearest of some rays, if it is adversarial a step within a distance."""
    shape, scale = tuple(problem.source.shape), math.sqrt(problem.dimension)
    best = None
    for number in numbers:
        if number == 0 and ratio >= VERY_DEAR:
            start = yield from NoiseImage(tries=1)(problem)
            if start is not None:
                found = yield from _search_from(problem, ratio, start)
                best = found._replace(smooth=False)
            continue
        place = number if given is None or number == 0 else number - 1
        spectrum = _kind(place, best)
        if is_given := given is not None and number == 1:
            way = given
        else:
            drawing = drawing_for(problem, spectrum)
            noise = problem.noise("inward", place, 1, drawing.shape)
            way = drawing(noise[0:1], 1.0).view(shape)
        far = min(FARTHEST_RADIUS * scale, within * RADIUS_STEP)
        if best is not None:
            far = best.radius * RADIUS_STEP
        point = LinearPoint(problem.source, way, far).point()
        answers = yield Ask(point[None], phase=PHASE)
        if not answers.adversarial[0]:
            continue
        start = Iterate(point, float(answers.distances[0]))
        found = yield from _search_ray(problem, ratio, way, start, far, NEAREST_RADIUS * scale)
        smooth = None if is_given else spectrum.cut <= SMOOTH
        best = found._replace(smooth=smooth, given=is_given)
    return best


def _kind(place: int, best: _Found | None) -> Spectrum:
    """What a ray is drawn from: one kind after another, and at last that which is like the best."""
    kinds = SMOOTH_NEXT if best is not None and best.smooth else ROUGH_NEXT
    return kinds[place % len(kinds)]


def _from_afar(problem: Problem, ratio: float, numbers: range) -> Asking[_Found | None]:
    """RayStart from an image that has nothing to do with rays, or along one of the rays that were
    not tried yet."""
    source = problem.source
    start = None
    if ratio >= DEAR:
        extremes = torch.stack([torch.ones_like(source), torch.zeros_like(source), 1 - source])
        extremes = problem.within_mask(extremes)
        apart = torch.linalg.vector_norm((extremes - source).flatten(1), dim=1)
        start = yield from first_adversarial(extremes[apart.argsort(stable=True)], PHASE)
    if start is None:
        start = yield from GrowingNoise()(problem)
    if start is None:
        return None
    found = yield from _try_rays(problem, ratio, numbers, within=start.distance)
    if found is not None:
        return found
    return (yield from _search_from(problem, ratio, start))


def _search_from(problem: Problem, ratio: float, start: Iterate) -> Asking[_Found]:
    """The same of the ray that leads to an image."""
    far = start.distance
    way = (problem.within_mask(start.point) - problem.source) / far
    near = far * NEAREST_RADIUS / FARTHEST_RADIUS
    return (yield from _search_ray(problem, ratio, way, start, far, near))


def _narrow(problem: Problem, ratio: float, found: _Found) -> Asking[Iterate]:
    """The last step of a ray once more, to a hundredth."""
    near = found.radius * RADIUS_STEP
    ray = Ray(problem.source, found.way, found.iterate, found.radius, near)
    iterate, _ = yield from narrow(ray, LAST_BINS, optimal_rule(ratio, LAST_BINS), PHASE)
    return iterate


def _search_ray(
    problem: Problem, ratio: float, way: Tensor, start: Iterate, far: float, near: float
) -> Asking[_Found]:
    """The last adversarial point of a ray, to one step, with its radius."""
    near = min(near, far / 2)
    count = math.ceil(math.log(near / far) / math.log(RADIUS_STEP))
    ray = Ray(problem.source, way, start, far, near)
    iterate, place = yield from narrow(ray, count, optimal_rule(ratio, count), PHASE)
    return _Found(iterate, way, ray.radius(place / count))
