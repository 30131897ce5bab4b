"""Sweeps: which piece of the circle from x_t towards a direction is searched.

A sweep may ask on its own to find the piece. It gives an arc whose start is adversarial, or None if
nothing on the circle was.

    Quarter       all of it, from x_t to the source: the paper's T
    ToDirection   up to the angle between x_t - x* and the direction, as the published CGBA code
    Galloping     between the last adversarial and the first other of 45, 67.5, ... degrees
    SignedGrid    between two of a few angles on both sides, with a largest angle that adapts
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from ..core.ask import Ask, Asking, Iterate, Until, at_once
from ..core.problem import Problem
from ..core.validation import MAX_DEPTH, above, check, whole
from .paths import QUARTER_TURN, Arc, Circle
from .registry import register

PHASE = "sweep"

Sweeping = Callable[[Iterate, Tensor], Asking[Arc | None]]
"""Called with the iterate and a unit direction, gives the arc to be searched."""


class Sweep(Protocol):
    """A part: chooses the arc. `begin` gives what one image uses, with a memory of its own."""

    def begin(self, problem: Problem, /) -> Sweeping:
        """For one image."""


class _Angles:
    """Points of a circle at given angles, as rows."""

    def __init__(self, circle: Circle, angles: list[float]) -> None:
        self._circle, self._angles = circle, angles

    def __len__(self) -> int:
        return len(self._angles)

    def __getitem__(self, rows: slice) -> Tensor:
        return torch.stack([self._circle.at(phi).point() for phi in self._angles[rows]])


@register(Sweep)
@dataclass(frozen=True)
class Quarter:
    """From x_t to the source: T(theta) of the paper, section 3.1."""

    def begin(self, problem: Problem) -> Sweeping:
        """For one image."""
        return partial(self._arc, problem)

    def _arc(self, problem: Problem, iterate: Iterate, direction: Tensor) -> Asking[Arc | None]:
        return at_once(Arc(Circle.through(problem.source, iterate.point, direction), iterate))


@register(Sweep)
@dataclass(frozen=True)
class ToDirection:
    """From x_t to the angle of the direction, where a plane with that normal would be nearest."""

    def begin(self, problem: Problem) -> Sweeping:
        """For one image."""
        return partial(self._arc, problem)

    def _arc(self, problem: Problem, iterate: Iterate, direction: Tensor) -> Asking[Arc | None]:
        circle = Circle.through(problem.source, iterate.point, direction)
        return at_once(Arc(circle, iterate, 0.0, torch.acos(circle.cosine.clamp(0, 1))))


@register(Sweep)
@dataclass(frozen=True)
class Galloping:
    """CGBA's own: asks at (1 - 2^-k) 90 degrees, k = 1, 2, ..., until one is not adversarial."""

    most: int = 40

    def __post_init__(self) -> None:
        check(self, most=whole(1, MAX_DEPTH))

    def begin(self, problem: Problem) -> Sweeping:
        """For one image."""
        return partial(self._arc, problem)

    def _arc(self, problem: Problem, iterate: Iterate, direction: Tensor) -> Asking[Arc | None]:
        circle = Circle.through(problem.source, iterate.point, direction)
        angles = [(1 - 0.5**k) * QUARTER_TURN for k in range(1, self.most + 1)]
        points = _Angles(circle, angles)
        answers = yield Ask(points, until=Until.NOT_ADVERSARIAL, phase=PHASE)
        passed = int(answers.adversarial.sum())
        last = angles[passed] if passed < self.most else QUARTER_TURN
        if not passed:
            return Arc(circle, iterate, 0.0, last)
        start = Iterate(points[passed - 1 : passed][0], float(answers.distances[passed - 1]))
        return Arc(circle, start, angles[passed - 1], last)


@register(Sweep)
@dataclass(frozen=True)
class SignedGrid:
    """SurFree's own: asks at +theta and -theta for `grid` angles, from the largest down, until one
    is adversarial; the arc goes on from there to the next larger. If none is, the largest angle
    shrinks by rho for the next time; if one is, it grows by 1/rho, up to half a turn."""

    largest: float = 30.0
    """In degrees."""
    rho: float = 0.98
    grid: int = 3

    def __post_init__(self) -> None:
        check(self, largest=above(0, 180), rho=above(0, 1), grid=whole(1, MAX_DEPTH))

    def begin(self, problem: Problem) -> Sweeping:
        """For one image."""
        return _Signed(self, problem).arc


class _Signed:
    def __init__(self, sweep: SignedGrid, problem: Problem) -> None:
        self._sweep, self._problem = sweep, problem
        self._largest = math.radians(sweep.largest)

    def arc(self, iterate: Iterate, direction: Tensor) -> Asking[Arc | None]:
        circle = Circle.through(self._problem.source, iterate.point, direction)
        step = self._largest / self._sweep.grid
        angles = [sign * step * k for k in range(self._sweep.grid, 0, -1) for sign in (1, -1)]
        answers = yield Ask(_Angles(circle, angles), until=Until.ADVERSARIAL, phase=PHASE)
        if not answers.adversarial[-1]:
            self._largest *= self._sweep.rho
            return None
        self._largest = min(self._largest / self._sweep.rho, math.pi)
        angle = angles[len(answers) - 1]
        start = Iterate(circle.at(angle).point(), float(answers.distances[-1]))
        return Arc(circle, start, angle, angle + math.copysign(step, angle))
