"""The entry point of the console script and of `python -m tollbox`.

Ctrl-C (or SIGTERM) during imports, which take seconds with torch, prints one message and exits with
code 130 (143). Some libraries swallow a KeyboardInterrupt during import, so the signal handler
itself exits the process; there is nothing to save yet.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

from tollbox.data.user_code import optional
from tollbox.errors import InputError

EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
SENTENCE = b"tollbox: interrupted; nothing was saved.\n"


def main() -> None:
    handled = [s for s in EXIT_CODES if signal.getsignal(s) not in (signal.SIG_IGN, None)]
    for number in handled:
        signal.signal(number, _end)
    for package in ("cyclopts", "rich"):
        try:
            optional(package, "the command line needs it", extra="cli")
        except InputError as error:
            sys.exit(f"tollbox: {error}")
    from tollbox import cli

    def ready() -> None:
        """Hand signals over to the command, once it is imported."""
        for number in handled:
            signal.signal(number, cli.HANDLERS[number])

    cli.main(ready=ready)


def _end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    try:
        os.write(2, SENTENCE)
    finally:
        os._exit(EXIT_CODES[signal.Signals(number)])


if __name__ == "__main__":
    main()
