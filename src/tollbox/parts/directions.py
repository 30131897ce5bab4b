"""Directions: where to turn when nothing is estimated. Random, and unlike those before.

SurFree's: in the coordinates of a subspace of low frequencies every coefficient is drawn from
{-1, 0, 1} and weighted by tanh(gamma |coefficient of the image|), so that directions have the
image's own spectrum; then made orthogonal to the last `memory` directions. A floor keeps weights
above 0 where the image has nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from ..core.noise import BLOCK
from ..core.problem import Problem
from ..core.ranges import MAX_VALUE, check, number, whole
from .registry import register
from .subspaces import Dct, Subspace
from .vectors import unit_rows

PHASE = "direction"
CENTRAL_THIRD = 0.4307272992954576
"""A standard normal number is within this of 0 with probability 1/3."""


SHORTEST_REST = 1e-3
"""A part of a unit vector that is shorter is mostly rounding."""


class Directions(Protocol):
    """A part: unit directions, one after another."""

    @property
    def rows(self) -> int:
        """The most points held at a time."""

    def begin(self, problem: Problem, count: int) -> Callable[[], Tensor]:
        """For one image: called up to `count` times, gives the next direction."""


@register(Directions)
@dataclass(frozen=True)
class TernarySpectrum:
    """SurFree's directions."""

    subspace: Subspace = field(default_factory=lambda: Dct(2))
    gamma: float = 1.0
    floor: float = 1e-3
    memory: int = 100

    def __post_init__(self) -> None:
        check(
            self,
            gamma=number(0, MAX_VALUE),
            floor=number(0, MAX_VALUE),
            memory=whole(0, MAX_VALUE),
        )

    @property
    def rows(self) -> int:
        """The most points held at a time."""
        return self.memory + 2 * BLOCK

    def begin(self, problem: Problem, count: int) -> Callable[[], Tensor]:
        """For one image."""
        return _SpectralDirections(self, problem, count).direction


class _SpectralDirections:
    def __init__(self, part: TernarySpectrum, problem: Problem, count: int) -> None:
        self._part, self._image = part, tuple(problem.source.shape)
        self._noise = problem.noise(PHASE, 0, count, part.subspace.shape(self._image))
        size = part.subspace.dimension(self._image)
        spectrum = part.subspace.project(problem.source[None])[0]
        self._weights = torch.tanh(part.gamma * spectrum.abs()) + part.floor
        # more than half could leave nothing that is orthogonal to them
        remembered = min(part.memory, size // 2)
        self._before = problem.source.new_zeros(remembered, size)
        self._drawn: Tensor | None = None
        self._next = 0

    def direction(self) -> Tensor:
        """The next direction, an image of length 1; of length 0 if nothing is left of what was
        drawn once it is orthogonal to those before."""
        row = self._next % BLOCK
        if self._drawn is None or row == 0:
            self._drawn = self._block(self._next)
        vector = self._drawn[row]
        if len(self._before):
            vector = vector.addmv(self._before.T, self._before @ vector, alpha=-1)
            norm = torch.linalg.vector_norm(vector)
            vector = vector * torch.where(norm > SHORTEST_REST, 1 / norm, 0.0)
            self._before[self._next % len(self._before)] = vector
        self._next += 1
        rows = vector.view(1, *self._weights.shape)
        return self._part.subspace.expand(rows, self._image)[0]

    def _block(self, first: int) -> Tensor:
        """The next coefficients, as rows of length 1."""
        noise = self._noise[first : first + BLOCK]
        rows = (noise.sign() * (noise.abs() > CENTRAL_THIRD) * self._weights).flatten(1)
        return unit_rows(rows)
