"""Descent: what HSJA, GeoDA and CGBA have in common.

From a boundary point: estimate a direction with n_0 sqrt(t) queries (or what that would cost), move
along it to the next boundary point, accept it; t = 1, 2, ... An estimate without information leaves
the iterate where it is, and `blind_limit` of them in a row end the attack.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Tensor

from ..ask import Asking, Found
from ..errors import Stop
from ..estimates import Estimator
from ..problem import Problem

Move = Callable[[int, Found, Tensor], Asking[Found]]
"""Called with t, x_t and the direction: the next boundary point, or x_t if there is none."""


def descend(
    problem: Problem,
    found: Found,
    estimate: Estimator,
    move: Move,
    *,
    queries: int,
    blind_limit: int,
    iterations: int,
) -> Asking[Stop]:
    """Estimate and move until something ends it."""
    problem.accept(found.point)
    blind = 0
    for t in range(1, iterations + 1):
        direction = yield from estimate(t, found, int(queries * math.sqrt(t)))
        blind = blind + 1 if direction is None else 0
        if blind == blind_limit:
            return Stop.NO_INFORMATION
        if direction is not None:
            found = yield from move(t, found, direction)
        problem.accept(found.point)
    return Stop.ITERATIONS
