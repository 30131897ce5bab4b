"""Rescaled: any attack, combined with the rescaling of blocks of its perturbation (SeRI).

SeRI (2026) finishes an attack by rescaling, because blocks of the perturbation that a model hardly
responds to can shrink. Blocks are multiplied by 0.2 or by 1.8, and changes that stay adversarial at
the same length are kept. The published method spends the last fifth of a budget on this. An attack
does not know its budget, so here rescaling always has a fifth of the cost so far:

1. The attack's asks pass unchanged. Whenever rescaling has used less than `share` of the cost, and
   there is an iterate, one block is tried.
2. A block is multiplied by 0.2, and the perturbation is queried at a length that is `step` below
   the shortest so far. If the answer is flagged, 1.8 is tried in the same way. From a point that
   is adversarial, the line inward is searched, and the factor of the block is kept.
3. When the attack has a new iterate, its perturbation is tried with the current factors. If that is
   flagged and the iterate has the smallest distance, all factors return to 1.
4. The blocks are those of grids of 2, 4, 8 and 16 per side, from coarse to fine, in a cycle.

The attack itself is unaffected. The result is the closest adversarial point that either sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle
from typing import Annotated

import torch
from torch import Tensor

from ..core.ask import Answers, Ask, Asking, Iterate, Until, handled
from ..core.metric import Metric
from ..core.problem import Attack, BoundedAttack, Problem, Sampled
from ..core.stop import Stop
from ..core.validation import MAX_VALUE, number
from ..parts.paths import Segment
from ..parts.registry import Checked, Fraction, InnerFraction
from ..parts.searches import BinarySearch, Search
from ..parts.vectors import unit
from .descent import sampled_by

PHASE = "rescale"
GRIDS = (2, 4, 8, 16)
INNERMOST = 0.8
"""Inner end of a line that is searched, as a fraction of the distance of its outer end."""
ROWS = 16
"""Maximum number of points held in addition to those of the attack."""


@dataclass(frozen=True)
class Rescaled(Checked):
    """An attack combined with rescaling."""

    inner: Attack
    search: Search = field(default_factory=lambda: BinarySearch(1 / 16, relative=True, phase=PHASE))
    """Search along a line inward, after rescaling a block succeeds."""
    share: InnerFraction = 0.2
    """Fraction of the cost spent on rescaling."""
    smaller: Fraction = 0.2
    larger: Annotated[float, number(1, MAX_VALUE)] = 1.8
    step: InnerFraction = 0.01
    """Fraction by which a rescaled perturbation must be shorter."""

    metrics = (Metric.L2,)

    @property
    def finds_targets(self) -> bool:
        return getattr(self.inner, "finds_targets", True)

    @property
    def rows(self) -> int:
        held = self.inner.rows if isinstance(self.inner, BoundedAttack) else 0
        return held + ROWS

    def finest(self, problem: Problem) -> Sampled | None:
        return sampled_by(problem, self.inner, "inner")

    def __call__(self, problem: Problem) -> Asking[Stop]:
        rescaling, own, attack = _Rescaling(self, problem), 0.0, 0.0

        def pay(ask: Ask) -> Asking[Answers]:
            nonlocal own
            answers = yield ask
            own += float(answers.prices.sum())
            return answers

        def interleave(ask: Ask) -> Asking[Answers]:
            nonlocal attack
            rescaling.update()
            before = -1.0
            while before < own < self.share * (own + attack) and rescaling.best is not None:
                before = own
                yield from handled(rescaling.attempt(rescaling.best), pay)
            answers = yield ask
            attack += float(answers.prices.sum())
            return answers

        return Stop((yield from handled(self.inner(problem), interleave)))


Block = tuple[slice, slice]


def _blocks(height: int, width: int) -> Iterator[Block]:
    """Yield the blocks of all grids that are not finer than the pixels, from coarse to fine."""
    for count in [grid for grid in GRIDS if grid <= min(height, width)] or [1]:
        for row in range(count):
            for column in range(count):
                yield (
                    slice(row * height // count, (row + 1) * height // count),
                    slice(column * width // count, (column + 1) * width // count),
                )


class _Rescaling:
    """The state of one image: factors per pixel, and the closest point."""

    def __init__(self, part: Rescaled, problem: Problem) -> None:
        self._part, self._problem = part, problem
        blocks = _blocks(*problem.source.shape[1:])
        self._blocks = cycle([block for block in blocks if problem.may_change(*block)])
        self._factors: Tensor | None = None  # of all blocks; None if all are 1
        self.best: Iterate | None = None  # the closest point, if there is one to rescale
        self._latest: Iterate | None = None  # the attack's iterate, until tried with the factors
        self._seen: Tensor | None = None  # the last point of the attack that `update` took over

    def update(self) -> None:
        """Take over the latest iterate of the attack, if it is new."""
        if not self._problem.accepted:
            return
        point, distance, _ = self._problem.accepted[-1]
        if distance is None or point is self._seen:
            return
        self._seen = point
        latest = Iterate(point, distance)
        if self._factors is not None:
            self._latest = latest
        elif self.best is None or distance < self.best.distance:
            self.best = latest

    def attempt(self, best: Iterate) -> Asking[None]:
        """Try the factors on a new iterate, or else the next block."""
        if self._latest is not None and self._factors is not None:
            latest, self._latest = self._latest, None
            length = min(latest.distance, best.distance)
            kept = yield from self._try(latest, [self._factors], length)
            if kept is None and latest.distance < best.distance:
                self.best, self._factors = latest, None
            return
        rows, columns = next(self._blocks)
        masks = []
        for factor in (self._part.smaller, self._part.larger):
            mask = torch.ones_like(self._problem.source[:1])
            mask[:, rows, columns] = factor
            masks.append(mask)
        chosen = yield from self._try(best, masks, best.distance)
        if chosen is not None:
            self._factors = chosen if self._factors is None else self._factors * chosen

    def _try(self, iterate: Iterate, masks: list[Tensor], length: float) -> Asking[Tensor | None]:
        """Query the perturbation with each of the factors, a step shorter than `length`. Follow the
        first adversarial one inward, and return its factors."""
        source, shorter = self._problem.source, (1 - self._part.step) * length
        ways = [unit((iterate.point - source) * mask) for mask in masks]
        points = torch.stack([torch.add(source, way, alpha=shorter) for way in ways]).clamp_(0, 1)
        answers = yield Ask(points, until=Until.ADVERSARIAL, phase=PHASE)
        if not answers.adversarial[-1]:
            return None
        row = len(answers) - 1
        found = Iterate(points[row], float(answers.distances[-1]))
        inner = torch.lerp(source, found.point, INNERMOST)
        line = Segment(inner, found, (1 - INNERMOST) * found.distance)
        self.best = yield from self._part.search(self._problem, line)
        return masks[row]
