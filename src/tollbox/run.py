"""Running: `run` for one attack on many images, `stream` for more than memory holds, and, below
both, `run_cells` for any mix of attacks, prices, budgets and seeds in one go.

`run` and `run_cells` refuse a wrong input before the first query. `stream` takes images as they
come, so it meets a wrong one when it comes; it then finishes those under way before it raises.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypedDict, Unpack

import torch
from torch import Tensor

from .cells import Cell, check_limits
from .check import check_model
from .engine import Engine, Progress
from .errors import InputError
from .models.model import Model, as_model
from .prices import Prices
from .problem import Attack
from .results import Result, Results

CHECKED_IMAGES = 8

AnyModel = Model | Callable[[Tensor], Any]


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
    engine = Engine(fit, **options)
    findings = _checked(fit, listed, engine) if check else []
    results = sorted(engine.run(listed), key=lambda result: result.index)
    return Results(results, findings)


def run(
    attack: Attack,
    model: AnyModel,
    images: Tensor | Iterable[Tensor],
    labels: Tensor | Iterable[int],
    *,
    check: bool = False,
    **options: Unpack[Options],
) -> Results:
    """Attack every image; results in input order.

    images: (n, c, h, w) in [0,1], or any iterable of images of one shape; labels: their classes.
    check: test first, uncharged, whether the model is fit to be measured. For the other options see
    `ImageOptions` and `EngineOptions`.
    """
    cells, engine_options = _cells(attack, images, labels, options)
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
    check: bool = False,
    **options: Unpack[Options],
) -> Iterator[Result]:
    """Attack images as they come; yields each result when it is finished, and holds none."""
    fit = as_model(model)
    cells, engine_options = _cells(attack, images, labels, options)
    engine = Engine(fit, **engine_options)

    def results() -> Iterator[Result]:
        few, shape = list(islice(cells, CHECKED_IMAGES)) if check else [], None
        for index, cell in enumerate(few):
            shape = cell.check(fit, f"image {index}", shape)
        _checked(fit, few, engine)
        yield from engine.run(cell for part in (few, cells) for cell in part)

    return results()


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


def _cells(
    attack: Attack,
    images: Tensor | Iterable[Tensor],
    labels: Tensor | Iterable[int],
    options: Options,
) -> tuple[Iterator[Cell], EngineOptions]:
    """A cell for each image, and what is left for the engine."""
    if not callable(attack):
        hint = f"; use tb.preset({attack!r})" if isinstance(attack, str) else ""
        raise InputError(f"the attack is {attack!r}: expected an attack{hint}.")
    if isinstance(images, Tensor):
        if images.ndim != 4:
            raise InputError(
                f"images has shape {tuple(images.shape)}: expected (n, c, h, w); for a single "
                "image use image[None]."
            )
        images = images.cpu()
    classes: Iterable[Any] = labels.tolist() if isinstance(labels, Tensor) else labels
    ours: dict[str, Any] = {k: v for k, v in options.items() if k in ImageOptions.__annotations__}
    rest: Any = {k: v for k, v in options.items() if k not in ours}
    if ours.get("max_queries") is None:
        ours["max_queries"] = math.inf
    check_limits(ours.get("prices", Prices()), ours.get("budget", math.inf), ours["max_queries"])
    return _zipped(attack, images, classes, ours), rest


def _zipped(
    attack: Attack, images: Iterable[Tensor], labels: Iterable[Any], ours: dict[str, Any]
) -> Iterator[Cell]:
    pictures, classes = iter(images), iter(labels)
    index = 0
    while True:
        image, label = next(pictures, None), next(classes, None)
        if image is None and label is None:
            return
        if image is None or label is None:
            fewer, more = ("images", "labels") if image is None else ("labels", "images")
            raise InputError(
                f"there are {index} {fewer} and more {more}: expected one label per image."
            )
        number = label.__index__() if hasattr(label, "__index__") else label
        yield Cell(attack, image, number, **ours)
        index += 1
