"""HSJA's own radius of sampling: it shrinks with the distance, in whatever metric that is.

delta is `first` at t = 1 and gamma |x_t - x*| / d from then on (Chen et al. 2020: d theta times the
distance with theta = gamma / d^2 for ℓ∞, sqrt(d) theta times it with theta = gamma / d^1.5 for ℓ2,
which is the same), but never so small that the points' dtype cannot tell the samples apart. All
else is the Monte Carlo estimate (estimates.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from torch import Tensor

from ..core.ask import Asking, Iterate
from ..core.problem import Problem
from ..core.ranges import MAX_VALUE, above, check, whole
from .estimates import Estimate, Estimator, MonteCarlo
from .registry import register
from .subspaces import Full, Prior

LEAST_ROUNDINGS = 10
"""delta is at least so many times what the points' dtype can resolve."""


@register(Estimate)
@dataclass(frozen=True)
class ShrinkingMonteCarlo:
    """Monte Carlo around the boundary point itself, with a radius by the distance."""

    first: float = 0.1
    """delta at t = 1."""
    gamma: float = 1.0
    chunk: int = 128
    subspace: Prior = field(default_factory=Full)

    def __post_init__(self) -> None:
        check(self, first=above(0, MAX_VALUE), gamma=above(0, MAX_VALUE), chunk=whole(1, MAX_VALUE))

    @property
    def rows(self) -> int:
        """The most points held at a time."""
        return self.chunk

    def tolerance_scale(self, problem: Problem) -> float:  # noqa: ARG002
        """The search's own tolerance will do."""
        return 1.0

    def begin(self, problem: Problem) -> Estimator:
        """For one image."""
        return partial(self._estimate, problem)

    def _estimate(
        self, problem: Problem, t: int, iterate: Iterate, queries: int
    ) -> Asking[Tensor | None]:
        shrunk = self.gamma * iterate.distance / problem.dimension
        delta = self.first if t == 1 else max(shrunk, LEAST_ROUNDINGS * problem.resolution)
        return MonteCarlo(delta, self.chunk, self.subspace).begin(problem)(t, iterate, queries)
