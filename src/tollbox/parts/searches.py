"""Searches for the boundary along a path from an adversarial point towards the source.

The path is divided into equal bins no longer than `tau`: a length in l2, as in the paper's code, or
with `relative` a share of the path. Bins are never finer than the points' dtype can resolve. T(0)
is known to be adversarial. T(1), which is never queried, is assumed not to be. A search over n bins
returns an adversarial T(k/n) that is T(0) or was queried, where T((k+1)/n) is not adversarial.
"""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Protocol

import torch
from torch import Tensor

from ..core.ask import Ask, Asking, Iterate, Until
from ..core.problem import Problem
from ..engine.points import LinearPoint, LinearRows
from ..theory.search_costs import line_step, optimal_share, optimal_splits, split
from .paths import Path
from .registry import Checked, Depth, InnerFraction, Positive, Power, register

PHASE = "search"
LARGEST_TABLE = 1 << 16
"""Maximum number of bins for which optimal splits are computed exactly."""
MAX_PLACES = 256
"""Maximum number of positions in one ask; a search may have a hundred thousand."""
REMEMBERED_POINTS = 4
"""Number of points of an ask kept in memory; the returned point is usually among the last."""
COARSEST_THETA = 0.5
"""Maximum tolerance of `ThetaSearch`, so that it sends at least one query."""

Rule = Callable[[int], int]
"""Function from the number of bins in an interval to the bin to query, counted from its adversarial
end. A rule must be hashable."""


class Search(Protocol):
    """A part that finds the last adversarial point of a path.

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
        """Return the last adversarial point, with the tolerance multiplied by `scale`."""


@dataclass(frozen=True)
class Tolerance(Checked):
    """The base of searches with the tolerance `tau`."""

    tau: InnerFraction = 2.25e-5
    """Maximum length of a bin. Default: the paper's 1e-4 in normalised pixels, scaled to [0,1]."""
    relative: bool = False
    """Whether tau is a share of the path instead of a length. The remaining gap is then small
    compared with the distance but, far from the source, not compared with a small delta."""

    def count_bins(self, problem: Problem, path: Path, scale: float = 1.0) -> int:
        """Return the number of bins in a path, with the tolerance multiplied by `scale`."""
        finest = max(2.0, path.length / problem.resolution)
        whole = 1.0 if self.relative else path.length
        return math.ceil(min(max(2.0, whole / max(self.tau * scale, sys.float_info.min)), finest))


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
        return self._path.linear_point(self.theta(row))

    def theta(self, row: int) -> float:
        return (self._low + self._places[row]) / self._count

    def _row(self, row: int) -> Tensor:
        if row not in self._points:
            if len(self._points) == REMEMBERED_POINTS:
                del self._points[next(iter(self._points))]
            self._points[row] = self._path(self.theta(row))[None]
        return self._points[row]

    def iterate(self, row: int, distance: float) -> Iterate:
        return Iterate(self._row(row)[0], distance, self.theta(row))


def _walk(
    path: Path, places: Sequence[int], low: int, high: int, count: int, phase: str
) -> Asking[tuple[Callable[[], Iterate] | None, int, int]]:
    """Query the bins low + place in order, until the first that is not adversarial.

    Return a function that makes the last adversarial point, since later asks replace most of them,
    and the ends of the interval in which the boundary then lies.
    """
    points = _Steps(path, places, low, count)
    answers = yield Ask(points, until=Until.NOT_ADVERSARIAL, phase=phase)
    passed = len(answers) - (not answers.adversarial[-1])
    if passed < len(places):
        high = low + places[passed]
    if not passed:
        return None, low, high
    last = partial(points.iterate, passed - 1, float(answers.distances[passed - 1]))
    return last, low + places[passed - 1], high


@lru_cache(maxsize=4096)
def _places(width: int, rule: Rule) -> Sequence[int]:
    """Return the positions queried in an interval, as long as the answers are adversarial."""
    places = array("q")
    low = 0
    while width - low > 1 and len(places) < MAX_PLACES:
        low += rule(width - low)
        places.append(low)
    return places


def narrow(path: Path, count: int, rule: Rule, phase: str = PHASE) -> Asking[tuple[Iterate, int]]:
    """Run Algorithm 1 with any rule for where to query in an interval.

    As long as the answers are adversarial, the next positions are known in advance. So only a
    flagged answer ends an ask, and the engine may look ahead. Return the last adversarial point and
    its bin.
    """
    low, high, found = 0, count, None
    while high - low > 1:
        places = _places(high - low, rule)
        last, low, high = yield from _walk(path, places, low, high, count, phase)
        found = last or found
    return path.start if found is None else found(), low


@dataclass(frozen=True)
class SplitRule:
    """The rule of Algorithm 1, ceil(width / (c* + 1))."""

    ratio: float

    def __call__(self, width: int) -> int:
        return split(width, self.ratio)


@register(Search)
class BinarySearch(Tolerance):
    """A search that halves the interval, whatever the prices."""

    phase: str = PHASE
    """Phase that its queries are charged to."""

    def __call__(self, problem: Problem, path: Path, scale: float = 1.0) -> Asking[Iterate]:
        count = self.count_bins(problem, path, scale)
        return (yield from narrow(path, count, SplitRule(1.0), self.phase))[0]


@register(Search)
class ThetaSearch(Checked):
    """HSJA's search: a binary search down to theta = gamma / d^power of the path."""

    gamma: Positive = 1.0
    power: Power = 1.5

    def __call__(self, problem: Problem, path: Path, scale: float = 1.0) -> Asking[Iterate]:
        theta = max(self.gamma / problem.dimension**self.power, 1e-300)
        return BinarySearch(min(theta, COARSEST_THETA), relative=True)(problem, path, scale)


@register(Search)
class CosineSearch(Checked):
    """SurFree's search: it halves an arc until the cosines at both ends differ by at most gamma.

    Where an arc starts at a positive angle, the mirrored angle is queried as well, as long as both
    are adversarial. If only that is, the search continues there.
    """

    gamma: InnerFraction = 0.01
    most: Depth = 10
    """Maximum number of halvings."""

    def __call__(self, problem: Problem, path: Path, scale: float = 1.0) -> Asking[Iterate]:  # noqa: ARG002
        low, high, found, other = 0.0, 1.0, path.start, path.mirrored()
        for _ in range(self.most):
            if abs(path.nearness(low) - path.nearness(high)) <= self.gamma * scale:
                break
            middle = (low + high) / 2
            points = torch.stack([each(middle) for each in (path, other) if each is not None])
            answers = yield Ask(points, phase=PHASE)
            here, there = bool(answers.adversarial[0]), bool(answers.adversarial[1:].any())
            if not (here or there):
                high, other = middle, None
                continue
            row = 0 if here else 1
            low, found = middle, Iterate(points[row], float(answers.distances[row]))
            if other is not None and not here:
                path = other
            other = other if here and there else None
        return found


@register(Search)
class AsymmetricSearch(Tolerance):
    """A search that splits 1 : c*, closer to the cheaper side, even if c* < 1 (Algorithm 1)."""

    def __call__(self, problem: Problem, path: Path, scale: float = 1.0) -> Asking[Iterate]:
        count = self.count_bins(problem, path, scale)
        return (yield from narrow(path, count, SplitRule(problem.prices.ratio)))[0]


@dataclass(frozen=True)
class OptimalRule:
    """The rule of least expected cost."""

    ratio: float
    size: int
    """Largest interval in the table, in bins."""

    def __call__(self, width: int) -> int:
        if width <= self.size:
            return int(optimal_splits(self.size, self.ratio).first[width])
        return min(width - 1, max(1, round(optimal_share(self.ratio) * width)))


def optimal_rule(ratio: float, count: int) -> OptimalRule:
    """Return the rule of least expected cost for intervals of up to `count` bins."""
    return OptimalRule(ratio, min(LARGEST_TABLE, max(2, 1 << (count - 1).bit_length())))


@register(Search)
class OptimalSearch(Tolerance):
    """A search of least expected cost if the boundary is equally likely in every bin.

    The split is exact up to `LARGEST_TABLE` bins; wider intervals use the share that is optimal in
    the limit. Asymmetric search costs up to a third more (c* = 1000, 20,000 bins: 2,735 instead of
    2,097).
    """

    def __call__(self, problem: Problem, path: Path, scale: float = 1.0) -> Asking[Iterate]:
        count = self.count_bins(problem, path, scale)
        return (yield from narrow(path, count, optimal_rule(problem.prices.ratio, count)))[0]


@register(Search)
class LineSearch(Tolerance):
    """A search in steps from the adversarial end to the first flagged answer, then in finer steps.

    `stages` limits the number of flagged answers (the egg-dropping problem). One stage queries
    every bin in order. Two stages take about sqrt(N) coarse and then sqrt(N) fine steps: the search
    of the stealthy attacks (Debenedetti et al.), with N = 10^4.
    """

    stages: Depth = 1
    phase: str = PHASE
    """Phase that its queries are charged to."""

    def __call__(self, problem: Problem, path: Path, scale: float = 1.0) -> Asking[Iterate]:
        count = self.count_bins(problem, path, scale)
        low, high, found = 0, count, None
        for left in range(self.stages, 0, -1):
            step = line_step(high - low, left)
            places = range(step, high - low, step)
            if not places:
                continue
            last, low, high = yield from _walk(path, places, low, high, count, self.phase)
            found = last or found
        return path.start if found is None else found()
