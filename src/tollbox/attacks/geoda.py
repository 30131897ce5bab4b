"""GeoDA (Rahmati, Moosavi-Dezfooli, Frossard, Dai 2020) with the paper's changed line search.

Iteration t: estimate a direction g at the boundary point x_t, and add it to those before,
m = unit(m + g); ask at x* + r m for r = |x_t - x*|, then 1.1 times as far each time, until it is
adversarial; search the line from there to the source. (The original walks outward from x* itself,
flagged all the way to the boundary; a good direction is adversarial at |x_t - x*| at once.)
Stealthy GeoDA adds up without dividing, m = m + g: its first radius is |m| times as far.

GeoDA as its authors have it (Rahmati, Moosavi-Dezfooli, Frossard, Dai 2020).

Iteration i = 0, 1, ...: estimate the normal at the boundary point with q_i queries, and add it to
those before; walk outward from x* along the sum in steps of epsilon times its length, until a point
is adversarial; search the line from there to the source. The optimal split of a budget is q_i ~
mu^(-2i/3), with mu = 0.6; for 4000 queries the published code finds nine estimates, from 75 queries
on. An attack does not know its budget: the split is that one, and goes on at the same rate.

The published sum is of means of standard normal directions, each about sqrt(d' / q_i) long; so unit
directions count sqrt(d / q_i) here, and epsilon has the rest. All of the walk but its last point is
flagged.
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
from ..core.validation import MAX_LIMIT, MAX_VALUE, above, between, check, whole
from ..errors import InputError, mention
from ..parts.estimates import Estimate
from ..parts.paths import Segment
from ..parts.rays import walk_outward
from ..parts.searches import Search
from ..parts.starts import Start
from .descent import Project, descend

LARGEST_GROWTH = 1e30
"""Times |x_t - x*|: a radius that a point can still hold."""


class _GrowingRadii:
    """Rows source + growth^k step, k = 0, 1, ..., clipped."""

    def __init__(self, source: Tensor, step: Tensor, growth: float, count: int) -> None:
        self._source, self._step, self._growth, self._count = source, step, growth, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, rows: slice) -> Tensor:
        first, last, _ = rows.indices(self._count)
        rise = [self._growth**k for k in range(first, last)]
        points = [torch.add(self._source, self._step, alpha=r).clamp_(0, 1) for r in rise]
        return torch.stack(points)


@dataclass(frozen=True)
class GeoDA:
    """GeoDA with a start, a search and an estimate as parts."""

    start: Start
    search: Search
    estimate: Estimate
    queries: int = 30
    """n_0: the vanilla estimate at iteration t has n_0 sqrt(t) queries."""
    growth: float = 1.1
    growths: int = 50
    """At most so many radii are asked."""
    unit_mean: bool = True
    """m is a unit vector; if not, the plain sum of the directions."""
    blind_limit: int = 10
    iterations: int = 10_000

    metrics = (Metric.L2,)

    def __post_init__(self) -> None:
        check(
            self,
            queries=whole(1, MAX_VALUE),
            growth=above(1, MAX_VALUE),
            growths=whole(1, MAX_VALUE),
        )
        check(self, blind_limit=whole(1, MAX_LIMIT), iterations=whole(1, MAX_LIMIT))
        if (self.growths - 1) * math.log10(self.growth) > math.log10(LARGEST_GROWTH):
            raise InputError(
                f"is {self.growths}",
                input="growths",
                expected=f"fewer, or a {mention('growth')} below {self.growth:g}, so that "
                f"growth ** (growths - 1) is at most {LARGEST_GROWTH:g}",
            )

    @property
    def rows(self) -> int:
        """The most points held at a time."""
        return self.estimate.rows

    def __call__(self, problem: Problem) -> Asking[Stop]:
        """Attack one image."""
        mean = torch.zeros_like(problem.source)

        def move(_: int, iterate: Iterate, direction: Tensor, project: Project) -> Asking[Iterate]:
            mean.add_(direction)
            if self.unit_mean:
                mean.div_(torch.linalg.vector_norm(mean))
            step = mean * torch.linalg.vector_norm(iterate.point - problem.source)
            points = _GrowingRadii(problem.source, step, float(self.growth), self.growths)
            moved = yield from first_adversarial(points, "step")
            if moved is None:
                return iterate
            return (yield from project(Segment(problem.source, moved)))

        return descend(problem, self, move)


EXPONENT = 2 / 3


@dataclass(frozen=True)
class GeoDAOriginal:
    """GeoDA of its authors, with a start, a search and an estimate as parts."""

    start: Start
    search: Search
    estimate: Estimate
    queries: int = 75
    """q_0."""
    mu: float = 0.6
    """q_i = q_0 mu^(-2i/3), up to a million."""
    epsilon: float = 0.375
    """5 in normalised pixels, 1.125 in [0,1]; a third of it, since d' is a ninth of d."""
    steps: int = 100
    """Of a walk at most."""
    blind_limit: int = 10
    iterations: int = 10_000

    metrics = (Metric.L2,)

    def __post_init__(self) -> None:
        check(self, queries=whole(1, MAX_VALUE), mu=between(0, 1), epsilon=above(0, MAX_VALUE))
        check(self, steps=whole(1, MAX_VALUE))
        check(self, blind_limit=whole(1, MAX_LIMIT), iterations=whole(1, MAX_LIMIT))

    @property
    def rows(self) -> int:
        """The most points held at a time."""
        return self.estimate.rows

    def planned(self, t: int) -> int:
        """q_i, i = t - 1."""
        growth = -EXPONENT * (t - 1) * math.log(self.mu)
        return round(math.exp(min(math.log(self.queries) + growth, math.log(MAX_VALUE))))

    def __call__(self, problem: Problem) -> Asking[Stop]:
        """Attack one image."""
        total = torch.zeros_like(problem.source)

        def move(t: int, iterate: Iterate, direction: Tensor, project: Project) -> Asking[Iterate]:
            total.add_(direction, alpha=math.sqrt(problem.dimension / self.planned(t)))
            moved = yield from walk_outward(problem, total * self.epsilon, self.steps)
            if moved is None:
                return iterate
            return (yield from project(Segment(problem.source, moved)))

        return descend(problem, self, move, self.planned)
