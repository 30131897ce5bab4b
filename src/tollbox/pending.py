"""An ask on its way: which rows went out, what came back, and what of it counts.

1. Rows of a run go out in order and come back in order; so what is known of a run is a prefix.
2. `wanted` rows are those that will be charged unless the budget ends: all of a run without
   `until`, and the next one of a run with it. `spare` rows may fill a batch that would be padded
   otherwise; if they turn out to lie past the end, nobody sees them.
3. When each row is a real query (`metered`), only rows are wanted that are certain to be charged:
   whatever the rows before them are answered, they are asked and they fit into the budget.
4. `settled` gives the rows that were answered, in the order they are charged in. A row that failed
   ends its run; what lies behind it was not asked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .ask import Ask, Run, Until
from .errors import Stop
from .ledger import Ledger
from .problem import Problem


@dataclass(frozen=True)
class Failure:
    """Why a row has no answer."""

    stop: Stop
    reason: str


class RunState:
    """One run of an ask on its way."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.size = len(run.points)
        self.sent = 0
        self.back = 0
        self.end: int | None = None
        self.failure: Failure | None = None
        self.labels = np.empty(self.size, np.int64)
        self.distances = np.empty(self.size)

    @property
    def open(self) -> bool:
        """Rows may still be sent."""
        return self.end is None and self.sent < self.size

    @property
    def known(self) -> int:
        """Rows that were answered and count, however the run goes on."""
        return self.back if self.end is None else min(self.back, self.end)

    @property
    def complete(self) -> bool:
        """All rows that the run asks for were answered."""
        return self.failure is None and self.known == (self.size if self.end is None else self.end)

    def take(self, labels: NDArray[np.int64], distances: NDArray[np.float64], hits: object) -> None:
        """The next rows came back; `hits` tells which are the answer that ends the run."""
        first, self.back = self.back, self.back + len(labels)
        if self.end is not None:
            return
        self.labels[first : self.back] = labels
        self.distances[first : self.back] = distances
        if isinstance(hits, np.ndarray) and hits.any():
            self.end = first + int(hits.argmax()) + 1

    def fail(self, rows: int, failure: Failure) -> None:
        """The next rows could not be answered."""
        if self.end is None:
            self.failure, self.end = failure, self.back
        self.back += rows


class Pending:
    """One ask of one image on its way."""

    def __init__(self, ask: Ask, problem: Problem, ledger: Ledger) -> None:
        self.ask = ask
        self.runs = [RunState(run) for run in ask.runs]
        self.flying = 0
        """Rows sent that have not come back."""
        self._problem = problem
        self._ledger = ledger
        self._limits: list[int] = []

    def limit(self, budget: float, max_queries: float, metered: bool) -> None:
        """Work out how far each run may be sent now."""
        if metered:
            self._limits = self._certain(budget, max_queries)
            return
        ledger, prices = self._ledger, self._ledger.prices
        rows = max_queries - ledger.queries
        if prices.cheapest > 0 and math.isfinite(budget):
            # At best all rows cost the least; one row more guards against the rounding here.
            rows = min(rows, (budget - ledger.cost - prices.dearest) / prices.cheapest + 2)
        self._limits = [int(max(0, min(state.size, rows))) for state in self.runs]

    def _certain(self, budget: float, max_queries: float) -> list[int]:
        prices, limits = self._ledger.prices, []
        spent, asked = self._ledger.cost, self._ledger.queries
        for state in self.runs:
            labels = state.labels[: state.known]
            levels = prices.levels(labels, self._problem.label)
            spent += sum(prices.values[level] for level in levels)
            asked += state.known
            left = 0 if state.end is not None else state.size - state.known
            rows = min(left, (budget - spent) / prices.dearest, max_queries - asked)
            rows = int(max(0, rows))
            while rows > 0 and spent + (rows - 1) * prices.dearest + prices.dearest > budget:
                rows -= 1
            limits.append(state.known + rows)
            spent += left * prices.dearest  # the worst this run may still cost
            asked += left
        return limits

    def wanted(self, number: int) -> int:
        """Rows of run `number` that should go out now."""
        state = self.runs[number]
        if not state.open:
            return 0
        if state.run.until is not None:
            return int(state.sent == state.back and state.sent < self._limits[number])
        return max(0, self._limits[number] - state.sent)

    def spare(self, number: int) -> int:
        """Rows of run `number` that may go out for want of better."""
        state = self.runs[number]
        if not state.open or state.run.until is None:
            return 0
        return max(0, self._limits[number] - state.sent)

    def take(self, number: int, labels: NDArray[np.int64], distances: NDArray[np.float64]) -> None:
        """The next rows of run `number` came back."""
        self.flying -= len(labels)
        state = self.runs[number]
        until = state.run.until
        hits: object = None
        if until is not None:
            hits = self._problem.is_adversarial(labels) == (until is Until.ADVERSARIAL)
        state.take(labels, distances, hits)

    def fail(self, number: int, rows: int, failure: Failure) -> None:
        """The next rows of run `number` could not be answered."""
        self.flying -= rows
        self.runs[number].fail(rows, failure)

    @property
    def wanted_rows(self) -> int:
        """Rows of all runs that should go out now."""
        return sum(self.wanted(number) for number in range(len(self.runs)))

    @property
    def wants(self) -> bool:
        """Some rows should go out now."""
        return any(self.wanted(number) for number in range(len(self.runs)))

    @property
    def can_spare(self) -> bool:
        """Some rows may go out for want of better."""
        return any(self.spare(number) for number in range(len(self.runs)))

    @property
    def done(self) -> bool:
        """Nothing is on its way and nothing more is wanted."""
        return self.flying == 0 and not self.wants

    def settled(self) -> tuple[list[int], Failure | None, bool]:
        """Rows of each run that were answered in order, the failure that ended them, and if all."""
        counts = []
        for state in self.runs:
            counts.append(state.known)
            if not state.complete:
                return counts, state.failure, False
        return counts, None, True
