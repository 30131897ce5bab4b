"""The results of a study so far, read from its folder; no model is needed.

1. Labels carry no price: `rows(price=...)` gives what the same answers would have cost. An attack
   that plans with the price would have sent other queries at that price.
2. `replayed` runs a cell again from its recorded answers, with a smaller budget if one is given. So
   it finds the adversarial image at any cost, even if none was kept. Only this and `pixels` load
   anything: the images, and the surrogate of an attack that is replayed.
3. A folder may come from anyone, so reading runs no code that it names: not the function that
   returns its images, unless it is tollbox's own, and no surrogate. `trust_code` permits both.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..core.exactness import Exactness, Seen
from ..core.execution import Execution
from ..core.goal import class_name
from ..core.model import Model
from ..core.result import Result, Results
from ..core.validation import require
from ..data.tables import utf8
from ..data.user_code import optional
from ..engine.engine import Engine
from ..engine.journal import Answered, History
from ..errors import InputError, UnknownNameError, mention
from .fingerprint import attack_fingerprint, check_unchanged, recorded_study, surrogate_name
from .grid import Grid
from .images import digest_of
from .inputs import StudyInputs, load
from .status import StudyStatus
from .store.codec import End, Trace
from .store.connection import damaged, reading
from .store.record import DIGEST, difference
from .study import Study

BUILT_IN_IMAGES = "tollbox.models.stand_ins:images"

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
    "resolution": str,
    "norm": str,
    "class": str,
    "alarms": int,
    "first_alarm_queries": int,
    "first_alarm_flagged": int,
}
"""Columns of a finished cell and their types, in all tables. Columns about alarms are empty without
a detector, and those about the first alarm if there was none."""


class StudyResults(StudyStatus):
    """The results of a study, finished or not. Use it as a context manager, or `close` it."""

    def __init__(
        self, folder: str | Path, inputs: StudyInputs | None = None, *, trust_code: bool = False
    ) -> None:
        """Open a study for reading; `inputs` are its inputs, if they are already loaded.

        trust_code: whether `pixels` and `replayed` may run code that the study names.
        """
        super().__init__(folder)
        self.given_inputs, self.trust_code = inputs, trust_code
        self.study = recorded_study(self.record, files=False)
        self.grid = Grid(self.study, len(self.images), self.record.kept)
        study, record = self.study, self.record
        names = [*(spec.name for spec in study.models), *(spec.name for spec in study.attacks)]
        series = tuple(each.named(study) for each in self.grid.series)
        then = [*record.models, *record.attacks], record.series, record.width
        if (names, series, self.grid.width) != then:
            raise damaged(self.stores[0].path, "its study text does not match its cells")

    def cost_at(self, price: float, flagged: int, queries: int, alarms: int) -> float:
        """Return what answers and alarms would have cost at c* = price."""
        source, other = (1.0, 0.0) if math.isinf(price) else (price, 1.0)
        alarm_price = 0.0 if self.study.detector is None else self.study.detector.alarm_price
        return flagged * source + (queries - flagged) * other + alarms * alarm_price

    def rows(self, price: float | None = None) -> Iterator[dict[str, Any]]:
        """Return a row for each finished cell, with the values of `COLUMNS` in that order.

        With `price`, costs are what the answers would have cost at that c*. `price_ratio` is the c*
        of the run for the image's class; it is infinite if other answers are free.
        """
        right = price is None or price >= 0
        require(right, "price", price, "a number that is 0 or more, or inf")
        return (self.row(end, price) for end in self.finished())

    def row(self, end: End, price: float | None) -> dict[str, Any]:
        """Return the row of a finished cell; `price` is as in `rows`."""
        series, seed, image = self.grid.place(end.cell)
        content, label, name = self.images[image]
        prices = series.tariff.prices.for_source(label, self.study.goal.for_label(label))
        cost = end.cost
        if price is not None:
            cost = self.cost_at(price, end.flagged, end.queries, end.alarms)
        return {
            "model": series.model.name,
            "attack": series.attack.name,
            "price": series.tariff.name,
            "price_ratio": prices.true_ratio,
            "counted_price": series.tariff.name if price is None else f"{price:.15g}",
            "seed": seed,
            "image": content,
            "name": name,
            "label": label,
            "stop": end.stop.value,
            "already_misclassified": not end.stop.attacked,
            "reason": end.reason,
            "distance": end.distance,
            "cost": cost,
            "queries": end.queries,
            "flagged": end.flagged,
            "warnings": "; ".join(end.warnings),
            "resolution": end.resolution.found.value,
            "norm": str(self.record.norm),
            "class": class_name(label, self.record.class_names),
            "alarms": end.alarms if self.study.detector is not None else None,
            "first_alarm_queries": end.first_alarm and end.first_alarm.queries,
            "first_alarm_flagged": end.first_alarm and end.first_alarm.flagged,
        }

    def to_pandas(self, price: float | None = None) -> Any:
        """Return the rows as a pandas DataFrame, if pandas is installed."""
        pandas = optional("pandas", "to_pandas gives a DataFrame of it")
        return pandas.DataFrame(list(self.rows(price)), columns=list(COLUMNS))

    def to_polars(self, price: float | None = None) -> Any:
        """Return the rows as a polars DataFrame, if polars is installed."""
        polars = optional("polars", "to_polars gives a DataFrame of it", "polars")
        rows = [{name: utf8(value) for name, value in row.items()} for row in self.rows(price)]
        return polars.DataFrame(rows, schema=COLUMNS)

    def seconds(self) -> dict[int, float]:
        """Return the time that each series took, by its number, summed over all workers."""
        total = defaultdict[int, float](float)
        for store in self.stores:
            for series, seconds in store.seconds().items():
                total[series] += seconds
        return dict(total)

    @property
    def digest(self) -> str:
        """Digest of the images and labels in their order, for `images.digest` of a study file."""
        return digest_of((content, label) for content, label, _ in self.images)

    @property
    def surrogates(self) -> dict[str, str]:
        """Digests of the weights of surrogates, by attack."""
        found = self.record.fingerprint
        with reading(self.stores[0].path):
            return {
                spec.name: found[surrogate_name(spec)]["the weights"].removeprefix(DIGEST)
                for spec in self.study.attacks
                if spec.surrogate is not None
            }

    def runs(self, steps: bool = False) -> Iterator[tuple[End, Trace]]:
        """Yield the outcome and the trace of each finished cell; `steps` adds the steps."""
        for store in self.stores:
            yield from store.runs(steps)

    def results(
        self,
        attack: str | None = None,
        price: str | float | None = None,
        model: str | None = None,
        seed: int | None = None,
    ) -> Results:
        """Return the results of the finished cells that match the arguments, in grid order."""
        tariff = price if price is None or isinstance(price, str) else f"{price:g}"
        study = self.study
        for kind, name, names in (
            ("attack", attack, [spec.name for spec in study.attacks]),
            ("price", tariff, [each.name for each in study.tariffs]),
            ("model", model, [spec.name for spec in study.models]),
        ):
            if name is not None and name not in names:
                raise UnknownNameError(kind, name, names)
        results = []
        pairs = ((store, run) for store in self.stores for run in store.runs(steps=True))
        for store, (end, trace) in pairs:
            series, place_seed, image = self.grid.place(end.cell)
            if not (
                attack in (None, series.attack.name)
                and tariff in (None, series.tariff.name)
                and model in (None, series.model.name)
                and seed in (None, place_seed)
            ):
                continue
            _, label, name = self.images[image]
            goal = study.goal.for_label(label)
            prices = series.tariff.prices.for_source(label, goal)
            results.append(
                Result(
                    index=end.cell,
                    name=name,
                    stop=end.stop,
                    reason=end.reason,
                    ledger=trace.ledger(prices, goal, study.detector),
                    adversarial=store.kept_image(end.cell),
                    improvements=trace.improvements,
                    trace=trace.steps,
                    limits=series.tariff.limits,
                    seed=end.seed,
                    warnings=end.warnings,
                    resolution=end.resolution,
                    norm=self.record.norm,
                    first_alarm=end.first_alarm,
                )
            )
        first, exactness = study.models[0].name, Exactness(Seen.NOT_KNOWN)
        if model is not None or len(study.models) == 1:
            exactness = self.exactness_of(model or first)
        benign = {} if self.record.detector is None else self.record.detector.benign
        ordered = tuple(sorted(results, key=lambda result: result.index))
        return Results(ordered, exactness=exactness, benign=benign.get(model or first))

    def kept_image(self, cell: int) -> Tensor | None:
        """Return the adversarial image of a finished cell, if it has one and the study keeps it."""
        [store] = [each for each in self.stores if cell in each.study.shard_cells]
        return store.kept_image(cell)

    def replayed(self, cell: int, budget: float | None = None) -> Result:
        """Replay a finished cell from its recorded answers, with a smaller budget if given."""
        return self.replays([(cell, budget)])[0]

    def replays(self, cells: Sequence[tuple[int, float | None]]) -> list[Result]:
        """Replay cells of one model, each with its budget. Raise InputError if the attacks or the
        noise have changed, since the answers would belong to other points."""
        obstacle = difference(self.record.fingerprint, attack_fingerprint(self.study))
        if obstacle is not None:
            raise InputError(f"these cells cannot be replayed here: {obstacle}.")
        places = [self.grid.place(cell) for cell, _ in cells]
        attacks = dict.fromkeys(place.series.attack for place in places)
        for spec in attacks:
            if spec.surrogate is not None and self.given_inputs is None:
                self._check_trusted(f"the attack {spec.name!r} needs its surrogate")
        inputs = self._inputs
        check_unchanged(self.record, inputs.replay_fingerprint(attacks), self.folder)
        [model] = {place.series.model for place in places}
        answers: dict[int, list[Answered]] = {}
        for store in self.stores:
            here = {cell for cell, _ in cells if cell in store.study.shard_cells}
            if here:
                finished = {end.cell for end in store.results()}
                answers |= store.answers(here & finished)
        absent = sorted({cell for cell, _ in cells} - set(answers))
        if absent:
            raise InputError(f"cell {absent[0]} is not finished", expected="a finished cell")
        journal = _ReplayJournal([answers[cell] for cell, _ in cells])
        known = self.record.models[model.name]
        dtype = getattr(torch, known.dtype, None)
        if not isinstance(dtype, torch.dtype):
            raise damaged(self.stores[0].path, f"a model has dtype {known.dtype!r}")
        silent = Model(_silent, inputs.device, dtype, known.quantize, classes=known.classes)
        runs = []
        for place, (_, budget) in zip(places, cells, strict=True):
            run = inputs.cell(place, replayed=True)
            limits = run.limits if budget is None else replace(run.limits, budget=budget)
            runs.append(replace(run, limits=limits))
        engine = Engine(silent, Execution(metered=self.study.execution.metered), journal=journal)
        results = sorted(engine.run(runs), key=lambda result: result.index)
        if journal.divergence is not None:
            raise InputError(f"these cells cannot be replayed here: {journal.divergence}.")
        return results

    @property
    def pixels(self) -> Tensor:
        """The images themselves, (n, c, h, w), if they still exist."""
        return self._inputs.images.images

    @cached_property
    def _inputs(self) -> StudyInputs:
        return self.given_inputs or self.load_inputs(self.study)

    def load_inputs(self, study: Study) -> StudyInputs:
        """Load the images of the study; `study` may differ in its device."""
        function = study.images.function
        if function not in (None, BUILT_IN_IMAGES):
            self._check_trusted(f"the images come from {function}")
        return load(study, record=self.record, trust=self.trust_code)

    def _check_trusted(self, need: str) -> None:
        if not self.trust_code:
            given = f"{need}, and reading a study runs no code"
            remedy = f"set {mention('trust_code')} if you trust the study and its code"
            raise InputError(given, remedy=remedy)


def _silent(images: Tensor) -> Tensor:  # noqa: ARG001
    raise RuntimeError("the recorded answers do not reach that far")


class _ReplayJournal:
    def __init__(self, answers: list[list[Answered]]) -> None:
        self._answers = answers
        self.divergence: str | None = None

    def record(self, answers: Any) -> None:
        """Do nothing."""

    def history(self, cell: int) -> History:
        return History(self._answers[cell], again=False)

    def diverged(self, cell: int, why: str) -> None:  # noqa: ARG002
        self.divergence = why
