"""Starts: a first adversarial point. Every failure costs a flagged query, so a start has a bound.

    GrowingNoise   noise of rising strength: the paper's
    NoiseImage     an image of noise
    UniformNoise   the same, blended with the source: HSJA's
    Pool           images of other classes, the nearest first

An image that comes with a problem (`Problem.start_image`, `starts` of `tollbox.run`) goes before
all of them: a targeted run needs one of the target class. A start returns what it found, or None.

OPT's start: the nearest boundary along a hundred Gaussian directions (Cheng et al. 2019).

A direction is asked far out, at x* + N(0, 1), clipped. If that is adversarial, it is asked at the
best distance so far. If it is adversarial there, too, it is nearer, and its line to the source is
searched. So a direction that is no better costs two queries, the second of them flagged.
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
from ..core.noise import Noise
from ..core.problem import Problem
from ..core.validation import MAX_VALUE, above, between, check, whole
from ..errors import InputError
from .paths import Segment
from .registry import register
from .searches import BinarySearch, Search

PHASE = "start"


class Start(Protocol):
    """A part: finds an adversarial point to begin with."""

    @property
    def tolerance(self) -> float | None:
        """How near to the boundary it ends, as a share of its distance; None: anywhere."""

    def __call__(self, problem: Problem, /) -> Asking[Iterate | None]:
        """The point, or None."""


def begin(problem: Problem, start: Start) -> Asking[Iterate | None]:
    """From the image that was given for this problem, if one was; else by `start`. The point is
    within the mask, as it was sent."""
    if problem.start_image is not None:
        return (yield from first_adversarial(problem.start_image[None], PHASE))
    found = yield from start(problem)
    return None if found is None else found._replace(point=problem.within_mask(found.point))


class _GrowingNoiseRows:
    """Rows k = 1, 2, ...: source + k step N(0, 1), clipped."""

    def __init__(self, source: Tensor, noise: Noise, step: float) -> None:
        self._source, self._noise, self._step = source, noise, step

    def __len__(self) -> int:
        return len(self._noise)

    def __getitem__(self, rows: slice) -> Tensor:
        first, last, _ = rows.indices(len(self))
        points = self._noise[first:last]
        if last - first == 1:  # mostly: as few launches as can be
            points *= self._step * last
        else:
            levels = torch.arange(first + 1, last + 1, device=points.device, dtype=torch.float64)
            points *= (self._step * levels).to(points.dtype).view(-1, 1, 1, 1)
        return points.add_(self._source).clamp_(0, 1)


@register(Start)
@dataclass(frozen=True)
class GrowingNoise:
    """The paper's: noise of rising strength until the label changes. A level is 0.02 of normalised
    pixels, that is 0.0045 in [0,1]. Past about level 250 the noise saturates the range, and each
    further level is a fresh try of the same kind."""

    step: float = 0.0045
    levels: int = 1000

    tolerance = None

    def __post_init__(self) -> None:
        check(self, step=above(0, MAX_VALUE), levels=whole(1, MAX_VALUE))

    def __call__(self, problem: Problem) -> Asking[Iterate | None]:
        """The first level that is adversarial."""
        points = _GrowingNoiseRows(problem.source, problem.noise(PHASE, 0, self.levels), self.step)
        return first_adversarial(points, PHASE)


class _UniformNoiseRows:
    """Rows of uniform noise in [0,1]: the normal distribution function of standard normal rows."""

    def __init__(self, noise: Noise) -> None:
        self._noise = noise

    def __len__(self) -> int:
        return len(self._noise)

    def __getitem__(self, rows: slice) -> Tensor:
        levels: Tensor = torch.special.ndtr(self._noise[rows])
        return levels.clamp_(0, 1)


@register(Start)
@dataclass(frozen=True)
class NoiseImage:
    """Images of uniform noise until one is adversarial: the attack's own search goes on from it."""

    tries: int = 10_000

    tolerance = None

    def __post_init__(self) -> None:
        check(self, tries=whole(1, MAX_VALUE))

    def __call__(self, problem: Problem) -> Asking[Iterate | None]:
        """The first that is adversarial."""
        points = _UniformNoiseRows(problem.noise("uniform", 0, self.tries))
        return first_adversarial(points, PHASE)


@register(Start)
@dataclass(frozen=True)
class UniformNoise:
    """HSJA's: images of uniform noise until one is adversarial, blended with the source by
    bisection, as far as the blend stays adversarial."""

    tries: int = 10_000
    tau: float = 1e-3
    """A share of the way to the source."""

    tolerance = None

    def __post_init__(self) -> None:
        check(self, tries=whole(1, MAX_VALUE), tau=between(0, 1))

    def __call__(self, problem: Problem) -> Asking[Iterate | None]:
        """The last adversarial blend."""
        iterate = yield from NoiseImage(self.tries)(problem)
        if iterate is None:
            return None
        line = Segment(problem.source, iterate)
        blend = BinarySearch(self.tau, relative=True, phase=PHASE)
        return (yield from blend(problem, line))


@dataclass(frozen=True, eq=False)
class Pool:
    """Images of other classes, the nearest first, until one is adversarial.

    images: (n, c, h, w) in [0,1]. labels: their classes, if known; then only those that are what
    the goal asks for are tried.
    """

    images: Tensor
    labels: Tensor | None = None

    tolerance = None

    def __call__(self, problem: Problem) -> Asking[Iterate | None]:
        """The nearest image that is adversarial."""
        if self.images.ndim != 4 or self.images.shape[1:] != problem.source.shape:
            raise InputError(
                f"the pool has shape {tuple(self.images.shape)}",
                expected=f"(n, c, h, w) with images of shape {tuple(problem.source.shape)}",
            )
        images = _placed(self, problem.source.device, problem.source.dtype)
        allowed = np.ones(len(images), bool)
        if self.labels is not None:
            allowed = problem.is_adversarial(self.labels.cpu().numpy())
        if not allowed.any():
            return None
        images = problem.within_mask(images)
        apart = torch.linalg.vector_norm((images - problem.source).flatten(1), dim=1)
        refused = torch.from_numpy(~allowed).to(apart.device, non_blocking=True)
        order = apart.masked_fill_(refused, math.inf).argsort(stable=True)
        nearest = _Ordered(images, order[: int(allowed.sum())])
        return (yield from first_adversarial(nearest, PHASE))


class _Ordered:
    """Images in an order that the device knows, as rows."""

    def __init__(self, images: Tensor, order: Tensor) -> None:
        self._images, self._order = images, order

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, rows: slice) -> Tensor:
        return self._images.index_select(0, self._order[rows])


@lru_cache(maxsize=4)
def _placed(pool: Pool, device: torch.device, dtype: torch.dtype) -> Tensor:
    """The images of a pool where they are needed, once for all problems."""
    return pool.images.to(device, dtype, non_blocking=True)


class _FarOut:
    """Rows source + N(0, 1), clipped, from one of them on."""

    def __init__(self, source: Tensor, noise: Noise, first: int = 0) -> None:
        self._source, self._noise, self._first = source, noise, first

    def __len__(self) -> int:
        return len(self._noise) - self._first

    def __getitem__(self, rows: slice) -> Tensor:
        first, last, _ = rows.indices(len(self))
        points = self._noise[self._first + first : self._first + last]
        return points.add_(self._source).clamp_(0, 1)


@register(Start)
@dataclass(frozen=True)
class GaussianRays:
    """The best of `directions`; if none of them is adversarial, the first of `tries` that is."""

    search: Search = field(default_factory=lambda: BinarySearch(1e-5))
    directions: int = 100
    tries: int = 1000

    tolerance = 1e-4
    """At most, with the searches that presets have."""

    def __post_init__(self) -> None:
        check(self, directions=whole(1, MAX_VALUE), tries=whole(1, MAX_VALUE))

    def __call__(self, problem: Problem) -> Asking[Iterate | None]:
        """The nearest boundary point."""
        noise = problem.noise(PHASE, 0, max(self.tries, self.directions))
        points = _FarOut(problem.source, noise)
        answers = yield Ask(points, until=Until.ADVERSARIAL, phase=PHASE)
        row = len(answers) - 1
        if not answers.adversarial[row]:
            return None
        begun = Iterate(points[row : row + 1][0], float(answers.distances[row]))
        best = yield from self.search(problem, Segment(problem.source, begun))
        for following in range(row + 1, self.directions):
            far = points[following : following + 1]
            nearer = yield from self._compare(problem, far, best.distance)
            if nearer is not None:
                found = yield from self.search(problem, Segment(problem.source, nearer))
                best = min(best, found, key=lambda each: each.distance)
        return best

    def _compare(self, problem: Problem, far: Tensor, distance: float) -> Asking[Iterate | None]:
        """The point of a direction at that distance, if it is adversarial."""
        away = far - problem.source
        share = (distance / torch.linalg.vector_norm(away)).clamp_max(1.0)
        near = away.mul_(share).add_(problem.source).clamp_(0, 1)
        answers = yield Ask(torch.cat([far, near]), until=Until.NOT_ADVERSARIAL, phase=PHASE)
        if len(answers) < 2 or not answers.adversarial[1]:
            return None
        return Iterate(near[0], float(answers.distances[1]))
