"""Running: `run` for one attack on many images, `stream` for more than memory holds, and, below
both, `run_cells` for any mix of attacks, prices, budgets and seeds in one go.

`run` and `run_cells` refuse a wrong input before the first query. `stream` takes images as they
come, so it meets a wrong one when it comes; it then finishes those under way before it raises.

A targeted run has `targets`, the classes to reach, and usually `starts`, images of those classes to
begin from: noise hardly ever ends in a class of one's choice.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sized
from itertools import islice
from typing import Any, NamedTuple, TypedDict, Unpack

import torch
from torch import Tensor

from .check import check_model
from .core.cell import Cell, check_limits
from .core.model import Model, as_model
from .core.prices import Prices
from .core.problem import Attack
from .core.result import Result, Results
from .engine.engine import Engine, Progress
from .engine.workers import Workers, check_count
from .errors import InputError

CHECKED_IMAGES = 8

AnyModel = Model | Callable[[Tensor], Any]
Targets = int | Tensor | Iterable[int] | None
"""The class to reach, for all images or one for each; None: any class but the source."""
Starts = Tensor | Iterable[Tensor] | None
"""The image to begin from, (c, h, w) for all or one for each; None: what the attack's start finds.
"""


class EngineOptions(TypedDict, total=False):
    """How to run; but for `time_limit` none of it changes a result, exactly so in float64, and in
    float32 with `one_shape`."""

    batch_size: int | None
    """Rows of a model batch (default: 256 on a GPU, else 64)."""
    live: int | None
    """The most images under way at a time (default: from memory and batch size)."""
    metered: bool
    """The model bills every row it computes: send only rows that are certain to be charged."""
    one_shape: bool
    """Pad to one batch shape instead of two: float32 results are then exact in any company."""
    time_limit: float
    """Seconds after which all ends."""
    progress: Callable[[Progress], None] | None
    """Called after each batch."""
    workers: int | Workers
    """Processes to share the work (default: 1, this one), or those of a `tb.Workers`."""


class ImageOptions(TypedDict, total=False):
    """What each image is attacked under."""

    prices: Prices
    budget: float
    """What each image may cost."""
    max_queries: float
    """How many queries each image may take."""
    seed: int
    charge_clean: bool
    """Charge the query of the clean image (default: yes)."""


class Options(EngineOptions, ImageOptions, total=False):
    """All options of `run` and `stream`."""


class ModelWarning(UserWarning):
    """The model is not fit to be measured; the message says why."""


def run_cells(
    cells: Iterable[Cell],
    model: AnyModel,
    *,
    check: bool = False,
    **options: Unpack[EngineOptions],
) -> Results:
    """Run cells, which may differ in everything but the image shape; results in input order."""
    fit = as_model(model)
    listed, shape = list(cells), None
    for index, cell in enumerate(listed):  # all of them before the first query
        shape = cell.check(fit, cell.name or f"image {index}", shape)
    runner = _Runner(fit, options)
    findings = _checked(fit, listed, runner.engine) if check else []
    results = sorted(runner.run(listed), key=lambda result: result.index)
    return Results(results, findings)


def run(
    attack: Attack,
    model: AnyModel,
    images: Tensor | Iterable[Tensor],
    labels: Tensor | Iterable[int],
    *,
    targets: Targets = None,
    starts: Starts = None,
    check: bool = False,
    **options: Unpack[Options],
) -> Results:
    """Attack every image; results in input order.

    images: (n, c, h, w) in [0,1], or any iterable of images of one shape; labels: their classes.
    targets: the class to reach, one for all or one for each; by default any but the source.
    starts: the image to begin from, likewise, in place of what the attack's own start would find.
    check: test first, uncharged, whether the model is fit to be measured. For the other options see
    `ImageOptions` and `EngineOptions`.
    """
    cells, engine_options = _cells(attack, _Given(images, labels, targets, starts), options)
    listed = list(cells)
    if not listed:
        raise InputError("there are no images: expected at least one.")
    return run_cells(listed, model, check=check, **engine_options)


def stream(
    attack: Attack,
    model: AnyModel,
    images: Tensor | Iterable[Tensor],
    labels: Tensor | Iterable[int],
    *,
    targets: Targets = None,
    starts: Starts = None,
    check: bool = False,
    **options: Unpack[Options],
) -> Iterator[Result]:
    """Attack images as they come; yields each result when it is finished, and holds none.

    `labels`, `targets` and `starts` may come likewise; the other arguments are those of `run`.
    """
    fit = as_model(model)
    cells, engine_options = _cells(attack, _Given(images, labels, targets, starts), options)
    runner = _Runner(fit, engine_options)

    def results() -> Iterator[Result]:
        few, shape = list(islice(cells, CHECKED_IMAGES)) if check else [], None
        for index, cell in enumerate(few):
            shape = cell.check(fit, f"image {index}", shape)
        _checked(fit, few, runner.engine)
        yield from runner.run(cell for part in (few, cells) for cell in part)

    return results()


class _Runner:
    """Runs cells in this process, or in those of `workers`."""

    def __init__(self, model: Model, options: EngineOptions) -> None:
        ours: dict[str, Any] = dict(options)
        self._model, self._workers = model, ours.pop("workers", 1)
        if not isinstance(self._workers, Workers):
            check_count(self._workers)
        self.engine = Engine(model, **ours)  # refuses what is wrong with them
        self._options = ours

    def run(self, cells: Iterable[Cell]) -> Iterator[Result]:
        """Each result as it is finished."""
        workers = self._workers
        if isinstance(workers, Workers):
            yield from workers.run(cells, **self._options)
            return
        count = min(workers, len(cells)) if isinstance(cells, Sized) else workers
        if count <= 1:
            yield from self.engine.run(cells)
        else:
            with Workers(self._model, count) as workers:
                yield from workers.run(cells, **self._options)


def _checked(model: Model, cells: list[Cell], engine: Engine) -> list[str]:
    if not cells:
        return []
    if engine.sender.metered:
        raise InputError(
            "check and metered are both set: the check asks uncharged, and a metered model bills "
            "every row; call tb.check_model where that is acceptable."
        )
    few = torch.stack([cell.image for cell in cells[:CHECKED_IMAGES]])
    findings = check_model(model, few, engine.sender.batch_size)
    if findings:
        warnings.warn(" ".join(findings), ModelWarning, stacklevel=3)
    return findings


class _Given(NamedTuple):
    """What there is for each image."""

    images: Tensor | Iterable[Tensor]
    labels: Tensor | Iterable[int]
    targets: Targets
    starts: Starts


def _cells(attack: Attack, given: _Given, options: Options) -> tuple[Iterator[Cell], EngineOptions]:
    """A cell for each image, and what is left for the engine."""
    if not callable(attack):
        hint = f"; use tb.preset({attack!r})" if isinstance(attack, str) else ""
        raise InputError(f"the attack is {attack!r}: expected an attack{hint}.")
    ours: dict[str, Any] = {k: v for k, v in options.items() if k in ImageOptions.__annotations__}
    rest: Any = {k: v for k, v in options.items() if k not in ours}
    if ours.get("max_queries") is None:
        ours["max_queries"] = math.inf
    check_limits(ours.get("prices", Prices()), ours.get("budget", math.inf), ours["max_queries"])
    labels = _numbers(given.labels)
    if not isinstance(labels, Iterable):
        raise InputError(f"labels is {labels!r}: expected one label per image.")
    columns: dict[str, Iterator[Any]] = {
        "image": iter(_pictures(given.images)),
        "label": iter(labels),
    }
    if given.targets is not None:
        targets = _numbers(given.targets)
        if isinstance(targets, Iterable):
            columns["target"] = iter(targets)
        else:
            ours["target"] = targets
    if isinstance(given.starts, Tensor) and given.starts.ndim == 3:
        ours["start"] = given.starts
    elif given.starts is not None:
        columns["start"] = iter(_starts(given.starts))
    return _zipped(attack, columns, ours), rest


def _pictures(images: Tensor | Iterable[Tensor]) -> Iterable[Tensor]:
    if isinstance(images, Tensor):
        if images.ndim != 4:
            raise InputError(
                f"images has shape {tuple(images.shape)}: expected (n, c, h, w); for a single "
                "image use image[None]."
            )
        return images.cpu()
    return images


def _starts(starts: Tensor | Iterable[Tensor]) -> Iterable[Tensor]:
    if isinstance(starts, Tensor):
        if starts.ndim != 4:
            raise InputError(
                f"starts has shape {tuple(starts.shape)}: expected (n, c, h, w), or (c, h, w) for "
                "all images."
            )
        return starts.cpu()
    if not isinstance(starts, Iterable):
        raise InputError(f"starts is {starts!r}: expected images, as tensors.")
    return starts


def _numbers(classes: Any) -> Any:
    """Classes as plain numbers, if they come as a tensor or an array."""
    return classes.tolist() if hasattr(classes, "tolist") else classes


def _zipped(
    attack: Attack, columns: dict[str, Iterator[Any]], ours: dict[str, Any]
) -> Iterator[Cell]:
    """A cell for each row of `columns`, which must be of one length."""
    end, index = object(), 0
    while True:
        row: dict[str, Any] = {name: next(column, end) for name, column in columns.items()}
        ended = [name for name, value in row.items() if value is end]
        if len(ended) == len(row):
            return
        if ended:
            more = next(name for name in row if name not in ended)
            per = ended[0] if more == "image" else more
            raise InputError(
                f"there are {index} {ended[0]}s and more {more}s: expected one {per} per image."
            )
        for name in ("label", "target"):
            if hasattr(row.get(name), "__index__"):
                row[name] = row[name].__index__()
        for name in ("target", "start"):
            if name in row and row[name] is None:
                raise InputError(
                    f"the {name} of image {index} is None: expected one for each image, or none."
                )
        yield Cell(attack, **row, **ours)
        index += 1
