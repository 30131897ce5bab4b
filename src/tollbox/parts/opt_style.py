"""OPT-style estimates: a direction from distances to the boundary along similar rays.

theta is the unit vector from x* to x_t, and g(theta) = |x_t - x*| the distance to the boundary
along it (Cheng et al. 2019). Each of q rays theta_i = unit(theta + beta u_i), u_i uniform on the
sphere, is searched from (1 + reach) g inward to (1 - reach) g. The distance decreases in the
direction

    - sum_i (g(theta_i) - mean of g) u_i.

A ray whose outer end is flagged counts as slightly longer than that end. Stealthy HSJA estimates
this way with a line search on every ray, which gives few flagged and many other answers. The
searches are independent and run side by side.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from ..core.ask import Asking, Iterate, together
from ..core.problem import Problem
from ..core.validation import MAX_LIMIT, MAX_VALUE, above, check, whole
from .estimates import PHASE, Estimate, Estimator
from .rays import search_window
from .registry import register
from .searches import LineSearch, Search
from .vectors import unit, unit_rows

FLAGGED_RAY_FACTOR = 1.02
"""A ray whose outer end is flagged counts as longer than that end by this factor."""


@register(Estimate)
@dataclass(frozen=True)
class OptStyle:
    """An estimate from max(n // 200, 1) times `directions` rays, n the queries of a vanilla one."""

    search: Search = field(
        default_factory=lambda: LineSearch(1e-4, relative=True, stages=2, phase=PHASE)
    )
    directions: int = 10
    gamma: float = 1e4
    """Sets beta = gamma / d, which is HSJA's radius with theta = gamma / d^1.5."""
    widest: float = 0.1
    """Maximum of beta, which small images would exceed; at t = 1 beta is this / |x_t - x*|."""
    reach: float = 0.03
    side_by_side: int = 50
    """Number of rays searched at a time."""

    def __post_init__(self) -> None:
        check(self, directions=whole(1, MAX_VALUE), side_by_side=whole(1, MAX_VALUE))
        check(self, gamma=above(0, MAX_LIMIT), widest=above(0, MAX_VALUE), reach=above(0, 1))

    @property
    def rows(self) -> int:
        """Each ray holds its direction, its ends and its last steps."""
        return 12 * self.side_by_side

    def tolerance_scale(self, problem: Problem) -> float:  # noqa: ARG002
        return 1.0

    def begin(self, problem: Problem) -> Estimator:
        def length(ray: Tensor, g: float) -> Asking[float]:
            found = yield from search_window(problem, self.search, ray, g, self.reach, phase=PHASE)
            return FLAGGED_RAY_FACTOR * (1 + self.reach) * g if found is None else found.distance

        def estimate(t: int, iterate: Iterate, queries: int) -> Asking[Tensor | None]:
            count = max(queries // 200, 1) * self.directions
            first_beta = self.widest / max(iterate.distance, 1.0)
            beta = first_beta if t == 1 else min(self.gamma / problem.dimension, self.widest)
            noise = problem.noise(PHASE, t, count)
            blocks = [
                slice(first, first + self.side_by_side)
                for first in range(0, count, self.side_by_side)
            ]
            away = unit(iterate.point - problem.source)
            lengths: list[float] = []
            for block in blocks:
                rays = unit_rows(away + beta * unit_rows(noise[block]))
                lengths += yield from together([length(ray, iterate.distance) for ray in rays])
            deviations = np.array(lengths) - np.mean(lengths)
            problem.note(rays=count, spread=float(np.std(lengths)) / iterate.distance)
            if np.ptp(lengths) <= problem.resolution:  # equal except for rounding
                return None
            weights = torch.from_numpy(-deviations).to(away.device, away.dtype, non_blocking=True)
            direction = torch.zeros_like(away)
            for block in blocks:
                direction += torch.einsum("n,nchw->chw", weights[block], unit_rows(noise[block]))
            return unit(direction)

        return estimate
