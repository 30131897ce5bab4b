"""Frugal: our own attack, built for prices. docs/frugal.md has the derivation and what was tried.

    start       on the cheap side, the nearest of several rays                       inward.py
    estimate    at a measured overshoot, until it tells enough                       calibrated.py
    directions  of a prior, or of a wider one once that is exhausted; every few
                iterations the perturbation's own parts                              priors.py
    how much    from the gain per cost, not from a schedule                          turns.py
    search      along the circle, at the least expected cost, where the boundary
                is likely to lie, as fine as the next estimate needs                 turns.py

delta is a share of the distance, and never below LEVEL per pixel, about a third of an 8-bit step:
to round to 8 bits, bfloat16 or TF32 then blurs the answers a little, and hides none of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ..core.ask import Asking, Iterate
from ..core.problem import Problem
from ..core.ranges import ENDLESS, MANY, Range, above, check, number, whole
from ..core.stop import Stop
from ..parts.calibrated import KEPT, Sampler
from ..parts.inward import Inward, Ray
from ..parts.overshoot import DEAREST, optimum, planned
from ..parts.paths import Arc, Circle
from ..parts.priors import Photo, Reweighed, Spectrum
from ..parts.searches import narrowed, optimal_rule
from ..parts.starts import PHASE as START
from ..parts.starts import Start, begin
from ..parts.subspaces import Prior
from ..parts.turns import MOST_CELLS, Likely, Turns, fineness, search_cost

LEVEL = 1 / 776
"""0.5 at 3x224x224."""
COARSE = 4.0
"""A cell so many times as wide as it should be, since it was not believed in, is searched again."""
FIRST_CELLS = 12
"""Of the first search, when it is reckoned how much to ask before it."""
NEAREST, STEP = 1e-3, 0.01
"""From a start that may lie anywhere: down to this share of its distance, by a hundredth a step."""


PRICE = above(0, DEAREST)
PLAN = Range("a number above 0, up to 1000, or None", lambda v: v is None or PRICE.holds(v))


@dataclass(frozen=True)
class Frugal:
    """The attack, with its parts."""

    start: Start = field(default_factory=Inward)
    prior: Prior = field(default_factory=Photo)
    wide: Prior = field(default_factory=lambda: Spectrum(1e5, grey=0.5))
    """All directions: drawn from when turns show that more is to be hoped of it."""
    own: Prior = field(default_factory=Reweighed)
    every: int = 4
    """One iteration of so many draws from `own`; 0: none."""
    own_information: float = 25.0
    share: float = 0.16
    """delta, as a share of the distance."""
    tail: float = 0.1
    """Belief that is spread over the whole arc, whatever earlier turns were like; 1: all of it."""
    schedule: int = 0
    """n_0, to ask n_0 sqrt(t) queries an estimate as other attacks do; 0: by the gain per cost."""
    plan: float | None = None
    """The c* that is planned with; by default the price's own, up to 1000."""
    chunk: int = 128
    iterations: int = 100_000

    def __post_init__(self) -> None:
        check(self, every=whole(0, MANY), own_information=number(1, MANY), share=number(0, 1))
        check(self, tail=number(0, 1), schedule=whole(0, MANY), plan=PLAN)
        check(self, chunk=whole(1, MANY), iterations=whole(1, ENDLESS))

    @property
    def rows(self) -> int:
        """The most points held at a time."""
        return self.chunk + 2 * KEPT + 16

    def __call__(self, problem: Problem) -> Asking[Stop]:
        """Attack one image."""
        ratio = planned(self.plan or problem.prices.ratio)
        begun = yield from self._begun(problem, ratio)
        if begun is None:
            return Stop.NO_START
        found, slack = begun
        problem.accept(found.point)
        rate, floor = optimum(ratio).rate, LEVEL * math.sqrt(problem.dimension)
        priors = [_Kind(problem, prior, ratio, self.chunk) for prior in (self.prior, self.wide)]
        own, turns, own_turns = _Kind(problem, self.own, ratio, self.chunk), Turns(2), Turns()
        for t in range(1, self.iterations + 1):
            if found.distance <= problem.resolution:
                return Stop.CONVERGED
            for each in (turns, own_turns):
                each.wait()
            learned, prior = turns, turns.choice()
            kind = priors[prior]
            if self.every and t % self.every == 0:
                kind, learned, prior = own, own_turns, 0
                wanted = self.own_information
            elif self.schedule:
                wanted = self.schedule * math.sqrt(t) * (ratio + 1) / 2 * rate
            else:
                wanted = learned.wanted(search_cost(kind.cells, ratio) * rate, prior)
            delta = max(floor, self.share * found.distance)
            made = yield from kind.sampler.estimate(
                t, found, kind.drawing, delta, slack, wanted, 2 * wanted / rate + 1
            )
            told = max(made.information, 1.0)
            circle = Circle.through(problem.source, found.point, made.direction)
            path = Likely(circle, found, *learned.middle(told, prior), self.tail)
            fine = fineness(found.distance, delta, told)
            kind.cells = path.cells(fine)
            moved, cell = yield from narrowed(path, kind.cells, optimal_rule(ratio, kind.cells))
            here, there = (path.angle((cell + side) / kind.cells) for side in (0, 1))
            if cell and there - here > COARSE * fine:
                count = min(math.ceil((there - here) / fine), MOST_CELLS)
                arc = Arc(circle, moved, here, there)
                moved, part = yield from narrowed(arc, count, optimal_rule(ratio, count))
                step = (there - here) / count
                here, there = here + part * step, here + (part + 1) * step
            angle = (here + there) / 2
            learned.learn(angle, told, prior)
            if cell:
                slack = min(math.tan(angle) * (there - here), 1.0) * moved.distance
            problem.note(angle=angle, information=told, wide=float(kind is priors[1]))
            found = moved
            problem.accept(found.point)
        return Stop.ITERATIONS

    def _begun(self, problem: Problem, ratio: float) -> Asking[tuple[Iterate, float] | None]:
        """A first boundary point, and how far outside it may lie."""
        found = yield from begin(problem, self.start)
        if found is None:
            return None
        tolerance = self.start.tolerance
        if problem.start_image is not None or tolerance is None:
            ray = Ray(problem.source, found.point - problem.source, found, 1.0, NEAREST)
            count = math.ceil(math.log(NEAREST) / math.log(1 - STEP))
            found, _ = yield from narrowed(ray, count, optimal_rule(ratio, count), START)
            tolerance = STEP
        return found, tolerance * found.distance


class _Kind:
    """A prior at one image, with what was learned of it."""

    def __init__(self, problem: Problem, prior: Prior, ratio: float, chunk: int) -> None:
        self.drawing = prior.begin(problem)
        self.sampler = Sampler(problem, ratio, chunk)
        self.cells = FIRST_CELLS
        """Of the last search."""
