"""Subspaces: where directions are drawn. Sampled small, expanded by two matrix products.

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
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core.problem import Problem
from ..core.ranges import Range, check, number, whole
from .cosines import block_sizes, cosine_columns, transform_planes
from .registry import register
from .vectors import unit_rows

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
