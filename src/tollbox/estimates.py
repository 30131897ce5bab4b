"""Estimates: the direction in which the margin grows, from decisions around a boundary point.

n unit vectors, uniform on the sphere, are asked at `centre + delta u`, clipped to [0,1]; the u_i
below are the displacements that clipping left, which matters where an image is black or white. With
the share of low-cost answers p = n_L / n the estimate is

    g = (1 - p) v+ + p v-,   v+ the sum of u_i answered adversarial, v- minus the sum of the others

(Algorithm 2; for a centre on the boundary it is the mean-subtracted Monte Carlo estimate of HSJA.)
If all answers are alike this is 0/0. Monte Carlo then gives the mean direction, or minus it, as
HSJA does; AGREST has no information: its estimate is None, never NaN.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from . import theory
from .ask import Ask, Asking
from .problem import Problem

PHASE = "estimate"


class Estimate(Protocol):
    """A part: estimates a unit direction at a boundary point.

    `queries` is n'_t, what the vanilla attack would ask at iteration t (from 1 on). `rows` is the
    most points it holds at a time.
    """

    @property
    def rows(self) -> int:
        """The most points held at a time."""

    def tolerance_scale(self, problem: Problem) -> float:
        """How much finer than usual the boundary point must be found."""

    def __call__(
        self, problem: Problem, t: int, point: Tensor, queries: int
    ) -> Asking[Tensor | None]:
        """The direction, or None if the answers hold no information."""


class _Sum:
    """Running sums of directions by answer."""

    def __init__(self, problem: Problem, t: int, limit: int) -> None:
        self._noise = problem.noise(PHASE, t, limit)
        self._passed = torch.zeros_like(problem.source).flatten()
        self._all = torch.zeros_like(self._passed)
        self.asked = self.adversarial = 0
        self.cost = 0.0
        """What the answers cost, in units of a low-cost answer, as planned."""
        self._shape, self._ratio = problem.source.shape, problem.prices.ratio

    def ask(self, centre: Tensor, delta: float, rows: int) -> Asking[None]:
        """Ask for the next `rows` directions, and add up the displacements as they were asked."""
        noise = self._noise[self.asked : self.asked + rows].flatten(1)
        points = noise / torch.linalg.vector_norm(noise, dim=1, keepdim=True)
        points = points.mul_(delta).add_(centre.flatten()).clamp_(0, 1)
        answers = yield Ask(points.view(-1, *self._shape), phase=PHASE)
        moved = points.sub_(centre.flatten())  # in place: what was asked has been dealt with
        chosen = torch.from_numpy(answers.adversarial.astype(np.float32))
        chosen = chosen.to(moved.device, moved.dtype, non_blocking=True)
        self._passed.addmv_(moved.T, chosen)
        self._all.add_(moved.sum(0))
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
        """g / |g| (Algorithm 2, the last lines)."""
        share = self.share
        failed = self._passed - self._all  # v-, minus the sum of the others
        return self._unit((1 - share) * self._passed + share * failed)

    def mean(self) -> Tensor:
        """The mean direction, towards where the answers were adversarial."""
        return self._unit(self._all if self.adversarial else -self._all)

    def _unit(self, g: Tensor) -> Tensor:
        tiny = torch.finfo(g.dtype).tiny
        unit: Tensor = g / torch.linalg.vector_norm(g).clamp_min(tiny)
        return unit.view(self._shape)


@dataclass(frozen=True)
class MonteCarlo:
    """Samples around the boundary point itself (equation 2)."""

    delta: float = 0.0045
    chunk: int = 128

    @property
    def rows(self) -> int:
        """The most points held at a time."""
        return self.chunk

    def tolerance_scale(self, problem: Problem) -> float:  # noqa: ARG002
        """The search's own tolerance will do."""
        return 1.0

    def __call__(
        self, problem: Problem, t: int, point: Tensor, queries: int
    ) -> Asking[Tensor | None]:
        """The direction."""
        total = _Sum(problem, t, queries)
        while total.asked < queries:
            rows = min(self.chunk, queries - total.asked)
            yield from total.ask(point, self.delta, rows)
        problem.note(share=total.share, estimate_queries=total.asked, planned_share=0.5)
        return total.mean() if total.one_sided else total.direction()


@dataclass(frozen=True)
class Agrest:
    """Asymmetric gradient estimation: samples around a centre moved outward by omega_t, so that
    most answers are low-cost (Algorithm 2).

    As the published code has it: omega_t = x* delta / cos(alpha_t), with cos(alpha_t) from the
    schedule of rate m; an estimate ends when its cost has reached c_t = n'_t (c* + 1) / 2, or after
    n* queries; both are looked at once a chunk.
    """

    delta: float = 0.0045
    m: float = 0.02
    chunk: int = 128

    @property
    def rows(self) -> int:
        """The most points held at a time."""
        return self.chunk

    def tolerance_scale(self, problem: Problem) -> float:
        """x*: the tolerance must be small against the overshoot. Below c* = 2, where x* goes to 0,
        the value at 2, which is small against the sampling itself."""
        ratio = problem.prices.ratio
        return theory.optimal_overshoot(max(ratio, 1 / ratio, 2.0), problem.dimension)

    def overshoot(self, problem: Problem, t: int) -> float:
        """omega_t."""
        d = problem.dimension
        x = theory.optimal_overshoot(problem.prices.ratio, d)
        return x * self.delta / theory.scheduled_cosine(t, theory.initial_cosine(d), self.m)

    def __call__(
        self, problem: Problem, t: int, point: Tensor, queries: int
    ) -> Asking[Tensor | None]:
        """The direction, or None if the answers hold no information."""
        ratio, d = problem.prices.ratio, problem.dimension
        omega = self.overshoot(problem, t)
        away = point - problem.source
        centre = (point + away * (omega / torch.linalg.vector_norm(away))).clamp_(0, 1)
        cost = queries * (ratio + 1) / 2  # c_t
        limit = max(1, math.ceil(theory.optimal_queries(cost, ratio, d)))  # n*
        total = _Sum(problem, t, limit)
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
        return None if total.one_sided else total.direction()
