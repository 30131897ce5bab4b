"""Frugal: our own attack, built for prices. docs/frugal.md has the derivation and what was tried.

    start       on the cheap side, the nearest of several rays                       inward.py
    estimate    at a measured overshoot, until it tells enough                       calibrated.py
    directions  of the prior of which most is to be hoped: what convolutional
                networks look at, low frequencies, or all; every few iterations
                parts of the perturbation                                            priors.py
    how much    from the gain per cost, not from a schedule                          turns.py
    search      along the circle, at the least expected cost, where the boundary
                is likely to lie, as fine as the next estimate needs                 turns.py

delta is a share of the distance, and never below SMALLEST_DELTA per pixel, about a third of an
8-bit step: to round to 8 bits, bfloat16 or TF32 then blurs the answers a little, and hides none of
them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from ..core.ask import Asking, Iterate
from ..core.problem import Problem
from ..core.ranges import MAX_LIMIT, MAX_VALUE, Range, above, check, number, whole
from ..core.stop import Stop
from ..parts.calibrated import UNWEIGHED_CHUNKS, CalibratedSampler
from ..parts.drawn import LARGEST_BLOCK
from ..parts.inward import Inward, Ray
from ..parts.overshoot import LARGEST_RATIO, limit_ratio, optimum
from ..parts.paths import Arc, Circle
from ..parts.priors import Photo, Reweighed, Spectrum
from ..parts.searches import Rule, narrow, optimal_rule
from ..parts.starts import PHASE as START
from ..parts.starts import Start, begin
from ..parts.subspaces import Dct, Prior
from ..parts.turns import MOST_BINS, REFERENCE, BeliefPath, TurnBelief, bin_width, search_cost

SMALLEST_DELTA = 1 / 776
"""delta per pixel, at least; 0.5 at 3x224x224."""
LOW_OFFSETS = {None: (0.0, 1.0), True: (0.7, 0.7), False: (-0.7, 0.7)}
FALLBACK_OFFSET = (-1.0, 0.5)
"""What log q of these priors is believed to be at first, beside that of `prior`: how much more, and
the spread of it; of low frequencies, by whether the nearest of the first rays was smooth."""
COARSEST_BIN = 4.0
"""A bin so many times as wide as it should be, since it was not believed in, is searched again."""
FIRST_BINS = 12
"""Of the first search, when it is reckoned how much to ask before it."""
NEAREST_SHARE, SHARE_STEP = 1e-3, 0.01
"""From a start that may lie anywhere: down to this share of its distance, by a hundredth a step."""


RATIO_RANGE = above(0, LARGEST_RATIO)
PLAN_RANGE = Range(
    "a number above 0, up to 1000, or None", lambda v: v is None or RATIO_RANGE.holds(v)
)


@dataclass(frozen=True)
class Frugal:
    """The attack, with its parts."""

    start: Start = field(default_factory=Inward)
    prior: Prior = field(default_factory=Photo)
    """What convolutional networks look at."""
    low_prior: Prior = field(default_factory=lambda: Dct(4))
    """Low frequencies, which transformers and robust networks look at."""
    fallback_prior: Prior = field(default_factory=lambda: Spectrum(1e5, grey=0.5))
    """All directions. Drawn from is that of the three of which, by its turns, most is hoped."""
    reweighing_prior: Prior = field(default_factory=Reweighed)
    reweighing_period: int = 4
    """One iteration of so many draws from `reweighing_prior`; 0: none."""
    reweighing_information: float = 25.0
    """How much such an estimate asks for."""
    relative_delta: float = 0.16
    """delta, as a share of the distance."""
    tail: float = 0.1
    """Belief that is spread over the whole arc, whatever earlier turns were like; 1: all of it."""
    schedule: int = 0
    """n_0, to ask n_0 sqrt(t) queries an estimate as other attacks do; 0: by the gain per cost."""
    plan: float | None = None
    """The c* to plan with; by default the price's own, up to 1000."""
    chunk: int = 128
    iterations: int = 100_000

    def __post_init__(self) -> None:
        check(
            self,
            reweighing_period=whole(0, MAX_VALUE),
            reweighing_information=number(1, MAX_VALUE),
        )
        check(self, relative_delta=number(0, 1))
        check(self, tail=number(0, 1), schedule=whole(0, MAX_VALUE), plan=PLAN_RANGE)
        check(self, chunk=whole(1, MAX_VALUE), iterations=whole(1, MAX_LIMIT))

    @property
    def rows(self) -> int:
        """The most points held at a time."""
        return self.chunk + 2 * LARGEST_BLOCK + 2 * UNWEIGHED_CHUNKS + 16

    def __call__(self, problem: Problem) -> Asking[Stop]:
        """Attack one image."""
        ratio = limit_ratio(self.plan or problem.prices.ratio)
        start = yield from self._begin(problem, ratio)
        if start is None:
            return Stop.NO_START
        iterate, slack, smooth = start
        problem.accept(iterate)
        rate, floor = optimum(ratio).rate, SMALLEST_DELTA * math.sqrt(problem.dimension)
        priors = (self.prior, self.low_prior, self.fallback_prior, self.reweighing_prior)
        *samplers, last = (
            CalibratedSampler(problem, prior.begin(problem), ratio, self.chunk, number)
            for number, prior in enumerate(priors)
        )
        turns = TurnBelief(REFERENCE, LOW_OFFSETS[smooth], FALLBACK_OFFSET)
        reweighing_turns = TurnBelief()
        choices = [_PriorState(sampler, turns, n) for n, sampler in enumerate(samplers)]
        reweighing = _PriorState(last, reweighing_turns)
        rule = optimal_rule(ratio, MOST_BINS)
        for t in range(1, self.iterations + 1):
            if iterate.distance <= problem.resolution:
                return Stop.CONVERGED
            for belief in (turns, reweighing_turns):
                belief.pass_iteration()
            prior = choices[turns.best_prior()]
            if self.reweighing_period and t % self.reweighing_period == 0:
                prior, goal = reweighing, self.reweighing_information
            elif self.schedule:
                goal = self.schedule * math.sqrt(t) * (ratio + 1) / 2 * rate
            else:
                search = search_cost(prior.bins, ratio) * rate
                goal = prior.turns.best_information(search, prior.number)
            delta = max(floor, self.relative_delta * iterate.distance)
            cost = 2 * goal / rate + 1
            estimate = yield from prior.sampler.estimate(
                t, iterate, delta, slack, information=goal, cost=cost
            )
            information = max(estimate.information, 1.0)
            circle = Circle.through(problem.source, iterate.point, estimate.direction)
            prediction = prior.turns.predict(information, prior.number)
            path = BeliefPath(circle, iterate, *prediction, self.tail)
            width = bin_width(iterate.distance, delta, information)
            prior.bins = path.count_bins(width)
            turn = yield from _search(path, prior.bins, width, rule)
            angle = (turn.low + turn.high) / 2
            prior.turns.update(angle, information, prior.number)
            iterate = turn.iterate
            if turn.moved:
                slack = min(math.tan(angle) * (turn.high - turn.low), 1.0) * iterate.distance
            number = len(choices) if prior is reweighing else prior.number
            problem.note(angle=angle, information=information, prior=float(number))
            problem.accept(iterate)
        return Stop.ITERATIONS

    def _begin(
        self, problem: Problem, ratio: float
    ) -> Asking[tuple[Iterate, float, bool | None] | None]:
        """A first boundary point, how far outside it may lie, and whether the way to it is
        smooth, if that says anything."""
        smooth: bool | None = None
        iterate: Iterate | None
        if problem.start_image is None and isinstance(self.start, Inward):
            nearest = yield from self.start.nearest(problem)
            iterate, smooth = (None, None) if nearest is None else nearest
        else:
            iterate = yield from begin(problem, self.start)
        if iterate is None:
            return None
        tolerance = self.start.tolerance
        if problem.start_image is not None or tolerance is None:
            ray = Ray(problem.source, iterate.point - problem.source, iterate, 1.0, NEAREST_SHARE)
            count = math.ceil(math.log(NEAREST_SHARE) / math.log(1 - SHARE_STEP))
            iterate, _ = yield from narrow(ray, count, optimal_rule(ratio, count), START)
            tolerance = SHARE_STEP
        return iterate, tolerance * iterate.distance, smooth


@dataclass
class _PriorState:
    """A prior at one image, with what was learned of it."""

    sampler: CalibratedSampler
    turns: TurnBelief
    number: int = 0
    """Of this prior in `turns`."""
    bins: int = FIRST_BINS
    """Of its last search."""


class _Turn(NamedTuple):
    """Where a search ended: the boundary lies between two angles."""

    iterate: Iterate
    low: float
    high: float
    moved: bool


def _search(path: BeliefPath, bins: int, width: float, rule: Rule) -> Asking[_Turn]:
    """Search a path, and its last bin once more if that is much wider than it should be."""
    iterate, place = yield from narrow(path, bins, rule)
    low, high = (path.angle((place + side) / bins) for side in (0, 1))
    if place and high - low > COARSEST_BIN * width:
        count = min(math.ceil((high - low) / width), MOST_BINS)
        arc = Arc(path.circle, iterate, low, high)
        iterate, part = yield from narrow(arc, count, rule)
        step = (high - low) / count
        low, high = low + part * step, low + (part + 1) * step
    return _Turn(iterate, low, high, place > 0)
