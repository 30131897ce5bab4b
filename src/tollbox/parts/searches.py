"""Searches: along a path from an adversarial point towards the source, find the boundary.

The path is divided into equal bins, as many as make one no longer than `tau`: a length in l2, as in
the paper's code, or with `relative` a share of the path. None is finer than the points' dtype can
resolve. T(0) is known to be adversarial, and T(1), which is never asked, taken not to be. A search
returns T(k/n) of n bins that was asked, or is T(0), and is adversarial, with T((k+1)/n) not.
"""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from ..core.ask import Ask, Asking, Iterate, Until
from ..core.problem import Problem
from ..core.validation import MAX_DEPTH, between, check, whole
from ..engine.points import LinearPoint, LinearRows
from ..theory.search_costs import line_step, optimal_share, optimal_splits, split
from .paths import Path
from .registry import register

PHASE = "search"
LARGEST_TABLE = 1 << 16
"""Bins for which optimal splits are worked out exactly."""


Rule = Callable[[int], int]
"""Where to ask in an interval of so many bins, from its adversarial end on; must be hashable."""


class Search(Protocol):
    """A part: finds the last adversarial point of a path. `scale` makes its tolerance finer.

    A search that takes ten equal steps:

        @dataclass(frozen=True)
        class TenSteps:
            def __call__(self, problem, path, scale=1.0):
                points = torch.stack([path(k / 10) for k in range(1, 10)])
                answers = yield Ask(points, until=Until.NOT_ADVERSARIAL, phase="search")
                passed = int(answers.adversarial.sum())
                if not passed:
                    return path.start
                return Iterate(points[passed - 1], float(answers.distances[passed - 1]))
    """

    def __call__(self, problem: Problem, path: Path, scale: float = 1.0) -> Asking[Iterate]:
        """The last adversarial point."""


@dataclass(frozen=True)
class Tolerance:
    """How near to the boundary a search ends: what all searches have in common."""

    tau: float = 2.25e-5
    """1e-4 of normalised pixels, in [0,1]: the paper's code has it for paths of any length."""
    relative: bool = False
    """tau is a share of the path, not a length. What is left is then small against the distance,
    but far from the source not against a small delta."""

    def __post_init__(self) -> None:
        check(self, tau=between(0, 1))

    def count_bins(self, problem: Problem, path: Path, scale: float = 1.0) -> int:
        """How many bins a path has; `scale` makes them finer."""
        finest = max(2.0, path.length / problem.resolution)
        whole = 1.0 if self.relative else path.length
        return math.ceil(min(max(2.0, whole / max(self.tau * scale, sys.float_info.min)), finest))


MOST_PLACES = 256
"""Places of a run at most; a search may go on for a hundred thousand."""
REMEMBERED_POINTS = 4
"""Points of a run that are kept at hand: what is returned in the end is mostly among the last."""


class _Steps(LinearRows):
    """Points of a path at some of its `count` bins, as rows."""

    def __init__(self, path: Path, places: Sequence[int], low: int, count: int) -> None:
        self._path, self._places, self._low, self._count = path, places, low, count
        self._points: dict[int, Tensor] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, rows: slice) -> Tensor:
        first, last, _ = rows.indices(len(self._places))
        if last - first == 1:
            return self._row(first)
        return torch.cat([self._row(row) for row in range(first, last)])

    def linear_point(self, row: int) -> LinearPoint | None:
        """The terms of one row, if the path can tell them."""
        return self._path.linear_point(self.theta(row))

    def theta(self, row: int) -> float:
        """Where on the path a row is."""
        return (self._low + self._places[row]) / self._count

    def _row(self, row: int) -> Tensor:
        if row not in self._points:
            if len(self._points) == REMEMBERED_POINTS:
                del self._points[next(iter(self._points))]
            self._points[row] = self._path(self.theta(row))[None]
        return self._points[row]


class _Found(NamedTuple):
    """An adversarial row, and its distance."""

    points: _Steps
    row: int
    distance: float

    def iterate(self) -> Iterate:
        """Its point is made here: most rows of a search are soon left behind by another."""
        point = self.points[self.row : self.row + 1][0]
        return Iterate(point, self.distance, self.points.theta(self.row))


def walk(
    path: Path, places: Sequence[int], low: int, count: int, phase: str
) -> Asking[tuple[_Found | None, int]]:
    """Ask at the bins low + place, one after another, until the first that is not adversarial; the
    last that was, and how many were."""
    points = _Steps(path, places, low, count)
    answers = yield Ask(points, until=Until.NOT_ADVERSARIAL, phase=phase)
    passed = len(answers) - (not answers.adversarial[-1])
    if not passed:
        return None, 0
    return _Found(points, passed - 1, float(answers.distances[passed - 1])), passed


@lru_cache(maxsize=4096)
def _places(width: int, rule: Rule) -> Sequence[int]:
    """Where an interval is asked next, as long as the answers are adversarial."""
    places = array("q")
    low = 0
    while width - low > 1 and len(places) < MOST_PLACES:
        low += rule(width - low)
        places.append(low)
    return places


def _narrow_to_point(path: Path, count: int, rule: Rule, phase: str = PHASE) -> Asking[Iterate]:
    return (yield from narrow(path, count, rule, phase))[0]


def narrow(path: Path, count: int, rule: Rule, phase: str = PHASE) -> Asking[tuple[Iterate, int]]:
    """Algorithm 1 with any rule for where to ask in an interval, from its adversarial end on.

    As long as the answers are adversarial it is known where the next will be asked. So each flagged
    answer ends one ask, and the engine may look ahead. Returns the last adversarial point and its
    bin.
    """
    low, high, found = 0, count, None
    while high - low > 1:
        places = _places(high - low, rule)
        last, passed = yield from walk(path, places, low, count, phase)
        if passed < len(places):
            high = low + places[passed]
        if last is not None:
            found, low = last, low + places[passed - 1]
    return path.start if found is None else found.iterate(), low


@dataclass(frozen=True)
class SplitRule:
    """ceil(width / (c* + 1)), the rule of Algorithm 1."""

    ratio: float

    def __call__(self, width: int) -> int:
        """Where to ask in an interval of `width` bins."""
        return split(width, self.ratio)


@register(Search)
@dataclass(frozen=True)
class BinarySearch(Tolerance):
    """Halves the interval, whatever the prices."""

    phase: str = PHASE
    """What its queries are booked under."""

    def __call__(self, problem: Problem, path: Path, scale: float = 1.0) -> Asking[Iterate]:
        """The last adversarial point."""
        count = self.count_bins(problem, path, scale)
        return _narrow_to_point(path, count, SplitRule(1.0), self.phase)


@register(Search)
@dataclass(frozen=True)
class AsymmetricSearch(Tolerance):
    """Splits the interval 1 : c*, nearer to the cheap side (Algorithm 1); any c*, below 1 too."""

    def __call__(self, problem: Problem, path: Path, scale: float = 1.0) -> Asking[Iterate]:
        """The last adversarial point."""
        count = self.count_bins(problem, path, scale)
        return _narrow_to_point(path, count, SplitRule(problem.prices.ratio))


@dataclass(frozen=True)
class OptimalRule:
    """The cost-optimal rule."""

    ratio: float
    size: int
    """The largest interval in the table."""

    def __call__(self, width: int) -> int:
        """Where to ask in an interval of `width` bins."""
        if width <= self.size:
            return int(optimal_splits(self.size, self.ratio).first[width])
        return min(width - 1, max(1, round(optimal_share(self.ratio) * width)))


def optimal_rule(ratio: float, count: int) -> OptimalRule:
    """The cost-optimal rule for intervals of up to `count` bins."""
    return OptimalRule(ratio, min(LARGEST_TABLE, max(2, 1 << (count - 1).bit_length())))


@register(Search)
@dataclass(frozen=True)
class OptimalSearch(Tolerance):
    """Splits where the expected cost is least, the boundary being equally likely in every bin.

    Exactly so up to `LARGEST_TABLE` bins; in a wider interval by the share that is optimal in the
    limit. Asymmetric search costs up to a third more (c* = 1000, 20 000 bins: 2735 against 2097).
    """

    def __call__(self, problem: Problem, path: Path, scale: float = 1.0) -> Asking[Iterate]:
        """The last adversarial point."""
        count = self.count_bins(problem, path, scale)
        return _narrow_to_point(path, count, optimal_rule(problem.prices.ratio, count))


@register(Search)
@dataclass(frozen=True)
class LineSearch(Tolerance):
    """Step by step from the adversarial end until the first flagged answer, then finer.

    With `stages` of them at most so many answers are flagged (the egg-dropping problem). One stage
    asks bin after bin; two take about sqrt(N) coarse steps, and then as many fine ones: this is
    the search of the stealthy attacks (Debenedetti et al.), with N = 10^4.
    """

    stages: int = 1
    phase: str = PHASE
    """What its queries are booked under."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self, stages=whole(1, MAX_DEPTH))

    def __call__(self, problem: Problem, path: Path, scale: float = 1.0) -> Asking[Iterate]:
        """The last adversarial point."""
        count = self.count_bins(problem, path, scale)
        low, high, found = 0, count, None
        for left in range(self.stages, 0, -1):
            step = line_step(high - low, left)
            places = range(step, high - low, step)
            if not places:
                continue
            last, passed = yield from walk(path, places, low, count, self.phase)
            if passed < len(places):
                high = low + places[passed]
            if last is not None:
                found, low = last, low + places[passed - 1]
        return path.start if found is None else found.iterate()
