"""Cosines: the DCT-II along the two axes of a plane, as products with two matrices.

The columns of a basis are orthonormal: the lowest frequencies of an axis, or of each block of it. A
plane of coefficients Z becomes the plane A Z B^T, and a plane X has the coefficients A^T X B.

A plane comes out the same, bit for bit, alone or among any others (rule 4 of the design). Products
of matrices do not promise that: a library chooses its kernel by the number of rows and by how the
memory is aligned. Where both sides of an image are multiples of 4, every plane begins at a multiple
of 64 bytes, and all kernels that were met agree. Other images are computed in planes that are
padded with zeros.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

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
