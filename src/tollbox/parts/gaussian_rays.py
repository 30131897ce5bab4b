"""OPT's start: the nearest boundary along a hundred Gaussian directions (Cheng et al. 2019).

A direction is asked far out, at x* + N(0, 1), clipped. If that is adversarial, it is asked at the
best distance so far. If it is adversarial there, too, it is nearer, and its line to the source is
searched. So a direction that is no better costs two queries, the second of them flagged.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..core.ask import Ask, Asking, Iterate, Until
from ..core.noise import Noise
from ..core.problem import Problem
from ..core.ranges import MAX_VALUE, check, whole
from .paths import Segment
from .registry import register
from .searches import BinarySearch, Search
from .starts import PHASE, Start


class _FarOut:
    """Rows source + N(0, 1), clipped, from one of them on."""

    def __init__(self, source: Tensor, noise: Noise, first: int = 0) -> None:
        self._source, self._noise, self._first = source, noise, first

    def __len__(self) -> int:
        return len(self._noise) - self._first

    def __getitem__(self, rows: slice) -> Tensor:
        first, last, _ = rows.indices(len(self))
        points = self._noise[self._first + first : self._first + last]
        return points.add_(self._source).clamp_(0, 1)


@register(Start)
@dataclass(frozen=True)
class GaussianRays:
    """The best of `directions`; if none of them is adversarial, the first of `tries` that is."""

    search: Search = field(default_factory=lambda: BinarySearch(1e-5))
    directions: int = 100
    tries: int = 1000

    tolerance = 1e-4
    """At most, with the searches that presets have."""

    def __post_init__(self) -> None:
        check(self, directions=whole(1, MAX_VALUE), tries=whole(1, MAX_VALUE))

    def __call__(self, problem: Problem) -> Asking[Iterate | None]:
        """The nearest boundary point."""
        noise = problem.noise(PHASE, 0, max(self.tries, self.directions))
        points = _FarOut(problem.source, noise)
        answers = yield Ask(points, until=Until.ADVERSARIAL, phase=PHASE)
        row = len(answers) - 1
        if not answers.adversarial[row]:
            return None
        begun = Iterate(points[row : row + 1][0], float(answers.distances[row]))
        best = yield from self.search(problem, Segment(problem.source, begun))
        for following in range(row + 1, self.directions):
            far = points[following : following + 1]
            nearer = yield from self._compare(problem, far, best.distance)
            if nearer is not None:
                found = yield from self.search(problem, Segment(problem.source, nearer))
                best = min(best, found, key=lambda each: each.distance)
        return best

    def _compare(self, problem: Problem, far: Tensor, distance: float) -> Asking[Iterate | None]:
        """The point of a direction at that distance, if it is adversarial."""
        away = far - problem.source
        share = (distance / torch.linalg.vector_norm(away)).clamp_max(1.0)
        near = away.mul_(share).add_(problem.source).clamp_(0, 1)
        answers = yield Ask(torch.cat([far, near]), until=Until.NOT_ADVERSARIAL, phase=PHASE)
        if len(answers) < 2 or not answers.adversarial[1]:
            return None
        return Iterate(near[0], float(answers.distances[1]))
