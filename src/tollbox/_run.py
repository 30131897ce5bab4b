"""The arguments of `run` and `stream`: what may be given, and a cell for each image made from it.

1. An option that there is not is refused with the nearest that there is.
2. Limits are checked before the first cell is made.
3. Images and labels come one for each cell, as any iterable; all else of an image may also be given
   once for all. They are taken as cells are asked for, so a wrong one is met when it comes.

A targeted run has `targets`, the classes to reach, and usually `starts`, images of those classes to
begin from: noise hardly ever ends in a class of one's choice.

The runner: cells in this process, or in those of `workers`, after the model was checked.

1. What is wrong with an option is refused when a runner is made, before the first query.
2. The check and the choice of an exact shape ask uncharged, so a metered model gets neither.
3. Of a number of `workers` there are no more than cells, nor than cores, and a warning says so of
   cores. A `tb.Workers` is taken as it is.

Running: `run` for one attack on many images, `stream` for more than memory holds, and, below
both, `run_cells` for any mix of attacks, prices, budgets and seeds in one go.

`run` and `run_cells` refuse a wrong input before the first query. `stream` takes images as they
come, so it meets a wrong one when it comes; it then finishes those under way before it raises.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import math
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

from .core.cell import Cell, check_attack, check_limits
from .core.detector import BenignStats, Detector, check_watch
from .core.exactness import Exactness, Seen
from .core.goal import Goal
from .core.metric import check_made_for, norm_of
from .core.model import Model, as_model
from .core.prices import Prices
from .core.problem import Attack
from .core.result import Result, Results
from .core.validation import check_flag, shown
from .detection.benign import benign_panel
from .engine.engine import Engine
from .engine.progress import Progress
from .errors import InputError, mention
from .model_check import CHECKED_IMAGES, Examined, ModelWarning, exact_choice, examine, threads
from .workers.executors import fewer_notice, threads_each, within_cores
from .workers.pool import Workers, check_count

P = ParamSpec("P")
T = TypeVar("T")
AnyModel = Model | Callable[[Tensor], Any]
Targets = int | Tensor | Iterable[int] | None
"""The class to reach, for all images or one for each; None: any class but the source."""
Goals = Goal | Iterable[Goal] | None
"""What is flagged and what adversarial, for all images or for each; None: any class but its own."""
Masks = Tensor | Iterable[Tensor] | None
"""Which pixels may change, bool: (h, w), (1, h, w) or (c, h, w) for all images, or one for each, as
(n, c, h, w) or (n, 1, h, w) or any iterable; None: all pixels."""
Starts = Tensor | Iterable[Tensor] | None
"""The image to begin from, (c, h, w) for all or one for each; None: what the attack's start finds.
"""
LIMITS = (
    *("prices", "budget", "max_queries", "max_flagged", "norm"),
    *("watch", "alarm_price", "max_alarms"),
)
"""The arguments that `checked_limits` takes after the attack."""
WHOLE = {"start": (3,), "mask": (2, 3)}
"""Numbers of axes of a tensor that is for all images."""


def suggesting(function: Callable[P, T]) -> Callable[P, T]:
    """The function; an option that it does not have is refused with the nearest that it has."""
    names = inspect.signature(function).parameters

    @functools.wraps(function)
    def checked(*args: P.args, **options: P.kwargs) -> T:
        check_names(function.__name__, options, names)
        return function(*args, **options)

    return checked


def check_names(function: str, options: Iterable[str], names: Collection[str]) -> None:
    """Raise TypeError, in the name of a function, for the first option that it does not have."""
    for name in options:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f": did you mean {near[0]!r}?" if near else f"; it has {', '.join(names)}"
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{hint}")


def cells_from(attack: Attack, inputs: Mapping[str, Any], **options: Any) -> Iterator[Cell]:
    """A cell for each image. `inputs` are fields of a cell, for all images or one for each."""
    options |= checked_limits(attack, *(options[name] for name in LIMITS))
    columns: dict[str, Iterator[Any]] = {}
    for name, value in inputs.items():
        values = _column(name, value)
        if values is not None:
            columns[name] = iter(values)
        elif value is not None:
            options[name] = _plain(value) if name == "target" else value
    return _zipped(attack, columns, options)


def checked_limits(
    attack: Attack,
    prices: Prices | None,
    budget: float,
    max_queries: float | None,
    max_flagged: float | None,
    norm: str,
    watch: Detector | None = None,
    alarm_price: float = 0.0,
    max_alarms: float | None = None,
) -> dict[str, Any]:
    """What a cell has of these arguments of `run`; raises InputError if they cannot be run."""
    check_attack(attack)
    metric = norm_of(norm)
    check_made_for(attack, metric)
    prices = Prices() if prices is None else prices
    limits = {
        "budget": budget,
        "max_queries": math.inf if max_queries is None else max_queries,
        "max_flagged": math.inf if max_flagged is None else max_flagged,
    }
    most_alarms = math.inf if max_alarms is None else max_alarms
    check_watch(watch, alarm_price, most_alarms)
    check_limits(prices, **limits, alarm_price=alarm_price)
    watching = {"watch": watch, "alarm_price": alarm_price, "max_alarms": most_alarms}
    return {"prices": prices, "norm": metric, **limits, **watching}


def _column(name: str, values: Any) -> Iterable[Any] | None:
    """What there is for each image; None if there is one for all, or nothing."""
    if name in ("label", "target"):
        values = _plain(values)
        if isinstance(values, Iterable):
            return values
        if name == "target":
            return None
        raise InputError(f"is {shown(values)}", expected="one label per image", input="labels")
    if name == "goal":
        return None if values is None or isinstance(values, Goal) else _goals(values)
    if name in WHOLE and (
        values is None or (isinstance(values, Tensor) and values.ndim in WHOLE[name])
    ):
        return None
    argument = name if name == "mask" else f"{name}s"
    if isinstance(values, Tensor) and values.ndim != 4:
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


def _goals(values: Any) -> Iterable[Any]:
    if not isinstance(values, Iterable) or isinstance(values, str | set | frozenset):
        remedy = "use tb.Goal.leave(...)" if isinstance(values, Iterable) else ""
        expected = "a tb.Goal, or one for each image"
        raise InputError(f"is {shown(values)}", expected=expected, remedy=remedy, input="goal")
    return values


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
        for name in ("target", "start", "goal", "mask"):
            if name in row and row[name] is None:
                raise InputError(
                    f"the {name} of image {index} is None", expected="one for each image, or none"
                )
        yield Cell(attack, **row, **options)
        index += 1


FORCED = "workers=tb.Workers(model, ..., force=True)"


class Runner:
    """Runs cells in this process, or in those of `workers`."""

    def __init__(
        self,
        model: Model,
        workers: int | Workers,
        most: float,
        check: bool,
        exact: bool,
        **options: Any,
    ) -> None:
        """`most` cells will come."""
        check_flag("check", check)
        check_flag("exact", exact)
        if isinstance(workers, Workers):
            self._count = workers.count
        else:
            check_count(workers)
            self._count = within_cores(int(min(workers, most)), False)
        self._model, self._workers, self._options = model, workers, options
        self._most = most
        self._check, self._exact = check, exact
        self._engine = Engine(model, **options)  # refuses what is wrong with them
        if self._engine.sender.metered and (check or exact):
            raise _asks_uncharged("check" if check else "exact")

    def run(self, cells: Iterable[Cell]) -> Iterator[Result]:
        """Each result as it is finished."""
        workers, options = self._workers, self._options
        if isinstance(workers, Workers):
            layout = self._model.layout if self._exact else None
            yield from workers.run(cells, layout=layout, **options)
            return
        if (
            notice := fewer_notice(workers, int(min(workers, self._most)), False, FORCED)
        ) is not None:
            warnings.warn(notice, stacklevel=2)
        if self._count <= 1:
            yield from self._engine.run(cells)
        else:
            with Workers(self._model, self._count) as workers:
                yield from workers.run(cells, **options)

    def prepare(self, cells: list[Cell], frames: int) -> Examined:
        """Check the model on these images, and choose an exact shape and layout, if either was
        asked for. Warns, too, of what makes the model unfit, in the name of the caller so many
        frames up."""
        sender = self._engine.sender
        if not (cells and (self._check or self._exact)):
            return Examined([], Exactness(Seen.METERED if sender.metered else Seen.NOT_CHECKED))
        few = torch.stack([cell.image for cell in cells[:CHECKED_IMAGES]])
        with threads(threads_each(max(1, self._count))):
            if self._exact:
                self._model, examined = exact_choice(self._model, few, self._options["batch_size"])
                [size] = examined.exactness.shapes
                self._options |= {"batch_size": size, "one_shape": True}
                self._engine = Engine(self._model, **self._options)
            else:
                examined = examine(self._model, few, sender.shapes)
        if examined.findings and self._check:
            warnings.warn(" ".join(examined.findings), ModelWarning, stacklevel=frames)
        return examined


def _asks_uncharged(name: str) -> InputError:
    """What is refused of a metered model."""
    why = "the check asks uncharged, and a metered model bills every row"
    if name == "exact":
        why += ", and gets no padding, so that batch shapes vary"
    return InputError(
        f"{mention(name)} and {mention('metered')} are both set: {why}",
        remedy="call tb.check_model where that is acceptable"
        if name == "check"
        else f"leave {mention(name)} out",
    )


@suggesting
def run_cells(
    cells: Iterable[Cell],
    model: AnyModel,
    *,
    check: bool = False,
    batch_size: int | None = None,
    live: int | None = None,
    metered: bool = False,
    one_shape: bool = False,
    exact: bool = False,
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
    listed, shape = list(cells), None
    for index, cell in enumerate(listed):
        if not isinstance(cell, Cell):
            raise InputError(
                f"has {shown(cell)} at {index}", expected="cells, as tb.Cell", input="cells"
            )
    for index, cell in enumerate(listed):  # all of them before the first query
        shape = cell.check(checked_model, _name(cell, index), shape)
    runner = Runner(
        checked_model,
        workers,
        len(listed),
        check,
        exact,
        batch_size=batch_size,
        live=live,
        metered=metered,
        one_shape=one_shape,
        time_limit=time_limit,
        progress=progress,
    )
    findings, exactness = runner.prepare(listed, frames=4)
    results = sorted(runner.run(listed), key=lambda result: result.index)
    warnings = (text for result in results for text in result.warnings)
    panel = _panel(listed, checked_model)
    return Results(results, findings, exactness.after(warnings), panel)


@suggesting
def run(
    attack: Attack,
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
    max_queries: float | None = None,
    max_flagged: float | None = None,
    watch: Detector | None = None,
    alarm_price: float = 0.0,
    max_alarms: float | None = None,
    norm: str = "l2",
    seed: int = 0,
    charge_clean: bool = True,
    check: bool = False,
    batch_size: int | None = None,
    live: int | None = None,
    metered: bool = False,
    one_shape: bool = False,
    exact: bool = False,
    time_limit: float = math.inf,
    progress: Callable[[Progress], None] | None = None,
    workers: int | Workers = 1,
) -> Results:
    """Attack every image; results in input order.

    images: (n, c, h, w) in [0,1], or any iterable of images of one shape; labels: their classes.
    targets: the class to reach, one for all or one for each; by default any but the source.
    starts: the image to begin from, likewise, in place of what the attack's own start would find.
    goal: which labels are flagged and which adversarial, as tb.Goal.leave({151, 152}), one for all
        or one for each; `targets` is short for a goal with a target.
    mask: the pixels that may change, as a bool tensor (h, w), one for all or one for each; what is
        sent is the source image elsewhere, whatever the attack.
    prices: what an answer costs (default: 1, whatever it is).
    budget, max_queries: what each image may cost, and how many queries it may take.
    max_flagged: how many of its answers may be flagged; nothing is asked after the last of them.
    watch: a detector of one's own (tb.Detector), which is shown the charged queries of each image,
        in order; its alarms are counted, and no attack is told of them. `Results.benign` has what
        it says of harmless queries about the same images.
    alarm_price, max_alarms: what an alarm costs beside the answer, and how many may be raised;
        nothing is asked after the last of them.
    norm: what distances are measured in, "l2" or "linf"; an attack that is made for the other is
        refused.
    charge_clean: charge the query of the clean image.
    check: test first, uncharged, whether the model is fit to be measured.

    But for `time_limit`, none of the following changes a result, exactly so with `exact`, and as
    far as a row of the network depends on nothing else without it (`Results.exactness`):

    batch_size: rows of a model batch (default: 256 on a GPU, else 64).
    live: the most images under way at a time (default: from memory and batch size).
    metered: the model bills every row it computes: send only rows that are certain to be charged.
    one_shape: pad to one batch shape instead of a few.
    exact: take one batch shape and layout in which a row of the network is found to depend on
        nothing else, bit for bit, and refuse if there is none. A batch_size that is given is the
        only one tried. The model is asked uncharged, so not with `metered`.
    time_limit: seconds after which all ends.
    progress: called after each batch.
    workers: processes that share the work (default: 1, this one), no more than cores; or those of
        a `tb.Workers`, which may be forced to be more.
    """
    cells = list(
        cells_from(
            attack,
            {
                "image": images,
                "label": labels,
                "target": targets,
                "start": starts,
                "goal": goal,
                "mask": mask,
            },
            prices=prices,
            budget=budget,
            max_queries=max_queries,
            max_flagged=max_flagged,
            watch=watch,
            alarm_price=alarm_price,
            max_alarms=max_alarms,
            norm=norm,
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
        exact=exact,
        time_limit=time_limit,
        progress=progress,
        workers=workers,
    )


@suggesting
def stream(
    attack: Attack,
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
    max_queries: float | None = None,
    max_flagged: float | None = None,
    watch: Detector | None = None,
    alarm_price: float = 0.0,
    max_alarms: float | None = None,
    norm: str = "l2",
    seed: int = 0,
    charge_clean: bool = True,
    check: bool = False,
    batch_size: int | None = None,
    live: int | None = None,
    metered: bool = False,
    one_shape: bool = False,
    exact: bool = False,
    time_limit: float = math.inf,
    progress: Callable[[Progress], None] | None = None,
    workers: int | Workers = 1,
) -> Iterator[Result]:
    """Attack images as they come; yields each result when it is finished, and holds none.

    `labels`, `targets` and `starts` may come likewise; the arguments are those of `run`.
    """
    checked_model = as_model(model)
    cells = cells_from(
        attack,
        {
            "image": images,
            "label": labels,
            "target": targets,
            "start": starts,
            "goal": goal,
            "mask": mask,
        },
        prices=prices,
        budget=budget,
        max_queries=max_queries,
        max_flagged=max_flagged,
        watch=watch,
        alarm_price=alarm_price,
        max_alarms=max_alarms,
        norm=norm,
        seed=seed,
        charge_clean=charge_clean,
    )
    runner = Runner(
        checked_model,
        workers,
        math.inf,
        check,
        exact,
        batch_size=batch_size,
        live=live,
        metered=metered,
        one_shape=one_shape,
        time_limit=time_limit,
        progress=progress,
    )

    def results() -> Iterator[Result]:
        few, shape = list(islice(cells, CHECKED_IMAGES)) if check or exact else [], None
        for index, cell in enumerate(few):
            shape = cell.check(checked_model, f"image {index}", shape)
        runner.prepare(few, frames=3)
        yield from runner.run(chain(few, cells))

    return results()


def _panel(cells: list[Cell], model: Model) -> BenignStats | None:
    """What the detector says of harmless queries about the images, if all cells have the same."""
    detectors = {id(cell.watch): cell.watch for cell in cells}
    detector = next(iter(detectors.values()), None)
    if detector is None or len(detectors) > 1:
        return None
    images = {id(cell.image): cell.image for cell in cells}
    return benign_panel(detector, images.values(), model)


def _name(cell: Cell, index: int) -> str:
    """What messages call a cell."""
    return cell.name if isinstance(cell.name, str) and cell.name else f"image {index}"
