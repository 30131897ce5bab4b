"""Starts: first adversarial points. Every failed try costs a flagged answer, so tries are limited.

A problem's start image (`Problem.start_image`, `starts` in `tollbox.run`) takes precedence over all
of them; a targeted run needs a start image of the target class, or a `Pool`. A start returns a
point or None.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from ..core.ask import Ask, Asking, Iterate, Until, first_adversarial
from ..core.problem import Problem
from ..errors import InputError
from .paths import Segment
from .registry import Checked, Count, InnerFraction, Positive, register
from .searches import BinarySearch, Search
from .vectors import LazyRows

PHASE = "start"


class Start(Protocol):
    """A part that finds an adversarial point to start from.

    If that point is at the boundary, the part has a `tolerance`: the maximum distance to the
    boundary, as a share of the distance to the source. If it may find a point of a target class, it
    has `finds_targets = True`.
    """

    def __call__(self, problem: Problem, /) -> Asking[Iterate | None]:
        """Return the point, or None."""


def find_start(problem: Problem, start: Start) -> Asking[Iterate | None]:
    """Return the problem's start image if it has one, otherwise the point that `start` finds;
    either is within the mask, as it was sent."""
    if problem.start_image is not None:
        return (yield from first_adversarial(problem.start_image[None], PHASE))
    found = yield from start(problem)
    return None if found is None else found._replace(point=problem.within_mask(found.point))


def tolerance_of(problem: Problem, start: Start) -> float | None:
    """Return the tolerance of the point from `find_start`; None if it is not at the boundary."""
    return None if problem.start_image is not None else getattr(start, "tolerance", None)


@register(Start)
class GrowingNoise(Checked):
    """The paper's start: noise of increasing strength until the label changes.

    A level is 0.02 in normalised pixels, which is 0.0045 in [0,1]. Above about level 250 the noise
    saturates the range, and each further level is another try of the same kind.
    """

    step: Positive = 0.0045
    levels: Count = 1000

    def __call__(self, problem: Problem) -> Asking[Iterate | None]:
        noise = problem.noise(PHASE, 0, self.levels)

        def make(first: int, last: int) -> Tensor:
            points = noise[first:last]
            if last - first == 1:  # the usual case, with as few kernel launches as possible
                points *= self.step * last
            else:
                levels = torch.arange(first + 1, last + 1, device=points.device).double()
                points *= (self.step * levels).to(points.dtype).view(-1, 1, 1, 1)
            return points.add_(problem.source).clamp_(0, 1)

        return first_adversarial(LazyRows(self.levels, make), PHASE)


@register(Start)
class NoiseImage(Checked):
    """Images of uniform noise until one is adversarial; the attack's search continues from it."""

    tries: Count = 10_000

    def __call__(self, problem: Problem) -> Asking[Iterate | None]:
        noise = problem.noise("uniform", 0, self.tries)

        def make(first: int, last: int) -> Tensor:
            # The normal distribution function turns standard normal numbers into uniform ones.
            levels: Tensor = torch.special.ndtr(noise[first:last])
            return levels.clamp_(0, 1)

        return first_adversarial(LazyRows(self.tries, make), PHASE)


@register(Start)
class UniformNoise(Checked):
    """HSJA's start: images of uniform noise until one is adversarial, blended with the source by
    binary search as far as the blend stays adversarial."""

    tries: Count = 10_000
    tau: InnerFraction = 1e-3
    """Tolerance as a share of the line to the source."""

    def __call__(self, problem: Problem) -> Asking[Iterate | None]:
        iterate = yield from NoiseImage(self.tries)(problem)
        if iterate is None:
            return None
        blend = BinarySearch(self.tau, relative=True, phase=PHASE)
        return (yield from blend(problem, Segment(problem.source, iterate)))


@dataclass(frozen=True, eq=False)
class Pool:
    """Images of other classes, in order of distance, until one is adversarial.

    `images` has shape (n, c, h, w) and values in [0,1]. `labels` are their classes, if known: then
    only those that meet the goal are tried.
    """

    images: Tensor
    labels: Tensor | None = None

    finds_targets = True

    def __call__(self, problem: Problem) -> Asking[Iterate | None]:
        if self.images.ndim != 4 or self.images.shape[1:] != problem.source.shape:
            raise InputError(
                f"the pool has shape {tuple(self.images.shape)}",
                expected=f"(n, c, h, w) with images of shape {tuple(problem.source.shape)}",
            )
        images = _on_device(self, problem.source.device, problem.source.dtype)
        allowed = np.ones(len(images), bool)
        if self.labels is not None:
            allowed = problem.is_adversarial(self.labels.cpu().numpy())
        if not allowed.any():
            return None
        images = problem.within_mask(images)
        distances = torch.linalg.vector_norm((images - problem.source).flatten(1), dim=1)
        refused = torch.from_numpy(~allowed).to(distances.device, non_blocking=True)
        order = distances.masked_fill_(refused, math.inf).argsort(stable=True)
        rows = LazyRows(
            int(allowed.sum()), lambda first, last: images.index_select(0, order[first:last])
        )
        return (yield from first_adversarial(rows, PHASE))


@lru_cache(maxsize=4)
def _on_device(pool: Pool, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Copy a pool's images to a device once for all problems."""
    return pool.images.to(device, dtype, non_blocking=True)


@register(Start)
class GaussianRays(Checked):
    """OPT's start: the best of `directions` rays, or else the first adversarial one of `tries`.

    A direction is queried far out, at x* + N(0, 1), clipped. If that is adversarial, it is queried
    at the smallest distance so far. If that is adversarial as well, its line to the source is
    searched. So a direction that is no better costs two queries, the second of which is flagged.
    """

    search: Search = field(default_factory=lambda: BinarySearch(1e-5))
    directions: Count = 100
    tries: Count = 1000

    tolerance = 1e-4
    """Upper bound on the tolerance of the searches in the presets."""

    def __call__(self, problem: Problem) -> Asking[Iterate | None]:
        noise = problem.noise(PHASE, 0, max(self.tries, self.directions))

        def make(first: int, last: int) -> Tensor:
            return noise[first:last].add_(problem.source).clamp_(0, 1)

        points = LazyRows(len(noise), make)
        answers = yield Ask(points, until=Until.ADVERSARIAL, phase=PHASE)
        row = len(answers) - 1
        if not answers.adversarial[row]:
            return None
        first = Iterate(points[row : row + 1][0], float(answers.distances[row]))
        best = yield from self.search(problem, Segment(problem.source, first))
        for following in range(row + 1, self.directions):
            far = make(following, following + 1)
            away = far - problem.source
            share = (best.distance / torch.linalg.vector_norm(away)).clamp_max(1.0)
            near = away.mul_(share).add_(problem.source).clamp_(0, 1)
            answers = yield Ask(torch.cat([far, near]), until=Until.NOT_ADVERSARIAL, phase=PHASE)
            if answers.adversarial.sum() == 2:
                closer = Iterate(near[0], float(answers.distances[1]))
                found = yield from self.search(problem, Segment(problem.source, closer))
                best = min(best, found, key=lambda each: each.distance)
        return best
