"""A preset: an attack by name, with its family, its method, its parts in words, and its source.

What code needs to know of a preset is a field of it, and never read from its name.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..core.problem import Attack
from .methods import Method


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
