"""The results of a study so far, read from its folder; nothing is run, and no model is needed.

1. A finished cell is a row; those under way or not begun are counted only.
2. Labels carry no price: `rows(price=...)` gives what the same answers would have cost. For an
   attack that plans with the price, that is not what it would have done at that price.
3. `replayed` runs a cell again from its recorded answers, with a smaller budget if one is given: so
   the adversarial image at any cost can be had, though none was kept. This alone loads something:
   the images, and an attack's surrogate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..core.detector import BenignStats
from ..core.exactness import Exactness, Seen
from ..core.execution import Execution
from ..core.goal import class_name
from ..core.model import Model
from ..core.prices import Prices
from ..core.result import Result, Results
from ..data.tables import utf8
from ..data.user_code import optional
from ..engine.engine import Engine
from ..engine.journal import Answered, History
from ..errors import InputError, UnknownNameError
from .fingerprint import recorded_study, resume_obstacle
from .grid import Grid, Place
from .inputs import Loaded, load
from .selection import digest_of
from .status import SeriesStatus, StudyStatus
from .store.codec import End, Trace, build_result, unpack_image
from .store.connection import reading

COLUMNS: dict[str, type] = {
    "model": str,
    "attack": str,
    "price": str,
    "price_ratio": float,
    "counted_price": str,
    "seed": int,
    "image": str,
    "name": str,
    "label": int,
    "stop": str,
    "already_misclassified": bool,
    "reason": str,
    "distance": float,
    "cost": float,
    "queries": int,
    "flagged": int,
    "warnings": str,
    "norm": str,
    "class": str,
    "alarms": int,
    "first_alarm_queries": int,
    "first_alarm_flagged": int,
}
"""What there is of a finished cell, wherever it is written or read: its columns and their types."""
ALARMS = ("alarms", "first_alarm_queries", "first_alarm_flagged")
"""Those of them that are empty where nobody watched, or where no alarm came."""


class StudyResults:
    """The results of a study, finished or not. Use it as a context, or `close` it."""

    def __init__(self, folder: str | Path, loaded: Loaded | None = None) -> None:
        """`loaded` is the study with its images, if it is `at_hand`."""
        self.at_hand = loaded
        self._status = StudyStatus(folder)
        self._stores = self._status.stores
        self.folder, self.record = self._status.folder, self._status.record
        self.study = recorded_study(self.record, files=False)
        self.images = self._stores[0].images()
        self.grid = Grid.of(self.study, len(self.images), self.record.kept)

    def cost_at(self, price: float, source: int, queries: int, alarms: int) -> float:
        """What answers, and the alarms at them, would have cost at c* = price."""
        alarm_price = 0.0 if self.study.detector is None else self.study.detector.alarm_price
        return cost_at(price, source, queries) + alarms * alarm_price

    def __enter__(self) -> StudyResults:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files."""
        self._status.close()

    def __len__(self) -> int:
        return sum(len(store.results()) for store in self._stores)

    # -- tables -----------------------------------------------------------------------------------

    def finished(self) -> list[End]:
        """How each finished cell ended, in the order of the grid."""
        return self._status.finished()

    def rows(self, price: float | None = None) -> Iterator[dict[str, Any]]:
        """A row for each finished cell, with the values of `COLUMNS` in that order; with `price`,
        as its answers would have cost then.

        `price_ratio` is c*, the price of the image's class over that of others, and infinite where
        others are free.
        """
        if price is not None and not price >= 0:
            raise InputError(
                f"is {price}", expected="a number that is 0 or more, or inf", input="price"
            )
        for end in self.finished():
            series, _, image = self.grid.place(end.cell)
            content, label, name = self.images[image]
            yield {
                "model": series.model.name,
                "attack": series.attack.name,
                "price": series.tariff.name,
                "price_ratio": series.tariff.prices.for_source(
                    label, self.study.goal.for_label(label)
                ).true_ratio,
                "counted_price": series.tariff.name if price is None else price_name(price),
                "seed": end.seed,
                "image": content,
                "name": name,
                "label": label,
                "stop": end.stop.value,
                "already_misclassified": not end.stop.attacked,
                "reason": end.reason,
                "distance": end.distance,
                "cost": end.cost
                if price is None
                else self.cost_at(price, end.source, end.queries, end.alarms),
                "queries": end.queries,
                "flagged": end.source,
                "warnings": "; ".join(end.warnings),
                "norm": str(self.record.norm),
                "class": class_name(label, self.record.class_names),
                "alarms": end.alarms if self.study.detector is not None else None,
                "first_alarm_queries": end.first_alarm and end.first_alarm.queries,
                "first_alarm_flagged": end.first_alarm and end.first_alarm.flagged,
            }

    def to_pandas(self, price: float | None = None) -> Any:
        """The rows as a pandas DataFrame, if pandas is there."""
        pandas = optional("pandas", "to_pandas gives a DataFrame of it")
        return pandas.DataFrame(list(self.rows(price)), columns=list(COLUMNS))

    def to_polars(self, price: float | None = None) -> Any:
        """The rows as a polars DataFrame, if polars is there."""
        polars = optional("polars", "to_polars gives a DataFrame of it", "polars")
        rows = [{name: utf8(value) for name, value in row.items()} for row in self.rows(price)]
        return polars.DataFrame(rows, schema=COLUMNS)

    def status(self) -> list[SeriesStatus]:
        """How far each series has come."""
        return self._status.status()

    def seconds(self) -> dict[int, float] | None:
        """What each series took, by its number, counted on every engine; None if that was not
        recorded."""
        total: dict[int, float] = {}
        for store in self._stores:
            found = store.seconds()
            if found is None:
                return None
            for series, seconds in found.items():
                total[series] = total.get(series, 0.0) + seconds
        return total

    @property
    def running(self) -> list[str]:
        """Who is at work on it now."""
        return self._status.running

    # -- runs -------------------------------------------------------------------------------------

    def traces(self) -> Iterator[tuple[int, Place, Trace]]:
        """(cell, place, trace) of each finished cell, shard by shard."""
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
        """The results of the finished cells that are chosen, in the order of the grid."""
        tariff = price if price is None or isinstance(price, str) else f"{price:g}"
        study = self.study
        _check_name("attack", attack, [spec.name for spec in study.attacks])
        _check_name("price", tariff, [each.name for each in study.tariffs])
        _check_name("model", model, [spec.name for spec in study.models])

        def chosen(place: Place) -> bool:
            series = place.series
            return (
                attack in (None, series.attack.name)
                and tariff in (None, series.tariff.name)
                and model in (None, series.model.name)
                and seed in (None, place.seed)
            )

        results = []
        for store in self._stores:
            ends = {end.cell: end for end in store.results()}
            for cell, trace, image in store.traces(images=True):
                place = self.grid.place(cell)
                if cell in ends and chosen(place):  # else it has just been finished
                    with reading(store.path):
                        picture = unpack_image(image)
                    results.append(self._result(ends[cell], place, trace, picture))
        exactness = Exactness(Seen.NOT_KNOWN)
        if model is not None or len(study.models) == 1:
            exactness = self._status.exactness_of(model or study.models[0].name)
        ordered = sorted(results, key=lambda result: result.index)
        return Results(tuple(ordered), exactness=exactness, benign=self._panel(model))

    def _panel(self, model: str | None) -> BenignStats | None:
        """What the detector says of harmless queries, as they are sent to a model."""
        panels = {} if self.record.watch is None else self.record.watch.benign
        return panels.get(model or self.study.models[0].name)

    def _result(self, end: End, place: Place, trace: Trace, image: Tensor | None) -> Result:
        _, label, name = self.images[place.image]
        return build_result(
            end,
            trace,
            image,
            name=name,
            label=label,
            goal=self.study.goal.for_label(label),
            tariff=place.series.tariff,
            norm=self.record.norm,
            detector=self.study.detector,
        )

    def kept_image(self, cell: int) -> Tensor | None:
        """The adversarial image of a finished cell, if the study keeps them and it has one."""
        [store] = [each for each in self._stores if cell in each.study.shard_cells]
        return store.kept_image(cell)

    def replayed(self, cell: int, budget: float | None = None) -> Result:
        """A finished cell, run again from its recorded answers alone; with a smaller budget, what
        it would have reached under that."""
        return self.replays([(cell, budget)])[0]

    def replays(self, cells: Sequence[tuple[int, float | None]]) -> list[Result]:
        """Several cells run again, each with its budget; they must be of one model.

        Refused if the attacks or the noise are others than they were: the answers would be given
        to other points.
        """
        if (obstacle := resume_obstacle(self.record, self.study)) is not None:
            raise InputError(f"these cells cannot be replayed here: {obstacle}.")
        places = [self.grid.place(cell) for cell, _ in cells]
        for attack in dict.fromkeys(place.series.attack for place in places):
            self._loaded.check_surrogate(attack, self.record.surrogates, self.folder)
        self._loaded.check_masks(self.record.masks, self.folder)
        [model] = {place.series.model for place in places}
        answers = self._answers({cell for cell, _ in cells})
        journal = _ReplayJournal([answers[cell] for cell, _ in cells])
        known = self.record.models[model.name]
        silent = Model(
            _SilentModel(), self._loaded.device, getattr(torch, known.dtype), known.quantize
        )
        replayed = [self._loaded.cell(place, replayed=True) for place in places]
        runs = [
            run if budget is None else replace(run, limits=replace(run.limits, budget=budget))
            for run, (_, budget) in zip(replayed, cells, strict=True)
        ]
        engine = Engine(silent, Execution(metered=self.study.execution.metered), journal=journal)
        results = sorted(engine.run(runs), key=lambda result: result.index)
        if journal.divergence is not None:
            raise InputError(f"these cells cannot be replayed here: {journal.divergence}.")
        return results

    def _answers(self, cells: set[int]) -> dict[int, list[Answered]]:
        answers: dict[int, list[Answered]] = {}
        for store in self._stores:
            here = {cell for cell in cells if cell in store.study.shard_cells}
            if here:
                finished = {end.cell for end in store.results()}
                answers |= {c: a for c, a in store.answers(here).items() if c in finished}
        absent = sorted(cells - set(answers))
        if absent:
            raise InputError(f"cell {absent[0]} is not finished", expected="one that is")
        return answers

    @property
    def warnings(self) -> list[str]:
        """What results carry along, each once."""
        return self._status.warnings

    @property
    def kept(self) -> list[str]:
        """Which images each model has, in a sentence, where it has not all of them."""
        return self._status.kept

    @property
    def sizes(self) -> list[str]:
        """How pictures got their size, in a sentence, where they were resized or cropped."""
        return self._status.sizes

    @property
    def exactness(self) -> list[str]:
        """Whether repeated runs agree bit for bit, for each model in a sentence."""
        return self._status.exactness

    @property
    def watch(self) -> list[str]:
        """Who watches, and what that says of harmless queries, in sentences."""
        return self._status.watch

    @property
    def digest(self) -> str:
        """Of the images and labels in their order, as a study's file takes it."""
        return digest_of((content, label) for content, label, _ in self.images)

    @property
    def pictures(self) -> Tensor:
        """The images themselves, if they are still there."""
        return self._loaded.images.images

    @cached_property
    def _loaded(self) -> Loaded:
        study = recorded_study(self.record, files=False)
        return self.at_hand or load(study, begun=self.record)


class _SilentModel:
    """A model that is not to be asked."""

    def __call__(self, images: Tensor) -> Tensor:  # noqa: ARG002
        raise RuntimeError("the recorded answers do not reach that far")


class _ReplayJournal:
    """A journal of recorded answers; nothing is written to it."""

    def __init__(self, answers: list[list[Answered]]) -> None:
        self._answers = answers
        self.divergence: str | None = None

    def record(self, answers: Any) -> None:
        """Nothing is written."""

    def history(self, cell: int) -> History:
        return History(self._answers[cell], again=False)

    def diverged(self, cell: int, why: str) -> None:  # noqa: ARG002
        self.divergence = why


def cost_at(price: float, source: int, queries: int) -> float:
    """What `queries` answers, `source` of them flagged, cost at c* = price."""
    prices = _prices(price)
    return source * prices.source + (queries - source) * prices.other


def price_name(price: float) -> str:
    """c* as a column has it."""
    return f"{price:.15g}"


@lru_cache
def _prices(price: float) -> Prices:
    return Prices.flagged_only() if math.isinf(price) else Prices(source=price)


def _check_name(kind: str, name: str | None, names: list[str]) -> None:
    if name is not None and name not in names:
        raise UnknownNameError(kind, name, names)
