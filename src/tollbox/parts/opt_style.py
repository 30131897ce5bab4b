"""OPT-style estimates: a direction from how far the boundary is along nearby rays (Cheng et al.).

With theta the unit vector from x* to x_t and g(theta) = |x_t - x*| the distance of the boundary
along it, q rays theta_i = unit(theta + beta u_i), u_i uniform on the sphere, are each searched from
(1 + reach) g inward to (1 - reach) g. The direction

    - sum_i (g(theta_i) - mean of g) u_i

is that in which the boundary comes nearer. A ray whose outer end is flagged counts as a little
farther than that end. Stealthy HSJA estimates so, with a line search on every ray: flagged answers
are then few, and the others many. The searches share nothing and are asked side by side.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ..core.ask import Asking, Iterate, together
from ..core.noise import Noise
from ..core.problem import Problem
from ..core.validation import MAX_LIMIT, MAX_VALUE, above, check, whole
from .estimates import PHASE, Estimate, Estimator
from .rays import from_beyond
from .registry import register
from .searches import LineSearch, Search
from .vectors import unit, unit_rows

FLAGGED_RAY_FACTOR = 1.02
"""A ray that is flagged at its outer end counts as so much longer."""


@register(Estimate)
@dataclass(frozen=True)
class OptStyle:
    """max(n // 200, 1) times `directions` rays, n the queries of a vanilla estimate."""

    search: Search = field(
        default_factory=lambda: LineSearch(1e-4, relative=True, stages=2, phase=PHASE)
    )
    directions: int = 10
    gamma: float = 1e4
    """beta = gamma / d, as HSJA's radius with theta = gamma / d^1.5 ..."""
    widest: float = 0.1
    """... but no more than this, which small images would exceed; at t = 1 this / |x_t - x*|."""
    reach: float = 0.03
    side_by_side: int = 50
    """Rays that are searched at a time."""

    def __post_init__(self) -> None:
        check(self, directions=whole(1, MAX_VALUE), side_by_side=whole(1, MAX_VALUE))
        check(self, gamma=above(0, MAX_LIMIT), widest=above(0, MAX_VALUE), reach=above(0, 1))

    @property
    def rows(self) -> int:
        """The most points held at a time: of each ray its direction, ends and the last steps."""
        return 12 * self.side_by_side

    def tolerance_scale(self, problem: Problem) -> float:  # noqa: ARG002
        """The search's own tolerance will do."""
        return 1.0

    def begin(self, problem: Problem) -> Estimator:
        """For one image."""
        return partial(self._estimate, problem)

    def _estimate(
        self, problem: Problem, t: int, iterate: Iterate, queries: int
    ) -> Asking[Tensor | None]:
        count = max(queries // 200, 1) * self.directions
        near = self.widest / max(iterate.distance, 1.0)
        beta = near if t == 1 else min(self.gamma / problem.dimension, self.widest)
        noise = problem.noise(PHASE, t, count)
        away = unit(iterate.point - problem.source)
        lengths: list[float] = []
        for first in range(0, count, self.side_by_side):
            rays = unit_rows(away + beta * self._units(noise, first))
            lengths += yield from together(
                [self._length(problem, ray, iterate.distance) for ray in rays]
            )
        apart = np.array(lengths) - np.mean(lengths)
        problem.note(rays=count, spread=float(np.std(lengths)) / iterate.distance)
        if np.ptp(lengths) <= problem.resolution:  # alike but for rounding
            return None
        weights = torch.from_numpy(-apart).to(away.device, away.dtype, non_blocking=True)
        direction = torch.zeros_like(away)
        for first in range(0, count, self.side_by_side):
            part = weights[first : first + self.side_by_side]
            direction += torch.einsum("n,nchw->chw", part, self._units(noise, first))
        return unit(direction)

    def _units(self, noise: Noise, first: int) -> Tensor:
        """The next u_i, unit vectors."""
        return unit_rows(noise[first : first + self.side_by_side])

    def _length(self, problem: Problem, ray: Tensor, g: float) -> Asking[float]:
        """g(theta_i)."""
        found = yield from from_beyond(problem, self.search, ray, g, self.reach, phase=PHASE)
        return FLAGGED_RAY_FACTOR * (1 + self.reach) * g if found is None else found.distance
