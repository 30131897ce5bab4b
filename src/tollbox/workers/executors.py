"""Executors of jobs: in this process, in other processes, or on other machines.

1. A job is a function of (shared, link), and its result is its value. To run in another process it
   must be picklable, and so must everything that passes through its link.
2. `run` yields a `JobEnd` for each job. A job that fails does not stop the others: callers decide.
   Pools also yield None after each report, so that the caller can pass results on as they arrive.
3. With a `LossPolicy`, a job whose process dies or runs out of memory may continue in another one.
4. The caller may abandon `run` early. Its jobs are then stopped, every `ask` is answered with
   None, and the processes are ready for the next run.

`SameProcess` runs jobs one after another. A `WorkerPool` gives each job to the next free worker:
`ProcessPool` (`process.py`) on this machine, and `RayPool` (`studies/ray.py`) on a cluster.

Each message is a tuple that starts with its kind. A worker receives "job", "answer", "stop" and
"close". It sends "ready" or "failed" (the shared object cannot be loaded), "report", "ask", and
when a job is over "value", "error" or "memory" (out of memory, also while loading). The handle of a
worker adds "died".
"""

from __future__ import annotations

import enum
import functools
import os
import pickle
import queue
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import torch

from ..core.stop import Stop
from .channel import Channel

CHECK_SECONDS = 0.2
"""Time between two checks for workers that are overdue or have disappeared."""


def cores() -> int:
    limited = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if limited else os.cpu_count() or 1


def within_cores(count: int, force: bool) -> int:
    """Return `count`, reduced to the number of cores unless `force` is set."""
    return count if force else min(count, cores())


def fewer_notice(workers: int, work: int, force: bool, switch: str) -> str | None:
    """Return a notice if there are fewer cores than workers for `work` pieces of work; None
    otherwise, or with `force`. The notice names `switch` as the option that lifts the limit."""
    if within_cores(min(workers, work), force) == min(workers, work):
        return None
    machine = f"this machine has {cores()} core{'s' * (cores() > 1)}"
    why = "no more processes than cores are used"
    return f"workers is {workers}, and {machine}: {why}; {switch} lifts that."


def threads_each(count: int) -> int:
    return max(1, torch.get_num_threads() // count)


@dataclass(frozen=True)
class Link:
    """The only connection between a job and its caller."""

    report: Callable[[Any], None]
    """Function that sends an event to the caller."""
    ask: Callable[[Any], Any]
    """Function that sends a request to the caller, and waits for the answer."""
    on_stop: Callable[[Callable[[Stop], None]], None]
    """Function that registers a callback for when the job should stop, or calls it now if it should
    already. The callback may run in another thread, and more than once."""


Job = Callable[[Any, Link], Any]


@dataclass(frozen=True)
class JobEnd:
    """The outcome of job number `job`: its value, its error, or how its process died."""

    job: int
    value: Any = None
    error: Exception | None = None
    died: str = ""
    """How the process died, such as "signal 9"; empty if it did not."""


@dataclass
class Stopper:
    """A switch that stops a run or a job from outside, such as from a signal handler."""

    stop: Callable[[Stop], None] | None = None
    reason: Stop | None = None

    def __call__(self, reason: Stop = Stop.INTERRUPTED) -> None:
        self.reason = self.reason or reason
        if self.stop is not None:
            self.stop(self.reason)

    def attach(self, stop: Callable[[Stop], None]) -> None:
        """Call `stop` when the run should stop, or now if it should already."""
        self.stop = stop
        if self.reason is not None:
            stop(self.reason)


class Loss(NamedTuple):
    """The loss of a job's process."""

    job: int
    how: str
    """How the process died, or the text of its out-of-memory error."""
    memory: bool
    """Whether the process reported that it ran out of memory."""
    alone: bool
    """Whether the process has been the only one since it started."""


class OnLoss(enum.Enum):
    """The decision about a job that lost its process."""

    NOW = "continues at once, in a new process if none is free"
    LATER = "continues when a process is free; there is one process fewer"
    END = "ends"


class LossPolicy(Protocol):
    """Decisions about processes that die, run out of memory, or hang. The last process is replaced
    while jobs remain."""

    def lost(self, loss: Loss) -> OnLoss: ...

    def overdue(self, job: int) -> bool:
        """Return whether to kill the process of a job because it should have finished."""


class SameProcess:
    """An executor of jobs one by one in this process. A job's error is raised unchanged."""

    def __init__(self, shared: Any = None) -> None:
        self._shared = shared

    def run(
        self,
        jobs: Sequence[Job],
        *,
        report: Callable[[Any], None],
        answer: Callable[[int, Any], Any],
        stopper: Stopper,
        policy: LossPolicy | None = None,  # noqa: ARG002
    ) -> Generator[JobEnd | None]:
        for number, job in enumerate(jobs):
            link = Link(report, functools.partial(answer, number), stopper.attach)
            yield JobEnd(number, job(self._shared, link))


Inbox = queue.SimpleQueue[tuple[Any, Any]]
"""Handles and their messages: bytes from a worker, tuples from a handle, None after the last."""


class WorkerHandle(ABC):
    """The pool's handle of a worker process."""

    def __init__(self, inbox: Inbox, alone: bool) -> None:
        """`alone`: whether this is the only worker and none will be added."""
        self.alone, self._inbox = alone, inbox
        self.channel = Channel(lambda content: inbox.put((self, content)))

    def send(self, *message: Any) -> None:
        """Send a message; a signal handler may call this at any time."""
        self.channel.send(pickle.dumps(message))

    @abstractmethod
    def disconnected(self) -> tuple[Any, ...] | None:
        """Return the last message about a worker whose channel is closed; None if the reason is not
        known yet."""

    @abstractmethod
    def kill(self) -> None: ...

    @abstractmethod
    def end(self) -> None:
        """Wait until the process has exited, or kill it."""


Handle = TypeVar("Handle", bound=WorkerHandle)


class WorkerPool(ABC, Generic[Handle]):
    """A pool of workers that run jobs. Use it as a context manager."""

    def __init__(self) -> None:
        self._workers: list[Handle] = []
        self._inbox: Inbox = queue.SimpleQueue()

    @abstractmethod
    def _spawn(self, count: int) -> None:
        """Start `count` more workers, or fewer if they cannot all be started."""

    @abstractmethod
    def _pack(self, job: Job) -> bytes: ...

    def _check(self) -> None:
        """Look for workers that have disappeared; called every `CHECK_SECONDS`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self.kill()
        self.close()

    @property
    def count(self) -> int:
        """Number of workers, except those that died."""
        return len(self._workers)

    def close(self) -> None:
        for worker in self._workers:
            worker.send("close")
        for worker in self._workers:
            worker.end()
        self._workers = []

    def kill(self) -> None:
        for worker in self._workers:
            worker.kill()

    def run(
        self,
        jobs: Sequence[Job],
        *,
        report: Callable[[Any], None],
        answer: Callable[[int, Any], Any],
        stopper: Stopper,
        policy: LossPolicy | None = None,
    ) -> Generator[JobEnd | None]:
        """Run all jobs, each in the next free worker. `report` receives the events of the jobs.
        `answer` receives a job's number and request, and returns the answer."""
        contents = [self._pack(job) for job in jobs]
        left, busy = deque(range(len(jobs))), dict[Handle, int]()

        def start() -> None:
            if left and not self._workers and policy is not None:
                self._spawn(1)
            for worker in self._workers:
                if left and worker not in busy:
                    busy[worker] = left.popleft()
                    worker.send("job", contents[busy[worker]])
                    if stopper.reason is not None:
                        worker.send("stop", stopper.reason)

        def stop(reason: Stop) -> None:
            for worker in list(busy):
                worker.send("stop", reason)

        try:
            start()
            stopper.attach(stop)
            for worker, (kind, *content) in self._messages(busy, policy):
                if kind == "report":
                    report(content[0])
                    yield None
                elif kind == "ask":
                    try:
                        worker.send("answer", answer(busy[worker], content[0]))
                    except BaseException:
                        worker.send("answer", None)  # otherwise the worker would wait forever
                        raise
                elif kind != "ready":
                    job, memory, then = busy.pop(worker), kind == "memory", OnLoss.END
                    if kind in ("died", "failed") or (memory and policy):
                        if memory:
                            worker.kill()
                        self._remove(worker)
                        how = str(content[0]) or type(content[0]).__name__
                        end = JobEnd(job, died=how)
                        if policy is not None:
                            then = policy.lost(Loss(job, how, memory, worker.alone))
                    else:
                        end = JobEnd(job, **{"error" if memory else kind: content[0]})
                    if then is OnLoss.LATER:
                        left.append(job)
                    elif then is OnLoss.NOW:
                        left.appendleft(job)
                        if len(busy) == len(self._workers):
                            self._spawn(1)
                    start()
                    if then is OnLoss.END:
                        yield end
            for job in left:
                yield JobEnd(job, died="no process is left")
        except KeyboardInterrupt:
            if stopper.reason is not None:
                self.kill()
            raise
        finally:
            stop(Stop.INTERRUPTED)
            self._drain(busy)

    def _messages(
        self, busy: Mapping[Handle, int], policy: LossPolicy | None = None
    ) -> Iterator[tuple[Handle, tuple[Any, ...]]]:
        """Yield the messages from busy workers until none is busy; kill those that are overdue."""
        next_check = 0.0
        while busy:
            if time.monotonic() >= next_check:
                next_check = time.monotonic() + CHECK_SECONDS
                self._check()
                for worker, job in busy.items():
                    if policy is not None and policy.overdue(job):
                        worker.kill()
            try:
                worker, content = self._inbox.get(timeout=CHECK_SECONDS)
            except queue.Empty:
                continue
            if worker not in self._workers:  # messages from a removed worker are ignored
                continue
            message = pickle.loads(content) if isinstance(content, bytes) else content
            message = message or worker.disconnected()
            if message is not None and worker in busy:
                yield worker, message
            elif message is not None and message[0] in ("died", "failed"):
                self._remove(worker)

    def _drain(self, busy: dict[Handle, int]) -> None:
        """Wait until the jobs that the caller abandoned have stopped."""
        for worker in busy:  # its request may have been lost in an interrupt
            worker.send("answer", None)
        for worker, (kind, *_) in self._messages(busy):
            if kind == "ask":
                worker.send("answer", None)
            elif kind not in ("report", "ready"):
                del busy[worker]
                if kind in ("died", "failed"):
                    self._remove(worker)

    def _remove(self, worker: Handle) -> None:
        self._workers.remove(worker)
        worker.end()


Executor = SameProcess | WorkerPool[Any]
