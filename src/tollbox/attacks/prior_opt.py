"""Prior-OPT (ICLR 2025) and PARS-OPT (AAAI 2026): descent along rays with surrogates as priors.

Both minimise g(theta), the distance to the boundary along theta (opt.py). Each network has a g of
its own. Queries measure how the target's g changes along its gradient p_j.

Directions    p_j: the gradient of the margin where the ray leaves the network's own source class
              (at the target's distance if it never does), without its part along theta, negated.
              p_1 ... p_s and q - s random directions u_i are made orthonormal (Gram-Schmidt).
v             the unit vector of sum_i sign_i u_i; sign_i by one query, as in Sign-OPT
Slopes        s(u) = (g(unit(theta + sigma u)) - g(theta)) / sigma for v and each p_j, by a search
              along the ray; 0 if there is no boundary up to twice the distance

Prior-OPT estimates the gradient as the mean of s(v) v and all s(p_j) p_j, shortened to a maximum
length, and steps along it like Sign-OPT.

PARS-OPT accelerates this (Nesterov). With kappa = 2/pi (q - s - 1) + 1, L = 1 / alpha, a momentum m
(first theta) and gamma (first L), an iteration computes

    D     = min(sum_j s(p_j)^2 / G, 0.6), the share of the squared gradient that priors explain;
            0 in the first iteration
    zeta  = (D + (1 - D) kappa / (d - s)) / (L (D + (1 - D) (d - s) / kappa))
    a     = the positive root of a^2 = zeta gamma (1 - a);  gamma becomes (1 - a) gamma
    y     = unit((1 - a) theta + a m), the look-ahead; the slopes below are those at y
    g_1   = s(v) v + sum_j s(p_j) p_j, shortened
    g_2   = (d - s) / kappa s(v) v + sum_j s(p_j) p_j
    G     = (d - s) / kappa s(v)^2 + sum_j s(p_j)^2, for the next iteration
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
from .surrogates import OptionalSurrogate, Surrogate

RATIOS, MIDDLE, FINER = tuple(2 ** (k / 4) for k in range(-8, 9)), 8, 16
"""Distances at which a network's boundary is sought on a ray, as multiples of the target's; the
index of 1 among them; and the number of points between two of them."""
SMALLEST_REST = 1e-3
"""Minimum length of a gradient without its parts along theta and other priors, as a share."""


@dataclass(frozen=True)
class GuidedRays(RayDescent):
    """The base of both attacks."""

    queries: Count = 200
    """q, the number of directions in an estimate, one for each network among them."""
    longest: Positive = 1.0
    """Maximum length of a gradient."""
    surrogate: OptionalSurrogate = None

    @property
    def rows(self) -> int:
        return 3 * self.queries + 2 * len(RATIOS)

    def _directions(self, problem: Problem, t: int, iterate: Iterate) -> tuple[Tensor, Tensor]:
        """Return the priors and the random directions; all are orthonormal."""
        priors = _priors(problem, self.surrogate, iterate)[: self.queries - 1]
        count = min(self.queries, problem.dimension) - len(priors)
        noise = problem.noise(PHASE, t, count)[0:count]
        rows = torch.cat([*(each[None] for each in priors), noise])
        q, r = torch.linalg.qr(rows.flatten(1).T)
        signs = torch.where(r.diagonal() < 0, -1.0, 1.0).to(q)  # the signs of Gram-Schmidt
        basis = (q * signs).T.reshape(rows.shape)
        basis = problem.only_mask(basis)  # rounding leaves a rest outside the mask
        return basis[: len(priors)], basis[len(priors) :]

    def _estimate(
        self, problem: Problem, iterate: Iterate, basis: tuple[Tensor, Tensor], sigma: float
    ) -> Asking[tuple[list[float], Tensor, Iterate]]:
        """Return the slopes along v and the priors, these directions, and the closest point."""
        priors, others = basis
        theta = unit(iterate.point - problem.source)
        points = unit_rows(theta + sigma * others).mul_(iterate.distance).add_(problem.source)
        answers = yield Ask(points.clamp_(0, 1), phase=PHASE)
        problem.note(share=float(answers.adversarial.mean()), estimate_queries=len(answers))
        v = unit(_combined((1.0 - 2.0 * answers.adversarial).tolist(), others))
        directions = torch.cat([v[None], priors])
        slopes, closest = yield from self._slopes(problem, iterate, directions, sigma)
        return slopes, directions, closest

    def _slopes(
        self, problem: Problem, iterate: Iterate, directions: Tensor, sigma: float
    ) -> Asking[tuple[list[float], Iterate]]:
        """Return the slope along each direction, and the closest point on these rays."""
        scale, g = sigma / self.beta, iterate.distance
        rays = unit_rows(unit(iterate.point - problem.source) + sigma * directions)
        searches = [search_around(problem, self.search, ray, g, scale) for ray in rays]
        found = yield from together([in_phase(each, PHASE) for each in searches])
        points = [each or iterate for each in found]
        slopes = [(each.distance - g) / sigma for each in points]
        return slopes, min((iterate, *points), key=lambda each: each.distance)


@dataclass(frozen=True)
class PriorOPT(GuidedRays):
    """Prior-OPT, with a start, a search and a surrogate."""

    def slope(self, problem: Problem, t: int, iterate: Iterate, beta: float) -> Asking[Slope]:
        basis = self._directions(problem, t, iterate)
        slopes, directions, closest = yield from self._estimate(problem, iterate, basis, beta)
        mean = _combined(slopes, directions) / len(slopes)
        return Slope(torch.renorm(mean[None], 2, 0, self.longest)[0], closest)


@dataclass(frozen=True)
class PARSOPT(GuidedRays):
    """PARS-OPT, with a start, a search and a surrogate."""

    alpha: Positive = 0.4

    def descend(self, problem: Problem, iterate: Iterate) -> Asking[Stop]:
        momentum = unit(iterate.point - problem.source)
        alphas = [self.alpha / 2**k for k in range(TRIALS)]
        gamma, squared = 1 / self.alpha, math.inf  # G
        for t in range(1, self.iterations + 1):
            if iterate.distance <= problem.resolution:
                return Stop.CONVERGED
            theta = unit(iterate.point - problem.source)
            priors, others = self._directions(problem, t, iterate)
            share = 0.0  # D
            if t > 1 and len(priors):
                slopes, _ = yield from self._slopes(problem, iterate, priors, self.beta)
                share = min(sum(each**2 for each in slopes) / max(squared, 1e-10), 0.6)
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
            estimate = self._estimate(problem, ahead, (priors, others), self.beta)
            slopes, directions, _ = yield from estimate
            boosted = [factor * slopes[0], *slopes[1:]]
            squared = sum(one * other for one, other in zip(slopes, boosted, strict=True))
            whole = _combined(slopes, directions)[None]
            gradient = torch.renorm(whole, 2, 0, self.longest)[0]  # g_1
            step = self._first_inside(problem, ahead, gradient, alphas, 1.0)
            moved, _ = yield from in_phase(step, RAY_PHASE)
            if moved is not None:
                momentum = unit(momentum - zeta / a * _combined(boosted, directions))
                iterate = moved
            problem.note(prior_share=share, look_ahead=a)
            problem.accept(iterate)
        return Stop.ITERATIONS


def _combined(weights: list[float], directions: Tensor) -> Tensor:
    return torch.einsum("n,nchw->chw", directions.new_tensor(weights), directions)


def _priors(problem: Problem, surrogate: Surrogate | None, iterate: Iterate) -> list[Tensor]:
    """Return the unit gradient of each network's own g. A network is left out if it has none, or
    none that differs from those before."""
    theta, found = unit(iterate.point - problem.source), list[Tensor]()

    def points(radii: Tensor) -> Tensor:
        return (problem.source + radii.view(-1, 1, 1, 1) * theta).clamp(0, 1)

    radii = iterate.distance * theta.new_tensor(RATIOS)
    members = [] if surrogate is None else surrogate.usable(problem)
    answers = surrogate.margins(problem, points(radii), members) if surrogate is not None else []
    for member, (margins, gradients) in zip(members, answers, strict=True):
        beyond = (margins >= 0).tolist()
        # From the target's distance inward if the network is fooled there, otherwise outward.
        steps = range(MIDDLE, 0, -1) if beyond[MIDDLE] else range(MIDDLE + 1, len(RATIOS))
        outer = next((k for k in steps if beyond[k] and not beyond[k - 1]), None)
        gradient = gradients[MIDDLE]
        if outer is not None and surrogate is not None:
            shares = torch.linspace(0, 1, FINER).to(radii)
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
