"""Vectors and rows of points. A vector of length 0 stays 0 and never becomes NaN."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Item = TypeVar("Item")


class LazyRows:
    """A sequence of `count` points; `make(first, last)` computes a slice when it is needed."""

    def __init__(self, count: int, make: Callable[[int, int], Tensor]) -> None:
        self._count, self._make = count, make

    @classmethod
    def stack(cls, items: Sequence[Item], point: Callable[[Item], Tensor]) -> LazyRows:
        """Return one row for each item, made by `point`."""
        return cls(
            len(items), lambda first, last: torch.stack([point(x) for x in items[first:last]])
        )

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, rows: slice) -> Tensor:
        first, last, _ = rows.indices(self._count)
        return self._make(first, last)


def unit(vector: Tensor) -> Tensor:
    """Return the vector scaled to length 1."""
    norm = torch.linalg.vector_norm(vector)
    result: Tensor = vector / norm.clamp_min(torch.finfo(vector.dtype).tiny)
    return result


def unit_rows(rows: Tensor) -> Tensor:
    """Return rows (or images), each scaled to length 1."""
    norms = torch.linalg.vector_norm(rows, dim=tuple(range(1, rows.ndim)), keepdim=True)
    result: Tensor = rows / norms.clamp_min(torch.finfo(rows.dtype).tiny)
    return result


def sum_weights(adversarial: NDArray[np.bool_], like: Tensor) -> Tensor:
    """Return weights (2, n) that sum the adversarial rows, and all rows, in one product."""
    weights = np.ones((2, len(adversarial)), np.float32)
    weights[0] = adversarial
    return torch.from_numpy(weights).to(like.device, like.dtype, non_blocking=True)
