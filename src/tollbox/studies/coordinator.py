"""The desk: the one owner of a study's stores. It hands out cells, and takes what becomes of them.

1. Engines, wherever they run, pull cells, a few at a time, each with what was recorded of it. What
   they send is committed before it is acknowledged, so that labels are durable before they are told
   (rule 9); the stores are written by nobody else.
2. Every beginning of an engine has an epoch, and all it sends carries it. When the engine is taken
   for lost, its epoch ends and its cells go back: whatever comes under an old epoch, or of a cell
   that is not the sender's, is refused, and changes nothing.
3. An engine takes the cells of its own shard first, then those that others have left. A cell that
   was under way in `MOST_DEATHS` engines that died, without a label in between, is left as it is.
4. Each cell goes to one engine at a time; results are those of one engine (rule 4).
5. A cell that ended is saved. One that the clock or an interruption ended is not: its answers are
   recorded, and it continues when the study is resumed.
6. The time from one batch of an engine to its next is that of the series in it, by their rows. It
   is written every few seconds: a process that is killed loses so much of it, and nothing else.
7. A cell that does not ask what it asked before is named, and left as it is; with `rerun` it is
   begun anew.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from ..core.result import Result
from ..engine.journal import Answered
from .events import CellEnded, Event, Options, Outcome, Tell
from .store.codec import pack_answers
from .store.record import StudyRecord
from .store.store import Store

MOST_DEATHS = 3
MOST_AT_ONCE = 16
"""Cells that are given out at a time, so that a slow network is not waited for at each; fewer when
few are left."""
WRITE_SECONDS = 5.0
"""From one writing of the seconds that series took to the next."""


# -- what engines ask, and tell -------------------------------------------------------------------


class Begin(NamedTuple):
    """An engine begins; it is answered with `Begun`."""


class Begun(NamedTuple):
    """What an engine is to know at its beginning."""

    epoch: int
    images: list[tuple[str, int, str]]
    """Content hash, label and name of each, as recorded."""
    seconds: float
    """How many are left."""


class Open(NamedTuple):
    """How many cells of a model an engine may have under way at a time; 0 if none is left."""

    epoch: int
    model: int


class Take(NamedTuple):
    """The next cells of a model, a few: their numbers, and what was recorded of each; none if none
    is left."""

    epoch: int
    model: int


class Record(NamedTuple):
    """Labels of a batch: for each shard the cells with the number of their rows, and the packed
    answers. True once committed."""

    epoch: int
    pieces: list[tuple[int, Mapping[int, int], bytes]]


class Ended(NamedTuple):
    """A cell came to its end."""

    epoch: int
    cell: int
    result: Result


class Unfinished(NamedTuple):
    """A cell was interrupted, with what it had reached."""

    epoch: int
    cell: int
    result: Result


class Diverged(NamedTuple):
    """A cell does not ask what it asked before."""

    epoch: int
    cell: int
    why: str
    changes: str
    """What is different from when the study was begun."""


Taken = list[tuple[int, list[Answered] | None]]


# -- the owner's side -----------------------------------------------------------------------------


@dataclass
class _Seat:
    """An engine, as the desk sees it."""

    epoch: int = 0
    cells: set[int] = field(default_factory=set)
    """Those that it has under way."""
    heard: float = 0.0
    """When its last batch came, or it was about to begin with a model."""


class Desk:
    """The stores of a folder, open for writing, and the cells that are left."""

    def __init__(
        self,
        stores: Mapping[int, Store],
        engines: Sequence[int],
        options: Options,
        seconds_left: Callable[[], float],
        tell: Tell,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`stores` by shard; `engines` are the numbers of the engines, in the order of their
        jobs."""
        self._clock, self._written = clock, clock()
        self._seconds = defaultdict[int, float](float)
        """By series, what is still to be written."""
        self._stores, self._engines, self._options = stores, engines, options
        self._seconds_left, self._tell = seconds_left, tell
        record = next(iter(stores.values())).study
        self._shards, self._width = record.shards, record.width
        self._per_model = len(record.series) * record.width // len(record.models)
        self._left: dict[tuple[int, int], deque[int]] = {}
        """By model and shard, the cells that are left and not under way."""
        self._unread: set[int] = set()
        """Those of them whose answers are to be read from the store."""
        self._answers: dict[int, list[Answered]] = {}
        self._seats = [_Seat() for _ in engines]
        self._epoch = 0
        self._deaths: Counter[int] = Counter()
        self._given_up: set[int] = set()
        self.outcome = Outcome()
        for store in stores.values():
            if options.failed:
                store.forget([end.cell for end in store.results() if end.stop.failed])
            finished = {end.cell for end in store.results()}
            for cell in store.study.shard_cells:
                if cell not in finished:
                    self._queue(cell).append(cell)
                    self._unread.add(cell)
        self.had_work = bool(self._unread)

    def _queue(self, cell: int) -> deque[int]:
        return self._left.setdefault((cell // self._per_model, cell % self._shards), deque())

    @property
    def finished(self) -> bool:
        """Nothing is left that an engine could do."""
        return self.idle and not any(self._left.values())

    @property
    def idle(self) -> bool:
        """No engine has a cell."""
        return not any(seat.cells for seat in self._seats)

    def end(self) -> Outcome:
        """How the run went; what nobody has begun, or has brought to its end, is unfinished."""
        self._write_seconds()
        waiting = [cell for cells in self._left.values() for cell in cells]
        held = [cell for seat in self._seats for cell in seat.cells]
        for cell in sorted([*waiting, *held, *self._given_up]):
            self.outcome.unfinished.setdefault(cell, None)
        return self.outcome

    # -- answers ----------------------------------------------------------------------------------

    def answer(self, place: int, request: Any) -> Any:
        """What an engine asks for; None if its epoch is over."""
        seat = self._seats[place]
        if isinstance(request, Begin):
            self.take_back(place, died=False)
            self._epoch += 1
            seat.epoch, seat.heard = self._epoch, self._clock()
            store = next(iter(self._stores.values()))
            return Begun(seat.epoch, store.images(), self._seconds_left())
        if request.epoch != seat.epoch:
            return None
        if isinstance(request, Open):
            seat.heard = self._clock()
            return self._share(request.model)
        if isinstance(request, Take):
            return self._take(seat, self._engines[place] % self._shards, request.model)
        assert isinstance(request, Record), request  # noqa: S101
        return self._record(seat, request)

    def _queues(self, model: int) -> list[deque[int]]:
        return [cells for (number, _), cells in self._left.items() if number == model and cells]

    def _share(self, model: int) -> int:
        """No engine has more cells under way than this, or the first would take all."""
        return math.ceil(sum(map(len, self._queues(model))) / len(self._seats))

    def _take(self, seat: _Seat, shard: int, model: int) -> Taken:
        queues = self._queues(model)
        if not queues:
            return []
        own = self._left.get((model, shard)) or max(queues, key=len)
        left = sum(map(len, queues))
        count = max(1, min(MOST_AT_ONCE, len(own), left // (4 * len(self._seats))))
        if not self._unread.isdisjoint(own):
            self._read([cell for cells in queues for cell in cells])
        cells = [own.popleft() for _ in range(count)]
        seat.cells.update(cells)
        return [(cell, self._answers.pop(cell, None)) for cell in cells]

    def _read(self, cells: Sequence[int]) -> None:
        """Read the answers of cells that are still to be read."""
        unread = self._unread & set(cells)
        self._unread -= unread
        for shard, store in self._stores.items():
            wanted = {cell for cell in unread if cell % self._shards == shard}
            if wanted:
                self._answers |= store.answers(wanted)

    def _record(self, seat: _Seat, request: Record) -> bool | None:
        if any(not cells.keys() <= seat.cells for _, cells, _ in request.pieces):
            return None
        for shard, cells, content in request.pieces:
            self._stores[shard].record(content)
            for cell in cells if self._deaths else ():
                self._deaths.pop(cell, None)
        self._time(seat, request)
        return True

    def _time(self, seat: _Seat, request: Record) -> None:
        """Count the time since the engine's last batch as that of the series in this one."""
        rows = Counter[int]()
        for _, cells, _ in request.pieces:
            for cell, count in cells.items():
                rows[cell // self._width] += count
        now = self._clock()
        for series, count in rows.items():
            self._seconds[series] += (now - seat.heard) * count / rows.total()
        seat.heard = now
        if now - self._written >= WRITE_SECONDS:
            self._write_seconds()

    def _write_seconds(self) -> None:
        next(iter(self._stores.values())).add_seconds(self._seconds)
        self._seconds.clear()
        self._written = self._clock()

    # -- reports ----------------------------------------------------------------------------------

    def hear(self, report: Event | Ended | Unfinished | Diverged) -> None:
        """What an engine reports; events are passed on."""
        if not isinstance(report, Ended | Unfinished | Diverged):
            self._tell(report)
            return
        cell = report.cell
        places = (n for n, seat in enumerate(self._seats) if seat.epoch == report.epoch)
        place = next(places, None)
        if place is None or cell not in self._seats[place].cells:
            return  # of an epoch that is over
        self._seats[place].cells.remove(cell)
        if isinstance(report, Ended):
            self._save(self._engines[place], cell, report.result)
        elif isinstance(report, Unfinished):
            self.outcome.unfinished[cell] = replace(report.result, index=cell)
        elif self._options.rerun:
            self._stores[cell % self._shards].restart(cell, report.why)
            self.outcome.restarted += 1
            self._queue(cell).append(cell)
        else:
            self.outcome.diverged[cell] = f"{report.why} ({report.changes})"

    def _save(self, engine: int, cell: int, result: Result) -> None:
        self._stores[cell % self._shards].save(cell, result)
        series, queries = cell // self._width, result.ledger.queries
        self._tell(CellEnded(engine, cell, series, result.stop, result.distance, queries))

    def take_back(self, place: int, died: bool = True) -> None:
        """An engine is lost: its epoch is over, and its cells are for others."""
        seat = self._seats[place]
        for cell in sorted(seat.cells, reverse=True):
            self._deaths[cell] += died
            if self._deaths[cell] >= MOST_DEATHS:
                self._given_up.add(cell)
            else:
                self._queue(cell).appendleft(cell)
                self._unread.add(cell)
        seat.cells, seat.epoch = set(), 0


@contextmanager
def writing(paths: Mapping[int, Path]) -> Iterator[dict[int, Store]]:
    """The stores of shards, open for writing."""
    with ExitStack() as opened:
        yield {
            shard: opened.enter_context(Store.open(path, write=True))
            for shard, path in paths.items()
        }


def pack(
    answers: Sequence[Answered], record: StudyRecord
) -> list[tuple[int, Mapping[int, int], bytes]]:
    """Answers of a batch as `Record` has them."""
    by_shard: dict[int, list[Answered]] = {}
    for answered in answers:
        by_shard.setdefault(answered.cell % record.shards, []).append(answered)
    pieces: list[tuple[int, Mapping[int, int], bytes]] = []
    for shard, some in by_shard.items():
        rows = Counter[int]()
        for answered in some:
            rows[answered.cell] += len(answered.labels)
        pieces.append((shard, rows, pack_answers(some)))
    return pieces
