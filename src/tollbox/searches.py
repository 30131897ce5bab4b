"""Searches: along a path from an adversarial point towards the source, find the boundary.

The path is divided into cells of a share `tau` of its length (no finer than the points' dtype can
resolve). T(0) is known to be adversarial and T(1) to be the source. A search returns T(k tau) that
was asked, or is T(0), and is adversarial, with T((k+1) tau) not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from .ask import Ask, Asking
from .paths import Line
from .problem import Problem
from .theory import split

PHASE = "search"


class Search(Protocol):
    """A part: finds the last adversarial point of a path. `scale` makes its tolerance finer.

    A search that takes ten equal steps:

        @dataclass(frozen=True)
        class TenSteps:
            def __call__(self, problem, path, scale=1.0):
                points = torch.stack([path(k / 10) for k in range(1, 10)])
                answers = yield Ask(points, until=Until.NOT_ADVERSARIAL, phase="search")
                return path((len(answers) - (not answers.adversarial[-1])) / 10)
    """

    def __call__(self, problem: Problem, path: Line, scale: float = 1.0) -> Asking[Tensor]:
        """The last adversarial point."""


def cells(problem: Problem, path: Line, tau: float) -> int:
    """ceil(1/tau), or as many as the points' dtype can tell apart on this path if that is fewer."""
    finest = max(2.0, path.length / problem.resolution)
    return math.ceil(min(1 / tau, finest))


def _halving(path: Line, count: int, ratio: float) -> Asking[Tensor]:
    """Algorithm 1 with a cost ratio to split for; 1 is binary search."""
    low, high = 0, count
    while (width := high - low) > 1:
        middle = low + split(width, ratio)
        answers = yield Ask(path(middle / count)[None], phase=PHASE)
        if answers.adversarial[0]:
            low = middle
        else:
            high = middle
    return path(low / count)


@dataclass(frozen=True)
class BinarySearch:
    """Halves the interval, whatever the prices."""

    tau: float = 1e-4

    def __call__(self, problem: Problem, path: Line, scale: float = 1.0) -> Asking[Tensor]:
        """The last adversarial point."""
        return _halving(path, cells(problem, path, self.tau * scale), 1.0)


@dataclass(frozen=True)
class AsymmetricSearch:
    """Splits the interval 1 : c*, nearer to the cheap side (Algorithm 1); any c*, below 1 too."""

    tau: float = 1e-4

    def __call__(self, problem: Problem, path: Line, scale: float = 1.0) -> Asking[Tensor]:
        """The last adversarial point."""
        count = cells(problem, path, self.tau * scale)
        return _halving(path, count, problem.prices.ratio)
