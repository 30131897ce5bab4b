"""Estimates: the direction in which the margin grows, from decisions around a boundary point.

n unit vectors, uniform on the sphere of a subspace, are asked at `centre + delta u`, clipped to
[0,1]; the u_i below are the displacements that clipping left, which matters where an image is black
or white. With the share of low-cost answers p = n_L / n the estimate is

    g = (1 - p) v+ + p v-,   v+ the sum of u_i answered adversarial, v- minus the sum of the others

(Algorithm 3; for a centre on the boundary it is the mean-subtracted Monte Carlo estimate of HSJA.)
If all answers are alike this is 0. The estimate is then the mean direction, or minus it, as in HSJA
and in the published code of the others. Where the centre was moved outward that tells nothing of
the boundary: `Agrest(refuse_one_sided=True)` gives None instead.

    MonteCarlo      around the boundary point itself
    Agrest          around a point farther out, by the paper's schedule
    Biased          around a point farther out, by feedback: Stealthy GeoDA's
    OptStyle        from distances of the boundary along nearby rays: Stealthy HSJA's (opt_style.py)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from .. import theory
from ..core.ask import Ask, Asking, Iterate
from ..core.problem import Problem
from ..core.validation import MAX_VALUE, above, check, number, whole
from .registry import register
from .subspaces import Full, Prior, dimension_for, drawing_for
from .vectors import sum_weights, unit

PHASE = "estimate"

Estimator = Callable[[int, Iterate, int], Asking[Tensor | None]]
"""Called with the iteration t (from 1 on), the boundary point x_t and n'_t, what the vanilla attack
would ask; gives a unit direction, or None if the answers hold no information."""


class Estimate(Protocol):
    """A part: estimates a unit direction at a boundary point."""

    @property
    def rows(self) -> int:
        """The most points held at a time."""

    def tolerance_scale(self, problem: Problem) -> float:
        """How much finer than usual the boundary point must be found."""

    def begin(self, problem: Problem) -> Estimator:
        """For one image, with a memory of its own if it needs one."""


class _DirectionSum:
    """Running sums of directions by answer."""

    def __init__(
        self, problem: Problem, t: int, iterate: Iterate, limit: int, subspace: Prior
    ) -> None:
        self._draw = drawing_for(problem, subspace).at(iterate.point)
        self._noise = problem.noise(PHASE, t, limit, self._draw.shape)
        self._sums = problem.source.new_zeros(2, problem.source.numel())
        """Of the displacements that were answered adversarial, and of all."""
        self.asked = self.adversarial = 0
        self.cost = 0.0
        """What the answers cost, in units of a low-cost answer, as planned."""
        self._shape, self._ratio = problem.source.shape, problem.prices.ratio

    def ask(self, centre: Tensor, delta: float, rows: int) -> Asking[None]:
        """Ask for the next `rows` directions, and add up the displacements as they were asked."""
        noise = self._noise[self.asked : self.asked + rows]
        points = self._draw(noise, delta).flatten(1)
        points = points.add_(centre.flatten()).clamp_(0, 1)
        answers = yield Ask(points.view(-1, *self._shape), phase=PHASE)
        moved = points.sub_(centre.flatten())  # in place: what was asked has been dealt with
        self._sums.addmm_(sum_weights(answers.adversarial, moved), moved)
        self.asked += rows
        self.adversarial += int(answers.adversarial.sum())
        flagged = int(answers.flagged.sum())
        self.cost += flagged * self._ratio + (rows - flagged)

    @property
    def share(self) -> float:
        """The share of adversarial answers."""
        return self.adversarial / self.asked

    @property
    def one_sided(self) -> bool:
        """All answers are alike."""
        return self.adversarial in (0, self.asked)

    def direction(self) -> Tensor:
        """g / |g| (Algorithm 3, the last lines); the mean of all, towards where the answers were
        adversarial, if they are alike."""
        share, (passed, everything) = self.share, self._sums
        failed = passed - everything  # v-, minus the sum of the others
        if self.one_sided:
            return self._image(passed + failed)
        return self._image((1 - share) * passed + share * failed)

    def signs(self) -> Tensor:
        """The sum of phi(x_i) u_i (equation 2)."""
        passed, everything = self._sums
        return self._image(2 * passed - everything)

    def _image(self, g: Tensor) -> Tensor:
        return unit(g).view(self._shape)


@register(Estimate)
@dataclass(frozen=True)
class MonteCarlo:
    """Samples around the boundary point itself (equation 2)."""

    delta: float = 0.0045
    chunk: int = 128
    subspace: Prior = field(default_factory=Full)
    weighted: bool = True
    """Weight the two sides as Algorithm 3 does; if not, add up signs, as GeoDA and CGBA do."""

    def __post_init__(self) -> None:
        check(self, delta=above(0, MAX_VALUE), chunk=whole(1, MAX_VALUE))

    @property
    def rows(self) -> int:
        """The most points held at a time."""
        return self.chunk

    def tolerance_scale(self, problem: Problem) -> float:  # noqa: ARG002
        """The search's own tolerance will do."""
        return 1.0

    def begin(self, problem: Problem) -> Estimator:
        """For one image."""
        return partial(self._estimate, problem)

    def _estimate(
        self, problem: Problem, t: int, iterate: Iterate, queries: int
    ) -> Asking[Tensor | None]:
        total = _DirectionSum(problem, t, iterate, queries, self.subspace)
        while total.asked < queries:
            rows = min(self.chunk, queries - total.asked)
            yield from total.ask(iterate.point, self.delta, rows)
        problem.note(share=total.share, estimate_queries=total.asked, planned_share=0.5)
        if not self.weighted:
            return total.signs()
        return total.direction()


def move_outward(problem: Problem, point: Tensor, omega: float) -> Tensor:
    """The point moved away from the source by omega, clipped: x'_t of section 3.2."""
    away = point - problem.source
    moved: Tensor = point + away * (omega / torch.linalg.vector_norm(away))
    return moved.clamp_(0, 1)


@register(Estimate)
@dataclass(frozen=True)
class Agrest:
    """Asymmetric gradient estimation: samples around a centre moved outward by omega_t, so that
    most answers are low-cost (Algorithm 3; in a subspace Algorithm 4).

    As the published code has it: omega_t = x* delta / cos(alpha_t), with x* of the subspace's
    dimension d' and cos(alpha_t) from the schedule of rate m, which begins at that of d; an
    estimate ends when its cost has reached c_t = n'_t (c* + 1) / 2, or after n* queries; both are
    looked at once a chunk.
    """

    delta: float = 0.0045
    m: float = 0.02
    chunk: int = 128
    subspace: Prior = field(default_factory=Full)
    refuse_one_sided: bool = False
    """Give None if all answers are alike, so that the iterate stays where it is. (As published the
    attack moves along the mean direction.)"""

    def __post_init__(self) -> None:
        check(
            self,
            delta=above(0, MAX_VALUE),
            m=above(0, MAX_VALUE),
            chunk=whole(1, MAX_VALUE),
        )

    @property
    def rows(self) -> int:
        """The most points held at a time."""
        return self.chunk

    def tolerance_scale(self, problem: Problem) -> float:
        """x*: the tolerance must be small against the overshoot. Below c* = 2, where x* goes to 0,
        the value at 2, which is small against the sampling itself."""
        ratio = problem.prices.ratio
        return theory.optimal_overshoot(max(ratio, 1 / ratio, 2.0), self._dimension(problem))

    def overshoot(self, problem: Problem, t: int) -> float:
        """omega_t."""
        x = theory.optimal_overshoot(problem.prices.ratio, self._dimension(problem))
        first = theory.initial_cosine(problem.dimension)
        return x * self.delta / theory.scheduled_cosine(t, first, self.m)

    def begin(self, problem: Problem) -> Estimator:
        """For one image."""
        return partial(self._estimate, problem)

    def _dimension(self, problem: Problem) -> int:
        """d'."""
        return dimension_for(problem, self.subspace)

    def _estimate(
        self, problem: Problem, t: int, iterate: Iterate, queries: int
    ) -> Asking[Tensor | None]:
        ratio, d = problem.prices.ratio, self._dimension(problem)
        omega = self.overshoot(problem, t)
        centre = move_outward(problem, iterate.point, omega)
        cost = queries * (ratio + 1) / 2  # c_t
        limit = max(1, math.ceil(theory.optimal_queries(cost, ratio, d)))  # n*
        total = _DirectionSum(problem, t, iterate, limit, self.subspace)
        while total.cost < cost and total.asked < limit:
            rows = min(self.chunk, limit - total.asked)
            yield from total.ask(centre, self.delta, rows)
        planned = theory.cap_probability(theory.optimal_overshoot(ratio, d), d)
        problem.note(
            share=total.share,
            estimate_queries=total.asked,
            planned_share=planned,
            overshoot=omega,
        )
        return None if self.refuse_one_sided and total.one_sided else total.direction()


@register(Estimate)
@dataclass(frozen=True)
class Biased:
    """Samples around a centre moved outward by a bias that feedback sets (Stealthy GeoDA): less of
    it after an estimate with fewer than `few` flagged answers, more after one with over `many`."""

    delta: float = 0.0194
    """2e-4 for each of 56 x 56 x 3 coordinates."""
    bias: float = 30.0
    """In units of what delta is for one coordinate of the subspace, delta / sqrt(d')."""
    few: int = 10
    many: int = 20
    shrink: float = 0.9
    grow: float = 1.1
    chunk: int = 128
    subspace: Prior = field(default_factory=Full)

    def __post_init__(self) -> None:
        check(
            self,
            delta=above(0, MAX_VALUE),
            bias=number(0, MAX_VALUE),
            chunk=whole(1, MAX_VALUE),
        )
        check(self, few=whole(0, MAX_VALUE), many=whole(0, MAX_VALUE))
        check(self, shrink=above(0, 1), grow=number(1, 100))

    @property
    def rows(self) -> int:
        """The most points held at a time."""
        return self.chunk

    def tolerance_scale(self, problem: Problem) -> float:  # noqa: ARG002
        """The search's own tolerance will do: feedback makes up for what it leaves."""
        return 1.0

    def begin(self, problem: Problem) -> Estimator:
        """For one image, with its own bias."""
        return _WithFeedback(self, problem).estimate


class _WithFeedback:
    def __init__(self, part: Biased, problem: Problem) -> None:
        self._part, self._problem, self._bias = part, problem, part.bias

    def estimate(self, t: int, iterate: Iterate, queries: int) -> Asking[Tensor | None]:
        part, problem = self._part, self._problem
        d = dimension_for(problem, part.subspace)
        omega = self._bias * part.delta / math.sqrt(d)
        centre = move_outward(problem, iterate.point, omega)
        total = _DirectionSum(problem, t, iterate, queries, part.subspace)
        while total.asked < queries:
            yield from total.ask(centre, part.delta, min(part.chunk, queries - total.asked))
        flagged = total.asked - total.adversarial
        problem.note(
            share=total.share, estimate_queries=total.asked, overshoot=omega, bias=self._bias
        )
        if flagged < part.few:
            self._bias *= part.shrink
        elif flagged > part.many:
            self._bias = min(self._bias * part.grow, MAX_VALUE)
        return total.direction()
