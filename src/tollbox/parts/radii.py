"""Radii: estimates around a boundary point whose sampling radius follows the run.

    relative   delta_t = delta |x_t - x*| / d^power; 0.1 at t = 1 (HSJA: Chen et al. 2020)
    adaptive   delta_{t+1} = delta_t (1/2 + p), p the share of adversarial answers (qFool)

HSJA has theta = gamma / d^1.5 of the way to the source, where its searches end (`ThetaSearch`), and
the radius sqrt(d) theta |x_t - x*|, which is |x_t - x*| / d with gamma = 1; for ℓ∞ theta is
gamma / d^2 and the radius d theta times the distance, which is the same. QEBA has theta = 0.01 /
sqrt(d), so that its radius is 0.01 |x_t - x*|. (The distance is that of x_t; the published code
takes that of the step before it was projected, which is a little more.)

A search leaves its point a little outside the boundary. A radius that is small against what is left
has adversarial answers only: an adaptive one then grows, up to a tenth of the distance, and shrinks
if most are flagged, as where the boundary is curved.

Each wraps any estimate that has a `delta`. No radius is so small that the dtype of the points
cannot tell samples apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from torch import Tensor

from ..core.ask import Asking, Iterate
from ..core.problem import Problem
from ..core.validation import MAX_VALUE, above, check, number, shown
from ..errors import InputError
from .estimates import Estimate, Estimator, MonteCarlo
from .paths import Path
from .registry import register
from .searches import BinarySearch, Search

FIRST_DELTA = 0.1
"""The relative radius at t = 1."""
WIDEST = 0.1
"""The largest adaptive radius, as a share of the distance."""
LEAST_ROUNDINGS = 10
"""A radius is at least so many times what the points' dtype resolves."""
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


def _with_radius(inner: Estimate, delta: float) -> Estimate:
    """The same estimate with another radius; raises InputError if it has none."""
    made: Any = inner
    if not hasattr(inner, "delta"):
        raise InputError(
            f"is {shown(inner)}", expected="an estimate that has a delta", input="inner"
        )
    return replace(made, delta=delta)  # type: ignore[no-any-return]


def _resolved(problem: Problem, delta: float) -> float:
    """A radius that is not lost in rounding."""
    return float(min(max(delta, LEAST_ROUNDINGS * problem.resolution), MAX_VALUE))


@register(Estimate)
@dataclass(frozen=True)
class RelativeRadius:
    """An estimate with the radius delta |x_t - x*| / d^power."""

    inner: Estimate = field(default_factory=MonteCarlo)
    delta: float = 0.01
    power: float = 0.0

    def __post_init__(self) -> None:
        check(self, delta=above(0, MAX_VALUE), power=POWER)
        _with_radius(self.inner, self.delta)

    @property
    def rows(self) -> int:
        """The most points held at a time."""
        return self.inner.rows

    def tolerance_scale(self, problem: Problem) -> float:
        """What the estimate itself needs."""
        return self.inner.tolerance_scale(problem)

    def begin(self, problem: Problem) -> Estimator:
        """For one image."""
        return partial(self._estimate, problem)

    def _estimate(
        self, problem: Problem, t: int, iterate: Iterate, queries: int
    ) -> Asking[Tensor | None]:
        shrunk = self.delta * iterate.distance / problem.dimension**self.power
        now = _with_radius(self.inner, FIRST_DELTA if t == 1 else _resolved(problem, shrunk))
        return now.begin(problem)(t, iterate, queries)


@register(Estimate)
@dataclass(frozen=True)
class AdaptiveRadius:
    """An estimate with a radius that begins at `delta`, and adapts to its answers."""

    inner: Estimate = field(default_factory=MonteCarlo)
    delta: float = 0.0045

    def __post_init__(self) -> None:
        check(self, delta=above(0, MAX_VALUE))
        _with_radius(self.inner, self.delta)

    @property
    def rows(self) -> int:
        """The most points held at a time."""
        return self.inner.rows

    def tolerance_scale(self, problem: Problem) -> float:
        """What the estimate itself needs."""
        return self.inner.tolerance_scale(problem)

    def begin(self, problem: Problem) -> Estimator:
        """For one image, with its own radius."""
        return _Adapting(self, problem).estimate


class _Adapting:
    def __init__(self, part: AdaptiveRadius, problem: Problem) -> None:
        self._inner, self._problem, self._delta = part.inner, problem, part.delta

    def estimate(self, t: int, iterate: Iterate, queries: int) -> Asking[Tensor | None]:
        problem = self._problem
        self._delta = _resolved(problem, min(self._delta, WIDEST * iterate.distance))
        now = _with_radius(self._inner, self._delta)
        direction = yield from now.begin(problem)(t, iterate, queries)
        problem.note(radius=self._delta)
        self._delta *= 0.5 + float(problem.notes["share"])
        return direction
