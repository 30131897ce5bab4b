"""A start in ℓ∞ on the cheap side, as inward.py has one in ℓ2.

1. Rays are profiles (profiles.py) of noise below one frequency after another. The first that is
   adversarial at a large radius is searched by ratios of a tenth; another is asked once, a step
   nearer than the best so far, and dropped if that is flagged.
2. If none is: radius 1, up to `starts` profiles.
3. The nearest is searched once more, to a hundredth.
4. A given start is clipped to ever smaller balls, and what is left is the profile.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from ..core.ask import Ask, Asking, Iterate, first_adversarial
from ..core.problem import Problem
from ..core.ranges import MAX_VALUE, above, check, whole
from .inward import FARTHEST_RADIUS, NEAREST_RADIUS, RADIUS_STEP, SMOOTH, tries_at
from .overshoot import limit_ratio
from .paths import Box
from .priors import Spectrum
from .profiles import FirstProfile, Profile, ProfileRay, moved
from .registry import register
from .searches import narrow, optimal_rule
from .starts import PHASE

CUTS = (28.0, 56.0, 14.0, 8.0, 4.0, 112.0)
"""Kinds of rays, by their frequencies."""
SETTLED = 3
"""From this ray on every second is of the kind of the nearest."""
LAST_BINS = 12
"""Of the last step, in the end."""
GIVEN_BINS = 200
"""Of the way inward from a given start."""


@register(FirstProfile)
@dataclass(frozen=True)
class ProfileStart:
    """The nearest of several profiles of noise."""

    tries: int = 12
    """Rays at c* = 1 and below; of dearer ones fewer, as `Inward` has them."""
    spread: float = 1.0
    """Of the numbers of the profile."""
    starts: int = 1000
    """Profiles that are tried at radius 1."""

    tolerance = 1 - RADIUS_STEP ** (1 / LAST_BINS)
    """How near to the boundary the start is, as a share of its radius."""

    def __post_init__(self) -> None:
        check(self, tries=whole(1, MAX_VALUE), spread=above(0, MAX_VALUE))
        check(self, starts=whole(1, MAX_VALUE))

    def __call__(self, problem: Problem) -> Asking[Profile | None]:
        """A first boundary point."""
        ratio = limit_ratio(problem.prices.ratio)
        if problem.start_image is not None:
            return (yield from _from_given(problem, problem.start_image, ratio))
        best, kind, tries = None, CUTS[0], tries_at(self.tries, ratio)
        for place in range(tries + self.starts):
            if best is not None and place >= tries:
                break
            like_best = best is not None and place >= SETTLED and place % 2
            cut = kind if like_best else CUTS[place % len(CUTS)]
            if best is not None:
                far = best.radius * RADIUS_STEP
            else:
                far = FARTHEST_RADIUS if place < tries else 1.0
            found = yield from _inward(problem, ratio, self._noise(problem, place, cut), far)
            if found is not None:
                best, kind = found, cut
        if best is None:
            return None
        ray = ProfileRay(
            problem.source, best.values, best.iterate, best.radius, best.radius * RADIUS_STEP
        )
        iterate, last = yield from narrow(ray, LAST_BINS, optimal_rule(ratio, LAST_BINS), PHASE)
        return Profile(iterate, best.values, ray.radius(last / LAST_BINS), kind <= SMOOTH)

    def _noise(self, problem: Problem, place: int, cut: float) -> Tensor:
        """A profile of noise below a frequency."""
        drawing = Spectrum(cut, grey=1 / 3).begin(problem)
        rows = problem.noise("inward", place, 1, drawing.shape)[0:1]
        length = self.spread * math.sqrt(problem.dimension)
        return drawing(rows, length).view(problem.source.shape)


def _inward(problem: Problem, ratio: float, values: Tensor, far: float) -> Asking[Profile | None]:
    """A profile from a radius inward, to a step; None if it is flagged at first."""
    point = moved(problem.source, values, far)
    answers = yield Ask(point[None], phase=PHASE)
    if not answers.adversarial[0]:
        return None
    start = Iterate(point, float(answers.distances[0]))
    near = min(NEAREST_RADIUS, far / 2)
    count = math.ceil(math.log(near / far) / math.log(RADIUS_STEP))
    ray = ProfileRay(problem.source, values, start, far, near)
    iterate, place = yield from narrow(ray, count, optimal_rule(ratio, count), PHASE)
    return Profile(iterate, values, ray.radius(place / count))


def _from_given(problem: Problem, image: Tensor, ratio: float) -> Asking[Profile | None]:
    """From an image, clipped to smaller and smaller balls around the source."""
    start = yield from first_adversarial(image[None], PHASE)
    if start is None:
        return None
    path = Box(problem.source, start)
    iterate, _ = yield from narrow(path, GIVEN_BINS, optimal_rule(ratio, GIVEN_BINS), PHASE)
    radius = max(iterate.distance, problem.resolution)
    return Profile(iterate, (iterate.point - problem.source) / radius, radius)
