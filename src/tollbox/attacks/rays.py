"""RayS (Chen, Gu 2020): no estimate, only signs and the distance to the boundary along them.

A ray is x* + r s, clipped to [0,1], where s is a vector of signs. All signs are initially 1.
Blocks of them are flipped in turn: first all, then each half, each quarter, down to single values.

    fast check   a flip is queried at the best radius so far (at first 1: each value is 0 or 1);
                 if flagged, it is dropped
    search       otherwise the ray is searched inward from there; the flip is kept if the distance
                 is smaller

Fast checks form one ask up to the first adversarial answer, since signs and radius do not change
before it. If a start is given, the line to it is searched first, and its signs are the initial
ones. A pass over single values without a change would repeat with the same answers, so the attack
stops after it.

In ℓ∞ a radius is a distance. In ℓ2 the same points are sent, and the smallest ℓ2 distance counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.ask import Ask, Asking, Iterate, Until, first_adversarial
from ..core.metric import Metric
from ..core.problem import Problem
from ..core.stop import Stop
from ..parts.paths import Ray, Segment
from ..parts.registry import Checked, Count, Depth, Fraction
from ..parts.searches import Search
from ..parts.starts import PHASE as START
from ..parts.vectors import LazyRows

FAST_CHECK = "fast check"
Block = tuple[int, int]
"""Index of the first value in a block, and of the first value after it."""


def blocks(dimension: int, level: int) -> list[Block]:
    """Return at most 2^level blocks that cover all values; only the last may be smaller."""
    size = math.ceil(dimension / 2**level)
    return [(first, min(dimension, first + size)) for first in range(0, dimension, size)]


def values_of(block: Block, places: Tensor | None) -> slice | Tensor:
    """Return the index of a block; `places` are the positions that may change, or None for all."""
    return slice(*block) if places is None else places[slice(*block)]


def flipped_rows(problem: Problem, signs: Tensor, radius: float, flips: list[Block]) -> LazyRows:
    """Return the rows x* + r s, clipped, with one block of signs flipped in each."""
    source, places, step = problem.source, problem.free_places, signs * radius
    kept = (step + source).clamp_(0, 1).flatten()
    turned = (step.neg_() + source).clamp_(0, 1).flatten()

    def make(first: int, last: int) -> Tensor:
        points = kept.repeat(last - first, 1)
        for point, block in zip(points, flips[first:last], strict=True):
            values = values_of(block, places)
            point[values] = turned[values]
        return points.view(-1, *source.shape)

    return LazyRows(len(flips), make)


def first_signs(
    problem: Problem, image: Tensor, search: Search, unit: float, scale: float
) -> Asking[tuple[Tensor, float] | None]:
    """Return the signs and the radius of the boundary point on the line to an image, or None if
    that image is not adversarial. `unit` is the distance of radius 1."""
    source = problem.source
    start = yield from first_adversarial(image[None], START)
    if start is None:
        return None
    line = Segment(source, start, start.distance / unit * math.sqrt(problem.dimension))
    iterate = yield from search(problem, line, scale)
    problem.accept(iterate)
    signs = problem.only_mask(torch.ones_like(source))
    return torch.where(start.point < source, -signs, signs), iterate.distance / unit


@dataclass(frozen=True)
class SignFlips(Checked):
    """The base of RayS for both metrics."""

    search: Search
    starts: Count = 1000
    """Maximum number of sign vectors tried for a first adversarial point."""
    levels: Depth = 1000
    """Maximum number of passes over all values; blocks become smaller with each pass."""

    finds_targets = False
    rows = 12
    """Maximum number of points held: signs, kept and flipped points, and the last steps."""

    def flip(self, problem: Problem, reach: float = 1.0, linf_tau: bool = False) -> Asking[Stop]:
        """Flip signs and search radii; a search covers the fraction `reach` of the radius."""
        scale = math.sqrt(problem.dimension) if linf_tau else 1.0
        if problem.start_image is None:
            ones = problem.only_mask(torch.ones_like(problem.source))
            return (yield from self.flip_from(problem, ones, 1.0, [], False, reach, scale))
        unit = 1.0 if problem.norm is Metric.LINF else math.sqrt(problem.dimension)
        start = yield from first_signs(problem, problem.start_image, self.search, unit, scale)
        if start is None:
            return Stop.NO_START
        unflipped = [(0, 0)]
        return (yield from self.flip_from(problem, *start, unflipped, True, reach, scale))

    def flip_from(
        self,
        problem: Problem,
        signs: Tensor,
        radius: float,
        flips: list[Block],
        found: bool,
        reach: float = 1.0,
        scale: float = 1.0,
    ) -> Asking[Stop]:
        """Flip signs, first those in `flips`; `found` says whether they are known to be adversarial
        at the radius."""
        source, tried = problem.source, 0
        for level in range(self.levels):
            flips += blocks(problem.dimension, level)
            single, changed = len(flips) == problem.dimension, False
            while flips:
                if not found:
                    flips = flips[: self.starts - tried]
                rows = flipped_rows(problem, signs, radius, flips)
                phase = FAST_CHECK if found else START
                answers = yield Ask(rows, until=Until.ADVERSARIAL, phase=phase)
                asked, tried = len(answers), tried + len(answers)
                block, flips = flips[asked - 1], flips[asked:]
                if answers.adversarial[-1]:
                    flipped = signs.clone()
                    flipped.view(-1)[values_of(block, problem.free_places)] *= -1
                    start = Iterate(rows[asked - 1 : asked][0], float(answers.distances[-1]))
                    ray = Ray(source, flipped, radius, start, reach)
                    moved = yield from self.search(problem, ray, scale)
                    if moved is not start or not found:
                        signs, radius = flipped, radius * (1 - reach * moved.theta)
                        found = changed = True
                        problem.accept(moved)
                elif not found and tried == self.starts:
                    return Stop.NO_START
            if single and not changed:
                return Stop.CONVERGED if found else Stop.NO_START
        return Stop.ITERATIONS if found else Stop.NO_START


@dataclass(frozen=True)
class RayS(SignFlips):
    """RayS, with the search for the radius as a part."""

    linf_tau: bool = False
    """Whether the search's tau is a length in linf, not in l2."""
    least_left: Fraction = 0.0
    """Fraction of the radius that is not searched; above 0, searches of good rays are shorter."""

    metrics = (Metric.LINF,)

    def __call__(self, problem: Problem) -> Asking[Stop]:
        return self.flip(problem, 1 - self.least_left, self.linf_tau)


@dataclass(frozen=True)
class RaySL2(SignFlips):
    """RayS with distances in l2."""

    metrics = (Metric.L2,)

    def __call__(self, problem: Problem) -> Asking[Stop]:
        return self.flip(problem)
