"""Directions: where to turn when nothing is estimated. Random, and unlike those before.

SurFree's: in the coordinates of a subspace of low frequencies every coefficient is drawn from
{-1, 0, 1} and weighted by the image's own coefficient c, as tanh(gamma |c|) or as |c| itself; then
made orthogonal to the way from the source to the first boundary point, and to the last `memory`
directions, or up to twice as many. A floor keeps weights above 0 where the image has nothing.

Directions are made a block at a time: the part along the blocks before is taken off all rows at
once, and what is left is made orthogonal row after row (Gram-Schmidt), by a Cholesky factor of its
small matrix of products: with W = L Q the rows of Q are what Gram-Schmidt gives.

The Triangle Attack's: of every channel one of the lowest frequencies, at random, with a standard
normal coefficient. Nothing is remembered.
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
from .subspaces import Dct, Shape, Subspace, dimension_for
from .vectors import unit, unit_rows

PHASE = "direction"
CENTRAL_THIRD = 0.4307272992954576
"""A standard normal number is within this of 0 with probability 1/3."""


BLOCK = 16
"""Directions that are made at a time."""
SHORTEST_REST = 3e-4
"""A part of a unit vector that is shorter is mostly rounding."""
NEGLIGIBLE_PRODUCT = 1e-14
"""Added to squares of lengths, so that a row of which nothing is left has a factor, too."""


GAMMA_RANGE = Range(
    f"a number from 0 to {MAX_VALUE}, or None",
    lambda value: value is None or number(0, MAX_VALUE).holds(value),
)


class Directions(Protocol):
    """A part: unit directions, one after another."""

    @property
    def rows(self) -> int:
        """The most points held at a time."""

    def begin(self, problem: Problem, count: int, away: Tensor) -> Callable[[], Tensor]:
        """For one image: called up to `count` times, gives the next direction. `away` is the way
        from the source to the first boundary point."""


@register(Directions)
@dataclass(frozen=True)
class TernarySpectrum:
    """SurFree's directions."""

    subspace: Subspace = field(default_factory=lambda: Dct(2))
    gamma: float | None = 1.0
    """Weights are tanh(gamma |c|); None: |c|."""
    centre: float = 0.0
    """Taken off the image before its coefficients are: it changes the means of its channels."""
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
        """The most points held at a time."""
        return self.memory + 2 * BLOCK + 1

    def begin(self, problem: Problem, count: int, away: Tensor) -> Callable[[], Tensor]:
        """For one image."""
        return _SpectralDirections(self, problem, count, away).direction


class _SpectralDirections:
    def __init__(self, part: TernarySpectrum, problem: Problem, count: int, away: Tensor) -> None:
        self._part, self._image = part, tuple(problem.source.shape)
        # whole blocks, to the last: a part of one would be rounded in another way
        self._noise = problem.noise(PHASE, 0, count + BLOCK, part.subspace.shape(self._image))
        self._frame = _frame(problem, part.subspace)
        size = dimension_for(problem, part.subspace)
        weights = part.subspace.project(problem.source[None] - part.centre)[0].abs()
        if part.gamma is not None:
            weights = torch.tanh(part.gamma * weights)
        self._weights = weights + part.floor
        # more than half, and a few, could leave nothing that is orthogonal to them
        remembered = min(part.memory, (size - 1) // 2)
        # of a block no more than the memory: a direction is across twice as many at most
        self._block_size = max(1, min(BLOCK, size // 8, remembered or BLOCK))
        blocks = -(-remembered // self._block_size)
        self._before = problem.source.new_zeros(1 + blocks * self._block_size, self._frame.width)
        """The first boundary point's direction, and after it those that are remembered."""
        if size > 1:  # or nothing would be left
            self._before[0] = unit(self._frame.of_image(away))
        self._made: Tensor | None = None
        self._next = 0

    def direction(self) -> Tensor:
        """The next direction, an image of length 1; of length 0 if nothing is left of what was
        drawn once it is orthogonal to those before."""
        row = self._next % self._block_size
        if self._made is None or row == 0:
            self._made = self._block(self._next)
        self._next += 1
        return self._made[row]

    def _block(self, first: int) -> Tensor:
        """The directions from `first` on."""
        noise = self._noise[first : first + self._block_size]
        drawn = hardshrink(noise, CENTRAL_THIRD).sign_() * self._weights
        rows = unit_rows(self._frame.of_drawn(drawn))
        rows = torch.addmm(rows, rows @ self._before.T, self._before, alpha=-1)
        if len(self._before) == 1:
            rows = unit_rows(rows)
        else:
            rows = _orthonormal(rows)
            oldest = 1 + first % (len(self._before) - 1)
            self._before[oldest : oldest + len(rows)] = rows
        return self._frame.images(rows)


class _Coefficients:
    """Directions as coefficients of a subspace, which keep lengths and angles."""

    def __init__(self, subspace: Subspace, image: Shape) -> None:
        self._subspace, self._image = subspace, image
        self._shape = subspace.shape(image)
        self.width = math.prod(self._shape)

    def of_drawn(self, drawn: Tensor) -> Tensor:
        """Of rows of coefficients, (n, width)."""
        return drawn.flatten(1)

    def of_image(self, image: Tensor) -> Tensor:
        """Of one image, (width)."""
        return self._subspace.project(image[None]).flatten()

    def images(self, rows: Tensor) -> Tensor:
        """The images of rows."""
        return self._subspace.expand(rows.view(-1, *self._shape), self._image)


class _MaskedImages:
    """Directions as images within a mask: what is left of coefficients there keeps no angles."""

    def __init__(self, subspace: Subspace, problem: Problem) -> None:
        self._subspace, self._problem = subspace, problem
        self._image = tuple(problem.source.shape)
        self.width = problem.source.numel()

    def of_drawn(self, drawn: Tensor) -> Tensor:
        """Of rows of coefficients, (n, width)."""
        return self._problem.only_mask(self._subspace.expand(drawn, self._image)).flatten(1)

    def of_image(self, image: Tensor) -> Tensor:
        """Of one image, (width)."""
        return self._problem.only_mask(image).flatten()

    def images(self, rows: Tensor) -> Tensor:
        """The images of rows."""
        return rows.view(-1, *self._image)


def _frame(problem: Problem, subspace: Subspace) -> _Coefficients | _MaskedImages:
    """What directions are remembered and made orthogonal in."""
    if problem.mask is not None:
        return _MaskedImages(subspace, problem)
    return _Coefficients(subspace, tuple(problem.source.shape))


def _orthonormal(rows: Tensor) -> Tensor:
    """What Gram-Schmidt makes of rows of length 1 or less; 0 where nothing is left of one."""
    double = rows.double()
    products = double @ double.T
    products.diagonal().add_(NEGLIGIBLE_PRODUCT)
    factor, _ = torch.linalg.cholesky_ex(products)
    made: Tensor = torch.linalg.solve_triangular(factor, double, upper=False)
    made *= (factor.diagonal() > SHORTEST_REST)[:, None]
    return made.to(rows.dtype)


@register(Directions)
@dataclass(frozen=True)
class SingleWaves:
    """The Triangle Attack's directions: a wave for each channel."""

    subspace: Subspace = field(default_factory=lambda: Dct(10))

    @property
    def rows(self) -> int:
        """The most points held at a time."""
        return 2 * BLOCK

    def begin(self, problem: Problem, count: int, away: Tensor) -> Callable[[], Tensor]:  # noqa: ARG002
        """For one image."""
        return _Waves(self.subspace, problem, count).direction


class _Waves:
    def __init__(self, subspace: Subspace, problem: Problem, count: int) -> None:
        self._subspace, self._image = subspace, tuple(problem.source.shape)
        self._small = subspace.shape(self._image)
        self._noise = problem.noise(PHASE, 0, count + BLOCK, (2, *self._small))
        self._problem = problem
        self._made: Tensor | None = None
        self._next = 0

    def direction(self) -> Tensor:
        """The next direction, an image of length 1."""
        row = self._next % BLOCK
        if self._made is None or row == 0:
            self._made = self._block(self._next)
        self._next += 1
        return self._made[row]

    def _block(self, first: int) -> Tensor:
        """The directions from `first` on: the wave is where the first of two numbers is largest,
        its coefficient the second."""
        drawn, coefficients = self._noise[first : first + BLOCK].flatten(3).unbind(1)
        chosen = drawn == drawn.amax(-1, keepdim=True)
        rows = unit_rows((coefficients * chosen).view(-1, *self._small))
        waves = self._subspace.expand(rows, self._image)
        return waves if self._problem.mask is None else unit_rows(self._problem.only_mask(waves))
