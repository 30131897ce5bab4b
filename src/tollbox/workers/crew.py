"""A crew: processes that run jobs, wherever they are.

1. Messages travel in order, and each is a tuple that begins with its kind. To a process: job,
   answer, stop, close. From it: ready, failed (what is shared cannot be loaded), tell, ask, value,
   error, memory (an error, too: there was not enough); and died, which its own side says of it.
2. A job is given to the next process that is free. One that lost its process goes where `Care`
   says. Nothing is heard of a process that was taken for dead, whatever it may still say: with it
   goes the only way by which its messages come.
3. How a process is begun, how messages travel and how one waits for them is said by each kind of
   crew (`processes.py`, `studies/ray.py`); all else is here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Any, Generic, TypeVar

from ..core.stop import Stop
from .executors import Care, Job, JobEnd, Loss, Stopper, Then

CARE_SECONDS = 1.0
"""Time between two looks at jobs that may be overdue."""


class Member(ABC):
    """A process, as its crew sees it."""

    def __init__(self, alone: bool) -> None:
        """`alone`: there is no other, and there will be none beside it."""
        self.alone = alone

    @abstractmethod
    def say(self, *message: Any) -> None:
        """Send a message; a signal handler may call this while another is being sent."""

    @abstractmethod
    def hear(self) -> Any:
        """Its next message; ("died", how) if there will be none."""

    @abstractmethod
    def kill(self) -> None:
        """End it at once, whatever it is doing."""

    @abstractmethod
    def end(self) -> None:
        """Wait for its end, and enforce it."""


AnyMember = TypeVar("AnyMember", bound=Member)


class Crew(ABC, Generic[AnyMember]):
    """Processes that run jobs. Use it as a context."""

    def __init__(self) -> None:
        self._members: list[AnyMember] = []

    @abstractmethod
    def _hire(self, count: int) -> None:
        """Begin so many more, or as many as can be; each says first that it is ready, or that it
        failed."""

    @abstractmethod
    def _with_messages(
        self, members: list[AnyMember], seconds: float | None = None
    ) -> list[AnyMember]:
        """Those that have a message, or have died; waits until one has, or so many seconds."""

    @abstractmethod
    def _packed(self, job: Job) -> bytes:
        """A job as it travels."""

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self.kill()
        self.close()

    @property
    def count(self) -> int:
        """How many processes there are; fewer than at the beginning if some died."""
        return len(self._members)

    def close(self) -> None:
        """End all of them."""
        for member in self._members:
            member.say("close")
        for member in self._members:
            member.end()
        self._members = []

    def kill(self) -> None:
        """End all of them at once, whatever they are doing."""
        for member in self._members:
            member.kill()

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
        contents = [self._packed(job) for job in jobs]
        left, busy = deque(range(len(jobs))), dict[AnyMember, int]()

        def begin() -> None:
            """Give jobs to all processes that are free."""
            if left and not self._members and care is not None:
                self._hire(1)
            for member in self._members:
                if left and member not in busy:
                    busy[member] = left.popleft()
                    member.say("job", contents[busy[member]])
                    if stopper.reason is not None:
                        member.say("stop", stopper.reason)

        def stop(reason: Stop) -> None:
            for member in list(busy):
                member.say("stop", reason)

        def lost(member: AnyMember, loss: Loss) -> JobEnd | None:
            """The end of the job, unless it goes on."""
            self._remove(member)
            then = care.lost(loss) if care else Then.END
            if then is Then.END:
                return JobEnd(loss.job, died=loss.how)
            if then is Then.LATER:
                left.append(loss.job)
            else:
                left.appendleft(loss.job)
                if len(busy) == len(self._members):
                    self._hire(1)
            return None

        try:
            begin()
            stopper.attach(stop)
            while busy:
                for member in self._with_messages(list(busy), CARE_SECONDS if care else None):
                    kind, *content = member.hear()
                    if kind == "tell":
                        tell(content[0])
                        yield None
                    elif kind == "ask":
                        _answer(member, answer, busy[member], content[0])
                    elif kind != "ready":  # a fresh one that has its job already
                        place, memory = busy.pop(member), kind == "memory"
                        if kind in ("died", "failed") or (memory and care):
                            if memory:
                                member.kill()
                            how = str(content[0]) or type(content[0]).__name__
                            end = lost(member, Loss(place, how, memory, member.alone))
                        else:
                            end = JobEnd(place, **{"error" if memory else kind: content[0]})
                        begin()
                        if end is not None:
                            yield end
                for member, place in busy.items():
                    if care is not None and care.overdue(place):
                        member.kill()
            for place in left:
                yield JobEnd(place, died="no process is left")
        except KeyboardInterrupt:
            if stopper.reason is not None:
                self.kill()
            raise
        finally:
            stop(Stop.INTERRUPTED)
            self._drain(busy)

    def _drain(self, busy: dict[AnyMember, int]) -> None:
        """Wait for the jobs of a caller that has gone before their end."""
        while busy:
            for member in self._with_messages(list(busy)):
                kind, *_ = member.hear()
                if kind == "ask":
                    member.say("answer", None)
                elif kind not in ("tell", "ready"):
                    del busy[member]
                    if kind in ("died", "failed"):
                        self._remove(member)

    def _remove(self, member: AnyMember) -> None:
        self._members.remove(member)
        member.end()


def _answer(member: Member, answer: Callable[[int, Any], Any], place: int, request: Any) -> None:
    """Answer what a job asks; it must not wait for ever if there is no answer."""
    try:
        member.say("answer", answer(place, request))
    except BaseException:
        member.say("answer", None)
        raise
