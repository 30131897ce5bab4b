"""Prior-OPT (ICLR 2025) and PARS-OPT (AAAI 2026): descent along rays with surrogates as priors.

Both minimise g(theta), the distance to the boundary along theta (opt.py). Each surrogate network
has a g of its own. Its gradient at theta is a direction p_j along which the target's g probably
changes. Queries measure by how much, so a useless network costs a search and does no harm.

Directions    p_j is the gradient of the margin where the ray leaves the network's own source class
              (at the target's distance if it never does), without its part along theta, negated.
              p_1 ... p_s and q - s random directions u_i are made orthonormal (Gram-Schmidt).
v             the unit vector of sum_i sign_i u_i; one query gives the sign of the slope along u_i
              (Sign-OPT).
Slopes        s(u) = (g(unit(theta + sigma u)) - g(theta)) / sigma for v and each p_j, from a search
              along the ray. A ray without a boundary up to twice the distance counts as slope 0.

Prior-OPT estimates the gradient as the mean of s(p_j) p_j and s(v) v, shortened to a maximum
length, and steps along it like Sign-OPT.

PARS-OPT accelerates this (Nesterov). With kappa = 2/pi (q - s - 1) + 1, the expected gain of the
signs, and L = 1 / alpha, iteration t computes

    D     = min(sum_j s(p_j)^2 / G, 0.6), the share of the squared gradient that the priors explain;
            G is the estimate of |gradient|^2 from the iteration before (D = 0 at t = 1)
    zeta  = (D + (1 - D) kappa / (d - s)) / (L (D + (1 - D) (d - s) / kappa))
    a     = the positive root of a^2 = zeta gamma (1 - a);  gamma becomes (1 - a) gamma, at first L
    y     = unit((1 - a) theta + a m), the point to look ahead to; m is the momentum, at first theta
    g_1   = sum_j s(p_j) p_j + s(v) v at y, shortened
    g_2   = sum_j s(p_j) p_j + (d - s) / kappa s(v) v,   G = sum_j s(p_j)^2 + (d - s) / kappa s(v)^2
    theta = unit(y - alpha g_1), with alpha halved until it is adversarial at g(y)
    m     = unit(m - zeta / a g_2)

Without a surrogate this is ARS-OPT. The distance may grow from one iteration to the next.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.ask import Ask, Asking, Iterate, together
from ..core.problem import Problem
from ..core.stop import Stop
from ..parts.estimates import PHASE
from ..parts.rays import in_phase, search_around
from ..parts.registry import Count, Positive
from ..parts.vectors import unit, unit_rows
from .opt import RAY_PHASE, TRIALS, RayDescent, Slope
from .surrogates import Surrogate

RATIOS = tuple(2 ** (k / 4) for k in range(-8, 9))
"""Distances at which a network's boundary is sought on a ray, as multiples of the target's."""
MIDDLE, FINER = len(RATIOS) // 2, 16
"""The index of 1 among the ratios, and the number of points between two of them."""
SMALLEST_REST = 1e-3
"""Minimum length of a gradient without its parts along theta and other priors, as a share."""
LARGEST_SHARE = 0.6
"""Maximum of D."""


@dataclass(frozen=True)
class GuidedRays(RayDescent):
    """The base of both attacks: directions, signs and slopes."""

    queries: Count = 200
    """q, the number of directions in an estimate, one for each network among them."""
    longest: Positive = 1.0
    """Maximum length of a gradient."""
    surrogate: Surrogate | None = None

    @property
    def rows(self) -> int:
        return 3 * self.queries + 2 * len(RATIOS)

    def _directions(self, problem: Problem, t: int, iterate: Iterate) -> tuple[Tensor, Tensor]:
        """Return the priors and the random directions; all are orthonormal."""
        priors: list[Tensor] = []
        if self.surrogate is not None:
            priors = _priors(problem, self.surrogate, iterate)[: self.queries - 1]
        count = min(self.queries, problem.dimension) - len(priors)
        rows = torch.cat(
            [*(each[None] for each in priors), problem.noise(PHASE, t, count)[0:count]]
        )
        basis = torch.linalg.qr(rows.flatten(1).T).Q.T.reshape(rows.shape)
        basis = problem.only_mask(basis)  # rounding leaves a rest outside the mask
        return basis[: len(priors)], basis[len(priors) :]

    def _sign_sum(
        self, problem: Problem, iterate: Iterate, directions: Tensor, sigma: float
    ) -> Asking[Tensor]:
        """Return v from one query for each direction."""
        theta = unit(iterate.point - problem.source)
        points = unit_rows(theta + sigma * directions).mul_(iterate.distance).add_(problem.source)
        answers = yield Ask(points.clamp_(0, 1), phase=PHASE)
        problem.note(share=float(answers.adversarial.mean()), estimate_queries=len(answers))
        signs = torch.from_numpy(1.0 - 2.0 * answers.adversarial)
        return unit(_combined(signs.tolist(), directions))

    def _slopes(
        self, problem: Problem, iterate: Iterate, directions: Tensor, sigma: float, scale: float
    ) -> Asking[tuple[list[float], Iterate]]:
        """Return the slope of g along each direction, and the closest point that was found."""
        rays = unit_rows(unit(iterate.point - problem.source) + sigma * directions)
        found = yield from together(
            [
                in_phase(search_around(problem, self.search, ray, iterate.distance, scale), PHASE)
                for ray in rays
            ]
        )
        lengths = [iterate.distance if ray is None else ray.distance for ray in found]
        slopes = [(length - iterate.distance) / sigma for length in lengths]
        points = [iterate, *(ray for ray in found if ray is not None)]
        return slopes, min(points, key=lambda each: each.distance)

    def _shortened(self, gradient: Tensor) -> Tensor:
        length = torch.linalg.vector_norm(gradient).clamp_min(self.longest)
        shortened: Tensor = gradient * (self.longest / length)
        return shortened


@dataclass(frozen=True)
class PriorOPT(GuidedRays):
    """Prior-OPT, with a start, a search and a surrogate."""

    def slope(
        self, problem: Problem, t: int, iterate: Iterate, beta: float, scale: float
    ) -> Asking[Slope]:
        priors, others = self._directions(problem, t, iterate)
        v = yield from self._sign_sum(problem, iterate, others, beta)
        directions = torch.cat([priors, v[None]])
        slopes, closest = yield from self._slopes(problem, iterate, directions, beta, scale)
        gradient = _combined([each / len(slopes) for each in slopes], directions)
        return Slope(self._shortened(gradient), closest)


@dataclass(frozen=True)
class PARSOPT(GuidedRays):
    """PARS-OPT, with a start, a search and a surrogate."""

    alpha: Positive = 0.4

    def descend(self, problem: Problem, iterate: Iterate) -> Asking[Stop]:
        momentum = unit(iterate.point - problem.source)
        gamma, squared = 1 / self.alpha, math.inf  # L, and G
        for t in range(1, self.iterations + 1):
            if iterate.distance <= problem.resolution:
                return Stop.CONVERGED
            theta = unit(iterate.point - problem.source)
            priors, others = self._directions(problem, t, iterate)
            share = 0.0
            if math.isfinite(squared) and len(priors):
                slopes, _ = yield from self._slopes(problem, iterate, priors, self.beta, 1.0)
                share = min(sum(each**2 for each in slopes) / max(squared, 1e-10), LARGEST_SHARE)
            factor = (problem.dimension - len(priors)) / (2 / math.pi * (len(others) - 1) + 1)
            zeta = (share + (1 - share) / factor) / (share + (1 - share) * factor) * self.alpha
            product = zeta * gamma
            a = (math.sqrt(product**2 + 4 * product) - product) / 2
            gamma *= 1 - a
            y = unit((1 - a) * theta + a * momentum)
            look = search_around(problem, self.search, y, iterate.distance)
            ahead = yield from in_phase(look, RAY_PHASE)
            if ahead is None:
                ahead, momentum = iterate, theta
            v = yield from self._sign_sum(problem, ahead, others, self.beta)
            directions = torch.cat([v[None], priors])
            (first, *rest), _ = yield from self._slopes(problem, ahead, directions, self.beta, 1.0)
            squared = factor * first**2 + sum(each**2 for each in rest)
            moved = yield from self._advance(
                problem, ahead, self._shortened(_combined([first, *rest], directions))
            )
            if moved is not None:
                boosted = _combined([factor * first, *rest], directions)  # g_2
                momentum, iterate = unit(momentum - zeta / a * boosted), moved
            problem.note(prior_share=share, look_ahead=a)
            problem.accept(iterate)
        return Stop.ITERATIONS

    def _advance(
        self, problem: Problem, ahead: Iterate, gradient: Tensor
    ) -> Asking[Iterate | None]:
        y = unit(ahead.point - problem.source)
        alphas = [self.alpha / 2**k for k in range(TRIALS)]
        step = self._first_inside(
            problem, lambda alpha: unit(y - alpha * gradient), alphas, ahead.distance
        )
        found = yield from in_phase(step, RAY_PHASE)
        return None if found is None else found[0]


def _combined(weights: list[float], directions: Tensor) -> Tensor:
    return torch.einsum("n,nchw->chw", directions.new_tensor(weights), directions)


def _priors(problem: Problem, surrogate: Surrogate, iterate: Iterate) -> list[Tensor]:
    """Return the unit gradient of each network's own g. A network is left out if it has none, or
    none that differs from those before."""
    theta = unit(iterate.point - problem.source)

    def points(radii: Tensor) -> Tensor:
        return (problem.source + radii.view(-1, 1, 1, 1) * theta).clamp(0, 1)

    radii = iterate.distance * theta.new_tensor(RATIOS)
    found: list[Tensor] = []
    for member, (margins, gradients) in enumerate(surrogate.margins(problem, points(radii))):
        beyond = (margins >= 0).tolist()
        # From the target's distance: inward to the last flagged point, or outward to the first
        # that is not.
        steps = range(MIDDLE, 0, -1) if beyond[MIDDLE] else range(MIDDLE + 1, len(RATIOS))
        outer = next((k for k in steps if beyond[k] and not beyond[k - 1]), None)
        gradient = gradients[MIDDLE]
        if outer is not None:
            shares = torch.linspace(0, 1, FINER, device=radii.device, dtype=radii.dtype)
            between = torch.lerp(radii[outer - 1], radii[outer], shares)
            [(margins, gradients)] = surrogate.margins(problem, points(between), [member])
            gradient = gradients[margins.abs().argmin()]
        rest = gradient
        for other in (theta, *found):
            rest = rest - (rest * other).sum() * other
        length = torch.linalg.vector_norm(rest)
        if bool(length > SMALLEST_REST * torch.linalg.vector_norm(gradient)):  # false for NaN
            found.append(-rest / length)
    return found
