"""What a detector says of harmless queries, in numbers: alarms mean nothing without these.

A session is a few queries about one image that nobody would call an attack (`benign.py` makes
them). The rate is the share of sessions with an alarm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Sessions:
    """How many there were, with how many queries, and what was said of them."""

    sessions: int = 0
    alarmed: int = 0
    """Sessions with an alarm."""
    queries: int = 0
    alarms: int = 0

    def __add__(self, other: Sessions) -> Sessions:
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Sessions(*(one + two for one, two in pairs))

    @property
    def rate(self) -> float:
        """The share of sessions with an alarm; 0 of none."""
        return self.alarmed / self.sessions if self.sessions else 0.0

    @property
    def per_query(self) -> float:
        """Alarms per query; 0 of none."""
        return self.alarms / self.queries if self.queries else 0.0


@dataclass(frozen=True)
class Panel:
    """Sessions by what was done to the images."""

    kinds: Mapping[str, Sessions]
    missing: tuple[str, ...] = ()
    """What there is none of, and why; or how the detector failed."""

    @property
    def all(self) -> Sessions:
        """Of every kind."""
        return sum(self.kinds.values(), Sessions())

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Panel:
        """What was written."""
        kinds = {name: Sessions(**counts) for name, counts in values["kinds"].items()}
        return cls(kinds, tuple(values["missing"]))

    @property
    def sentence(self) -> str:
        """What it found."""
        total = self.all
        each = ", ".join(f"{name} {one.rate:.0%}" for name, one in self.kinds.items())
        found = (
            f"Of {total.sessions} benign sessions {total.rate:.1%} raise an alarm ({each}), "
            f"{total.per_query:.3g} alarms a query."
            if total.sessions
            else "There is no benign session to compare with."
        )
        return " ".join([found, *(f"{text[:1].upper()}{text[1:]}." for text in self.missing)])
