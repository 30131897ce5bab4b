"""Settling: the charging of the rows of an ask that count, once all its answers are back.

1. Rows count in the order of the runs, up to the first row that has no answer, that the account
   cannot pay for, or whose distance is not a number. Rows after that count as not sent.
2. Rows that count are charged by label, each once, unless the account does not charge (a clean
   image may be free). Alarms are charged with their rows (alarms.py).
3. An adversarial row with a smaller distance than all before it is an improvement. It is recorded
   with the account after it and the cost before it; the last improvement is the best point.
4. `settle_few` does for a few rows of one run what `settle` does for any ask, without arrays: most
   asks have one row, and the engine spends much of its time here. Both give the same bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

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

if TYPE_CHECKING:
    from .alarms import ImageDetector

FEW_ROWS = 8
"""Maximum number of rows that are settled one by one."""


@dataclass
class Account:
    """The account of one image: its limits, its ledger, and its best point so far."""

    problem: Problem
    ledger: Ledger
    cell_limits: Limits
    charging: bool = True
    improvements: list[Improvement] = field(default_factory=list)
    first_alarm: FirstAlarm | None = None
    best: Tensor | LinearPoint | None = None
    """The adversarial point with the smallest distance, (1, c, h, w), as the attack made it; or its
    terms."""

    @property
    def distance(self) -> float:
        return self.improvements[-1].distance if self.improvements else math.inf

    @property
    def limits(self) -> Limits:
        """The limits that apply now; rows that are not charged have none."""
        return self.cell_limits if self.charging else NO_LIMITS

    @property
    def end(self) -> Stop | None:
        """The reason why no further query may be sent, or None."""
        return self.ledger.end(self.limits)

    def keep(self, points: Rows, row: int) -> None:
        """Keep a point as the best: its terms, if it has any, or a copy, since the attack may
        reuse the memory."""
        self.best = points.linear_point(row) if isinstance(points, LinearRows) else None
        if self.best is None:
            self.best = points[row : row + 1].to(self.problem.source.dtype, copy=True)

    def best_point(self) -> Tensor | None:
        if isinstance(self.best, LinearPoint):
            self.best = self.best.point()[None].to(self.problem.source.dtype)
        return self.best


class AnsweredRows(NamedTuple):
    """The rows that were answered, in the order in which they are charged."""

    labels: NDArray[np.int64]
    adversarial: NDArray[np.bool_]
    distances: NDArray[np.float64]
    alarms: NDArray[np.bool_]

    def between(self, first: int, end: int) -> AnsweredRows:
        rows = slice(first, end)
        columns = self.labels[rows], self.adversarial[rows], self.distances[rows]
        return AnsweredRows(*columns, self.alarms[rows])


def settle(
    pending: Pending, account: Account, detector: ImageDetector | None = None
) -> tuple[Answers | None, Failure | None]:
    """Charge the rows of an ask that count, and keep the best of them. Return the answers to the
    whole ask, or None if a row was not answered or not affordable; and the failure that stopped the
    ask, if there was one."""
    counts, failure, complete = pending.settled()
    states = list(zip(pending.runs, counts, strict=False))
    labels = _concatenated([state.labels[:count] for state, count in states])
    distances = _concatenated([state.distances[:count] for state, count in states])
    alarms = np.zeros(len(labels), np.bool_)
    if detector is not None:
        alarms[: len(detector.alarms)] = detector.alarms
    answered = AnsweredRows(labels, account.problem.is_adversarial(labels), distances, alarms)
    rows = account.ledger.affordable(labels, account.limits, alarms)
    if rows < len(labels):
        failure, complete = None, False
    if math.isnan(distances[:rows].sum()):
        rows = int(np.isnan(distances).argmax())
        reason = f"the attack sent a point that is not finite ({pending.ask.phase})"
        failure, complete = Failure(Stop.ATTACK_ERROR, reason), False
    if detector is not None and account.charging:
        if detector.failure is not None:
            rows, failure, complete = len(detector.alarms), detector.failure, False
        if rows != len(detector.alarms):
            raise RuntimeError(f"{rows} rows are charged, but {len(detector.alarms)} were watched")
    charged = answered.between(0, rows)
    _keep_best(pending, counts, charged, account)
    if account.charging:
        if account.first_alarm is None and charged.alarms.any():
            before = int(charged.alarms.argmax()) + 1
            flagged = int(account.ledger.goal.is_flagged(charged.labels[:before]).sum())
            queries = account.ledger.queries + before
            account.first_alarm = FirstAlarm(queries, account.ledger.flagged + flagged)
        alarm_count = int(charged.alarms.sum())
        account.ledger.charge(charged.labels, pending.ask.phase, alarm_count)
    return _answers(answered, counts, account.ledger) if complete else None, failure


def settle_few(pending: Pending, account: Account) -> Answers | None:
    """Settle the most frequent case fast: a few rows of one run, all answered and affordable.
    Return the answers. In any other case, do nothing and return None."""
    state, ledger = pending.runs[0], account.ledger
    count = state.known
    if len(pending.runs) > 1 or count > FEW_ROWS or not state.complete or not account.charging:
        return None
    limits, worst = account.limits, ledger.bound(count + 1)  # one row more, in case of rounding
    if count > 1 and (worst > limits.budget or not ledger.leaves_room(count, limits)):
        return None
    labels, distances = state.labels[:count], state.distances[:count]
    adversarial = account.problem.is_adversarial(labels)
    known_distances = distances.tolist()
    if any(map(math.isnan, known_distances)):
        return None
    smallest, best_row = account.distance, -1
    rows = zip(labels.tolist(), known_distances, adversarial.tolist(), strict=True)
    for row, (label, distance, is_adversarial) in enumerate(rows):
        improves = is_adversarial and distance < smallest
        cost_before = ledger.cost if improves else 0.0
        ledger.charge_one(label, pending.ask.phase)
        if improves:
            smallest, best_row = distance, row
            spent = ledger.cost, ledger.flagged, ledger.queries
            account.improvements.append(Improvement(*spent, distance, cost_before))
    if best_row >= 0:
        account.keep(state.run.points, best_row)
    return Answers(labels, adversarial, distances, ledger.goal, ledger.prices)


def _keep_best(
    pending: Pending, counts: list[int], charged: AnsweredRows, account: Account
) -> None:
    """Record every row that improves on all before it, and keep the last one as the best."""
    labels, adversarial, distances, alarms = charged
    if not adversarial.any() or distances[adversarial].min() >= account.distance:
        return
    reached = np.where(adversarial, distances, math.inf)
    before = np.minimum.accumulate(np.concatenate([[account.distance], reached]))[:-1]
    better = np.flatnonzero(reached < before)
    # The account before each row; the row appended here gives the account after the last.
    spent = account.ledger.account_before(np.append(labels, labels[-1]), np.append(alarms, False))
    included = better + 1 if account.charging else better
    columns = (
        *(column[included] for column in (spent.cost, spent.flagged, spent.queries)),
        distances[better],
        spent.cost[better],
        spent.alarms[included],
    )
    rows = zip(*(column.tolist() for column in columns), strict=True)
    account.improvements += [Improvement(*row) for row in rows]
    row, number = int(better[-1]), 0
    while row >= counts[number]:
        row -= counts[number]
        number += 1
    account.keep(pending.runs[number].run.points, row)


def _answers(answered: AnsweredRows, counts: list[int], ledger: Ledger) -> Answers:
    runs, first = [], 0
    for count in counts:
        labels, adversarial, distances, _ = answered.between(first, first + count)
        runs.append(Answers(labels, adversarial, distances, ledger.goal, ledger.prices))
        first += count
    return joined(runs)


def _concatenated(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
