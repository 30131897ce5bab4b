"""Searches: along a path from an adversarial point towards the source, find the boundary.

The path is divided into cells of a share `tau` of its length (no finer than the points' dtype can
resolve). T(0) is known to be adversarial and T(1) to be the source. A search returns T(k tau) that
was asked, or is T(0), and is adversarial, with T((k+1) tau) not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from .ask import Ask, Asking
from .paths import Line
from .problem import Problem
from .theory import optimal_share, optimal_splits, split

PHASE = "search"
LARGEST_TABLE = 1 << 16
"""Cells for which optimal splits are worked out exactly."""


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


def _narrowed(path: Line, count: int, where: Callable[[int], int]) -> Asking[Tensor]:
    """Algorithm 1 with any rule for where to ask in an interval, from its adversarial end on."""
    low, high = 0, count
    while (width := high - low) > 1:
        middle = low + where(width)
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
        return _narrowed(path, cells(problem, path, self.tau * scale), lambda n: split(n, 1.0))


@dataclass(frozen=True)
class AsymmetricSearch:
    """Splits the interval 1 : c*, nearer to the cheap side (Algorithm 1); any c*, below 1 too."""

    tau: float = 1e-4

    def __call__(self, problem: Problem, path: Line, scale: float = 1.0) -> Asking[Tensor]:
        """The last adversarial point."""
        ratio = problem.prices.ratio
        return _narrowed(path, cells(problem, path, self.tau * scale), lambda n: split(n, ratio))


@dataclass(frozen=True)
class OptimalSearch:
    """Splits where the expected cost is least, the boundary being equally likely in every cell.

    Exactly so up to `LARGEST_TABLE` cells; in a wider interval by the share that is optimal in the
    limit. Asymmetric search costs up to a third more (c* = 1000, 20 000 cells: 2735 against 2097).
    """

    tau: float = 1e-4

    def __call__(self, problem: Problem, path: Line, scale: float = 1.0) -> Asking[Tensor]:
        """The last adversarial point."""
        count, ratio = cells(problem, path, self.tau * scale), problem.prices.ratio
        size = min(LARGEST_TABLE, 1 << (count - 1).bit_length())
        table, share = optimal_splits(size, ratio).first, optimal_share(ratio)

        def where(width: int) -> int:
            return int(table[width]) if width <= size else max(1, round(share * width))

        return _narrowed(path, count, where)
