"""Limits: what one run may spend, take and be caught at.

1. Each is hard: a query is asked only if no answer to it could exceed a limit. So the dearest next
   answer fits into `budget`, fewer than `max_queries` were asked, fewer than `max_flagged` answers
   were flagged, and fewer than `max_alarms` raised an alarm (watch.py): the last that a limit
   admits may be received, and nothing is asked after.
2. `max_flagged` and `max_alarms` do not end a run by themselves, since some answers never reach
   them.
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
    max_alarms: float = math.inf


NO_LIMITS = Limits()
