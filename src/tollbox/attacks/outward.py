"""Outward: from the source along a direction, in equal steps, until a point is adversarial.

So GeoDA's authors and qFool come from a normal to a point behind the boundary. All points but the
last are flagged.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..core.ask import Asking, Iterate, first_adversarial
from ..core.problem import Problem


class _Multiples:
    """Rows source + k step, k = 1, 2, ..., clipped."""

    def __init__(self, source: Tensor, step: Tensor, count: int) -> None:
        self._source, self._step, self._count = source, step, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, rows: slice) -> Tensor:
        first, last, _ = rows.indices(self._count)
        points = [torch.add(self._source, self._step, alpha=k + 1) for k in range(first, last)]
        return torch.stack(points).clamp_(0, 1)


def walk_outward(problem: Problem, step: Tensor, count: int) -> Asking[Iterate | None]:
    """The first adversarial of x* + step, x* + 2 step, ...; None if none of them is."""
    return first_adversarial(_Multiples(problem.source, step, count), "step")
