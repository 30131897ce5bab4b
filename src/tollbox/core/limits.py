"""Limits: how much one image may cost, and how many queries and flagged answers it may use.

Limits are hard: a query is sent only if no answer to it could exceed one of them. `max_flagged`
alone may never stop a run, since other answers do not count towards it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import mention
from .prices import Prices
from .validation import CAP, Range, check, check_instance, expect, is_number

if TYPE_CHECKING:
    from .detector import Detection


@dataclass(frozen=True)
class Limits:
    """The limits for one image; each is infinite by default."""

    budget: float = math.inf
    """Maximum cost of all answers and alarms."""
    max_queries: float = math.inf
    """Maximum number of queries."""
    max_flagged: float = math.inf
    """Maximum number of flagged answers; no query is sent after the last of them."""

    def __post_init__(self) -> None:
        check(self, budget=Range("a number", is_number))
        check(self, max_queries=CAP, max_flagged=CAP)

    def check(self, prices: Prices, detection: Detection | None = None) -> None:
        """Raise InputError unless the budget allows one query and the limits stop every run."""
        check_instance("prices", prices, Prices)
        alarm_price = 0.0 if detection is None else detection.alarm_price
        first = float(prices.highest_next([0] * len(prices.values))) + alarm_price
        query = "one query and its alarm" if alarm_price else "one query"
        expected = f"at least {first:g}, the most that {query} can cost"
        expect(self.budget >= first, f"is {self.budget:g}", expected, input="budget")
        budget, max_queries = mention("budget"), mention("max_queries")
        no_budget, no_cap = math.isinf(self.budget), math.isinf(self.max_queries)
        given = f"neither {budget} nor {max_queries} is set"
        remedy = f"{mention('max_flagged')} alone may never end the run"
        remedy = "" if math.isinf(self.max_flagged) else remedy
        expect(not (no_budget and no_cap), given, "at least one of them", remedy)
        highest = prices.highest + alarm_price
        given = f"{self.max_queries:g} queries at {highest:g} each cost more than a float can hold"
        expected = f"smaller prices, a smaller {max_queries}, or {budget}"
        expect(not (no_budget and math.isinf(highest * self.max_queries)), given, expected)
        given = "some answers are free under these prices"
        expected = f"{max_queries} as well, since {budget} alone may never end the run"
        expect(not (no_cap and prices.cheapest == 0), given, expected)

    def spent(self, cost: float, queries: int, flagged: int) -> float:
        """Return the largest share of a limit that has been spent, from 0 to 1."""
        shares = [queries / self.max_queries, flagged / self.max_flagged]  # 0 for infinite limits
        if self.budget > 0:
            shares.append(cost / self.budget)
        return min(1.0, max(shares))


NO_LIMITS = Limits()
