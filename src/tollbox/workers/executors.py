"""How many processes, and threads of each: no more than cores unless they are forced.

Executors: where jobs run, in this process, in others, or on other machines.

1. A job is a function of (shared, link); what it returns is its value. To run in another process it
   must be picklable, and so must everything that passes through its link.
2. A job communicates with its caller through its link only: `tell` reports what happened, `ask`
   waits for an answer, `on_stop` names a function to be called when the job is to end.
3. `run` yields the end of each job as it comes: its value, its error, or how its process died. A
   job that fails does not end the others; the caller decides. Between the ends, executors with
   processes also yield None after each report, so that the caller may pass things on as they come.
   With a `Care`, a job whose process dies, or has not enough memory, may be run again in another;
   then that is no end.
4. A caller may abandon `run` early: the jobs are stopped, an `ask` is answered with None from then
   on, and the processes are ready for the next run.

There are three: `SameProcess` here, and two crews (`crew.py`), which differ in nothing but how a
process is begun and how messages travel: `Processes` (`processes.py`), and the actors of a Ray
cluster (`studies/ray.py`).
"""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch

from ..core.stop import Stop


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


def threads_each(count: int) -> int:
    """How many threads each of so many processes has."""
    return max(1, torch.get_num_threads() // count)


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
    ) -> Generator[JobEnd | None]:
        """Run all jobs; `answer` is called with a job's place and what it asks. `care` is for
        jobs in processes of their own."""


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
    ) -> Generator[JobEnd | None]:
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
