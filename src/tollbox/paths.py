"""Paths: T(theta) from an adversarial point, T(0), towards the source, T(1).

A path is called with one theta and gives one point. `length` is its length in l2, a plain number,
so that a search can tell how fine a step is worth taking.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Line:
    """T(theta) = theta x* + (1 - theta) x."""

    source: Tensor
    start: Tensor
    """The adversarial end."""
    length: float

    def __call__(self, theta: float) -> Tensor:
        """One point of the path."""
        return torch.lerp(self.start, self.source, theta)
