"""Settling: what of an ask counts, once all of it is back.

1. Rows count in the order of the runs, up to the first that has no answer, that the account cannot
   pay for, or whose distance is not a number. Rows after that were not asked.
2. Rows that count are charged by label, each once, unless the account does not charge (a clean
   image may be free).
   What a detector says of a row is charged with it: `watched` has the alarms of just those rows
   that count (alarms.py).
3. A row that is adversarial and nearer than all before it is an improvement: it is noted with the
   account that includes it, and what was spent before it; the last of them is the best point.
4. `settle_few` does for a few rows of one run what `settle` does for any ask, without arrays: most
   asks are of one row, and this is where the engine's time goes. Both give the same, to the bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..core.ask import Answers, Rows, joined
from ..core.detector import FirstAlarm
from ..core.ledger import Ledger
from ..core.limits import NO_LIMITS, Limits
from ..core.problem import Problem
from ..core.result import Improvement
from ..core.stop import Stop
from .pending import Failure, Pending
from .points import LinearPoint, LinearRows

FEW_ROWS = 8
"""Rows of a run that are settled one by one; more are settled at once."""


@dataclass
class Account:
    """What one image has spent under its limits, and the best that it has reached."""

    problem: Problem
    ledger: Ledger
    cell_limits: Limits
    charging: bool = True
    """Whether rows are charged."""
    improvements: list[Improvement] = field(default_factory=list)
    first_alarm: FirstAlarm | None = None
    best: Tensor | LinearPoint | None = None
    """The nearest adversarial point, (1, c, h, w), as it was asked for; or its terms."""

    @property
    def distance(self) -> float:
        """The least distance of an adversarial point so far."""
        return self.improvements[-1].distance if self.improvements else math.inf

    @property
    def limits(self) -> Limits:
        """What may be spent and taken; nothing is limited that is not charged."""
        return self.cell_limits if self.charging else NO_LIMITS

    @property
    def end(self) -> Stop | None:
        """Why not one more query may be asked, or None."""
        limits = self.limits
        if self.ledger.alarms >= self.ledger.max_alarms:
            return Stop.ALARM
        if self.ledger.queries >= limits.max_queries:
            return Stop.MAX_QUERIES
        if limits.max_flagged != math.inf and self.ledger.flagged >= limits.max_flagged:
            return Stop.MAX_FLAGGED
        if self.ledger.cost + self.ledger.dearest_next > limits.budget:
            return Stop.BUDGET
        return None

    def keep(self, points: Rows, row: int) -> None:
        """Keep a point as the best: its terms, if it has any, or a copy, since its maker may use
        the memory again."""
        self.best = points.mixture(row) if isinstance(points, LinearRows) else None
        if self.best is None:
            self.best = points[row : row + 1].to(self.problem.source.dtype, copy=True)

    def best_point(self) -> Tensor | None:
        """The nearest adversarial point, (1, c, h, w), as it was asked for."""
        if isinstance(self.best, LinearPoint):
            self.best = self.best.point()[None].to(self.problem.source.dtype)
        return self.best


class AnsweredRows(NamedTuple):
    """Rows that were answered, in the order in which they are charged."""

    labels: NDArray[np.int64]
    adversarial: NDArray[np.bool_]
    distances: NDArray[np.float64]
    alarms: NDArray[np.bool_]

    def between(self, first: int, end: int) -> AnsweredRows:
        """Some of them."""
        rows = slice(first, end)
        columns = self.labels[rows], self.adversarial[rows], self.distances[rows]
        return AnsweredRows(*columns, self.alarms[rows])


class Watched(NamedTuple):
    """What a detector said of an ask."""

    alarms: NDArray[np.bool_]
    """Of the rows that are charged."""
    failure: Failure | None
    """Why it said nothing of the next, if it should have."""


class Settled(NamedTuple):
    """An ask that was settled."""

    answers: Answers | None
    """To all of the ask; None if some of it was not answered or could not be paid for."""
    failure: Failure | None
    """What is wrong with the row that ended the ask, if something is."""


def settle(pending: Pending, account: Account, watched: Watched | None = None) -> Settled:
    """Charge what counts of an ask, and keep the best of it."""
    counts, failure, complete = pending.settled()
    states = list(zip(pending.runs, counts, strict=False))
    labels = _concatenated([state.labels[:count] for state, count in states])
    distances = _concatenated([state.distances[:count] for state, count in states])
    alarms = np.zeros(len(labels), np.bool_)
    if watched is not None:
        alarms[: len(watched.alarms)] = watched.alarms
    answered = AnsweredRows(labels, account.problem.is_adversarial(labels), distances, alarms)
    rows = account.ledger.affordable(labels, account.limits, alarms)
    if rows < len(labels):
        failure, complete = None, False
    if math.isnan(distances[:rows].sum()):
        rows = int(np.isnan(distances).argmax())
        reason = f"asked for a point that is not finite ({pending.ask.phase})"
        failure, complete = Failure(Stop.ATTACK_ERROR, reason), False
    if watched is not None and account.charging:
        if watched.failure is not None:
            rows, failure, complete = len(watched.alarms), watched.failure, False
        if rows != len(watched.alarms):
            raise RuntimeError(f"{rows} rows are charged, {len(watched.alarms)} were watched")
    charged = answered.between(0, rows)
    _keep_best(pending, counts, charged, account)
    if account.charging:
        if account.first_alarm is None and charged.alarms.any():
            account.first_alarm = _first_alarm(charged, account.ledger)
        alarm_count = int(charged.alarms.sum())
        account.ledger.charge(charged.labels, pending.ask.phase, alarm_count)
    return Settled(_answers(answered, counts, account.ledger) if complete else None, failure)


def settle_few(pending: Pending, account: Account) -> Answers | None:
    """The most frequent case, made cheap: a few rows of one run, answered, all affordable.

    The answers; or None, and nothing done, if this is another case.
    """
    state, ledger = pending.runs[0], account.ledger
    count = state.known
    if len(pending.runs) > 1 or count > FEW_ROWS or not state.complete or not account.charging:
        return None
    limits, worst = account.limits, ledger.bound(count + 1)  # a row to spare for rounding
    if count > 1 and (worst > limits.budget or not ledger.leaves_room(count, limits)):
        return None
    labels, distances = state.labels[:count], state.distances[:count]
    adversarial = account.problem.is_adversarial(labels)
    known_distances = distances.tolist()
    if any(map(math.isnan, known_distances)):
        return None
    nearest, best_row = account.distance, -1
    rows = zip(labels.tolist(), known_distances, adversarial.tolist(), strict=True)
    for row, (label, distance, is_adversarial) in enumerate(rows):
        improves = is_adversarial and distance < nearest
        cost_before = ledger.cost if improves else 0.0
        ledger.charge_one(label, pending.ask.phase)
        if improves:
            nearest, best_row = distance, row
            spent = ledger.cost, ledger.flagged, ledger.queries
            account.improvements.append(Improvement(*spent, distance, cost_before))
    if best_row >= 0:
        account.keep(state.run.points, best_row)
    return Answers(labels, adversarial, distances, ledger.goal, ledger.prices)


def _keep_best(
    pending: Pending, counts: list[int], charged: AnsweredRows, account: Account
) -> None:
    """Note every row that is nearer than all before it, and keep the last of them."""
    labels, adversarial, distances, alarms = charged
    if not adversarial.any() or distances[adversarial].min() >= account.distance:
        return
    reached = np.where(adversarial, distances, math.inf)
    before = np.minimum.accumulate(np.concatenate([[account.distance], reached]))[:-1]
    nearer = np.flatnonzero(reached < before)
    # The account before each row and, for the row added here, after the last.
    spent = account.ledger.account_before(np.append(labels, labels[-1]), np.append(alarms, False))
    included = nearer + 1 if account.charging else nearer
    columns = (
        *(column[included] for column in (spent.cost, spent.flagged, spent.queries)),
        distances[nearer],
        spent.cost[nearer],
        spent.alarms[included],
    )
    rows = zip(*(column.tolist() for column in columns), strict=True)
    account.improvements += [Improvement(*row) for row in rows]
    row, number = int(nearer[-1]), 0
    while row >= counts[number]:
        row -= counts[number]
        number += 1
    account.keep(pending.runs[number].run.points, row)


def _first_alarm(charged: AnsweredRows, ledger: Ledger) -> FirstAlarm:
    """Where the account stands after the first of some rows that raised an alarm."""
    rows = int(charged.alarms.argmax()) + 1
    flagged = int(ledger.goal.is_flagged(charged.labels[:rows]).sum())
    return FirstAlarm(ledger.queries + rows, ledger.flagged + flagged)


def _answers(answered: AnsweredRows, counts: list[int], ledger: Ledger) -> Answers:
    """The answers run by run."""
    runs, first = [], 0
    for count in counts:
        labels, adversarial, distances, _ = answered.between(first, first + count)
        runs.append(Answers(labels, adversarial, distances, ledger.goal, ledger.prices))
        first += count
    return joined(runs)


def _concatenated(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
