"""TtBA (Wang, Zuo, Huang, Chen 2025): two thirds of the bridge between two directions.

Iteration t: estimate the normal n at the boundary point x_t, with v the unit vector from x* to x_t
and R = |x_t - x*|. The directions v(k) = unit((1 - k) v + k n) are a bridge from v to n; at the
radius R they are adversarial up to some k_bridge, which a search over k finds. The next direction
is v(k) at two thirds of it: at a plane the boundary would be nearest along the middle of the
bridge, and its authors measured two thirds on networks. (Of a short bridge, up to 0.1, nine tenths
are taken; from there to 0.2, in between.) The line from there to the source is searched.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.ask import Asking, Iterate, first_adversarial
from ..core.metric import Metric
from ..core.problem import Problem
from ..core.stop import Stop
from ..core.validation import MAX_LIMIT, MAX_VALUE, check, whole
from ..engine.points import LinearPoint
from ..parts.estimates import Estimate
from ..parts.paths import Segment
from ..parts.searches import PHASE, Search, SplitRule, narrow
from ..parts.starts import Start
from ..parts.vectors import unit
from .descent import Project, descend

SHORT_BRIDGE, LONG_BRIDGE = 0.1, 0.2
SHORT_SHARE, LONG_SHARE = 0.9, 2 / 3
"""What is taken of a bridge up to SHORT_BRIDGE, and of one from LONG_BRIDGE on."""


def step_of(bridge: float) -> float:
    """k by k_bridge."""
    if bridge <= SHORT_BRIDGE:
        return SHORT_SHARE * bridge
    if bridge >= LONG_BRIDGE:
        return LONG_SHARE * bridge
    first, last = SHORT_SHARE * SHORT_BRIDGE, LONG_SHARE * LONG_BRIDGE
    return first + (last - first) * (bridge - SHORT_BRIDGE) / (LONG_BRIDGE - SHORT_BRIDGE)


class Bridge:
    """A path: x* + R v(k), k from 0 to 1."""

    def __init__(self, source: Tensor, start: Iterate, normal: Tensor) -> None:
        self.start, self._source, self._normal = start, source, normal
        self._ahead = unit(start.point - source)
        self.length = start.distance  # about: an angle of up to half a turn

    def __call__(self, theta: float) -> Tensor:
        """T(theta)."""
        blend = unit(self._ahead * (1 - theta) + self._normal * theta)
        return torch.add(self._source, blend, alpha=self.start.distance).clamp_(0, 1)

    def linear_point(self, theta: float) -> LinearPoint | None:  # noqa: ARG002
        """None: the length of the blend is known to the device alone."""
        return None


@dataclass(frozen=True)
class TtBA:
    """TtBA with a start, a search and an estimate as parts."""

    start: Start
    search: Search
    """Of lines to the source."""
    estimate: Estimate
    asymmetric: bool = False
    """The bridge is searched as Algorithm 1 does, split 1 : c*; if not, by halves."""
    bins: int = 1000
    """Of the bridge."""
    queries: int = 30
    """n_0: the vanilla estimate at iteration t has n_0 sqrt(t) queries."""
    blind_limit: int = 10
    iterations: int = 10_000

    metrics = (Metric.L2,)

    def __post_init__(self) -> None:
        check(self, bins=whole(2, MAX_VALUE), queries=whole(1, MAX_VALUE))
        check(self, blind_limit=whole(1, MAX_LIMIT), iterations=whole(1, MAX_LIMIT))

    @property
    def rows(self) -> int:
        """The most points held at a time."""
        return self.estimate.rows

    def __call__(self, problem: Problem) -> Asking[Stop]:
        """Attack one image."""
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

        return descend(problem, self, move)
