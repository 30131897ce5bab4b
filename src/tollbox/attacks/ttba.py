"""TtBA (Wang, Zuo, Huang, Chen 2025): two thirds of the bridge between two directions.

Iteration t: estimate the normal n at the boundary point x_t. Let v be the unit vector from x* to
x_t, and R = |x_t - x*|. The directions v(k) = unit((1 - k) v + k n) form a bridge from v to n. A
search over k finds k_bridge, up to which they are adversarial at radius R. The next direction is
v(k) at k = 2/3 k_bridge: a plane boundary would be closest at half of k_bridge, but the authors
measured 2/3 on networks. (The share is 9/10 for a short bridge, up to 0.1, and is interpolated
between 0.1 and 0.2.) A search along the line from there to the source follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from ..core.ask import Asking, Iterate, first_adversarial
from ..core.problem import Problem
from ..core.validation import MAX_VALUE, whole
from ..parts.paths import Path, Segment
from ..parts.searches import PHASE, SplitRule, narrow
from ..parts.vectors import unit
from .descent import Descent, Move, Project

SHORT_BRIDGE, LONG_BRIDGE = 0.1, 0.2
SHORT_SHARE, LONG_SHARE = 0.9, 2 / 3
"""Shares of k_bridge to follow if it is at most SHORT_BRIDGE, and at least LONG_BRIDGE."""


def step_of(bridge: float) -> float:
    """Return k for k_bridge."""
    if bridge <= SHORT_BRIDGE:
        return SHORT_SHARE * bridge
    if bridge >= LONG_BRIDGE:
        return LONG_SHARE * bridge
    first, last = SHORT_SHARE * SHORT_BRIDGE, LONG_SHARE * LONG_BRIDGE
    return first + (last - first) * (bridge - SHORT_BRIDGE) / (LONG_BRIDGE - SHORT_BRIDGE)


class Bridge(Path):
    """The path x* + R v(k), k from 0 to 1; the norm that scales v(k) stays on the device."""

    def __init__(self, source: Tensor, start: Iterate, normal: Tensor) -> None:
        self.start, self._source, self._normal = start, source, normal
        self._ahead = unit(start.point - source)
        self.length = start.distance  # approximate: the angle is at most half a turn

    def __call__(self, theta: float) -> Tensor:
        blend = unit(self._ahead * (1 - theta) + self._normal * theta)
        return torch.add(self._source, blend, alpha=self.start.distance).clamp_(0, 1)


@dataclass(frozen=True)
class TtBA(Descent):
    """TtBA with a start, a search and an estimate as parts."""

    asymmetric: bool = False
    """Whether the bridge is split 1 : c* as in Algorithm 1; if not, it is halved."""
    bins: Annotated[int, whole(2, MAX_VALUE)] = 1000
    """Number of bins of the bridge."""

    def begin(self, problem: Problem) -> Move:
        rule = SplitRule(problem.prices.ratio if self.asymmetric else 1.0)

        def move(_: int, iterate: Iterate, normal: Tensor, project: Project) -> Asking[Iterate]:
            bridge = Bridge(problem.source, iterate, normal)
            last, place = yield from narrow(bridge, self.bins, rule, PHASE)
            if not place:
                return iterate
            k = step_of(place / self.bins)
            problem.note(bridge=place / self.bins)
            moved = yield from first_adversarial(bridge(k)[None], "step")
            return (yield from project(Segment(problem.source, moved or last)))

        return move
