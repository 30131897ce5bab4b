"""Execution: options for how a call is computed. Only `time_limit` changes results, provided that
a row of the network's output depends only on its own input (`Results.exactness`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from ..errors import InputError, mention
from .validation import check, check_flag, check_whole, checked_seconds, or_none, whole

LARGEST_BATCH = 65_536
MOST_WORKERS, MOST_RETRIES = 256, 100


class WorkerPool(Protocol):
    """A pool of running worker processes, such as `Workers`."""

    @property
    def count(self) -> int: ...


@dataclass(frozen=True)
class Execution:
    """Options that apply to a whole call, not to single images."""

    batch_size: int | None = None
    """Number of rows in a model batch; by default 256 on a GPU and 64 elsewhere."""
    live: int | None = None
    """Maximum number of images attacked at the same time; by default derived from the batch size
    and the available memory."""
    metered: bool = False
    """Whether the model bills every row: only rows that are certain to be charged are sent."""
    retries: int = 0
    """Number of times that a call of the model is repeated if it raises, for example because a
    service is busy: after 1, 2, 4, ... s, at most 30 s. Only the answer is charged; a service may
    bill failed calls as well."""
    one_shape: bool = False
    """Whether every batch is padded to one shape instead of a few."""
    exact: bool = False
    """Whether to look for a batch shape and layout in which a row of the network depends only on
    itself, bit for bit, and to refuse the model if there is none. These queries are not charged.
    If `batch_size` is set, no other size is tried."""
    check: bool = False
    """Whether to test first, with queries that are not charged, that the model is fit to be
    measured."""
    workers: int | WorkerPool = 1
    """Number of processes that share the work, at most one for each core; or a `Workers` pool,
    which can be forced to have more."""
    time_limit: float | str = math.inf
    """Time after which the call stops the attacks on all images: seconds, or text such as '30m'."""

    def __post_init__(self) -> None:
        check(self, batch_size=or_none(whole(1, LARGEST_BATCH)), live=or_none(whole(1)))
        check(self, retries=whole(0, MOST_RETRIES))
        for name in ("metered", "one_shape", "exact", "check"):
            check_flag(name, getattr(self, name))
        if not isinstance(getattr(self.workers, "count", None), int):
            check(self, workers=whole(1, MOST_WORKERS))
        seconds = checked_seconds("time_limit", self.time_limit)
        object.__setattr__(self, "time_limit", seconds)
        if self.metered and (self.check or self.exact):
            name = mention("check" if self.check else "exact")
            why = "the check sends queries that are not charged, and a metered model bills each row"
            why += "" if self.check else " and gets no padding, so that batch shapes vary"
            given = f"{name} and {mention('metered')} are both set: {why}"
            raise InputError(given, remedy=f"leave {name} out")


def check_workers(workers: object) -> None:
    """Raise InputError unless `workers` is a number of processes that can be started."""
    check_whole("workers", workers, 1, MOST_WORKERS)
