"""A glance at a study: how far it has come, from the stores alone; quick, since without torch."""

from __future__ import annotations

import fcntl
import math
import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..core.stop import Stop
from .store.folder import shards
from .store.store import End, Store

FAILED = (Stop.MODEL_ERROR, Stop.ATTACK_ERROR)


@dataclass(frozen=True)
class SeriesStatus:
    """How far a line of the grid has come."""

    name: str
    cells: int
    done: int
    failed: int
    queries: int
    median: float
    """Of the final distances; NaN if nothing counts yet."""


class StudyStatus:
    """The stores of a study, open for reading. Use it as a context, or `close` it."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._open = ExitStack()
        self.stores = [
            self._open.enter_context(Store.open(path, write=False)) for path in shards(self.folder)
        ]
        self.about: dict[str, Any] = self.stores[0].about

    def __enter__(self) -> StudyStatus:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files."""
        self._open.close()

    @property
    def cells(self) -> int:
        """How many cells there are in all."""
        return len(self.about["lines"]) * int(self.about["width"])

    def finished(self) -> list[End]:
        """How each finished cell ended, in the order of the grid."""
        return sorted(end for store in self.stores for end in store.results())

    def status(self) -> list[SeriesStatus]:
        """How far each line has come."""
        ends: dict[int, list[End]] = {}
        width = int(self.about["width"])
        for end in self.finished():
            ends.setdefault(end.cell // width, []).append(end)
        names = enumerate(self.about["lines"])
        return [_status(name, width, ends.get(number, [])) for number, name in names]

    @property
    def warnings(self) -> list[str]:
        """What results carry along, each once."""
        return sorted({text for end in self.finished() for text in end.warnings})

    @property
    def running(self) -> list[str]:
        """Who is at work on it now."""
        return [holder for store in self.stores if (holder := _holder(store.path)) is not None]


def _status(name: str, width: int, ends: list[End]) -> SeriesStatus:
    left_out = (*FAILED, Stop.ALREADY_MISCLASSIFIED)
    distances = [end.distance for end in ends if end.stop not in left_out]
    return SeriesStatus(
        name,
        width,
        len(ends),
        sum(end.stop in FAILED for end in ends),
        sum(end.queries for end in ends),
        float(np.median(distances)) if distances else math.nan,
    )


def _holder(path: Path) -> str | None:
    """The process that has a shard locked, if one has."""
    try:
        handle = os.open(path.with_suffix(".lock"), os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return os.read(handle, 100).decode(errors="replace").strip() or "another process"
    finally:
        os.close(handle)
    return None
