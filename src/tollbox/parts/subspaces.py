"""Cosines: the DCT-II along the two axes of a plane, as products with two matrices.

The columns of a basis are orthonormal: the lowest frequencies of an axis, or of each block of it. A
plane of coefficients Z becomes the plane A Z B^T, and a plane X has the coefficients A^T X B.

A plane comes out the same, bit for bit, alone or among any others (rule 4 of the design). Products
of matrices do not promise that: a library chooses its kernel by the number of rows and by how the
memory is aligned. Where both sides of an image are multiples of 4, every plane begins at a multiple
of 64 bytes, and all kernels that were met agree. Other images are computed in planes that are
padded with zeros.

Subspaces: where directions are drawn. Sampled small, expanded by two matrix products.

A subspace is spanned by the lowest frequencies of a cosine transform (DCT-II, orthonormal) along
each axis, so its basis is a product of two: a plane of coefficients Z becomes the plane A Z B^T,
with A (h x h') and B (w x w') of orthonormal columns (cosines.py). Lengths and angles are kept. Any
height and width will do.

    Full()               the whole space
    Dct(factor)          DCT_full: the lowest 1/factor of the frequencies along each axis
    Dct(factor, block=8) DCT_8x8: the same in every 8x8 block; a last block may be smaller
    Resize(factor)       small images, made larger by bilinear interpolation: QEBA's

The columns of Resize are not orthonormal: neighbours overlap, so that what it draws has more of the
lowest frequencies. It is a prior, without coordinates that keep lengths.

To draw in a subspace is the simplest prior on directions there is; others are in priors.py.

Directions within a mask: what a prior draws there, whatever the prior.

A direction is drawn as without a mask, set to 0 outside it, and made of length 1 again; so the
random numbers are the same, and all points that are made of directions, starts and the source image
stay within the mask. Attacks and parts begin a prior by `drawing_for`, and ask for its dimension by
`dimension_for`, so that a prior need not know of masks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
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
"""Images whose sides are multiples of the first are left as they are; others are padded to
multiples of the second."""


def transform_planes(left: Tensor, planes: Tensor, right: Tensor) -> Tensor:
    """left Z right for every plane Z of (..., h, w)."""
    if _is_aligned(left.shape) and _is_aligned(right.shape):
        return torch.matmul(torch.matmul(left, planes), right)
    height, width = left.shape[0], right.shape[1]
    left, planes, right = (_padded(matrix) for matrix in (left, planes, right))
    product = torch.matmul(torch.matmul(left, planes), right)
    return product[..., :height, :width].contiguous()


def _is_aligned(sides: torch.Size) -> bool:
    """Whether kernels agree on a product with a basis of that shape; a single wave has its own."""
    return max(sides) % ALIGNED_SIDE == 0 and min(sides) > 1


def _padded(matrix: Tensor) -> Tensor:
    more_rows, more_columns = (-side % PADDED_SIDE for side in matrix.shape[-2:])
    return functional.pad(matrix, (0, more_columns, 0, more_rows))


def block_sizes(side: int, block: int | None) -> list[int]:
    """Sizes of the blocks along an axis; the last may be smaller."""
    size = side if block is None else block
    return [min(size, side - first) for first in range(0, side, size)]


def cosine_basis(side: int, factor: float, block: int | None = None) -> NDArray[np.float64]:
    """Orthonormal columns: the lowest 1/factor of the frequencies of each block of an axis."""
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
    """The columns of `cosine_basis`, as a tensor like another."""
    return _on_device(side, factor, block, like.dtype, like.device)


@lru_cache(maxsize=64)
def _on_device(
    side: int, factor: float, block: int | None, dtype: torch.dtype, device: torch.device
) -> Tensor:
    columns = torch.from_numpy(cosine_basis(side, factor, block)).to(dtype)
    return columns.to(device, non_blocking=True)


Shape = tuple[int, ...]

BLOCK_SIDE = Range(
    "a side of 1 or more, or None", lambda side: side is None or whole(1).holds(side)
)
"""Of a block."""


class Drawing(Protocol):
    """Makes directions at one image, of rows of standard normal numbers."""

    @property
    def shape(self) -> Shape:
        """The shape of a row."""

    def at(self, point: Tensor) -> Drawing:
        """The same at an adversarial point, if it depends on that."""

    def __call__(self, rows: Tensor, length: float) -> Tensor:
        """Rows to images of a length."""


@runtime_checkable
class Recordable(Drawing, Protocol):
    """A drawing that is a function of its rows and of a few tensors, and of nothing else: its
    launches can be recorded (drawn.py)."""

    @property
    def kind(self) -> Hashable:
        """The same for drawings that differ in their tensors alone."""

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """What depends on the image."""

    def holding(self, *tensors: Tensor) -> Recordable:
        """The same with other tensors."""


class Prior(Protocol):
    """A part: how directions are distributed."""

    def dimension(self, image: Shape) -> int:
        """d', the effective dimension."""

    def begin(self, problem: Problem) -> Drawing:
        """For one image."""


class Subspace(Prior, Protocol):
    """A part: a linear subspace of images, with coordinates that keep lengths."""

    def shape(self, image: Shape) -> Shape:
        """The shape of the coefficients for images of shape (c, h, w)."""

    def expand(self, rows: Tensor, image: Shape) -> Tensor:
        """Coefficients (n, ...) to images (n, c, h, w)."""

    def project(self, images: Tensor) -> Tensor:
        """Images (n, c, h, w) to the coefficients of their part in the subspace."""


@dataclass(frozen=True)
class _Everywhere:
    """A prior's directions, the same at every point."""

    prior: Prior
    image: Shape
    shape: Shape
    make: Callable[[Tensor, float], Tensor]
    """Rows to images of a length; what the prior and the image say, and nothing else."""

    @property
    def kind(self) -> Hashable:
        return self.prior, self.image

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return ()

    def holding(self, *tensors: Tensor) -> Recordable:  # noqa: ARG002
        return self

    def at(self, point: Tensor) -> Drawing:  # noqa: ARG002
        return self

    def __call__(self, rows: Tensor, length: float) -> Tensor:
        return self.make(rows, length)


def _uniform(subspace: Subspace, problem: Problem) -> Drawing:
    """Uniform directions of a subspace."""
    image = tuple(problem.source.shape)

    def make(rows: Tensor, length: float) -> Tensor:
        norms = torch.linalg.vector_norm(rows, dim=(1, 2, 3), keepdim=True)
        return subspace.expand(rows * (length / norms), image)

    return _Everywhere(subspace, image, subspace.shape(image), make)


@register(Subspace, Prior)
@dataclass(frozen=True)
class Full:
    """The whole space."""

    def shape(self, image: Shape) -> Shape:
        """That of the image."""
        return image

    def expand(self, rows: Tensor, image: Shape) -> Tensor:  # noqa: ARG002
        """The rows themselves."""
        return rows

    def project(self, images: Tensor) -> Tensor:
        """The images themselves."""
        return images

    def dimension(self, image: Shape) -> int:
        """d'."""
        return math.prod(self.shape(image))

    def begin(self, problem: Problem) -> Drawing:
        """Uniform directions."""
        return _uniform(self, problem)


@register(Subspace, Prior)
@dataclass(frozen=True)
class Dct:
    """The lowest 1/factor of the frequencies along each axis, of the image or of each block."""

    factor: float = 4.0
    block: int | None = None
    """Side of a block; None: the whole image is one."""

    def __post_init__(self) -> None:
        check(self, factor=number(1), block=BLOCK_SIDE)

    def shape(self, image: Shape) -> Shape:
        """(c, h', w')."""
        channels, height, width = image
        return channels, self._frequencies(height), self._frequencies(width)

    def expand(self, rows: Tensor, image: Shape) -> Tensor:
        """A Z B^T for every plane."""
        vertical, horizontal = (self._columns(side, rows) for side in image[1:])
        return transform_planes(vertical, rows, horizontal.mT)

    def project(self, images: Tensor) -> Tensor:
        """A^T X B for every plane."""
        vertical, horizontal = (self._columns(side, images) for side in images.shape[-2:])
        # one image at a time: coefficients may have any number of rows, and kernels differ by it
        each = (transform_planes(vertical.mT, image[None], horizontal) for image in images)
        return torch.cat(list(each))

    def dimension(self, image: Shape) -> int:
        """d'."""
        return math.prod(self.shape(image))

    def begin(self, problem: Problem) -> Drawing:
        """Uniform directions."""
        return _uniform(self, problem)

    def _frequencies(self, side: int) -> int:
        """How many there are along an axis."""
        return sum(math.ceil(size / self.factor) for size in block_sizes(side, self.block))

    def _columns(self, side: int, like: Tensor) -> Tensor:
        return cosine_columns(side, self.factor, like, self.block)


def bilinear_basis(side: int, count: int) -> NDArray[np.float64]:
    """Columns by which `count` pixels of an axis become `side`, between the centres of the nearest
    two; beyond the outermost centres the outermost pixel."""
    places = np.clip((np.arange(side) + 0.5) * count / side - 0.5, 0, count - 1)
    left = np.minimum(places.astype(int), max(count - 2, 0))
    columns = np.zeros((side, count))
    columns[np.arange(side), left] = 1 - (places - left)
    columns[np.arange(side), np.minimum(left + 1, count - 1)] += places - left
    return columns


@lru_cache(maxsize=64)
def _bilinear_columns(side: int, count: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    columns = torch.from_numpy(bilinear_basis(side, count)).to(dtype)
    return columns.to(device, non_blocking=True)


@register(Prior)
@dataclass(frozen=True)
class Resize:
    """Images 1/factor as high and wide, of standard normal pixels, made larger."""

    factor: float = 4.0

    def __post_init__(self) -> None:
        check(self, factor=number(1))

    def shape(self, image: Shape) -> Shape:
        """(c, h', w')."""
        channels, height, width = image
        return channels, math.ceil(height / self.factor), math.ceil(width / self.factor)

    def dimension(self, image: Shape) -> int:
        """d', the effective dimension: (sum of s)^2 / sum of s^2 of the variances s."""
        channels, *small = self.shape(image)
        effective = float(channels)
        for side, count in zip(image[1:], small, strict=True):
            columns = bilinear_basis(side, count)
            products = columns.T @ columns
            effective *= np.trace(products) ** 2 / (products**2).sum()
        return max(2, round(effective))

    def begin(self, problem: Problem) -> Drawing:
        """Small images, made larger."""
        image = tuple(problem.source.shape)
        shape = self.shape(image)

        def make(rows: Tensor, length: float) -> Tensor:
            vertical, horizontal = (
                _bilinear_columns(side, count, rows.dtype, rows.device)
                for side, count in zip(image[1:], shape[1:], strict=True)
            )
            return unit_rows(transform_planes(vertical, rows, horizontal.mT)).mul_(length)

        return _Everywhere(self, image, shape, make)


def drawing_for(problem: Problem, prior: Prior) -> Drawing:
    """What a prior draws at one image: within the mask, if the problem has one."""
    drawing = prior.begin(problem)
    if problem.mask is None:
        return drawing
    weights = problem.mask.to(problem.source.dtype)
    kind = _MaskedRecordable if isinstance(drawing, Recordable) else _MaskedDrawing
    return kind(drawing, weights)


def dimension_for(problem: Problem, prior: Prior) -> int:
    """d', the effective dimension of a prior at one image: of the part of it within the mask, as
    much as the mask is of the image."""
    whole = prior.dimension(tuple(problem.source.shape))
    if problem.mask is None:
        return whole
    return max(2, round(whole * problem.dimension / problem.source.numel()))


class _MaskedDrawing:
    """A drawing, with 0 outside a mask."""

    def __init__(self, drawing: Any, weights: Tensor) -> None:
        self._drawing, self._weights = drawing, weights

    @property
    def shape(self) -> Shape:
        shape: Shape = self._drawing.shape
        return shape

    def at(self, point: Tensor) -> Drawing:
        there = self._drawing.at(point)
        return self if there is self._drawing else type(self)(there, self._weights)

    def __call__(self, rows: Tensor, length: float) -> Tensor:
        return unit_rows(self._drawing(rows, 1.0) * self._weights).mul_(length)


class _MaskedRecordable(_MaskedDrawing):
    """The same of a drawing whose launches can be recorded."""

    @property
    def kind(self) -> Hashable:
        return "masked", self._drawing.kind

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return self._weights, *self._drawing.tensors

    def holding(self, *tensors: Tensor) -> Recordable:
        return _MaskedRecordable(self._drawing.holding(*tensors[1:]), tensors[0])
