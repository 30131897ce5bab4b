"""The command line: parsing, error messages and exit codes.

1. A user's mistake (an InputError or a parsing error) gives one message on stderr and exit code 2.
   A failure of the environment, such as a full disk, gives one message and exit code 1.
2. A time limit that stops a run gives exit code 3, Ctrl-C 130, SIGTERM 143. A closed pipe on stdout
   is not an error. If stdout cannot be written for another reason, a message says so, and the exit
   code is 1.
3. Anything else is a bug and keeps its traceback.
4. A command's file is imported only when the command is typed. Its function imports what the work
   needs, so that help does not wait for torch.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence

from cyclopts import App, CycloptsError, Parameter, UnknownCommandError

from .. import __version__
from ..errors import InputError, TollboxError, UnknownNameError
from .interrupt import Terminated, Watchdog, ignore_signals
from .output import (
    FAILED,
    INTERRUPTED,
    MISTAKE,
    STOPPED,
    TERMINATED,
    safe_streams,
    say,
    say_mistake,
)

COMMANDS = {
    "demo": "Audit the embedded model: what it costs to attack it, and a page, in about a minute.",
    "audit": "Measure what it costs to attack your own model, and what would make it unprofitable.",
    "attack": "Attack your own model on your own images, under a price for flagged answers.",
    "init": "Write a study file for your own model and images, or one to fill in.",
    "run": "Run a study: models x attacks x prices x images, from a TOML file.",
    "resume": "Continue a study or an attack; recorded answers are not asked for again.",
    "status": "Show the progress of a study, even while it is running.",
    "report": "Make a page from a study, finished or not: table, curves, trade-offs, gallery.",
    "export": "Write a study's finished cells, their steps and its images as CSV or Parquet.",
    "merge": "Join the parts of a study, each run with --shard, in one folder.",
    "presets": "List the named attacks, with their families and parts.",
    "theory": "Print what the paper's theorems say for a price: overshoot, estimates, searches.",
    "paper": "Run an experiment of the paper, or all, and draw it; without a name, list them.",
}
"""Summary of each command, shown without importing the command; in the order of use."""
LIGHT = ("status", "presets", "theory")
"""Commands that do not need torch."""
DEFAULTS = Parameter(negative="", show_choices=False)
"""Default settings of all options: no --no-NAME, and no list of choices in the help."""
INSTALL = "--install-completion"
INSTALL_TEXT = "Install shell completion for commands, options and presets."
EPILOGUE = (
    "Run `tollbox COMMAND --help` for the options of a command. Exit codes: 0 done, 1 failed, "
    "2 wrong input, 3 stopped early by --time-limit, 130 Ctrl-C, 143 SIGTERM."
)


def command_line(typed: str | None = None) -> App:
    """Return the command line; only the typed command is imported and shows its own help."""
    app = App(
        name="tollbox",
        version=f"tollbox {__version__}",
        help="Robustness of image classifiers to decision-based attacks when queries have a price.",
        help_epilogue=None if typed in COMMANDS else EPILOGUE,
    )
    for place, (name, text) in enumerate(COMMANDS.items()):
        shown, function = None if name == typed else text, f"tollbox.cli.{name}:{name}"
        app.command(function, help=shown, sort_key=place, default_parameter=DEFAULTS)
    app.register_install_completion_command(INSTALL, help=INSTALL_TEXT)
    return app


def main(arguments: Sequence[str] | None = None, ready: Callable[[], None] = lambda: None) -> None:
    """Run a command and exit with its code; call `ready` after the slow imports."""
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    with safe_streams() as out:
        with Watchdog():
            code = _run(tokens, ready)
        out.flush()
        if out.lost is not None and not isinstance(out.lost, BrokenPipeError):
            say(f"stdout cannot be written: {out.lost.strerror}. All results are saved.")
            code = code or FAILED
    if code in STOPPED:  # a further Ctrl-C must not interrupt the exit
        ignore_signals()
    sys.exit(code)


def _run(tokens: list[str], ready: Callable[[], None]) -> int:
    typed = tokens[0] if tokens else None
    try:
        app = command_line(typed)
        command, bound, _ = app.parse_args(tokens, exit_on_error=False, print_error=False)
        works = command.__module__.startswith(__package__)  # not help or the version
        if works and typed not in LIGHT:
            importlib.import_module("torch")  # slow; a signal still exits the process
        ready()
        return int(command(*bound.args, **bound.kwargs) or 0)
    except UnknownCommandError:  # the error's own message would import all commands
        flags = ("--help", "--version", INSTALL)
        kind, known = ("option", flags) if str(typed).startswith("-") else ("command", COMMANDS)
        say(str(UnknownNameError(kind, str(typed), known)))
        return MISTAKE
    except CycloptsError as error:
        of = f"{typed} " if typed in COMMANDS else ""
        say(f"{error} See `tollbox {of}--help`.")
        return MISTAKE
    except InputError as error:
        say_mistake(error)
        return MISTAKE
    except TollboxError as error:
        say(str(error))
        return FAILED
    except OSError as error:
        if typed != INSTALL:
            raise
        say(f"the completion script cannot be written: {error}; choose a file with --output.")
        return MISTAKE
    except KeyboardInterrupt as stop:  # with a message if something was saved (`keeping`)
        ignore_signals()
        say(str(stop) or "interrupted; nothing was saved.")
        return TERMINATED if isinstance(stop, Terminated) else INTERRUPTED
