"""What an audit runs: attacks, prices and budgets. Nothing of it is chosen by the user but what an
attack may cost.

1. Attacks: `frugal`, which came nearest on every network that was measured (docs/frugal.md), and
   those of others that came nearest after it: `surfree-original` at high prices, `hsja+as` at low
   ones, and `stealthy-hsja`, which is made for few flagged answers. The first tells most, so it is
   run at all prices before the next begins.
2. Prices: 1, 10, 100, 1000, and infinity, where a flagged answer costs 1, any other nothing, and
   queries are capped.
3. Budgets: B at c* = 1. A dearer flagged answer takes a larger budget to reach as far, so they grow
   with the price (`FACTORS`): 1.5 B, 3 B and 15 B at 10, 100 and 1000, and at most 5 B queries at
   infinity. Costs at any other price are those of the same answers, so no other price is run.
4. B is 2000, and 5000 for images of more than `LARGE` values: in more dimensions an estimate takes
   more queries.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..core.validation import is_number, shown
from ..errors import InputError
from ..studies.specs import AttackSpec, Tariff

ATTACKS = ("frugal", "surfree-original", "hsja+as", "stealthy-hsja")
FACTORS: dict[float, float] = {1: 1.0, 10: 1.5, 100: 3.0, 1000: 15.0}
"""By price, how many times B an attack may cost."""
QUERIES_FACTOR = 5
"""How many times B queries it may take where only flagged answers cost something."""
BUDGET = 2000
LARGE_BUDGET = 5000
LARGE = 50_000
"""Values of an image (3 x 128 x 128 are 49 152)."""
LEAST_BUDGET = 100


@dataclass(frozen=True)
class Suite:
    """The attacks of an audit, its prices, and B."""

    budget: float = BUDGET
    attacks: Sequence[str] = ATTACKS
    prices: Sequence[float] = (*FACTORS, math.inf)

    def __post_init__(self) -> None:
        if not is_number(self.budget) or not LEAST_BUDGET <= self.budget <= 1e9:
            raise InputError(
                f"is {shown(self.budget)}",
                expected=f"a number from {LEAST_BUDGET} to 1e9, what an attack on one image may "
                "cost where all answers cost 1",
                input="budget",
            )

    @classmethod
    def for_images(cls, values: int, budget: float | None = None) -> Suite:
        """The suite for images of so many values each."""
        usual = LARGE_BUDGET if values > LARGE else BUDGET
        return cls(usual if budget is None else budget)

    def specs(self) -> list[AttackSpec]:
        """The attacks, as a study has them."""
        return [AttackSpec.of(name) for name in self.attacks]

    def tariffs(self) -> list[Tariff]:
        """The prices with their budgets, as a study has them."""
        return [self._tariff(price) for price in self.prices]

    def _tariff(self, price: float) -> Tariff:
        if math.isinf(price):
            return Tariff.of(price, max_queries=round(QUERIES_FACTOR * self.budget))
        return Tariff.of(price, budget=FACTORS[price] * self.budget)
