"""Radii: estimates around a boundary point whose sampling radius changes during the run.

    relative   delta_t = delta |x_t - x*| / d^power; 0.1 at t = 1 (HSJA: Chen et al. 2020)
    adaptive   delta_{t+1} = delta_t (1/2 + p), p the share of adversarial answers (qFool)

HSJA's searches end at theta = gamma / d^1.5 of the path (`ThetaSearch`), and its radius is
sqrt(d) theta |x_t - x*|, which is |x_t - x*| / d with gamma = 1. For ℓ∞, theta is gamma / d^2 and
the radius d theta times the distance, which is the same. QEBA's theta is 0.01 / sqrt(d), so that
its radius is 0.01 |x_t - x*|. (The distance is that of x_t. The published code uses the distance of
the step before its projection, which is slightly larger.)

A search leaves its point slightly outside the boundary. A radius that is small compared with this
gap gives adversarial answers only: an adaptive radius then grows, to at most a tenth of the
distance. It shrinks if most answers are flagged, as they are where the boundary is curved.

Each part wraps any estimate that has a `delta`. No radius is so small that the dtype of the points
cannot distinguish samples.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from torch import Tensor

from ..core.ask import Asking, Iterate
from ..core.problem import Problem
from ..core.validation import MAX_VALUE, number, require
from .estimates import Estimate, Estimator, MonteCarlo
from .paths import Path
from .registry import Checked, Positive, register
from .searches import BinarySearch, Search

FIRST_DELTA = 0.1
"""The relative radius at t = 1."""
LARGEST_SHARE = 0.1
"""Maximum adaptive radius, as a share of the distance."""
MIN_ROUNDINGS = 10
"""Minimum radius, in units of the resolution of the points' dtype."""
COARSEST_THETA = 0.5
"""Maximum tolerance, so that a search sends at least one query."""
Power = Annotated[float, number(0, 10)]


@register(Search)
class ThetaSearch(Checked):
    """Binary search down to theta = gamma / d^power of the path."""

    gamma: Positive = 1.0
    power: Power = 1.5

    def __call__(self, problem: Problem, path: Path, scale: float = 1.0) -> Asking[Iterate]:
        theta = max(self.gamma / problem.dimension**self.power, 1e-300)
        return BinarySearch(min(theta, COARSEST_THETA), relative=True)(problem, path, scale)


@dataclass(frozen=True)
class _Radius(Checked):
    """An estimate whose radius is replaced at each iteration."""

    inner: Estimate = field(default_factory=MonteCarlo)
    delta: Positive = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require(hasattr(self.inner, "delta"), "inner", self.inner, "an estimate that has a delta")

    @property
    def rows(self) -> int:
        return self.inner.rows

    def tolerance_scale(self, problem: Problem) -> float:
        return self.inner.tolerance_scale(problem)

    def _at_radius(self, problem: Problem, delta: float) -> Estimator:
        inner: Any = self.inner
        return replace(inner, delta=delta).begin(problem)  # type: ignore[no-any-return]


def _resolved(problem: Problem, delta: float) -> float:
    """Return the radius, raised if necessary so that it is not lost in rounding."""
    return float(min(max(delta, MIN_ROUNDINGS * problem.resolution), MAX_VALUE))


@register(Estimate)
class RelativeRadius(_Radius):
    """An estimate with the radius delta |x_t - x*| / d^power."""

    delta: Positive = 0.01
    power: Power = 0.0

    def begin(self, problem: Problem) -> Estimator:
        def estimate(t: int, iterate: Iterate, queries: int) -> Asking[Tensor | None]:
            shrunk = self.delta * iterate.distance / problem.dimension**self.power
            delta = FIRST_DELTA if t == 1 else _resolved(problem, shrunk)
            return self._at_radius(problem, delta)(t, iterate, queries)

        return estimate


@register(Estimate)
class AdaptiveRadius(_Radius):
    """An estimate with a radius that starts at `delta` and adapts to the answers."""

    delta: Positive = 0.0045

    def begin(self, problem: Problem) -> Estimator:
        delta = self.delta

        def estimate(t: int, iterate: Iterate, queries: int) -> Asking[Tensor | None]:
            nonlocal delta
            delta = _resolved(problem, min(delta, LARGEST_SHARE * iterate.distance))
            direction = yield from self._at_radius(problem, delta)(t, iterate, queries)
            problem.note(radius=delta)
            delta *= 0.5 + float(problem.notes["share"])
            return direction

        return estimate
