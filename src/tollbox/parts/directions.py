"""Directions to turn to when nothing is estimated: random, and unlike the previous ones.

`TernarySpectrum` (SurFree): every coefficient of a low-frequency subspace is drawn from {-1, 0, 1}
and weighted by tanh(gamma |c|) or |c|, where c is the source image's own coefficient. A floor keeps
the weights above 0 where the image has no energy. The result is made orthogonal to the direction
from the source to the first boundary point and to at least the last `memory` directions (at most
twice as many).

Directions are made in blocks. The components along earlier blocks are removed from all rows at
once. The rows of a block are then orthogonalised by a Cholesky factor of their Gram matrix: with
W = L Q, the rows of Q are what Gram-Schmidt gives.

`SingleWaves` (Triangle Attack): one random low frequency for each channel, with a standard normal
coefficient and no memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import hardshrink

from ..core.problem import Problem
from ..core.validation import MAX_VALUE, Range, check, number, whole
from .registry import register
from .subspaces import Dct, Subspace, dimension_for
from .vectors import unit, unit_rows

PHASE = "direction"
CENTRAL_THIRD = 0.4307272992954576
"""A standard normal number is within this distance of 0 with probability 1/3."""
BLOCK = 16
"""Number of directions made at a time."""
SHORTEST_REMAINDER = 3e-4
"""A remainder of a unit vector that is shorter than this is mostly rounding error."""
NEGLIGIBLE_PRODUCT = 1e-14
"""Added to squared lengths, so that a row without a remainder also has a Cholesky factor."""
GAMMA_RANGE = Range(
    f"a number from 0 to {MAX_VALUE}, or None",
    lambda value: value is None or number(0, MAX_VALUE).holds(value),
)


class Directions(Protocol):
    """A part that gives unit directions one after another."""

    @property
    def rows(self) -> int:
        """Maximum number of points held in memory at a time."""

    def begin(self, problem: Problem, count: int, away: Tensor) -> Callable[[], Tensor]:
        """Return a function that gives the next direction for one image, at most `count` times.

        `away` is the first boundary point minus the source.
        """


@register(Directions)
@dataclass(frozen=True)
class TernarySpectrum:
    """SurFree's directions."""

    subspace: Subspace = field(default_factory=lambda: Dct(2))
    gamma: float | None = 1.0
    """Scale of the weights tanh(gamma |c|); with None the weights are |c|."""
    centre: float = 0.0
    """Value subtracted from the image before the transform; it changes the channel means."""
    floor: float = 1e-3
    memory: int = 100

    def __post_init__(self) -> None:
        check(
            self,
            gamma=GAMMA_RANGE,
            centre=number(0, 1),
            floor=number(0, MAX_VALUE),
            memory=whole(0, MAX_VALUE),
        )

    @property
    def rows(self) -> int:
        return self.memory + 2 * BLOCK + 1

    def begin(self, problem: Problem, count: int, away: Tensor) -> Callable[[], Tensor]:
        blocks = _SpectralBlocks(self, problem, count, away)
        return _one_by_one(blocks.block, blocks.block_size)


def _one_by_one(block: Callable[[int], Tensor], size: int) -> Callable[[], Tensor]:
    """Return a function that gives the rows of blocks, which `block(first)` makes."""
    made, position = torch.empty(0), 0

    def direction() -> Tensor:
        nonlocal made, position
        row = position % size
        if row == 0:
            made = block(position)
        position += 1
        return made[row]

    return direction


class _SpectralBlocks:
    """Blocks of SurFree's directions for one image.

    Directions are stored and orthogonalised as coefficients, which preserve lengths and angles.
    Cropping to a mask does not preserve angles, so with a mask they are stored as images.
    """

    def __init__(self, part: TernarySpectrum, problem: Problem, count: int, away: Tensor) -> None:
        self._problem, self._subspace = problem, part.subspace
        self._image = tuple(problem.source.shape)
        self._shape = part.subspace.shape(self._image)
        # Whole blocks up to the last one: a partial block would be rounded differently.
        self._noise = problem.noise(PHASE, 0, count + BLOCK, self._shape)
        size = dimension_for(problem, part.subspace)
        weights = part.subspace.project(problem.source[None] - part.centre)[0].abs()
        if part.gamma is not None:
            weights = torch.tanh(part.gamma * weights)
        self._weights = weights + part.floor
        # Remembering more than half of the dimensions could leave nothing orthogonal to them.
        remembered = min(part.memory, (size - 1) // 2)
        # A block is no larger than the memory, so that at most twice the memory is remembered.
        self.block_size = max(1, min(BLOCK, size // 8, remembered or BLOCK))
        blocks = -(-remembered // self.block_size)
        width = math.prod(self._shape if problem.mask is None else self._image)
        self._previous = problem.source.new_zeros(1 + blocks * self.block_size, width)
        """The direction to the first boundary point, followed by the remembered directions."""
        if size > 1:  # in one dimension nothing would remain
            if problem.mask is None:
                first = part.subspace.project(away[None])
            else:
                first = problem.only_mask(away)
            self._previous[0] = unit(first.flatten())

    def block(self, first: int) -> Tensor:
        """Return the directions from `first` on, as images.

        A row is 0 if nothing of it remains orthogonal to the previous directions.
        """
        noise = self._noise[first : first + self.block_size]
        drawn = hardshrink(noise, CENTRAL_THIRD).sign_() * self._weights
        if self._problem.mask is not None:
            drawn = self._problem.only_mask(self._subspace.expand(drawn, self._image))
        rows = unit_rows(drawn.flatten(1))
        rows = torch.addmm(rows, rows @ self._previous.T, self._previous, alpha=-1)
        if len(self._previous) == 1:
            rows = unit_rows(rows)
        else:
            rows = _orthonormal(rows)
            oldest = 1 + first % (len(self._previous) - 1)
            self._previous[oldest : oldest + len(rows)] = rows
        if self._problem.mask is not None:
            return rows.view(-1, *self._image)
        return self._subspace.expand(rows.view(-1, *self._shape), self._image)


def _orthonormal(rows: Tensor) -> Tensor:
    """Orthonormalise rows of length 1 or less; rows without a remainder become 0."""
    double = rows.double()
    products = double @ double.T
    products.diagonal().add_(NEGLIGIBLE_PRODUCT)
    factor, _ = torch.linalg.cholesky_ex(products)
    made: Tensor = torch.linalg.solve_triangular(factor, double, upper=False)
    made *= (factor.diagonal() > SHORTEST_REMAINDER)[:, None]
    return made.to(rows.dtype)


@register(Directions)
@dataclass(frozen=True)
class SingleWaves:
    """The Triangle Attack's directions: one wave for each channel."""

    subspace: Subspace = field(default_factory=lambda: Dct(10))

    @property
    def rows(self) -> int:
        return 2 * BLOCK

    def begin(self, problem: Problem, count: int, away: Tensor) -> Callable[[], Tensor]:  # noqa: ARG002
        image = tuple(problem.source.shape)
        shape = self.subspace.shape(image)
        noise = problem.noise(PHASE, 0, count + BLOCK, (2, *shape))

        def block(first: int) -> Tensor:
            # The largest of the first numbers selects the frequency; the second is its coefficient.
            drawn, coefficients = noise[first : first + BLOCK].flatten(3).unbind(1)
            chosen = drawn == drawn.amax(-1, keepdim=True)
            rows = unit_rows((coefficients * chosen).view(-1, *shape))
            waves = self.subspace.expand(rows, image)
            return waves if problem.mask is None else unit_rows(problem.only_mask(waves))

        return _one_by_one(block, BLOCK)
