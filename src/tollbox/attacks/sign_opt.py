"""Sign-OPT (Cheng, Singh, Chen, Chen, Liu, Hsieh 2020): the slope of g from one query a direction.

g(theta + beta u) is above g(theta) where unit(theta + beta u), asked at the distance g(theta), is
not adversarial. So one query gives the sign of a difference, and

    slope = 1/Q sum_i s_i u_i,  s_i = -1 if the i-th answer is adversarial, else 1.

The u_i are added up as they were drawn. (What clipping leaves of them has a mean, towards the
inside of the box; where most answers are alike, a sum of signs would point along it.) Every step is
OPT's.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch

from ..core.ask import Ask, Asking, Iterate
from ..core.metric import Metric
from ..core.problem import Problem
from ..core.ranges import MAX_LIMIT, MAX_VALUE, above, check, number, whole
from ..core.stop import Stop
from ..parts.estimates import PHASE
from ..parts.searches import Search
from ..parts.starts import Start
from ..parts.vectors import sum_weights, unit, unit_rows
from .ray_descent import SMALLEST_BETA, Slope, descend_rays


@dataclass(frozen=True)
class SignOPT:
    """Sign-OPT with a start and a search as parts."""

    start: Start
    search: Search
    """Of the bracket on each ray; its tolerance is as fine as the first beta needs it."""
    queries: int = 200
    """Q."""
    alpha: float = 0.2
    beta: float = 0.001
    chunk: int = 128
    iterations: int = 10_000

    metrics = (Metric.L2,)

    def __post_init__(self) -> None:
        check(self, queries=whole(1, MAX_VALUE), chunk=whole(1, MAX_VALUE))
        check(self, alpha=above(0, MAX_VALUE), beta=number(SMALLEST_BETA, 1))
        check(self, iterations=whole(1, MAX_LIMIT))

    @property
    def rows(self) -> int:
        """The most points held at a time: directions and points."""
        return 2 * self.chunk

    def __call__(self, problem: Problem) -> Asking[Stop]:
        """Attack one image."""
        return descend_rays(problem, self, partial(self._estimate, problem))

    def _estimate(
        self,
        problem: Problem,
        t: int,
        iterate: Iterate,
        beta: float,
        scale: float,  # noqa: ARG002
    ) -> Asking[Slope]:
        theta = unit(iterate.point - problem.source)
        noise = problem.noise(PHASE, t, self.queries)
        sums = problem.source.new_zeros(2, problem.source.numel())
        adversarial = 0
        for first in range(0, self.queries, self.chunk):
            units = unit_rows(noise[first : first + self.chunk])
            rays = unit_rows(theta + beta * units)
            points = rays.mul_(iterate.distance).add_(problem.source).clamp_(0, 1)
            answers = yield Ask(points, phase=PHASE)
            sums.addmm_(sum_weights(answers.adversarial, units), units.flatten(1))
            adversarial += int(answers.adversarial.sum())
        passed, everything = sums
        gradient = torch.sub(everything, passed, alpha=2).div_(self.queries).view_as(theta)
        problem.note(share=adversarial / self.queries, estimate_queries=self.queries)
        return Slope(gradient, iterate)
