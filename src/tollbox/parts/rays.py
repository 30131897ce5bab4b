"""Rays: how far the boundary is along a direction from the source, g(theta) (Cheng et al. 2019).

The points of a ray are x* + r theta, clipped to [0,1], with theta of length 1. A radius r is known
where the boundary should be near. It is bracketed first, and a search part narrows the bracket:

    inward       ask at r, 0.99 r, 0.99^2 r, ... until one is not adversarial
    around       the same; and if r itself is not, at 1.01 r, 1.01^2 r, ... until one is
    from_beyond  from (1 + reach) r to (1 - reach) r and no farther: the stealthy attacks'

Each gives the nearest adversarial point that it found, or None if it came to none.

Outward: from the source along a direction, in equal steps, until a point is adversarial.

So GeoDA's authors and qFool come from a normal to a point behind the boundary. All points but the
last are flagged.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..core.ask import Answers, Ask, Asking, Iterate, T, Until, first_adversarial, handled
from ..core.problem import Problem
from ..engine.points import LinearPoint, LinearRows
from .paths import Segment
from .searches import PHASE, Search

INWARD, OUTWARD = 0.99, 1.01
MOST_STEPS = 70
"""Of 1 %: to twice the radius, or half of it."""
FARTHEST = OUTWARD**MOST_STEPS
"""What a ray without a boundary up to there counts as, in units of the radius."""


class OnRay(LinearRows):
    """Points of a ray at given radii, as rows."""

    def __init__(self, source: Tensor, ray: Tensor, radii: Sequence[float]) -> None:
        self._source, self._ray, self.radii = source, ray, radii

    def __len__(self) -> int:
        return len(self.radii)

    def __getitem__(self, rows: slice) -> Tensor:
        first, last, _ = rows.indices(len(self.radii))
        return torch.stack([self.linear_point(row).point() for row in range(first, last)])

    def linear_point(self, row: int) -> LinearPoint:
        """The terms of one row."""
        return LinearPoint(self._source, self._ray, self.radii[row])

    def point(self, row: int) -> Tensor:
        """One of them."""
        return self.linear_point(row).point()


def booked(asking: Asking[T], phase: str) -> Asking[T]:
    """The same asking, with all its queries booked under one phase."""

    def under_phase(ask: Ask) -> Asking[Answers]:
        return (yield Ask(runs=ask.runs, phase=phase))

    return handled(asking, under_phase)


def inward(
    problem: Problem,
    search: Search,
    ray: Tensor,
    radius: float,
    scale: float = 1.0,
    known: Iterate | None = None,
) -> Asking[Iterate | None]:
    """The boundary at `radius` or nearer; None if the ray is not adversarial there.

    `known`: its point at that radius, if it was asked already, and found adversarial.
    """
    first = 0 if known is None else 1
    points = OnRay(
        problem.source, ray, [radius * INWARD**step for step in range(first, MOST_STEPS + 1)]
    )
    answers = yield Ask(points, until=Until.NOT_ADVERSARIAL, phase=PHASE)
    passed = int(answers.adversarial.sum())
    if passed:
        known = Iterate(points.point(passed - 1), float(answers.distances[passed - 1]))
    if known is None:
        return None
    if passed == len(points):
        return (yield from search(problem, Segment(problem.source, known), scale))
    width = points.radii[passed] * (1 / INWARD - 1)
    return (yield from search(problem, Segment(points.point(passed), known, width), scale))


def around(
    problem: Problem, search: Search, ray: Tensor, radius: float, scale: float = 1.0
) -> Asking[Iterate | None]:
    """The boundary, wherever it is up to about twice the radius."""
    found = yield from inward(problem, search, ray, radius, scale)
    if found is not None:
        return found
    radii = [radius * OUTWARD**step for step in range(MOST_STEPS + 1)]
    inner, points = OnRay(problem.source, ray, radii), OnRay(problem.source, ray, radii[1:])
    answers = yield Ask(points, until=Until.ADVERSARIAL, phase=PHASE)
    if not answers.adversarial[-1]:
        return None
    row = len(answers) - 1
    outer = Iterate(points.point(row), float(answers.distances[row]))
    line = Segment(inner.point(row), outer, radii[row + 1] - radii[row])
    return (yield from search(problem, line, scale))


def from_beyond(
    problem: Problem,
    search: Search,
    ray: Tensor,
    radius: float,
    reach: float,
    scale: float = 1.0,
    phase: str = PHASE,
) -> Asking[Iterate | None]:
    """The boundary between (1 - reach) and (1 + reach) of the radius, from the outer end on."""
    ends = OnRay(problem.source, ray, [(1 + reach) * radius, (1 - reach) * radius])
    answers = yield Ask(ends[0:1], phase=phase)
    if not answers.adversarial[0]:
        return None
    outer = Iterate(ends.point(0), float(answers.distances[0]))
    line = Segment(ends.point(1), outer, 2 * reach * radius)
    return (yield from search(problem, line, scale))


class _Multiples:
    """Rows source + k step, k = 1, 2, ..., clipped."""

    def __init__(self, source: Tensor, step: Tensor, count: int) -> None:
        self._source, self._step, self._count = source, step, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, rows: slice) -> Tensor:
        first, last, _ = rows.indices(self._count)
        points = [torch.add(self._source, self._step, alpha=k + 1) for k in range(first, last)]
        return torch.stack(points).clamp_(0, 1)


def walk_outward(problem: Problem, step: Tensor, count: int) -> Asking[Iterate | None]:
    """The first adversarial of x* + step, x* + 2 step, ...; None if none of them is."""
    return first_adversarial(_Multiples(problem.source, step, count), "step")
