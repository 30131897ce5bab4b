"""Profiles: perturbations of one ℓ∞ radius, and turns from one to another.

A profile p is an image of any size; what is asked is x* + r clip(p), with clip to [-1,1] and then
to [0,1]: pixels beyond 1 are full, the others are partly moved. On a plane with normal g and offset
b the boundary lies at r = b / <clip(p), g>; the nearest point of it, at b / |g|_1, has the signs of
g, which a profile along g approaches as it grows (0.85 of |g|_1 at a spread of 1, 0.96 at 2).

    turn   T(phi) = x* + r cos(phi) clip(cos(phi) p + sin(phi) |p| v),  v a unit vector across p

If p and v are like noise, <clip(p), g> is in proportion to <p, g> (Bussgang's theorem): r falls as
one over the cosine between profile and normal, as the distance along a ray does in ℓ2. So on T the
points are adversarial up to tan(phi) = <v, g> / <u, g>, u = p / |p|, and no farther, as on the
circle of paths.py, and all of turns.py holds. (With signs in place of clip it holds, too, but a
small turn then flips a few pixels whole: its way is mostly noise, and real boundaries bend.)
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from ..core.ask import Asking, Iterate
from ..core.problem import Problem
from .paths import NEGLIGIBLE_ROUNDINGS


class Profile(NamedTuple):
    """A boundary point as a radius and a profile."""

    iterate: Iterate
    values: Tensor
    radius: float
    smooth: bool | None = None
    """Whether the ray that it is from was smooth; None for another kind."""


class FirstProfile(Protocol):
    """A part: finds a boundary point to begin with."""

    @property
    def tolerance(self) -> float:
        """How near to the boundary it ends, as a share of its radius."""

    def __call__(self, problem: Problem, /) -> Asking[Profile | None]:
        """Its profile, or None."""


class ProfileRay:
    """From a far radius inward to a near one, equal steps being equal ratios."""

    def __init__(
        self, source: Tensor, values: Tensor, start: Iterate, far: float, near: float
    ) -> None:
        self.start, self.length = start, start.distance * math.sqrt(source.numel())
        self._source, self._values, self._far, self._near = source, values, far, near

    def radius(self, theta: float) -> float:
        """The radius at theta."""
        return self._far * math.pow(self._near / self._far, theta)

    def __call__(self, theta: float) -> Tensor:
        """T(theta)."""
        return moved(self._source, self._values, self.radius(theta))

    def mixture(self, theta: float) -> None:
        """None: its points are no sums of images."""


class ProfileTurn:
    """The turn from a profile of a radius towards a direction."""

    def __init__(self, source: Tensor, values: Tensor, radius: float, direction: Tensor) -> None:
        limits = torch.finfo(values.dtype)
        length = torch.linalg.vector_norm(values).clamp_min(limits.tiny)
        along = torch.dot(direction.flatten(), values.flatten()) / length
        side = torch.addcmul(direction, values, -along / length)
        norm = torch.linalg.vector_norm(side)
        self._side = side * torch.where(norm > NEGLIGIBLE_ROUNDINGS * limits.eps, length / norm, 0)
        self._source, self._values, self._radius = source, values, radius

    def values(self, phi: float) -> Tensor:
        """The profile at the angle phi."""
        return self._values * math.cos(phi) + self._side * math.sin(phi)

    def radius(self, phi: float) -> float:
        """The radius at the angle phi."""
        return self._radius * math.cos(phi)

    def point(self, phi: float) -> Tensor:
        """The point at the angle phi."""
        return moved(self._source, self.values(phi), self.radius(phi))

    def at(self, phi: float) -> None:
        """None: its points are no sums of images."""


def moved(source: Tensor, values: Tensor, radius: float) -> Tensor:
    """The point of a profile at a radius."""
    return values.clamp(-1, 1).mul_(radius).add_(source).clamp_(0, 1)
