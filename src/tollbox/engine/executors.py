"""Executors: where jobs run, in this process or in others.

1. A job is a function of (shared, link); what it returns is its value. To run in another process it
   must be picklable, and so must be all that it says and is told.
2. A job speaks with whoever runs it through its link and through nothing else: `tell` says what
   happened, `ask` waits for an answer, `on_stop` says what to call when it is to end.
3. `run` yields the end of each job as it comes: its value, its error, or how its process died. One
   that failed or died does not end the others; whoever runs them decides. It yields None whenever
   something was told, so that its caller may pass things on as they come.
4. Processes are spawned, and keep what they share from one run to the next. Ctrl-C is the parent's
   affair. A process whose parent is gone ends at once: what it had to keep is kept already.

Another executor (a cluster's) is another class with `run`.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import queue
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

import torch

from ..core.stop import Stop
from ..errors import InputError, TollboxError

LEAVE_SECONDS = 10.0
"""How long a process is given to end on its own."""
PARENT_GONE = 3
"""Exit code of a process whose parent is gone."""


class Link(Protocol):
    """What connects a job with whoever runs it."""

    def tell(self, event: Any) -> None:
        """Say what happened."""

    def ask(self, request: Any) -> Any:
        """Ask, and wait for the answer."""

    def on_stop(self, call: Callable[[Stop], None]) -> None:
        """What to call when the job is to end; it is called at once if that has come already."""


Job = Callable[[Any, Link], Any]


@dataclass(frozen=True)
class JobEnd:
    """How a job ended; `job` is its place in the sequence."""

    job: int
    value: Any = None
    error: Exception | None = None
    died: str = ""
    """How its process died, if it did: "signal 9"."""


@dataclass
class Stopper:
    """Ends a run from outside, from a signal handler for instance."""

    stop: Callable[[Stop], None] | None = None
    reason: Stop | None = None

    def __call__(self, reason: Stop = Stop.INTERRUPTED) -> None:
        """End after the batches under way."""
        self.reason = self.reason or reason
        if self.stop is not None:
            self.stop(self.reason)

    def attach(self, stop: Callable[[Stop], None]) -> None:
        """What to call; at once, if the end has come already."""
        self.stop = stop
        if self.reason is not None:
            stop(self.reason)


class Executor(Protocol):
    """Runs jobs."""

    def run(
        self,
        jobs: Sequence[Job],
        *,
        tell: Callable[[Any], None],
        answer: Callable[[int, Any], Any],
        stopper: Stopper,
    ) -> Iterator[JobEnd | None]:
        """Run all jobs; `answer` is called with a job's place and what it asks."""


# -- in this process ------------------------------------------------------------------------------


class SameProcess:
    """Jobs one after another, in this process. An error of a job is raised as it is."""

    def __init__(self, shared: Any = None) -> None:
        self._shared = shared

    def run(
        self,
        jobs: Sequence[Job],
        *,
        tell: Callable[[Any], None],
        answer: Callable[[int, Any], Any],
        stopper: Stopper,
    ) -> Iterator[JobEnd | None]:
        """Run all jobs."""
        for place, job in enumerate(jobs):
            link = _DirectLink(place, tell, answer, stopper)
            yield JobEnd(place, job(self._shared, link))


@dataclass(frozen=True)
class _DirectLink:
    place: int
    tell: Callable[[Any], None]
    answer: Callable[[int, Any], Any]
    stopper: Stopper

    def ask(self, request: Any) -> Any:
        return self.answer(self.place, request)

    def on_stop(self, call: Callable[[Stop], None]) -> None:
        self.stopper.attach(call)


# -- in other processes ---------------------------------------------------------------------------


class Processes:
    """Jobs in processes of their own, as many at a time as there are. Use it as a context."""

    def __init__(self, count: int, shared: Any = None, threads: int | None = None) -> None:
        content = dumped(shared, "the model")
        if threads is None:
            threads = max(1, torch.get_num_threads() // count)
        context = multiprocessing.get_context("spawn")
        self._children: list[_Child] = []
        try:
            for _ in range(count):
                ours, theirs = context.Pipe()
                arguments = (theirs, content, threads, _precision())
                process = context.Process(target=_live, args=arguments, daemon=True)
                process.start()
                theirs.close()
                self._children.append(_Child(process, ours))
            for child in self._children:
                kind, *content_ = child.hear()
                if kind != "ready":
                    raise InputError(
                        f"a worker could not begin: {content_[0]}", remedy="try one process"
                    )
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def count(self) -> int:
        """Processes that are there."""
        return len(self._children)

    def close(self) -> None:
        """End all of them."""
        for child in self._children:
            child.say("close")
        for child in self._children:
            child.end()
        self._children = []

    def run(
        self,
        jobs: Sequence[Job],
        *,
        tell: Callable[[Any], None],
        answer: Callable[[int, Any], Any],
        stopper: Stopper,
    ) -> Iterator[JobEnd | None]:
        """Run all jobs, the next when a process is free."""
        left = list(enumerate(dumped(job, "the work") for job in jobs))[::-1]
        busy: dict[_Child, int] = {}

        def begin(child: _Child) -> None:
            if left:
                busy[child], content = left.pop()
                child.say("job", content)
                if stopper.reason is not None:
                    child.say("stop", stopper.reason)

        def stop(reason: Stop) -> None:
            for child in list(busy):
                child.say("stop", reason)

        for child in self._children:
            begin(child)
        stopper.attach(stop)
        try:
            while busy:
                for child in _heard(list(busy)):
                    kind, *content = child.hear()
                    if kind == "tell":
                        tell(content[0])
                        yield None
                    elif kind == "ask":
                        child.say("answer", answer(busy[child], content[0]))
                    else:
                        place = busy.pop(child)
                        if kind == "died":
                            self._children.remove(child)
                            child.end()
                        else:
                            begin(child)
                        yield JobEnd(place, **{kind: content[0]})
            for place, _ in reversed(left):
                yield JobEnd(place, died="no process is left")
        finally:
            self._drain(busy, stop)

    def _drain(self, busy: dict[_Child, int], stop: Callable[[Stop], None]) -> None:
        """Whoever asked for results may have gone before the end."""
        stop(Stop.INTERRUPTED)
        while busy:
            for child in _heard(list(busy)):
                kind, *_ = child.hear()
                if kind == "ask":
                    child.say("answer", None)
                elif kind != "tell":
                    del busy[child]


class _Child:
    """A process, as its parent sees it."""

    def __init__(self, process: Any, pipe: Connection) -> None:
        self.process, self.pipe = process, pipe

    def say(self, *message: Any) -> None:
        with contextlib.suppress(OSError):  # it died: that is found out when it is listened to
            self.pipe.send_bytes(pickle.dumps(message))

    def hear(self) -> Any:
        """Its next message; ("died", how) if there will be none."""
        try:
            return pickle.loads(self.pipe.recv_bytes())
        except (EOFError, OSError):
            self.process.join(LEAVE_SECONDS)
            code = self.process.exitcode
            return "died", f"signal {-code}" if code is not None and code < 0 else f"code {code}"

    def end(self) -> None:
        self.process.join(LEAVE_SECONDS)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.pipe.close()


def _heard(children: list[_Child]) -> list[_Child]:
    """Those that have said something; waits until one has."""
    ready = wait([child.pipe for child in children])
    return [child for child in children if child.pipe in ready]


def dumped(value: Any, what: str) -> bytes:
    """A value as it travels to another process."""
    try:
        return pickle.dumps(value)
    except Exception as error:
        raise InputError(
            f"{what} cannot be sent to another process ({type(error).__name__}: {error})",
            expected="what can be pickled, such as classes and functions of a module",
            remedy="or use one process",
        ) from None


def _precision() -> tuple[bool, bool]:
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


# -- the other side -------------------------------------------------------------------------------


def _live(pipe: Connection, content: bytes, threads: int, precision: tuple[bool, bool]) -> None:
    """The life of a process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(threads)
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = precision
    link = _PipeLink(pipe)
    try:
        shared = pickle.loads(content)
    except Exception as error:
        link.say("failed", f"{type(error).__name__}: {error}")
        return
    link.say("ready")
    while (message := link.jobs.get()) is not None:
        link.stopped = None
        try:
            value = pickle.loads(message)(shared, link)
        except Exception as error:
            link.say("error", _sendable(error))
        else:
            link.say("value", value)
        link.call = None


class _PipeLink:
    """A job's link to its parent. A thread reads what comes, so that a stop is heard at once."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe, self._lock = pipe, threading.Lock()
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.jobs: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.call: Callable[[Stop], None] | None = None
        self.stopped: Stop | None = None
        threading.Thread(target=self._read, daemon=True).start()

    def say(self, *message: Any) -> None:
        """Send a message."""
        try:
            with self._lock:
                self._pipe.send_bytes(pickle.dumps(message))
        except OSError:
            os._exit(PARENT_GONE)

    def tell(self, event: Any) -> None:
        self.say("tell", event)

    def ask(self, request: Any) -> Any:
        self.say("ask", request)
        return self._answers.get()

    def on_stop(self, call: Callable[[Stop], None]) -> None:
        self.call = call
        if self.stopped is not None:
            call(self.stopped)

    def _read(self) -> None:
        while True:
            try:
                kind, *content = pickle.loads(self._pipe.recv_bytes())
            except (EOFError, OSError):
                os._exit(PARENT_GONE)
            if kind == "answer":
                self._answers.put(content[0])
            elif kind == "job":
                self.jobs.put(content[0])
            elif kind == "stop":
                self.stopped = content[0]
                if self.call is not None:
                    self.call(content[0])
            else:
                self.jobs.put(None)


def _sendable(error: Exception) -> Exception:
    """The error itself, or one that can be sent in its place; a bug's traceback goes along."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError("".join(traceback.format_exception(error)))
    if not isinstance(error, TollboxError):
        error.add_note("".join(traceback.format_exception(error)))
    return error
