"""ADBA (Wang et al. 2025): sign vectors as in RayS, compared in pairs instead of searched.

A perturbation is a radius times a vector of signs, clipped to [0,1]. Each block of values is cut in
half; one candidate flips the signs of the first half, the other those of the second (Algorithm 1).

    both queried at the best radius so far (at first 1)
    neither adversarial   the signs stay
    one adversarial       it is taken, at the same radius
    both                  the comparison decides, and leaves a smaller radius (Algorithm 2)

The first pair is all signs and their opposites. Then the image is the first block, and the halves
are the next ones, down to single values. No boundary
is searched for: about four queries decide a pair. Candidates that are flagged do not change what is
queried next, so all pairs up to the next adversarial answer form one ask.

If a start is given, the line to it is searched first, and its signs are the initial ones. A pass
over single values that finds no smaller radius ends the attack.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest

import torch
from torch import Tensor

from ..core.ask import Ask, Asking, Iterate, Until
from ..core.metric import Metric
from ..core.problem import Problem
from ..core.stop import Stop
from ..parts.comparisons import PHASE, Bracket, Comparison
from ..parts.registry import Checked, Count, Depth
from ..parts.searches import Search
from ..parts.starts import PHASE as START
from .rays import Block, blocks, first_signs, flipped_rows, values_of

UNFLIPPED: Block = (0, 0)


def halves(dimension: int, level: int) -> list[Block]:
    """Return the halves of the blocks of a level, pair after pair."""
    parts = blocks(dimension, level)
    pairs = zip_longest(parts[::2], parts[1::2], fillvalue=UNFLIPPED)
    return [block for pair in pairs for block in pair]


@dataclass(frozen=True)
class ADBA(Checked):
    """ADBA, with the comparison as a part."""

    search: Search
    """Search of the line to a given start."""
    comparison: Comparison
    starts: Count = 1000
    """Maximum number of sign vectors tried for a first adversarial point."""
    levels: Depth = 1000
    """Maximum number of passes over all values; blocks become smaller with each pass."""

    metrics = (Metric.LINF,)
    finds_targets = False
    rows = 16
    """Maximum number of points held: signs, kept and flipped points, and those compared."""

    def __call__(self, problem: Problem) -> Asking[Stop]:
        if problem.start_image is None:
            ones = problem.only_mask(torch.ones_like(problem.source))
            return (yield from self.flip_from(problem, ones, 1.0, False))
        start = yield from first_signs(problem, problem.start_image, self.search, 1.0, 1.0)
        if start is None:
            return Stop.NO_START
        return (yield from self.flip_from(problem, *start, True))

    def flip_from(
        self, problem: Problem, signs: Tensor, radius: float, found: bool
    ) -> Asking[Stop]:
        """Flip signs; `found` says whether they are known to be adversarial at the radius."""
        tried, flips = 0, [UNFLIPPED, (0, problem.dimension)]
        for level in range(1, self.levels + 1):
            flips += halves(problem.dimension, level)
            single, changed = len(blocks(problem.dimension, level)) == problem.dimension, False
            while flips:
                some = flips if found else flips[: self.starts - tried]
                rows = flipped_rows(problem, signs, radius, some)
                phase = PHASE if found else START
                answers = yield Ask(rows, until=Until.ADVERSARIAL, phase=phase)
                asked, tried = len(answers), tried + len(answers)
                if answers.adversarial[-1]:
                    one = self._flipped(problem, signs, flips[asked - 1])
                    point = Iterate(rows[asked - 1 : asked][0], float(answers.distances[-1]))
                    best = Bracket(one, 0.0, radius, point)
                    if asked % 2 and asked < len(flips):  # the first of a pair
                        other = self._flipped(problem, signs, flips[asked])
                        best = yield from self.comparison(problem, best, other)
                        asked += 1
                    changed |= not found or best.high < radius
                    signs, radius, found = best.direction, best.high, True
                    problem.accept(best.point)
                elif not found and tried == self.starts:
                    return Stop.NO_START
                flips = flips[asked:]
            if single and not changed:
                return Stop.CONVERGED if found else Stop.NO_START
        return Stop.ITERATIONS if found else Stop.NO_START

    def _flipped(self, problem: Problem, signs: Tensor, block: Block) -> Tensor:
        """Return the signs with one block flipped."""
        flipped = signs.clone()
        flipped.view(-1)[values_of(block, problem.free_places)] *= -1
        return flipped
