"""Mixtures: points that are sums of a few images, made for many asks at once.

A point of a line or of an arc is `base + a first + b second`, clipped to [0,1], with plain numbers
a and b. A search asks for such points one by one, and on a GPU a launch takes longer than the sum:
so rows that know the terms of their points (`LinearRows`) have them added up for the whole batch
(`write`), and a point is made once more, alone, if it is kept.

Products and sums are separate operations, each rounded on its own: a point comes out the same, bit
for bit, alone or in any list. The images of a mixture do not change afterwards.
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
    """The terms of a point."""

    base: Tensor
    first: Tensor
    a: float
    second: Tensor | None = None
    b: float = 0.0

    def point(self) -> Tensor:
        """The point alone."""
        total = self.first * self.a
        total += self.base
        if self.second is not None:
            total += self.second * self.b
        return total.clamp_(0, 1)


class LinearRows(ABC):
    """Rows that know the terms of their points; those that do inherit from this."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of points."""

    @abstractmethod
    def __getitem__(self, rows: slice, /) -> Tensor:
        """The points of a slice, as one tensor (n, c, h, w)."""

    @abstractmethod
    def linear_point(self, row: int) -> LinearPoint | None:
        """The terms of one row, or None if it has to be made as other rows are."""


def write(batch: Tensor, mixtures: Sequence[LinearPoint], rows: Sequence[int]) -> None:
    """Write the points of many mixtures into rows of a batch, (n, c, h, w)."""
    if (kernels := kernels_for(batch)) is not None:
        kernels.fill_mixtures(batch, _terms(mixtures, rows).to(batch.device, non_blocking=True))
        return
    totals = list(torch._foreach_mul([m.first for m in mixtures], [m.a for m in mixtures]))
    torch._foreach_add_(totals, [m.base for m in mixtures])
    longer, seconds, factors = [], [], []
    for total, mixture in zip(totals, mixtures, strict=True):
        if mixture.second is not None:
            longer.append(total)
            seconds.append(mixture.second)
            factors.append(mixture.b)
    if longer:
        torch._foreach_add_(longer, torch._foreach_mul(seconds, factors))
    torch._foreach_clamp_min_(totals, 0.0)
    torch._foreach_clamp_max_(totals, 1.0)
    places = batch.unbind()
    torch._foreach_copy_([places[row] for row in rows], totals)


def _terms(mixtures: Sequence[LinearPoint], rows: Sequence[int]) -> Tensor:
    """A line for each, as `kernels.fill_mixtures` takes them."""
    terms = torch.empty(len(mixtures), 6, dtype=torch.int64, pin_memory=True)
    lines = terms.numpy()
    addresses = [
        (m.base.data_ptr(), m.first.data_ptr(), 0 if m.second is None else m.second.data_ptr())
        for m in mixtures
    ]
    lines[:, :3] = addresses
    lines[:, 3:5].view(np.float64)[:] = [(m.a, m.b) for m in mixtures]
    lines[:, 5] = rows
    return terms
