"""What is asked of an audit's recorded answers: at which ε, for which worth, under which policy.
None of it changes what is run, so each can be asked again, and otherwise, of a finished audit.

1. An ε is an ℓ2 distance; `4/255` is the distance at which the root mean square of the change is 4
   steps of 8-bit pixels: 4/255 x √(values of an image).
2. Without any, the levels are powers of two of such steps: from the first that at least a tenth of
   the images were brought within, five of them, up to the first that all were.
3. The headline is the smallest level that at least three in four of the images were brought
   within; else the one with most.
4. A policy is a CSV of prices that grow with the flagged answers (data/price_tables.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..core.prices import Escalation, Prices
from ..core.result import Values
from ..core.validation import is_number, shown
from ..data.price_tables import growing_prices_from
from ..errors import FileError, InputError

STEPS = 255.0
LADDER = tuple(2.0**power for power in range(-4, 8))
MOST_LEVELS = 5
FEWEST_REACHED = 0.1
HEADLINE_REACHED = 0.75
MOST = 1e15
"""That a worth or an ε may be: beyond it nobody means one, and sums overflow."""
USUAL = 8.0
"""The level, in steps, where nothing was reached."""
LEAST = 1e-15
"""That an ε may be, likewise."""
EPSILON = "ℓ2 distances above 0 (1e-15 to 1e15), as 0.5,1, or steps of 8-bit pixels, as 2/255,4/255"


@dataclass(frozen=True)
class Policy:
    """Prices that grow with the flagged answers, and what they are called."""

    name: str
    prices: Prices

    @classmethod
    def from_csv(cls, path: str | Path) -> Policy:
        """That of a file with the columns flagged and price."""
        try:
            prices = growing_prices_from(str(path))
        except FileError as error:
            raise error.renamed({"price": "policy"}) from None
        return cls(Path(path).stem, prices)

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        growth = self.prices.escalation
        steps = [] if growth is None else [list(step) for step in growth.steps]
        again = None if growth is None else growth.again
        return {"name": self.name, "steps": steps, "again": again, "other": self.prices.other}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Policy:
        """What was written."""
        growth = Escalation(tuple((n, price) for n, price in values["steps"]), values["again"])
        return cls(values["name"], Prices(other=values["other"], escalation=growth))


@dataclass(frozen=True)
class Questions:
    """What is asked."""

    worth: float | None = None
    """What a changed image is worth to an attacker."""
    epsilons: tuple[str, ...] = ()
    """As they are given; none: those of the ladder."""
    policy: Policy | None = None

    def __post_init__(self) -> None:
        if self.worth is not None and not (is_number(self.worth) and 0 < self.worth <= MOST):
            expected = "a number above 0, and at most 1e15"
            raise InputError(f"is {shown(self.worth)}", expected=expected, input="worth")
        for text in self.epsilons:
            distance(text, 1)

    @classmethod
    def of(
        cls,
        worth: float | None = None,
        epsilon: str | float | Iterable[str | float] | None = None,
        policy: str | Path | Prices | None = None,
    ) -> Questions:
        """What a caller writes."""
        if isinstance(policy, Prices):
            if policy.escalation is None:
                raise InputError(
                    f"is {policy}", expected="tb.Prices.escalating({1: 1.0, ...})", input="policy"
                )
            asked: Policy | None = Policy("policy", policy)
        else:
            asked = None if policy is None else Policy.from_csv(policy)
        if epsilon is None:
            texts: tuple[str, ...] = ()
        elif isinstance(epsilon, str):
            texts = tuple(part.strip() for part in epsilon.split(","))
        elif isinstance(epsilon, Iterable):
            texts = tuple(str(part) for part in epsilon)
        else:
            texts = (str(epsilon),)
        return cls(worth, texts, asked)

    def or_else(self, others: Questions) -> Questions:
        """These, and those of `others` where nothing is asked here."""
        return Questions(
            others.worth if self.worth is None else self.worth,
            self.epsilons or others.epsilons,
            others.policy if self.policy is None else self.policy,
        )

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        policy = None if self.policy is None else self.policy.to_json()
        return {"worth": self.worth, "epsilons": list(self.epsilons), "policy": policy}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Questions:
        """What was written."""
        policy = values.get("policy")
        return cls(
            values.get("worth"),
            tuple(values.get("epsilons", ())),
            None if policy is None else Policy.from_json(policy),
        )

    def levels(self, nearest: Values, values: int) -> list[float]:
        """The ε that are asked, rising: `nearest` is how near each image was come to, and an image
        has so many values (rules 1 and 2)."""
        if self.epsilons:
            return sorted({distance(text, values) for text in self.epsilons})
        ladder = [step / STEPS * math.sqrt(values) for step in LADDER]
        shares = [float(np.mean(nearest <= level)) if len(nearest) else 0.0 for level in ladder]
        first = next((n for n, share in enumerate(shares) if share >= FEWEST_REACHED), None)
        if first is None:
            return [USUAL / STEPS * math.sqrt(values)]
        all_within = next((n for n, share in enumerate(shares) if share == max(shares)), first)
        return ladder[first : min(first + MOST_LEVELS, max(all_within, first) + 1)]


def headline(levels: Sequence[float], *nearest: Values) -> int:
    """The place of the level that is spoken of first; of several audits, one that all reached."""
    shares = [
        min(float(np.mean(each <= level)) if len(each) else 0.0 for each in nearest)
        for level in levels
    ]
    enough = next((n for n, share in enumerate(shares) if share >= HEADLINE_REACHED), None)
    return shares.index(max(shares)) if enough is None else enough


def distance(text: str, values: int) -> float:
    """An ε as text, as an ℓ2 distance of images of so many values; InputError if it is none."""
    number, slash, whole = str(text).partition("/")
    try:
        value = float(number)
        good = LEAST <= value <= MOST and (not slash or whole.strip() == "255")
    except ValueError:
        good = False
    if not good:
        raise InputError(f"has {shown(text)}", expected=EPSILON, input="epsilon")
    return value / STEPS * math.sqrt(values) if slash else value


def steps(distance: float, values: int) -> float:
    """An ℓ2 distance as the root mean square of a pixel's change, in 8-bit steps."""
    return STEPS * distance / math.sqrt(values)
