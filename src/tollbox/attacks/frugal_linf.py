"""Frugal for ℓ∞: what `frugal` does on a circle, done with profiles.

    start       on the cheap side, the nearest of several profiles of noise   profile_start.py
    estimate    at a measured overshoot, until it tells enough                calibrated.py
    directions  of the prior of which most is to be hoped, as in ℓ2           priors.py
    turn        the profile towards the estimate; the radius falls as the
                distance does on the circle                                   profiles.py
    how much    from the gain per cost; searched where the boundary is likely
                to lie, as fine as the next estimate needs                    turns.py

Why it carries over: the answers around a boundary point tell its normal g, whatever the metric. In
ℓ∞ the nearest point of a plane has the signs of g and not its direction; a profile, clipped, lies
between the two, and what turning it towards an estimate brings follows the law that it follows in
ℓ2 (profiles.py). Samples and slack are lengths in ℓ2; a radius r is r sqrt(d) there, at most.

The perturbation is not reweighed, and there is no surrogate: docs/attacks.md says what was tried.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ..core.ask import Asking, Iterate
from ..core.metric import Metric
from ..core.problem import Problem
from ..core.ranges import MAX_LIMIT, MAX_VALUE, check, number, whole
from ..core.stop import Stop
from ..parts.calibrated import UNWEIGHED_CHUNKS, CalibratedSampler
from ..parts.drawn import LARGEST_BLOCK
from ..parts.overshoot import limit_ratio, optimum
from ..parts.priors import Photo, Spectrum
from ..parts.profile_start import ProfileStart
from ..parts.profiles import FirstProfile, Profile, ProfileTurn
from ..parts.searches import narrow, optimal_rule
from ..parts.subspaces import Dct, Prior
from ..parts.turns import MOST_BINS, REFERENCE, BeliefPath, TurnBelief, bin_width, search_cost
from .frugal import FALLBACK_OFFSET, FIRST_BINS, LOW_OFFSETS, SMALLEST_DELTA


@dataclass(frozen=True)
class FrugalLinf:
    """The attack, with its parts."""

    start: FirstProfile = field(default_factory=ProfileStart)
    prior: Prior = field(default_factory=Photo)
    """What convolutional networks look at."""
    low_prior: Prior = field(default_factory=lambda: Dct(4))
    """Low frequencies, which transformers and robust networks look at."""
    fallback_prior: Prior = field(default_factory=lambda: Spectrum(1e5, grey=0.5))
    """All directions. Drawn from is that of the three of which, by its turns, most is hoped."""
    relative_delta: float = 0.16
    """delta, as a share of the radius in ℓ2."""
    tail: float = 0.1
    """Belief that is spread over the whole turn, whatever earlier ones were like; 1: all of it."""
    chunk: int = 128
    iterations: int = 100_000

    metrics = (Metric.LINF,)

    def __post_init__(self) -> None:
        check(self, relative_delta=number(0, 1), tail=number(0, 1))
        check(self, chunk=whole(1, MAX_VALUE), iterations=whole(1, MAX_LIMIT))

    @property
    def rows(self) -> int:
        """The most points held at a time."""
        return self.chunk + 2 * LARGEST_BLOCK + 2 * UNWEIGHED_CHUNKS + 16

    def __call__(self, problem: Problem) -> Asking[Stop]:
        """Attack one image."""
        now = yield from self.start(problem)
        if now is None:
            return Stop.NO_START
        problem.accept(now.iterate)
        ratio, root = limit_ratio(problem.prices.ratio), math.sqrt(problem.dimension)
        rate, rule = optimum(ratio).rate, optimal_rule(ratio, MOST_BINS)
        slack = self.start.tolerance * now.radius * root
        samplers = [
            CalibratedSampler(problem, prior.begin(problem), ratio, self.chunk, place)
            for place, prior in enumerate((self.prior, self.low_prior, self.fallback_prior))
        ]
        turns = TurnBelief(REFERENCE, LOW_OFFSETS[now.smooth], FALLBACK_OFFSET)
        bins = [FIRST_BINS] * len(samplers)
        for t in range(1, self.iterations + 1):
            length = now.radius * root
            if length <= problem.resolution:
                return Stop.CONVERGED
            turns.pass_iteration()
            place = turns.best_prior()
            goal = turns.best_information(search_cost(bins[place], ratio) * rate, place)
            delta = max(SMALLEST_DELTA * root, self.relative_delta * length)
            estimate = yield from samplers[place].estimate(
                t,
                Iterate(now.iterate.point, length),
                delta,
                slack,
                information=goal,
                cost=2 * goal / rate + 1,
            )
            information = max(estimate.information, 1.0)
            turn = ProfileTurn(problem.source, now.values, now.radius, estimate.direction)
            path = BeliefPath(turn, now.iterate, *turns.predict(information, place), self.tail)
            bins[place] = path.count_bins(bin_width(length, delta, information))
            iterate, last = yield from narrow(path, bins[place], rule)
            low, high = (path.angle((last + side) / bins[place]) for side in (0, 1))
            angle = (low + high) / 2
            turns.update(angle, information, place)
            if last:
                now = Profile(iterate, turn.values(low), turn.radius(low))
                slack = min(math.tan(angle) * (high - low), 1.0) * now.radius * root
            problem.note(angle=angle, information=information, prior=float(place))
            problem.accept(now.iterate)
        return Stop.ITERATIONS
