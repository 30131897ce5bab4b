"""OPT and Sign-OPT (Cheng et al. 2019 and 2020): descent on the distance along rays.

Both minimise g(theta), the distance to the boundary along theta, the unit vector from x* to x_t.
An iteration estimates the slope of g from directions theta + beta u, and then tries
theta - alpha slope. Alpha doubles while the distance decreases (at most 15 times). If the first
trial does not decrease it, alpha is divided by 4 until one does (at most 15 times). When alpha
falls below 1e-4, it is reset to 1, and beta is divided by 10. The attack converges at beta < 1e-8.

A trial is queried at the smallest distance so far, and searched inward from there. If it is flagged
there, it is dropped.

OPT takes the slope from differences along rays. With q directions u_i, uniform on the sphere, and
theta_i = unit(theta + beta u_i),

    slope = 1/q sum_i (g(theta_i) - g(theta)) / beta u_i

Each g(theta_i) takes a search that starts at g(theta) and brackets the boundary in steps of 1 %.
The rays are independent and are queried side by side. The closest of their points is accepted
if no step finds a closer one. Stealthy OPT (Debenedetti et al. 2024) searches inward from 1.01 g to
0.99 g with a line search; a ray that is flagged at its outer end counts as slightly longer.

Sign-OPT takes the slope from one query per direction: g(theta + beta u) is above g(theta) if
unit(theta + beta u) is flagged at the distance g(theta). So

    slope = 1/Q sum_i s_i u_i,  s_i = -1 if the i-th answer is adversarial, else 1.

The u_i are added as they were drawn, not as they were clipped. The mean of clipped ones points into
the box, and a sum with mostly equal signs would follow it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..core.ask import Ask, Asking, Iterate, Until, at_once, together
from ..core.problem import Problem, Sampled
from ..core.stop import Stop
from ..core.validation import number
from ..parts.estimates import FLAGGED_RAY_FACTOR, PHASE, typical_distance
from ..parts.rays import FARTHEST, in_phase, search_around, search_inward, search_window
from ..parts.registry import Count, Depth, Limit, Positive
from ..parts.starts import tolerance_of
from ..parts.subspaces import Full, drawing_for
from ..parts.vectors import LazyRows, sum_weights, unit, unit_rows
from .descent import FromBoundary, Project

RAY_PHASE = "step"
TRIALS = 15
SMALLEST_ALPHA = 1e-4
SMALLEST_BETA = 1e-8
REACH = 0.01
"""Half the width of the window that the stealthy attack searches, as a fraction of g."""


class Slope(NamedTuple):
    """The result of an estimate."""

    gradient: Tensor  # of g, up to a factor that alpha absorbs
    closest: Iterate  # the closest point that the estimate found, or x_t


@dataclass(frozen=True)
class RayDescent(FromBoundary):
    """The base of OPT and Sign-OPT: estimates and steps in turn. The search narrows the bracket on
    each ray; its tolerance is for the initial beta and shrinks with beta."""

    alpha: Positive = 0.2
    beta: Annotated[float, number(SMALLEST_BETA, 1)] = 0.001
    iterations: Limit = 10_000

    def finest(self, problem: Problem) -> Sampled:
        radius = self.beta * typical_distance(problem)
        return Sampled("beta", self.beta, radius, drawing_for(problem, Full()))

    def projection(self, problem: Problem) -> Project:
        if tolerance_of(problem, self.start) is not None:
            return lambda path: at_once(path.start)  # already at the boundary
        return super().projection(problem)

    def slope(self, problem: Problem, t: int, iterate: Iterate, beta: float) -> Asking[Slope]:
        """Estimate the slope at x_t; searches multiply their tolerance by beta / self.beta."""
        raise NotImplementedError

    def descend(self, problem: Problem, iterate: Iterate) -> Asking[Stop]:
        alpha, beta = self.alpha, self.beta
        for t in range(1, self.iterations + 1):
            slope = yield from self.slope(problem, t, iterate, beta)
            step = self._step(problem, iterate, slope.gradient, alpha, beta / self.beta)
            moved, alpha = yield from in_phase(step, RAY_PHASE)
            problem.note(alpha=alpha, beta=beta)
            iterate = min(moved, slope.closest, key=lambda each: each.distance)
            problem.accept(iterate)
            if alpha < SMALLEST_ALPHA:
                alpha, beta = 1.0, beta / 10
                if beta < SMALLEST_BETA:
                    return Stop.CONVERGED
        return Stop.ITERATIONS

    def _step(
        self, problem: Problem, iterate: Iterate, gradient: Tensor, alpha: float, scale: float
    ) -> Asking[tuple[Iterate, float]]:
        """Return the closest point found, or the iterate if none is closer, and the last alpha."""
        theta, distance = unit(iterate.point - problem.source), iterate.distance

        def ray(alpha: float) -> Tensor:
            return unit(theta - alpha * gradient)

        best = iterate
        for _ in range(TRIALS):
            found = yield from search_inward(problem, self.search, ray(alpha), best.distance, scale)
            alpha *= 2
            if found is None or found.distance >= best.distance:
                break
            best = found
        if best is not iterate:
            return best, alpha
        alphas, first = [alpha / 4**k for k in range(1, TRIALS + 1)], 0
        while first < TRIALS:
            found, row = yield from self._first_inside(
                problem, iterate, gradient, alphas[first:], scale
            )
            if found is None:
                break
            if found.distance < distance:
                return found, alphas[first + row]
            first += row + 1
        return iterate, alphas[-1]

    def _first_inside(
        self,
        problem: Problem,
        iterate: Iterate,
        gradient: Tensor,
        alphas: list[float],
        scale: float,
    ) -> Asking[tuple[Iterate | None, int]]:
        """Return the boundary point for the first alpha that is adversarial at the iterate's
        distance, and its number. All are queried there, so that the next points are known."""
        theta, distance = unit(iterate.point - problem.source), iterate.distance

        def trial(alpha: float) -> Tensor:
            return (problem.source + distance * unit(theta - alpha * gradient)).clamp_(0, 1)

        points = LazyRows.stack(alphas, trial)
        answers = yield Ask(points, until=Until.ADVERSARIAL, phase=RAY_PHASE)
        row = len(answers) - 1
        if not answers.adversarial[row]:
            return None, row
        known = Iterate(trial(alphas[row]), float(answers.distances[row]))
        ray = unit(theta - alphas[row] * gradient)
        return (yield from search_inward(problem, self.search, ray, distance, scale, known)), row


@dataclass(frozen=True)
class OPT(RayDescent):
    """OPT, with a start and a search as parts."""

    directions: Depth = 10
    """q, the number of directions in an estimate."""
    from_beyond: bool = False
    """Whether an estimate's rays are searched from 1.01 g inward, as in the stealthy attack."""

    @property
    def rows(self) -> int:
        """Maximum number of points held: direction, ends and last steps of each ray."""
        return 12 * self.directions

    def slope(self, problem: Problem, t: int, iterate: Iterate, beta: float) -> Asking[Slope]:
        scale = beta / self.beta

        def boundary(ray: Tensor) -> Asking[Iterate | None]:
            """Return the boundary point along theta_i."""
            if self.from_beyond:
                return search_window(problem, self.search, ray, iterate.distance, REACH, scale)
            return search_around(problem, self.search, ray, iterate.distance, scale)

        units = unit_rows(problem.noise(PHASE, t, self.directions)[0 : self.directions])
        rays = unit_rows(unit(iterate.point - problem.source) + beta * units)
        found = yield from together([in_phase(boundary(ray), PHASE) for ray in rays])
        beyond = FLAGGED_RAY_FACTOR * (1 + REACH) if self.from_beyond else FARTHEST
        lengths = [beyond * iterate.distance if ray is None else ray.distance for ray in found]
        slopes = (np.array(lengths) - iterate.distance) / (beta * self.directions)
        weights = torch.from_numpy(slopes).to(units.device, units.dtype, non_blocking=True)
        closest = min((ray for ray in found if ray), key=lambda ray: ray.distance, default=iterate)
        problem.note(rays=self.directions, spread=float(np.std(lengths)) / iterate.distance)
        return Slope(torch.einsum("n,nchw->chw", weights, units), closest)


@dataclass(frozen=True)
class SignOPT(RayDescent):
    """Sign-OPT, with a start and a search as parts."""

    queries: Count = 200
    """Q, the number of directions in an estimate."""
    chunk: Count = 128

    @property
    def rows(self) -> int:
        return 2 * self.chunk

    def slope(self, problem: Problem, t: int, iterate: Iterate, beta: float) -> Asking[Slope]:
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
