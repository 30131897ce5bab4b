"""What a preset is among those of its family: a vanilla attack, or one with parts exchanged.

A method knows what a table calls it, where the trade-off figure puts it, and how the paper writes
the attacks that have it. Nothing of this is ever read from the name of a preset.

A preset: an attack by name, with its family, its method, its parts in words, and its source.

What code needs to know of a preset is a field of it, and never read from its name.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from ..core.problem import Attack


class Kind(enum.StrEnum):
    """The groups of the trade-off figure."""

    VANILLA = "vanilla"
    ASYMMETRIC = "asymmetric"
    STEALTHY = "stealthy"
    OWN = "own"
    """An attack of this package, which the paper does not have."""


class Method(enum.Enum):
    """How an attack differs from the vanilla one of its family."""

    VANILLA = ("VA", Kind.VANILLA, "{}")
    AS = ("VA+AS", Kind.ASYMMETRIC, "{}+AS")
    AGREST = ("VA+AGREST", Kind.ASYMMETRIC, "{}+AGREST")
    BOTH = ("VA+AS+AGREST", Kind.ASYMMETRIC, "A-{}")
    CALIBRATED = ("measured overshoot", Kind.OWN, "{}+calibrated")
    STEALTHY = ("stealthy", Kind.STEALTHY, "Stealthy {}")
    ORIGINAL = ("original", Kind.VANILLA, "original {}")
    OWN = ("ours", Kind.OWN, "{}")
    RESCALED = ("with SeRI's rescaling", Kind.OWN, "{}+SeRI")
    SURROGATE = ("ours, with a surrogate", Kind.OWN, "{}+surrogate")

    def __init__(self, words: str, kind: Kind, title: str) -> None:
        self.words = words
        """For a table."""
        self.kind = kind
        """For the trade-off figure."""
        self._title = title

    def title(self, family: str) -> str:
        """An attack of this family with this method, as the paper writes it."""
        return self._title.format(family)


@dataclass(frozen=True)
class Preset:
    """A named attack."""

    name: str
    family: str
    method: Method
    parts: str
    """In words."""
    source: str
    """Where its settings are from."""
    attack: Attack
    complete: bool = False
    """Nothing more of the attack can be made asymmetric: the paper calls it A-, then the family."""

    @property
    def title(self) -> str:
        """The name as the paper writes it."""
        return (Method.BOTH if self.complete else self.method).title(self.family)

    @property
    def words(self) -> str:
        """The method as a table has it."""
        return f"{self.method.words} ({self.title})" if self.complete else self.method.words
