"""OPT (Cheng, Le, Chen, Yi, Zhang, Hsieh 2019): the slope of g from differences along rays.

With q directions u_i, uniform on the sphere, and theta_i = unit(theta + beta u_i),

    slope = 1/q sum_i (g(theta_i) - g(theta)) / beta u_i

Every g(theta_i) is a search: it begins at g(theta), and brackets the boundary by steps of 1 %. The
rays share nothing and are asked side by side. The nearest of them is taken if no step is nearer.

Stealthy OPT (Debenedetti et al. 2024) comes from beyond: from 1.01 g inward to 0.99 g, with a line
search; a ray that is flagged at its outer end counts as a little farther than that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ..core.ask import Asking, Iterate, together
from ..core.metric import Metric
from ..core.problem import Problem
from ..core.ranges import MAX_DEPTH, MAX_LIMIT, MAX_VALUE, above, check, number, whole
from ..core.stop import Stop
from ..parts.estimates import PHASE
from ..parts.opt_style import FLAGGED_RAY_FACTOR
from ..parts.rays import FARTHEST, around, booked, from_beyond
from ..parts.searches import Search
from ..parts.starts import Start
from ..parts.vectors import unit, unit_rows
from .ray_descent import SMALLEST_BETA, Slope, descend_rays

REACH = 0.01
"""Of the rays that are searched from beyond."""


@dataclass(frozen=True)
class OPT:
    """OPT with a start and a search as parts."""

    start: Start
    search: Search
    """Of the bracket on each ray; its tolerance is as fine as the first beta needs it."""
    directions: int = 10
    """q."""
    alpha: float = 0.2
    beta: float = 0.001
    from_beyond: bool = False
    """Search the rays of an estimate from 1.01 g inward, as the stealthy attack does."""
    iterations: int = 10_000

    metrics = (Metric.L2,)

    def __post_init__(self) -> None:
        check(self, directions=whole(1, MAX_DEPTH), iterations=whole(1, MAX_LIMIT))
        check(self, alpha=above(0, MAX_VALUE), beta=number(SMALLEST_BETA, 1))

    @property
    def rows(self) -> int:
        """The most points held at a time: of each ray its direction, ends and the last steps."""
        return 12 * self.directions

    def __call__(self, problem: Problem) -> Asking[Stop]:
        """Attack one image."""
        return descend_rays(problem, self, partial(self._estimate, problem))

    def _estimate(
        self, problem: Problem, t: int, iterate: Iterate, beta: float, scale: float
    ) -> Asking[Slope]:
        units = unit_rows(problem.noise(PHASE, t, self.directions)[0 : self.directions])
        rays = unit_rows(unit(iterate.point - problem.source) + beta * units)
        found = yield from together(
            [booked(self._value(problem, ray, iterate, scale), PHASE) for ray in rays]
        )
        beyond = FLAGGED_RAY_FACTOR * (1 + REACH) if self.from_beyond else FARTHEST
        lengths = [beyond * iterate.distance if ray is None else ray.distance for ray in found]
        slopes = (np.array(lengths) - iterate.distance) / (beta * self.directions)
        weights = torch.from_numpy(slopes).to(units.device, units.dtype, non_blocking=True)
        nearest = min((ray for ray in found if ray), key=lambda ray: ray.distance, default=iterate)
        problem.note(rays=self.directions, spread=float(np.std(lengths)) / iterate.distance)
        return Slope(torch.einsum("n,nchw->chw", weights, units), nearest)

    def _value(
        self, problem: Problem, ray: Tensor, iterate: Iterate, scale: float
    ) -> Asking[Iterate | None]:
        """The boundary along theta_i."""
        if self.from_beyond:
            return from_beyond(problem, self.search, ray, iterate.distance, REACH, scale)
        return around(problem, self.search, ray, iterate.distance, scale)
