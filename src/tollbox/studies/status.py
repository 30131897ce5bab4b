"""How far a study has come, from the stores alone; quick, since without torch."""

from __future__ import annotations

import itertools
import math
import tomllib
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..core.exactness import Exactness
from ..core.metric import Metric
from ..core.stop import Stop
from ..data.tables import path_of
from ..errors import FileError
from .store.codec import End
from .store.connection import lock_holder
from .store.folder import shard_paths
from .store.record import StudyRecord
from .store.store import Store


def counts_in_median(stop: Stop) -> bool:
    """The run says how near the attack comes to the image: it was not cut short, and the image was
    attacked at all."""
    return stop.attacked and not stop.cut_short


@dataclass(frozen=True)
class SeriesStatus:
    """How far a series has come."""

    name: str
    cells: int
    done: int
    failed: int
    queries: int
    median: float
    """Of the final distances; NaN if nothing counts yet."""
    counted: int
    """Cells that the median is over."""
    without_point: Mapping[Stop, int]
    """Those of them that have no adversarial point, by why they ended."""
    norm: Metric
    """What the median is in."""
    alarms: int | None = None
    """Of all its cells; None if nobody watched."""
    first_alarm: float = math.nan
    """After how many queries the first came, in the median over cells with one."""


@dataclass(frozen=True)
class Failure:
    """Cells that failed for one reason, and the first of them."""

    reason: str
    cells: int
    series: int
    """The number of the series that the first is in."""
    image: str
    """What its image is called."""
    seed: int


class StudyStatus:
    """The stores of a study, open for reading. Use it as a context, or `close` it."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = path_of(folder, "folder")
        self._open = ExitStack()
        self.stores = [
            self._open.enter_context(Store.open(path, write=False))
            for path in shard_paths(self.folder)
        ]
        self.record = self.stores[0].study

    def __enter__(self) -> StudyStatus:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files."""
        self._open.close()

    @property
    def cells(self) -> int:
        """How many cells there are in all, in this folder."""
        return self.record.cells

    def finished(self) -> list[End]:
        """How each finished cell ended, in the order of the grid."""
        return sorted(end for store in self.stores for end in store.results())

    def status(self) -> list[SeriesStatus]:
        """How far each series has come."""
        record, ends = self.record, defaultdict[int, list[End]](list)
        for end in self.finished():
            ends[end.cell // record.width].append(end)
        return [
            _series_status(name, record.cells_of(n, n + 1), ends[n], record)
            for n, name in enumerate(record.series)
        ]

    def failures(self) -> list[Failure]:
        """Failed cells by the reason that is recorded, the most frequent one first."""
        groups = defaultdict[str, list[End]](list)
        for end in self.finished():
            if end.stop.failed:
                groups[end.reason].append(end)
        most_first = sorted(groups.items(), key=lambda group: -len(group[1]))
        images = self.stores[0].images() if groups else []
        return [
            Failure(
                reason,
                len(ends),
                ends[0].cell // self.record.width,
                images[self._image(ends[0].cell, len(images))][2],
                ends[0].seed,
            )
            for reason, ends in most_first
        ]

    def _image(self, cell: int, images: int) -> int:
        """Which of the study's images a cell has."""
        series, rest = divmod(cell, self.record.width)
        if self.record.kept is None:
            return rest % images
        models = [*self.record.models]
        own = self.record.kept.of_model[models[series * len(models) // len(self.record.series)]]
        return own[rest % len(own)]

    @property
    def grid(self) -> list[tuple[str, str | None, float | str]]:
        """Of each series its model, its attack (None: the store does not say) and its price: c*, or
        the file of prices as the study has it."""
        record = self.record
        try:
            entries = tomllib.loads(record.text)["prices"]
            prices = [entry["ratio"] if isinstance(entry, dict) else entry for entry in entries]
            unknown = len(record.series) // (len(record.models) * len(prices))
        except (ValueError, KeyError, TypeError, ZeroDivisionError):
            raise FileError(f"{self.folder} has a study whose text has no prices") from None
        attacks = [None] * unknown if record.attacks is None else [*record.attacks]
        return [*itertools.product(record.models, attacks, prices)]

    @property
    def warnings(self) -> list[str]:
        """What the check of the models found, and what results carry along, each once."""
        carried = {text for end in self.finished() for text in end.warnings}
        return [finding.rstrip(".") for finding in self.record.findings] + sorted(carried)

    @property
    def kept(self) -> list[str]:
        """Which images each model has, in a sentence, where it has not all of them."""
        return [] if self.record.kept is None else self.record.kept.sentences

    @property
    def sizes(self) -> list[str]:
        """How pictures got their size, in a sentence, where they were resized or cropped."""
        return [] if self.record.resizing is None else [f"Pictures are {self.record.resizing}."]

    @property
    def watch(self) -> list[str]:
        """Who watches, and what that says of harmless queries, in sentences."""
        return [] if self.record.watch is None else self.record.watch.sentences

    @property
    def exactness(self) -> list[str]:
        """Whether repeated runs agree bit for bit, for each model in a sentence."""
        found = {name: self.exactness_of(name).sentence for name in self.record.models}
        if len(set(found.values())) == 1:
            return [*found.values()][:1]
        return [f"The model {name!r}: {sentence}" for name, sentence in found.items()]

    def exactness_of(self, model: str) -> Exactness:
        """What was found of a model, and whether it held until now."""
        per_model = len(self.record.series) * self.record.width // len(self.record.models)
        number = [*self.record.models].index(model)
        ends = (end for end in self.finished() if end.cell // per_model == number)
        return self.record.exactness_of(model).after(text for end in ends for text in end.warnings)

    @property
    def running(self) -> list[str]:
        """Who is at work on it now."""
        holders = (lock_holder(store.path) for store in self.stores)
        return [holder for holder in holders if holder is not None]


def _series_status(name: str, cells: int, ends: list[End], record: StudyRecord) -> SeriesStatus:
    counted = [end for end in ends if counts_in_median(end.stop)]
    firsts = [end.first_alarm.queries for end in ends if end.first_alarm is not None]
    return SeriesStatus(
        name,
        cells=cells,
        done=len(ends),
        failed=sum(end.stop.failed for end in ends),
        queries=sum(end.queries for end in ends),
        median=float(np.median([end.distance for end in counted])) if counted else math.nan,
        counted=len(counted),
        without_point=Counter(end.stop for end in counted if math.isinf(end.distance)),
        norm=record.norm,
        alarms=None if record.watch is None else sum(end.alarms for end in ends),
        first_alarm=float(np.median(firsts)) if firsts else math.nan,
    )
