"""Functions that run attacks: `run` for many images, `stream` for more images than fit into memory,
and `run_cells` for any mix of attacks, prices, limits and seeds.

1. `run` and `run_cells` refuse invalid input before the first query. `stream` reads images as they
   arrive; after an invalid one, it finishes the images in progress and then raises.
2. Images and labels come from any iterables, one for each cell. Every other input may also be given
   once for all images. A targeted run usually has `starts`, images of its `targets`, since noise is
   hardly ever classified as a chosen class.
3. The model check and the search for an exact batch shape send queries that are not charged.
4. If `workers` is a number, it is reduced to the number of cells and to the number of cores; a
   warning reports the latter. A `Workers` pool is used as it is.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import math
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, islice
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

from .attacks.presets import preset
from .core.cell import Cell, check_image
from .core.detector import BenignStats, Detection
from .core.device import check_readable
from .core.exactness import Exactness, Seen
from .core.execution import Execution, check_workers
from .core.goal import Goal
from .core.limits import NO_LIMITS, Limits
from .core.model import Model, as_model
from .core.prices import Prices
from .core.problem import Attack
from .core.resolution import unresolved
from .core.result import Result, Results
from .core.validation import (
    check_function,
    check_instance,
    expect,
    is_several,
    plain,
    require,
    shown,
)
from .detection import benign_panel
from .engine.batch import batch_size_for
from .engine.engine import Engine, Progress
from .errors import InputError, ModelWarning, mention
from .model_check import CHECKED_IMAGES, Examined, exact_choice, examine, shapes_of, threads
from .models.network import tried
from .workers.executors import fewer_notice, threads_each, within_cores
from .workers.pool import Workers

P = ParamSpec("P")
T = TypeVar("T")
AnyModel = Model | Callable[[Tensor], Any]
OnProgress = Callable[[Progress], None] | None
Targets = int | Tensor | Iterable[int] | None
Goals = Goal | Iterable[Goal] | None
Masks = Tensor | Iterable[Tensor] | None
Starts = Tensor | Iterable[Tensor] | None
AXES_FOR_ALL = {"start": (3,), "mask": (2, 3)}
"""Allowed numbers of axes of a tensor that applies to all images."""
OPTION_OBJECTS: dict[str, Any] = {"limits": Limits, "detection": Detection, "execution": Execution}


def check_names(function: str, options: Iterable[str], names: Collection[str]) -> None:
    """Raise TypeError for the first unknown option, as `function` would, with a suggestion."""
    fields = {
        field: f"{argument}=tb.{kind.__name__}({field}=...)"
        for argument, kind in OPTION_OBJECTS.items()
        if argument in names
        for field in kind.__dataclass_fields__
    }
    known = fields | {name: repr(name) for name in names}
    for name in options:
        if name not in names:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f": did you mean {known[near[0]]}?" if near else f"; it has {', '.join(names)}"
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{hint}")


@dataclass
class _Call:
    """One call of `run`, `stream` or `run_cells`."""

    model: Model
    cells: Iterable[Cell]
    execution: Execution
    progress: OnProgress

    def __post_init__(self) -> None:
        check_instance("execution", self.execution, Execution)
        check_function("progress", self.progress)
        batch_size_for(self.model, self.execution)
        if not isinstance(self.execution.workers, Workers):
            check_workers(self.execution.workers)

    def try_model(self, cells: Sequence[Cell]) -> None:
        """Find out whether a network takes the first image, and its number of classes."""
        if cells and not self.execution.metered:
            check_image(cells[0].image, cells[0].name or "image 0")
            self.model = tried(self.model, cells[0].image)

    def prepare(self, cells: list[Cell], most: float, frames: int = 5) -> Examined:
        """Check the model on the first few `cells`, or choose an exact shape and layout, as
        `execution` specifies; warn if the model is unfit. `most` is the number of cells, `frames`
        the number of stack frames from here to the user's call."""
        execution = self.execution
        if not (cells and (execution.check or execution.exact)):
            seen = Seen.METERED if execution.metered else Seen.NOT_CHECKED
            return Examined([], Exactness(seen))
        few = torch.stack([cell.image for cell in cells[:CHECKED_IMAGES]])
        with threads(threads_each(max(1, self._processes(most)))):
            if execution.exact:
                self.model, examined = exact_choice(self.model, few, execution.batch_size)
                [size] = examined.exactness.shapes
                self.execution = replace(execution, batch_size=size, one_shape=True)
            else:
                size = batch_size_for(self.model, execution)
                shapes = shapes_of(self.model, size, execution.one_shape)
                examined = examine(self.model, few, shapes)
        if examined.findings and execution.check:
            warnings.warn(" ".join(examined.findings), ModelWarning, stacklevel=frames)
        return examined

    def results(self, cells: Iterable[Cell], most: float) -> Iterator[Result]:
        """Yield each result as soon as it is finished, from this process or from workers."""
        options: dict[str, Any] = {"execution": self.execution, "progress": self.progress}
        workers = self.execution.workers
        if isinstance(workers, Workers):
            layout = self.model.layout if self.execution.exact else None
            classes = self.model.classes
            yield from workers.run_cells(cells, layout=layout, classes=classes, **options)
            return
        forced = "workers=Workers(model, ..., force=True)"
        notice = fewer_notice(self._asked, int(min(self._asked, most)), False, forced)
        if notice is not None:
            warnings.warn(notice, stacklevel=2)
        if (count := self._processes(most)) <= 1:
            yield from Engine(self.model, **options).run(cells)
            return
        with Workers(self.model, count) as pool:
            yield from pool.run_cells(cells, **options)

    @property
    def _asked(self) -> int:
        workers = self.execution.workers
        return workers if isinstance(workers, int) else workers.count

    def _processes(self, most: float) -> int:
        if isinstance(self.execution.workers, Workers):
            return self._asked
        return within_cores(int(min(self._asked, most)), False)


# -- arguments ------------------------------------------------------------------------------------


def _arguments(
    attack: str | Attack,
    model: AnyModel,
    images: Tensor | Iterable[Tensor],
    labels: Tensor | Iterable[int],
    *,
    targets: Targets = None,
    starts: Starts = None,
    goal: Goals = None,
    mask: Masks = None,
    prices: Prices | None = None,
    budget: float = math.inf,
    limits: Limits = NO_LIMITS,
    detection: Detection | None = None,
    norm: str = "l2",
    seed: int = 0,
    charge_clean: bool = True,
    execution: Execution | None = None,
    progress: OnProgress = None,
) -> _Call:
    """Check the arguments of `run` and `stream`; return the call, without reading images yet."""
    settings = {"detection": detection, "norm": norm, "seed": seed, "charge_clean": charge_clean}
    template = cell_template(attack, prices=prices, budget=budget, limits=limits, **settings)
    inputs = {"image": images, "label": labels, "target": targets, "start": starts}
    cells = _cells(template, {**inputs, "goal": goal, "mask": mask})
    return _Call(as_model(model), cells, Execution() if execution is None else execution, progress)


def cell_template(
    attack: str | Attack,
    *,
    prices: Prices | None = None,
    budget: float = math.inf,
    limits: Limits = NO_LIMITS,
    **settings: Any,
) -> Cell:
    """Return a cell without an image; raise InputError if these arguments of `run` are wrong."""
    check_instance("limits", limits, Limits)
    if (own := Limits(budget)) != NO_LIMITS:
        given = f"is {own.budget:g}, and {mention('limits')} has a budget of {limits.budget:g}"
        expect(math.isinf(limits.budget), given, "one of them", input="budget")
        limits = replace(limits, budget=own.budget)
    attack = preset(attack) if isinstance(attack, str) else attack
    prices = Prices() if prices is None else prices
    return Cell(attack, torch.empty(0), 0, prices, limits, **settings)


def _cells(template: Cell, inputs: Mapping[str, Any]) -> Iterator[Cell]:
    """Return a cell for each image; `inputs` has fields of cells, for all or one per image."""
    columns: dict[str, Iterator[Any]] = {}
    for_all: dict[str, Any] = {}
    for name, values in inputs.items():
        check_readable(values, name if name in ("goal", "mask") else f"{name}s")
        if name in ("label", "target") and hasattr(values, "tolist"):
            values = values.tolist()
        if values is None and name not in ("image", "label"):
            continue
        if _is_for_all(name, values):
            for_all[name] = values
        else:
            columns[name] = iter(values.cpu() if isinstance(values, Tensor) else values)
    return _zipped(replace(template, **for_all), columns)


def _is_for_all(name: str, values: Any) -> bool:
    """Return whether an input applies to all images, instead of one value to each."""
    several = is_several(values)
    if name == "target":
        return not several
    if name == "label":
        require(several, "labels", values, "one label per image")
        return False
    if name == "goal":
        right = several and not isinstance(values, set | frozenset)
        remedy = "use tb.Goal.leave(...)" if several else ""
        expected = "a tb.Goal, or one for each image"
        require(right or isinstance(values, Goal), "goal", values, expected, remedy)
        return isinstance(values, Goal)
    argument = name if name == "mask" else f"{name}s"
    require(several, argument, values, "images, as tensors")
    if not isinstance(values, Tensor) or values.ndim == 4:
        return False
    axes = AXES_FOR_ALL.get(name)
    expected = "(n, c, h, w), or (c, h, w) for all images" if axes else "(n, c, h, w)"
    remedy = "" if axes else "for a single image use image[None]"
    expect(
        values.ndim in (axes or ()), f"has shape {tuple(values.shape)}", expected, remedy, argument
    )
    return True


def _zipped(template: Cell, columns: dict[str, Iterator[Any]]) -> Iterator[Cell]:
    """Yield a cell for each row of `columns`, which must all have the same length."""
    end = object()
    for index in count():
        row: dict[str, Any] = {name: next(column, end) for name, column in columns.items()}
        ended = [name for name, value in row.items() if value is end]
        if len(ended) == len(row):
            return
        if ended:
            longer = next(name for name in row if name not in ended)
            missing = ended[0] if longer == "image" else longer
            given = f"got {index} {ended[0]}s but more {longer}s"
            raise InputError(given, expected=f"one {missing} per image")
        for name, value in row.items():
            if name in ("label", "target"):
                row[name] = plain(value)
            given = f"the {name} of image {index} is None"
            optional = name not in ("image", "label")
            expect(not (optional and value is None), given, "one for each image, or none")
        yield replace(template, **row)


# -- run, stream, run_cells -----------------------------------------------------------------------


def _taking(
    arguments: Callable[P, _Call],
) -> Callable[[Callable[[_Call], T]], Callable[P, T]]:
    """Return a decorator that gives a function of a `_Call` the signature of `arguments`. Unknown
    options raise an error that suggests a known one."""
    signature = inspect.signature(arguments)

    def decorate(function: Callable[[_Call], T]) -> Callable[P, T]:
        @functools.wraps(function)
        def call(*args: P.args, **options: P.kwargs) -> T:
            check_names(function.__name__, options, signature.parameters)
            return function(arguments(*args, **options))

        returned = inspect.signature(function).return_annotation
        own = signature.replace(return_annotation=returned)
        call.__signature__ = own  # type: ignore[attr-defined]
        return call

    return decorate


@_taking(_arguments)
def run(call: _Call) -> Results:
    """Attack every image; return results in input order.

    attack: an attack, or the name of a preset.
    images: (n, c, h, w) in [0,1], or any iterable of images of one shape; labels: their classes.
    targets: the class to reach, one for all or one for each; by default any except the source.
    starts: the image to start from, one for all or one for each; by default the attack finds one.
    goal: which labels are flagged and which are adversarial, such as tb.Goal.leave({151, 152}), one
        for all or one for each; `targets` is short for a goal with a target.
    mask: the pixels that may change, as a bool tensor (h, w), one for all or one for each;
        elsewhere the source image is sent, whatever the attack.
    prices: the prices of answers; by default every answer costs 1.
    budget: the maximum cost for each image; short for `limits` with a budget.
    limits: the limits for each image, such as tb.Limits(max_queries=1000).
    detection: a custom detector, as tb.Detection(detector), which sees the charged queries of each
        image in order. Attacks do not learn about its alarms. `Results.benign` has its alarms on
        harmless queries about the same images.
    norm: the metric of distances, "l2" or "linf"; the attack must support it.
    seed: the seed of all random numbers.
    charge_clean: whether the query for the clean image is charged.
    execution: how the call is computed, such as tb.Execution(batch_size=64); only its `time_limit`
        changes results.
    progress: a function that is called after each batch.
    """
    cells = list(call.cells)
    expect(bool(cells), "there are no images", "at least one")
    return _all_results(call, cells)


@_taking(_arguments)
def stream(call: _Call) -> Iterator[Result]:
    """Attack images as they arrive; yield each result as soon as it is finished, and keep none. The
    arguments are those of `run`."""

    def results() -> Iterator[Result]:
        cells, shape = iter(call.cells), None
        checked = call.execution.check or call.execution.exact
        few = list(islice(cells, CHECKED_IMAGES if checked else 1))
        call.try_model(few)
        for index in range(len(few)):
            shape = few[index].check(call.model, f"image {index}", shape)
        call.prepare(few if checked else [], math.inf, frames=3)
        first = (few.pop(0) for _ in range(len(few)))  # so that no image is held longer than needed
        yield from call.results(chain(first, cells), math.inf)

    return results()


def _cell_arguments(
    cells: Iterable[Cell],
    model: AnyModel,
    *,
    execution: Execution | None = None,
    progress: OnProgress = None,
) -> _Call:
    require(is_several(cells), "cells", cells, "cells, as Cell")
    listed = list(cells)
    for index, cell in enumerate(listed):
        if not isinstance(cell, Cell):
            given = f"has {shown(cell)} at {index}"
            raise InputError(given, expected="cells, as Cell", input="cells")
    execution = Execution() if execution is None else execution
    return _Call(as_model(model), listed, execution, progress)


@_taking(_cell_arguments)
def run_cells(call: _Call) -> Results:
    """Run cells, which may differ in everything except the image shape; return results in input
    order. `execution` and `progress` are those of `run`."""
    return _all_results(call, list(call.cells))


def _all_results(call: _Call, cells: list[Cell]) -> Results:
    call.try_model(cells)
    model, shape = call.model, None
    for index, cell in enumerate(cells):  # check all before the first query
        shape = cell.check(model, cell.name or f"image {index}", shape)
    findings, exactness = call.prepare(cells, len(cells))
    results = sorted(call.results(cells, len(cells)), key=lambda result: result.index)
    for notice in unresolved(results):
        warnings.warn(f"{notice}.", ModelWarning, stacklevel=4)
    exactness = exactness.after(text for result in results for text in result.warnings)
    return Results(tuple(results), tuple(findings), exactness, _panel(cells, model))


def _panel(cells: list[Cell], model: Model) -> BenignStats | None:
    """Return the alarms on harmless queries if all cells share one detector; otherwise None."""
    found = [None if cell.detection is None else cell.detection.detector for cell in cells]
    detector = found[0] if found else None
    if detector is None or any(each is not detector for each in found):
        return None
    images = {id(cell.image): cell.image for cell in cells}
    return benign_panel(detector, images.values(), model)
