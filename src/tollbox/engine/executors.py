"""Executors: where jobs run, in this process or in others.

1. A job is a function of (shared, link); what it returns is its value. To run in another process it
   must be picklable, and so must everything that passes through its link.
2. A job communicates with its caller through its link only: `tell` reports what happened, `ask`
   waits for an answer, `on_stop` names a function to be called when the job is to end.
3. `run` yields the end of each job as it comes: its value, its error, or how its process died. A
   job that fails does not end the others; the caller decides. Between the ends, `Processes` also
   yields None after each report, so that the caller may pass things on as they come. With a
   `Care`, a job whose process dies, or has not enough memory, may be run again in another; then
   that is no end.
4. A caller may abandon `run` early: the jobs are stopped, an `ask` is answered with None from then
   on, and the processes are ready for the next run.
5. Processes are spawned, and keep what they share from one run to the next. Ctrl-C is handled by
   the parent alone: a KeyboardInterrupt after a stop ends them at once. A process whose parent is
   gone ends at once too, as if it had been killed, also while it begins (`job_start.py`).
6. Where some processes cannot begin for lack of memory, there are fewer.

Another executor (a cluster's) is another class with `run`.
"""

from __future__ import annotations

import contextlib
import enum
import multiprocessing
import os
import pickle
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import spawn
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch

from ..core.stop import Stop
from ..core.tf32 import setting
from ..errors import InputError
from .job_process import serve

LEAVE_SECONDS = 10.0
"""How long a process is given to end on its own."""
CARE_SECONDS = 1.0
"""Time between two looks at jobs that may be overdue."""
MOST_PROCESSES = 256
"""Even if they are forced."""
START = Path(__file__).with_name("job_start.py")


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def within_cores(count: int, force: bool) -> int:
    """A number of processes: no more than cores, unless they are forced."""
    return count if force else min(count, cores())


def fewer_notice(workers: int, work: int, force: bool, switch: str) -> str | None:
    """A sentence if so many workers, for so many pieces of work, are more than cores; None if they
    are not, or are forced. `switch` is what forces them."""
    if within_cores(min(workers, work), force) == min(workers, work):
        return None
    most = "1 core" if cores() == 1 else f"{cores()} cores"
    return (
        f"workers is {workers}, and this machine has {most}: no more processes than cores are "
        f"used; {switch} lifts that."
    )


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


class Loss(NamedTuple):
    """A job lost its process."""

    job: int
    how: str
    """How the process died, or what it had no memory for."""
    memory: bool
    """It said that it had not enough memory."""
    alone: bool
    """There was no other process beside it, from its beginning."""


class Then(enum.Enum):
    """What becomes of a job that lost its process."""

    NOW = "goes on at once, in a fresh process if none is free"
    LATER = "goes on when a process is free; there is one process less"
    END = "ends"


class Care(Protocol):
    """What is done about processes that die, have not enough memory, or hang."""

    def lost(self, loss: Loss) -> Then:
        """What becomes of a job. The last process is replaced as long as jobs are to go on."""

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
            reason = "out of memory"
            for child in list(self._children):
                kind, *content = child.hear()
                if kind == "failed":  # and so would all others
                    raise _no_beginning(content[0])
                if kind != "ready":
                    reason = str(content[0])
                    self._remove(child)
            if not self._children:
                raise _no_beginning(reason)
        except BaseException:
            self.close()
            raise

    def _spawn(self, count: int) -> None:
        """Begin so many more, or as many as there is memory for; each says first that it is ready,
        or that it failed."""
        content = dumped(self._shared, "the model")
        preparation = spawn.get_preparation_data("tollbox")
        del preparation["authkey"]  # a secret, which is not to be pickled, and nobody needs
        function = pickle.dumps((serve, (self._threads, setting())))
        alone = count == 1 and not self._children
        begun: list[_Child] = []
        with _interrupts_held_back(), contextlib.suppress(OSError):
            for _ in range(count):
                begun.append(_Child.begin(alone))
                self._children.append(begun[-1])
        for child in begun:  # when all have begun: each reads when it is ready to
            for message in (pickle.dumps(preparation), function, content):
                child.send(message)

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
        contents = [dumped(job, "the work") for job in jobs]
        left, busy = deque(range(len(jobs))), dict[_Child, int]()

        def begin() -> None:
            """Give jobs to all processes that are free."""
            if left and not self._children and care is not None:
                self._spawn(1)
            for child in self._children:
                if left and child not in busy:
                    busy[child] = left.popleft()
                    child.say("job", contents[busy[child]])
                    if stopper.reason is not None:
                        child.say("stop", stopper.reason)

        def stop(reason: Stop) -> None:
            for child in list(busy):
                child.say("stop", reason)

        def lost(child: _Child, loss: Loss) -> JobEnd | None:
            """The end of the job, unless it goes on."""
            self._remove(child)
            then = care.lost(loss) if care else Then.END
            if then is Then.END:
                return JobEnd(loss.job, died=loss.how)
            if then is Then.LATER:
                left.append(loss.job)
            else:
                left.appendleft(loss.job)
                if len(busy) == len(self._children):
                    self._spawn(1)
            return None

        try:
            begin()
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
                        place, memory = busy.pop(child), kind == "memory"
                        if kind in ("died", "failed") or (memory and care):
                            if memory:
                                child.process.kill()
                            how = str(content[0]) or type(content[0]).__name__
                            end = lost(child, Loss(place, how, memory, child.alone))
                        else:
                            end = JobEnd(place, **{"error" if memory else kind: content[0]})
                        begin()
                        if end is not None:
                            yield end
                for child, place in busy.items():
                    if care is not None and care.overdue(place):
                        child.process.kill()
            for place in left:
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
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _no_beginning(reason: object) -> InputError:
    return InputError(f"a worker process could not begin ({reason})", remedy="use one process")


class _Child:
    """A process, as its parent sees it."""

    def __init__(self, process: subprocess.Popen[bytes], pipe: Connection, alone: bool) -> None:
        """`alone`: there is no other, and there will be none beside it."""
        self.process, self.pipe, self.alone = process, pipe, alone
        self._outbox: deque[bytes] = deque()
        self._sending = threading.Lock()

    @classmethod
    def begin(cls, alone: bool) -> _Child:
        """A fresh one, which runs `job_start.py`; raises OSError if there can be no more."""
        own_end, its_end = multiprocessing.Pipe()
        by_main_thread = threading.current_thread() is threading.main_thread()
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        numbers = its_end.fileno(), os.getpid(), int(by_main_thread)
        command = [
            os.fsdecode(spawn.get_executable()),
            *flags,
            "-P",
            str(START),
            *map(str, numbers),
        ]
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, pass_fds=[its_end.fileno()]
            )
        except OSError:
            own_end.close()
            raise
        finally:
            its_end.close()
        return cls(process, own_end, alone)

    def say(self, *message: Any) -> None:
        """Send a message. A signal handler may call this while another message is being sent."""
        self.send(pickle.dumps(message))

    def send(self, content: bytes) -> None:
        """Send bytes, likewise."""
        self._outbox.append(content)
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
            code = self._wait()
            signalled = code is not None and code < 0
            return "died", f"signal {-(code or 0)}" if signalled else f"exit code {code}"
        except BaseException:  # half a message may have been read
            self.process.kill()
            raise

    def end(self) -> None:
        """Wait for its end, and enforce it."""
        if self._wait() is None:
            self.process.kill()
            self.process.wait()
        self.pipe.close()

    def _wait(self) -> int | None:
        """Its exit code; None if it does not end."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(LEAVE_SECONDS)
        return self.process.returncode


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
