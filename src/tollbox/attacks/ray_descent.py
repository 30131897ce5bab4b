"""Ray descent: what OPT and Sign-OPT have in common (Cheng et al. 2019 and 2020).

They minimise g(theta), the distance of the boundary along theta, the unit vector from x* to x_t.
Iteration t: estimate the slope of g at theta from directions theta + beta u; then try
theta - alpha slope, with alpha doubled as long as the boundary comes nearer (at most 15 times). If
it did not come nearer at all, alpha is divided by 4 until it does (15 times at most). Where alpha
falls below 1e-4 it begins again at 1, with a tenth of beta; at beta < 1e-8 the attack ends.

A trial is asked at the best distance so far, and goes inward from there. If it is not adversarial
there, it is no nearer, and nothing more is asked of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from ..core.ask import Ask, Asking, Iterate, Until
from ..core.problem import Problem
from ..core.stop import Stop
from ..parts.paths import Segment
from ..parts.rays import booked, inward
from ..parts.searches import Search
from ..parts.starts import Start, begin
from ..parts.vectors import unit

PHASE = "step"
TRIALS = 15
SMALLEST_ALPHA = 1e-4
SMALLEST_BETA = 1e-8


class Slope(NamedTuple):
    """What an estimate gives."""

    gradient: Tensor
    """Of g, up to a factor that alpha takes up."""
    nearest: Iterate
    """The nearest point that it came upon, or x_t."""


Estimating = Callable[[int, Iterate, float, float], Asking[Slope]]
"""Called with t, x_t, beta and how much finer than usual searches are."""


class Descending(Protocol):
    """An attack made of these parts."""

    @property
    def start(self) -> Start:
        """Where it begins."""

    @property
    def search(self) -> Search:
        """How a bracket on a ray is narrowed."""

    @property
    def alpha(self) -> float:
        """The first step."""

    @property
    def beta(self) -> float:
        """How far the directions of an estimate are turned, at first."""

    @property
    def iterations(self) -> int:
        """The most iterations."""


def descend_rays(problem: Problem, attack: Descending, estimate: Estimating) -> Asking[Stop]:
    """Estimate and step until something ends it."""
    begun = yield from begin(problem, attack.start)
    if begun is None:
        return Stop.NO_START
    if problem.start_image is not None or attack.start.tolerance is None:
        begun = yield from attack.search(problem, Segment(problem.source, begun))
    problem.accept(begun)
    iterate, alpha, beta = begun, attack.alpha, attack.beta
    for t in range(1, attack.iterations + 1):
        scale = beta / attack.beta
        slope = yield from estimate(t, iterate, beta, scale)
        step = _Step(problem, attack.search, iterate, slope.gradient, scale)
        moved, alpha = yield from booked(step.along(alpha), PHASE)
        problem.note(alpha=alpha, beta=beta)
        iterate = min(moved, slope.nearest, key=lambda each: each.distance)
        problem.accept(iterate)
        if alpha < SMALLEST_ALPHA:
            alpha, beta = 1.0, beta / 10
            if beta < SMALLEST_BETA:
                return Stop.CONVERGED
    return Stop.ITERATIONS


class _Step:
    """The search for alpha at one iterate."""

    def __init__(
        self, problem: Problem, search: Search, iterate: Iterate, gradient: Tensor, scale: float
    ) -> None:
        self._problem, self._search, self._iterate = problem, search, iterate
        self._gradient, self._scale = gradient, scale
        self._theta = unit(iterate.point - problem.source)

    def along(self, alpha: float) -> Asking[tuple[Iterate, float]]:
        """The nearest point that was found, or the iterate; and the last alpha."""
        best = self._iterate
        for _ in range(TRIALS):
            found = yield from self._inward(alpha, best.distance)
            alpha *= 2
            if found is None or found.distance >= best.distance:
                break
            best = found
        if best is not self._iterate:
            return best, alpha
        alphas = [alpha / 4**k for k in range(1, TRIALS + 1)]
        return (yield from self._smaller(alphas))

    def _smaller(self, alphas: Sequence[float]) -> Asking[tuple[Iterate, float]]:
        """The first of them that leads nearer. All are asked at the distance of the iterate, so
        that it is known which will be next."""
        first = 0
        while first < len(alphas):
            left = _Turned(self, alphas[first:])
            answers = yield Ask(left, until=Until.ADVERSARIAL, phase=PHASE)
            row = len(answers) - 1
            if not answers.adversarial[row]:
                break
            known = Iterate(left[row : row + 1][0], float(answers.distances[row]))
            found = yield from self._inward(alphas[first + row], self._iterate.distance, known)
            if found is not None and found.distance < self._iterate.distance:
                return found, alphas[first + row]
            first += row + 1
        return self._iterate, alphas[-1]

    def _inward(
        self, alpha: float, distance: float, known: Iterate | None = None
    ) -> Asking[Iterate | None]:
        ray = self.ray(alpha)
        return inward(self._problem, self._search, ray, distance, self._scale, known)

    def ray(self, alpha: float) -> Tensor:
        """The direction of a trial."""
        return unit(self._theta - alpha * self._gradient)

    def at_distance(self, alpha: float) -> Tensor:
        """The point of a trial as far from the source as the iterate."""
        return (self._problem.source + self._iterate.distance * self.ray(alpha)).clamp_(0, 1)


class _Turned:
    """Trials as far from the source as the iterate, as rows."""

    def __init__(self, step: _Step, alphas: Sequence[float]) -> None:
        self._step, self._alphas = step, alphas

    def __len__(self) -> int:
        return len(self._alphas)

    def __getitem__(self, rows: slice) -> Tensor:
        return torch.stack([self._step.at_distance(alpha) for alpha in self._alphas[rows]])
