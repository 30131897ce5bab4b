"""How a distance is read at a cost, of which there are two ways."""

from __future__ import annotations

import enum


class Reading(enum.StrEnum):
    """How a distance is read at a cost."""

    HARD = "hard"
    """The best that was asked under a hard budget: a step function."""
    PAPER = "paper"
    """The iterates, interpolated linearly."""

    @property
    def words(self) -> str:
        """For a caption."""
        return {
            Reading.HARD: "best distance under a hard budget",
            Reading.PAPER: "the paper's reading: iterates only, interpolated",
        }[self]
