"""stdout and stderr of a command, and consoles on them.

1. A stream that is closed, full, or whose reader has gone away never ends a command: the rest of
   what is written to it is dropped, and `lost` says why.
2. What a stream cannot encode (a file name that is not UTF-8) is written with backslashes.
3. Names are a user's: nothing in them is markup or an emoji.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO, cast

from rich.console import Console


class Stream:
    """A text stream that does not raise; everything else is passed to the stream inside."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.lost: OSError | None = None
        """Why nothing more can be written."""

    def write(self, text: str) -> int:
        """Write, or drop it."""
        with self._caught():
            self._stream.write(encodable(text, self._stream.encoding or "utf-8"))
        return len(text)

    def flush(self) -> None:
        """Flush, unless nothing can be written."""
        with self._caught():
            self._stream.flush()

    @contextlib.contextmanager
    def _caught(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.lost = self.lost or error
            with contextlib.suppress(OSError):  # so that Python's own flush at exit succeeds
                silent = os.open(os.devnull, os.O_WRONLY)
                os.dup2(silent, self._stream.fileno())
                os.close(silent)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def safe_streams() -> Iterator[Stream]:
    """While entered, sys.stdout (which is returned) and sys.stderr are such streams."""
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


def encodable(text: str, encoding: str = "utf-8") -> str:
    """The text, with backslashes for what the encoding has not."""
    return text.encode(encoding, "backslashreplace").decode(encoding)


def console(stderr: bool = False) -> Console:
    """A console that takes text as it is."""
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def say(message: str) -> None:
    """One sentence on stderr, in one line."""
    console(stderr=True).print(f"tollbox: {' '.join(message.split())}", soft_wrap=True)
