"""Sweeps: the piece of the circle from x_t towards a direction that is searched.

A sweep may send queries to find the piece. It returns an arc whose start is adversarial, or None if
no point on the circle is.

    Quarter       all of it, from x_t to the source: the paper's T
    ToDirection   up to the angle between x_t - x* and the direction, as in the published CGBA code
    Galloping     between the last adversarial and the first other of 45, 67.5, ... degrees
    SignedGrid    between two of a few angles on both sides, up to an adaptive largest angle
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Protocol

import torch

from ..core.ask import Ask, Asking, Iterate, Until, at_once
from ..core.validation import above
from .paths import QUARTER_TURN, Arc, Circle
from .registry import Checked, Depth, PositiveFraction, register
from .vectors import LazyRows

PHASE = "sweep"

Sweeping = Callable[[Iterate, Circle], Asking[Arc | None]]
"""Takes the iterate and the circle from it, and returns the arc to search."""


class Sweep(Protocol):
    """A part that chooses the arc to search."""

    def begin(self) -> Sweeping:
        """Return the sweep of one image, with its own state."""


@register(Sweep)
class Quarter:
    """From x_t to the source: T(theta) of the paper, section 3.1."""

    def begin(self) -> Sweeping:
        return lambda iterate, circle: at_once(Arc(circle, iterate))


@register(Sweep)
class ToDirection:
    """From x_t to the angle of the direction, where a plane with that normal is closest."""

    def begin(self) -> Sweeping:
        def sweep(iterate: Iterate, circle: Circle) -> Asking[Arc | None]:
            return at_once(Arc(circle, iterate, 0.0, torch.acos(circle.cosine.clamp(0, 1))))

        return sweep


@register(Sweep)
class Galloping(Checked):
    """CGBA's sweep: queries at (1 - 2^-k) 90 degrees, k = 1, 2, ..., to the first flagged one."""

    most: Depth = 40
    """Maximum number of queries."""

    def begin(self) -> Sweeping:
        angles = [(1 - 0.5**k) * QUARTER_TURN for k in range(1, self.most + 1)]

        def sweep(iterate: Iterate, circle: Circle) -> Asking[Arc | None]:
            points = LazyRows.stack(angles, lambda phi: circle.at(phi).point())
            answers = yield Ask(points, until=Until.NOT_ADVERSARIAL, phase=PHASE)
            passed = int(answers.adversarial.sum())
            last = angles[passed] if passed < self.most else QUARTER_TURN
            if not passed:
                return Arc(circle, iterate, 0.0, last)
            first = angles[passed - 1]
            start = Iterate(circle.at(first).point(), float(answers.distances[passed - 1]))
            return Arc(circle, start, first, last)

        return sweep


@register(Sweep)
class SignedGrid(Checked):
    """SurFree's sweep: queries at +theta and -theta for `grid` angles, from the largest down, until
    one is adversarial; the arc leads from there to the next larger angle.

    If no angle is adversarial, the largest angle shrinks by rho for the next sweep. Otherwise it
    grows by 1/rho, up to half a turn.
    """

    largest: Annotated[float, above(0, 180)] = 30.0
    """First largest angle, in degrees."""
    rho: PositiveFraction = 0.98
    grid: Depth = 3

    def begin(self) -> Sweeping:
        largest = math.radians(self.largest)

        def sweep(iterate: Iterate, circle: Circle) -> Asking[Arc | None]:  # noqa: ARG001
            nonlocal largest
            step = largest / self.grid
            angles = [sign * step * k for k in range(self.grid, 0, -1) for sign in (1, -1)]
            points = LazyRows.stack(angles, lambda phi: circle.at(phi).point())
            answers = yield Ask(points, until=Until.ADVERSARIAL, phase=PHASE)
            if not answers.adversarial[-1]:
                largest *= self.rho
                return None
            largest = min(largest / self.rho, math.pi)
            angle = angles[len(answers) - 1]
            start = Iterate(circle.at(angle).point(), float(answers.distances[-1]))
            return Arc(circle, start, angle, angle + math.copysign(step, angle))

        return sweep
