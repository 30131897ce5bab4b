"""The state of a study, read from its stores alone; fast, since it needs no torch."""

from __future__ import annotations

import itertools
import math
import tomllib
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from ..core.exactness import Exactness
from ..core.metric import Metric
from ..core.resolution import unresolved, warnings_of
from ..core.stop import Stop
from ..data.tables import path_of
from .store.codec import End
from .store.connection import DAMAGE, damaged, lock_holder
from .store.record import per_model
from .store.store import open_shards


def counts_in_median(stop: Stop) -> bool:
    """Return whether the image was attacked and the run was not cut short."""
    return stop.attacked and not stop.cut_short


@dataclass(frozen=True)
class SeriesStatus:
    name: str
    cells: int
    done: int
    failed: int
    queries: int
    """Queries of finished cells, and the recorded answers of unfinished ones."""
    median: float
    """Median of the final distances; NaN if no cell counts yet."""
    counted: int
    """Number of cells that count in the median."""
    without_point: Mapping[Stop, int]
    """Number of these cells without an adversarial point, by the reason why they stopped."""
    norm: Metric
    alarms: int | None = None
    """Number of alarms in all cells; None without a detector."""
    first_alarm: float = math.nan
    """Median number of queries up to the first alarm, over cells with one."""


@dataclass(frozen=True)
class Failure:
    """Cells that failed for one reason, and the first of them."""

    reason: str
    cells: int
    series: int
    """Number of the series of the first cell."""
    image: str
    seed: int


class StudyStatus:
    """The stores of a study, open for reading. Use it as a context manager, or `close` it."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = path_of(folder, "folder")
        with ExitStack() as opened:
            self.stores = open_shards(self.folder, opened)
            self._opened = opened.pop_all()
        self.record = self.stores[0].study
        self.images = self.stores[0].images()
        """Content hash, label and name of each image."""
        kept = self.record.kept
        counts = {len(self.images)}
        if kept is not None:
            counts = {len(kept.of_model.get(name, ())) for name in self.record.models}
            most = max((place for places in kept.of_model.values() for place in places), default=0)
            counts |= {0} if most >= len(self.images) else set()
        if 0 in counts or len(counts) > 1 or self.record.width % counts.pop():
            raise damaged(self.stores[0].path, "its images do not match its cells")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._opened.close()

    def __len__(self) -> int:
        return sum(len(store.results()) for store in self.stores)

    def finished(self) -> list[End]:
        """Return the outcome of each finished cell, in the order of the grid."""
        return sorted(end for store in self.stores for end in store.results())

    def status(self) -> list[SeriesStatus]:
        record, by_series = self.record, defaultdict[int, list[End]](list)
        for end in self.finished():
            by_series[end.cell // record.width].append(end)
        unfinished = Counter[int]()
        for store in self.stores:
            for cell, rows in store.rows_under_way().items():
                unfinished[cell // record.width] += rows
        found = []
        for number, name in enumerate(record.series):
            ends, under_way = by_series[number], unfinished[number]
            counted = [end for end in ends if counts_in_median(end.stop)]
            firsts = [end.first_alarm.queries for end in ends if end.first_alarm is not None]
            found.append(
                SeriesStatus(
                    name,
                    cells=record.cells_of(number, number + 1),
                    done=len(ends),
                    failed=sum(end.stop.failed for end in ends),
                    queries=sum(end.queries for end in ends) + under_way,
                    median=_median([end.distance for end in counted]),
                    counted=len(counted),
                    without_point=Counter(e.stop for e in counted if math.isinf(e.distance)),
                    norm=record.norm,
                    alarms=None if record.detector is None else sum(end.alarms for end in ends),
                    first_alarm=_median(firsts),
                )
            )
        return found

    def failures(self) -> list[Failure]:
        """Return the failed cells grouped by recorded reason, the most frequent reason first."""
        groups = defaultdict[str, list[End]](list)
        for end in self.finished():
            if end.stop.failed:
                groups[end.reason].append(end)
        found = []
        for reason, ends in sorted(groups.items(), key=lambda group: -len(group[1])):
            series, image = ends[0].cell // self.record.width, self._image(ends[0].cell)
            found.append(Failure(reason, len(ends), series, self.images[image][2], ends[0].seed))
        return found

    def _image(self, cell: int) -> int:
        series, rest = divmod(cell, self.record.width)
        if self.record.kept is None:
            return rest % len(self.images)
        models = [*self.record.models]
        own = self.record.kept.of_model[models[series * len(models) // len(self.record.series)]]
        return own[rest % len(own)]

    @property
    def series_keys(self) -> list[tuple[str, str, float | str]]:
        """Model, attack and price (c*, or the file of prices) of each series."""
        try:
            entries = tomllib.loads(self.record.text)["prices"]
            prices = [entry["ratio"] if isinstance(entry, dict) else entry for entry in entries]
        except DAMAGE:
            prices = []
        keys = [*itertools.product(self.record.models, self.record.attacks, prices)]
        known = all(isinstance(price, int | float | str) for price in prices)
        if not known or len(keys) != len(self.record.series):
            raise damaged(self.stores[0].path, "its study text does not match its series")
        return keys

    @property
    def warnings(self) -> list[str]:
        """Findings of the model check, and warnings in results, each once."""
        findings = [finding.rstrip(".") for finding in self.record.findings]
        return findings + warnings_of(self.finished(), self._owner)

    @property
    def unresolved(self) -> list[str]:
        """The warnings about radii that the models do not resolve."""
        return unresolved(self.finished(), self._owner)

    def _owner(self, end: End) -> str:
        """Return words for the attack and the model of a cell, as far as there are others."""
        models, attacks = [*self.record.models], self.record.attacks
        pairs, series = len(models) * len(attacks), end.cell // self.record.width
        model, attack = divmod(series * pairs // len(self.record.series), len(attacks) or 1)
        of = f" of {attacks[attack]}" if len(attacks) > 1 else ""
        return f"{of} on {models[model]}" if len(models) > 1 else of

    @property
    def kept(self) -> list[str]:
        """Sentences about the images of each model, if it does not have all of them."""
        return [] if self.record.kept is None else self.record.kept.sentences

    @property
    def sizes(self) -> list[str]:
        """A sentence about how images got their size, if they were resized or cropped."""
        return [] if self.record.resizing is None else [f"Images are {self.record.resizing}."]

    @property
    def detector(self) -> list[str]:
        """Sentences about the detector and its alarm rates on benign queries."""
        return [] if self.record.detector is None else self.record.detector.sentences

    @property
    def exactness(self) -> list[str]:
        """Sentences about whether repeated runs of each model agree bit for bit."""
        return per_model({name: self.exactness_of(name).sentence for name in self.record.models})

    def exactness_of(self, model: str) -> Exactness:
        """Return the exactness found for a model, and whether it has held until now."""
        per_model = len(self.record.series) * self.record.width // len(self.record.models)
        number = [*self.record.models].index(model)
        ends = (end for end in self.finished() if end.cell // per_model == number)
        return self.record.exactness_of(model).after(text for end in ends for text in end.warnings)

    @property
    def running(self) -> list[str]:
        """Processes that are running the study now."""
        return [holder for store in self.stores if (holder := lock_holder(store.path)) is not None]


def _median(values: list[float] | list[int]) -> float:
    return float(np.median(values)) if values else math.nan
