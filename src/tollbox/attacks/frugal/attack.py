"""Frugal: our own attack, built for prices. docs/frugal.md has the derivation and what was tried.

    start       on the cheap side, the nearest of several rays                       inward.py
    estimate    at a measured overshoot, until it tells enough                       calibrated.py
    directions  of the prior of which most is to be hoped: what convolutional
                networks look at, low frequencies, or all; every few iterations
                parts of the perturbation                                            priors.py
    surrogate   if there is one: where its gradient says, without an estimate       surrogates.py
    how much    from the gain per cost, not from a schedule                          turns.py
    search      along the circle, at the least expected cost, where the boundary
                is likely to lie, as fine as the next estimate needs                 turns.py

delta is a share of the distance, and never below SMALLEST_DELTA per pixel, about a third of an
8-bit step: to round to 8 bits, bfloat16 or TF32 then blurs the answers a little, and hides none of
them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import NamedTuple

from ...core.ask import Asking, Iterate, at_once
from ...core.metric import Metric
from ...core.problem import Problem
from ...core.stop import Stop
from ...core.validation import MAX_LIMIT, MAX_VALUE, Range, above, check, number, whole
from ...parts.paths import Arc, Circle
from ...parts.priors import Photo, Reweighed, Spectrum
from ...parts.searches import Rule, narrow, optimal_rule
from ...parts.starts import PHASE as START
from ...parts.starts import Start, begin
from ...parts.subspaces import Dct, Prior, drawing_for
from ..surrogates import Surrogate
from .calibrated import UNWEIGHED_CHUNKS, CalibratedSampler, DirectionEstimate
from .direction_blocks import LARGEST_BLOCK
from .overshoot import LARGEST_RATIO, limit_ratio, optimum
from .ray_start import Ray, RayStart
from .turns import MOST_BINS, REFERENCE, BeliefPath, TurnBelief, bin_width, search_cost

SMALLEST_DELTA = 1 / 776
"""delta per pixel, at least; 0.5 at 3x224x224."""
LOW_OFFSETS = {None: (0.0, 1.0), True: (0.7, 0.7), False: (-0.7, 0.7)}
FALLBACK_OFFSET = (-1.0, 0.5)
"""What log q of these priors is believed to be at first, beside that of `prior`: how much more, and
the spread of it; of low frequencies, by whether the nearest of the first rays was smooth."""
SURROGATE_INFORMATION = 6.0
"""What a surrogate's gradient counts as at first: log q of its turns begins where that of estimates
does."""
DOUBTED = (-3.5, 0.0)
"""By how much log q of a surrogate begins lower, if its ray was not the nearest of the start."""
COARSEST_BIN = 4.0
"""A bin so many times as wide as it should be, since it was not believed in, is searched again."""
LEAST_GAIN = 0.98
"""Of the distance is left after a turn that led on."""
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

    start: Start = field(default_factory=RayStart)
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
    surrogate: Surrogate | None = None
    """A network of the user's own, to whose gradient it turns where that brings more."""
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

    metrics = (Metric.L2,)

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
        iterate, slack, smooth, doubted = start
        if smooth is not None:
            problem.note(smooth=float(smooth))
        problem.accept(iterate)
        rate, floor = optimum(ratio).rate, SMALLEST_DELTA * math.sqrt(problem.dimension)
        priors = (self.prior, self.low_prior, self.fallback_prior, self.reweighing_prior)
        *samplers, last = (
            CalibratedSampler(problem, drawing_for(problem, prior), ratio, self.chunk, number)
            for number, prior in enumerate(priors)
        )
        turns = TurnBelief(REFERENCE, LOW_OFFSETS[smooth], FALLBACK_OFFSET)
        choices: list[_Way] = [
            _Drawn(turns=turns, number=number, place=number, sampler=sampler)
            for number, sampler in enumerate(samplers)
        ]
        reweighing = _Drawn(turns=TurnBelief(), number=len(choices), sampler=last)
        told = None
        if self.surrogate is not None:
            told = _Told(
                turns=TurnBelief(DOUBTED if doubted else REFERENCE),
                number=len(choices) + 1,
                problem=problem,
                surrogate=self.surrogate,
                estimates=turns,
            )
        rule = optimal_rule(ratio, MOST_BINS)
        stuck = True
        for t in range(1, self.iterations + 1):
            if iterate.distance <= problem.resolution:
                return Stop.CONVERGED
            for belief in (turns, reweighing.turns, *([told.turns] if told else [])):
                belief.pass_iteration()
            way = choices[turns.best_prior()]
            search = search_cost(way.bins, ratio) * rate
            goal = turns.best_information(search, way.place)
            if self.schedule:
                goal = self.schedule * math.sqrt(t) * (ratio + 1) / 2 * rate
            hoped = turns.hoped_gain(goal, goal + search, way.place)
            if told is not None and told.hoped_gain(ratio, rate) > hoped:
                way = told
            elif self.reweighing_period and t % self.reweighing_period == 0:
                way, goal = reweighing, self.reweighing_information
            delta = max(floor, self.relative_delta * iterate.distance)
            cost = 2 * goal / rate + 1
            estimate = yield from way.direction(t, iterate, delta, slack, goal, cost)
            information = max(estimate.information, 1.0)
            circle = Circle.through(problem.source, iterate.point, estimate.direction)
            prediction = way.turns.predict(information, way.place)
            path = BeliefPath(circle, iterate, *prediction, self.tail)
            width = bin_width(iterate.distance, delta, way.likened(information, prediction[0]))
            way.bins = path.count_bins(width)
            turn = yield from _search(path, way.bins, width, rule)
            angle = (turn.low + turn.high) / 2
            way.turns.update(angle, information, way.place)
            stuck = stuck and turn.iterate.distance > LEAST_GAIN * iterate.distance
            iterate = turn.iterate
            if turn.moved:
                slack = min(math.tan(angle) * (turn.high - turn.low), 1.0) * iterate.distance
            if stuck and isinstance(self.start, RayStart) and problem.start_image is None:
                fresh = yield from self.start.nearer(problem, iterate, t - 1)
                if fresh is not None:
                    iterate, slack = fresh.iterate, self.start.tolerance * fresh.iterate.distance
                    turns.forget()
            problem.note(angle=angle, information=information, prior=float(way.number))
            problem.accept(iterate)
        return Stop.ITERATIONS

    def _begin(self, problem: Problem, ratio: float) -> Asking[_Begun | None]:
        """A first boundary point, and what the way to it says."""
        if problem.start_image is None and isinstance(self.start, RayStart):
            given = None
            if self.surrogate is not None:
                given = self.surrogate.direction(problem, problem.source)
            nearest = yield from self.start.nearest(problem, given)
            if nearest is None:
                return None
            iterate, slack = nearest.iterate, self.start.tolerance * nearest.iterate.distance
            return _Begun(iterate, slack, nearest.smooth, not nearest.given)
        found = yield from begin(problem, self.start)
        if found is None:
            return None
        tolerance = self.start.tolerance
        if problem.start_image is not None or tolerance is None:
            ray = Ray(problem.source, found.point - problem.source, found, 1.0, NEAREST_SHARE)
            count = math.ceil(math.log(NEAREST_SHARE) / math.log(1 - SHARE_STEP))
            found, _ = yield from narrow(ray, count, optimal_rule(ratio, count), START)
            tolerance = SHARE_STEP
        return _Begun(found, tolerance * found.distance)


class _Begun(NamedTuple):
    """A first boundary point."""

    iterate: Iterate
    slack: float
    """How far outside it may lie."""
    smooth: bool | None = None
    """Whether the way to it is smooth, if that says anything."""
    doubted: bool = False
    """A surrogate's ray was tried, and was not the nearest."""


@dataclass(kw_only=True)
class _Way(ABC):
    """Where a direction to turn to comes from, with what was learned of its turns."""

    turns: TurnBelief
    number: int
    """Of this way in notes."""
    place: int = 0
    """Of this way in `turns`."""
    bins: int = FIRST_BINS
    """Of its last search."""

    @abstractmethod
    def direction(
        self, t: int, iterate: Iterate, delta: float, slack: float, goal: float, cost: float
    ) -> Asking[DirectionEstimate]:
        """A direction and its information, `goal` if it can be had for `cost`."""

    def likened(self, information: float, middle: float) -> float:
        """The information of an estimate that would turn as far; `middle` is the log tan of it."""
        del middle
        return information


@dataclass(kw_only=True)
class _Drawn(_Way):
    """An estimate with directions of a prior."""

    sampler: CalibratedSampler

    def direction(
        self, t: int, iterate: Iterate, delta: float, slack: float, goal: float, cost: float
    ) -> Asking[DirectionEstimate]:
        return self.sampler.estimate(t, iterate, delta, slack, information=goal, cost=cost)


@dataclass(kw_only=True)
class _Told(_Way):
    """A surrogate's gradient, for no query."""

    problem: Problem
    surrogate: Surrogate
    estimates: TurnBelief
    """What is believed of the turns of estimates."""

    def hoped_gain(self, ratio: float, rate: float) -> float:
        """As that of an estimate that costs nothing but its search."""
        search = search_cost(self.bins, ratio) * rate
        return self.turns.hoped_gain(SURROGATE_INFORMATION, search)

    def direction(
        self, t: int, iterate: Iterate, delta: float, slack: float, goal: float, cost: float
    ) -> Asking[DirectionEstimate]:
        del t, delta, slack, goal, cost
        direction = self.surrogate.direction(self.problem, iterate.point)
        return at_once(DirectionEstimate(direction, SURROGATE_INFORMATION))

    def likened(self, information: float, middle: float) -> float:
        del information
        of_one, _ = self.estimates.predict(1.0, self.estimates.best_prior())
        return max(math.exp(2 * (middle - of_one)), 1.0)


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
