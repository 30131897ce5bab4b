"""QEBA (Li, Xu, Zhang, Yang, Li 2020): HopSkipJump in a subspace.

As HSJA (hsja.py), but that directions are drawn in a small subspace (of cosines, of small images
made larger, or of principal components of gradients), and that every estimate has as many queries
as the first. What is gained is the dimension: the cosine of an estimate goes as sqrt(n / d').
"""

from __future__ import annotations

from dataclasses import dataclass

from ..core.ask import Asking
from ..core.problem import Problem
from ..core.stop import Stop
from .descent import descend
from .hsja import Hopping, hop


@dataclass(frozen=True)
class QEBA(Hopping):
    """QEBA with a start, a search and an estimate as parts."""

    queries: int = 100
    """Of every estimate."""

    def __call__(self, problem: Problem) -> Asking[Stop]:
        """Attack one image."""
        return descend(problem, self, hop(problem, self.halvings), lambda _: self.queries)
