"""Adaptive: an estimate whose radius follows the share of adversarial answers, as qFool's does.

A search leaves its point a little outside the boundary. A radius that is small against what is left
has adversarial answers only. So after an estimate with the share p of these the next radius is

    omega' = omega (1/2 + p)

more if most were adversarial, less if most were flagged, as where the boundary is curved. It is at
most a tenth of the distance.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ..core.ask import Asking, Iterate
from ..core.problem import Problem
from .estimates import Estimate, Estimator, MonteCarlo
from .registry import register

WIDEST = 0.1
"""The largest radius, as a share of the distance."""


@register(Estimate)
@dataclass(frozen=True)
class AdaptiveMonteCarlo(MonteCarlo):
    """`MonteCarlo` with a radius that begins at `delta`, and adapts."""

    def begin(self, problem: Problem) -> Estimator:
        """For one image, with its own radius."""
        return _Adapting(self, problem).estimate


class _Adapting:
    def __init__(self, part: AdaptiveMonteCarlo, problem: Problem) -> None:
        self._part, self._problem, self._omega = part, problem, part.delta

    def estimate(self, t: int, iterate: Iterate, queries: int) -> Asking[Tensor | None]:
        part, problem = self._part, self._problem
        widest = max(WIDEST * iterate.distance, problem.resolution)
        self._omega = min(max(self._omega, problem.resolution), widest)
        now = MonteCarlo(self._omega, part.chunk, part.subspace, part.weighted)
        direction = yield from now.begin(problem)(t, iterate, queries)
        problem.note(radius=self._omega)
        self._omega *= 0.5 + float(problem.notes["share"])
        return direction
