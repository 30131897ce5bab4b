"""HopSkipJump (Chen, Jordan, Wainwright 2020) with the paper's parts.

Iteration t: estimate a direction g at the boundary point x_t with n_0 sqrt(t) queries; step
|x_t - x*| / sqrt(t) along g, halved until the point is adversarial; search the line from there to
the source for the next boundary point. All points in [0,1].

A step that never becomes adversarial leaves the iterate where it is.

HopSkipJump for ℓ∞ (Chen, Jordan, Wainwright 2020), with the same parts as for ℓ2.

Iteration t: estimate a direction g at the boundary point x_t with n_0 sqrt(t) queries, as for ℓ2;
step |x_t - x*|∞ / sqrt(t) along sign(g), halved until the point is adversarial; project: clip that
point to the smallest ℓ∞ ball around the source in which it stays adversarial (`paths.Box`), whose
radius is searched for. All points in [0,1].

A step that never becomes adversarial leaves the iterate where it is.

QEBA (Li, Xu, Zhang, Yang, Li 2020): HopSkipJump in a subspace.

As HSJA (hsja.py), but that directions are drawn in a small subspace (of cosines, of small images
made larger, or of principal components of gradients), and that every estimate has as many queries
as the first. What is gained is the dimension: the cosine of an estimate goes as sqrt(n / d').
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.ask import Asking, Iterate, first_adversarial
from ..core.metric import Metric
from ..core.problem import Problem
from ..core.stop import Stop
from ..core.validation import MAX_DEPTH, MAX_LIMIT, MAX_VALUE, check, whole
from ..parts.estimates import Estimate
from ..parts.paths import Box, Segment
from ..parts.searches import Search
from ..parts.starts import Start
from .descent import Move, Project, descend


class Halved:
    """Rows point + step 2^-k direction, k = 0, 1, ..., clipped."""

    def __init__(self, point: Tensor, step: Tensor, count: int) -> None:
        self._point, self._step, self._count = point, step, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, rows: slice) -> Tensor:
        first, last, _ = rows.indices(self._count)
        powers = torch.arange(first, last, device=self._step.device, dtype=self._step.dtype)
        scale = torch.exp2(-powers).view(-1, 1, 1, 1)
        return (self._step * scale).add_(self._point).clamp_(0, 1)


def hop(problem: Problem, halvings: int) -> Move:
    """The geometric step: |x_t - x*| / sqrt(t), halved until it is adversarial, and the search from
    there."""

    def move(t: int, iterate: Iterate, direction: Tensor, project: Project) -> Asking[Iterate]:
        length = torch.linalg.vector_norm(iterate.point - problem.source) / math.sqrt(t)
        points = Halved(iterate.point, direction * length, halvings)
        moved = yield from first_adversarial(points, "step")
        if moved is None:
            return iterate
        return (yield from project(Segment(problem.source, moved)))

    return move


@dataclass(frozen=True)
class Hopping:
    """What HopSkipJump and those after it are made of: a start, a search, an estimate, and a step
    that is halved until it is adversarial."""

    start: Start
    search: Search
    estimate: Estimate
    queries: int = 30
    """n_0: the vanilla estimate at iteration t has n_0 sqrt(t) queries."""
    halvings: int = 20
    blind_limit: int = 10
    iterations: int = 10_000

    metrics = (Metric.L2,)

    def __post_init__(self) -> None:
        check(self, queries=whole(1, MAX_VALUE), halvings=whole(1, MAX_DEPTH))
        check(self, blind_limit=whole(1, MAX_LIMIT), iterations=whole(1, MAX_LIMIT))

    @property
    def rows(self) -> int:
        """The most points held at a time."""
        return self.estimate.rows


@dataclass(frozen=True)
class HSJA(Hopping):
    """HopSkipJump with a start, a search and an estimate as parts."""

    def __call__(self, problem: Problem) -> Asking[Stop]:
        """Attack one image."""
        return descend(problem, self, hop(problem, self.halvings))


@dataclass(frozen=True)
class HSJALinf(Hopping):
    """HopSkipJump for ℓ∞ with a start, a search and an estimate as parts."""

    queries: int = 100

    metrics = (Metric.LINF,)

    def __call__(self, problem: Problem) -> Asking[Stop]:
        """Attack one image."""

        def move(t: int, iterate: Iterate, direction: Tensor, project: Project) -> Asking[Iterate]:
            step = direction.sign() * (iterate.distance / math.sqrt(t))
            moved = yield from first_adversarial(Halved(iterate.point, step, self.halvings), "step")
            if moved is None:
                return iterate
            return (yield from project(Box(problem.source, moved)))

        return descend(problem, self, move)


@dataclass(frozen=True)
class QEBA(Hopping):
    """QEBA with a start, a search and an estimate as parts."""

    queries: int = 100
    """Of every estimate."""

    def __call__(self, problem: Problem) -> Asking[Stop]:
        """Attack one image."""
        return descend(problem, self, hop(problem, self.halvings), lambda _: self.queries)
