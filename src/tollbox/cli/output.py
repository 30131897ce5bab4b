"""The output of a command: stdout and stderr, as text or as JSON, and the exit code.

1. A stream that is closed or full, or whose reader is gone, never stops a command. The rest of the
   output is dropped, and `lost` says why.
2. What a stream cannot encode (a file name that is not UTF-8) is written with backslash escapes.
3. Names come from users: nothing in them is markup or an emoji, and their control characters, such
   as those that colour a terminal or clear it, are written with backslash escapes.
4. With `--json`, stdout is one JSON object and nothing else. It is strict: a number that is not
   finite is null, and another key says what null means. docs/studies.md documents the keys.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import math
import os
import re
import shlex
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO, cast

from cyclopts import Parameter
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from ..data.tables import utf8
from ..errors import InputError

FAILED, MISTAKE, INCOMPLETE = 1, 2, 3
"""Exit codes for a failure of the environment, for a user's mistake, and for a run that a time
limit stopped before it was complete."""
INTERRUPTED, TERMINATED = STOPPED = 130, 143
"""Exit codes after Ctrl-C and SIGTERM."""
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Characters that control a terminal, including those that reverse the order of text."""


class Stream:
    """A text stream that never raises OSError."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.lost: OSError | None = None
        """First error, after which output is dropped; None if there was none."""

    def write(self, text: str) -> int:
        with self._caught():
            encoding = self._stream.encoding or "utf-8"
            self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        return len(text)

    def close(self) -> None:
        """Do nothing: a user's model may close sys.stdout."""

    def flush(self) -> None:
        with self._caught():
            self._stream.flush()

    @contextlib.contextmanager
    def _caught(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:  # ValueError: a user's model closed the stream
            closed = OSError(errno.EBADF, os.strerror(errno.EBADF))
            self.lost = self.lost or (error if isinstance(error, OSError) else closed)
            with contextlib.suppress(OSError, ValueError):  # so that the flush at exit succeeds
                silent = os.open(os.devnull, os.O_WRONLY)
                os.dup2(silent, self._stream.fileno())
                os.close(silent)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def safe_streams() -> Iterator[Stream]:
    """Replace sys.stdout and sys.stderr by `Stream` objects; yield the one for stdout."""
    before = sys.stdout, sys.stderr
    with contextlib.ExitStack() as opened:
        out, err = (
            Stream(stream or opened.enter_context(open(os.devnull, "w", encoding="utf-8")))
            for stream in before
        )
        sys.stdout, sys.stderr = cast(TextIO, out), cast(TextIO, err)
        try:
            yield out
        finally:
            out.flush()
            err.flush()
            sys.stdout, sys.stderr = before


class PlainConsole(Console):
    """A console on which only rich itself, not a text that is printed, controls the terminal."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else visible(text), style, control)


def visible(text: str) -> str:
    """Return a text with its control characters, except tabs and line ends, as escapes."""
    return CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)


def console(stderr: bool = False) -> Console:
    """Return a console that prints text literally, with its control characters escaped."""
    return PlainConsole(stderr=stderr, highlight=False, markup=False, emoji=False)


def write(*lines: str) -> None:
    """Print lines to stdout; the terminal wraps them."""
    for line in lines:
        console().print(line, soft_wrap=True)


def command(*words: str | Path) -> str:
    """Return a tollbox command with its words quoted for a shell."""
    return shlex.join(["tollbox", *map(str, words)])


def free_folder() -> Path:
    """Return the path of a results folder that does not exist yet."""
    names = (f"results-{number}" if number > 1 else "results" for number in itertools.count(1))
    return next(Path(name) for name in names if not os.path.lexists(name))


def page_hint(folder: Path) -> str:
    return f"Make a page of the results with `{command('report', folder)}`."


def clock(seconds: float) -> str:
    """Return a time as hours, minutes and seconds: 0:08:30; - if it is not finite."""
    if not math.isfinite(seconds):
        return "-"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


def say(message: str) -> None:
    """Print a message to stderr as one line."""
    console(stderr=True).print(f"tollbox: {' '.join(message.split())}", soft_wrap=True)


GRACE_SECONDS = 10.0
"""Time after the limit for a model to be loaded and tried."""
OPTIONS = {"path": "--images", "prices": "--price"}
"""Options whose names differ from the argument's."""


def say_mistake(error: InputError) -> None:
    """Print what is wrong with an argument, referring to it by its option, e.g. --batch-size."""
    say(error.sentence(lambda name: OPTIONS.get(name, f"--{name.replace('_', '-')}")))


def end_process(message: str, code: int) -> None:
    """Print a message and exit the process, from a thread, while the main thread hangs."""
    try:
        say(message)
    finally:
        os._exit(code)


@contextlib.contextmanager
def preparing(limit: float) -> Iterator[None]:
    """Exit the process if the work before a run exceeds the time limit, since a model may hang."""
    message = f"time limit reached before the run started: no answer within {limit:g} s."
    seconds = min(limit + GRACE_SECONDS, threading.TIMEOUT_MAX)
    timer = threading.Timer(seconds, end_process, (message, FAILED))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


JSON = Parameter(help="Print one JSON object instead.")


def strict(value: Any) -> Any:
    """Return `value` as strict JSON can hold it: non-finite numbers as None, and text as UTF-8."""
    if isinstance(value, Mapping):
        return {strict(key): strict(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [strict(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return utf8(value)


def json_text(value: Mapping[str, Any], indent: int = 2) -> str:
    return json.dumps(strict(value), indent=indent, allow_nan=False)
