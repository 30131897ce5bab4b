"""RayS (Chen, Gu 2020): no estimate, only signs and the distance of the boundary along them.

A ray is x* + r s, clipped to [0,1], where s is a vector of signs. The signs start as all ones.
Blocks of them are flipped in turn: first all, then each half, each quarter, down to single values.

    fast check   a flip is queried at the best radius so far (at first 1: only black and white);
                 if flagged, it is dropped
    search       otherwise the ray is searched inward from there; the flip is kept if the distance
                 is smaller

Fast checks form one ask up to the first adversarial answer, since signs and radius do not change
before it. If a start is given, the line to it is searched first, and its signs are the first ones.
A pass over single values without a change would repeat with the same answers, so it ends the
attack.

In ℓ∞ a radius is a distance. In ℓ2 the same points are sent, and the smallest ℓ2 distance counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.ask import Ask, Asking, Iterate, Until, first_adversarial
from ..core.metric import Metric
from ..core.problem import Problem
from ..core.stop import Stop
from ..core.validation import MAX_DEPTH, MAX_VALUE, check, number, whole
from ..parts.paths import Ray, Segment
from ..parts.searches import Search
from ..parts.starts import PHASE as START

FAST_CHECK = "fast check"
ROWS = 12
"""Maximum number of points held: signs, both sides of a ray, and the last steps."""
Block = tuple[int, int]
"""The first value of a block, and the first value after it."""


def blocks(dimension: int, level: int) -> list[Block]:
    """Return blocks of equal size that cover all values, at most 2^level."""
    size = math.ceil(dimension / 2**level)
    return [(first, min(dimension, first + size)) for first in range(0, dimension, size)]


def _index(first: int, last: int, places: Tensor | None) -> slice | Tensor:
    return slice(first, last) if places is None else places[first:last]


class _Flipped:
    """Rows x* + r s, clipped, with one block of signs flipped in each.

    `places` are the values that may change, to which blocks refer; None if all may.
    """

    def __init__(
        self,
        source: Tensor,
        signs: Tensor,
        radius: float,
        flips: Sequence[Block],
        places: Tensor | None,
    ) -> None:
        step = signs * radius
        self._kept = (step + source).clamp_(0, 1).flatten()
        self._turned = (step.neg_() + source).clamp_(0, 1).flatten()
        self._flips, self._shape, self._places = flips, source.shape, places

    def __len__(self) -> int:
        return len(self._flips)

    def __getitem__(self, rows: slice) -> Tensor:
        flips = self._flips[rows]
        points = self._kept.repeat(len(flips), 1)
        for point, (first, last) in zip(points, flips, strict=True):
            block = _index(first, last, self._places)
            point[block] = self._turned[block]
        return points.view(-1, *self._shape)


@dataclass(frozen=True)
class RayS:
    """RayS, with the search for the radius as a part."""

    search: Search
    linf_tau: bool = False
    """Whether the search's tau is a length in linf, not in l2."""
    least_left: float = 0.0
    """Fraction of the radius that is not searched; above 0, searches along good rays end sooner."""
    starts: int = 1000
    """Maximum number of sign vectors tried for a first adversarial point."""
    levels: int = 1000
    """Maximum number of passes over all values; blocks become smaller with each."""

    metrics = (Metric.LINF,)

    def __post_init__(self) -> None:
        check(self, least_left=number(0, 1), starts=whole(1, MAX_VALUE), levels=whole(1, MAX_DEPTH))

    @property
    def rows(self) -> int:
        return ROWS

    def __call__(self, problem: Problem) -> Asking[Stop]:
        return flip_signs(problem, self, 1 - self.least_left, self.linf_tau)


@dataclass(frozen=True)
class RaySL2:
    """RayS with distances in l2."""

    search: Search
    starts: int = 1000
    """Maximum number of sign vectors tried for a first adversarial point."""
    levels: int = 1000
    """Maximum number of passes over all values; blocks become smaller with each."""

    metrics = (Metric.L2,)

    def __post_init__(self) -> None:
        check(self, starts=whole(1, MAX_VALUE), levels=whole(1, MAX_DEPTH))

    @property
    def rows(self) -> int:
        return ROWS

    def __call__(self, problem: Problem) -> Asking[Stop]:
        return flip_signs(problem, self)


def flip_signs(
    problem: Problem, attack: RayS | RaySL2, reach: float = 1.0, linf_tau: bool = False
) -> Asking[Stop]:
    """Flip signs and search radii; a search covers the fraction `reach` of the radius."""
    source, root = problem.source, math.sqrt(problem.dimension)
    unit = 1.0 if problem.norm is Metric.LINF else root  # the distance of radius 1
    scale = root if linf_tau else 1.0
    signs, radius, found, tried = problem.only_mask(torch.ones_like(source)), 1.0, False, 0
    places = problem.free_places
    flips: list[Block] = []
    if problem.start_image is not None:
        start = yield from first_adversarial(problem.start_image[None], START)
        if start is None:
            return Stop.NO_START
        line = Segment(source, start, start.distance / unit * root)
        iterate = yield from attack.search(problem, line, scale)
        problem.accept(iterate)
        signs = torch.where(start.point < source, -signs, signs)
        radius, found, flips = iterate.distance / unit, True, [(0, 0)]  # unflipped first
    for level in range(attack.levels):
        flips += blocks(problem.dimension, level)
        single, changed = len(flips) == problem.dimension, False
        while flips:
            if not found:
                flips = flips[: attack.starts - tried]
            rows = _Flipped(source, signs, radius, flips, places)
            answers = yield Ask(rows, until=Until.ADVERSARIAL, phase=FAST_CHECK if found else START)
            asked, tried = len(answers), tried + len(answers)
            (first, last), flips = flips[asked - 1], flips[asked:]
            if answers.adversarial[-1]:
                flipped = signs.clone()
                flipped.view(-1)[_index(first, last, places)] *= -1
                start = Iterate(rows[asked - 1 : asked][0], float(answers.distances[-1]))
                ray = Ray(source, flipped, radius, start, reach)
                moved = yield from attack.search(problem, ray, scale)
                if moved is not start or not found:
                    signs, radius = flipped, radius * (1 - reach * moved.theta)
                    found = changed = True
                    problem.accept(moved)
            elif not found and tried == attack.starts:
                return Stop.NO_START
        if single and not changed:
            return Stop.CONVERGED if found else Stop.NO_START
    return Stop.ITERATIONS if found else Stop.NO_START
