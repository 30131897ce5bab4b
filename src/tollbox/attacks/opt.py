"""Ray descent: what OPT and Sign-OPT have in common (Cheng et al. 2019 and 2020).

They minimise g(theta), the distance of the boundary along theta, the unit vector from x* to x_t.
Iteration t: estimate the slope of g at theta from directions theta + beta u; then try
theta - alpha slope, with alpha doubled as long as the boundary comes nearer (at most 15 times). If
it did not come nearer at all, alpha is divided by 4 until it does (15 times at most). Where alpha
falls below 1e-4 it begins again at 1, with a tenth of beta; at beta < 1e-8 the attack ends.

A trial is asked at the best distance so far, and goes inward from there. If it is not adversarial
there, it is no nearer, and nothing more is asked of it.

OPT (Cheng, Le, Chen, Yi, Zhang, Hsieh 2019): the slope of g from differences along rays.

With q directions u_i, uniform on the sphere, and theta_i = unit(theta + beta u_i),

    slope = 1/q sum_i (g(theta_i) - g(theta)) / beta u_i

Every g(theta_i) is a search: it begins at g(theta), and brackets the boundary by steps of 1 %. The
rays share nothing and are asked side by side. The nearest of them is taken if no step is nearer.

Stealthy OPT (Debenedetti et al. 2024) comes from beyond: from 1.01 g inward to 0.99 g, with a line
search; a ray that is flagged at its outer end counts as a little farther than that.

Sign-OPT (Cheng, Singh, Chen, Chen, Liu, Hsieh 2020): the slope of g from one query a direction.

g(theta + beta u) is above g(theta) where unit(theta + beta u), asked at the distance g(theta), is
not adversarial. So one query gives the sign of a difference, and

    slope = 1/Q sum_i s_i u_i,  s_i = -1 if the i-th answer is adversarial, else 1.

The u_i are added up as they were drawn. (What clipping leaves of them has a mean, towards the
inside of the box; where most answers are alike, a sum of signs would point along it.) Every step is
OPT's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from ..core.ask import Ask, Asking, Iterate, Until, together
from ..core.metric import Metric
from ..core.problem import Problem
from ..core.stop import Stop
from ..core.validation import MAX_DEPTH, MAX_LIMIT, MAX_VALUE, above, check, number, whole
from ..parts.estimates import PHASE
from ..parts.opt_style import FLAGGED_RAY_FACTOR
from ..parts.paths import Segment
from ..parts.rays import FARTHEST, in_phase, search_around, search_inward, search_window
from ..parts.searches import Search
from ..parts.starts import Start, find_start
from ..parts.vectors import sum_weights, unit, unit_rows

RAY_PHASE = "step"
TRIALS = 15
SMALLEST_ALPHA = 1e-4
SMALLEST_BETA = 1e-8


class Slope(NamedTuple):
    """What an estimate gives."""

    gradient: Tensor
    """Of g, up to a factor that alpha takes up."""
    nearest: Iterate
    """The nearest point that it came upon, or x_t."""


Estimating = Callable[[int, Iterate, float, float], Asking[Slope]]
"""Called with t, x_t, beta and how much finer than usual searches are."""


class Descending(Protocol):
    """An attack made of these parts."""

    @property
    def start(self) -> Start:
        """Where it begins."""

    @property
    def search(self) -> Search:
        """How a bracket on a ray is narrowed."""

    @property
    def alpha(self) -> float:
        """The first step."""

    @property
    def beta(self) -> float:
        """How far the directions of an estimate are turned, at first."""

    @property
    def iterations(self) -> int:
        """The most iterations."""


def descend_rays(problem: Problem, attack: Descending, estimate: Estimating) -> Asking[Stop]:
    """Estimate and step until something ends it."""
    begun = yield from find_start(problem, attack.start)
    if begun is None:
        return Stop.NO_START
    if problem.start_image is not None or attack.start.tolerance is None:
        begun = yield from attack.search(problem, Segment(problem.source, begun))
    problem.accept(begun)
    iterate, alpha, beta = begun, attack.alpha, attack.beta
    for t in range(1, attack.iterations + 1):
        scale = beta / attack.beta
        slope = yield from estimate(t, iterate, beta, scale)
        step = _Step(problem, attack.search, iterate, slope.gradient, scale)
        moved, alpha = yield from in_phase(step.along(alpha), RAY_PHASE)
        problem.note(alpha=alpha, beta=beta)
        iterate = min(moved, slope.nearest, key=lambda each: each.distance)
        problem.accept(iterate)
        if alpha < SMALLEST_ALPHA:
            alpha, beta = 1.0, beta / 10
            if beta < SMALLEST_BETA:
                return Stop.CONVERGED
    return Stop.ITERATIONS


class _Step:
    """The search for alpha at one iterate."""

    def __init__(
        self, problem: Problem, search: Search, iterate: Iterate, gradient: Tensor, scale: float
    ) -> None:
        self._problem, self._search, self._iterate = problem, search, iterate
        self._gradient, self._scale = gradient, scale
        self._theta = unit(iterate.point - problem.source)

    def along(self, alpha: float) -> Asking[tuple[Iterate, float]]:
        """The nearest point that was found, or the iterate; and the last alpha."""
        best = self._iterate
        for _ in range(TRIALS):
            found = yield from self._inward(alpha, best.distance)
            alpha *= 2
            if found is None or found.distance >= best.distance:
                break
            best = found
        if best is not self._iterate:
            return best, alpha
        alphas = [alpha / 4**k for k in range(1, TRIALS + 1)]
        return (yield from self._smaller(alphas))

    def _smaller(self, alphas: Sequence[float]) -> Asking[tuple[Iterate, float]]:
        """The first of them that leads nearer. All are asked at the distance of the iterate, so
        that it is known which will be next."""
        first = 0
        while first < len(alphas):
            left = _Turned(self, alphas[first:])
            answers = yield Ask(left, until=Until.ADVERSARIAL, phase=RAY_PHASE)
            row = len(answers) - 1
            if not answers.adversarial[row]:
                break
            known = Iterate(left[row : row + 1][0], float(answers.distances[row]))
            found = yield from self._inward(alphas[first + row], self._iterate.distance, known)
            if found is not None and found.distance < self._iterate.distance:
                return found, alphas[first + row]
            first += row + 1
        return self._iterate, alphas[-1]

    def _inward(
        self, alpha: float, distance: float, known: Iterate | None = None
    ) -> Asking[Iterate | None]:
        ray = self.ray(alpha)
        return search_inward(self._problem, self._search, ray, distance, self._scale, known)

    def ray(self, alpha: float) -> Tensor:
        """The direction of a trial."""
        return unit(self._theta - alpha * self._gradient)

    def at_distance(self, alpha: float) -> Tensor:
        """The point of a trial as far from the source as the iterate."""
        return (self._problem.source + self._iterate.distance * self.ray(alpha)).clamp_(0, 1)


class _Turned:
    """Trials as far from the source as the iterate, as rows."""

    def __init__(self, step: _Step, alphas: Sequence[float]) -> None:
        self._step, self._alphas = step, alphas

    def __len__(self) -> int:
        return len(self._alphas)

    def __getitem__(self, rows: slice) -> Tensor:
        return torch.stack([self._step.at_distance(alpha) for alpha in self._alphas[rows]])


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
            [in_phase(self._value(problem, ray, iterate, scale), PHASE) for ray in rays]
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
            return search_window(problem, self.search, ray, iterate.distance, REACH, scale)
        return search_around(problem, self.search, ray, iterate.distance, scale)


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
