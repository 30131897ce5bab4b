"""Estimates: the direction in which the margin grows, from decisions around a boundary point.

n unit vectors u_i, uniform on the sphere, are asked at `centre + delta u_i`; with the share of
low-cost answers p = n_L / n the estimate is

    g = (1 - p) v+ + p v-,   v+ the sum of u_i answered adversarial, v- minus the sum of the others

(Algorithm 2; for a centre on the boundary it is the mean-subtracted Monte Carlo estimate of HSJA.)
If all answers are alike there is no information: the estimate is None, never NaN.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from . import theory
from .ask import Answers, Ask, Asking
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


class _Ball:
    """Rows centre + delta u_i."""

    def __init__(self, centre: Tensor, directions: Tensor, delta: float) -> None:
        self._centre, self._directions, self._delta = centre, directions, delta

    def __len__(self) -> int:
        return len(self._directions)

    def __getitem__(self, rows: slice) -> Tensor:
        return self._directions[rows].mul(self._delta).add_(self._centre)


class _Sum:
    """Running sums of directions by answer."""

    def __init__(self, problem: Problem, t: int, limit: int) -> None:
        self._noise = problem.noise(PHASE, t, limit)
        self._passed = torch.zeros_like(problem.source).flatten()
        self._all = torch.zeros_like(self._passed)
        self.asked = self.adversarial = self.flagged = 0
        self.cost = 0.0
        """What the answers cost, in units of a low-cost answer, as planned."""
        self._shape, self._ratio = problem.source.shape, problem.prices.ratio

    def ask(self, centre: Tensor, delta: float, rows: int) -> Asking[Answers]:
        """Ask for the next `rows` directions and add them up."""
        noise = self._noise[self.asked : self.asked + rows].flatten(1)
        directions = noise / torch.linalg.vector_norm(noise, dim=1, keepdim=True)
        ball = _Ball(centre, directions.view(-1, *self._shape), delta)
        answers = yield Ask(ball, phase=PHASE)
        chosen = torch.from_numpy(answers.adversarial.astype(np.float32))
        chosen = chosen.to(directions.device, directions.dtype, non_blocking=True)
        self._passed.addmv_(directions.T, chosen)
        self._all.add_(directions.sum(0))
        self.asked += rows
        self.adversarial += int(answers.adversarial.sum())
        flagged = int(answers.flagged.sum())
        self.flagged += flagged
        self.cost += flagged * self._ratio + (rows - flagged)
        return answers

    @property
    def share(self) -> float:
        """The share of adversarial answers."""
        return self.adversarial / self.asked

    def direction(self) -> Tensor | None:
        """g / |g| (Algorithm 2, the last lines)."""
        if self.adversarial in (0, self.asked):
            return None
        share = self.share
        failed = self._passed - self._all  # v-, minus the sum of the others
        g = (1 - share) * self._passed + share * failed
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
        """The direction, or None if the answers hold no information."""
        total = _Sum(problem, t, queries)
        while total.asked < queries:
            rows = min(self.chunk, queries - total.asked)
            yield from total.ask(point, self.delta, rows)
        problem.note(share=total.share, estimate_queries=total.asked, planned_share=0.5)
        return total.direction()


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
        centre = point + away * (omega / torch.linalg.vector_norm(away))
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
        return total.direction()
