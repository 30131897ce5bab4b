"""Unit directions of a random stream, made when they are needed.

On a CUDA device they are made in blocks of 32 rows at first and then 64, each by a recorded CUDA
graph: an estimate needs eight directions at a time, and launching a prior's fifty kernels for each
eight takes longer than the network does. The number of a row alone determines its block, since the
last bits of a product may depend on the number of rows.
"""

from __future__ import annotations

from collections.abc import Hashable

import torch
from torch import Tensor

from ...core.device import CudaGraph
from ...core.noise import Noise
from ...parts.subspaces import Drawing, Recordable

SMALLEST_BLOCK, LARGEST_BLOCK = 32, 64
MAX_GRAPHS = 64

_graphs: dict[Hashable, CudaGraph] = {}
"""CudaGraph graphs by kind of drawing, number of rows, dtype and device."""


class DirectionStream:
    """Read-only rows of length 1, by slices."""

    def __init__(self, drawing: Drawing, noise: Noise) -> None:
        self._drawing, self._noise = drawing, noise
        self._recordable = drawing if noise.is_cuda and isinstance(drawing, Recordable) else None
        self._block: tuple[int, Tensor] | None = None

    def __getitem__(self, rows: slice) -> Tensor:
        first, last, _ = rows.indices(len(self._noise))
        if self._recordable is None:
            return self._drawing(self._noise[first:last], 1.0)
        pieces = []
        while first < last:
            if self._block is None or not 0 <= first - self._block[0] < len(self._block[1]):
                start, size = block_containing(first)
                noise = self._noise[start : start + size]
                self._block = start, _draw_block(self._recordable, noise)
            start, block = self._block
            pieces.append(block[first - start : last - start])
            first += len(pieces[-1])
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces)


def block_containing(row: int) -> tuple[int, int]:
    """Return the first row and the size of a row's block."""
    size = min(max(SMALLEST_BLOCK, 1 << row.bit_length() - 1 if row else 0), LARGEST_BLOCK)
    return row - row % size, size


def _draw_block(drawing: Recordable, noise: Tensor) -> Tensor:
    key = (drawing.kind, len(noise), noise.dtype, noise.device)
    if key not in _graphs:
        if len(_graphs) == MAX_GRAPHS:
            del _graphs[next(iter(_graphs))]
        _graphs[key] = CudaGraph(
            lambda noise, *tensors: drawing.holding(*tensors)(noise, 1.0), noise, *drawing.tensors
        )
    return _graphs[key](noise, *drawing.tensors)
