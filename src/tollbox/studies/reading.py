"""What a study has found so far, read from its folder; nothing is run, and no model is needed.

1. A finished cell is a row; those under way or not begun are counted only.
2. Labels carry no price: `rows(price=...)` gives what the same answers would have cost. For an
   attack that plans with the price, that is not what it would have done at that price.
3. `replayed` runs a cell again from its recorded answers, with a smaller budget if one is given: so
   the adversarial image at any cost can be had, though none was kept.
"""

from __future__ import annotations

import fcntl
import math
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..engine import Engine
from ..errors import InputError, Stop, UnknownNameError
from ..journal import Answered, History
from ..models.model import Model
from ..prices import Prices
from ..results import Result, Results
from . import records
from .folder import shards, study_of
from .grid import Grid, Line, Place
from .loading import load
from .shard import FAILED
from .store import Store

COLUMNS = (
    *("model", "attack", "price", "seed", "image", "name", "label", "stop", "reason"),
    *("distance", "cost", "queries", "flagged", "warnings"),
)


@dataclass(frozen=True)
class LineStatus:
    """How far a line of the grid has come."""

    line: Line
    name: str
    cells: int
    done: int
    failed: int
    queries: int
    median: float
    """Of the final distances; NaN if nothing counts yet."""


class StudyResults:
    """The results of a study, finished or not. Use it as a context, or `close` it."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._open = ExitStack()
        self._stores = [
            self._open.enter_context(Store.open(path, write=False)) for path in shards(self.folder)
        ]
        self.about: dict[str, Any] = self._stores[0].about
        self.study = study_of(self.about, files=False)
        self.images = self._stores[0].images()
        self.grid = Grid(self.study, len(self.images))

    def __enter__(self) -> StudyResults:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the files."""
        self._open.close()

    def __len__(self) -> int:
        return sum(len(store.results()) for store in self._stores)

    # -- tables -----------------------------------------------------------------------------------

    def _finished(self) -> list[tuple[Any, ...]]:
        return sorted(row for store in self._stores for row in store.results())

    def rows(self, price: float | None = None) -> Iterator[dict[str, Any]]:
        """A row for each finished cell; with `price`, as its answers would have cost then."""
        if price is not None and not price >= 0:
            raise InputError(f"the price is {price}: expected a number that is 0 or more, or inf.")
        for cell, seed, stop, reason, warnings, distance, cost, queries, source in self._finished():
            line, _, image = self.grid.place(cell)
            content, label, name = self.images[image]
            if price is not None:
                cost = cost_at(price, source, queries)
            values = (line.model.name, line.attack.name, line.tariff.name, seed, content, name)
            ends = (label, stop, reason, distance, cost, queries, source, warnings)
            yield dict(zip(COLUMNS, (*values, *ends), strict=True))

    def ends(self) -> Iterator[tuple[int, str, float]]:
        """(number of its line, stop, distance) of each finished cell."""
        for row in self._finished():
            yield self.grid.line_of(row[0]), row[2], row[5]

    def to_pandas(self, price: float | None = None) -> Any:
        """The rows as a pandas DataFrame, if pandas is there."""
        try:
            import pandas
        except ImportError:
            raise InputError(
                "pandas is not installed: expected it for to_pandas; install it, or use rows()."
            ) from None
        return pandas.DataFrame(list(self.rows(price)), columns=list(COLUMNS))

    def status(self) -> list[LineStatus]:
        """How far each line has come."""
        seen: dict[int, list[tuple[Any, ...]]] = {}
        for row in self._finished():
            seen.setdefault(self.grid.line_of(row[0]), []).append(row)
        return [self._line_status(line, seen.get(line.number, [])) for line in self.grid.lines]

    def _line_status(self, line: Line, rows: list[tuple[Any, ...]]) -> LineStatus:
        left_out = {*(stop.value for stop in FAILED), Stop.ALREADY_MISCLASSIFIED.value}
        distances = [row[5] for row in rows if row[2] not in left_out]
        return LineStatus(
            line,
            line.named(self.study),
            self.grid.width,
            len(rows),
            sum(row[2] in FAILED for row in rows),
            sum(row[7] for row in rows),
            float(np.median(distances)) if distances else math.nan,
        )

    @property
    def running(self) -> list[str]:
        """Who is at work on it now."""
        return [holder for store in self._stores if (holder := _holder(store.path)) is not None]

    # -- runs -------------------------------------------------------------------------------------

    def traces(self) -> Iterator[tuple[int, Place, bytes]]:
        """(cell, place, packed trace) of each finished cell, shard by shard."""
        for store in self._stores:
            for cell, trace, _ in store.traces():
                yield cell, self.grid.place(cell), trace

    def results(
        self,
        attack: str | None = None,
        price: str | float | None = None,
        model: str | None = None,
        seed: int | None = None,
    ) -> Results:
        """The results of the finished cells that are meant, in the order of the grid."""
        named = None if price is None else price if isinstance(price, str) else f"{price:g}"
        study = self.study
        _known("attack", attack, [spec.name for spec in study.attacks])
        _known("price", named, [tariff.name for tariff in study.tariffs])
        _known("model", model, [spec.name for spec in study.models])
        found = []
        for store in self._stores:
            rows = {row[0]: row for row in store.results()}
            for cell, trace, image in store.traces(images=True):
                line, its_seed, _ = self.grid.place(cell)
                if (
                    attack in (None, line.attack.name)
                    and named in (None, line.tariff.name)
                    and model in (None, line.model.name)
                    and seed in (None, its_seed)
                ):
                    found.append(self._result(rows[cell], trace, records.image_of(image)))
        return Results(sorted(found, key=lambda result: result.index))

    def _result(self, row: tuple[Any, ...], trace: bytes, image: Tensor | None) -> Result:
        line, _, place = self.grid.place(row[0])
        _, label, name = self.images[place]
        return records.result_of(row[:5], trace, image, name, label, line.tariff)

    def replayed(self, cell: int, budget: float | None = None) -> Result:
        """A finished cell, run again from its recorded answers alone; with a smaller budget, what
        it would have reached under that."""
        place = self.grid.place(cell)
        store = self._stores[cell % len(self._stores)]
        answers = store.answers({cell}).get(cell)
        if answers is None or not any(row[0] == cell for row in store.results()):
            raise InputError(f"cell {cell} is not finished: expected one that is.")
        loaded = load(study_of(self.about, files=False))
        known = self.about["models"][place.line.model.name]
        silent = Model(
            _Silent(),
            loaded.device,
            getattr(torch, known["dtype"]),
            known["quantize"],
        )
        run = loaded.cell(place)
        if budget is not None:
            run = replace(run, budget=budget)
        told = _Told(answers)
        engine = Engine(silent, metered=self.study.metered, journal=told)
        [result] = list(engine.run([run]))
        if told.why is not None:
            raise InputError(f"cell {cell} cannot be replayed here: {told.why}.")
        return result


class _Silent:
    """A model that is not to be asked."""

    def __call__(self, images: Tensor) -> Tensor:  # noqa: ARG002
        raise RuntimeError("the recorded answers do not reach that far")


class _Told:
    """A journal that only tells."""

    def __init__(self, answers: list[Answered]) -> None:
        self._answers = answers
        self.why: str | None = None

    def record(self, answers: Any) -> None:
        """Nothing is written."""

    def history(self, cell: int) -> History:  # noqa: ARG002
        return History(self._answers, again=False)

    def diverged(self, cell: int, why: str) -> None:  # noqa: ARG002
        self.why = why


def cost_at(price: float, source: int, queries: int) -> float:
    """What `queries` answers, `source` of them flagged, cost at c* = price."""
    prices = _prices(price)
    return source * prices.source + (queries - source) * prices.other


@lru_cache
def _prices(price: float) -> Prices:
    return Prices.flagged_only() if math.isinf(price) else Prices(source=price)


def _known(kind: str, name: str | None, names: list[str]) -> None:
    if name is not None and name not in names:
        raise UnknownNameError(kind, name, names)


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
