"""RayStart: a start on the adversarial side.

A large perturbation is adversarial at once, for the price of one answer that is not flagged. A
search then leads inward to the boundary on its ray. Noise that grows from the source costs a
flagged answer for every level instead.

1. The first rays have patterns of three kinds (patterns.py): fine rings, checkers, and coarse rings
   in colour. Later rays are changes of the closest ray so far: half of it, a blend with a fresh
   pattern of its kind, and its middle.
2. The first ray is searched inward in steps of a tenth of its radius, at the least expected cost.
   Each later ray is queried once, a step closer than the best so far. If flagged there, the ray is
   dropped; otherwise it is searched from there. So a ray that is no better costs one flagged
   answer. The more expensive flagged answers are, the fewer rays are tried.
3. The last step of the closest ray is searched again, to a hundredth of its radius.
4. If the first ray of every kind is flagged at its far end (the model takes such patterns for the
   source class), white, black and the inverse of the image are queried, in order of distance, and
   then growing noise. The other rays follow, within the distance found.
5. Rays from a surrogate (transfer.py) and the first patterns take turns. If a surrogate's ray is
   close, no changes are tried; if it is the closest but not close, a few are. If it is the closest
   and flagged answers are cheap, its low frequencies alone are queried once, to learn whether the
   model responds to them. If nothing says whether the surrogate knows the image, one of its rays
   comes last.
6. If no turn from a start makes progress, some new rays are queried once each, a step closer
   (`find_closer`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from ...core.ask import Ask, Asking, Iterate, first_adversarial
from ...core.problem import Problem
from ...engine.points import LinearPoint
from ...parts.paths import Path
from ...parts.registry import Checked, Count, register
from ...parts.searches import narrow, optimal_rule
from ...parts.starts import PHASE, GrowingNoise, Start
from ...parts.subspaces import Dct
from ...parts.vectors import unit
from .overshoot_belief import limit_ratio
from .patterns import Pattern, blend, half, spotlight

LARGEST_RADIUS, SMALLEST_RADIUS = 0.35, 0.005
"""Range of radii in the first search, per pixel value."""
SMALLEST_GIVEN = 0.001
"""The end of that range for rays that a surrogate gives."""
CLOSE = 0.012
"""Maximum radius, per pixel value, of a given ray that ends the start: others cost more than they
gain."""
SMOOTH_RADIUS, LOW_FACTOR = 2.0, 4
"""Radius, relative to that of a given ray, at which its low frequencies are queried, and the factor
by which these are fewer per side."""
RADIUS_STEP = 0.9
LAST_BINS = 12
"""Number of bins into which the last step is divided."""
KINDS = (
    Pattern(rings=True, shortest=2.2, longest=2.8, contrast=1.0),
    Pattern(rings=False, shortest=2.5, longest=4.0, contrast=0.0),
    Pattern(rings=True, shortest=6.0, longest=14.0, contrast=0.5, coloured=True),
)
"""The kinds of the first rays, in order."""
SMOOTH = 6.0
"""Minimum period of a smooth pattern."""
PATIENCE = 3
"""Number of changes of a given ray that may fail in a row; the turns that follow gain more."""
EXPENSIVE = 10.0
"""Minimum c* at which flagged answers count as expensive."""


class RadialPath(Path):
    """A path inward along a ray from the source; equal steps are equal ratios of radii."""

    def __init__(
        self, source: Tensor, way: Tensor, start: Iterate, far: float, near: float
    ) -> None:
        self.start, self.length = start, start.distance
        self._source, self._way, self._far, self._near = source, way, far, near

    def radius(self, theta: float) -> float:
        return self._far * math.pow(self._near / self._far, theta)

    def linear_point(self, theta: float) -> LinearPoint:
        return LinearPoint(self._source, self._way, self.radius(theta))


class RayHit(NamedTuple):
    """The last adversarial point of a ray, to within one step."""

    iterate: Iterate
    way: Tensor
    radius: float
    smooth: bool | None = None  # whether the model responds to low frequencies; None if unknown
    kind: int = 0  # the kind of the ray, or of the ray that it is a change of
    given: bool = False  # whether this is the given ray


@register(Start)
class RayStart(Checked):
    """An inward search from large patterns that keeps the closest point."""

    tries: Count = 24
    """Number of rays for c* up to 1; above, it is divided by 1 + log10 c*, but is at least 2."""

    tolerance = 1 - RADIUS_STEP ** (1 / LAST_BINS)
    """Maximum distance to the boundary, as a share of the distance to the source."""

    def __call__(self, problem: Problem) -> Asking[Iterate | None]:
        hit = yield from self.find(problem)
        return None if hit is None else hit.iterate

    def find(
        self, problem: Problem, given: Tensor | None = None, doubted: bool = False
    ) -> Asking[RayHit | None]:
        """Return the closest hit among several rays. Rays `given` and the first patterns take
        turns. If given rays are doubted, only one of them is tried, as the last."""
        ratio = limit_ratio(problem.prices.ratio)
        tries = tries_at(ratio, self.tries)
        best, first = None, 0
        if given is not None and doubted:
            tries -= 1
        elif given is not None:
            for way in given[: (tries + 1) // 2]:
                best = yield from _try_given(problem, ratio, way[None], best)
                tries -= 1
                if first < len(KINDS) and not _is_close(problem, best):
                    best = yield from _try_rays(problem, ratio, range(first, first + 1), best=best)
                    first += 1
            if best is not None and best.given and ratio < EXPENSIVE:
                best = best._replace(smooth=(yield from _is_smooth(problem, best)))
        if not _is_close(problem, best):
            tries = max(tries, first + 1)
            early = range(first, min(tries, len(KINDS)))
            best = yield from _try_rays(problem, ratio, early, best=best)
            others = range(max(first, len(KINDS)), tries)
            if best is None:
                best = yield from _find_without_rays(problem, ratio, others)
            else:
                best = yield from _try_rays(problem, ratio, others, best=best)
        if given is not None and doubted and best is not None:
            best = yield from _try_given(problem, ratio, given[:1], best)
        if best is None:
            return None
        return best._replace(iterate=(yield from _narrow(problem, ratio, best)))

    def find_closer(
        self, problem: Problem, iterate: Iterate, number: int
    ) -> Asking[Iterate | None]:
        """Return a closer point than `iterate` on a new ray, or None; `number` counts the calls."""
        ratio = limit_ratio(problem.prices.ratio)
        first = max(self.tries, len(KINDS)) + number * self.tries
        for ray in range(first, first + self.tries):
            rays = range(ray, ray + 1)
            found = yield from _try_rays(problem, ratio, rays, within=iterate.distance)
            if found is not None:
                return (yield from _narrow(problem, ratio, found))
        return None


def tries_at(ratio: float, most: int) -> int:
    """Return the number of rays to try at a c*."""
    return max(min(most, 2), math.ceil(most / (1 + max(0.0, math.log10(ratio)))))


def _try_rays(
    problem: Problem,
    ratio: float,
    numbers: range,
    *,
    within: float = math.inf,
    best: RayHit | None = None,
) -> Asking[RayHit | None]:
    """Return the closest hit among the rays that are adversarial a step closer than `within`, or
    than the `best` so far."""
    scale, failures = math.sqrt(problem.dimension), 0
    for number in numbers:
        if best is not None and best.given and failures == PATIENCE:
            break
        far = min(LARGEST_RADIUS * scale, within * RADIUS_STEP)
        if best is None or number < len(KINDS):
            kind = number % len(KINDS)
            way = KINDS[kind].ray(problem, number)
            smooth: bool | None = KINDS[kind].shortest >= SMOOTH or None
            given = False
        else:
            way = _changed(problem, best, number)
            kind, smooth, given = best.kind, best.smooth, best.given
        if best is not None:
            far = best.radius * RADIUS_STEP
        found = yield from try_ray(problem, ratio, way, far, SMALLEST_RADIUS * scale)
        failures += 1
        if found is not None:
            best, failures = found._replace(kind=kind, smooth=smooth, given=given), 0
    return best


def _changed(problem: Problem, best: RayHit, number: int) -> Tensor:
    """Return a change of the best ray."""
    change = number % 3
    if change == 0:
        return half(problem, best.way, number)
    if change == 1:
        return blend(best.way, KINDS[best.kind].ray(problem, number))
    return spotlight(problem, best.way, number)


def _is_close(problem: Problem, best: RayHit | None) -> bool:
    return best is not None and best.radius <= CLOSE * math.sqrt(problem.dimension)


def _try_given(
    problem: Problem, ratio: float, ways: Tensor, best: RayHit | None = None
) -> Asking[RayHit | None]:
    """Return the closest hit among given rays and the `best` so far."""
    scale = math.sqrt(problem.dimension)
    for way in ways:
        far = LARGEST_RADIUS * scale if best is None else best.radius * RADIUS_STEP
        found = yield from try_ray(problem, ratio, way, far, SMALLEST_GIVEN * scale)
        if found is not None:
            best = found._replace(given=True)
    return best


def _is_smooth(problem: Problem, hit: RayHit) -> Asking[bool]:
    """Return whether the low frequencies of a ray alone are adversarial at a larger radius."""
    low = Dct(LOW_FACTOR)
    smooth = low.expand(low.project(hit.way[None]), tuple(hit.way.shape))[0]
    way = unit(problem.only_mask(smooth))
    point = LinearPoint(problem.source, way, SMOOTH_RADIUS * hit.radius).point()
    answers = yield Ask(point[None], phase=PHASE)
    return bool(answers.adversarial[0])


def try_ray(
    problem: Problem, ratio: float, way: Tensor, far: float, near: float
) -> Asking[RayHit | None]:
    """Return the hit on a ray; None if the ray is flagged at its far end."""
    point = LinearPoint(problem.source, way, far).point()
    answers = yield Ask(point[None], phase=PHASE)
    if not answers.adversarial[0]:
        return None
    start = Iterate(point, float(answers.distances[0]))
    return (yield from _search_ray(problem, ratio, way, start, far, near))


def _find_without_rays(problem: Problem, ratio: float, numbers: range) -> Asking[RayHit | None]:
    """Find another start (rule 4); return the hit on a closer ray, else on the ray to the start."""
    source = problem.source
    extremes = torch.stack([torch.ones_like(source), torch.zeros_like(source), 1 - source])
    extremes = problem.within_mask(extremes)
    distances = torch.linalg.vector_norm((extremes - source).flatten(1), dim=1)
    start = yield from first_adversarial(extremes[distances.argsort(stable=True)], PHASE)
    if start is None:
        start = yield from GrowingNoise()(problem)
    if start is None:
        return None
    found = yield from _try_rays(problem, ratio, numbers, within=start.distance)
    if found is not None:
        return found
    return (yield from _search_towards(problem, ratio, start))


def _search_towards(problem: Problem, ratio: float, start: Iterate) -> Asking[RayHit]:
    """Search the ray from the source to an adversarial image."""
    far = start.distance
    way = (problem.within_mask(start.point) - problem.source) / far
    near = far * SMALLEST_RADIUS / LARGEST_RADIUS
    return (yield from _search_ray(problem, ratio, way, start, far, near))


def _search_ray(
    problem: Problem, ratio: float, way: Tensor, start: Iterate, far: float, near: float
) -> Asking[RayHit]:
    near = min(near, far / 2)
    count = math.ceil(math.log(near / far) / math.log(RADIUS_STEP))
    ray = RadialPath(problem.source, way, start, far, near)
    iterate, place = yield from narrow(ray, count, optimal_rule(ratio, count), PHASE)
    return RayHit(iterate, way, ray.radius(place / count))


def _narrow(problem: Problem, ratio: float, hit: RayHit) -> Asking[Iterate]:
    """Search the last step of a ray again, to a hundredth of its radius."""
    near = hit.radius * RADIUS_STEP
    ray = RadialPath(problem.source, hit.way, hit.iterate, hit.radius, near)
    iterate, _ = yield from narrow(ray, LAST_BINS, optimal_rule(ratio, LAST_BINS), PHASE)
    return iterate
