"""Rescaled: any attack, combined with the rescaling of blocks of its perturbation (SeRI, SAR).

A model hardly responds to some blocks of a perturbation. If these shrink, the perturbation can grow
elsewhere, and its boundary comes closer. SeRI and SAR finish an attack in this way:

    SeRI (2026)   the block with the largest norm, times 0.2, then 1.8, compared by ADBA's
                  comparison; the last 20 % of the queries
    SAR (2026)    the weakest blocks, times 0.9, in one query each; the last 3 % of the queries

A candidate is the perturbation times the factors of its pixels, scaled back to the same l2 norm.
The part `blocks` proposes the factors, and `comparison` chooses between the old and the new
perturbation. An attack does not know its budget, so the two take turns:

1. The attack's asks pass unchanged until they have cost `stretch`. Then rescaling tries proposals
   on the best perturbation until it has its `share` of the cost so far, and the attack continues.
2. In the next turn, the attack's closest iterate since is compared with all factors so far. If it
   has the smallest distance and wins without them, rescaling starts again from it.

The attack itself is unaffected. The result is the closest adversarial point that either sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from ..core.ask import Answers, Ask, Asking, Iterate, handled
from ..core.by_side import at_side
from ..core.metric import Metric
from ..core.problem import Attack, BoundedAttack, Problem, Sampled
from ..core.stop import Stop
from ..parts.blocks import Blocks, Propose, Quarters
from ..parts.comparisons import Bracket, CommonRadius, Comparison
from ..parts.registry import Checked, InnerFraction, Positive
from ..parts.vectors import unit
from .descent import sampled_by

ROWS = 28
"""Maximum number of points held in addition to those of the attack."""


@dataclass(frozen=True)
class Rescaled(Checked):
    """An attack combined with rescaling."""

    inner: Attack
    blocks: Blocks = field(default_factory=Quarters)
    comparison: Comparison = field(default_factory=CommonRadius)
    share: InnerFraction = 0.2
    """Fraction of the cost spent on rescaling, at the end of its turn."""
    stretch: Positive = 1600.0
    """Cost of the attack's turn. Set it to (1 - share) of the budget to rescale only at the end."""

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
        part = at_side(self, min(problem.source.shape[1:]))  # another attack may call this one
        rescaling, own, attack = _Rescaling(part, problem), 0.0, 0.0

        def pay(ask: Ask) -> Asking[Answers]:
            nonlocal own
            answers = yield ask
            own += float(answers.prices.sum())
            return answers

        def interleave(ask: Ask) -> Asking[Answers]:
            nonlocal attack
            rescaling.update()
            turns, before = attack // part.stretch, -1.0
            due = turns * part.stretch * part.share / (1 - part.share)
            while before < own < due and rescaling.has_iterate:
                before = -1.0 if rescaling.has_new else own  # a new iterate may cost nothing
                yield from handled(rescaling.attempt(), pay)
            answers = yield ask
            attack += float(answers.prices.sum())
            return answers

        return Stop((yield from handled(part.inner(problem), interleave)))


class _Rescaling:
    """The state of one image: the best perturbation, its factors, and what to try next."""

    def __init__(self, part: Rescaled, problem: Problem) -> None:
        self._part, self._problem = part, problem
        self._factors: Tensor | None = None  # of all proposals that won; None if none has
        self._best: Bracket | None = None
        self._propose: Propose | None = None
        self._latest: Bracket | None = None  # the attack's closest iterate since the last turn
        self._seen: Tensor | None = None  # the last point of the attack that `update` took over

    @property
    def has_iterate(self) -> bool:
        return self._best is not None or self._latest is not None

    @property
    def has_new(self) -> bool:
        return self._latest is not None

    def update(self) -> None:
        """Take over the closest iterate that the attack has accepted since, if there is one."""
        accepted = self._problem.accepted
        known = [each for each in accepted if each.distance is not None]
        if not known or accepted[-1].point is self._seen:
            return
        self._seen = accepted[-1].point
        point, distance, _ = min(known, key=lambda each: each.distance or 0.0)
        if distance is None or (self._latest is not None and self._latest.high <= distance):
            return
        way = unit(point - self._problem.source)
        self._latest = Bracket(way, 0.0, distance, Iterate(point, distance))

    def attempt(self) -> Asking[None]:
        """Compare a new iterate, or else the next proposal."""
        latest, self._latest, best = self._latest, None, self._best
        if latest is not None:
            known = latest if best is None or latest.point.distance < best.point.distance else best
            if self._factors is not None:
                rescaled = unit(latest.direction * self._factors)
                known = yield from self._part.comparison(self._problem, known, rescaled)
            if best is None or known.direction is latest.direction:
                self._propose = self._part.blocks.begin(latest.direction)
                self._factors = None
            self._best = known
        elif best is not None and self._propose is not None:
            yield from self._rescale(best, self._propose)

    def _rescale(self, best: Bracket, propose: Propose) -> Asking[None]:
        for factors in propose(best.direction):
            old, new = best.direction, unit(best.direction * factors)
            best = yield from self._part.comparison(self._problem, best, new)
            if best.direction is not old:
                self._factors = factors if self._factors is None else self._factors * factors
                break
        self._best = best
