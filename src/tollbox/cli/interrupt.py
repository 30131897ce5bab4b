"""Ctrl-C and SIGTERM while a study runs.

1. The first signal asks the run to stop after the current batches, so that results are saved.
2. The second raises KeyboardInterrupt (`Terminated` for SIGTERM): the run stops at once.
3. If a signal arrives just before the main thread blocks, Python handles it only with the next one.
   So each signal also wakes a thread, which then sends the main thread a few harmless signals.
4. The exit code is 130 after Ctrl-C, and 143 after SIGTERM.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from .output import INTERRUPTED, TERMINATED

WAKE_SECONDS, WAKE_TIMES = 0.2, 10


class Terminated(KeyboardInterrupt):
    """The KeyboardInterrupt that SIGTERM raises."""


def _raise_terminated(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    raise Terminated


HANDLERS = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: _raise_terminated}
"""Signal handlers outside a run."""


def ignore_signals() -> None:
    """Ignore both signals from now on; the remaining work is short."""
    if threading.current_thread() is threading.main_thread():
        for number in HANDLERS:
            signal.signal(number, signal.SIG_IGN)


class Interrupt:
    """A context in which the first signal calls `stop` and `announce`, and the second raises."""

    def __init__(self, stop: Callable[[], None], announce: Callable[[str], None]) -> None:
        self._stop, self._announce = stop, announce
        self._before: dict[int, Any] = {}
        self._ended = threading.Event()
        self.code = 0
        """Exit code for the first signal; 0 if there was none."""

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            out, into = os.pipe()
            os.set_blocking(into, False)
            signal.set_wakeup_fd(into, warn_on_full_buffer=False)
            self._thread = threading.Thread(target=self._wake_main_thread, args=(out,), daemon=True)
            self._thread.start()
            self._before = {number: signal.signal(number, self._handle) for number in HANDLERS}
            self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, lambda *_: None)
        return self

    def __exit__(self, *_: object) -> None:
        if not self._before:
            return
        self._ended.set()
        os.close(signal.set_wakeup_fd(-1))  # so that the thread finishes
        self._thread.join()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _wake_main_thread(self, pipe: int) -> None:
        """Interrupt whatever the main thread is waiting for, after each signal."""
        with os.fdopen(pipe, "rb", buffering=0) as signals:
            while number := signals.read(1):
                for _ in range(WAKE_TIMES if number[0] in HANDLERS else 0):
                    if not self._ended.wait(WAKE_SECONDS):
                        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)

    def _handle(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.code:
            raise Terminated if number == signal.SIGTERM else KeyboardInterrupt
        self.code = TERMINATED if number == signal.SIGTERM else INTERRUPTED
        self._stop()
        again = "send SIGTERM" if number == signal.SIGTERM else "press Ctrl-C"
        self._announce(f"finishing the batch; {again} again to stop now.")
