"""Descent: what HSJA, GeoDA, CGBA and their successors have in common.

Find a start, and the boundary on the path from it to the source (`paths.inward`). For t = 1, 2,
...: estimate a direction with n_0 sqrt(t) queries (or another schedule, or at the cost of such an
estimate), move along it to the next boundary point, and accept that. An estimate without
information leaves the iterate unchanged; `blind_limit` of them in a row stop the attack.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from ..core.ask import Asking, Iterate, Rows, first_adversarial
from ..core.metric import Metric
from ..core.problem import Problem
from ..core.stop import Stop
from ..core.validation import MAX_LIMIT, MAX_VALUE, check, whole
from ..parts.estimates import Estimate
from ..parts.paths import Box, Path, Segment, inward
from ..parts.searches import Search
from ..parts.starts import Start, find_start

Project = Callable[[Path], Asking[Iterate]]
"""The attack's search, with the tolerance that its estimate needs."""
Schedule = Callable[[int], int]
"""Returns n'_t, the number of queries of the vanilla estimate at iteration t."""
Move = Callable[[int, Iterate, Tensor, Project], Asking[Iterate]]
"""Takes t, x_t and the direction; returns the next boundary point, or x_t if there is none."""


@dataclass(frozen=True)
class Descent:
    """The parts and settings of an attack that estimates and moves."""

    start: Start
    search: Search
    """Search of lines to the source."""
    estimate: Estimate
    queries: int = 30
    """n_0: the vanilla estimate at iteration t has n_0 sqrt(t) queries."""
    blind_limit: int = 10
    """Number of estimates without information in a row that stop the attack."""
    iterations: int = 10_000

    metrics = (Metric.L2,)

    def __post_init__(self) -> None:
        check(self, queries=whole(1, MAX_VALUE))
        check(self, blind_limit=whole(1, MAX_LIMIT), iterations=whole(1, MAX_LIMIT))

    @property
    def rows(self) -> int:
        return self.estimate.rows


def descend(
    problem: Problem, attack: Descent, move: Move, schedule: Schedule | None = None
) -> Asking[Stop]:
    """Estimate and move until a limit is reached; `schedule` replaces n_0 sqrt(t)."""
    planned = schedule or (lambda t: int(attack.queries * math.sqrt(t)))
    scale = attack.estimate.tolerance_scale(problem)

    def project(path: Path) -> Asking[Iterate]:
        return attack.search(problem, path, scale)

    start = yield from find_start(problem, attack.start)
    if start is None:
        return Stop.NO_START
    iterate = yield from project(inward(problem.source, start, problem.norm))
    problem.accept(iterate)
    estimate, blind = attack.estimate.begin(problem), 0
    for t in range(1, attack.iterations + 1):
        direction = yield from estimate(t, iterate, planned(t))
        blind = blind + 1 if direction is None else 0
        if blind == attack.blind_limit:
            return Stop.NO_INFORMATION
        if direction is not None:
            iterate = yield from move(t, iterate, direction, project)
        problem.accept(iterate)
    return Stop.ITERATIONS


def step_and_project(
    problem: Problem,
    iterate: Iterate,
    points: Rows,
    project: Project,
    *,
    path: type[Segment | Box] = Segment,
    phase: str = "step",
) -> Asking[Iterate]:
    """Search from the first adversarial point to the source, or return the iterate if none is."""
    moved = yield from first_adversarial(points, phase)
    return iterate if moved is None else (yield from project(path(problem.source, moved)))
