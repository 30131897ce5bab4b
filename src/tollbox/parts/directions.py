"""Random directions to turn to, for attacks that do not estimate any.

`TernarySpectrum` (SurFree): every coefficient of a low-frequency subspace is drawn from {-1, 0, 1}
and weighted by tanh(gamma |c|) or |c|, where c is the source image's own coefficient. A floor keeps
the weights above 0 where the image has no energy. The result is made orthogonal to the direction
from the source to the first boundary point and to at least the last `memory` directions (at most
twice that number). SurFree's authors keep the lower half of all coefficients in zig-zag order, by
the sum of both frequencies (`dropped`).

Directions are drawn in blocks. The components along earlier blocks are removed from all rows at
once. The rows of a block are then orthogonalised by a Cholesky factor of their Gram matrix: with
W = L Q, the rows of Q are what Gram-Schmidt gives.

`SingleWaves` (Triangle Attack): one random low frequency for each channel, with a standard normal
coefficient and no memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import field
from typing import Annotated, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import hardshrink

from ..core.problem import Problem
from ..core.validation import MAX_VALUE, number
from .registry import (
    Checked,
    CountFrom0,
    Fraction,
    NonNegative,
    optional,
    register,
)
from .subspaces import Dct, Subspace, constant, dimension_for
from .vectors import unit, unit_rows

PHASE = "direction"
CENTRAL_THIRD = 0.4307272992954576
"""Distance from 0 within which a standard normal number lies with probability 1/3."""
BLOCK = 16
"""Number of directions drawn at a time."""
SHORTEST_REMAINDER = 3e-4
"""Length below which the remainder of a unit vector is mostly rounding error."""
NEGLIGIBLE_PRODUCT = 1e-14
"""Term added to squared lengths, so that rows without a remainder have a Cholesky factor."""


class Directions(Protocol):
    """A part that yields unit directions one after another."""

    @property
    def rows(self) -> int:
        """Maximum number of points held in memory at a time."""

    def begin(self, problem: Problem, count: int, away: Tensor) -> Iterator[Tensor]:
        """Yield `count` or more directions for one image; `away` is the first boundary point minus
        the source."""


def lowest(height: int, width: int, dropped: float) -> NDArray[np.float64]:
    """Return 0 for that share of a plane's coefficients with the highest sums of frequencies, and 1
    for the others."""
    sums = np.add.outer(np.arange(height), np.arange(width))
    order = np.argsort(sums, axis=None, kind="stable")
    chosen = np.zeros(sums.shape)
    chosen.flat[order[: max(1, round((1 - dropped) * order.size))]] = 1
    return chosen


@register(Directions)
class TernarySpectrum(Checked):
    """SurFree's directions."""

    subspace: Subspace = field(default_factory=lambda: Dct(2))
    gamma: Annotated[float | None, optional(number(0, MAX_VALUE))] = 1.0
    """Scale of the weights tanh(gamma |c|), which are equal if it is large; with None the weights
    are |c|."""
    centre: Fraction = 0.0
    """Value subtracted from the image before the transform; it changes the channel means."""
    floor: NonNegative = 1e-3
    memory: CountFrom0 = 100
    dropped: Fraction = 0.0
    """Share of the coefficients that are 0, those with the highest sums of frequencies."""

    @property
    def rows(self) -> int:
        return self.memory + 2 * BLOCK + 1

    def begin(self, problem: Problem, count: int, away: Tensor) -> Iterator[Tensor]:
        # Directions are kept as coefficients, which preserve lengths and angles. Cropping to a
        # mask does not preserve angles, so with a mask they are kept as images.
        subspace, masked, image = self.subspace, problem.mask is not None, problem.source.shape
        shape, size = subspace.shape(image), dimension_for(problem, subspace)
        size = max(1, round((1 - self.dropped) * size))
        weights = subspace.project(problem.source[None] - self.centre)[0].abs()
        if self.gamma is not None:
            weights = torch.tanh(self.gamma * weights)
        weights = weights + self.floor
        if self.dropped:
            weights *= constant(lowest, weights, *shape[1:], self.dropped)
        # Remembering more than half of the dimensions could leave nothing orthogonal to them.
        remembered = min(self.memory, (size - 1) // 2)
        # A block is no larger than the memory, so that at most twice the memory is remembered.
        block = max(1, min(BLOCK, size // 8, remembered or BLOCK))
        slots = -(-remembered // block) * block
        # The direction to the first boundary point, followed by the remembered directions.
        previous = problem.source.new_zeros(1 + slots, math.prod(image if masked else shape))
        if size > 1:  # in one dimension nothing would remain
            start = problem.only_mask(away) if masked else subspace.project(away[None])
            previous[0] = unit(start.flatten())
        # Whole blocks up to the last one: a partial block would be rounded differently.
        noise = problem.noise(PHASE, 0, count + BLOCK, shape)
        for first in range(0, count, block):
            drawn = hardshrink(noise[first : first + block], CENTRAL_THIRD).sign_() * weights
            if masked:
                drawn = problem.only_mask(subspace.expand(drawn, image))
            rows = unit_rows(drawn.flatten(1))
            rows = torch.addmm(rows, rows @ previous.T, previous, alpha=-1)
            if slots:
                rows = _orthonormal(rows)
                oldest = 1 + first % slots
                previous[oldest : oldest + block] = rows
            else:
                rows = unit_rows(rows)
            if masked:
                yield from rows.view(-1, *image)
            else:
                yield from subspace.expand(rows.view(-1, *shape), image)


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
class SingleWaves:
    """The Triangle Attack's directions: one wave for each channel."""

    subspace: Subspace = field(default_factory=lambda: Dct(10))

    rows = 2 * BLOCK

    def begin(self, problem: Problem, count: int, away: Tensor) -> Iterator[Tensor]:  # noqa: ARG002
        image = problem.source.shape
        shape = self.subspace.shape(image)
        noise = problem.noise(PHASE, 0, count + BLOCK, (2, *shape))
        for first in range(0, count, BLOCK):
            # The largest first number selects the frequency; its second number is the coefficient.
            drawn, coefficients = noise[first : first + BLOCK].flatten(3).unbind(1)
            chosen = drawn == drawn.amax(-1, keepdim=True)
            waves = unit_rows((coefficients * chosen).view(-1, *shape))
            waves = self.subspace.expand(waves, image)
            yield from waves if problem.mask is None else unit_rows(problem.only_mask(waves))
