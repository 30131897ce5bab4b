"""What is told while a study is run, how it is run, and how that went.

Engines are numbered; each has a process of its own, or is in the one of the caller. None of the
options changes a number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from ..core.result import Result
from ..core.stop import Stop
from ..workers.executors import Then


@dataclass(frozen=True)
class CellEnded:
    """A cell came to its end; `series` is the number of its series."""

    engine: int
    cell: int
    series: int
    stop: Stop
    distance: float
    queries: int


@dataclass(frozen=True)
class EngineProgress:
    """Where an engine's run on a model stands."""

    engine: int
    queries: dict[int, int]
    """By series, since the run on this model began; those of finished cells included."""
    spent: dict[int, float]
    """By series, the cells under way, each counted as the share of its budget that is spent."""


@dataclass(frozen=True)
class ModelBegun:
    """An engine is about to load and attack a model."""

    engine: int
    model: str


@dataclass(frozen=True)
class EngineLost:
    """An engine lost its process."""

    engine: int
    how: str
    """What the process did: "died (signal 9)"."""
    then: Then
    """What becomes of its cells."""


Event = CellEnded | EngineProgress | ModelBegun | EngineLost
Tell = Callable[[Event], None]


@dataclass
class Outcome:
    """How a run went."""

    unfinished: dict[int, Result | None] = field(default_factory=dict)
    """Cells that did not come to their end, and what they had reached; None if not begun."""
    diverged: dict[int, str] = field(default_factory=dict)
    """Cells that do not ask what they asked before, and where that showed."""
    restarted: int = 0


@dataclass(frozen=True)
class Options:
    """How a study is run."""

    rerun: bool = False
    """Begin cells anew that do not ask what they asked before."""
    failed: bool = False
    """Run cells again that ended in an error."""
    time_limit: float = math.inf
    force_workers: bool = False
    """As many processes as shards, even if they are more than cores."""
    in_order: bool = False
    """No more cells under way than a series has, or than half fill a batch: series then end one
    after the other, which matters where the time ends first."""
    share: float = 1.0
    """Of the machine's memory."""
    own_process: bool = False
    """The engine has a process of its own: if memory runs out, it goes on in another."""
