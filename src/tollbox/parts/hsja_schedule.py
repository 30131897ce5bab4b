"""HSJA's schedule: tolerance and radius in units of the distance (Chen, Jordan, Wainwright 2020).

    theta   = gamma / d^p                  of the way to the source: where a search ends
    delta_t = sqrt(d) theta |x_t - x*|     the radius of an estimate; 0.1 at t = 1

HSJA has gamma = 1 and p = 3/2, so that delta_t = |x_t - x*| / d; QEBA gamma = 0.01 and p = 1/2, so
that delta_t = 0.01 |x_t - x*|. (The distance in delta_t is that of x_t; the published code takes
that of the step before it was projected, which is a little more.) A radius is never below what
the dtype of the points resolves.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ..core.ask import Asking, Iterate
from ..core.problem import Problem
from ..core.ranges import MAX_VALUE, above, check, number
from .estimates import Agrest, Estimate, MonteCarlo
from .paths import Path
from .registry import register
from .searches import BinarySearch, Search

FIRST_DELTA = 0.1
"""The radius at t = 1."""
COARSEST_THETA = 0.5
"""A search asks once, at least."""
POWER = number(0, 10)


@register(Search)
@dataclass(frozen=True)
class ThetaSearch:
    """Halves the interval down to theta = gamma / d^power of the path."""

    gamma: float = 1.0
    power: float = 1.5

    def __post_init__(self) -> None:
        check(self, gamma=above(0, MAX_VALUE), power=POWER)

    def __call__(self, problem: Problem, path: Path, scale: float = 1.0) -> Asking[Iterate]:
        """The last adversarial point."""
        theta = max(self.gamma / problem.dimension**self.power, 1e-300)
        return BinarySearch(min(theta, COARSEST_THETA), relative=True)(problem, path, scale)


def _radius(problem: Problem, t: int, iterate: Iterate, delta: float, power: float) -> float:
    """delta_t."""
    if t == 1:
        return FIRST_DELTA
    length = delta * iterate.distance / problem.dimension**power
    return float(min(max(length, problem.resolution), MAX_VALUE))


@register(Estimate)
@dataclass(frozen=True)
class RelativeMonteCarlo(MonteCarlo):
    """`MonteCarlo` with the radius delta |x_t - x*| / d^power."""

    delta: float = 0.01
    power: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self, power=POWER)

    def _estimate(
        self, problem: Problem, t: int, iterate: Iterate, queries: int
    ) -> Asking[Tensor | None]:
        delta = _radius(problem, t, iterate, self.delta, self.power)
        now = MonteCarlo(delta, self.chunk, self.subspace, self.weighted)
        return now.begin(problem)(t, iterate, queries)


@register(Estimate)
@dataclass(frozen=True)
class RelativeAgrest(Agrest):
    """`Agrest` with the radius delta |x_t - x*| / d^power."""

    delta: float = 0.01
    power: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self, power=POWER)

    def _estimate(
        self, problem: Problem, t: int, iterate: Iterate, queries: int
    ) -> Asking[Tensor | None]:
        delta = _radius(problem, t, iterate, self.delta, self.power)
        now = Agrest(delta, self.m, self.chunk, self.subspace, self.refuse_one_sided)
        return now.begin(problem)(t, iterate, queries)
