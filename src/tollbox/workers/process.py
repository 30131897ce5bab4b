"""Values that travel to other processes, as bytes.

A crew of processes on this machine, which talk through pipes.

1. Processes are spawned, and keep what they share from one run to the next. Ctrl-C is handled by
   the parent alone: a KeyboardInterrupt after a stop ends them at once. A process whose parent is
   gone ends at once too, as if it had been killed, also while it begins (`job_start.py`).
2. Where some processes cannot begin for lack of memory, there are fewer.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Iterator
from multiprocessing import spawn
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from ..core.device import tf32_setting
from ..errors import InputError
from .crew import Crew, Member
from .executors import Job, threads_each
from .job_process import serve


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


LEAVE_SECONDS = 10.0
"""How long a process is given to end on its own."""
START = Path(__file__).with_name("job_start.py")


class Child(Member):
    """A process of this machine, as its parent sees it."""

    def __init__(self, process: subprocess.Popen[bytes], pipe: Connection, alone: bool) -> None:
        super().__init__(alone)
        self.process, self.pipe = process, pipe
        self._outbox: deque[bytes] = deque()
        self._sending = threading.Lock()

    @classmethod
    def begin(cls, alone: bool) -> Child:
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
        """Send a message."""
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
                self.kill()
                raise
            finally:
                self._sending.release()

    def hear(self) -> Any:
        """Its next message."""
        try:
            return pickle.loads(self.pipe.recv_bytes())
        except (EOFError, OSError):
            code = self._wait()
            signalled = code is not None and code < 0
            return "died", f"signal {-(code or 0)}" if signalled else f"exit code {code}"
        except BaseException:  # half a message may have been read
            self.kill()
            raise

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()

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


class Processes(Crew[Child]):
    """Jobs in `count` processes, each of which has a copy of `shared`. Use it as a context."""

    def __init__(self, count: int, shared: Any = None, threads: int | None = None) -> None:
        super().__init__()
        self._shared = shared
        self._threads = threads or threads_each(count)
        try:
            self._hire(count)
            reason = "out of memory"
            for child in list(self._members):
                kind, *content = child.hear()
                if kind == "failed":  # and so would all others
                    raise _no_beginning(content[0])
                if kind != "ready":
                    reason = str(content[0])
                    self._remove(child)
            if not self._members:
                raise _no_beginning(reason)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Processes:
        return self

    @property
    def pids(self) -> list[int]:
        """Their ids."""
        return [child.process.pid for child in self._members]

    def _hire(self, count: int) -> None:
        content = dumped(self._shared, "the model")
        preparation = spawn.get_preparation_data("tollbox")
        del preparation["authkey"]  # a secret, which is not to be pickled, and nobody needs
        function = pickle.dumps((serve, (self._threads, tf32_setting())))
        alone = count == 1 and not self._members
        begun: list[Child] = []
        with _interrupts_held_back(), contextlib.suppress(OSError):
            for _ in range(count):
                begun.append(Child.begin(alone))
                self._members.append(begun[-1])
        for child in begun:  # when all have begun: each reads when it is ready to
            for message in (pickle.dumps(preparation), function, content):
                child.send(message)

    def _with_messages(self, members: list[Child], seconds: float | None = None) -> list[Child]:
        ready = wait([child.pipe for child in members], seconds)
        return [child for child in members if child.pipe in ready]

    def _packed(self, job: Job) -> bytes:
        return dumped(job, "the work")


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
