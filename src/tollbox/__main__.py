"""The console script, and `python -m tollbox`.

Ctrl-C while the package is imported, which with torch takes seconds, ends with one sentence and
exit code 130. Libraries swallow a KeyboardInterrupt that comes while they are imported; so the
signal itself ends the process, which has nothing to lose yet. The packages that the command line
needs are an extra: without one of them, a sentence says how to install it.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

from tollbox.errors import InputError
from tollbox.files.packages import optional

INTERRUPTED = 130
TOLD = b"tollbox: interrupted; nothing was saved.\n"


def main() -> None:
    """Import the command line, and run it."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else it is ignored
    if ours:
        signal.signal(signal.SIGINT, _end)
    for package in ("cyclopts", "rich"):
        try:
            optional(package, "the command line is made with it", extra="cli")
        except InputError as error:
            sys.exit(f"tollbox: {error}")
    from tollbox import cli

    cli.main(ready=_usual if ours else lambda: None)


def _usual() -> None:
    """The command is imported: Ctrl-C is its own affair now."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    try:
        os.write(2, TOLD)
    finally:
        os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
