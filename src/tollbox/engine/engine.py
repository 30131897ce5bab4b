"""The engine: many attacks, one model.

1. A batch is filled with what the live cells ask next, whatever attack, price or step each is at.
   Wanted rows come first; rows that may turn out unneeded only fill what would be padding.
2. On a GPU the next batch is launched while the model works on the last; one synchronisation each.
3. Cells are admitted while there is room: for their number, and for the points they may hold.
4. Every cell ends with a reason. An error ends the cells concerned, and no others.
5. Nothing may depend on the order in which live cells are served: tests shuffle it.
"""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core.cell import Cell
from ..core.model import Model
from ..core.problem import BoundedAttack
from ..core.result import Result
from ..core.stop import Stop
from ..errors import InputError
from .arrivals import Arrival, arrivals, to_record, waiting
from .cell_run import CellRun
from .journal import Journal
from .sender import Flight, Piece, Sender

LARGEST_BATCH = 65_536
SMALL_ASK = 4
"""Rows of an ask that is served before larger ones."""
DEFAULT_ROWS = 256
"""Points that an attack is taken to hold at a time if it does not say (`BoundedAttack`)."""


@dataclass(frozen=True)
class Progress:
    """Where a run stands, given to the `progress` callback after each batch."""

    done: int
    live: int
    queries: int
    """Charged so far, over all images."""
    rows: int
    """Computed so far, padding and unneeded rows included."""
    seconds: float
    finished: tuple[Result, ...]
    """The results that this batch brought."""


@dataclass
class InFlight:
    """A batch on its way, and who waits for what it brings."""

    flight: Flight
    steps: list[dict[str, Any]]
    closing: list[tuple[CellRun, Tensor | None]]


class Engine:
    """Runs cells on one model; `run` yields each result as it is finished."""

    def __init__(
        self,
        model: Model,
        *,
        batch_size: int | None = None,
        live: int | None = None,
        metered: bool = False,
        one_shape: bool = False,
        time_limit: float = math.inf,
        memory: float = 1.0,
        progress: Callable[[Progress], None] | None = None,
        journal: Journal | None = None,
        shuffle: Callable[[list[CellRun]], None] | None = None,
    ) -> None:
        if batch_size is None:
            batch_size = default_batch_size(model)
        if not 1 <= batch_size <= LARGEST_BATCH:
            raise InputError(
                f"is {batch_size}", expected=f"1 to {LARGEST_BATCH}", input="batch_size"
            )
        if live is not None and live < 1:
            raise InputError(f"is {live}", expected="1 or more", input="live")
        if model.batch not in (None, batch_size):
            raise InputError(
                f"is {batch_size}",
                expected=f"{model.batch}, the only batch size that the model takes",
                input="batch_size",
            )
        if metered and model.batch not in (None, 1):
            raise InputError(
                f"is set, but the model takes batches of {model.batch} only: padding would be "
                "charged",
                expected="a model that takes batches of any size, or of 1",
                input="metered",
            )
        if math.isnan(time_limit) or time_limit <= 0:
            raise InputError(
                f"is {time_limit:g}", expected="seconds, more than 0", input="time_limit"
            )
        self.sender = Sender(model, batch_size, one_shape, metered)
        self._model, self._metered = model, metered
        self._live_limit = live if live is not None else max(64, 2 * batch_size)
        self._memory = memory * _memory(model.device)  # a share of what there is
        self._time_limit, self._began = time_limit, time.monotonic()
        self._progress, self._journal, self._shuffle = progress, journal, shuffle
        self._depth = 2 if model.device.type == "cuda" else 1
        self._lives: dict[int, CellRun] = {}
        self._held = 0
        """Bytes of the points that they may hold."""
        self._free: list[int] = []
        self._ready: dict[int, CellRun] = {}
        self._recalling: dict[int, CellRun] = {}
        """Those that ask for what was recorded earlier."""
        self._air: deque[InFlight] = deque()
        self._numbers: list[tuple[Tensor, dict[str, Any]]] = []
        self._closing: list[CellRun] = []
        self._finished: deque[Result] = deque()
        self._shape: tuple[int, ...] | None = None
        self._done = self._queries = self._rows = 0
        self._stopping: Stop | None = None

    def stop(self, reason: Stop = Stop.INTERRUPTED) -> None:
        """End all cells after the batches under way; safe to call from a signal handler."""
        self._stopping = self._stopping or reason

    def run(self, cells: Iterable[Cell]) -> Iterator[Result]:
        """Run cells and yield each result as it is finished, in no particular order.

        A cell that is refused, or an error of the iterable, ends the admission of further ones;
        those under way are finished and yielded before the error is raised. After a stop the cells
        that have not begun end with that reason, if the iterable has a length.
        """
        self._began = time.monotonic()
        full = self.sender.batch_size
        waiting = enumerate(cells)
        refused: Exception | None = None
        more = True
        while more or self._lives or self._air or self._closing or self._numbers:
            if time.monotonic() - self._began > self._time_limit:
                self.stop(Stop.TIME_LIMIT)
            if self._stopping is not None:
                self._end_all(self._stopping)
            while more and self._has_room():
                if self._stopping is not None and not isinstance(cells, Sized):
                    more = False  # who knows whether they ever end
                    break
                try:
                    self._admit(*next(waiting))
                except StopIteration:
                    more = False
                except Exception as error:  # of the cell, or of whoever makes the images
                    refused, more = error, False
                if not self._air and self._wanted(full) >= full:
                    self._dispatch()  # the model need not wait until all are there
            self._dispatch()
            if self._air:
                self._land()
            while self._finished:
                yield self._finished.popleft()
        if refused is not None:
            raise refused

    def under_way(self) -> list[tuple[int, int]]:
        """Of each cell under way its position in the input, and its queries so far."""
        return [(live.index, live.ledger.queries) for live in self._lives.values()]

    # -- cells come and go ------------------------------------------------------------------------

    def _has_room(self) -> bool:
        if self._stopping is not None:
            return not self._closing  # they end without a query, one after another
        room = self._held < self._memory or not self._lives
        return len(self._lives) < self._live_limit and room

    @torch.no_grad()
    def _admit(self, index: int, cell: Cell) -> None:
        self._shape = cell.check(self._model, cell.name or f"image {index}", self._shape)
        held = _held(cell)  # may raise, before anything is under way
        history = None if self._journal is None else self._journal.history(index)
        slot = self._free.pop() if self._free else len(self._lives)
        live = CellRun(index, cell, slot, self._model, self._metered)
        live.held, live.history = held, history
        if self._stopping is None:
            self.sender.place(slot, live.problem.source)
        self._lives[slot] = live  # from here on nothing raises
        self._held += held
        if self._stopping is not None:
            live.end(self._stopping)
        else:
            live.begin()
        self._serve(live)

    def _serve(self, live: CellRun) -> None:
        """Let a cell go on as far as it can without the model."""
        if live.advance() and not self._diverges(live, live.differs()):
            waits = self._recalling if live.recallable() else self._ready
            waits[live.slot] = live
        self._queries += live.newly_charged()
        self._numbers += live.numbers
        live.numbers = []
        if live.ended is not None:
            self._ready.pop(live.slot, None)
            self._recalling.pop(live.slot, None)
            del self._lives[live.slot]
            self._held -= live.held
            self._free.append(live.slot)
            self._closing.append(live)

    @torch.no_grad()
    def _end_all(self, reason: Stop) -> None:
        while self._air:
            self._land()
        for live in list(self._lives.values()):
            live.end(reason)
            self._serve(live)

    # -- batches ----------------------------------------------------------------------------------

    @torch.no_grad()
    def _dispatch(self) -> None:
        full = self.sender.batch_size
        while len(self._air) < self._depth:
            if self._recalling:
                self._launch(*self._recalled())
                continue
            wanted = self._wanted(full)
            if wanted == 0 or (self._air and wanted < full):
                break
            self._launch(self._assemble())
        if not self._air and (self._closing or self._numbers):
            self._launch([])

    def _wanted(self, enough: int) -> int:
        total = 0
        for live in self._ready.values():
            total += live.pending.wanted_rows if live.pending is not None else 0
            if total >= enough:
                break
        return total

    def _assemble(self) -> list[Piece]:
        """Rows for the next batch: wanted ones, then, up to the padded shape, spare ones."""
        pieces: list[Piece] = []
        space = self.sender.batch_size
        order = sorted(self._ready.values(), key=_turn)
        if self._shuffle is not None:
            self._shuffle(order)
        for live in order:
            if space == 0:
                break
            space -= self._cut(live, pieces, space, spare=False)
            if live.pending is None or live.pending.wanted_rows == 0:
                del self._ready[live.slot]
        rows = self.sender.batch_size - space
        space = self.sender.padded(rows) - rows
        if space == 0:
            return pieces
        able = [
            live
            for live in self._lives.values()
            if live.pending and live.pending.can_spare and live.slot not in self._recalling
        ]
        share = -(-space // len(able)) if able else 0
        for live in able:
            space -= self._cut(live, pieces, min(share, space), spare=True)
        return pieces

    def _cut(self, live: CellRun, pieces: list[Piece], space: int, spare: bool) -> int:
        """Take up to `space` rows of a live cell's ask; returns how many."""
        pending, taken = live.pending, 0
        if pending is None:
            return 0
        for number in range(len(pending.runs)):
            rows = pending.spare(number) if spare else pending.wanted(number)
            rows = min(rows, space - taken)
            if rows > 0:
                first = pending.send(number, rows)
                pieces.append(Piece(pending, number, first, first + rows, live.slot))
                taken += rows
        return taken

    def _recalled(self) -> tuple[list[Piece], NDArray[np.int64]]:
        """Rows for a batch that is answered from histories, and their labels."""
        pieces: list[Piece] = []
        labels: list[NDArray[np.int64]] = []
        space = self.sender.batch_size
        for live in list(self._recalling.values()):
            pending, history = live.pending, live.history
            if pending is None or history is None:
                raise RuntimeError("a cell recalls nothing")
            for number, rows in live.recallable():
                rows = min(rows, space)
                if rows == 0:
                    return pieces, np.concatenate(labels)
                first = pending.send(number, rows)
                pieces.append(Piece(pending, number, first, first + rows, live.slot))
                labels.append(history.labels(live.asked, number, first, first + rows))
                space -= rows
            if not live.recallable():
                del self._recalling[live.slot]
                if pending.wanted_rows > 0:
                    self._ready[live.slot] = live
        return pieces, np.concatenate(labels)

    def _launch(self, pieces: list[Piece], known: NDArray[np.int64] | None = None) -> None:
        numbers, self._numbers = self._numbers, []
        closing, self._closing = self._closing, []
        images = [(live, _to_host(live.best)) for live in closing]
        extra = [number for number, _ in numbers]
        if known is None:
            first, *others = self.sender.send(pieces, extra)
        else:
            first, others = self.sender.recall(pieces, known, extra), []
        self._air.append(InFlight(first, [step for _, step in numbers], images))
        self._air.extend(InFlight(flight, [], []) for flight in others)
        if known is None:
            self._rows += sum(flight.shape for flight in (first, *others))

    @torch.no_grad()
    def _land(self) -> None:
        air = self._air.popleft()
        flight, shape = air.flight, air.flight.shape
        numbers = flight.land()
        labels, distances = numbers[:shape].astype(np.int64), numbers[shape : 2 * shape]
        for step, distance in zip(air.steps, numbers[2 * shape :].tolist(), strict=True):
            step["distance"] = distance
        touched: dict[int, CellRun] = {}
        arrived: list[Arrival] = []
        for arrival in arrivals(flight, labels, distances, self._lives):
            live = touched[arrival.piece.slot] = arrival.live
            if live.ended is None and not self._diverges(live, arrival.differs()):
                arrived.append(arrival)
        if self._journal is not None and not flight.recalled:
            self._journal.record(to_record(arrived))
        for arrival in arrived:
            if arrival.live.ended is None:
                arrival.deliver()
        for piece, failure in flight.failures:
            if (failed := waiting(piece, self._lives)) is not None:
                touched[piece.slot] = failed
                piece.pending.fail(piece.number, piece.size, failure)
        for live in touched.values():
            self._serve(live)
        results = tuple(self._result(live, image) for live, image in air.closing)
        self._finished += results
        self._done += len(results)
        if self._progress is not None:
            seconds = time.monotonic() - self._began
            live_now = len(self._lives)
            self._progress(
                Progress(self._done, live_now, self._queries, self._rows, seconds, results)
            )

    def _diverges(self, live: CellRun, why: str | None) -> bool:
        """End a cell that does not ask what it asked earlier."""
        if why is None or self._journal is None:
            return False
        live.abandon(why)
        self._journal.diverged(live.index, why)
        return True

    def _result(self, live: CellRun, image: Tensor | None) -> Result:
        return live.result(None if image is None else image.clone(), tuple(self.sender.shrunk))


def default_batch_size(model: Model) -> int:
    """Rows of a model batch unless the caller says otherwise."""
    return model.batch or batch_size_on(model.device)


def batch_size_on(device: torch.device) -> int:
    """The same for a model that takes batches of any size."""
    return 256 if device.type == "cuda" else 64


def _turn(live: CellRun) -> tuple[bool, float]:
    """Small asks first, since they come one after another and each waits for its batch; then those
    who have spent least, so that all end together and the last batches are full too."""
    small = live.pending is not None and live.pending.wanted_rows <= SMALL_ASK
    return not small, live.spent


def _held(cell: Cell) -> int:
    """Bytes of the points that a cell may hold at a time."""
    attack = cell.attack
    rows = attack.rows if isinstance(attack, BoundedAttack) else DEFAULT_ROWS
    return int(rows + 4) * cell.image.numel() * max(4, cell.image.element_size())


def _to_host(image: Tensor | None) -> Tensor | None:
    """A copy on the host that is complete once the next batch has landed."""
    if image is None or image.device.type != "cuda":
        return None if image is None else image.to("cpu")
    host = torch.empty(image.shape, dtype=image.dtype, pin_memory=True)
    return host.copy_(image, non_blocking=True)


def _memory(device: torch.device) -> float:
    """Bytes that live attacks may hold: half of a GPU's free memory, a quarter of the host's."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] / 2
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 4
