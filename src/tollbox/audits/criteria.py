"""The criteria of an audit: the ε, the worth and the policy for which it reports costs.

None of them changes what is run, so you can change them for a finished audit.

1. An ε is an ℓ2 distance. `4/255` is the distance at which the root mean square of the change is 4
   steps of 8-bit pixels: 4/255 x √(values of an image).
2. The default levels are five powers of two of such steps: from the first that at least a tenth of
   the images reach, up to the first that all reach.
3. The headline is the smallest level that at least three quarters of the images reach; if there is
   none, the level that the most images reach.
4. A policy is a CSV of prices that grow with the number of flagged answers (data/price_tables.py).
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
from ..core.validation import Range, above, check, is_several, or_none, plain, shown
from ..data.price_tables import prices_from
from ..data.tables import path_of
from ..errors import FileError, InputError

STEPS = 255.0
LADDER = tuple(2.0**power for power in range(-4, 8))
MOST_LEVELS = 5
FEWEST_REACHED = 0.1
HEADLINE_REACHED = 0.75
DEFAULT_STEPS = 8.0
"""Level, in steps, if less than `FEWEST_REACHED` of the images reach any level."""
LEAST, MOST = 1e-15, 1e15
"""Bounds of a worth or an ε, beyond which sums would overflow."""
EPSILON = "ℓ2 distances above 0 (1e-15 to 1e15), as 0.5,1, or steps of 8-bit pixels, as 2/255,4/255"


@dataclass(frozen=True)
class Policy:
    """Prices that grow with the number of flagged answers, with a name."""

    name: str
    prices: Prices

    @classmethod
    def from_csv(cls, path: str | Path) -> Policy:
        """Read a file with the columns flagged and price."""
        try:
            prices = prices_from(str(path), growing=True)
        except FileError as error:
            raise error.renamed({"price": "policy"}) from None
        return cls(Path(path).stem, prices)

    def to_json(self) -> dict[str, Any]:
        growth = self.prices.escalation
        steps, again = ((), None) if growth is None else (growth.steps, growth.again)
        values = {"name": self.name, "steps": [list(step) for step in steps], "again": again}
        return values | {"other": self.prices.other}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Policy:
        growth = Escalation(tuple((n, price) for n, price in values["steps"]), values["again"])
        return cls(values["name"], Prices(other=values["other"], escalation=growth))


@dataclass(frozen=True)
class Criteria:
    """The ε, the worth and the policy for which an audit reports costs."""

    worth: float | None = None
    """What a changed image is worth to an attacker."""
    epsilons: tuple[str, ...] = ()
    """ε as the caller gives them; empty for the default levels."""
    policy: Policy | None = None

    def __post_init__(self) -> None:
        check(
            self, worth=or_none(Range("a number above 0, and at most 1e15", above(0, MOST).holds))
        )
        for text in self.epsilons:
            distance(text, 1)

    @classmethod
    def of(
        cls,
        worth: float | None = None,
        epsilon: str | float | Iterable[str | float] | None = None,
        policy: str | Path | Prices | None = None,
    ) -> Criteria:
        """Return the criteria that a caller specifies; a string may list several ε."""
        named = None
        if isinstance(policy, Prices):
            if policy.escalation is None:
                expected = "tb.Prices.escalating({1: 1.0, ...})"
                raise InputError(f"is {policy}", expected=expected, input="policy")
            named = Policy("policy", policy)
        elif policy is not None:
            named = Policy.from_csv(path_of(policy, "policy"))
        given: Any = epsilon.split(",") if isinstance(epsilon, str) else epsilon
        listed = given if is_several(given) else [] if given is None else [given]
        texts = (part if isinstance(part, str) else shown(plain(part)) for part in listed)
        return cls(worth, tuple(text.strip() for text in texts), named)

    def or_else(self, others: Criteria) -> Criteria:
        """Return these criteria, completed by `others`."""
        worth, epsilons = self.worth or others.worth, self.epsilons or others.epsilons
        return Criteria(worth, epsilons, self.policy or others.policy)

    def to_json(self) -> dict[str, Any]:
        policy = None if self.policy is None else self.policy.to_json()
        return {"worth": self.worth, "epsilons": list(self.epsilons), "policy": policy}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Criteria:
        policy = None if values["policy"] is None else Policy.from_json(values["policy"])
        return cls(values["worth"], tuple(values["epsilons"]), policy)

    def levels(self, smallest: Values, values: int) -> list[float]:
        """Return the ε in ascending order (rules 1 and 2).

        `smallest` has each image's smallest distance; `values` is the number of values in an image.
        """
        if self.epsilons:
            return sorted({distance(text, values) for text in self.epsilons})
        ladder = [step / STEPS * math.sqrt(values) for step in LADDER]
        shares = _shares(ladder, smallest)
        if max(shares) < FEWEST_REACHED:
            return [DEFAULT_STEPS / STEPS * math.sqrt(values)]
        first = _first(shares, FEWEST_REACHED)
        return ladder[first : min(first + MOST_LEVELS, shares.index(max(shares)) + 1)]


def _shares(levels: Sequence[float], smallest: Values) -> list[float]:
    """Return the share of the images that reach each level."""
    return [float(np.mean(smallest <= level)) if len(smallest) else 0.0 for level in levels]


def _first(shares: Sequence[float], enough: float) -> int:
    """Return the index of the first share of at least `enough`, else of the largest share."""
    return next((n for n, share in enumerate(shares) if share >= min(enough, max(shares))), 0)


def headline(levels: Sequence[float], *smallest: Values) -> int:
    """Return the index of the headline level (rule 3); several audits must all reach it."""
    each = [_shares(levels, one) for one in smallest]
    return _first([min(shares) for shares in zip(*each, strict=True)], HEADLINE_REACHED)


def distance(text: str, values: int) -> float:
    """Return an ε as an ℓ2 distance of images with `values` values; raise InputError if invalid."""
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
    """Return an ℓ2 distance as the root mean square of the change, in 8-bit steps."""
    return STEPS * distance / math.sqrt(values)
