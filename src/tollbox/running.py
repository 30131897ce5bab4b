"""Running: `run` for one attack on many images, `stream` for more than memory holds, and, below
both, `run_cells` for any mix of attacks, prices, budgets and seeds in one go.

`run` and `run_cells` refuse a wrong input before the first query. `stream` takes images as they
come, so it meets a wrong one when it comes; it then finishes those under way before it raises.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice

from torch import Tensor

from .benign import benign_panel
from .check import CHECKED_IMAGES
from .core.arguments import shown
from .core.cell import Cell
from .core.model import Model, as_model
from .core.panel import Panel
from .core.prices import Prices
from .core.problem import Attack
from .core.result import Result, Results
from .core.watch import Detector
from .engine.progress import Progress
from .engine.workers import Workers
from .errors import InputError
from .run_arguments import AnyModel, Goals, Masks, Starts, Targets, cells_from, suggesting
from .runner import Runner


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


def _panel(cells: list[Cell], model: Model) -> Panel | None:
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
