"""Estimates of the direction in which the margin grows, from decisions around a boundary point.

n unit vectors, uniform on the sphere of a subspace, are queried at `centre + delta u`, clipped to
[0,1]. Below, u_i is the displacement after clipping, which matters where an image is black or
white. With the share p = n_L / n of low-cost answers, the estimate is

    g = (1 - p) v+ + p v-,   v+ the sum of adversarial u_i, v- minus the sum of the others

(Algorithm 3; for a centre on the boundary this is the mean-subtracted Monte Carlo estimate of
HSJA.) If all answers agree, g is 0. The estimate is then plus or minus the mean direction, as in
the published code of HSJA and other attacks. Around a centre that was moved outward, such answers
say nothing about the boundary: `Agrest(refuse_one_sided=True)` returns None instead.

For OptStyle, theta is the unit vector from x* to x_t, and g(theta) = |x_t - x*| the distance to the
boundary along it (Cheng et al. 2019). Each of q rays theta_i = unit(theta + beta u_i), u_i uniform
on the sphere, is searched from (1 + reach) g inward to (1 - reach) g. The distance decreases in the
direction

    - sum_i (g(theta_i) - mean of g) u_i.

A ray whose outer end is flagged counts as slightly longer than that end. Stealthy HSJA estimates
this way with a line search on every ray, which gives few flagged and many other answers. The
searches are independent and run side by side.

HSJA's searches stop at theta = gamma / d^1.5 of the path (`ThetaSearch`), and its radius is
sqrt(d) theta |x_t - x*|, which is |x_t - x*| / d with gamma = 1. For ℓ∞, theta is gamma / d^2 and
the radius d theta times the distance, which is the same. QEBA's theta is 0.01 / sqrt(d), so that
its radius is 0.01 |x_t - x*|. (The distance is that of x_t. The published code uses the distance of
the step before its projection, which is slightly larger.)

A search leaves its point slightly outside the boundary. A radius that is small compared with this
gap gives adversarial answers only: an adaptive radius then grows, to at most a tenth of the
distance. It shrinks if most answers are flagged, as they are where the boundary is curved. No
radius is so small that the dtype of the points cannot distinguish samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from ..core.ask import Ask, Asking, Iterate, together
from ..core.metric import Metric
from ..core.problem import Problem, Sampled
from ..core.validation import MAX_LIMIT, MAX_VALUE, above, number, require
from ..theory import caps as theory
from .rays import search_window
from .registry import (
    Checked,
    Count,
    CountFrom0,
    NonNegative,
    Positive,
    PositiveFraction,
    Power,
    register,
)
from .searches import LineSearch, Search
from .subspaces import Full, Prior, dimension_for, drawing_for
from .vectors import sum_weights, unit, unit_rows

PHASE = "estimate"
FIRST_DELTA = 0.1
LARGEST_SHARE = 0.1
"""Maximum adaptive radius, as a share of the distance."""
MIN_ROUNDINGS = 10
"""Minimum radius, in units of the resolution of the points' dtype."""
FLAGGED_RAY_FACTOR = 1.02
"""Assumed length of a ray whose outer end is flagged, in units of that end's radius."""

Estimator = Callable[[int, Iterate, int], Asking[Tensor | None]]
"""Function of the iteration t (from 1), the boundary point x_t and n'_t, the number of queries in
the vanilla attack. Returns a unit direction, or None if the answers hold no information."""


class Estimate(Protocol):
    """A part that estimates a unit direction at a boundary point."""

    @property
    def rows(self) -> int:
        """Maximum number of points held in memory at a time."""

    def tolerance_scale(self, problem: Problem) -> float:
        """Return the factor by which the search tolerance is multiplied for this estimate."""

    def begin(self, problem: Problem) -> Estimator:
        """Return the estimator for one image, with its own state if it needs any."""


@dataclass(frozen=True)
class Sampling(Checked):
    """The base of estimates from samples; it leaves the search tolerance unchanged."""

    delta: Positive = 0.0045
    """Sampling radius."""
    chunk: Count = 128
    """Maximum number of queries in one ask."""
    subspace: Prior = field(default_factory=Full)

    @property
    def rows(self) -> int:
        return self.chunk

    def tolerance_scale(self, problem: Problem) -> float:  # noqa: ARG002
        return 1.0

    def finest(self, problem: Problem) -> Sampled:
        return Sampled("delta", self.delta, self.delta, drawing_for(problem, self.subspace))

    def sample(
        self, problem: Problem, t: int, iterate: Iterate, centre: Tensor, limit: int, cost: float
    ) -> Asking[_DirectionSums]:
        """Query directions around a centre, chunk by chunk, up to `limit` queries or the planned
        `cost` (in units of a low-cost answer), and sum their displacements."""
        draw = drawing_for(problem, self.subspace).at(iterate.point)
        noise = problem.noise(PHASE, t, limit, draw.shape)
        shape, ratio = problem.source.shape, problem.prices.ratio
        sums = problem.source.new_zeros(2, problem.source.numel())
        asked, adversarial, spent = 0, 0, 0.0
        while spent < cost and asked < limit:
            rows = min(self.chunk, limit - asked)
            points = draw(noise[asked : asked + rows], self.delta).flatten(1)
            points = points.add_(centre.flatten()).clamp_(0, 1)
            answers = yield Ask(points.view(-1, *shape), phase=PHASE)
            moved = points.sub_(centre.flatten())  # in place: the points have been answered
            sums.addmm_(sum_weights(answers.adversarial, moved), moved)
            asked += rows
            adversarial += int(answers.adversarial.sum())
            flagged = int(answers.flagged.sum())
            spent += flagged * ratio + (rows - flagged)
        problem.note(share=adversarial / asked, estimate_queries=asked)
        return _DirectionSums(asked, adversarial, sums, shape)


class _DirectionSums(NamedTuple):
    """Sums of directions by answer."""

    asked: int
    adversarial: int
    sums: Tensor  # two rows: of adversarial displacements, and of all
    shape: torch.Size

    @property
    def one_sided(self) -> bool:
        return self.adversarial in (0, self.asked)

    def direction(self) -> Tensor:
        """Return g / |g| (Algorithm 3, last lines), or the signed mean if all answers agree."""
        share, (passed, everything) = self.adversarial / self.asked, self.sums
        failed = passed - everything  # v-, minus the sum of the others
        if self.one_sided:
            return unit(passed + failed).view(self.shape)
        return unit((1 - share) * passed + share * failed).view(self.shape)

    def signs(self) -> Tensor:
        """Return the normalised sum of phi(x_i) u_i (equation 2)."""
        passed, everything = self.sums
        return unit(2 * passed - everything).view(self.shape)


@register(Estimate)
class MonteCarlo(Sampling):
    """An estimate from samples around the boundary point itself (equation 2)."""

    weighted: bool = True
    """Whether the sides are weighted as in Algorithm 3, or signs summed as in GeoDA and CGBA."""

    def begin(self, problem: Problem) -> Estimator:
        def estimate(t: int, iterate: Iterate, queries: int) -> Asking[Tensor | None]:
            total = yield from self.sample(problem, t, iterate, iterate.point, queries, math.inf)
            problem.note(planned_share=0.5)
            return total.direction() if self.weighted else total.signs()

        return estimate


def move_outward(problem: Problem, point: Tensor, omega: float) -> Tensor:
    """Return x'_t of section 3.2: the point moved away from the source by omega, clipped."""
    away = point - problem.source
    moved: Tensor = point + away * (omega / torch.linalg.vector_norm(away))
    return moved.clamp_(0, 1)


@register(Estimate)
class Agrest(Sampling):
    """Asymmetric gradient estimation: samples around a centre moved outward by omega_t, so that
    most answers are low-cost (Algorithm 3; in a subspace Algorithm 4).

    As in the published code, omega_t = x* delta / cos(alpha_t), with x* for the subspace dimension
    d' and cos(alpha_t) from the schedule of rate m, which starts at the value for d. An estimate
    stops when its cost reaches c_t = n'_t (c* + 1) / 2, or after n* queries; both are checked
    once per chunk.
    """

    m: Positive = 0.02
    """Rate of the schedule of cos(alpha_t)."""
    refuse_one_sided: bool = False
    """Whether to return None if all answers agree, so that the iterate stays. (The published attack
    moves along the mean direction.)"""

    def tolerance_scale(self, problem: Problem) -> float:
        """Return x*, since the tolerance must be small compared with the overshoot. Below c* = 2,
        where x* approaches 0, the value at 2 is small enough compared with the sampling itself."""
        ratio, d = problem.prices.ratio, dimension_for(problem, self.subspace)
        return theory.optimal_overshoot(max(ratio, 1 / ratio, 2.0), d)

    def overshoot(self, problem: Problem, t: int) -> float:
        """Return omega_t."""
        d = dimension_for(problem, self.subspace)
        x = theory.optimal_overshoot(problem.prices.ratio, d)  # x* (Theorem 3)
        first = theory.initial_cosine(problem.dimension)
        return x * self.delta / theory.scheduled_cosine(t, first, self.m)

    def begin(self, problem: Problem) -> Estimator:
        ratio, d = problem.prices.ratio, dimension_for(problem, self.subspace)

        def estimate(t: int, iterate: Iterate, queries: int) -> Asking[Tensor | None]:
            omega = self.overshoot(problem, t)
            centre = move_outward(problem, iterate.point, omega)
            cost = queries * (ratio + 1) / 2  # c_t
            limit = max(1, math.ceil(theory.optimal_queries(cost, ratio, d)))  # n* (Theorem 3)
            total = yield from self.sample(problem, t, iterate, centre, limit, cost)
            planned = theory.cap_probability(theory.optimal_overshoot(ratio, d), d)
            problem.note(planned_share=planned, overshoot=omega)
            return None if self.refuse_one_sided and total.one_sided else total.direction()

        return estimate


@register(Estimate)
class Biased(Sampling):
    """An estimate around a centre moved outward by a bias with feedback (Stealthy GeoDA).

    The bias shrinks after an estimate with fewer than `few` flagged answers, and grows after one
    with more than `many`, so that it corrects for the gap that the search leaves to the boundary.
    """

    delta: Positive = 0.0194
    """Sampling radius: 2e-4 for each of 56 x 56 x 3 coordinates."""
    bias: NonNegative = 30.0
    """Initial bias in units of delta / sqrt(d'), the radius per coordinate of the subspace."""
    few: CountFrom0 = 10
    many: CountFrom0 = 20
    shrink: PositiveFraction = 0.9
    grow: Annotated[float, number(1, 100)] = 1.1

    def begin(self, problem: Problem) -> Estimator:
        bias = self.bias

        def estimate(t: int, iterate: Iterate, queries: int) -> Asking[Tensor | None]:
            nonlocal bias
            omega = bias * self.delta / math.sqrt(dimension_for(problem, self.subspace))
            centre = move_outward(problem, iterate.point, omega)
            total = yield from self.sample(problem, t, iterate, centre, queries, math.inf)
            problem.note(overshoot=omega, bias=bias)
            flagged = total.asked - total.adversarial
            if flagged < self.few:
                bias *= self.shrink
            elif flagged > self.many:
                bias = min(bias * self.grow, MAX_VALUE)
            return total.direction()

        return estimate


@register(Estimate)
class OptStyle(Checked):
    """An estimate from max(n // 200, 1) * `directions` rays; a vanilla one has n queries."""

    search: Search = field(
        default_factory=lambda: LineSearch(1e-4, relative=True, stages=2, phase=PHASE)
    )
    directions: Count = 10
    gamma: Annotated[float, above(0, MAX_LIMIT)] = 1e4
    """Factor in beta = gamma / d, which is HSJA's radius with theta = gamma / d^1.5."""
    widest: Positive = 0.1
    """Maximum of beta, which small images would exceed; `widest` / max(|x_t - x*|, 1) at t = 1."""
    reach: PositiveFraction = 0.03
    side_by_side: Count = 50
    """Number of rays searched at a time."""

    @property
    def rows(self) -> int:
        """Maximum number of points held: direction, ends and last steps of each ray."""
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
            firsts = range(0, count, self.side_by_side)
            blocks = [slice(first, first + self.side_by_side) for first in firsts]
            away = unit(iterate.point - problem.source)
            lengths: list[float] = []
            for block in blocks:
                rays = unit_rows(away + beta * unit_rows(noise[block]))
                lengths += yield from together([length(ray, iterate.distance) for ray in rays])
            problem.note(rays=count, spread=float(np.std(lengths)) / iterate.distance)
            if np.ptp(lengths) <= problem.resolution:  # equal except for rounding
                return None
            shorter = torch.from_numpy(-(np.array(lengths) - np.mean(lengths)))
            weights = shorter.to(away.device, away.dtype, non_blocking=True)
            direction = torch.zeros_like(away)
            for block in blocks:
                direction += torch.einsum("n,nchw->chw", weights[block], unit_rows(noise[block]))
            return unit(direction)

        return estimate


@dataclass(frozen=True)
class _Radius(Checked):
    """An estimate whose radius is replaced at each iteration."""

    inner: Estimate = field(default_factory=MonteCarlo)
    delta: Positive = 0.0

    def check_together(self) -> None:
        require(hasattr(self.inner, "delta"), "inner", self.inner, "an estimate that has a delta")

    @property
    def rows(self) -> int:
        return self.inner.rows

    def tolerance_scale(self, problem: Problem) -> float:
        return self.inner.tolerance_scale(problem)

    def finest(self, problem: Problem) -> Sampled | None:
        find = getattr(self.inner, "finest", None)
        sampled = None if find is None else find(problem)
        return sampled and sampled._replace(value=self.delta, radius=self._typical(problem))

    def _typical(self, problem: Problem) -> float:  # noqa: ARG002
        return self.delta

    def _at_radius(self, problem: Problem, delta: float) -> Estimator:
        inner: Any = self.inner
        return replace(inner, delta=delta).begin(problem)  # type: ignore[no-any-return]


def typical_distance(problem: Problem) -> float:
    """Return the distance of an image in which every value has moved by 0.03, on the way from a
    start to where attacks end. A radius that is a share of the distance is checked there."""
    return 0.03 * (math.sqrt(problem.dimension) if problem.norm is Metric.L2 else 1.0)


def _resolved(problem: Problem, delta: float) -> float:
    """Return the radius, raised if necessary so that it is not lost in rounding."""
    return float(min(max(delta, MIN_ROUNDINGS * problem.resolution), MAX_VALUE))


@register(Estimate)
class RelativeRadius(_Radius):
    """An estimate with the radius delta |x_t - x*| / d^power; 0.1 at t = 1 (HSJA)."""

    delta: Positive = 0.01
    power: Power = 0.0

    def _typical(self, problem: Problem) -> float:
        delta = self.delta * typical_distance(problem) / problem.dimension**self.power
        return _resolved(problem, delta)

    def begin(self, problem: Problem) -> Estimator:
        def estimate(t: int, iterate: Iterate, queries: int) -> Asking[Tensor | None]:
            shrunk = self.delta * iterate.distance / problem.dimension**self.power
            delta = FIRST_DELTA if t == 1 else _resolved(problem, shrunk)
            return self._at_radius(problem, delta)(t, iterate, queries)

        return estimate


@register(Estimate)
class AdaptiveRadius(_Radius):
    """An estimate with delta_{t+1} = delta_t (1/2 + p), with the adversarial share p (qFool)."""

    delta: Positive = 0.0045

    def begin(self, problem: Problem) -> Estimator:
        delta = self.delta

        def estimate(t: int, iterate: Iterate, queries: int) -> Asking[Tensor | None]:
            nonlocal delta
            delta = _resolved(problem, min(delta, LARGEST_SHARE * iterate.distance))
            direction = yield from self._at_radius(problem, delta)(t, iterate, queries)
            problem.note(radius=delta)
            delta *= 0.5 + float(problem.notes["share"])
            return direction

        return estimate
