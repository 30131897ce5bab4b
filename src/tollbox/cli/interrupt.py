"""Ctrl-C and SIGTERM, while a study runs and at other times.

1. While a study runs, the first signal asks the run to stop after the current batches, so that
   results are saved.
2. The second raises KeyboardInterrupt (`Terminated` for SIGTERM): the run stops at once. At other
   times the first one does.
3. If a signal arrives just before the main thread blocks, Python handles it only with the next one.
   So each signal also wakes a thread, which then sends the main thread a few harmless signals.
4. A model that hangs in native code, or catches KeyboardInterrupt, stops neither. If the main
   thread is not done `GRACE_SECONDS` after the second signal, this thread ends the process.
5. The exit code is 130 after Ctrl-C, and 143 after SIGTERM.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

from .output import INTERRUPTED, TERMINATED, end_process

WAKE_SECONDS, WAKE_TIMES = 0.2, 10
GRACE_SECONDS = 5.0
HANGS = "interrupted, but the model did not respond, so the process was killed"


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


_ends: list[Callable[[int], None]] = [partial(end_process, f"{HANGS}.")]
"""Functions that exit with a code, from the watchdog's thread; the last one is in force."""


class Watchdog:
    """A context in which each signal wakes the main thread, and the second ends the process if the
    main thread does not react."""

    def __init__(self) -> None:
        self._left = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            out, into = os.pipe()
            os.set_blocking(into, False)
            self._alarm = signal.signal(signal.SIGALRM, lambda *_: None)
            self._before = signal.set_wakeup_fd(into, warn_on_full_buffer=False)
            self._thread = threading.Thread(target=self._watch, args=(out,), daemon=True)
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        if self._thread is not None:
            self._left.set()
            os.close(signal.set_wakeup_fd(self._before))  # so that the thread finishes
            self._thread.join()
            signal.signal(signal.SIGALRM, self._alarm)

    def _watch(self, pipe: int) -> None:
        count = 0
        with os.fdopen(pipe, "rb", buffering=0) as signals:
            while number := signals.read(1):
                if number[0] not in HANDLERS:
                    continue
                count += 1
                for _ in range(WAKE_TIMES):
                    if not self._left.wait(WAKE_SECONDS):
                        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)
                if count > 1 and not self._left.wait(GRACE_SECONDS):
                    _ends[-1](TERMINATED if number[0] == signal.SIGTERM else INTERRUPTED)


class Interrupt:
    """A context in which the first signal calls `stop` and `announce`, and the second raises. If
    the main thread does not react, the watchdog calls `end` with the exit code."""

    def __init__(
        self,
        stop: Callable[[], None],
        announce: Callable[[str], None],
        end: Callable[[int], None],
    ) -> None:
        self._stop, self._announce, self._end = stop, announce, end
        self._before: dict[int, Any] = {}
        self.code = 0
        """Exit code for the first signal; 0 if there was none."""

    def __enter__(self) -> Interrupt:
        _ends.append(self._end)
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._handle) for number in HANDLERS}
        return self

    def __exit__(self, *_: object) -> None:
        _ends.remove(self._end)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.code:
            raise Terminated if number == signal.SIGTERM else KeyboardInterrupt
        self.code = TERMINATED if number == signal.SIGTERM else INTERRUPTED
        self._stop()
        again = "send SIGTERM" if number == signal.SIGTERM else "press Ctrl-C"
        self._announce(f"finishing the batch; {again} again to stop now.")
