"""Reports: tables, figures and one HTML page from the results of a study.

This file needs neither torch nor numpy, so that the command line can list the distance rules.
"""

from __future__ import annotations

import enum


class DistanceRule(enum.StrEnum):
    """The rule that determines the distance of a run at a given cost."""

    HARD = "hard"
    """The smallest distance found under a hard budget: a step function of the cost."""
    PAPER = "paper"
    """The distance of the iterates, interpolated linearly."""

    @property
    def caption(self) -> str:
        if self is DistanceRule.PAPER:
            return "the paper's rule: iterates only, interpolated"
        return "best distance under a hard budget"
