"""HopSkipJump (Chen, Jordan, Wainwright 2020) with the paper's parts.

Iteration t: estimate a direction g at the boundary point x_t with n_0 sqrt(t) queries; step
|x_t - x*| / sqrt(t) along g, halved until the point is adversarial; search the line from there to
the source for the next boundary point. All points in [0,1].

Every loop is bounded. A step that never becomes adversarial, or an estimate without information,
leaves the iterate where it is; `blind_limit` estimates in a row without information end the attack.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..ask import Ask, Asking, Until
from ..errors import Stop
from ..estimates import Estimate
from ..paths import Line
from ..problem import Problem
from ..searches import Search
from ..starts import Begun, Start


class _Halved:
    """Rows point + step 2^-k direction, k = 0, 1, ..., clipped."""

    def __init__(self, point: Tensor, step: Tensor, count: int) -> None:
        self._point, self._step, self._count = point, step, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, rows: slice) -> Tensor:
        first, last, _ = rows.indices(self._count)
        powers = torch.arange(first, last, device=self._step.device, dtype=self._step.dtype)
        scale = torch.exp2(-powers).view(-1, 1, 1, 1)
        return (self._step * scale).add_(self._point).clamp_(0, 1)


@dataclass(frozen=True)
class HSJA:
    """HopSkipJump with a start, a search and an estimate as parts."""

    start: Start
    search: Search
    estimate: Estimate
    queries: int = 30
    """n_0: the vanilla estimate at iteration t has n_0 sqrt(t) queries."""
    halvings: int = 20
    blind_limit: int = 10
    iterations: int = 10_000

    @property
    def rows(self) -> int:
        """The most points held at a time."""
        return self.estimate.rows

    def __call__(self, problem: Problem) -> Asking[Stop]:
        """Attack one image."""
        begun = yield from self.start(problem)
        if begun is None:
            return Stop.NO_START
        point = yield from self._project(problem, begun)
        problem.accept(point)
        blind = 0
        for t in range(1, self.iterations + 1):
            queries = int(self.queries * math.sqrt(t))
            direction = yield from self.estimate(problem, t, point, queries)
            blind = blind + 1 if direction is None else 0
            if blind == self.blind_limit:
                return Stop.NO_INFORMATION
            if direction is not None:
                moved = yield from self._step(problem, t, point, direction)
                if moved is not None:
                    point = yield from self._project(problem, moved)
            problem.accept(point)
        return Stop.ITERATIONS

    def _project(self, problem: Problem, begun: Begun) -> Asking[Tensor]:
        path = Line(problem.source, begun.point, begun.distance)
        return self.search(problem, path, self.estimate.tolerance_scale(problem))

    def _step(
        self, problem: Problem, t: int, point: Tensor, direction: Tensor
    ) -> Asking[Begun | None]:
        """The geometric step: |x_t - x*| / sqrt(t), halved until it is adversarial."""
        length = torch.linalg.vector_norm(point - problem.source) / math.sqrt(t)
        points = _Halved(point, direction * length, self.halvings)
        answers = yield Ask(points, until=Until.ADVERSARIAL, phase="step")
        if not answers.adversarial[-1]:
            return None
        row = len(answers) - 1
        return Begun(points[row : row + 1][0], float(answers.distances[-1]))
