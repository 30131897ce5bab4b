"""The ledger: the account of one image.

1. It stores counts of answers: by phase and label and, summed, by price level. Queries, flagged
   answers and cost are derived from the counts, never stored.
2. A query is sent only if its most expensive answer fits into the budget, and if the limits on
   queries, flagged answers and alarms leave room for it (limits.py): `affordable`.
3. Rows are charged once, in order. Only the engine writes to a ledger.
4. An alarm of a detector (detector.py) is counted by phase, and its price is added to the answer's.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .detector import Detection
from .goal import Goal
from .limits import Limits
from .prices import Prices
from .stop import Stop


class AccountBefore(NamedTuple):
    """The state of the account just before each row of a run of answers."""

    cost: NDArray[np.float64]
    flagged: NDArray[np.int64]
    queries: NDArray[np.int64]
    highest_next: Any
    """Highest possible cost of the row itself, an alarm included."""
    alarms: NDArray[np.int64]


@dataclass(repr=False)
class Ledger:
    """Counts of answers by phase and label; everything else is derived from them."""

    prices: Prices
    goal: Goal
    """The goal for the image, which specifies the flagged labels."""
    counts: dict[str, Counter[int]] = field(default_factory=dict)
    """Number of answers by phase and label."""
    detection: Detection | None = None
    """Price and limit of alarms (`Detection.terms`), if there is a detector."""
    alarms_in: Counter[str] = field(default_factory=Counter)
    """Number of alarms by phase."""
    _levels: list[int] = field(init=False, repr=False)
    _known_cost: float | None = field(init=False, repr=False, default=None, compare=False)
    """The cached cost; None after a charge."""

    @classmethod
    def of(cls, prices: Prices, goal: Goal, detection: Detection | None = None) -> Ledger:
        """Return an empty ledger, which keeps only the terms of `detection`."""
        return cls(prices, goal, detection=None if detection is None else detection.terms)

    def __post_init__(self) -> None:
        self._levels = self._by_level(*self.counts.values())

    def __repr__(self) -> str:
        return f"<Ledger: {self}>"

    @property
    def alarm_price(self) -> float:
        return 0.0 if self.detection is None else self.detection.alarm_price

    @property
    def max_alarms(self) -> float:
        return math.inf if self.detection is None else self.detection.max_alarms

    def __str__(self) -> str:
        alarms = f", {self.alarms:,} alarm{'s' * (self.alarms > 1)}" if self.alarms else ""
        return f"{self.queries:,} queries ({self.flagged:,} flagged{alarms}), cost {self.cost:,g}"

    def _by_level(self, *tallies: Counter[int]) -> list[int]:
        levels = [0] * len(self.prices.values)
        for tally in tallies:
            for label, count in tally.items():
                levels[self.prices.level(label, self.goal)] += count
        return levels

    def _cost(self, levels: list[int]) -> float:
        if self.prices.escalation is not None:
            return float(self.prices.cost(np.array(levels)))
        total = 0.0  # a plain sum, bit for bit that of `Prices.cost`
        for count, value in zip(levels, self.prices.values, strict=True):
            total += count * value
        return total

    @property
    def queries(self) -> int:
        return sum(self._levels)

    @property
    def flagged(self) -> int:
        """Number of flagged answers: by default, those with the source class."""
        return sum(self.flagged_in(phase) for phase in self.counts)

    def flagged_in(self, phase: str) -> int:
        return sum(n for label, n in self.counts[phase].items() if self.goal.flags(label))

    @property
    def other(self) -> int:
        """Number of answers that are not flagged."""
        return self.queries - self.flagged

    @property
    def alarms(self) -> int:
        return sum(self.alarms_in.values())

    @property
    def cost(self) -> float:
        """Cost of all answers and alarms."""
        if self._known_cost is None:
            self._known_cost = self._cost(self._levels) + self.alarms * self.alarm_price
        return self._known_cost

    @property
    def levels(self) -> NDArray[np.int64]:
        """Counts by price level, in the order of `Prices.values`."""
        return np.array(self._levels)

    @property
    def by_phase(self) -> dict[str, float]:
        """Cost by phase; if prices escalate, flagged answers count at their average price."""
        levels = {name: self._by_level(tally) for name, tally in self.counts.items()}
        alarms = {name: self.alarms_in[name] * self.alarm_price for name in levels}
        if self.prices.escalation is None:
            return {name: self._cost(counts) + alarms[name] for name, counts in levels.items()}
        (others, flagged), other = self._levels, self.prices.other
        mean = (self._cost(self._levels) - others * other) / flagged if flagged else 0.0
        return {name: n[0] * other + n[1] * mean + alarms[name] for name, n in levels.items()}

    @property
    def highest_next(self) -> float:
        """Highest possible cost of the next answer, an alarm included."""
        return float(self.prices.highest_next(self._levels)) + self.alarm_price

    def bound(self, rows: int) -> float:
        """Return an upper bound on the cost after `rows` more answers."""
        return self.cost + self.prices.bound(self._levels, rows) + rows * self.alarm_price

    def account_before(
        self, labels: NDArray[np.int64], alarms: NDArray[np.bool_] | None = None
    ) -> AccountBefore:
        """Return the account just before each of `labels` when they are charged in order."""
        if len(labels) == 1:
            now = np.array([self.cost]), np.array([self.flagged]), np.array([self.queries])
            return AccountBefore(*now, self.highest_next, np.array([self.alarms]))
        levels = self.prices.levels(labels, self.goal)
        steps = np.zeros((len(labels), len(self.prices.values)), np.int64)
        steps[np.arange(len(labels)), levels] = 1
        before = np.cumsum(steps, axis=0) - steps + np.array(self._levels)
        is_flagged = self.goal.is_flagged(labels).astype(np.int64)
        flagged = np.cumsum(is_flagged) - is_flagged + self.flagged
        queries = self.queries + np.arange(len(labels), dtype=np.int64)
        raised = np.full(len(labels), self.alarms)
        if alarms is not None:
            raised += np.cumsum(alarms) - alarms
        cost = self.prices.cost(before) + raised * self.alarm_price
        highest = self.prices.highest_next(before) + self.alarm_price
        return AccountBefore(cost, flagged, queries, highest, raised)

    def leaves_room(self, rows: int, limits: Limits) -> bool:
        """Return whether the limits on counts allow `rows` more queries, whatever the answers."""
        if self.queries + rows > limits.max_queries:
            return False
        if self.alarms + rows > self.max_alarms:
            return False
        return limits.max_flagged == math.inf or self.flagged + rows <= limits.max_flagged

    def affordable(
        self, labels: NDArray[np.int64], limits: Limits, alarms: NDArray[np.bool_] | None = None
    ) -> int:
        """Return how many of the queries answered with `labels` may be sent under the limits."""
        rows = len(labels)
        if self.leaves_room(rows, limits) and self.bound(rows + 1) <= limits.budget:
            return rows  # even at the highest price, with one row to spare for rounding
        before = self.account_before(labels, alarms)
        fits = (
            (before.cost + before.highest_next <= limits.budget)
            & (before.queries < limits.max_queries)
            & (before.flagged < limits.max_flagged)
            & (before.alarms < self.max_alarms)
        )
        return rows if fits.all() else int(fits.argmin())

    def end(self, limits: Limits) -> Stop | None:
        """Return the reason why no further query may be sent under the limits, or None."""
        if self.alarms >= self.max_alarms:
            return Stop.ALARM
        if self.queries >= limits.max_queries:
            return Stop.MAX_QUERIES
        if limits.max_flagged != math.inf and self.flagged >= limits.max_flagged:
            return Stop.MAX_FLAGGED
        if self.cost + self.highest_next > limits.budget:
            return Stop.BUDGET
        return None

    def charge_one(self, label: int, phase: str) -> None:
        tally = self.counts.get(phase)
        if tally is None:
            tally = self.counts[phase] = Counter()
        tally[label] += 1
        self._levels[self.prices.level(label, self.goal)] += 1
        self._known_cost = None

    def charge(self, labels: NDArray[np.int64], phase: str, alarms: int = 0) -> None:
        """Charge answers, each once, and the alarms among them."""
        tally = self.counts.setdefault(phase, Counter()) if len(labels) else Counter()
        self._known_cost = None
        for label, count in Counter(labels.tolist()).items():
            tally[label] += count
            self._levels[self.prices.level(label, self.goal)] += count
        if alarms:
            self.alarms_in[phase] += alarms
