"""Subspaces and priors: the distributions from which directions are drawn.

A subspace is spanned by the lowest frequencies of an orthonormal cosine transform (DCT-II) along
each axis, of the image or of each block. Its basis is a product of two: a plane of coefficients Z
becomes the plane A Z B^T, with A (h x h') and B (w x w') of orthonormal columns, and a plane X has
the coefficients A^T X B. Lengths and angles are preserved. Any height and width is possible.

    Full()               the whole space
    Dct(factor)          DCT_full: the lowest 1/factor of the frequencies along each axis
    Dct(factor, block=8) DCT_8x8: the same in every 8x8 block; a last block may be smaller
    Resize(factor)       small images enlarged by bilinear interpolation (QEBA)

`Resize` is a prior, not a subspace: its columns overlap and are not orthonormal, so it draws more
of the lowest frequencies. Other priors are in priors.py.

1. A plane comes out the same, bit for bit, alone or among others (rule 4 of the design). Matrix
   products do not guarantee this: a library chooses its kernel by the number of rows and by memory
   alignment. If both sides of an image are multiples of 4, every plane starts at a multiple of 64
   bytes, and all tested kernels agree. Other images are computed in planes padded with zeros.
2. With a mask, a direction is drawn as without one, set to 0 outside the mask, and scaled to length
   1. The random numbers are the same, and all points stay within the mask. Attacks and parts start
   a prior by `drawing_for` and get its dimension by `dimension_for`, so that a prior need not know
   about masks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ..core.problem import Problem
from ..core.validation import Range, check, number, whole
from .registry import register
from .vectors import unit_rows

ALIGNED_SIDE, PADDED_SIDE = 4, 16
"""Images whose sides are multiples of the first are computed as they are; others are padded to
multiples of the second."""
BLOCK_SIDE = Range(
    "a side of 1 or more, or None", lambda side: side is None or whole(1).holds(side)
)

Shape = tuple[int, ...]


class Drawing(Protocol):
    """The directions of a prior at one image, made from rows of standard normal numbers."""

    @property
    def shape(self) -> Shape:
        """The shape of a row."""

    def at(self, point: Tensor) -> Drawing:
        """Return the drawing at an adversarial point, or itself if it does not depend on it."""

    def __call__(self, rows: Tensor, length: float) -> Tensor:
        """Turn rows into images of the given length."""


@runtime_checkable
class Recordable(Drawing, Protocol):
    """A drawing that depends only on its rows, its kind and a few tensors, so that a CUDA graph can
    record it (attacks/frugal/direction_blocks.py)."""

    @property
    def kind(self) -> Hashable:
        """A key that is equal for drawings that differ only in their tensors."""

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors that depend on the image."""

    def holding(self, *tensors: Tensor) -> Recordable:
        """Return the same drawing with other tensors."""


class Prior(Protocol):
    """A part that defines a distribution of directions."""

    def dimension(self, image: Shape) -> int:
        """Return the effective dimension d' for images of shape (c, h, w)."""

    def begin(self, problem: Problem) -> Drawing:
        """Return the drawing of one image."""


class Subspace(Prior, Protocol):
    """A part that defines a linear subspace of images, with coordinates that preserve lengths."""

    def shape(self, image: Shape) -> Shape:
        """Return the shape of the coefficients for images of shape (c, h, w)."""

    def expand(self, rows: Tensor, image: Shape) -> Tensor:
        """Turn coefficients (n, ...) into images (n, c, h, w)."""

    def project(self, images: Tensor) -> Tensor:
        """Return the coefficients of the orthogonal projections of images (n, c, h, w)."""


@dataclass(frozen=True, eq=False)
class TensorDrawing:
    """A recordable drawing: `make(rows, length, *tensors)`, where `make` depends on `kind` only."""

    kind: Hashable
    shape: Shape
    make: Callable[..., Tensor]
    tensors: tuple[Tensor, ...] = ()
    tensors_at: Callable[[Tensor], tuple[Tensor, ...]] | None = None
    """Returns the tensors at a point, if they depend on it."""

    def holding(self, *tensors: Tensor) -> Recordable:
        return replace(self, tensors=tensors)

    def at(self, point: Tensor) -> Drawing:
        return self if self.tensors_at is None else self.holding(*self.tensors_at(point))

    def __call__(self, rows: Tensor, length: float) -> Tensor:
        return self.make(rows, length, *self.tensors)


def drawing_for(problem: Problem, prior: Prior) -> Drawing:
    """Return the drawing of a prior at one image, within the mask if the problem has one."""
    drawing = prior.begin(problem)
    if problem.mask is None:
        return drawing
    masked = _MaskedRecordable if isinstance(drawing, Recordable) else _MaskedDrawing
    return masked(drawing, problem.mask.to(problem.source.dtype))


def dimension_for(problem: Problem, prior: Prior) -> int:
    """Return d' of a prior at one image, scaled by the mask's share of the image."""
    whole = prior.dimension(tuple(problem.source.shape))
    if problem.mask is None:
        return whole
    return max(2, round(whole * problem.dimension / problem.source.numel()))


class _MaskedDrawing:
    """A drawing that is 0 outside a mask."""

    def __init__(self, drawing: Any, weights: Tensor) -> None:
        self._drawing, self._weights = drawing, weights
        self.shape: Shape = drawing.shape

    def at(self, point: Tensor) -> Drawing:
        there = self._drawing.at(point)
        return self if there is self._drawing else type(self)(there, self._weights)

    def __call__(self, rows: Tensor, length: float) -> Tensor:
        return unit_rows(self._drawing(rows, 1.0) * self._weights).mul_(length)


class _MaskedRecordable(_MaskedDrawing):
    @property
    def kind(self) -> Hashable:
        return "masked", self._drawing.kind

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return self._weights, *self._drawing.tensors

    def holding(self, *tensors: Tensor) -> Recordable:
        return _MaskedRecordable(self._drawing.holding(*tensors[1:]), tensors[0])


def transform_planes(left: Tensor, planes: Tensor, right: Tensor) -> Tensor:
    """Return left Z right for every plane Z of (..., h, w), padded if necessary (rule 1)."""
    if _is_aligned(left.shape) and _is_aligned(right.shape):
        return torch.matmul(torch.matmul(left, planes), right)
    height, width = left.shape[0], right.shape[1]
    left, planes, right = (_padded(matrix) for matrix in (left, planes, right))
    product = torch.matmul(torch.matmul(left, planes), right)
    return product[..., :height, :width].contiguous()


def _is_aligned(sides: torch.Size) -> bool:
    """Return whether kernels agree for a basis of this shape; one column has its own kernel."""
    return max(sides) % ALIGNED_SIDE == 0 and min(sides) > 1


def _padded(matrix: Tensor) -> Tensor:
    more_rows, more_columns = (-side % PADDED_SIDE for side in matrix.shape[-2:])
    return functional.pad(matrix, (0, more_columns, 0, more_rows))


def block_sizes(side: int, block: int | None) -> list[int]:
    """Return the sizes of the blocks along an axis; the last may be smaller."""
    size = side if block is None else block
    return [min(size, side - first) for first in range(0, side, size)]


def cosine_basis(side: int, factor: float, block: int | None = None) -> NDArray[np.float64]:
    """Return orthonormal columns: the lowest 1/factor of the frequencies of each block."""
    sizes = block_sizes(side, block)
    counts = [math.ceil(size / factor) for size in sizes]
    columns = np.zeros((side, sum(counts)))
    row = column = 0
    for size, count in zip(sizes, counts, strict=True):
        places, frequencies = np.arange(size)[:, None] + 0.5, np.arange(count)[None, :]
        cosines = np.sqrt(2 / size) * np.cos(np.pi / size * places * frequencies)
        cosines[:, 0] = np.sqrt(1 / size)
        columns[row : row + size, column : column + count] = cosines
        row, column = row + size, column + count
    return columns


def cosine_columns(side: int, factor: float, like: Tensor, block: int | None = None) -> Tensor:
    """Return `cosine_basis` as a cached tensor with the dtype and device of `like`."""
    return _columns(cosine_basis, (side, factor, block), like.dtype, like.device)


@lru_cache(maxsize=128)
def _columns(
    basis: Callable[..., NDArray[np.float64]],
    arguments: tuple[Any, ...],
    dtype: torch.dtype,
    device: torch.device,
) -> Tensor:
    return torch.from_numpy(basis(*arguments)).to(dtype).to(device, non_blocking=True)


class _UniformPrior:
    """Uniform directions of a subspace."""

    def dimension(self: Subspace, image: Shape) -> int:
        return math.prod(self.shape(image))

    def begin(self: Subspace, problem: Problem) -> Drawing:
        image = tuple(problem.source.shape)

        def make(rows: Tensor, length: float) -> Tensor:
            norms = torch.linalg.vector_norm(rows, dim=(1, 2, 3), keepdim=True)
            return self.expand(rows * (length / norms), image)

        return TensorDrawing((self, image), self.shape(image), make)


@register(Subspace, Prior)
@dataclass(frozen=True)
class Full(_UniformPrior):
    """The whole space."""

    def shape(self, image: Shape) -> Shape:
        return image

    def expand(self, rows: Tensor, image: Shape) -> Tensor:  # noqa: ARG002
        return rows

    def project(self, images: Tensor) -> Tensor:
        return images


@register(Subspace, Prior)
@dataclass(frozen=True)
class Dct(_UniformPrior):
    """The lowest 1/factor of the frequencies along each axis, of the image or of each block."""

    factor: float = 4.0
    block: int | None = None
    """Side of a block; with None the whole image is one block."""

    def __post_init__(self) -> None:
        check(self, factor=number(1), block=BLOCK_SIDE)

    def shape(self, image: Shape) -> Shape:
        return image[0], *(
            sum(math.ceil(size / self.factor) for size in block_sizes(side, self.block))
            for side in image[1:]
        )

    def expand(self, rows: Tensor, image: Shape) -> Tensor:
        vertical, horizontal = (
            cosine_columns(side, self.factor, rows, self.block) for side in image[1:]
        )
        return transform_planes(vertical, rows, horizontal.mT)  # A Z B^T

    def project(self, images: Tensor) -> Tensor:
        vertical, horizontal = (
            cosine_columns(side, self.factor, images, self.block) for side in images.shape[-2:]
        )
        # One image at a time: coefficients may have any number of rows, and kernels depend on it.
        each = (transform_planes(vertical.mT, image[None], horizontal) for image in images)
        return torch.cat(list(each))  # A^T X B


def bilinear_basis(side: int, count: int) -> NDArray[np.float64]:
    """Return columns that enlarge `count` pixels of an axis to `side` by interpolation between the
    two adjacent centres; pixels beyond the outermost centres repeat the outermost pixel."""
    places = np.clip((np.arange(side) + 0.5) * count / side - 0.5, 0, count - 1)
    left = np.minimum(places.astype(int), max(count - 2, 0))
    columns = np.zeros((side, count))
    columns[np.arange(side), left] = 1 - (places - left)
    columns[np.arange(side), np.minimum(left + 1, count - 1)] += places - left
    return columns


@register(Prior)
@dataclass(frozen=True)
class Resize:
    """Images of standard normal pixels, 1/factor as high and wide, enlarged."""

    factor: float = 4.0

    def __post_init__(self) -> None:
        check(self, factor=number(1))

    def shape(self, image: Shape) -> Shape:
        channels, height, width = image
        return channels, math.ceil(height / self.factor), math.ceil(width / self.factor)

    def dimension(self, image: Shape) -> int:
        """Return the effective dimension d' = (sum of s)^2 / sum of s^2 of the variances s."""
        channels, *small = self.shape(image)
        effective = float(channels)
        for side, count in zip(image[1:], small, strict=True):
            columns = bilinear_basis(side, count)
            products = columns.T @ columns
            effective *= np.trace(products) ** 2 / (products**2).sum()
        return max(2, round(effective))

    def begin(self, problem: Problem) -> Drawing:
        image = tuple(problem.source.shape)
        shape = self.shape(image)

        def make(rows: Tensor, length: float) -> Tensor:
            vertical, horizontal = (
                _columns(bilinear_basis, sides, rows.dtype, rows.device)
                for sides in zip(image[1:], shape[1:], strict=True)
            )
            return unit_rows(transform_planes(vertical, rows, horizontal.mT)).mul_(length)

        return TensorDrawing((self, image), shape, make)
