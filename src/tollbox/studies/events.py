"""Events of a running study, the options of a run, and its outcome.

Workers are numbered from 0. None of the options changes a number in the results.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from ..core.result import Result
from ..core.stop import Stop
from ..workers.executors import OnLoss


@dataclass(frozen=True)
class CellEnded:
    """The finish of a cell; `series` is the number of its series."""

    worker: int
    cell: int
    series: int
    stop: Stop
    distance: float
    queries: int


@dataclass(frozen=True)
class WorkerProgress:
    """The state of a worker's run on one model."""

    worker: int
    queries: dict[int, int]
    """Queries by series since the run on this model started, including finished cells."""
    spent: dict[int, float]
    """Cells in progress by series, each counted as the share of its limits that is spent."""


@dataclass(frozen=True)
class ModelStarted:
    """The start of a worker's run on a model, before the model is loaded."""

    worker: int
    model: str


@dataclass(frozen=True)
class WorkerLost:
    """The loss of a worker's process."""

    worker: int
    how: str
    """What the process did, such as "died (signal 9)"."""
    then: OnLoss


Event = CellEnded | WorkerProgress | ModelStarted | WorkerLost
Tell = Callable[[Event], None]


@dataclass
class Outcome:
    """The cells that a run left unfinished or restarted, or that diverged."""

    unfinished: dict[int, Result | None] = field(default_factory=dict)
    """Cells that were interrupted, with their results so far; None if they were not started."""
    diverged: dict[int, str] = field(default_factory=dict)
    """Cells whose queries no longer match the recording, with the first difference."""
    restarted: int = 0


@dataclass(frozen=True)
class Options:
    rerun: bool = False
    """Whether to restart cells whose queries no longer match the recording."""
    failed: bool = False
    """Whether to rerun cells that failed with an error."""
    time_limit: float = math.inf
    force_workers: bool = False
    """Whether to start a process for each shard, even if there are more shards than cores."""
    in_order: bool = False
    """Whether to limit the cells run at a time to one series or half a batch, whichever is larger.
    Series then finish one after another, which matters if the time limit comes first."""
    share: float = 1.0
    """Share of the machine's memory that a worker may use."""
    own_process: bool = False
    """Whether the worker has its own process: if memory runs out, it continues in another one."""
    trust: bool = False
    """Whether the user trusts model files that can run code; never read from a study or a store."""
