"""Comparison costs: at which common radius to query two directions, and what a comparison costs.

Both directions have their boundaries in (low, high], independently and with the same distribution.
At a radius where each is adversarial with probability p, they are queried together. One answer of
each kind decides. Otherwise both boundaries are on the same side of the radius, and their
distribution there is of the same kind. So the expected cost V satisfies

    V = 2 (p + (1-p) c*) + (p^2 + (1-p)^2) V,   that is   V = 1/(1-p) + c*/p

It is least at p = sqrt(c*) / (1 + sqrt(c*)), where V = (1 + sqrt(c*))^2: 4 queries at c* = 1. The
median, p = 1/2, costs 2 (1 + c*).

ADBA's authors measured the distribution of k = 1 - r / top for boundaries below the radius `top`
and fitted the density a / (k + d)^b + c.
"""

from __future__ import annotations

import math

from scipy.optimize import brentq

A, B, C, D = 0.03133292769944518, 3.0659694403842903, 0.16755646970211466, 0.13403850261898806
"""The fit in the authors' code."""


def share_to_query(ratio: float) -> float:
    """Return the probability p of an adversarial answer at the radius of least expected cost."""
    return 1 - 1 / (1 + math.sqrt(ratio))


def expected_comparison_cost(ratio: float, share: float | None = None) -> float:
    """Return the expected cost of a comparison at radii with the probability `share`, by default
    the best one. The queries at the outer radius are not included."""
    if share is None:
        return (1 + math.sqrt(ratio)) ** 2
    return 1 / (1 - share) + ratio / share


def radius_of(share: float, low: float, high: float, top: float) -> float:
    """Return the radius below which a fraction `share` of the boundaries between `low` and `high`
    lies, with ADBA's distribution."""

    def mass(k: float) -> float:
        return C * k - A / ((B - 1) * math.pow(k + D, B - 1))

    first, last = 1 - high / top, 1 - low / top
    wanted = share * mass(first) + (1 - share) * mass(last)
    k = float(brentq(lambda k: mass(k) - wanted, first, last, xtol=1e-12))
    return min(max(low, top * (1 - k)), high)
