"""A pending ask: the rows that were sent, their answers, and the rows that count.

1. Rows of a run are sent in order and come back in order, so the known rows of a run are a prefix.
2. `wanted` rows are those that will be charged unless the budget runs out: all rows of a run
   without `until`, and the next few of a run with one. `spare` rows may fill a batch instead of
   padding; if they turn out to lie past the end of the run, they are discarded.
3. If each row is a real query (`metered`), only rows that are certain to be charged are wanted:
   whatever the answers to the rows before them, they belong to the run and fit into the budget.
4. `settled` counts the rows that were answered, in the order in which they are charged. A row that
   failed stops its run; the rows after it count as not sent.
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
"""After n rows of a run with `until`, the next n / LOOK_AHEAD_DIVISOR are sent together: a long run
takes few rounds and wastes few rows."""
BUDGET_CHECK_ROWS, UNTIL_CHECK_ROWS = 64, 16
"""Number of next rows that are checked against the limits, for a run without and with `until`; if
they are affordable, later rows are checked later."""
NO_LABELS: NDArray[np.int64] = np.empty(0, np.int64)
NO_DISTANCES: NDArray[np.float64] = np.empty(0)
Alarms = NDArray[np.bool_]
NO_ALARMS: Alarms = np.empty(0, np.bool_)


@dataclass(frozen=True)
class Failure:
    """The reason why a row has no answer."""

    stop: Stop
    reason: str


class RunState:
    """The state of one run of a pending ask."""

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
        """Whether the run has rows left to send."""
        return self.end is None and self.sent < self.size

    @property
    def known(self) -> int:
        """Number of rows that were answered and count, whatever the next answers are."""
        return self.back if self.end is None else min(self.back, self.end)

    @property
    def complete(self) -> bool:
        """Whether all rows that the run needs were answered."""
        return self.failure is None and self.known == (self.size if self.end is None else self.end)

    def take(
        self,
        labels: NDArray[np.int64],
        distances: NDArray[np.float64],
        hits: NDArray[np.bool_] | None,
    ) -> None:
        """Store the answers to the next rows; `hits` marks those that stop the run."""
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
        if self.end is None:
            self.failure, self.end = failure, self.back
        self.back += rows


class Pending:
    """One pending ask of one image."""

    def __init__(self, ask: Ask, problem: Problem, ledger: Ledger) -> None:
        self.ask = ask
        self.runs = [RunState(run) for run in ask.runs]
        self.size = sum(state.size for state in self.runs)
        self.in_flight = 0
        """Number of rows that were sent and have not come back."""
        self._problem = problem
        self._ledger = ledger
        self._limits: list[int] = []
        self.limited = True
        """Whether further answers may change the limits, so that `limit` must be called again."""
        self._metered = False
        self._failed: int | None = None
        """The number of the first run that failed."""
        self._wanted: int | None = None
        """Cached number of wanted rows; None after a change."""

    def limit(self, limits: Limits, metered: bool, watched: Alarms = NO_ALARMS) -> None:
        """Compute how many rows of each run may be sent now, given the answers so far.

        If the model is metered, unanswered rows are assumed to have the highest price and to be
        flagged. Otherwise they are assumed to have the average price and the average share of
        flagged answers so far, so that few rows are wasted where a limit stops the run. If
        another row is affordable, at least one may be sent. `watched` has the alarms of the first
        rows that are back; any other row may raise one.
        """
        self._wanted, self._metered = None, metered
        ledger, prices, size = self._ledger, self._ledger.prices, self.size
        budget, max_queries, max_flagged = limits.budget, limits.max_queries, limits.max_flagged
        max_alarms = ledger.max_alarms
        within = not metered and ledger.leaves_room(size, limits)
        if within and ledger.bound(size) <= budget:
            self._limits, self.limited = [state.size for state in self.runs], False
            return
        if not metered and len(self.runs) == 1:  # the next rows, if they are affordable in any case
            [state] = self.runs
            looked_at = BUDGET_CHECK_ROWS if state.run.until is None else UNTIL_CHECK_ROWS
            next_rows = min(size, state.known + looked_at)
            enough = ledger.bound(next_rows) <= budget
            if enough and ledger.leaves_room(next_rows, limits):
                self._limits, self.limited = [next_rows], next_rows < size
                return
        mean = ledger.cost / ledger.queries if ledger.queries else ledger.highest_next
        tally = ledger.levels
        ahead = 0  # rows before this run whose price is not known yet
        flagged = ledger.flagged if max_flagged < math.inf else 0
        share = 1.0 if metered else flagged / max(1, ledger.queries)  # of rows assumed flagged
        alarms, seen, unseen = ledger.alarms, 0, 0  # raised; rows seen by the detector; others
        alarm_price = ledger.alarm_price
        self._limits = []

        def is_affordable(rows: int) -> bool:
            """Return whether `rows` more rows may be sent if the last is flagged and has the
            highest price."""
            if flagged + (ahead + rows - 1) * share + 1 > max_flagged:
                return False
            if metered:
                worst = alarms + unseen + ahead + rows - 1
                added = worst * alarm_price, alarm_price
                fits = prices.worst_before_last(tally, ahead + rows, added) <= budget
                return fits and worst < max_alarms
            spent = known_cost + (ahead + rows - 1) * mean
            highest = float(prices.highest_next(tally)) + alarm_price
            return alarms < max_alarms and spent + highest <= budget

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
        """Return how many rows of run `number` should be sent now."""
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
        """Return how many rows of run `number` may fill a batch instead of padding."""
        state = self.runs[number]
        if not state.open or state.run.until is None or self._follows_a_failure(number):
            return 0
        return max(0, self._limits[number] - state.sent)

    def send(self, number: int, rows: int) -> int:
        """Mark the next rows of run `number` as sent, and return the index of the first."""
        self._wanted = None
        first = self.runs[number].sent
        self.runs[number].sent += rows
        self.in_flight += rows
        return first

    def take(self, number: int, labels: NDArray[np.int64], distances: NDArray[np.float64]) -> None:
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
        """Record that the next rows of run `number` could not be answered."""
        self._wanted = None
        self.in_flight -= rows
        self.runs[number].fail(rows, failure)
        if self.runs[number].failure is not None:
            self._failed = number if self._failed is None else min(number, self._failed)

    @property
    def wanted_rows(self) -> int:
        if self._wanted is None:
            if len(self.runs) == 1:
                self._wanted = self.wanted(0)
            else:
                self._wanted = sum(self.wanted(number) for number in range(len(self.runs)))
        return self._wanted

    @property
    def can_spare(self) -> bool:
        return any(self.spare(number) for number in range(len(self.runs)))

    @property
    def done(self) -> bool:
        return self.in_flight == 0 and self.wanted_rows == 0

    def settled(self) -> tuple[list[int], Failure | None, bool]:
        """Return the number of answered rows of each run, up to the first incomplete run; the
        failure of that run, if any; and whether the ask is complete."""
        counts = []
        for state in self.runs:
            counts.append(state.known)
            if not state.complete:
                return counts, state.failure, False
        return counts, None, True
