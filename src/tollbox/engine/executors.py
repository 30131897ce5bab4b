"""Executors: where jobs run, in this process or in others.

1. A job is a function of (shared, link); what it returns is its value. To run in another process it
   must be picklable, and so must everything that passes through its link.
2. A job communicates with its caller through its link only: `tell` reports what happened, `ask`
   waits for an answer, `on_stop` names a function to be called when the job is to end.
3. `run` yields the end of each job as it comes: its value, its error, or how its process died. A
   job that fails does not end the others; the caller decides. Between the ends, `Processes` also
   yields None after each report, so that the caller may pass things on as they come. With a
   `Care`, a job whose process dies may be run again in a fresh one; then its death is no end.
4. A caller may abandon `run` early: the jobs are stopped, an `ask` is answered with None from then
   on, and the processes are ready for the next run.
5. Processes are spawned, and keep what they share from one run to the next. Ctrl-C is handled by
   the parent alone: a KeyboardInterrupt after a stop ends them at once. A process whose parent is
   gone ends at once too, as if it had been killed.

Another executor (a cluster's) is another class with `run`.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

import torch

from ..core.stop import Stop
from ..core.tf32 import setting
from ..errors import InputError
from .job_process import serve

LEAVE_SECONDS = 10.0
"""How long a process is given to end on its own."""
CARE_SECONDS = 1.0
"""Time between two looks at jobs that may be overdue."""


class Link(Protocol):
    """What connects a job with its caller."""

    def tell(self, event: Any) -> None:
        """Report what happened."""

    def ask(self, request: Any) -> Any:
        """Ask, and wait for the answer."""

    def on_stop(self, call: Callable[[Stop], None]) -> None:
        """Have `call` called when the job is to end, or at once if it was stopped already.

        `call` may run in another thread, and more than once.
        """


Job = Callable[[Any, Link], Any]


@dataclass(frozen=True)
class JobEnd:
    """How a job ended."""

    job: int
    """Its place in the sequence of jobs."""
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
        """Have `stop` called at the end, or at once if that has come already."""
        self.stop = stop
        if self.reason is not None:
            stop(self.reason)


class Care(Protocol):
    """What is done about processes that die, or hang."""

    def replacement(self, place: int, died: str) -> Job | None:
        """The job to run in a fresh process in place of one whose process died; None: none."""

    def overdue(self, place: int) -> bool:
        """Whether the process of a job is to be killed, since it should have ended by itself."""


class Executor(Protocol):
    """Runs jobs."""

    def run(
        self,
        jobs: Sequence[Job],
        *,
        tell: Callable[[Any], None],
        answer: Callable[[int, Any], Any],
        stopper: Stopper,
        care: Care | None = None,
    ) -> Iterator[JobEnd | None]:
        """Run all jobs; `answer` is called with a job's place and what it asks. `care` is for
        jobs in processes of their own."""


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
        care: Care | None = None,  # noqa: ARG002
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
    """Jobs in `count` processes, each of which has a copy of `shared`. Use it as a context."""

    def __init__(self, count: int, shared: Any = None, threads: int | None = None) -> None:
        self._shared = shared
        self._threads = threads or threads_each(count)
        self._children: list[_Child] = []
        try:
            self._spawn(count)
            for child in self._children:
                kind, *reason = child.hear()
                if kind != "ready":
                    raise InputError(
                        f"a worker process could not begin ({reason[0]})", remedy="use one process"
                    )
        except BaseException:
            self.close()
            raise

    def _spawn(self, count: int) -> list[_Child]:
        """Begin so many more; each says first that it is ready, or that it failed."""
        content = dumped(self._shared, "the model")
        context = multiprocessing.get_context("spawn")
        with _interrupts_held_back():
            for _ in range(count):
                parent_end, child_end = context.Pipe()
                arguments = (child_end, content, self._threads, setting())
                process = context.Process(target=serve, args=arguments, daemon=True)
                process.start()
                child_end.close()
                self._children.append(_Child(process, parent_end))
        return self._children[-count:]

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self.kill()
        self.close()

    @property
    def count(self) -> int:
        """How many processes there are; fewer than at the beginning if some died."""
        return len(self._children)

    @property
    def pids(self) -> list[int]:
        """Their ids."""
        return [child.process.pid for child in self._children]

    def close(self) -> None:
        """End all of them."""
        for child in self._children:
            child.say("close")
        for child in self._children:
            child.end()
        self._children = []

    def kill(self) -> None:
        """End all of them at once, whatever they are doing."""
        for child in self._children:
            child.process.kill()

    def run(
        self,
        jobs: Sequence[Job],
        *,
        tell: Callable[[Any], None],
        answer: Callable[[int, Any], Any],
        stopper: Stopper,
        care: Care | None = None,
    ) -> Generator[JobEnd | None]:
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

        try:
            for child in self._children:
                begin(child)
            stopper.attach(stop)
            while busy:
                for child in _with_messages(list(busy), CARE_SECONDS if care else None):
                    kind, *content = child.hear()
                    if kind == "tell":
                        tell(content[0])
                        yield None
                    elif kind == "ask":
                        _answer(child, answer, busy[child], content[0])
                    elif kind != "ready":  # a fresh one that has its job already
                        place = busy.pop(child)
                        if kind in ("died", "failed"):
                            self._remove(child)
                            again = care.replacement(place, content[0]) if care else None
                            if again is not None:
                                left.append((place, dumped(again, "the work")))
                                begin(*self._spawn(1))
                                continue
                            kind = "died"
                        else:
                            begin(child)
                        yield JobEnd(place, **{kind: content[0]})
                for child, place in busy.items():
                    if care is not None and care.overdue(place):
                        child.process.kill()
            for place, _ in reversed(left):
                yield JobEnd(place, died="no process is left")
        except KeyboardInterrupt:
            if stopper.reason is not None:
                self.kill()
            raise
        finally:
            stop(Stop.INTERRUPTED)
            self._drain(busy)

    def _drain(self, busy: dict[_Child, int]) -> None:
        """Wait for the jobs of a caller that has gone before their end."""
        while busy:
            for child in _with_messages(list(busy)):
                kind, *_ = child.hear()
                if kind == "ask":
                    child.say("answer", None)
                elif kind not in ("tell", "ready"):
                    del busy[child]
                    if kind in ("died", "failed"):
                        self._remove(child)

    def _remove(self, child: _Child) -> None:
        self._children.remove(child)
        child.end()


def _answer(child: _Child, answer: Callable[[int, Any], Any], place: int, request: Any) -> None:
    """Answer what a job asks; it must not wait for ever if there is no answer."""
    try:
        child.say("answer", answer(place, request))
    except BaseException:
        child.say("answer", None)
        raise


@contextlib.contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Processes begun inside never see Ctrl-C, not even before they can ignore it themselves."""
    resource_tracker.ensure_running()  # begins with the first process, and would lift the mask
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Child:
    """A process, as its parent sees it."""

    def __init__(self, process: Any, pipe: Connection) -> None:
        self.process, self.pipe = process, pipe
        self._outbox: deque[bytes] = deque()
        self._sending = threading.Lock()

    def say(self, *message: Any) -> None:
        """Send a message. A signal handler may call this while another message is being sent."""
        self._outbox.append(pickle.dumps(message))
        while self._outbox and self._sending.acquire(blocking=False):
            try:
                while self._outbox:
                    self.pipe.send_bytes(self._outbox.popleft())
            except OSError:  # it died, which is noticed when it is heard
                self._outbox.clear()
            except BaseException:  # half a message may have gone out, and would garble the next
                self.process.kill()
                raise
            finally:
                self._sending.release()

    def hear(self) -> Any:
        """Its next message; ("died", how) if there will be none."""
        try:
            return pickle.loads(self.pipe.recv_bytes())
        except (EOFError, OSError):
            self.process.join(LEAVE_SECONDS)
            code = self.process.exitcode
            signalled = code is not None and code < 0
            return "died", f"signal {-code}" if signalled else f"exit code {code}"
        except BaseException:  # half a message may have been read
            self.process.kill()
            raise

    def end(self) -> None:
        """Wait for its end, and enforce it."""
        self.process.join(LEAVE_SECONDS)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.pipe.close()


def _with_messages(children: list[_Child], seconds: float | None = None) -> list[_Child]:
    """Those that have a message, or have died; waits until one has, or so many seconds."""
    ready = wait([child.pipe for child in children], seconds)
    return [child for child in children if child.pipe in ready]


def dumped(value: Any, what: str) -> bytes:
    """A value as it travels to another process; `what` names it in the error if it cannot."""
    try:
        return pickle.dumps(value)
    except Exception as error:
        raise InputError(
            f"{what} cannot be sent to another process ({type(error).__name__}: {error})",
            expected="what can be pickled, such as classes and functions of a module",
            remedy="use one process otherwise",
        ) from None


def loaded(content: bytes) -> Any:
    """A value that travelled (`dumped`)."""
    return pickle.loads(content)


def threads_each(count: int) -> int:
    """How many threads each of so many processes has."""
    return max(1, torch.get_num_threads() // count)
