"""GeoDA (Rahmati, Moosavi-Dezfooli, Frossard, Dai 2020), in the paper's form and its authors'.

`GeoDA` has the paper's modified line search. Iteration t: estimate a direction g at the boundary
point x_t and add it to the earlier ones, m = unit(m + g). Query x* + r m for r = |x_t - x*|, then
1.1 times as far each time, until one is adversarial, and search the line from there to the source.
(The original walks outward from x* and is flagged all the way to the boundary; a good direction is
adversarial at |x_t - x*| at once.) Stealthy GeoDA adds without normalising, m = m + g, so that its
first query is |m| times as far away.

`GeoDAOriginal`. Iteration i = 0, 1, ...: estimate the normal at the boundary point with q_i queries
and add it to the earlier ones. Walk outward from x* along the sum in steps of epsilon times its
length until a point is adversarial; all earlier answers are flagged. Search the line from there to
the source. The optimal split of a budget is q_i ~ mu^(-2i/3), with mu = 0.6; for 4,000 queries the
published code uses nine estimates, the first with 75 queries. An attack does not know its budget,
so it continues this split at the same rate. The published code sums means of standard normal
directions, each about sqrt(d' / q_i) long. Here unit directions are weighted by sqrt(d / q_i), and
epsilon accounts for the rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from ..core.ask import Asking, Iterate
from ..core.problem import Problem
from ..core.validation import MAX_VALUE, above
from ..errors import InputError, mention
from ..parts.rays import outward
from ..parts.registry import Count, InnerFraction, Positive
from ..parts.vectors import LazyRows
from .descent import Descent, Move, Project, step_and_project

LARGEST_GROWTH = 1e30
"""Largest multiple of |x_t - x*| that is queried, so that all points are finite."""
EXPONENT = 2 / 3


def growing_radii(source: Tensor, step: Tensor, growth: float, count: int) -> LazyRows:
    """Return the rows source + growth^k step, k = 0, 1, ..., clipped."""
    return LazyRows.stack(
        range(count), lambda k: torch.add(source, step, alpha=growth**k).clamp_(0, 1)
    )


@dataclass(frozen=True)
class GeoDA(Descent):
    """GeoDA with a start, a search and an estimate as parts."""

    growth: Annotated[float, above(1, MAX_VALUE)] = 1.1
    growths: Count = 50
    """Maximum number of radii queried."""
    unit_mean: bool = True
    """Whether m is a unit vector; if not, it is the plain sum of the directions."""

    def check_together(self) -> None:
        if (self.growths - 1) * math.log10(self.growth) > math.log10(LARGEST_GROWTH):
            raise InputError(
                f"is {self.growths}",
                input="growths",
                expected=f"fewer, or a {mention('growth')} below {self.growth:g}, so that "
                f"growth ** (growths - 1) is at most {LARGEST_GROWTH:g}",
            )

    def begin(self, problem: Problem) -> Move:
        mean = torch.zeros_like(problem.source)

        def move(_: int, iterate: Iterate, direction: Tensor, project: Project) -> Asking[Iterate]:
            mean.add_(direction)
            if self.unit_mean:
                mean.div_(torch.linalg.vector_norm(mean))
            step = mean * torch.linalg.vector_norm(iterate.point - problem.source)
            points = growing_radii(problem.source, step, float(self.growth), self.growths)
            return step_and_project(problem, iterate, points, project)

        return move


@dataclass(frozen=True)
class GeoDAOriginal(Descent):
    """The authors' GeoDA with a start, a search and an estimate as parts."""

    queries: Count = 75
    """q_0, the number of queries in the first estimate."""
    mu: InnerFraction = 0.6
    """Rate of q_i = q_0 mu^(-2i/3), which is at most a million."""
    epsilon: Positive = 0.375
    """Step: a third of 1.125 (5 in normalised pixels), because d' is a ninth of d."""
    steps: Count = 100
    """Maximum number of steps in a walk."""

    def planned(self, t: int) -> int:
        """Return q_i for i = t - 1."""
        growth = -EXPONENT * (t - 1) * math.log(self.mu)
        return round(math.exp(min(math.log(self.queries) + growth, math.log(MAX_VALUE))))

    def begin(self, problem: Problem) -> Move:
        total = torch.zeros_like(problem.source)

        def move(t: int, iterate: Iterate, direction: Tensor, project: Project) -> Asking[Iterate]:
            total.add_(direction, alpha=math.sqrt(problem.dimension / self.planned(t)))
            points = outward(problem.source, total * self.epsilon, self.steps)
            return step_and_project(problem, iterate, points, project)

        return move
