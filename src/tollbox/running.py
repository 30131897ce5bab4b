"""Running: `run` for one attack on many images, `stream` for more than memory holds, and, below
both, `run_cells` for any mix of attacks, prices, budgets and seeds in one go.

`run` and `run_cells` refuse a wrong input before the first query. `stream` takes images as they
come, so it meets a wrong one when it comes; it then finishes those under way before it raises.

A targeted run has `targets`, the classes to reach, and usually `starts`, images of those classes to
begin from: noise hardly ever ends in a class of one's choice.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from itertools import chain, islice
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

from .check import CHECKED_IMAGES, check_model
from .core.arguments import check_flag, shown
from .core.cell import Cell, check_attack, check_limits
from .core.model import Model, as_model
from .core.prices import Prices
from .core.problem import Attack
from .core.result import Result, Results
from .engine.engine import Engine, Progress
from .engine.executors import fewer_notice, within_cores
from .engine.workers import Workers, check_count
from .errors import InputError, mention

P = ParamSpec("P")
T = TypeVar("T")
FORCED = "workers=tb.Workers(model, ..., force=True)"
AnyModel = Model | Callable[[Tensor], Any]
Targets = int | Tensor | Iterable[int] | None
"""The class to reach, for all images or one for each; None: any class but the source."""
Starts = Tensor | Iterable[Tensor] | None
"""The image to begin from, (c, h, w) for all or one for each; None: what the attack's start finds.
"""


class ModelWarning(UserWarning):
    """The model is not fit to be measured; the message says why."""


def _suggesting(function: Callable[P, T]) -> Callable[P, T]:
    """The function; an option that it does not have is refused with the nearest that it has."""
    names = inspect.signature(function).parameters

    @functools.wraps(function)
    def checked(*args: P.args, **options: P.kwargs) -> T:
        for name in options:
            if name not in names:
                near = difflib.get_close_matches(name, names, n=1)
                hint = f": did you mean {near[0]!r}?" if near else f"; it has {', '.join(names)}"
                raise TypeError(
                    f"{function.__name__}() got an unexpected keyword argument {name!r}{hint}"
                )
        return function(*args, **options)

    return checked


@_suggesting
def run_cells(
    cells: Iterable[Cell],
    model: AnyModel,
    *,
    check: bool = False,
    batch_size: int | None = None,
    live: int | None = None,
    metered: bool = False,
    one_shape: bool = False,
    time_limit: float = math.inf,
    progress: Callable[[Progress], None] | None = None,
    workers: int | Workers = 1,
) -> Results:
    """Run cells, which may differ in everything but the image shape; results in input order.

    The arguments are those of `run`.
    """
    checked_model = as_model(model)
    if not isinstance(cells, Iterable):
        raise InputError(f"is {shown(cells)}", expected="cells, as tb.Cell", input="cells")
    check_flag("check", check)
    listed, shape = list(cells), None
    for index, cell in enumerate(listed):
        if not isinstance(cell, Cell):
            raise InputError(
                f"has {shown(cell)} at {index}", expected="cells, as tb.Cell", input="cells"
            )
    for index, cell in enumerate(listed):  # all of them before the first query
        shape = cell.check(checked_model, _name(cell, index), shape)
    runner = _Runner(
        checked_model,
        workers,
        batch_size=batch_size,
        live=live,
        metered=metered,
        one_shape=one_shape,
        time_limit=time_limit,
        progress=progress,
    )
    findings = runner.check_model(listed, frames=4) if check else []
    results = sorted(runner.run(listed), key=lambda result: result.index)
    return Results(results, findings)


@_suggesting
def run(
    attack: Attack,
    model: AnyModel,
    images: Tensor | Iterable[Tensor],
    labels: Tensor | Iterable[int],
    *,
    targets: Targets = None,
    starts: Starts = None,
    prices: Prices | None = None,
    budget: float = math.inf,
    max_queries: float | None = None,
    seed: int = 0,
    charge_clean: bool = True,
    check: bool = False,
    batch_size: int | None = None,
    live: int | None = None,
    metered: bool = False,
    one_shape: bool = False,
    time_limit: float = math.inf,
    progress: Callable[[Progress], None] | None = None,
    workers: int | Workers = 1,
) -> Results:
    """Attack every image; results in input order.

    images: (n, c, h, w) in [0,1], or any iterable of images of one shape; labels: their classes.
    targets: the class to reach, one for all or one for each; by default any but the source.
    starts: the image to begin from, likewise, in place of what the attack's own start would find.
    prices: what an answer costs (default: 1, whatever it is).
    budget, max_queries: what each image may cost, and how many queries it may take.
    charge_clean: charge the query of the clean image.
    check: test first, uncharged, whether the model is fit to be measured.

    But for `time_limit`, none of the following changes a result, exactly so in float64, and in
    float32 with `one_shape`:

    batch_size: rows of a model batch (default: 256 on a GPU, else 64).
    live: the most images under way at a time (default: from memory and batch size).
    metered: the model bills every row it computes: send only rows that are certain to be charged.
    one_shape: pad to one batch shape instead of a few.
    time_limit: seconds after which all ends.
    progress: called after each batch.
    workers: processes that share the work (default: 1, this one), no more than cores; or those of
        a `tb.Workers`, which may be forced to be more.
    """
    cells = list(
        _cells(
            attack,
            {"image": images, "label": labels, "target": targets, "start": starts},
            prices=prices,
            budget=budget,
            max_queries=max_queries,
            seed=seed,
            charge_clean=charge_clean,
        )
    )
    if not cells:
        raise InputError("there are no images", expected="at least one")
    return run_cells(
        cells,
        model,
        check=check,
        batch_size=batch_size,
        live=live,
        metered=metered,
        one_shape=one_shape,
        time_limit=time_limit,
        progress=progress,
        workers=workers,
    )


@_suggesting
def stream(
    attack: Attack,
    model: AnyModel,
    images: Tensor | Iterable[Tensor],
    labels: Tensor | Iterable[int],
    *,
    targets: Targets = None,
    starts: Starts = None,
    prices: Prices | None = None,
    budget: float = math.inf,
    max_queries: float | None = None,
    seed: int = 0,
    charge_clean: bool = True,
    check: bool = False,
    batch_size: int | None = None,
    live: int | None = None,
    metered: bool = False,
    one_shape: bool = False,
    time_limit: float = math.inf,
    progress: Callable[[Progress], None] | None = None,
    workers: int | Workers = 1,
) -> Iterator[Result]:
    """Attack images as they come; yields each result when it is finished, and holds none.

    `labels`, `targets` and `starts` may come likewise; the arguments are those of `run`.
    """
    checked_model = as_model(model)
    check_flag("check", check)
    cells = _cells(
        attack,
        {"image": images, "label": labels, "target": targets, "start": starts},
        prices=prices,
        budget=budget,
        max_queries=max_queries,
        seed=seed,
        charge_clean=charge_clean,
    )
    runner = _Runner(
        checked_model,
        workers,
        batch_size=batch_size,
        live=live,
        metered=metered,
        one_shape=one_shape,
        time_limit=time_limit,
        progress=progress,
    )

    def results() -> Iterator[Result]:
        few, shape = list(islice(cells, CHECKED_IMAGES)) if check else [], None
        for index, cell in enumerate(few):
            shape = cell.check(checked_model, f"image {index}", shape)
        if few:
            runner.check_model(few, frames=3)
        yield from runner.run(chain(few, cells))

    return results()


def _name(cell: Cell, index: int) -> str:
    """What messages call a cell."""
    return cell.name if isinstance(cell.name, str) and cell.name else f"image {index}"


class _Runner:
    """Runs cells in this process, or in those of `workers`."""

    def __init__(self, model: Model, workers: int | Workers, **options: Any) -> None:
        if not isinstance(workers, Workers):
            check_count(workers)
        self._model, self._workers, self._options = model, workers, options
        self._engine = Engine(model, **options)  # refuses what is wrong with them

    def run(self, cells: Iterable[Cell]) -> Iterator[Result]:
        """Each result as it is finished."""
        workers = self._workers
        if isinstance(workers, Workers):
            yield from workers.run(cells, **self._options)
            return
        work = len(cells) if isinstance(cells, Sized) else workers
        if (notice := fewer_notice(workers, work, False, FORCED)) is not None:
            warnings.warn(notice, stacklevel=2)
        count = within_cores(min(workers, work), False)
        if count <= 1:
            yield from self._engine.run(cells)
        else:
            with Workers(self._model, count) as workers:
                yield from workers.run(cells, **self._options)

    def check_model(self, cells: list[Cell], frames: int) -> list[str]:
        """What makes the model unfit to be measured on these images; warns of it, too, in the name
        of the caller so many frames up."""
        sender = self._engine.sender
        if sender.metered:
            raise InputError(
                f"{mention('check')} and {mention('metered')} are both set: the check asks "
                "uncharged, and a metered model bills every row",
                remedy="call tb.check_model where that is acceptable",
            )
        if not cells:
            return []
        few = torch.stack([cell.image for cell in cells[:CHECKED_IMAGES]])
        findings = check_model(self._model, few, sender.batch_size)
        if findings:
            warnings.warn(" ".join(findings), ModelWarning, stacklevel=frames)
        return findings


# -- cells from images, labels, targets and starts ------------------------------------------------


def _cells(attack: Attack, inputs: Mapping[str, Any], **options: Any) -> Iterator[Cell]:
    """A cell for each image. `inputs` are fields of a cell, for all images or one for each."""
    check_attack(attack)
    if options["prices"] is None:
        options["prices"] = Prices()
    if options["max_queries"] is None:
        options["max_queries"] = math.inf
    check_limits(options["prices"], options["budget"], options["max_queries"])
    columns: dict[str, Iterator[Any]] = {}
    for name, value in inputs.items():
        values = _column(name, value)
        if values is not None:
            columns[name] = iter(values)
        elif value is not None:
            options[name] = _plain(value) if name == "target" else value
    return _zipped(attack, columns, options)


def _column(name: str, values: Any) -> Iterable[Any] | None:
    """What there is for each image; None if there is one for all, or nothing."""
    if name in ("label", "target"):
        values = _plain(values)
        if isinstance(values, Iterable):
            return values
        if name == "target":
            return None
        raise InputError(f"is {shown(values)}", expected="one label per image", input="labels")
    if name == "start" and (values is None or (isinstance(values, Tensor) and values.ndim == 3)):
        return None
    if isinstance(values, Tensor) and values.ndim != 4:
        image = name == "image"
        raise InputError(
            f"has shape {tuple(values.shape)}",
            expected="(n, c, h, w)" if image else "(n, c, h, w), or (c, h, w) for all images",
            remedy="for a single image use image[None]" if image else "",
            input=f"{name}s",
        )
    if not isinstance(values, Iterable):
        raise InputError(f"is {shown(values)}", expected="images, as tensors", input=f"{name}s")
    return values.cpu() if isinstance(values, Tensor) else values


def _plain(classes: Any) -> Any:
    """Classes as plain numbers, if they come as a tensor or an array."""
    return classes.tolist() if hasattr(classes, "tolist") else classes


def _zipped(
    attack: Attack, columns: dict[str, Iterator[Any]], options: dict[str, Any]
) -> Iterator[Cell]:
    """A cell for each row of `columns`, which must be of one length."""
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
                f"there are {index} {ended[0]}s and more {longer}s",
                expected=f"one {missing} per image",
            )
        for name in ("label", "target"):
            if hasattr(row.get(name), "__index__"):
                row[name] = row[name].__index__()
        for name in ("target", "start"):
            if name in row and row[name] is None:
                raise InputError(
                    f"the {name} of image {index} is None", expected="one for each image, or none"
                )
        yield Cell(attack, **row, **options)
        index += 1
