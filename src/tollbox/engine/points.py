"""Linear points: sums of a few images, computed for many asks in one operation.

A point on a line or an arc is `base + a first + b second`, clipped to [0,1], with numbers a and b.
A search sends such points one by one, and on a GPU a launch takes longer than the sum. So the
points of rows that provide their terms (`LinearRows`) are computed for the whole batch at once
(`write`), and a point is computed again, alone, if it is kept.

Products and sums are separate operations, each rounded separately: a point has the same bits alone
and in any list. The images of a linear point must not change afterwards.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..core.device import kernels_for


class LinearPoint(NamedTuple):
    """The terms of a linear point."""

    base: Tensor
    first: Tensor
    a: float
    second: Tensor | None = None
    b: float = 0.0

    def point(self) -> Tensor:
        total = self.first * self.a
        total += self.base
        if self.second is not None:
            total += self.second * self.b
        return total.clamp_(0, 1)


class LinearRows(ABC):
    """Base class for `Rows` that provide the terms of their points."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, rows: slice, /) -> Tensor: ...

    @abstractmethod
    def linear_point(self, row: int) -> LinearPoint | None:
        """Return the terms of one row, or None if its point is available only by slicing."""


def write(batch: Tensor, points: Sequence[LinearPoint], rows: Sequence[int]) -> None:
    """Write linear points into rows of a batch, (n, c, h, w)."""
    if (kernels := kernels_for(batch)) is not None:
        terms = _terms(points, rows).to(batch.device, non_blocking=True)
        kernels.fill_linear_points(batch, terms)
        return
    totals = list(torch._foreach_mul([p.first for p in points], [p.a for p in points]))
    torch._foreach_add_(totals, [p.base for p in points])
    longer, seconds, factors = [], [], []
    for total, point in zip(totals, points, strict=True):
        if point.second is not None:
            longer.append(total)
            seconds.append(point.second)
            factors.append(point.b)
    if longer:
        torch._foreach_add_(longer, torch._foreach_mul(seconds, factors))
    torch._foreach_clamp_min_(totals, 0.0)
    torch._foreach_clamp_max_(totals, 1.0)
    places = batch.unbind()
    torch._foreach_copy_([places[row] for row in rows], totals)


def _terms(points: Sequence[LinearPoint], rows: Sequence[int]) -> Tensor:
    """Return one line per point, in the format of `kernels.fill_linear_points`."""
    terms = torch.empty(len(points), 6, dtype=torch.int64, pin_memory=True)
    lines = terms.numpy()
    lines[:, :3] = [
        (p.base.data_ptr(), p.first.data_ptr(), 0 if p.second is None else p.second.data_ptr())
        for p in points
    ]
    lines[:, 3:5].view(np.float64)[:] = [(p.a, p.b) for p in points]
    lines[:, 5] = rows
    return terms
