"""The command line.

1. A user's mistake (an InputError, or what the parser finds) is one message on stderr, exit code 2;
   what went wrong with the world (a full disk) likewise, exit code 1.
2. Ctrl-C is exit code 130. A reader of our output that goes away is no error; a stdout that cannot
   be written otherwise is told, exit code 1.
3. Anything else is a bug of ours, and keeps its traceback.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from . import __version__
from .commands.attack import FAILED, INTERRUPTED, attack
from .commands.demo import demo
from .commands.export import export
from .commands.presets import presets
from .commands.resume import resume
from .commands.run import run
from .commands.status import status
from .commands.streams import safe_streams, say
from .commands.theory import theory
from .errors import InputError, TollboxError

MISTAKE = 2

app = App(
    name="tollbox",
    version=__version__,
    help="Robustness of image classifiers to decision-based attacks when queries have a price.",
)
app.command(attack)
app.command(run)
app.command(resume)
app.command(status)
app.command(export)
app.command(demo)
app.command(presets)
app.command(theory)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit with its code."""
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    with safe_streams() as out:
        code = _run(tokens)
        out.flush()
        if out.lost is not None and not isinstance(out.lost, BrokenPipeError):
            say(f"stdout cannot be written: {out.lost.strerror}. What was to be saved is saved.")
            code = code or FAILED
    if code == INTERRUPTED:  # an impatient second Ctrl-C must not make a mess of the exit
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)


def _run(tokens: list[str]) -> int:
    try:
        command, bound, _ = app.parse_args(tokens, exit_on_error=False, print_error=False)
        return int(command(*bound.args, **bound.kwargs) or 0)
    except CycloptsError as error:
        say(f"{error} See `tollbox --help`.")
        return MISTAKE
    except InputError as error:
        say(str(error))
        return MISTAKE
    except TollboxError as error:
        say(str(error))
        return FAILED
    except KeyboardInterrupt:
        say("interrupted; nothing was saved.")
        return INTERRUPTED
