"""Running attacks: `run` for many images, `stream` for more than memory holds, and `run_cells` for
any mix of attacks, prices, limits and seeds.

1. `run` and `run_cells` refuse wrong input before the first query. `stream` takes images as they
   come; after a wrong one it finishes the images in progress and then raises.
2. Images and labels come one for each cell, from any iterable. Everything else may also be given
   once for all images. A targeted run has `targets`, the classes to reach, and usually `starts`,
   images of these classes, since noise hardly ever has a chosen class.
3. The model check and the search for an exact batch shape send queries that are not charged.
4. A number of `workers` is reduced to the number of cells and of cores; a warning reports the
   latter. A `Workers` pool is used as it is.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import math
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

from .attacks.presets import preset
from .core.cell import Cell
from .core.detector import BenignStats, Detection
from .core.exactness import Exactness, Seen
from .core.execution import Execution, check_workers
from .core.goal import Goal
from .core.limits import NO_LIMITS, Limits
from .core.model import Model, as_model
from .core.prices import Prices
from .core.problem import Attack
from .core.result import Result, Results
from .core.validation import check_function, check_instance, shown
from .detection import benign_panel
from .engine.batch import batch_size_for
from .engine.engine import Engine, Progress
from .errors import InputError, ModelWarning, mention
from .model_check import CHECKED_IMAGES, Examined, exact_choice, examine, shapes_of, threads
from .workers.executors import fewer_notice, threads_each, within_cores
from .workers.pool import Workers

P = ParamSpec("P")
T = TypeVar("T")
AnyModel = Model | Callable[[Tensor], Any]
OnProgress = Callable[[Progress], None] | None
Targets = int | Tensor | Iterable[int] | None
"""The class to reach, for all images or one for each; None for any class except the source."""
Goals = Goal | Iterable[Goal] | None
"""The goal for all images or one for each; None for any class except the source."""
Masks = Tensor | Iterable[Tensor] | None
"""The pixels that may change, bool: (h, w), (1, h, w) or (c, h, w) for all images, or one for each,
as (n, c, h, w), (n, 1, h, w) or any iterable; None for all pixels."""
Starts = Tensor | Iterable[Tensor] | None
"""The image to start from, (c, h, w) for all or one for each; None to let the attack find one."""
AXES_FOR_ALL = {"start": (3,), "mask": (2, 3)}
"""Numbers of axes of a tensor that is for all images."""
OPTION_OBJECTS: dict[str, Any] = {"limits": Limits, "detection": Detection, "execution": Execution}


def suggesting(function: Callable[P, T]) -> Callable[P, T]:
    """Return the function with an error for an unknown option that suggests a known one."""
    names = inspect.signature(function).parameters

    @functools.wraps(function)
    def checked(*args: P.args, **options: P.kwargs) -> T:
        check_names(function.__name__, options, names)
        return function(*args, **options)

    return checked


def check_names(function: str, options: Iterable[str], names: Collection[str]) -> None:
    """Raise TypeError, as the function would, for the first option that it does not have."""
    known = {name: repr(name) for name in names}
    for argument, kind in OPTION_OBJECTS.items():
        if argument in names:
            for field in kind.__dataclass_fields__:
                known.setdefault(field, f"{argument}=tb.{kind.__name__}({field}=...)")
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

    def prepare(self, cells: list[Cell], most: float, frames: int) -> Examined:
        """Check the model on the first of `cells`, or choose an exact shape and layout, if
        `execution` says so; warn if the model is unfit. `most` is the number of cells."""
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
                examined = examine(
                    self.model, few, shapes_of(self.model, size, execution.one_shape)
                )
        if examined.findings and execution.check:
            warnings.warn(" ".join(examined.findings), ModelWarning, stacklevel=frames)
        return examined

    def results(self, cells: Iterable[Cell], most: float) -> Iterator[Result]:
        """Yield each result when it is finished, from this process or from workers."""
        execution, workers = self.execution, self.execution.workers
        if isinstance(workers, Workers):
            layout = self.model.layout if execution.exact else None
            yield from workers.run_cells(
                cells, execution=execution, layout=layout, progress=self.progress
            )
            return
        forced = "workers=Workers(model, ..., force=True)"
        wanted = int(min(self._asked, most))
        if (notice := fewer_notice(self._asked, wanted, False, forced)) is not None:
            warnings.warn(notice, stacklevel=2)
        count = self._processes(most)
        if count <= 1:
            yield from Engine(self.model, execution, progress=self.progress).run(cells)
            return
        with Workers(self.model, count) as pool:
            yield from pool.run_cells(cells, execution=execution, progress=self.progress)

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
    """The arguments of `run` and `stream`, checked; the images are not taken yet."""
    template = cell_template(
        attack,
        prices=prices,
        budget=budget,
        limits=limits,
        detection=detection,
        norm=norm,
        seed=seed,
        charge_clean=charge_clean,
    )
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
    limited = Limits(budget=budget)
    if limited != NO_LIMITS and not math.isinf(limits.budget):
        raise InputError(
            f"is {budget:g}, and {mention('limits')} has a budget of {limits.budget:g}",
            expected="one of them",
            input="budget",
        )
    return Cell(
        preset(attack) if isinstance(attack, str) else attack,
        torch.empty(0),
        0,
        Prices() if prices is None else prices,
        limits if limited == NO_LIMITS else replace(limits, budget=budget),
        **settings,
    )


def _cells(template: Cell, inputs: Mapping[str, Any]) -> Iterator[Cell]:
    """Return a cell for each image; `inputs` are fields of cells, for all or one for each."""
    columns: dict[str, Iterator[Any]] = {}
    for_all: dict[str, Any] = {}
    for name, value in inputs.items():
        values = _column(name, value)
        if values is not None:
            columns[name] = iter(values)
        elif value is not None:
            for_all[name] = _plain(value) if name == "target" else value
    return _zipped(replace(template, **for_all), columns)


def _column(name: str, values: Any) -> Iterable[Any] | None:
    """Return the values for each image; None if there is one for all, or none."""
    if name in ("label", "target"):
        values = _plain(values)
        if isinstance(values, Iterable):
            return values
        if name == "target":
            return None
        raise InputError(f"is {shown(values)}", expected="one label per image", input="labels")
    if name == "goal":
        if values is None or isinstance(values, Goal):
            return None
        if not isinstance(values, Iterable) or isinstance(values, str | set | frozenset):
            remedy = "use tb.Goal.leave(...)" if isinstance(values, Iterable) else ""
            expected = "a tb.Goal, or one for each image"
            raise InputError(f"is {shown(values)}", expected=expected, remedy=remedy, input="goal")
        return values
    is_tensor = isinstance(values, Tensor)
    if name in AXES_FOR_ALL and (
        values is None or (is_tensor and values.ndim in AXES_FOR_ALL[name])
    ):
        return None
    argument = name if name == "mask" else f"{name}s"
    if is_tensor and values.ndim != 4:
        image = name == "image"
        raise InputError(
            f"has shape {tuple(values.shape)}",
            expected="(n, c, h, w)" if image else "(n, c, h, w), or (c, h, w) for all images",
            remedy="for a single image use image[None]" if image else "",
            input=argument,
        )
    if not isinstance(values, Iterable):
        raise InputError(f"is {shown(values)}", expected="images, as tensors", input=argument)
    return values.cpu() if isinstance(values, Tensor) else values


def _plain(classes: Any) -> Any:
    """Return classes as plain numbers if they come as a tensor or an array."""
    return classes.tolist() if hasattr(classes, "tolist") else classes


def _zipped(template: Cell, columns: dict[str, Iterator[Any]]) -> Iterator[Cell]:
    """Yield a cell for each row of `columns`, which must have one length."""
    end, index = object(), 0
    while True:
        row: dict[str, Any] = {name: next(column, end) for name, column in columns.items()}
        ended = [name for name, value in row.items() if value is end]
        if len(ended) == len(row):
            return
        if ended:
            longer = next(name for name in row if name not in ended)
            missing = ended[0] if longer == "image" else longer
            raise InputError(
                f"got {index} {ended[0]}s but more {longer}s", expected=f"one {missing} per image"
            )
        for name in ("label", "target"):
            if hasattr(row.get(name), "__index__"):
                row[name] = row[name].__index__()
        for name in ("target", "start", "goal", "mask"):
            if name in row and row[name] is None:
                raise InputError(
                    f"the {name} of image {index} is None", expected="one for each image, or none"
                )
        yield replace(template, **row)
        index += 1


# -- run, stream, run_cells -----------------------------------------------------------------------


def _taking(
    arguments: Callable[P, _Call],
) -> Callable[[Callable[[_Call], T]], Callable[P, T]]:
    """Return a decorator that gives a function of a call the signature of `arguments`."""

    def decorate(function: Callable[[_Call], T]) -> Callable[P, T]:
        @functools.wraps(function)
        def call(*args: P.args, **options: P.kwargs) -> T:
            return function(arguments(*args, **options))

        returned = inspect.signature(function).return_annotation
        signature = inspect.signature(arguments).replace(return_annotation=returned)
        call.__signature__ = signature  # type: ignore[attr-defined]
        return suggesting(call)

    return decorate


@_taking(_arguments)
def run(call: _Call) -> Results:
    """Attack every image; return results in input order.

    attack: an attack, or the name of a preset.
    images: (n, c, h, w) in [0,1], or any iterable of images of one shape; labels: their classes.
    targets: the class to reach, one for all or one for each; by default any except the source.
    starts: the image to start from, one for all or one for each; by default the attack finds one.
    goal: which labels are flagged and which adversarial, as tb.Goal.leave({151, 152}), one for all
        or one for each; `targets` is short for a goal with a target.
    mask: the pixels that may change, as a bool tensor (h, w), one for all or one for each;
        elsewhere the source image is sent, whatever the attack.
    prices: the prices of answers; by default every answer costs 1.
    budget: the maximum cost of each image; short for `limits` with a budget.
    limits: the limits of each image, as tb.Limits(max_queries=1000).
    detection: a custom detector, as tb.Detection(detector), which sees the charged queries of each
        image in order. Attacks do not learn about its alarms. `Results.benign` has its alarms on
        harmless queries about the same images.
    norm: the metric of distances, "l2" or "linf"; an attack made for the other is refused.
    charge_clean: whether the query of the clean image is charged.
    execution: how the call is computed, as tb.Execution(batch_size=64); only its `time_limit`
        changes results.
    progress: a function that is called after each batch.
    """
    cells = list(call.cells)
    if not cells:
        raise InputError("there are no images", expected="at least one")
    return _all_results(call, cells, frames=6)


@_taking(_arguments)
def stream(call: _Call) -> Iterator[Result]:
    """Attack images as they come; yield each result when it is finished, and keep none.

    The arguments are those of `run`. Labels, targets and starts may also come from iterables.
    """

    def results() -> Iterator[Result]:
        cells, shape = iter(call.cells), None
        checked = call.execution.check or call.execution.exact
        few = list(islice(cells, CHECKED_IMAGES)) if checked else []
        for index, cell in enumerate(few):
            shape = cell.check(call.model, f"image {index}", shape)
        call.prepare(few, math.inf, frames=3)
        yield from call.results(chain(few, cells), math.inf)

    return results()


@suggesting
def run_cells(
    cells: Iterable[Cell],
    model: AnyModel,
    *,
    execution: Execution | None = None,
    progress: OnProgress = None,
) -> Results:
    """Run cells, which may differ in everything except the image shape; return results in input
    order. `execution` and `progress` are those of `run`."""
    if not isinstance(cells, Iterable):
        raise InputError(f"is {shown(cells)}", expected="cells, as Cell", input="cells")
    listed = list(cells)
    for index, cell in enumerate(listed):
        if not isinstance(cell, Cell):
            given = f"has {shown(cell)} at {index}"
            raise InputError(given, expected="cells, as Cell", input="cells")
    execution = Execution() if execution is None else execution
    call = _Call(as_model(model), listed, execution, progress)
    return _all_results(call, listed, frames=5)


def _all_results(call: _Call, cells: list[Cell], frames: int) -> Results:
    """Run cells; `frames` is how many frames the user's call is above `prepare`."""
    model, shape = call.model, None
    for index, cell in enumerate(cells):  # all of them before the first query
        shape = cell.check(model, cell.name or f"image {index}", shape)
    findings, exactness = call.prepare(cells, len(cells), frames)
    results = sorted(call.results(cells, len(cells)), key=lambda result: result.index)
    exactness = exactness.after(text for result in results for text in result.warnings)
    return Results(tuple(results), tuple(findings), exactness, _panel(cells, model))


def _panel(cells: list[Cell], model: Model) -> BenignStats | None:
    """Show the detector harmless queries about the images, if all cells have the same one."""
    found = [None if cell.detection is None else cell.detection.detector for cell in cells]
    detectors = {id(each): each for each in found}
    detector = next(iter(detectors.values()), None)
    if detector is None or len(detectors) > 1:
        return None
    images = {id(cell.image): cell.image for cell in cells}
    return benign_panel(detector, images.values(), model)
