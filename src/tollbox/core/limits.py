"""Limits: what one run may spend, take and be caught at.

1. Each is hard: a query is asked only if no answer to it could exceed a limit. So the dearest next
   answer fits into `budget`, fewer than `max_queries` were asked, and fewer than `max_flagged`
   answers were flagged: the last that a limit admits may be received, and nothing is asked after.
2. `max_flagged` does not end a run by itself, since answers that are not flagged never reach it.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Limits(NamedTuple):
    """Infinite where there is none."""

    budget: float = math.inf
    """What all answers may cost."""
    max_queries: float = math.inf
    max_flagged: float = math.inf
    """How many answers may be flagged."""


NO_LIMITS = Limits()
