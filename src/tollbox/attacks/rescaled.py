"""Rescaled: any attack, with parts of its perturbation made larger or smaller on the way (SeRI).

SeRI (2026) ends an attack by rescaling: where a model looks elsewhere, a block of the perturbation
is worth less than it is long. Blocks are multiplied by 0.2 or by 1.8, and what is adversarial at
the same length is kept. Published, that has the last fifth of a budget. An attack does not know its
budget; so here rescaling has a fifth of what was paid so far, whenever that is asked:

1. Asks of the attack go through as they are. Whenever rescaling has had less than `share` of all,
   and there is an iterate, one block is tried.
2. A block is multiplied by 0.2 and, if that is flagged, by 1.8; the perturbation is then made
   `step` shorter than the nearest so far. If it is adversarial, the line from there inward is
   searched, and the factors of all blocks are kept.
3. When the attack has a new iterate, its perturbation is tried with the factors so far; if that is
   flagged, and the iterate the nearest, all factors are 1 again.
4. Blocks are those of grids of 2, 4, 8 and 16 a side, coarse to fine, over and over.

The attack itself hears nothing of all this; the nearest point is reported, whoever asked it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle

import torch
from torch import Tensor

from ..core.ask import Answers, Ask, Asking, Iterate, Until, handled
from ..core.metric import Metric, metrics_of
from ..core.problem import Attack, BoundedAttack, Problem
from ..core.stop import Stop
from ..core.validation import MAX_VALUE, between, check, number
from ..parts.paths import Segment
from ..parts.searches import BinarySearch, Search
from ..parts.vectors import unit

PHASE = "rescale"
GRIDS = (2, 4, 8, 16)
INNERMOST = 0.8
"""How far inward a line is searched, as a share of where it begins."""
FEWEST_ROWS = 16
"""Points held beside those of the attack."""


@dataclass(frozen=True)
class Rescaled:
    """An attack, and rescaling beside it."""

    inner: Attack
    search: Search = field(default_factory=lambda: BinarySearch(1 / 16, relative=True, phase=PHASE))
    """Of a line inward, after a block that helped."""
    share: float = 0.2
    """Of the cost."""
    smaller: float = 0.2
    larger: float = 1.8
    step: float = 0.01
    """By how much a rescaled perturbation is shorter, if it is to count."""

    def __post_init__(self) -> None:
        check(self, share=between(0, 1), smaller=number(0, 1), larger=number(1, MAX_VALUE))
        check(self, step=between(0, 1))

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """l2, in which it rescales, if the attack is made for that."""
        return tuple(metric for metric in metrics_of(self.inner) if metric is Metric.L2)

    @property
    def rows(self) -> int:
        """The most points held at a time."""
        held = self.inner.rows if isinstance(self.inner, BoundedAttack) else 0
        return held + FEWEST_ROWS

    def __call__(self, problem: Problem) -> Asking[Stop]:
        """Attack one image."""
        rescaling, own, attack = _Rescaling(self, problem), _Account(), _Account()

        def beside(ask: Ask) -> Asking[Answers]:
            rescaling.hear_of_iterates()
            while own.cost < self.share * (own.cost + attack.cost) and rescaling.has_begun:
                before = own.cost
                yield from handled(rescaling.attempt(), own.pay)
                if own.cost == before:
                    break
            return (yield from attack.pay(ask))

        return Stop((yield from handled(self.inner(problem), beside)))


class _Account:
    """What the answers to some asks cost."""

    cost = 0.0

    def pay(self, ask: Ask) -> Asking[Answers]:
        """Ask, and add what the answers cost."""
        answers = yield ask
        self.cost += float(answers.prices.sum())
        return answers


Block = tuple[slice, slice]


def _blocks(height: int, width: int) -> Iterator[Block]:
    """The blocks of all grids that are no finer than pixels, coarse to fine."""
    for count in [grid for grid in GRIDS if grid <= min(height, width)] or [1]:
        for row in range(count):
            for column in range(count):
                yield (
                    slice(row * height // count, (row + 1) * height // count),
                    slice(column * width // count, (column + 1) * width // count),
                )


class _Rescaling:
    """What is known of one image: factors by pixel, and the nearest point."""

    def __init__(self, part: Rescaled, problem: Problem) -> None:
        self._part, self._problem = part, problem
        blocks = _blocks(*problem.source.shape[1:])
        self._blocks = cycle([block for block in blocks if problem.may_change(*block)])
        self._factors: Tensor | None = None
        """None: all are 1."""
        self._nearest: Iterate | None = None
        self._latest: Iterate | None = None
        """The attack's iterate, if it was not tried with the factors yet."""
        self._heard: Tensor | None = None
        """The last iterate of the attack that was taken up."""

    @property
    def has_begun(self) -> bool:
        """Whether there is something to rescale."""
        return self._nearest is not None

    def hear_of_iterates(self) -> None:
        """Take up the latest iterate of the attack, if it has one that is not known yet."""
        if not self._problem.accepted:
            return
        point, distance, _ = self._problem.accepted[-1]
        if distance is None or point is self._heard:
            return
        self._heard = point
        latest = Iterate(point, distance)
        if self._factors is not None:
            self._latest = latest
        elif self._nearest is None or distance < self._nearest.distance:
            self._nearest = latest

    def attempt(self) -> Asking[None]:
        """Try the factors on a new iterate, or else the next block."""
        if self._nearest is None:
            return
        if self._latest is not None and self._factors is not None:
            latest, self._latest = self._latest, None
            length = min(latest.distance, self._nearest.distance)
            if (yield from self._try(latest, [self._factors], length)) is not None:
                return
            if latest.distance < self._nearest.distance:
                self._nearest, self._factors = latest, None
            return
        block = next(self._blocks)
        masks = [self._mask(block, factor) for factor in (self._part.smaller, self._part.larger)]
        chosen = yield from self._try(self._nearest, masks, self._nearest.distance)
        if chosen is not None:
            self._factors = chosen if self._factors is None else self._factors * chosen

    def _mask(self, block: Block, factor: float) -> Tensor:
        """1 but for a block, (1, h, w)."""
        mask = torch.ones_like(self._problem.source[:1])
        mask[:, block[0], block[1]] = factor
        return mask

    def _try(self, iterate: Iterate, masks: list[Tensor], length: float) -> Asking[Tensor | None]:
        """Ask for a perturbation with each of the factors in turn, a step shorter than `length`;
        the first that is adversarial is followed inward, and its factors are returned."""
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
        self._nearest = yield from self._part.search(self._problem, line)
        return masks[row]
