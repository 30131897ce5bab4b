"""The two rules for the distance of a run at a given cost; importable without torch and numpy."""

from __future__ import annotations

import enum


class DistanceRule(enum.StrEnum):
    """Rule that determines the distance of a run at a given cost."""

    HARD = "hard"
    """The smallest distance found under a hard budget: a step function of the cost."""
    PAPER = "paper"
    """The distance of the iterates, interpolated linearly."""

    @property
    def caption(self) -> str:
        return {
            DistanceRule.HARD: "best distance under a hard budget",
            DistanceRule.PAPER: "the paper's rule: iterates only, interpolated",
        }[self]
