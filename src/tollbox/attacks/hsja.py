"""HopSkipJump (Chen, Jordan, Wainwright 2020) for ℓ2 and ℓ∞, and QEBA, with the paper's parts.

Iteration t: estimate a direction g at the boundary point x_t with n_0 sqrt(t) queries. Step
|x_t - x*| / sqrt(t) along g, halved until the point is adversarial; if it never is, the iterate
stays unchanged. Otherwise search the line from there to the source for the next boundary point. All
points are clipped to [0,1].

For ℓ∞ the step is |x_t - x*|∞ / sqrt(t) along sign(g), and the projection clips the point to the
smallest ℓ∞ ball around the source in which it stays adversarial (`paths.Box`).

QEBA (Li, Xu, Zhang, Yang, Li 2020) draws directions from a small subspace (of cosines, of enlarged
small images, or of principal components of gradients), and all its estimates have the same number
of queries. The gain is in the dimension: the cosine of an estimate grows as sqrt(n / d').
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.ask import Asking, Iterate
from ..core.metric import Metric
from ..core.problem import Problem
from ..parts.registry import Count, Depth
from ..parts.vectors import LazyRows
from .descent import Descent, Move, Project, step_and_project


def halved(point: Tensor, step: Tensor, count: int) -> LazyRows:
    """Return the rows point + 2^-k step, k = 0, 1, ..., clipped."""

    def make(first: int, last: int) -> Tensor:
        powers = torch.arange(first, last, device=step.device, dtype=step.dtype)
        scale = torch.exp2(-powers).view(-1, 1, 1, 1)
        return (step * scale).add_(point).clamp_(0, 1)

    return LazyRows(count, make)


@dataclass(frozen=True)
class Halving(Descent):
    """A descent with a step of length |x_t - x*| / sqrt(t) that is halved until its end is
    adversarial, followed by the search from there."""

    halvings: Depth = 20

    def begin(self, problem: Problem) -> Move:
        def move(t: int, iterate: Iterate, direction: Tensor, project: Project) -> Asking[Iterate]:
            length = torch.linalg.vector_norm(iterate.point - problem.source) / math.sqrt(t)
            points = halved(iterate.point, direction * length, self.halvings)
            return step_and_project(problem, iterate, points, project)

        return move


@dataclass(frozen=True)
class HSJA(Halving):
    """HopSkipJump with a start, a search and an estimate as parts."""


@dataclass(frozen=True)
class HSJALinf(Halving):
    """HopSkipJump for ℓ∞ with a start, a search and an estimate as parts."""

    queries: Count = 100

    metrics = (Metric.LINF,)

    def begin(self, problem: Problem) -> Move:
        def move(t: int, iterate: Iterate, direction: Tensor, project: Project) -> Asking[Iterate]:
            step = direction.sign() * (iterate.distance / math.sqrt(t))
            points = halved(iterate.point, step, self.halvings)
            return step_and_project(problem, iterate, points, project)

        return move


@dataclass(frozen=True)
class QEBA(Halving):
    """QEBA with a start, a search and an estimate as parts."""

    queries: Count = 100
    """Number of queries in every estimate."""

    def planned(self, t: int) -> int:  # noqa: ARG002
        return self.queries
