"""The suite of an audit: its attacks, prices and budgets. The user chooses only the budget B.

1. Attacks: `frugal`, which had the smallest distances on every measured network (docs/frugal.md),
   and the next best: `surfree-original` at high prices, `hsja+as` at low ones, and `stealthy-hsja`,
   which aims at few flagged answers. The first is the most informative, so it runs at all prices
   before the next starts. With a surrogate, `frugal+surrogate` comes second.
2. Prices: 1, 10, 100, 1,000, and infinity, where a flagged answer costs 1, any other is free, and
   the number of queries is limited.
3. Budgets: B at c* = 1. The more a flagged answer costs, the larger the budget must be to reach the
   same distance (`FACTORS`): 1.5 B, 3 B and 15 B at 10, 100 and 1,000, and at most 5 B queries at
   infinity. Costs at any other price follow from the same answers, so no other price is run.
4. B is 2,000, or 5,000 for images of more than `LARGE` values: in more dimensions, an estimate
   needs more queries.
"""

from __future__ import annotations

import math
from typing import Any

from ..core.validation import is_number, plain, require
from ..studies.specs import AttackSpec, SurrogateSpec, Tariff

ATTACKS = ("frugal", "surfree-original", "hsja+as", "stealthy-hsja")
INFORMED = "frugal+surrogate"
"""The attack that is added if there is a surrogate."""
FACTORS: dict[float, float] = {1: 1.0, 10: 1.5, 100: 3.0, 1000: 15.0}
"""Budget of an attack relative to B, by price."""
QUERIES_FACTOR = 5
"""Maximum number of queries relative to B where only flagged answers cost something."""
BUDGET = 2000
LARGE_BUDGET = 5000
LARGE = 50_000
"""Number of values above which an image is large (3 x 128 x 128 is 49,152)."""
LEAST_BUDGET = 100
EXPECTED = (
    f"a number from {LEAST_BUDGET} to 1e9, the maximum cost of an attack on one image if all "
    "answers cost 1"
)
MOST_KEPT = 200_000_000
"""Maximum total size of the adversarial images in bytes; above it, none is kept."""


def budget_for(values: int, given: float | None = None) -> float:
    """Return B for images with `values` values; raise InputError if `given` is invalid."""
    default = LARGE_BUDGET if values > LARGE else BUDGET
    budget: float = default if given is None else plain(given)
    require(is_number(budget) and LEAST_BUDGET <= budget <= 1e9, "budget", budget, EXPECTED)
    return budget


def tariffs(budget: float) -> list[Tariff]:
    priced = [Tariff.of(price, budget=factor * budget) for price, factor in FACTORS.items()]
    return [*priced, Tariff.of(math.inf, max_queries=round(QUERIES_FACTOR * budget))]


def study_fields(
    budget: float, values: int, surrogate: SurrogateSpec | None = None
) -> dict[str, Any]:
    """Return the study fields that the suite determines; `values` is the total over all images."""
    prices, attacks = tariffs(budget), [AttackSpec.of(name) for name in ATTACKS]
    if surrogate is not None:
        attacks.insert(1, AttackSpec.of(INFORMED, surrogate))
    return {
        "attacks": attacks,
        "tariffs": prices,
        "keep_images": 4 * values * len(attacks) * len(prices) <= MOST_KEPT,
    }
