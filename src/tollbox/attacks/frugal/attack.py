"""Frugal: tollbox's own attack, designed for prices. docs/frugal.md has the derivation.

    start       from the adversarial side, on the closest of several rays         ray_start.py
    estimate    at a measured overshoot, until it has enough information          calibrated.py
    directions  from the most promising of three priors: what convolutional
                networks respond to, low frequencies, or all directions; every
                few iterations, the perturbation with its parts reweighed         parts/priors.py
    surrogate   optional: its gradient replaces estimates that gain less          surrogates.py
    size        of an estimate: determined by the gain per cost, not a schedule   turn_belief.py
    search      along the circle at the least expected cost, finest where the
                boundary probably lies, as precise as the next estimate needs     turn_belief.py

The sampling radius delta is a share of the distance, and at least SMALLEST_DELTA per pixel value,
about a third of an 8-bit step. Rounding to 8 bits, bfloat16 or TF32 then changes few answers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

from ...core.ask import Asking, Iterate
from ...core.metric import Metric
from ...core.problem import Problem
from ...core.stop import Stop
from ...core.validation import MAX_VALUE, above, number
from ...parts.paths import Arc, Circle
from ...parts.priors import Photo, Reweighed, Spectrum
from ...parts.registry import Checked, Count, CountFrom0, Fraction, Limit, optional
from ...parts.searches import Rule, narrow, optimal_rule
from ...parts.starts import PHASE as START
from ...parts.starts import Start, find_start, tolerance_of
from ...parts.subspaces import Dct, Prior, drawing_for
from ..surrogates import OptionalSurrogate
from ..transfer import guides_of, smoothed, transfer_rays
from .calibrated import LARGEST_BLOCK, UNWEIGHED_CHUNKS, CalibratedSampler, DirectionEstimate
from .overshoot_belief import limit_ratio, optimum
from .ray_start import RadialPath, RayStart
from .turn_belief import MAX_BINS, REFERENCE, BeliefPath, TurnBelief, bin_width, search_cost

SMALLEST_DELTA = 1 / 776
"""Minimum delta per pixel value; at 3x224x224, the minimum delta is 0.5."""
LOW_OFFSETS = {None: (0.0, 1.0), True: (0.7, 0.7), False: (-0.7, 0.7)}
FALLBACK_OFFSET = (-1.0, 0.5)
"""Initial mean and standard deviation of these priors' log q relative to `prior`; those for low
frequencies depend on whether the closest of the first rays was smooth (None if unknown)."""
SURROGATE_INFORMATION = 6.0
"""Information assumed for a surrogate's gradient, so that its log q starts like an estimate's."""
GUIDED_OFFSET, DOUBTED_OFFSET = (-1.5, 0.0), (-3.5, 0.0)
"""Initial offsets (mean, standard deviation) of a surrogate's log q: if the closest ray is one of
its own, whose gain the start has taken already, and if not."""
ALONE_OFFSET = (-0.5, 0.7)
"""Initial offset of the log q of each of several networks alone, relative to all together."""
COARSEST_BIN = 4.0
"""Maximum ratio of a final bin's width to the intended one; a wider bin is searched again."""
SMALLEST_PROGRESS = 0.98
"""Maximum share of the distance that remains after a turn that counts as progress."""
FIRST_BINS = 12
"""Number of bins assumed for the first search when its cost is planned."""
CLOSEST_SHARE, SHARE_STEP = 1e-3, 0.01
"""Inner end and step of the search if a start is not at the boundary, as shares of its distance."""


class _FirstPoint(NamedTuple):
    """The first boundary point, and what the start revealed about the model."""

    iterate: Iterate
    slack: float  # the maximum gap between the point and the boundary
    smooth: bool | None = None  # whether the ray to it is smooth; None if unknown
    doubted: bool = False  # whether the ray to it is not the surrogate's


@dataclass
class _Option:
    """A source of directions, with the belief about its turns."""

    turns: TurnBelief
    number: int  # identifies the option in notes
    sampler: CalibratedSampler | None  # None for the surrogate
    prior: int = 0  # the prior's index in `turns`
    bins: int = FIRST_BINS  # number of bins in its last search


@dataclass(frozen=True)
class Frugal(Checked):
    """The attack `frugal` with its parts."""

    start: Start = field(default_factory=RayStart)
    prior: Prior = field(default_factory=Photo)
    """Directions that convolutional networks respond to."""
    low_prior: Prior = field(default_factory=lambda: Dct(4))
    """Low frequencies, which transformers and robust networks respond to."""
    fallback_prior: Prior = field(default_factory=lambda: Spectrum(1e5, grey=0.5))
    """All directions. Each estimate draws from the most promising of these three priors."""
    reweighing_prior: Prior = field(default_factory=Reweighed)
    reweighing_period: CountFrom0 = 4
    """Period, in iterations, of the estimates that draw from `reweighing_prior`; 0 for none."""
    reweighing_information: Annotated[float, number(1, MAX_VALUE)] = 25.0
    """Information requested from such an estimate."""
    surrogate: OptionalSurrogate = None
    """The user's own networks, whose gradient is followed where it gains more than an estimate."""
    relative_delta: Fraction = 0.16
    """Sampling radius delta as a share of the distance."""
    tail: Fraction = 0.1
    """Share of the belief about the next turn that is spread over the whole arc."""
    schedule: CountFrom0 = 0
    """n_0 for estimates at the cost of n_0 sqrt(t) vanilla queries; 0 to use the gain per cost."""
    plan: Annotated[float | None, optional(above(0, 1000))] = None
    """The c* to plan with; the default is that of the prices, limited to 1,000."""
    chunk: Count = 128
    iterations: Limit = 100_000

    metrics = (Metric.L2,)

    @property
    def finds_targets(self) -> bool:
        """Whether its start may find a point of a target class."""
        return getattr(self.start, "finds_targets", False)

    @property
    def rows(self) -> int:
        return self.chunk + 2 * LARGEST_BLOCK + 2 * UNWEIGHED_CHUNKS + 16

    def __call__(self, problem: Problem) -> Asking[Stop]:
        ratio = limit_ratio(self.plan or problem.prices.ratio)
        members, known = guides_of(problem, self.surrogate)
        start = yield from self._first_point(problem, ratio, members, known)
        if start is None:
            return Stop.NO_START
        iterate, slack, smooth, doubted = start
        if smooth is not None:
            problem.note(smooth=float(smooth))
        problem.accept(iterate)
        rate, floor = optimum(ratio).rate, SMALLEST_DELTA * math.sqrt(problem.dimension)
        turns = TurnBelief(REFERENCE, LOW_OFFSETS[smooth], FALLBACK_OFFSET)
        priors = (self.prior, self.low_prior, self.fallback_prior, self.reweighing_prior)
        samplers = [
            CalibratedSampler(problem, drawing_for(problem, prior), ratio, self.chunk, number)
            for number, prior in enumerate(priors)
        ]
        options = [_Option(turns, number, samplers[number], number) for number in range(3)]
        reweighing = _Option(TurnBelief(), 3, samplers[3])
        guides = [members, *([each] for each in members if len(members) > 1)]
        first = DOUBTED_OFFSET if doubted else GUIDED_OFFSET
        alone = first[0] + ALONE_OFFSET[0], ALONE_OFFSET[1]
        guided = _Option(TurnBelief(first, *[alone] * (len(guides) - 1)), 4, None)
        rule = optimal_rule(ratio, MAX_BINS)
        stuck = True
        for t in range(1, self.iterations + 1):
            if iterate.distance <= problem.resolution:
                return Stop.CONVERGED
            for belief in (turns, reweighing.turns, guided.turns):
                belief.widen()
            option = options[turns.best_prior()]
            search = search_cost(option.bins, ratio) * rate
            goal = turns.best_information(search, option.prior)
            if self.schedule:
                goal = self.schedule * math.sqrt(t) * (ratio + 1) / 2 * rate
            gain = turns.optimistic_gain(goal, goal + search, option.prior)
            guided.prior = guided.turns.best_prior()
            if members and _guided_gain(guided, ratio, rate) > gain:
                option = guided
            elif self.reweighing_period and t % self.reweighing_period == 0:
                option, goal = reweighing, self.reweighing_information
            delta = max(floor, self.relative_delta * iterate.distance)
            if option.sampler is not None:
                estimate = yield from option.sampler.estimate(
                    t, iterate, delta, slack, information=goal, cost=2 * goal / rate + 1
                )
            elif self.surrogate is not None:
                chosen = guides[guided.prior]
                direction = smoothed(problem, self.surrogate, iterate.point, t, chosen)
                estimate = DirectionEstimate(direction, SURROGATE_INFORMATION)
            information = max(estimate.information, 1.0)
            circle = Circle.through(problem.source, iterate.point, estimate.direction)
            middle, spread = option.turns.predict(information, option.prior)
            path = BeliefPath(circle, iterate, middle, spread, self.tail)
            equivalent = information
            if option is guided:  # the information of an estimate that would turn as far
                of_one, _ = turns.predict(1.0, turns.best_prior())
                equivalent = max(math.exp(2 * (middle - of_one)), 1.0)
            width = bin_width(iterate.distance, delta, equivalent)
            option.bins = path.count_bins(width)
            turn = yield from _search(path, option.bins, width, rule)
            angle = (turn.low + turn.high) / 2
            option.turns.update(angle, information, option.prior)
            stuck = stuck and turn.iterate.distance > SMALLEST_PROGRESS * iterate.distance
            iterate = turn.iterate
            if turn.moved:
                slack = min(math.tan(angle) * (turn.high - turn.low), 1.0) * iterate.distance
            if stuck and isinstance(self.start, RayStart) and problem.start_image is None:
                closer = yield from self.start.find_closer(problem, iterate, t - 1)
                if closer is not None:
                    iterate, slack = closer, self.start.tolerance * closer.distance
                    turns.reset()
            problem.note(angle=angle, information=information, prior=float(option.number))
            problem.accept(iterate)
        return Stop.ITERATIONS

    def _first_point(
        self, problem: Problem, ratio: float, members: list[int], known: bool
    ) -> Asking[_FirstPoint | None]:
        if problem.start_image is None and isinstance(self.start, RayStart):
            rays = None
            if self.surrogate is not None and members:
                rays = transfer_rays(problem, self.surrogate, members)
            hit = yield from self.start.find(problem, rays, doubted=not known)
            if hit is None:
                return None
            slack = self.start.tolerance * hit.iterate.distance
            return _FirstPoint(hit.iterate, slack, hit.smooth, not hit.given)
        found = yield from find_start(problem, self.start)
        if found is None:
            return None
        tolerance = tolerance_of(problem, self.start)
        if tolerance is None:
            way = found.point - problem.source
            ray = RadialPath(problem.source, way, found, 1.0, CLOSEST_SHARE)
            count = math.ceil(math.log(CLOSEST_SHARE) / math.log(1 - SHARE_STEP))
            found, _ = yield from narrow(ray, count, optimal_rule(ratio, count), START)
            tolerance = SHARE_STEP
        return _FirstPoint(found, tolerance * found.distance)


def _guided_gain(guided: _Option, ratio: float, rate: float) -> float:
    """Return the optimistic gain from the surrogate, which costs only the search."""
    search = search_cost(guided.bins, ratio) * rate
    return guided.turns.optimistic_gain(SURROGATE_INFORMATION, search, guided.prior)


class _Turn(NamedTuple):
    """The result of a search: the boundary lies between the angles `low` and `high`."""

    iterate: Iterate
    low: float
    high: float
    moved: bool


def _search(path: BeliefPath, bins: int, width: float, rule: Rule) -> Asking[_Turn]:
    """Search a path; search its final bin again if that is much wider than intended."""
    iterate, place = yield from narrow(path, bins, rule)
    low, high = (path.angle((place + side) / bins) for side in (0, 1))
    if place and high - low > COARSEST_BIN * width:
        count = min(math.ceil((high - low) / width), MAX_BINS)
        iterate, part = yield from narrow(Arc(path.circle, iterate, low, high), count, rule)
        step = (high - low) / count
        low, high = low + part * step, low + (part + 1) * step
    return _Turn(iterate, low, high, place > 0)
