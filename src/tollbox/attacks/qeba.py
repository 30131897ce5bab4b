"""QEBA (Li, Xu, Zhang, Yang, Li 2020): HopSkipJump in a subspace.

As HSJA (hsja.py), but that directions are drawn in a small subspace (of cosines, of small images
made larger, or of principal components of gradients), and that every estimate has as many queries
as the first. What is gained is the dimension: the cosine of an estimate goes as sqrt(n / d').
"""

from __future__ import annotations

from dataclasses import dataclass

from ..core.ask import Asking
from ..core.metric import Metric
from ..core.problem import Problem
from ..core.ranges import MAX_DEPTH, MAX_LIMIT, MAX_VALUE, check, whole
from ..core.stop import Stop
from ..parts.estimates import Estimate
from ..parts.searches import Search
from ..parts.starts import Start
from .descent import descend
from .hsja import hop


@dataclass(frozen=True)
class QEBA:
    """QEBA with a start, a search and an estimate as parts."""

    start: Start
    search: Search
    estimate: Estimate
    queries: int = 100
    """Of every estimate."""
    halvings: int = 20
    blind_limit: int = 10
    iterations: int = 10_000

    metrics = (Metric.L2,)

    def __post_init__(self) -> None:
        check(self, queries=whole(1, MAX_VALUE), halvings=whole(1, MAX_DEPTH))
        check(self, blind_limit=whole(1, MAX_LIMIT), iterations=whole(1, MAX_LIMIT))

    @property
    def rows(self) -> int:
        """The most points held at a time."""
        return self.estimate.rows

    def __call__(self, problem: Problem) -> Asking[Stop]:
        """Attack one image."""
        return descend(problem, self, hop(problem, self.halvings), lambda _: self.queries)
