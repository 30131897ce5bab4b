"""Rays: the distance g(theta) to the boundary along a direction from the source.

The points of a ray are x* + r theta, clipped to [0,1], with theta of length 1 (Cheng et al. 2019).
An expected radius r is known. The boundary is bracketed around it, and a search narrows the
bracket:

    search_inward   query r, 0.99 r, 0.99^2 r, ... until a point is not adversarial
    search_around   the same, and if r is not adversarial, 1.01 r, 1.01^2 r, ... until a point is
    search_window   from (1 + reach) r to (1 - reach) r and no farther (stealthy attacks)

Each returns the closest adversarial point that it found, or None.

GeoDA and qFool query `outward` points to get from a normal to a point beyond the boundary; all
answers except the last are flagged.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..core.ask import Answers, Ask, Asking, Iterate, T, Until, handled
from ..core.problem import Problem
from ..engine.points import LinearPoint, LinearRows
from .paths import Segment
from .searches import PHASE, Search
from .vectors import LazyRows

INWARD, OUTWARD = 0.99, 1.01
MAX_STEPS = 70
"""Maximum number of steps of 1 %: to twice the radius, or half of it."""
FARTHEST = OUTWARD**MAX_STEPS
"""Assumed length of a ray on which no boundary is found, in units of the radius."""


class OnRay(LinearRows):
    """The points of a ray at the given radii, as rows."""

    def __init__(self, source: Tensor, ray: Tensor, radii: Sequence[float]) -> None:
        self._source, self._ray, self.radii = source, ray, radii

    def __len__(self) -> int:
        return len(self.radii)

    def __getitem__(self, rows: slice) -> Tensor:
        first, last, _ = rows.indices(len(self.radii))
        return torch.stack([self.point(row) for row in range(first, last)])

    def linear_point(self, row: int) -> LinearPoint:
        return LinearPoint(self._source, self._ray, self.radii[row])

    def point(self, row: int) -> Tensor:
        return self.linear_point(row).point()

    def iterate(self, row: int, answers: Answers) -> Iterate:
        """Return the point of an adversarial row with its distance."""
        return Iterate(self.point(row), float(answers.distances[row]))


def in_phase(asking: Asking[T], phase: str) -> Asking[T]:
    """Return `asking` with all its queries charged to one phase."""

    def under_phase(ask: Ask) -> Asking[Answers]:
        return (yield Ask(runs=ask.runs, phase=phase))

    return handled(asking, under_phase)


def search_inward(
    problem: Problem,
    search: Search,
    ray: Tensor,
    radius: float,
    scale: float = 1.0,
    known: Iterate | None = None,
) -> Asking[Iterate | None]:
    """Return the boundary point at `radius` or less, or None if the ray is not adversarial there.
    `known` is the point at that radius, if it was queried before and is adversarial."""
    first = 0 if known is None else 1
    radii = [radius * INWARD**step for step in range(first, MAX_STEPS + 1)]
    points = OnRay(problem.source, ray, radii)
    answers = yield Ask(points, until=Until.NOT_ADVERSARIAL, phase=PHASE)
    passed = int(answers.adversarial.sum())
    if passed:
        known = points.iterate(passed - 1, answers)
    if known is None:
        return None
    if passed == len(points):
        line = Segment(problem.source, known)
    else:
        line = Segment(points.point(passed), known, radii[passed] * (1 / INWARD - 1))
    return (yield from search(problem, line, scale))


def search_around(
    problem: Problem, search: Search, ray: Tensor, radius: float, scale: float = 1.0
) -> Asking[Iterate | None]:
    """Return the boundary point, or None if it is farther than about twice the radius."""
    found = yield from search_inward(problem, search, ray, radius, scale)
    if found is not None:
        return found
    radii = [radius * OUTWARD**step for step in range(MAX_STEPS + 1)]
    inner, points = OnRay(problem.source, ray, radii), OnRay(problem.source, ray, radii[1:])
    answers = yield Ask(points, until=Until.ADVERSARIAL, phase=PHASE)
    if not answers.adversarial[-1]:
        return None
    row = len(answers) - 1
    line = Segment(inner.point(row), points.iterate(row, answers), radii[row + 1] - radii[row])
    return (yield from search(problem, line, scale))


def search_window(
    problem: Problem,
    search: Search,
    ray: Tensor,
    radius: float,
    reach: float,
    scale: float = 1.0,
    phase: str = PHASE,
) -> Asking[Iterate | None]:
    """Return the boundary point between (1 - reach) and (1 + reach) times the radius, or None if
    the outer end is not adversarial."""
    ends = OnRay(problem.source, ray, [(1 + reach) * radius, (1 - reach) * radius])
    answers = yield Ask(ends[0:1], phase=phase)
    if not answers.adversarial[0]:
        return None
    line = Segment(ends.point(1), ends.iterate(0, answers), 2 * reach * radius)
    return (yield from search(problem, line, scale))


def outward(source: Tensor, step: Tensor, count: int) -> LazyRows:
    """Return the rows x* + step, x* + 2 step, ..., clipped."""
    factors = range(1, count + 1)
    return LazyRows.stack(factors, lambda k: torch.add(source, step, alpha=k).clamp_(0, 1))
