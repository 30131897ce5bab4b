"""The runner: cells in this process, or in those of `workers`, after the model was checked.

1. What is wrong with an option is refused when a runner is made, before the first query.
2. The check and the choice of an exact shape ask uncharged, so a metered model gets neither.
3. Of a number of `workers` there are no more than cells, nor than cores, and a warning says so of
   cores. A `tb.Workers` is taken as it is.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from .check import CHECKED_IMAGES, Examined, ModelWarning, exact_choice, examine, threads
from .core.arguments import check_flag
from .core.cell import Cell
from .core.exactness import Exactness, Seen
from .core.model import Model
from .core.result import Result
from .engine.cores import fewer_notice, threads_each, within_cores
from .engine.engine import Engine
from .engine.workers import Workers, check_count
from .errors import InputError, mention

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
