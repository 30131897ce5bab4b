"""Workers: the same cells over several processes, each with an engine and a model of its own.

An attack that asks point by point keeps one Python process busy before it keeps a model busy. Two
or three processes fill the GPU, and on a CPU a process per core does better than threads.

1. A worker asks for a cell when it has room; each is dealt once. Results are those of one process
   (rule 4), exactly so in float64, and in float32 with `one_shape`.
2. The model travels by pickle, once; a worker on the CPU takes its share of the threads.
3. A worker that dies takes the cells it had with it: they end as `MODEL_ERROR`, and say so. A
   worker whose parent dies ends with its next batch.
4. Processes are spawned: a script that uses them needs `if __name__ == "__main__":`.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import multiprocessing
import pickle
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from ..core.cell import Cell
from ..core.model import Model
from ..core.result import Result
from ..core.stop import Stop
from ..errors import InputError
from .engine import Engine, Progress

TELL_EVERY = 0.1
"""Seconds between two messages of a worker about where it stands, if nothing was finished."""
LEAVE = 5.0
"""Seconds that a worker is given to end on its own."""


class Workers:
    """Processes that wait for cells. Use it as a context, for one run or for several:

    with tb.Workers(model, 2) as workers:
        results = tb.run(attack, model, images, labels, budget=1000, workers=workers)
    """

    def __init__(self, model: Model, count: int) -> None:
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= 256:
            raise InputError(f"workers is {count!r}: expected a whole number, 1 to 256.")
        content = _pickled(model, "the model")
        threads = max(1, torch.get_num_threads() // count)
        context = multiprocessing.get_context("spawn")
        self.count = count
        self._hands: list[_Hand] = []
        self._stopping: Stop | None = None
        try:
            for _ in range(count):
                ours, theirs = context.Pipe()
                given = (theirs, content, count, threads, _precision())
                process = context.Process(target=_work, args=given, daemon=True)
                process.start()
                theirs.close()
                self._hands.append(_Hand(process, ours))
            for hand in self._hands:
                said = hand.hear()
                if said is None or said[0] != "ready":
                    why = "it died" if said is None else said[1]
                    raise InputError(f"a worker could not begin: {why}; try workers=1.")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all of them."""
        for hand in self._hands:
            hand.say("close")
        for hand in self._hands:
            hand.process.join(LEAVE)
            if hand.process.is_alive():
                hand.process.kill()
                hand.process.join()
            hand.pipe.close()
        self._hands = []

    def stop(self, reason: Stop = Stop.INTERRUPTED) -> None:
        """End all cells after the batches under way."""
        if self._stopping is None:
            self._stopping = reason
            for hand in self._hands:
                hand.say("stop", reason)

    def run(
        self,
        cells: Iterable[Cell],
        *,
        live: int | None = None,
        progress: Callable[[Progress], None] | None = None,
        **options: Any,
    ) -> Iterator[Result]:
        """Run cells and yield each result as it is finished; options are those of the engine."""
        if not self._hands:
            raise InputError("these workers were closed: make new ones.")
        sized = isinstance(cells, Sized)
        if live is not None:
            live = math.ceil(live / self.count)
        elif isinstance(cells, Sized):  # else the first would take all
            live = max(1, math.ceil(len(cells) / self.count))
        self._stopping = None
        return self._run(enumerate(cells), {**options, "live": live}, sized, progress)

    def _run(
        self,
        waiting: Iterator[tuple[int, Cell]],
        options: dict[str, Any],
        sized: bool,
        progress: Callable[[Progress], None] | None,
    ) -> Iterator[Result]:
        deal = _Deal(waiting, sized)
        began = time.monotonic()
        for hand in self._hands:
            hand.begin(options, sized)
        try:
            while busy := [hand for hand in self._hands if hand.busy]:
                for hand in self._heard(busy):
                    finished = hand.listen(deal, self._stopping)
                    if progress is not None:
                        progress(self._standing(time.monotonic() - began, finished))
                    yield from finished
        finally:
            self._calm()
        if deal.refused is not None:
            raise deal.refused

    def _standing(self, seconds: float, finished: tuple[Result, ...]) -> Progress:
        hands = self._hands
        return Progress(
            sum(hand.done for hand in hands),
            sum(hand.live for hand in hands),
            sum(hand.queries for hand in hands),
            sum(hand.rows for hand in hands),
            seconds,
            finished,
        )

    @staticmethod
    def _heard(busy: list[_Hand]) -> list[_Hand]:
        said = wait([hand.pipe for hand in busy])
        return [hand for hand in busy if hand.pipe in said]

    def _calm(self) -> None:
        """Whoever asked for results may have gone before the end."""
        if any(hand.busy for hand in self._hands):
            self.stop()
            nothing = _Deal(iter(()), False)
            while busy := [hand for hand in self._hands if hand.busy]:
                for hand in self._heard(busy):
                    hand.listen(nothing, self._stopping)
        self._hands = [hand for hand in self._hands if hand.process.is_alive()] or self._hands


class _Deal:
    """The cells, dealt one by one; an error of whoever makes them is kept for the end."""

    def __init__(self, waiting: Iterator[tuple[int, Cell]], sized: bool) -> None:
        self._waiting, self._sized = waiting, sized
        self.refused: Exception | None = None

    def next(self, stopping: Stop | None) -> tuple[int, Cell, bytes] | None:
        if self.refused is not None or (stopping is not None and not self._sized):
            return None
        try:
            index, cell = next(self._waiting)
            return index, cell, _pickled(_own(cell), cell.name or f"image {index}")
        except StopIteration:
            return None
        except Exception as error:
            self.refused = error
            return None


class _Hand:
    """A worker, as its parent sees it."""

    def __init__(self, process: Any, pipe: Connection) -> None:
        self.process, self.pipe = process, pipe
        self.busy = False
        self.done = self.live = self.queries = self.rows = 0
        self._has: dict[int, Cell] = {}

    def say(self, *message: Any) -> None:
        with contextlib.suppress(OSError):  # it died: that is found out when it is listened to
            self.pipe.send_bytes(pickle.dumps(message))

    def hear(self) -> Any:
        """Its next message; None if it died."""
        try:
            return pickle.loads(self.pipe.recv_bytes())
        except (EOFError, OSError):
            return None

    def begin(self, options: dict[str, Any], sized: bool) -> None:
        self.busy = self.process.is_alive()
        self.done = self.live = self.queries = self.rows = 0
        self._has = {}
        self.say("run", options, sized)

    def listen(self, deal: _Deal, stopping: Stop | None) -> tuple[Result, ...]:
        """Take one message, and answer it; gives the results that came with it."""
        message = self.hear()
        if message is None:
            return self._died()
        kind, *content = message
        if kind == "more":
            dealt = deal.next(stopping)
            if dealt is None:
                self.say("end")
            else:
                index, cell, pickled = dealt
                self._has[index] = cell
                self.say("cell", index, pickled)
            return ()
        if kind == "error":
            deal.refused = deal.refused or content[0]
            return ()
        finished, self.live, self.queries, self.rows = content
        self.busy = kind != "done"
        for result in finished:
            self._has.pop(result.index, None)
        self.done += len(finished)
        return tuple(finished)

    def _died(self) -> tuple[Result, ...]:
        self.process.join(LEAVE)
        self.busy = False
        code = self.process.exitcode
        how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        reason = f"the worker process died ({how}); what it had found out is lost"
        lost = tuple(_lost(index, cell, reason) for index, cell in self._has.items())
        self._has = {}
        self.done += len(lost)
        self.live = 0
        return lost


def _lost(index: int, cell: Cell, reason: str) -> Result:
    return replace(Result.nothing(index, cell, Stop.MODEL_ERROR), reason=reason)


def _own(cell: Cell) -> Cell:
    """A cell whose images are no views: a view would take all that it is a view of along."""
    start = None if cell.start is None else cell.start.clone()
    return replace(cell, image=cell.image.clone(), start=start)


def _pickled(thing: Any, what: str) -> bytes:
    try:
        return pickle.dumps(thing)
    except Exception as error:
        raise InputError(
            f"{what} cannot be sent to another process ({type(error).__name__}: {error}): expected "
            "what can be pickled, such as classes and functions of a module; or use workers=1."
        ) from None


def _precision() -> tuple[bool, bool]:
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


# -- in the other process -------------------------------------------------------------------------


def _work(
    pipe: Connection, content: bytes, count: int, threads: int, precision: tuple[bool, bool]
) -> None:
    """The life of a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    torch.set_num_threads(threads)
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = precision
    with contextlib.suppress(EOFError, OSError):  # the parent is gone
        try:
            model = pickle.loads(content)
        except Exception as error:
            pipe.send_bytes(pickle.dumps(("failed", f"{type(error).__name__}: {error}")))
            return
        pipe.send_bytes(pickle.dumps(("ready",)))
        while True:
            kind, *given = pickle.loads(pipe.recv_bytes())
            if kind == "run":
                _Shift(pipe, model, count, *given).run()
            elif kind == "close":
                return


class _Shift:
    """One run of a worker."""

    def __init__(
        self, pipe: Connection, model: Model, count: int, options: dict[str, Any], sized: bool
    ) -> None:
        self._pipe, self._sized = pipe, sized
        self._indices: dict[int, int] = {}
        self._finished: list[Result] = []
        self._last = Progress(0, 0, 0, 0, 0.0, ())
        self._told = 0.0
        self._engine = Engine(model, memory=1 / count, progress=self._progress, **options)

    def run(self) -> None:
        try:
            cells = _Pulled(self._pull) if self._sized else self._pull()
            for _ in self._engine.run(cells):
                pass
        except (EOFError, OSError):
            raise
        except Exception as error:
            self._say("error", _told(error))
        self._tell("done")

    def _pull(self) -> Iterator[Cell]:
        for ours in itertools.count():
            self._say("more")
            while True:
                kind, *content = pickle.loads(self._pipe.recv_bytes())
                if kind != "stop":
                    break
                self._engine.stop(content[0])
            if kind == "end":
                return
            self._indices[ours] = content[0]
            yield pickle.loads(content[1])

    def _progress(self, now: Progress) -> None:
        self._last = now
        self._finished += [
            replace(result, index=self._indices.pop(result.index)) for result in now.finished
        ]
        while self._pipe.poll():
            _, reason = pickle.loads(self._pipe.recv_bytes())
            self._engine.stop(reason)
        if self._finished or time.monotonic() - self._told > TELL_EVERY:
            self._tell("progress")

    def _tell(self, kind: str) -> None:
        self._told = time.monotonic()
        finished, self._finished = self._finished, []
        self._say(kind, finished, self._last.live, self._last.queries, self._last.rows)

    def _say(self, *message: Any) -> None:
        self._pipe.send_bytes(pickle.dumps(message))


def _told(error: Exception) -> Exception:
    """The error itself, or one that can be sent in its place."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


class _Pulled:
    """Cells that come one by one, and are known to end."""

    def __init__(self, pull: Callable[[], Iterator[Cell]]) -> None:
        self._pull = pull

    def __iter__(self) -> Iterator[Cell]:
        return self._pull()

    def __len__(self) -> int:
        return 0
