"""Paths T(theta) from an adversarial point T(0) inward to T(1).

A path takes one theta in [0,1] and returns one point in [0,1]^d. `start` is T(0), which was
queried. `length` is the path's approximate length in l2, a plain number, from which a search
chooses its finest step.

    line   T(theta) = theta x* + (1 - theta) x
    box    T(theta) = x, clipped to [x* - r, x* + r],  r = (1 - theta) |x - x*|∞
    ray    T(theta) = x* + r s,  r = (1 - reach theta) r_0, s a vector of signs
    arc    T(theta) = x* + cos(phi) |x - x*| (cos(phi) u + sin(phi) v),  phi = theta pi/2

On the arc, u is the unit vector from x* to x, and v a unit vector orthogonal to it: half a circle
with the diameter from x to x*. As seen from x*, T lies at the angle phi from x and at cos(phi) of
its distance. If the boundary is a plane through x with normal g in the span of u and v, the points
up to the angle between u and g are adversarial, the others are not, and the last adversarial point
is the closest to x*.

A sweep is a part that chooses the piece of the circle to search. It may send queries. It returns an
arc whose start is adversarial, or None if no point on the circle is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Protocol

import torch
from torch import Tensor

from ..core.ask import Ask, Asking, Iterate, Until, at_once
from ..core.device import kernels_for
from ..core.metric import Metric
from ..core.validation import above
from ..engine.points import LinearPoint
from .registry import Checked, Depth, PositiveFraction, register
from .vectors import LazyRows

SWEEP = "sweep"
"""The phase of a sweep's queries."""
QUARTER_TURN = math.pi / 2
NEGLIGIBLE_ROUNDINGS = 1e3
"""Number of rounding errors below which a component of a unit vector counts as 0."""


class Path:
    """A path that a search follows; `start` is T(0), which is adversarial."""

    start: Iterate
    length: float

    def __call__(self, theta: float) -> Tensor:
        return self.linear_point(theta).point()  # type: ignore[union-attr]

    def linear_point(self, theta: float) -> LinearPoint | None:  # noqa: ARG002
        """Return the terms of T(theta), or None if only `__call__` computes the point."""
        return None

    def nearness(self, theta: float) -> float:
        """Return the distance of T(theta) from the source, as a share of some fixed length."""
        return 1 - theta

    def mirrored(self) -> Path | None:
        """Return the same path to the other side of x - x*, if there is one."""
        return None


class Segment(Path):
    """The straight line from `start` to `end`; its default length is the distance of `start`."""

    def __init__(self, end: Tensor, start: Iterate, length: float | None = None) -> None:
        self.start = start
        self.length = start.distance if length is None else length
        self._way = end - start.point

    def linear_point(self, theta: float) -> LinearPoint:
        return LinearPoint(self.start.point, self._way, theta)


class Box(Path):
    """The path from `start`, whose distance is in ℓ∞, through shrinking ℓ∞ balls around the source:
    HSJA's projection for ℓ∞. `length` is an upper bound in l2."""

    def __init__(self, source: Tensor, start: Iterate) -> None:
        self.start = start
        self.length = start.distance * math.sqrt(source.numel())
        self._source, self._away = source, start.point - source

    def __call__(self, theta: float) -> Tensor:
        radius = (1 - theta) * self.start.distance
        return self._away.clamp(-radius, radius).add_(self._source).clamp_(0, 1)


class Ray(Path):
    """The path along a vector of signs from `start` inward, to 1 - `reach` of its radius."""

    def __init__(
        self, source: Tensor, signs: Tensor, radius: float, start: Iterate, reach: float = 1.0
    ) -> None:
        self.start = start
        self.length = reach * radius * math.sqrt(source.numel())  # without clipping
        self._source, self._signs, self._radius, self._reach = source, signs, radius, reach

    def linear_point(self, theta: float) -> LinearPoint:
        return LinearPoint(self._source, self._signs, self._radius * (1 - self._reach * theta))


def inward(source: Tensor, start: Iterate, norm: Metric) -> Path:
    """Return the path from `start` to the source on which the distance shrinks evenly."""
    return Box(source, start) if norm is Metric.LINF else Segment(source, start)


@dataclass(frozen=True)
class Circle:
    """The circle with diameter x - x* in the plane of x - x* and a direction."""

    source: Tensor
    away: Tensor
    """The vector x - x*."""
    side: Tensor
    """The component of the direction orthogonal to x - x*, scaled to the same length."""
    cosine: Tensor
    """Cosine of the angle between x - x* and the direction, a scalar on the device."""

    @classmethod
    def through(cls, source: Tensor, point: Tensor, direction: Tensor) -> Circle:
        """Return the circle from `point` that turns towards the unit vector `direction`. If that
        lies along x - x*, `side` is 0, and the circle is the diameter."""
        limits = torch.finfo(point.dtype)
        negligible = NEGLIGIBLE_ROUNDINGS * limits.eps
        if (kernels := kernels_for(source)) is not None:
            terms = (each.contiguous() for each in (source, point, direction))
            return cls(source, *kernels.circle(*terms, negligible, limits.tiny))
        away = point - source
        radius = torch.linalg.vector_norm(away).clamp_min(limits.tiny)
        along = torch.dot(direction.flatten(), away.flatten()) / radius
        side = torch.addcmul(direction, away, -along / radius)
        norm = torch.linalg.vector_norm(side)
        side = side * torch.where(norm > negligible, radius / norm, 0.0)
        return cls(source, away, side, along)

    def at(self, phi: float) -> LinearPoint:
        """Return the terms of the point at the angle phi from x, as seen from x*."""
        cosine, sine = math.cos(phi), math.sin(phi)
        return LinearPoint(self.source, self.away, cosine * cosine, self.side, cosine * sine)

    def at_unknown(self, phi: Tensor) -> Tensor:
        """Return the point at an angle that is a scalar on the device."""
        cosine, sine = torch.cos(phi), torch.sin(phi)
        point = torch.addcmul(self.source, self.away, cosine * cosine)
        return point.addcmul_(self.side, cosine * sine).clamp_(0, 1)


class Arc(Path):
    """A piece of a circle, from the angle `first`, where `start` lies, to the angle `last`. If
    `last` is a scalar tensor on the device, `first` is 0, and `length` is an upper bound."""

    def __init__(
        self, circle: Circle, start: Iterate, first: float = 0, last: float | Tensor = QUARTER_TURN
    ) -> None:
        self.circle, self.start, self.first, self.last = circle, start, first, last
        end = QUARTER_TURN if isinstance(last, Tensor) else last
        self.length = abs(end - first) * start.distance / abs(math.cos(first))

    def __call__(self, theta: float) -> Tensor:
        if isinstance(self.last, Tensor):
            return self.circle.at_unknown(self.last * theta)
        return super().__call__(theta)

    def linear_point(self, theta: float) -> LinearPoint | None:
        if isinstance(self.last, Tensor):
            return None
        return self.circle.at(self.first + (self.last - self.first) * theta)

    def nearness(self, theta: float) -> float:
        last = QUARTER_TURN if isinstance(self.last, Tensor) else self.last
        return math.cos(self.first + (last - self.first) * theta)

    def mirrored(self) -> Path | None:
        if isinstance(self.last, Tensor) or self.first <= 0:
            return None
        return Arc(self.circle, self.start, -self.first, -self.last)


Sweeping = Callable[[Iterate, Circle], Asking[Arc | None]]
"""Function of the iterate and the circle from it; returns the arc to search, or None."""


class Sweep(Protocol):
    """A part that chooses the arc to search."""

    def begin(self) -> Sweeping:
        """Return the sweep for one image, with its own state."""


@register(Sweep)
class Quarter:
    """The arc from x_t to the source: T(theta) in section 3.1 of the paper."""

    def begin(self) -> Sweeping:
        return lambda iterate, circle: at_once(Arc(circle, iterate))


@register(Sweep)
class ToDirection:
    """The arc from x_t to the angle of the direction, where a plane with that normal is closest, as
    in the paper's code for CGBA."""

    def begin(self) -> Sweeping:
        def sweep(iterate: Iterate, circle: Circle) -> Asking[Arc | None]:
            return at_once(Arc(circle, iterate, 0.0, torch.acos(circle.cosine.clamp(0, 1))))

        return sweep


@register(Sweep)
class Galloping(Checked):
    """CGBA's sweep: queries at (1 - 2^-k) 90 degrees, k = 1, 2, ..., until one is flagged."""

    most: Depth = 40
    """Maximum number of queries."""

    def begin(self) -> Sweeping:
        angles = [(1 - 0.5**k) * QUARTER_TURN for k in range(1, self.most + 1)]

        def sweep(iterate: Iterate, circle: Circle) -> Asking[Arc | None]:
            points = LazyRows.stack(angles, lambda phi: circle.at(phi).point())
            answers = yield Ask(points, until=Until.NOT_ADVERSARIAL, phase=SWEEP)
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

    If no angle is adversarial, the largest angle is multiplied by rho for the next sweep. Otherwise
    it is divided by rho, up to half a turn.
    """

    largest: Annotated[float, above(0, 180)] = 30.0
    """Initial largest angle, in degrees."""
    rho: PositiveFraction = 0.98
    grid: Depth = 3

    def begin(self) -> Sweeping:
        largest = math.radians(self.largest)

        def sweep(iterate: Iterate, circle: Circle) -> Asking[Arc | None]:  # noqa: ARG001
            nonlocal largest
            step = largest / self.grid
            angles = [sign * step * k for k in range(self.grid, 0, -1) for sign in (1, -1)]
            points = LazyRows.stack(angles, lambda phi: circle.at(phi).point())
            answers = yield Ask(points, until=Until.ADVERSARIAL, phase=SWEEP)
            if not answers.adversarial[-1]:
                largest *= self.rho
                return None
            largest = min(largest / self.rho, math.pi)
            angle = angles[len(answers) - 1]
            start = Iterate(circle.at(angle).point(), float(answers.distances[-1]))
            return Arc(circle, start, angle, angle + math.copysign(step, angle))

        return sweep
