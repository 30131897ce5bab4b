"""FrugalLinf: the patterns of frugal's start as signs, then flips of blocks.

race     a ray with all signs equal and rays with the signs of patterns compete, as in
         ray_start.py: a ray that is no closer costs one flagged answer. If c* is below
         `EXPENSIVE`, a pattern must be much closer than equal signs, whose flips gain more. If
         a pattern wins, its signs on one side of a line are replaced by those of a fresh
         pattern or by their opposites, in turn
flips    blocks of signs are flipped. If c* is below `EXPENSIVE`, two flips are compared at
         common radii (adba.py); a comparison costs (1 + sqrt(c*))^2. Otherwise, each flip is
         queried once and, if it is adversarial, searched inward (rays.py)
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from ...core.ask import Asking
from ...core.metric import Metric
from ...core.problem import Problem
from ...core.stop import Stop
from ...parts.comparisons import CommonRadius, Comparison
from ...parts.registry import Checked, Count
from ...parts.searches import OptimalSearch, Search
from ..adba import ADBA
from ..rays import RayS
from .overshoot_belief import limit_ratio
from .patterns import is_on_one_side
from .ray_start import EXPENSIVE, KINDS, RADIUS_STEP, RayHit, tries_at, try_ray

LARGEST_RADIUS, SMALLEST_RADIUS = 0.5, 0.002
"""Range of radii in the first search."""
LEAD = 0.25
"""Share of the radius of equal signs at which a pattern must be adversarial to replace them, if c*
is below `EXPENSIVE`: later flips gain more where signs are equal."""
EQUAL = 0
"""The kind of a ray whose signs are all 1; kind k + 1 is that of `KINDS[k]`."""


@dataclass(frozen=True)
class FrugalLinf(Checked):
    """The attack `frugal-linf` with its parts."""

    tries: Count = 12
    """Number of rays for c* up to 1; above, it is divided by 1 + log10 c*, but is at least 2."""
    search: Search = field(default_factory=lambda: OptimalSearch(1e-3))
    """Search of the radius after a flip, and on the line to a given start."""
    comparison: Comparison = field(default_factory=lambda: CommonRadius(rounds=8, priced=True))
    """Comparison of two flips."""

    metrics = (Metric.LINF,)
    finds_targets = False
    rows = 16

    def __call__(self, problem: Problem) -> Asking[Stop]:
        best: RayHit | None = None
        if problem.start_image is None:
            best = yield from self._race(problem)
        if limit_ratio(problem.prices.ratio) >= EXPENSIVE:
            searched = RayS(self.search)
            if best is None:
                return (yield from searched(problem))
            return (yield from searched.flip_from(problem, best.way, best.radius, [], True))
        compared = ADBA(self.search, self.comparison)
        if best is None:
            return (yield from compared(problem))
        return (yield from compared.flip_from(problem, best.way, best.radius, True))

    def _race(self, problem: Problem) -> Asking[RayHit | None]:
        """Return the closest hit; None if the first ray of every kind is flagged at its far end."""
        ratio = limit_ratio(problem.prices.ratio)
        best: RayHit | None = None
        for number in range(tries_at(ratio, self.tries)):
            if number <= len(KINDS):
                kind, signs = number, _signs(problem, number, number)
            elif best is None or best.kind == EQUAL:
                break
            else:
                kind, signs = best.kind, _changed(problem, best, number)
            far = LARGEST_RADIUS
            if best is not None:
                replaces = best.kind == EQUAL and ratio < EXPENSIVE
                far = best.radius * (LEAD if replaces else RADIUS_STEP)
            found = yield from try_ray(problem, ratio, signs, far, SMALLEST_RADIUS)
            if found is not None:
                best = found._replace(kind=kind)
                problem.accept(best.iterate)
        return best


def _signs(problem: Problem, kind: int, number: int) -> Tensor:
    """Return the signs of a ray of a kind."""
    signs = torch.ones_like(problem.source)
    if kind != EQUAL:
        signs = torch.where(KINDS[kind - 1].ray(problem, number) < 0, -signs, signs)
    return problem.only_mask(signs)


def _changed(problem: Problem, best: RayHit, number: int) -> Tensor:
    """Return the best signs, replaced on one side of a line."""
    other = _signs(problem, best.kind, number) if number % 2 else -best.way
    return torch.where(is_on_one_side(problem, number), best.way, other)
