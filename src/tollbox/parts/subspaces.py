"""Subspaces and priors: the distributions from which directions are drawn.

A subspace is spanned by the lowest frequencies of an orthonormal cosine transform (DCT-II) along
each axis, of the image or of each block. Its basis is a product of two: a plane of coefficients Z
becomes the plane A Z B^T, with A (h x h') and B (w x w') of orthonormal columns, and a plane X has
the coefficients A^T X B. Lengths and angles are preserved. Any height and width will do.

The paper's DCT_full is `Dct(factor)`, its DCT_8x8 `Dct(factor, block=8)`; a last block may be
smaller. `Resize` (QEBA) is a prior, not a subspace: its columns overlap and are not orthonormal, so
it draws more of the lowest frequencies. Other priors are in priors.py.

1. A plane comes out the same, bit for bit, alone or among others (rule 4 of the design). Matrix
   products do not guarantee this: a library chooses its kernel by the number of rows and by memory
   alignment. If both sides of an image are multiples of 4, every plane starts at a multiple of 64
   bytes, and all tested kernels agree. Other images are computed in planes padded with zeros.
2. With a mask, a direction is drawn as without one, set to 0 outside the mask, and scaled to length
   1. The random numbers are the same, and all points stay within the mask. Attacks and parts start
   a prior with `drawing_for` and get its dimension from `dimension_for`, so that a prior can ignore
   masks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ..core.problem import Problem
from ..core.validation import number, whole
from .registry import Checked, optional, register
from .vectors import unit_rows

ALIGNED_SIDE, PADDED_SIDE = 4, 16
"""Images whose sides are multiples of the first are computed as they are; others are padded to
multiples of the second."""
Factor = Annotated[float, number(1)]

Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Drawing:
    """The directions of a prior at one image: `make(rows, length, *tensors)` turns rows of standard
    normal numbers into images of the given length.

    If `kind` is set, it alone determines `make`, so that a CUDA graph can record `make` for all
    drawings of that kind (attacks/frugal/calibrated.py).
    """

    shape: Shape
    """The shape of a row."""
    make: Callable[..., Tensor]
    kind: Hashable = None
    tensors: tuple[Tensor, ...] = ()
    """The tensors that depend on the image."""
    tensors_at: Callable[[Tensor], tuple[Tensor, ...]] | None = None
    """Function that returns the tensors at an adversarial point, if they depend on it."""

    def at(self, point: Tensor) -> Drawing:
        """Return the drawing at an adversarial point, or itself if it does not depend on it."""
        return self if self.tensors_at is None else replace(self, tensors=self.tensors_at(point))

    def __call__(self, rows: Tensor, length: float) -> Tensor:
        return self.make(rows, length, *self.tensors)


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


def drawing_for(problem: Problem, prior: Prior) -> Drawing:
    """Return the drawing of a prior at one image, within the mask if the problem has one."""
    drawing = prior.begin(problem)
    if problem.mask is None:
        return drawing
    weights = problem.mask.to(problem.source.dtype)

    def make(rows: Tensor, length: float, weights: Tensor, *tensors: Tensor) -> Tensor:
        return unit_rows(drawing.make(rows, 1.0, *tensors) * weights).mul_(length)

    tensors_at = drawing.tensors_at
    return Drawing(
        drawing.shape,
        make,
        drawing.kind and ("masked", drawing.kind),
        (weights, *drawing.tensors),
        tensors_at and (lambda point: (weights, *tensors_at(point))),
    )


def dimension_for(problem: Problem, prior: Prior) -> int:
    """Return d' of a prior at one image, scaled by the mask's share of the image."""
    whole = prior.dimension(tuple(problem.source.shape))
    if problem.mask is None:
        return whole
    return max(2, round(whole * problem.dimension / problem.source.numel()))


def transform_planes(left: Tensor, planes: Tensor, right: Tensor) -> Tensor:
    """Return left Z right for every plane Z of (..., h, w), padded if necessary (rule 1)."""
    if _is_aligned(left.shape) and _is_aligned(right.shape):
        return torch.matmul(torch.matmul(left, planes), right)
    height, width = left.shape[0], right.shape[1]
    left, planes, right = map(_padded, (left, planes, right))
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


@cache  # none is ever dropped: CUDA graphs read them from where they are
def _constant(
    make: Callable[..., NDArray[Any]], arguments: tuple[Any, ...], dtype: Any, device: torch.device
) -> Tensor:
    return torch.from_numpy(make(*arguments)).to(dtype).to(device, non_blocking=True)


def constant(make: Callable[..., NDArray[Any]], like: Tensor, *arguments: Any) -> Tensor:
    """Return `make(*arguments)` as a cached tensor with the dtype and device of `like`."""
    return _constant(make, arguments, like.dtype, like.device)


def cosine_columns(side: int, factor: float, like: Tensor, block: int | None = None) -> Tensor:
    return constant(cosine_basis, like, side, factor, block)


class _UniformPrior:
    """Uniform directions of a subspace."""

    def dimension(self: Subspace, image: Shape) -> int:
        return math.prod(self.shape(image))

    def begin(self: Subspace, problem: Problem) -> Drawing:
        image = tuple(problem.source.shape)

        def make(rows: Tensor, length: float) -> Tensor:
            norms = torch.linalg.vector_norm(rows, dim=(1, 2, 3), keepdim=True)
            return self.expand(rows * (length / norms), image)

        return Drawing(self.shape(image), make, (self, image))


@register(Subspace, Prior)
class Full(_UniformPrior):
    """The whole space."""

    def shape(self, image: Shape) -> Shape:
        return image

    def expand(self, rows: Tensor, image: Shape) -> Tensor:  # noqa: ARG002
        return rows

    def project(self, images: Tensor) -> Tensor:
        return images


@register(Subspace, Prior)
class Dct(_UniformPrior, Checked):
    """The lowest 1/factor of the frequencies along each axis, of the image or of each block."""

    factor: Factor = 4.0
    block: Annotated[int | None, optional(whole(1))] = None
    """Side of a block; with None the whole image is one block."""

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


def resizing_rows(new: int, old: int) -> NDArray[np.float64]:
    """Return rows that resize an axis of `old` pixels: bilinear, and antialiased if it shrinks."""
    scale = old / new
    apart = np.arange(old) + 0.5 - scale * (np.arange(new)[:, None] + 0.5)
    weights = np.clip(1 - np.abs(apart) / max(scale, 1.0), 0, None)
    return weights / weights.sum(1, keepdims=True)  # type: ignore[no-any-return]


def resized(images: Tensor, size: tuple[int, int] | None) -> Tensor:
    """Return images (n, c, h, w) of another (height, width). Products of matrices have the same
    bits every time, and so have their gradients."""
    sides = tuple(images.shape[2:])
    if size is None or size == sides:
        return images
    each = zip(size, sides, strict=True)
    rows, columns = (constant(resizing_rows, images, *lengths) for lengths in each)
    return rows @ images @ columns.T


@register(Prior)
class Resize(Checked):
    """Images of standard normal pixels, 1/factor as high and wide, enlarged."""

    factor: Factor = 4.0

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
                constant(bilinear_basis, rows, *sides)
                for sides in zip(image[1:], shape[1:], strict=True)
            )
            return unit_rows(transform_planes(vertical, rows, horizontal.mT)).mul_(length)

        return Drawing(shape, make, (self, image))
