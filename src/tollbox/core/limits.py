"""Limits: how much one image may cost, and how many queries and flagged answers it may use.

1. A limit is hard: a query is sent only if no answer to it could exceed one. The most expensive
   next answer must fit into `budget`, fewer than `max_queries` queries were sent, and fewer than
   `max_flagged` answers were flagged.
2. `max_flagged` does not end a run by itself, since other answers never reach it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import InputError, mention
from .prices import Prices
from .validation import check_instance, is_number, shown

if TYPE_CHECKING:
    from .detector import Detection


@dataclass(frozen=True)
class Limits:
    """The limits of one image; each is infinite by default."""

    budget: float = math.inf
    """Maximum cost of all answers and alarms."""
    max_queries: float = math.inf
    """Maximum number of queries."""
    max_flagged: float = math.inf
    """Maximum number of flagged answers; no query is sent after the last of them."""

    def __post_init__(self) -> None:
        if not is_number(self.budget):
            raise InputError(f"is {shown(self.budget)}", expected="a number", input="budget")
        check_cap("max_queries", self.max_queries)
        check_cap("max_flagged", self.max_flagged)

    def check(self, prices: Prices, detection: Detection | None = None) -> None:
        """Raise InputError unless the budget admits one query and the limits end every run."""
        check_instance("prices", prices, Prices)
        alarm_price = 0.0 if detection is None else detection.alarm_price
        first = float(prices.dearest_next([0] * len(prices.values))) + alarm_price
        if self.budget < first:
            query = "one query and its alarm" if alarm_price else "one query"
            raise InputError(
                f"is {self.budget:g}",
                expected=f"at least {first:g}, the most that {query} can cost",
                input="budget",
            )
        if math.isinf(self.budget) and math.isinf(self.max_queries):
            alone = f"{mention('max_flagged')} alone may never end the run"
            raise InputError(
                f"neither {mention('budget')} nor {mention('max_queries')} is set",
                expected="at least one of them",
                remedy="" if math.isinf(self.max_flagged) else alone,
            )
        dearest = prices.dearest + alarm_price
        if math.isinf(self.budget) and math.isinf(dearest * self.max_queries):
            raise InputError(
                f"{self.max_queries:g} queries at {dearest:g} each cost more than a float can hold",
                expected=f"smaller prices, a smaller {mention('max_queries')}, "
                f"or {mention('budget')}",
            )
        if math.isinf(self.max_queries) and prices.cheapest == 0:
            raise InputError(
                "some answers are free under these prices",
                expected=f"{mention('max_queries')} as well, since {mention('budget')} alone may "
                "never end the run",
            )


def check_cap(name: str, value: Any) -> None:
    """Raise InputError unless the argument `name` is a whole number above 0, or infinite."""
    if not (is_number(value) and value >= 1 and (math.isinf(value) or value % 1 == 0)):
        raise InputError(f"is {shown(value)}", expected="a whole number, 1 or more", input=name)


NO_LIMITS = Limits()
