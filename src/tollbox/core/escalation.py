"""A price that grows with the flagged answers: the n-th of them costs p(n).

1. p is a table of steps: from flagged answer n on, each costs so much. The first step is at 1.
2. It may begin `again`: `again=101` means that the 101st costs what the first did, so that a policy
   of "an account is lost with every 100th" is {1: 1.0, 100: 500.0} again at 101.
3. What n flagged answers cost is a function of n (`total`), so a cost stays one of counts, and in
   whatever chunks answers come they cost the same to the last bit.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .arguments import is_number, is_whole, shown

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
    def dearest(self) -> float:
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
    dearest = np.maximum(escalation.price(flagged + more), other) + alarms[1]
    return float(np.max((spent + alarms[0]) + dearest))
