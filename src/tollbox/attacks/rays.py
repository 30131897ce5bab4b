"""RayS (Chen, Gu 2020): no estimate, only signs, and how far the boundary is along them.

A ray is x* + r s, clipped to [0,1], s a vector of signs. From all ones on, blocks of signs are
flipped one after another: first all of them, then each half, each quarter, and so on, down to
single numbers.

    fast check   a flip is asked at the best radius so far (at first 1: black and white alone);
                 flagged, it is dropped at once
    search       else the ray is searched from there inward; the flip is kept if it came nearer

Fast checks are asked as runs, up to the first that is adversarial: until then signs and radius are
what they were. A given start comes first: the line to it is searched, and its signs are the first.
A pass over single numbers that changes nothing would be repeated with the same answers: it ends the
attack.

In ℓ∞ a radius is a distance. Read in ℓ2 the same points are asked, and the nearest in ℓ2 counts.
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
MOST_POINTS = 12
"""That are held at a time: signs, both sides of a ray, and the last steps."""

Block = tuple[int, int]
"""Numbers from the first up to, not including, the second."""


def blocks(dimension: int, level: int) -> list[Block]:
    """2^level blocks of one size, as far as they are needed to cover all numbers."""
    size = math.ceil(dimension / 2**level)
    return [(first, min(dimension, first + size)) for first in range(0, dimension, size)]


def _numbers(first: int, last: int, places: Tensor | None) -> slice | Tensor:
    """The numbers of a block, as an index."""
    return slice(first, last) if places is None else places[first:last]


class _Flipped:
    """Rows x* + r s, clipped, with the signs of one block flipped in each."""

    def __init__(
        self,
        source: Tensor,
        signs: Tensor,
        radius: float,
        flips: Sequence[Block],
        places: Tensor | None,
    ) -> None:
        """`places`: the numbers that may change, if not all; blocks are of these."""
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
            block = _numbers(first, last, self._places)
            point[block] = self._turned[block]
        return points.view(-1, *self._shape)


@dataclass(frozen=True)
class RayS:
    """RayS with the search of the radius as a part."""

    search: Search
    linf_tau: bool = False
    """The search's tau is a length in linf, not in l2."""
    least_left: float = 0.0
    """Share of the radius that a search leaves; above 0 it ends sooner where a ray is good."""
    starts: int = 1000
    """Signs that are tried for a first adversarial point."""
    levels: int = 1000
    """Passes over all numbers, the first ones in large blocks."""

    metrics = (Metric.LINF,)

    def __post_init__(self) -> None:
        check(self, least_left=number(0, 1), starts=whole(1, MAX_VALUE), levels=whole(1, MAX_DEPTH))

    @property
    def rows(self) -> int:
        """The most points held at a time."""
        return MOST_POINTS

    def __call__(self, problem: Problem) -> Asking[Stop]:
        """Attack one image."""
        return flip_signs(problem, self, 1 - self.least_left, self.linf_tau)


@dataclass(frozen=True)
class RaySL2:
    """RayS, read in l2."""

    search: Search
    starts: int = 1000
    """Signs that are tried for a first adversarial point."""
    levels: int = 1000
    """Passes over all numbers, the first ones in large blocks."""

    metrics = (Metric.L2,)

    def __post_init__(self) -> None:
        check(self, starts=whole(1, MAX_VALUE), levels=whole(1, MAX_DEPTH))

    @property
    def rows(self) -> int:
        """The most points held at a time."""
        return MOST_POINTS

    def __call__(self, problem: Problem) -> Asking[Stop]:
        """Attack one image."""
        return flip_signs(problem, self)


def flip_signs(
    problem: Problem, attack: RayS | RaySL2, reach: float = 1.0, linf_tau: bool = False
) -> Asking[Stop]:
    """Flip signs and search radii until something ends it; a search goes `reach` of the way."""
    source, root = problem.source, math.sqrt(problem.dimension)
    unit = 1.0 if problem.norm is Metric.LINF else root  # the distance of radius 1
    scale = root if linf_tau else 1.0
    signs, radius, found, tried = problem.only_mask(torch.ones_like(source)), 1.0, False, 0
    places = problem.free_places
    flips: list[Block] = []
    if problem.start_image is not None:
        begun = yield from first_adversarial(problem.start_image[None], START)
        if begun is None:
            return Stop.NO_START
        line = Segment(source, begun, begun.distance / unit * root)
        iterate = yield from attack.search(problem, line, scale)
        problem.accept(iterate)
        signs = torch.where(begun.point < source, -signs, signs)
        radius, found, flips = iterate.distance / unit, True, [(0, 0)]  # as they are, at first
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
                flipped.view(-1)[_numbers(first, last, places)] *= -1
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
