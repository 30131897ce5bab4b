"""Drawn directions: the unit directions of a random stream, made when they are needed.

On a CUDA device they are made in blocks, of 32 rows at first and then 64, each by a recorded graph:
an estimate asks for eight at a time, and to launch a prior's fifty kernels for each of these takes
longer than the network does. Which block a row is made in depends on its number alone, whatever is
asked for: the last bits of a product may depend on how many rows it has.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import torch
from torch import Tensor

from ...core.device import CudaGraph
from ...core.noise import Noise
from ...parts.subspaces import Drawing, Recordable

SMALLEST_BLOCK, LARGEST_BLOCK = 32, 64
MOST_RECORDED = 64

_recorded: dict[Hashable, CudaGraph] = {}
"""By what is drawn, how many rows, dtype and device."""


class DrawnDirections:
    """Rows of length 1, by slices; they are not to be written to."""

    def __init__(self, drawing: Drawing, noise: Noise) -> None:
        self._drawing, self._noise = drawing, noise
        self._recordable = drawing if noise.is_cuda and isinstance(drawing, Recordable) else None
        self._block: tuple[int, Tensor] | None = None

    def __getitem__(self, rows: slice) -> Tensor:
        first, last, _ = rows.indices(len(self._noise))
        if self._recordable is None:
            return self._drawing(self._noise[first:last], 1.0)
        parts = []
        while first < last:
            if self._block is None or not 0 <= first - self._block[0] < len(self._block[1]):
                begins, size = block_of(first)
                self._block = begins, _draw(self._recordable, self._noise[begins : begins + size])
            begins, block = self._block
            parts.append(block[first - begins : last - begins])
            first += len(parts[-1])
        return parts[0] if len(parts) == 1 else torch.cat(parts)


def block_of(row: int) -> tuple[int, int]:
    """Where the block of a row begins, and its size: blocks double from the smallest on."""
    size = min(max(SMALLEST_BLOCK, 1 << row.bit_length() - 1 if row else 0), LARGEST_BLOCK)
    return row - row % size, size


def _draw(drawing: Recordable, noise: Tensor) -> Tensor:
    key = (drawing.kind, len(noise), noise.dtype, noise.device)
    recorded = _recorded.get(key)
    if recorded is None:
        if len(_recorded) == MOST_RECORDED:
            del _recorded[next(iter(_recorded))]
        recorded = _recorded[key] = CudaGraph(_unit(drawing), noise, *drawing.tensors)
    return recorded(noise, *drawing.tensors)


def _unit(drawing: Recordable) -> Callable[..., Tensor]:
    return lambda noise, *tensors: drawing.holding(*tensors)(noise, 1.0)
