"""A price that grows with the flagged answers: the n-th of them costs p(n).

1. p is a table of steps: from flagged answer n on, each costs so much. The first step is at 1.
2. It may begin `again`: `again=101` means that the 101st costs what the first did, so that a policy
   of "an account is lost with every 100th" is {1: 1.0, 100: 500.0} again at 101.
3. What n flagged answers cost is a function of n (`total`), so a cost stays one of counts, and in
   whatever chunks answers come they cost the same to the last bit.

Prices: what an answer costs, by its label.

1. A query is charged for the label it is answered with, never for which side it was meant to be on.
2. `ratio` (the paper's c*) is what an attack plans with: source price over the price of others.
   Where others are free (c* = infinity) attacks plan with 1e5, as the paper does; a price per class
   starts from the source's price over the default.
   A price per class that the user gave wins: the goal says which labels are flagged (goal.py), and
   all of them have the source price only where there is no table.
3. A cost is a function of counts: sum over the distinct prices, in rising order, of count x price.
   One formula for one row and for a million, so chunking cannot change a cost by a rounding.
4. A price may grow with the flagged answers (escalation.py): the n-th costs p(n). Counts are then
   of others and of flagged answers, attacks plan with p(1), and the dearest next answer is p(n+1),
   if that is not below what others cost.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .goal import Goal
from .validation import is_number, is_whole, shown

LARGEST_STEP = 10**12
"""The flagged answer of a step, at most: beyond it counts are no longer whole as floats."""


@dataclass(frozen=True)
class Escalation:
    """p(n), and its sum."""

    steps: tuple[tuple[int, float], ...]
    """From flagged answer n on, the price; n rising from 1."""
    again: int | None = None
    """The flagged answer at which the table begins again."""

    @classmethod
    def of(cls, steps: Mapping[int, float], again: int | None = None) -> Escalation:
        """Checked steps."""
        if not isinstance(steps, Mapping) or not steps:
            raise InputError(
                f"the steps of the price are {shown(steps)}",
                expected="a mapping from a flagged answer to the price from there on, as "
                "{1: 1.0, 100: 50.0}",
            )
        return cls(tuple(sorted((n, price) for n, price in steps.items())), again)

    def __post_init__(self) -> None:
        for n, price in self.steps:
            if not is_whole(n) or not 1 <= n <= LARGEST_STEP:
                raise InputError(
                    f"a price begins at flagged answer {shown(n)}",
                    expected=f"a whole number, 1 to {LARGEST_STEP:g}",
                )
            if not is_number(price) or not 0 <= price <= sys.float_info.max:
                raise InputError(
                    f"the price from flagged answer {n} on is {shown(price)}",
                    expected="a finite number, 0 or more",
                )
        if self.steps[0][0] != 1:
            raise InputError(
                f"the first price begins at flagged answer {self.steps[0][0]}", expected="1"
            )
        if self.again is not None and not (
            is_whole(self.again) and self.steps[-1][0] < self.again <= LARGEST_STEP
        ):
            raise InputError(
                f"the prices begin again at flagged answer {shown(self.again)}",
                expected=f"a whole number above {self.steps[-1][0]}, where the last of them begins",
            )
        object.__setattr__(self, "steps", tuple((int(n), float(p)) for n, p in self.steps))

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        return np.array([n for n, _ in self.steps])

    @cached_property
    def _prices(self) -> NDArray[np.float64]:
        return np.array([price for _, price in self.steps])

    @cached_property
    def _before(self) -> NDArray[np.float64]:
        """What all flagged answers before each step cost."""
        return np.append(0.0, np.cumsum(np.diff(self._starts) * self._prices[:-1]))

    @property
    def first(self) -> float:
        """p(1), which attacks plan with."""
        return self.steps[0][1]

    @property
    def highest(self) -> float:
        """The most that any flagged answer costs."""
        return float(self._prices.max())

    @property
    def cheapest(self) -> float:
        """The least that flagged answers cost for ever: of the last step, or of all if it begins
        again."""
        return float(self._prices.min() if self.again is not None else self._prices[-1])

    def price(self, flagged: Any) -> Any:
        """p(flagged + 1): what the next flagged answer costs after so many; any shape."""
        place = np.asarray(flagged)
        if self.again is not None:
            place = place % (self.again - 1)
        return self._prices[np.searchsorted(self._starts, place + 1, side="right") - 1]

    def total(self, flagged: Any) -> Any:
        """What so many flagged answers cost together; any shape."""
        count = np.asarray(flagged)
        if self.again is None:
            return self._within(count)
        rounds, rest = np.divmod(count, self.again - 1)
        return rounds * self._within(np.asarray(self.again - 1)) + self._within(rest)

    def _within(self, count: NDArray[np.int64]) -> NDArray[np.float64]:
        step = np.maximum(np.searchsorted(self._starts, count, side="right") - 1, 0)
        answered = np.maximum(count - self._starts[step] + 1, 0)
        return np.asarray(self._before[step] + answered * self._prices[step])

    def __str__(self) -> str:
        told = ", ".join(f"{price:g} from {n}" for n, price in self.steps[:3])
        more = ", …" if len(self.steps) > 3 else ""
        again = "" if self.again is None else f", again at {self.again}"
        return told + more + again


def worst_before_last(
    escalation: Escalation,
    other: float,
    flagged: int,
    others: int,
    rows: int,
    alarms: tuple[float, float] = (0.0, 0.0),
) -> float:
    """The most that what is spent before the last of `rows` more answers, and the dearest answer
    that it may have, can come to: over how many of those before it are flagged. `alarms`: what
    those before it, and one of its own, cost."""
    more = np.arange(rows)
    spent = (others + (rows - 1 - more)) * other + escalation.total(flagged + more)
    highest = np.maximum(escalation.price(flagged + more), other) + alarms[1]
    return float(np.max((spent + alarms[0]) + highest))


PLANNED_RATIO_AT_INFINITY = 1e5
"""What attacks plan with at c* = infinity (the paper, comparison to stealthy attacks)."""


def _checked_price(name: str, value: float) -> float:
    if not is_number(value):
        raise InputError(f"{name} is {shown(value)}", expected="a number, 0 or more")
    if not 0 <= value <= sys.float_info.max:
        raise InputError(
            f"{name} is {shown(value)}",
            expected="a finite number, 0 or more",
            remedy="for an infinite price use Prices.flagged_only()" if value == math.inf else "",
        )
    return float(value)


def _check_table(prices: Mapping[int, float]) -> None:
    if not isinstance(prices, Mapping):
        raise InputError(
            f"the prices per class are {shown(prices)}", expected="a mapping, as {3: 100.0}"
        )


def _checked_class(label: int) -> int:
    if not is_whole(label) or label < 0:
        raise InputError(
            f"there is a price for class {shown(label)}",
            expected="classes as whole numbers, 0 or more",
        )
    return int(label)


@dataclass(frozen=True)
class Prices:
    """Price of a flagged answer (of the source class, or of the goal's set) and of any other; or a
    price per class."""

    source: float = 1.0
    other: float = 1.0
    classes: Mapping[int, float] | None = field(default=None, hash=False)
    """Price by label; a label that is not listed costs `other`. `source` is then only for `ratio`,
    and is set by `for_source`."""
    escalation: Escalation | None = None
    """How the price of a flagged answer grows; `source` is then that of the first."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", _checked_price("the source price", self.source))
        object.__setattr__(self, "other", _checked_price("the price of other answers", self.other))
        if self.classes is not None:
            _check_table(self.classes)
            table = {
                _checked_class(label): _checked_price(f"the price of class {label}", price)
                for label, price in self.classes.items()
            }
            object.__setattr__(self, "classes", table)
        if self.escalation is not None:
            if not isinstance(self.escalation, Escalation):
                raise InputError(
                    f"the price that grows is {shown(self.escalation)}",
                    expected="tb.Prices.escalating({1: 1.0, 100: 50.0})",
                )
            if self.classes is not None:
                raise InputError(
                    "there are prices per class and one that grows", expected="one of the two"
                )
            object.__setattr__(self, "source", self.escalation.first)
        if self.highest == 0:
            raise InputError("all prices are 0", expected="at least one answer to cost something")

    @classmethod
    def per_class(cls, prices: Mapping[int, float], default: float = 1.0) -> Prices:
        """A price for each class listed, `default` for the others."""
        _check_table(prices)
        return cls(source=default, other=default, classes=prices)

    @classmethod
    def escalating(
        cls, steps: Mapping[int, float], again: int | None = None, other: float = 1.0
    ) -> Prices:
        """The n-th flagged answer costs p(n): `steps` has the price from a flagged answer on, as
        {1: 1.0, 100: 50.0}; with `again=101` the 101st costs what the first did, and so on."""
        return cls(other=other, escalation=Escalation.of(steps, again))

    @classmethod
    def flagged_only(cls) -> Prices:
        """c* = infinity: a source-class answer costs 1, any other is free; needs `max_queries`."""
        return cls(source=1.0, other=0.0)

    @cached_property
    def values(self) -> tuple[float, ...]:
        """The distinct prices that an answer may have, rising; of one that grows, what others and
        the first flagged answer cost."""
        if self.escalation is not None:
            return self.other, self.source
        if self.classes is None:
            return tuple(sorted({self.source, self.other}))
        return tuple(sorted({self.other, *self.classes.values()}))

    @cached_property
    def value_array(self) -> NDArray[np.float64]:
        """`values` as an array."""
        return np.array(self.values)

    @property
    def highest(self) -> float:
        """The most an answer may ever cost."""
        if self.escalation is not None:
            return max(self.other, self.escalation.highest)
        return self.values[-1]

    @property
    def cheapest(self) -> float:
        """The least that answers may cost for ever."""
        if self.escalation is not None:
            return min(self.other, self.escalation.cheapest)
        return self.values[0]

    def highest_next(self, counts: Sequence[int] | NDArray[np.int64]) -> Any:
        """The most that the next answer may cost, after counts by level; any leading axes."""
        if self.escalation is None:
            return self.highest
        flagged = np.asarray(counts)[..., -1]
        return np.maximum(self.escalation.price(flagged), self.other)

    def bound(self, counts: Sequence[int], rows: int) -> float:
        """Not less than `rows` more answers may cost, after counts by level."""
        if self.escalation is None:
            return self.highest * rows
        flagged = counts[-1]
        more = self.escalation.total(flagged + rows) - self.escalation.total(flagged)
        return float(more) + self.other * rows

    def worst_before_last(
        self, counts: NDArray[np.int64], rows: int, alarms: tuple[float, float] = (0.0, 0.0)
    ) -> float:
        """The most that what is spent before the last of `rows` more answers, with the dearest that
        it may have, can come to; to the last bit as the ledger will have it. `alarms`: what those
        before it, and one of its own, cost."""
        if self.escalation is None:
            worst = np.append(counts[:-1], counts[-1] + rows - 1)
            return (float(self.cost(worst)) + alarms[0]) + (self.highest + alarms[1])
        others, flagged = counts.tolist()
        return worst_before_last(self.escalation, self.other, flagged, others, rows, alarms)

    def of(self, label: int, goal: Goal) -> float:
        """Price of an answer `label`: the table's, if there is one, else by the goal's sides."""
        if self.classes is not None:
            return self.classes.get(label, self.other)
        return self.source if goal.flags(label) else self.other

    def level(self, label: int, goal: Goal) -> int:
        """The position of that price in `values`."""
        if self.escalation is not None:
            return int(goal.flags(label))
        return self.values.index(self.of(label, goal))

    def for_source(self, label: int, goal: Goal | None = None) -> Prices:
        """These prices with `source` set to what a flagged answer costs: one of class `label`, or
        of the dearest flagged class if that is not flagged."""
        if self.classes is None:
            return self
        goal = (goal or Goal()).for_label(label)
        labels = [label] if goal.flags(label) else sorted(goal.flagged or ())
        return replace(self, source=max(self.of(each, goal) for each in labels))

    @property
    def ratio(self) -> float:
        """The c* that attacks plan with; a side that is free is planned as 1e5 times cheaper."""
        if self.source == self.other:
            return 1.0
        if self.other == 0:
            return PLANNED_RATIO_AT_INFINITY
        if self.source == 0:
            return 1 / PLANNED_RATIO_AT_INFINITY
        return self.source / self.other

    @property
    def true_ratio(self) -> float:
        """c* as it is: 0 where the source is free, and infinite where others are."""
        if self.source == self.other:
            return 1.0
        return self.source / self.other if self.other else math.inf

    def levels(self, labels: NDArray[np.int64], goal: Goal) -> NDArray[np.intp]:
        """For each label the position of its price in `values`."""
        if self.escalation is not None:
            return goal.is_flagged(labels).astype(np.intp)
        if len(self.values) == 1:
            return np.zeros(len(labels), np.intp)
        if self.classes is None:
            low = int(self.source > self.other)  # position of the source price
            return np.where(goal.is_flagged(labels), low, 1 - low)
        distinct, places = np.unique(labels, return_inverse=True)
        position = {value: i for i, value in enumerate(self.values)}
        table = np.array([position[self.of(int(label), goal)] for label in distinct], np.intp)
        return table[places]

    def cost(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        """Cost of counts by level (last axis); any leading axes."""
        if self.escalation is not None:
            flagged = self.escalation.total(counts[..., 1])
            return np.asarray(counts[..., 0] * self.other + flagged)
        total = np.zeros(counts.shape[:-1])
        for level, value in enumerate(self.values):
            total = total + counts[..., level] * value
        return total

    def __repr__(self) -> str:
        fields = f"source={self.source!r}, other={self.other!r}, classes={self.classes!r}"
        growing = "" if self.escalation is None else f", escalation={self.escalation!r}"
        return f"Prices({fields}{growing})"

    def __str__(self) -> str:
        if self.classes is not None:
            return f"per class ({len(self.classes)} listed, default {self.other:g})"
        if self.escalation is not None:
            return f"escalating ({self.escalation}; others {self.other:g})"
        return f"c*={self.true_ratio:g}"
