"""What runs inside a process of a crew once it has begun: one job after another.

The pipe is one of `multiprocessing`, or anything that sends and receives bytes as it does, such as
the end of a wire (`wire.py`). Messages (`crew.py`) go through it, each of them pickled; through one
of `multiprocessing` what is shared comes first.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Protocol

import torch

from ..core.device import TF32Setting, is_out_of_memory, set_tf32
from ..core.stop import Stop
from ..errors import TollboxError
from .job_start import PARENT_GONE


class Pipe(Protocol):
    """What bytes go through."""

    def send_bytes(self, content: bytes, /) -> None:
        """Send them."""

    def recv_bytes(self) -> bytes:
        """Wait for the next; EOFError or OSError if there will be none."""


def serve(pipe: Connection, threads: int, precision: TF32Setting) -> None:
    """What a process of `processes.Processes` does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        content = [pipe.recv_bytes()]
    except (EOFError, OSError):
        os._exit(PARENT_GONE)
    work(pipe, content.pop(), threads, precision)


def work(pipe: Pipe, content: bytes, threads: int, precision: TF32Setting) -> None:
    """One job after another; `content` is what they share, pickled."""
    torch.set_num_threads(threads)
    set_tf32(precision)
    link = _PipeLink(pipe)
    try:
        shared = pickle.loads(content)
    except Exception as error:
        kind = "memory" if is_out_of_memory(error) else "failed"
        link.say(kind, RuntimeError(f"{type(error).__name__}: {error}"))
        return
    del content
    link.say("ready")
    while (job := link.jobs.get()) is not None:
        try:
            link.say("value", pickle.loads(job)(shared, link))
        except Exception as error:
            link.say("memory" if is_out_of_memory(error) else "error", _sendable(error))
        link.call_on_stop = None


class _PipeLink:
    """A job's link to its parent. A thread reads, so that a stop is noticed at once."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe, self._lock = pipe, threading.Lock()
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.jobs: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.call_on_stop: Callable[[Stop], None] | None = None
        self._stopped: Stop | None = None
        threading.Thread(target=self._read, daemon=True).start()

    def say(self, *message: Any) -> None:
        """Send a message."""
        content = pickle.dumps(message)
        try:
            with self._lock:
                self._pipe.send_bytes(content)
        except OSError:
            os._exit(PARENT_GONE)

    def tell(self, event: Any) -> None:
        self.say("tell", event)

    def ask(self, request: Any) -> Any:
        self.say("ask", request)
        return self._answers.get()

    def on_stop(self, call: Callable[[Stop], None]) -> None:
        self.call_on_stop = call
        if self._stopped is not None:
            call(self._stopped)

    def _read(self) -> None:
        while True:
            try:
                kind, *content = pickle.loads(self._pipe.recv_bytes())
            except (EOFError, OSError):
                os._exit(PARENT_GONE)
            if kind == "answer":
                self._answers.put(content[0])
            elif kind == "job":
                self._stopped = None  # here, since a stop of this job may follow before it begins
                self.jobs.put(content[0])
            elif kind == "stop":
                self._stopped = content[0]
                if (call := self.call_on_stop) is not None:
                    call(content[0])
            else:
                self.jobs.put(None)
                return


def _sendable(error: Exception) -> Exception:
    """The error itself, or one that can be sent in its place; with its traceback if it is a bug."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError("".join(traceback.format_exception(error)))
    if not isinstance(error, TollboxError):
        error.add_note("".join(traceback.format_exception(error)))
    return error
