"""An ask on its way: which rows went out, what came back, and what of it counts.

1. Rows of a run go out in order and come back in order; so what is known of a run is a prefix.
2. `wanted` rows are those that will be charged unless the budget ends: all of a run without
   `until`, and the next few of a run with it. `spare` rows may fill a batch that would be padded
   otherwise; if they turn out to lie past the end, nobody sees them.
3. When each row is a real query (`metered`), only rows are wanted that are certain to be charged:
   whatever the rows before them are answered, they are asked and they fit into the budget.
4. `settled` gives the rows that were answered, in the order they are charged in. A row that failed
   ends its run; rows after it were not asked.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.ask import Ask, Sequential, Until
from ..core.ledger import Ledger
from ..core.limits import Limits
from ..core.problem import Problem
from ..core.stop import Stop

LOOK_AHEAD_DIVISOR = 4
"""Of a run with `until` that has gone on for n rows, n / LOOK_AHEAD_DIVISOR more are sent at once:
a long run takes few rounds, and little is computed in vain."""
BUDGET_CHECK_ROWS, UNTIL_CHECK_ROWS = 64, 16
"""If the next so many rows are affordable, those after them are looked at later; of a run with
`until`, of which few rows go out at a time, fewer."""
NO_LABELS: NDArray[np.int64] = np.empty(0, np.int64)
NO_DISTANCES: NDArray[np.float64] = np.empty(0)
NOT_WATCHED: NDArray[np.bool_] = np.empty(0, np.bool_)


@dataclass(frozen=True)
class Failure:
    """Why a row has no answer."""

    stop: Stop
    reason: str


class RunState:
    """One run of an ask on its way."""

    def __init__(self, run: Sequential) -> None:
        self.run = run
        self.size = len(run.points)
        self.sent = 0
        self.back = 0
        self.end: int | None = None
        self.failure: Failure | None = None
        self.labels = np.empty(self.size, np.int64) if self.size > 1 else NO_LABELS
        self.distances = np.empty(self.size) if self.size > 1 else NO_DISTANCES

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

    def take(
        self,
        labels: NDArray[np.int64],
        distances: NDArray[np.float64],
        hits: NDArray[np.bool_] | None,
    ) -> None:
        """The next rows came back; `hits` tells which are the answer that ends the run."""
        first, self.back = self.back, self.back + len(labels)
        if self.end is not None or len(labels) == 0:
            return
        if self.size == 1:  # the most frequent case: no copy
            self.labels, self.distances = labels, distances
            self.end = 1 if hits is not None and hits[0] else None
            return
        self.labels[first : self.back] = labels
        self.distances[first : self.back] = distances
        if hits is not None and hits.any():
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
        self.size = sum(state.size for state in self.runs)
        self.in_flight = 0
        """Rows sent that have not come back."""
        self._problem = problem
        self._ledger = ledger
        self._limits: list[int] = []
        self.limited = True
        """Some run may not be sent whole yet: its limit must be looked at again."""
        self._metered = False
        self._failed: int | None = None
        """The first run that failed."""
        self._wanted: int | None = None
        """The number of wanted rows, until something changes."""

    def limit(
        self, limits: Limits, metered: bool, watched: NDArray[np.bool_] = NOT_WATCHED
    ) -> None:
        """Work out how far each run may be sent now, given what is back.

        Unanswered rows are taken to cost the most that they may, and to be flagged, if the model is
        metered, so that only rows go out that are certain to be charged; else what answers cost,
        and as many of them were flagged, on average so far, so that few are computed in vain where
        a limit ends the run. Of what may be asked at all, at least the next row goes out.
        `watched` has the alarms of the first rows that are back; any other may raise one.
        """
        self._wanted, self._metered = None, metered
        ledger, prices, size = self._ledger, self._ledger.prices, self.size
        budget, max_queries, max_flagged = limits.budget, limits.max_queries, limits.max_flagged
        max_alarms = ledger.max_alarms
        within = not metered and ledger.leaves_room(size, limits)
        if within and ledger.bound(size) <= budget:
            self._limits, self.limited = [state.size for state in self.runs], False
            return
        if not metered and len(self.runs) == 1:  # the next rows, if those are paid for in any case
            [state] = self.runs
            looked_at = BUDGET_CHECK_ROWS if state.run.until is None else UNTIL_CHECK_ROWS
            next_rows = min(size, state.known + looked_at)
            enough = ledger.bound(next_rows) <= budget
            if enough and ledger.leaves_room(next_rows, limits):
                self._limits, self.limited = [next_rows], next_rows < size
                return
        mean = ledger.cost / ledger.queries if ledger.queries else ledger.dearest_next
        tally = ledger.levels
        ahead = 0  # rows before this run whose price is not known yet
        flagged = ledger.flagged if max_flagged < math.inf else 0
        share = 1.0 if metered else flagged / max(1, ledger.queries)  # of rows that are flagged
        alarms, seen, unseen = ledger.alarms, 0, 0  # raised; rows that were watched, or not yet
        alarm_price = ledger.alarm_price
        self._limits = []

        def is_affordable(rows: int) -> bool:
            """May `rows` more rows be asked, the last of them at its dearest, and flagged?"""
            if flagged + (ahead + rows - 1) * share + 1 > max_flagged:
                return False
            if metered:
                worst = alarms + unseen + ahead + rows - 1
                added = worst * alarm_price, alarm_price
                fits = prices.worst_before_last(tally, ahead + rows, added) <= budget
                return fits and worst < max_alarms
            spent = known_cost + (ahead + rows - 1) * mean
            dearest = float(prices.dearest_next(tally)) + alarm_price
            return alarms < max_alarms and spent + dearest <= budget

        for state in self.runs:
            levels = prices.levels(state.labels[: state.known], self._problem.goal)
            tally += np.bincount(levels, minlength=len(tally))
            here = watched[seen : seen + state.known]
            seen, unseen = seen + len(here), unseen + state.known - len(here)
            alarms += int(here.sum())
            known_cost = float(prices.cost(tally)) + alarms * alarm_price
            if max_flagged < math.inf:
                flagged += int(self._problem.goal.is_flagged(state.labels[: state.known]).sum())
            left = 0 if state.end is not None else state.size - state.known
            most = int(min(left, max(0, max_queries - int(tally.sum()) - ahead)))
            rows = bisect_right(range(1, most + 1), 0, key=lambda n: not is_affordable(n))
            self._limits.append(state.known + rows)
            ahead += left
        whole = zip(self._limits, self.runs, strict=True)
        whole_runs = all(limit == state.size for limit, state in whole)
        capped = min(max_flagged, max_alarms) < math.inf
        self.limited = not whole_runs or capped or alarm_price > 0

    def _follows_a_failure(self, number: int) -> bool:
        return self._failed is not None and number > self._failed

    def wanted(self, number: int) -> int:
        """Rows of run `number` that should go out now."""
        state = self.runs[number]
        if not state.open or self._follows_a_failure(number):
            return 0
        left = max(0, self._limits[number] - state.sent)
        if state.run.until is None:
            return left
        if state.sent > state.back:
            return 0
        return min(left, 1 if self._metered else max(1, state.back // LOOK_AHEAD_DIVISOR))

    def spare(self, number: int) -> int:
        """Rows of run `number` that may fill up a batch."""
        state = self.runs[number]
        if not state.open or state.run.until is None or self._follows_a_failure(number):
            return 0
        return max(0, self._limits[number] - state.sent)

    def send(self, number: int, rows: int) -> int:
        """The next rows of run `number` go out; returns the first of them."""
        self._wanted = None
        first = self.runs[number].sent
        self.runs[number].sent += rows
        self.in_flight += rows
        return first

    def take(self, number: int, labels: NDArray[np.int64], distances: NDArray[np.float64]) -> None:
        """The next rows of run `number` came back."""
        self._wanted = None
        self.in_flight -= len(labels)
        state = self.runs[number]
        until = state.run.until
        hits = None
        if until is not None:
            adversarial = self._problem.is_adversarial(labels)
            hits = adversarial if until is Until.ADVERSARIAL else ~adversarial
        state.take(labels, distances, hits)

    def fail(self, number: int, rows: int, failure: Failure) -> None:
        """The next rows of run `number` could not be answered."""
        self._wanted = None
        self.in_flight -= rows
        self.runs[number].fail(rows, failure)
        if self.runs[number].failure is not None:
            self._failed = number if self._failed is None else min(number, self._failed)

    @property
    def wanted_rows(self) -> int:
        """Rows of all runs that should go out now."""
        if self._wanted is None:
            if len(self.runs) == 1:
                self._wanted = self.wanted(0)
            else:
                self._wanted = sum(self.wanted(number) for number in range(len(self.runs)))
        return self._wanted

    @property
    def can_spare(self) -> bool:
        """Some rows may fill up a batch."""
        return any(self.spare(number) for number in range(len(self.runs)))

    @property
    def done(self) -> bool:
        """Nothing is on its way and nothing more is wanted."""
        return self.in_flight == 0 and self.wanted_rows == 0

    def settled(self) -> tuple[list[int], Failure | None, bool]:
        """Rows of each run that were answered in order, the failure that ended them, and if all."""
        counts = []
        for state in self.runs:
            counts.append(state.known)
            if not state.complete:
                return counts, state.failure, False
        return counts, None, True
