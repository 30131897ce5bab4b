"""The ledger: one image's account.

1. It stores counts of answers: by phase and label, and, added up, by price level. Queries, sides
   and cost are derived from the counts, never stored.
2. `affordable` says how many rows of an ordered run of answers may be charged: a query is asked
   only if its dearest answer fits into the budget, and if the caps on queries and on flagged
   answers leave room for it (limits.py).
3. Rows are charged in order, once. The engine alone writes here.
4. An alarm of a detector (detector.py) is counted by phase, and costs its price beside the answer.
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


class AccountBefore(NamedTuple):
    """Where the account stood just before each row of a run of answers."""

    cost: NDArray[np.float64]
    flagged: NDArray[np.int64]
    queries: NDArray[np.int64]
    dearest_next: Any
    """The most that the row itself may cost."""
    alarms: NDArray[np.int64]


@dataclass(repr=False)
class Ledger:
    """Counts of answers by phase and label; everything else is derived from them."""

    prices: Prices
    goal: Goal
    """For its image: which labels are flagged."""
    counts: dict[str, Counter[int]] = field(default_factory=dict)
    """For each phase, how often each label was answered."""
    detection: Detection | None = None
    """Price and limit of alarms (`Detection.terms`), if there is a detector."""
    alarms_in: Counter[str] = field(default_factory=Counter)
    """For each phase, how many alarms there were."""
    _levels: list[int] = field(init=False, repr=False)
    _known_cost: float | None = field(init=False, repr=False, default=None, compare=False)
    """The cost, until something is charged."""

    @classmethod
    def of(cls, prices: Prices, goal: Goal, detection: Detection | None = None) -> Ledger:
        """Return an empty ledger, with the terms of alarms."""
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
        total = 0.0  # a plain sum, to the last bit as `Prices.cost` has it
        for count, value in zip(levels, self.prices.values, strict=True):
            total += count * value
        return total

    @property
    def queries(self) -> int:
        """All charged queries."""
        return sum(self._levels)

    @property
    def flagged(self) -> int:
        """Flagged answers: with the source class, or one of the goal's set."""
        return sum(self.flagged_in(phase) for phase in self.counts)

    def flagged_in(self, phase: str) -> int:
        """Flagged answers of one phase."""
        return sum(n for label, n in self.counts[phase].items() if self.goal.flags(label))

    @property
    def other(self) -> int:
        """Answers that are not flagged."""
        return self.queries - self.flagged

    @property
    def alarms(self) -> int:
        """All alarms."""
        return sum(self.alarms_in.values())

    @property
    def cost(self) -> float:
        """What all answers and alarms cost."""
        if self._known_cost is None:
            self._known_cost = self._cost(self._levels) + self.alarms * self.alarm_price
        return self._known_cost

    @property
    def levels(self) -> NDArray[np.int64]:
        """Counts by price level, cheapest first."""
        return np.array(self._levels)

    @property
    def by_phase(self) -> dict[str, float]:
        """Cost by phase; of a price that grows, flagged answers at what they cost on average."""
        levels = {name: self._by_level(tally) for name, tally in self.counts.items()}
        alarms = {name: self.alarms_in[name] * self.alarm_price for name in levels}
        if self.prices.escalation is None:
            return {name: self._cost(counts) + alarms[name] for name, counts in levels.items()}
        others, flagged = self._levels
        answers = self._cost(self._levels)
        mean = (answers - others * self.prices.other) / flagged if flagged else 0.0
        return {
            name: n[0] * self.prices.other + n[1] * mean + alarms[name]
            for name, n in levels.items()
        }

    @property
    def dearest_next(self) -> float:
        """The most that the next answer may cost, with an alarm."""
        return float(self.prices.dearest_next(self._levels)) + self.alarm_price

    def bound(self, rows: int) -> float:
        """Not less than the cost with `rows` more answers."""
        return self.cost + self.prices.bound(self._levels, rows) + rows * self.alarm_price

    def account_before(
        self, labels: NDArray[np.int64], alarms: NDArray[np.bool_] | None = None
    ) -> AccountBefore:
        """The account before each of `labels`, were they charged in order, with alarms if any."""
        if len(labels) == 1:
            now = np.array([self.cost]), np.array([self.flagged]), np.array([self.queries])
            return AccountBefore(*now, self.dearest_next, np.array([self.alarms]))
        levels = self.prices.levels(labels, self.goal)
        steps = np.zeros((len(labels), len(self.prices.values)), np.int64)
        steps[np.arange(len(labels)), levels] = 1
        before = np.cumsum(steps, axis=0) - steps + np.array(self._levels)
        flagged = self.goal.is_flagged(labels).astype(np.int64)
        source = np.cumsum(flagged) - flagged + self.flagged
        queries = self.queries + np.arange(len(labels), dtype=np.int64)
        raised = np.full(len(labels), self.alarms)
        if alarms is not None:
            raised += np.cumsum(alarms) - alarms
        cost = self.prices.cost(before) + raised * self.alarm_price
        dearest = self.prices.dearest_next(before) + self.alarm_price
        return AccountBefore(cost, source, queries, dearest, raised)

    def leaves_room(self, rows: int, limits: Limits) -> bool:
        """Whether the caps admit `rows` more queries, whatever they are answered."""
        if self.queries + rows > limits.max_queries:
            return False
        if self.alarms + rows > self.max_alarms:
            return False
        return limits.max_flagged == math.inf or self.flagged + rows <= limits.max_flagged

    def affordable(
        self,
        labels: NDArray[np.int64],
        limits: Limits,
        alarms: NDArray[np.bool_] | None = None,
    ) -> int:
        """How many of `labels` may be asked: the dearest answer fits, and the caps leave room."""
        rows = len(labels)
        if self.leaves_room(rows, limits) and self.bound(rows + 1) <= limits.budget:
            return rows  # even if all were the dearest, with a row to spare for rounding
        before = self.account_before(labels, alarms)
        fits = (
            (before.cost + before.dearest_next <= limits.budget)
            & (before.queries < limits.max_queries)
            & (before.flagged < limits.max_flagged)
            & (before.alarms < self.max_alarms)
        )
        return rows if fits.all() else int(fits.argmin())

    def charge_one(self, label: int, phase: str) -> None:
        """Write down one answer."""
        tally = self.counts.get(phase)
        if tally is None:
            tally = self.counts[phase] = Counter()
        tally[label] += 1
        self._levels[self.prices.level(label, self.goal)] += 1
        self._known_cost = None

    def charge(self, labels: NDArray[np.int64], phase: str, alarms: int = 0) -> None:
        """Write down answers, each once, and how many of them raised an alarm."""
        tally = self.counts.setdefault(phase, Counter()) if len(labels) else Counter()
        self._known_cost = None
        for label, count in Counter(labels.tolist()).items():
            tally[label] += count
            self._levels[self.prices.level(label, self.goal)] += count
        if alarms:
            self.alarms_in[phase] += alarms
