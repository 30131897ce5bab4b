"""Comparisons: which of two directions from the source has its boundary at the smaller distance.

The points of a direction v are x* + r v, clipped to [0,1], and r is their radius. One direction is
known to be adversarial at the radius `high` and assumed not to be at `low`. A comparison returns
the direction that wins, with what is known of it. Equal directions: the known one wins.

`CommonRadius` (ADBA, Wang et al. 2025, Algorithm 2, with the first queries of SeRI) queries the new
direction at `high`, and if `low` is above 0 there as well. Then it queries both at a common radius
r between `low` and `high`. If only one is adversarial, it wins. If both are, `high` becomes r; if
neither is, `low` does. theory/comparison_costs.py has the best r and the expected cost: 4 queries
at c* = 1, and (1 + sqrt(c*))^2 in general.

`FollowInward` (SAR, 2026) queries the new direction at `high` only. If it is adversarial, it wins,
and the line from there to the source is searched.
"""

from __future__ import annotations

from dataclasses import field
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from ..core.ask import Ask, Asking, Iterate, first_adversarial
from ..core.problem import Problem
from ..theory.comparison_costs import radius_of, share_to_query
from .paths import Segment
from .registry import Checked, Depth, InnerFraction, register
from .searches import BinarySearch, Search
from .vectors import unit

PHASE = "compare"
NARROWEST = 0.01
"""Least share of a bracket on either side of a radius; c* may be infinite."""


class Bracket(NamedTuple):
    """A direction whose boundary lies between two radii."""

    direction: Tensor
    low: float
    high: float
    point: Iterate
    """The adversarial point at `high`."""


class Comparison(Protocol):
    """A part that compares a known direction with a new one."""

    def __call__(self, problem: Problem, known: Bracket, new: Tensor) -> Asking[Bracket]:
        """Return what is known of the direction that wins. If the known one wins, the bracket has
        the same tensor as its direction."""


def _points(problem: Problem, directions: list[Tensor], radius: float) -> Tensor:
    made = [torch.add(problem.source, way, alpha=radius) for way in directions]
    return torch.stack(made).clamp_(0, 1)


@register(Comparison)
class CommonRadius(Checked):
    """ADBA's comparison, at radii that both directions share."""

    tau: InnerFraction = 1e-5
    """Width of a bracket, as a fraction of the first radius, at which directions are equal."""
    rounds: Depth = 17
    """Maximum number of common radii."""
    measured: bool = True
    """Whether boundaries are distributed as ADBA's authors measured (ADBA-md), or evenly."""
    priced: bool = False
    """Whether the radius follows from the prices, or is the median whatever they are."""

    def __call__(self, problem: Problem, known: Bracket, new: Tensor) -> Asking[Bracket]:
        first = yield from first_adversarial(_points(problem, [new], known.high), PHASE)
        if first is None:
            return known
        if known.low > 0:
            inner = yield from first_adversarial(_points(problem, [new], known.low), PHASE)
            if inner is not None:
                return Bracket(new, 0.0, known.low, inner)
        ways, found = [known.direction, new], [known.point, first]
        low, high, top = known.low, known.high, known.high
        share = share_to_query(problem.prices.ratio) if self.priced else 0.5
        share = min(max(share, NARROWEST), 1 - NARROWEST)
        for _ in range(self.rounds):
            if high - low <= self.tau * top:
                break
            radius = low + share * (high - low)
            if self.measured:
                radius = radius_of(share, low, high, top)
            points = _points(problem, ways, radius)
            answers = yield Ask(points, phase=PHASE)
            passed = answers.adversarial
            if not passed.any():
                low = radius
                continue
            found = [
                Iterate(points[row], float(answers.distances[row])) if passed[row] else found[row]
                for row in (0, 1)
            ]
            high = radius
            if not passed.all():
                row = int(passed.argmax())
                return Bracket(ways[row], low, high, found[row])
        return Bracket(known.direction, low, high, found[0])


@register(Comparison)
class FollowInward:
    """SAR's comparison: one query, and a search inward from a success."""

    search: Search = field(default_factory=lambda: BinarySearch(1e-4, phase=PHASE))

    def __call__(self, problem: Problem, known: Bracket, new: Tensor) -> Asking[Bracket]:
        start = yield from first_adversarial(_points(problem, [new], known.high), PHASE)
        if start is None:
            return known
        found = yield from self.search(problem, Segment(problem.source, start))
        return Bracket(unit(found.point - problem.source), 0.0, found.distance, found)
