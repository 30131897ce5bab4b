"""Prices: what an answer costs, by its label.

1. A query is charged for the label of its answer, never for the label that the attack expected.
2. An attack plans with `ratio`, the paper's c*: the price of a flagged answer over that of another.
   If other answers are free (c* = infinity), attacks plan with 1e5, as the paper does.
3. If there is a price per class, that table decides. Otherwise all labels that the goal flags
   (goal.py) have the price `source`.
4. A cost is a function of counts: the sum over the distinct prices, in ascending order, of
   count x price. So the chunks in which answers arrive cannot change it by a rounding error.
5. The price may grow with the number of flagged answers (`Escalation`): the n-th costs p(n). There
   are then two counts, of other and of flagged answers, and attacks plan with p(1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .goal import Goal
from .validation import CLASS, expect, is_number, number, or_none, shown, whole

LARGEST_STEP = 10**12
"""Maximum n at which a step may start, so that counts are exact as floats."""
PLANNED_RATIO_AT_INFINITY = 1e5
"""The c* that attacks plan with at c* = infinity (paper, comparison to stealthy attacks)."""


def _check_place(n: Any) -> None:
    allowed = whole(1, LARGEST_STEP)
    expect(allowed.holds(n), f"a price starts at flagged answer {shown(n)}", allowed.words)


def _checked_price(name: str, value: float) -> float:
    infinite = is_number(value) and value == math.inf
    remedy = "for an infinite price use Prices.flagged_only()" if infinite else ""
    allowed = number(0)
    expect(allowed.holds(value), f"{name} is {shown(value)}", allowed.words, remedy)
    return float(value)


@dataclass(frozen=True)
class Escalation:
    """p(n), the price of the n-th flagged answer, and its sum.

    The table may start `again`: with {1: 1.0, 100: 500.0} and `again=101`, the 101st flagged answer
    costs 1 like the first, which models an account that is lost with every 100th.
    """

    steps: tuple[tuple[int, float], ...]
    """Pairs (n, price): the price applies from the n-th flagged answer; n ascends from 1."""
    again: int | None = None
    """The flagged answer at which the table starts again."""

    @classmethod
    def of(cls, steps: Mapping[int, float], again: int | None = None) -> Escalation:
        expected = "a mapping from a flagged answer to the price from there on, as "
        given = f"the steps of the price are {shown(steps)}"
        right = isinstance(steps, Mapping) and len(steps) > 0
        expect(right, given, expected + "{1: 1.0, 100: 50.0}")
        for n in steps:
            _check_place(n)
        return cls(tuple(sorted(steps.items())), again)

    def __post_init__(self) -> None:
        is_tuple = isinstance(self.steps, tuple) and len(self.steps) > 0
        pairs = is_tuple and all(isinstance(s, tuple) and len(s) == 2 for s in self.steps)
        given = f"the steps of the price are {shown(self.steps)}"
        expect(pairs, given, "pairs of a flagged answer and a price, as ((1, 1.0),)")
        for n, _ in self.steps:
            _check_place(n)
        steps = tuple(
            (int(n), _checked_price(f"the price from flagged answer {n} on", price))
            for n, price in self.steps
        )
        places = [n for n, _ in steps]
        given = f"the prices start at flagged answers {shown(places)}"
        expect(places == sorted(set(places)), given, "each once, in ascending order")
        object.__setattr__(self, "steps", steps)
        first, last = steps[0][0], steps[-1][0]
        expect(first == 1, f"the first price starts at flagged answer {first}", "1")
        given = f"the prices start again at flagged answer {shown(self.again)}"
        expected = f"a whole number above {last}, where the last price starts"
        expect(or_none(whole(last + 1, LARGEST_STEP)).holds(self.again), given, expected)

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        return np.array([n for n, _ in self.steps])

    @cached_property
    def _prices(self) -> NDArray[np.float64]:
        return np.array([price for _, price in self.steps])

    @cached_property
    def _before(self) -> NDArray[np.float64]:
        """Total cost of the flagged answers before each step."""
        return np.append(0.0, np.cumsum(np.diff(self._starts) * self._prices[:-1]))

    @property
    def highest(self) -> float:
        return float(self._prices.max())

    @property
    def cheapest(self) -> float:
        """The lowest lasting price: that of the last step, or of all steps if the table repeats."""
        return float(self._prices.min() if self.again is not None else self._prices[-1])

    def price(self, flagged: Any) -> Any:
        """Return p(flagged + 1), the price of the next flagged answer; `flagged` has any shape."""
        place = np.asarray(flagged)
        if self.again is not None:
            place = place % (self.again - 1)
        return self._prices[np.searchsorted(self._starts, place + 1, side="right") - 1]

    def total(self, flagged: Any) -> Any:
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
        parts = [f"{price:g} from {n}" for n, price in self.steps[:3]]
        parts += ["…"] if len(self.steps) > 3 else []
        return ", ".join(parts + ([] if self.again is None else [f"again at {self.again}"]))


@dataclass(frozen=True)
class Prices:
    """The price of a flagged answer and of any other answer; or a price per class."""

    source: float = 1.0
    """Price of a flagged answer: by default, one with the source class."""
    other: float = 1.0
    classes: Mapping[int, float] | None = field(default=None, hash=False)
    """Price by label; unlisted labels cost `other`. `ratio` uses `source`, set by `for_source`."""
    escalation: Escalation | None = None
    """Prices that grow with the number of flagged answers; `source` is then the first of them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", _checked_price("the source price", self.source))
        object.__setattr__(self, "other", _checked_price("the price of other answers", self.other))
        if self.classes is not None:
            object.__setattr__(self, "classes", _checked_table(self.classes))
        if self.escalation is not None:
            given = f"the growing price is {shown(self.escalation)}"
            right = isinstance(self.escalation, Escalation)
            expect(right, given, "tb.Prices.escalating({1: 1.0, 100: 50.0})")
            both = "prices per class and a growing price are both set"
            expect(self.classes is None, both, "one of the two")
            object.__setattr__(self, "source", self.escalation.steps[0][1])
        expect(self.highest > 0, "all prices are 0", "at least one answer to cost something")

    @classmethod
    def per_class(cls, prices: Mapping[int, float], default: float = 1.0) -> Prices:
        """Return prices with one price for each listed class, and `default` for the others."""
        return cls(source=default, other=default, classes=_checked_table(prices))

    @classmethod
    def escalating(
        cls, steps: Mapping[int, float], again: int | None = None, other: float = 1.0
    ) -> Prices:
        """Return prices that grow: `steps` maps a flagged answer to the price from there on, such
        as {1: 1.0, 100: 50.0}; with `again=101`, the 101st flagged answer costs the same as the
        first, and so on."""
        return cls(other=other, escalation=Escalation.of(steps, again))

    @classmethod
    def flagged_only(cls) -> Prices:
        """Return prices for c* = infinity: flagged answers cost 1, others 0. Set `max_queries`."""
        return cls(source=1.0, other=0.0)

    @cached_property
    def values(self) -> tuple[float, ...]:
        """The distinct prices of an answer, ascending; if prices escalate, the price of other
        answers and that of the first flagged answer."""
        if self.escalation is not None:
            return self.other, self.source
        if self.classes is None:
            return tuple(sorted({self.source, self.other}))
        return tuple(sorted({self.other, *self.classes.values()}))

    @cached_property
    def value_array(self) -> NDArray[np.float64]:
        return np.array(self.values)

    @property
    def highest(self) -> float:
        """The highest price that an answer can ever have."""
        if self.escalation is not None:
            return max(self.other, self.escalation.highest)
        return self.values[-1]

    @property
    def cheapest(self) -> float:
        """The lowest price that an unlimited number of answers can have."""
        if self.escalation is not None:
            return min(self.other, self.escalation.cheapest)
        return self.values[0]

    def highest_next(self, counts: Sequence[int] | NDArray[np.int64]) -> Any:
        """Return the highest price of the next answer; the last axis of `counts` is the level."""
        if self.escalation is None:
            return self.highest
        flagged = np.asarray(counts)[..., -1]
        return np.maximum(self.escalation.price(flagged), self.other)

    def bound(self, counts: Sequence[int], rows: int) -> float:
        """Return an upper bound on the cost of `rows` more answers, given counts by level."""
        if self.escalation is None:
            return self.highest * rows
        flagged = counts[-1]
        more = self.escalation.total(flagged + rows) - self.escalation.total(flagged)
        return float(more) + self.other * rows

    def worst_before_last(
        self, counts: NDArray[np.int64], rows: int, alarms: tuple[float, float] = (0.0, 0.0)
    ) -> float:
        """Return the highest possible cost before the last of `rows` more answers, plus the highest
        price of that answer, bit for bit as the ledger computes it. `alarms`: the cost of all
        alarms before that answer, and of its own alarm."""
        if self.escalation is None:
            worst = np.append(counts[:-1], counts[-1] + rows - 1)
            return (float(self.cost(worst)) + alarms[0]) + (self.highest + alarms[1])
        others, flagged = counts.tolist()
        more = np.arange(rows)  # the number of flagged answers among those before the last
        spent = (others + (rows - 1 - more)) * self.other + self.escalation.total(flagged + more)
        highest = np.maximum(self.escalation.price(flagged + more), self.other) + alarms[1]
        return float(np.max((spent + alarms[0]) + highest))

    def of(self, label: int, goal: Goal) -> float:
        """Return the price of an answer: from the table if there is one, otherwise by the goal."""
        if self.classes is not None:
            return self.classes.get(label, self.other)
        return self.source if goal.flags(label) else self.other

    def level(self, label: int, goal: Goal) -> int:
        """Return the index of a label's price in `values`."""
        if self.escalation is not None:
            return int(goal.flags(label))
        return self.values.index(self.of(label, goal))

    def levels(self, labels: NDArray[np.int64], goal: Goal) -> NDArray[np.intp]:
        if self.escalation is not None:
            return goal.is_flagged(labels).astype(np.intp)
        if len(self.values) == 1:
            return np.zeros(len(labels), np.intp)
        if self.classes is None:
            low = int(self.source > self.other)  # index of the price `source`
            return np.where(goal.is_flagged(labels), low, 1 - low)
        distinct, places = np.unique(labels, return_inverse=True)
        position = {value: i for i, value in enumerate(self.values)}
        table = np.array([position[self.of(int(label), goal)] for label in distinct], np.intp)
        return table[places]

    def cost(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the cost of these answers; the last axis of `counts` is the level."""
        if self.escalation is not None:
            flagged = self.escalation.total(counts[..., 1])
            return np.asarray(counts[..., 0] * self.other + flagged)
        total = np.zeros(counts.shape[:-1])
        for level, value in enumerate(self.values):
            total = total + counts[..., level] * value
        return total

    def for_source(self, label: int, goal: Goal | None = None) -> Prices:
        """Return these prices with `source` set to the price of class `label`, or of the most
        expensive flagged class if `label` is not flagged."""
        if self.classes is None:
            return self
        goal = (goal or Goal()).for_label(label)
        labels = [label] if goal.flags(label) else sorted(goal.flagged or ())
        return replace(self, source=max(self.of(each, goal) for each in labels))

    @property
    def ratio(self) -> float:
        """The c* that attacks plan with; free answers count as 1e5 times cheaper."""
        if self.source == self.other:
            return 1.0
        if self.other == 0:
            return PLANNED_RATIO_AT_INFINITY
        if self.source == 0:
            return 1 / PLANNED_RATIO_AT_INFINITY
        return self.source / self.other

    @property
    def true_ratio(self) -> float:
        """The exact c*: 0 if flagged answers are free, and infinite if other answers are."""
        if self.source == self.other:
            return 1.0
        return self.source / self.other if self.other else math.inf

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


def _checked_table(prices: Mapping[int, float]) -> dict[int, float]:
    """Return the table with checked classes and prices; raise InputError if one is wrong."""
    given = f"the prices per class are {shown(prices)}"
    expect(isinstance(prices, Mapping), given, "a mapping, as {3: 100.0}")
    expected = "classes as whole numbers, 0 or more"
    for label in prices:
        expect(CLASS.holds(label), f"a price is set for class {shown(label)}", expected)
    return {
        int(label): _checked_price(f"the price of class {label}", price)
        for label, price in prices.items()
    }
