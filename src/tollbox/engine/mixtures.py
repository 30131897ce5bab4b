"""Mixtures: points that are sums of a few images, made for many asks at once.

A point of a line or of an arc is `base + a first + b second`, clipped to [0,1], with plain numbers
a and b. A search asks for such points one by one, and on a GPU a launch takes longer than the sum:
so rows that know the terms of their points (`MixtureRows`) have them added up for the whole batch,
and are given the points back (`remember`).

Products and sums are separate operations, each rounded on its own: a point comes out the same, bit
for bit, alone or in any list.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Mixture(NamedTuple):
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


class MixtureRows(ABC):
    """Rows that know the terms of their points; those that do inherit from this."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of points."""

    @abstractmethod
    def __getitem__(self, rows: slice, /) -> Tensor:
        """The points of a slice, as one tensor (n, c, h, w)."""

    @abstractmethod
    def mixture(self, row: int) -> Mixture | None:
        """The terms of one row, or None if it has to be made as other rows are."""

    @abstractmethod
    def remember(self, row: int, point: Tensor) -> None:
        """The point of a row, (1, c, h, w), now that it is made."""


def points(mixtures: Sequence[Mixture]) -> list[Tensor]:
    """The points of many mixtures."""
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
    return totals
