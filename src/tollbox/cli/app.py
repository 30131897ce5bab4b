"""The command line.

1. A user's mistake (an InputError, or what the parser finds) is one message on stderr, exit code 2;
   what went wrong with the world (a full disk) likewise, exit code 1.
2. Ctrl-C is exit code 130, SIGTERM 143. A reader of our output that goes away is no error; if
   stdout cannot be written for another reason, that is reported, exit code 1.
3. Anything else is a bug of ours, and keeps its traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from cyclopts import App, CycloptsError, UnknownCommandError

from .. import __version__
from ..errors import InputError, TollboxError, UnknownNameError
from .exit_codes import FAILED, INTERRUPTED, MISTAKE, STOPPED, TERMINATED
from .interrupt import Terminated, ignore_signals
from .later import work_of
from .output import safe_streams, say
from .parsing import as_option

COMMANDS = {
    "demo": "Audit the embedded model: what it costs to attack it, and a page, in about a minute.",
    "audit": "Report what it costs to attack your own model, and what would make it uneconomic.",
    "attack": "Attack your own model on your own images, under a price for flagged answers.",
    "init": "Write a study file for your own model and images, or one to fill in.",
    "run": "Run a study: models x attacks x prices x images, from a TOML file.",
    "resume": "Continue a study or an attack; recorded answers are not asked again.",
    "status": "Show how far a study has come; it may be running.",
    "report": "Make a page of a study: table, curves, trade-offs, gallery; finished or not.",
    "export": "Write a study's finished cells, their steps and its images, as CSV or Parquet.",
    "merge": "Make one folder of the parts of a study, each run with --shard.",
    "presets": "List the attacks that can be named, with their families and parts.",
    "theory": "Print what the paper's theorems say for a price: overshoot, estimates, searches.",
    "paper": "Run an experiment of the paper, or all, and draw it; without a name, list them.",
}
"""The first sentence of each, which is shown without importing it; in the order that one meets
them in."""
INSTALL = "--install-completion"
FLAGS = ("--help", "--version", INSTALL)
EPILOGUE = "`tollbox COMMAND --help` has the options of each."
INSTALL_TEXT = "Let the shell complete commands, options and presets: bash, zsh or fish."


def command_line(typed: str | None = None) -> App:
    """The command line. A command is imported when it is typed, and then has its own help."""
    app = App(
        name="tollbox",
        version=f"tollbox {__version__}",
        help="Robustness of image classifiers to decision-based attacks when queries have a price.",
        help_epilogue=None if typed in COMMANDS else EPILOGUE,
    )
    for place, (name, text) in enumerate(COMMANDS.items()):
        own = name == typed
        app.command(f"tollbox.cli.{name}:{name}", help=None if own else text, sort_key=place)
    app.command(
        "tollbox.cli.completion:install_completion",
        name=INSTALL,
        help=None if typed == INSTALL else INSTALL_TEXT,
    )
    return app


def main(arguments: Sequence[str] | None = None, ready: Callable[[], None] = lambda: None) -> None:
    """Run a command and exit with its code; `ready` is called once its work is imported."""
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    with safe_streams() as out:
        code = _run(tokens, ready)
        out.flush()
        if out.lost is not None and not isinstance(out.lost, BrokenPipeError):
            say(f"stdout cannot be written: {out.lost.strerror}. What was to be saved is saved.")
            code = code or FAILED
    if code in STOPPED:  # an impatient further Ctrl-C must not make a mess of the exit
        ignore_signals()
    sys.exit(code)


def _run(tokens: list[str], ready: Callable[[], None]) -> int:
    typed = tokens[0] if tokens else None
    try:
        app = command_line(typed)
        command, bound, _ = app.parse_args(tokens, exit_on_error=False, print_error=False)
        work_of(command)  # imported while a signal still ends the process
        ready()
        return int(command(*bound.args, **bound.kwargs) or 0)
    except UnknownCommandError:  # whose own text would import all commands
        say(str(_unknown(str(typed))))
        return MISTAKE
    except CycloptsError as error:
        of = f"{typed} " if typed in COMMANDS else ""
        say(f"{error} See `tollbox {of}--help`.")
        return MISTAKE
    except InputError as error:
        say(error.sentence(as_option))
        return MISTAKE
    except TollboxError as error:
        say(str(error))
        return FAILED
    except KeyboardInterrupt as stop:  # with a sentence if something was saved (`keeping`)
        ignore_signals()
        say(str(stop) or "interrupted; nothing was saved.")
        return TERMINATED if isinstance(stop, Terminated) else INTERRUPTED


def _unknown(typed: str) -> UnknownNameError:
    """The mistake of a first word that is no command, and no option that stands alone."""
    if typed.startswith("-"):
        return UnknownNameError("option", typed, FLAGS)
    return UnknownNameError("command", typed, COMMANDS)
