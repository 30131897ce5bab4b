"""Descent: what HSJA, GeoDA, CGBA and others after them have in common.

Find a start and the boundary on the way from it to the source (`paths.inward`). Then, t = 1, 2,
...: estimate a direction with n_0 sqrt(t) queries, or another schedule of theirs (or what that
would cost), move along it to the next boundary point, accept it. An estimate without information
leaves the iterate where it is, and `blind_limit` of them in a row end the attack.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from torch import Tensor

from ..core.ask import Asking, Iterate
from ..core.problem import Problem
from ..core.stop import Stop
from ..parts.estimates import Estimate
from ..parts.paths import Path, inward
from ..parts.searches import Search
from ..parts.starts import Start, find_start

Project = Callable[[Path], Asking[Iterate]]
"""The attack's search, as fine as its estimate needs it."""
Schedule = Callable[[int], int]
"""n'_t by t: what the vanilla estimate asks."""
Move = Callable[[int, Iterate, Tensor, Project], Asking[Iterate]]
"""Called with t, x_t and the direction: the next boundary point, or x_t if there is none."""


class Descending(Protocol):
    """An attack made of these parts."""

    @property
    def start(self) -> Start:
        """Where it begins."""

    @property
    def search(self) -> Search:
        """How it finds the boundary on a path."""

    @property
    def estimate(self) -> Estimate:
        """How it finds a direction."""

    @property
    def queries(self) -> int:
        """n_0: the vanilla estimate at iteration t has n_0 sqrt(t) queries, if nothing else is
        said."""

    @property
    def blind_limit(self) -> int:
        """Estimates without information in a row that end it."""

    @property
    def iterations(self) -> int:
        """The most iterations."""


def descend(
    problem: Problem, attack: Descending, move: Move, schedule: Schedule | None = None
) -> Asking[Stop]:
    """Estimate and move until something ends it; `schedule` in place of n_0 sqrt(t)."""
    planned = schedule or (lambda t: int(attack.queries * math.sqrt(t)))
    scale = attack.estimate.tolerance_scale(problem)

    def project(path: Path) -> Asking[Iterate]:
        return attack.search(problem, path, scale)

    begun = yield from find_start(problem, attack.start)
    if begun is None:
        return Stop.NO_START
    iterate = yield from project(inward(problem.source, begun, problem.norm))
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
