"""`tollbox --install-completion`: a shell completes commands, options, names of presets and files.

The script is made once, with all names in it: to complete a word no Python is started. A later
version of tollbox has its own, so the command is repeated then.
"""

from __future__ import annotations

from pathlib import Path

from cyclopts.completion import detect_shell
from cyclopts.completion.detect import ShellDetectionError
from cyclopts.completion.install import add_to_rc_file, get_default_completion_path

from ..attacks import PRESETS, WITH_SURROGATE
from ..errors import FileError, InputError
from .app import command_line
from .completion import EXPECTED, Shell
from .options import with_presets
from .output import console

SHELLS: tuple[Shell, ...] = ("bash", "zsh", "fish")
BASH_FILES = 'COMPREPLY=( $(compgen -f -- "${cur}") )'
"""How the script has bash complete files: without the slash of a folder, or a name with a space."""


def install_completion(*, shell: Shell | None, show: bool) -> int:
    """Write the script where the shell finds it, or print it."""
    chosen = shell or _detected()
    script = completion_script(chosen)
    if show:
        console().print(script, soft_wrap=True)
        return 0
    try:
        file = get_default_completion_path(chosen, "tollbox")
        file.write_text(script, encoding="utf-8")
        added = chosen != "fish" and add_to_rc_file(file, "tollbox", chosen)
    except OSError as error:
        raise FileError(
            f"the completion for {chosen} cannot be written: {error}",
            remedy=f"`tollbox --install-completion --shell {chosen} --show` prints it",
        ) from None
    to = console()
    to.print(f"The completion for {chosen} is in {file}.", soft_wrap=True)
    if added:
        needs = ", as far as it runs compinit, which most do" if chosen == "zsh" else ""
        to.print(f"{Path.home() / f'.{chosen}rc'} loads it{needs}.", soft_wrap=True)
    to.print(f"Begin a new shell to have it: `exec {chosen}`.", soft_wrap=True)
    return 0


def completion_script(shell: Shell) -> str:
    """The script for a shell."""
    script = command_line().generate_completion(shell=shell)
    script = with_presets(script, [*PRESETS, *WITH_SURROGATE])
    if shell == "bash":  # readline knows files better
        script = script.replace(BASH_FILES, "COMPREPLY=()")
        script = script.replace("complete -F", "complete -o default -F")
    return script


def _detected() -> Shell:
    """The shell that the command was typed in."""
    try:
        found = detect_shell()
    except ShellDetectionError:
        found = None
    for shell in SHELLS:
        if shell == found:
            return shell
    what = "it is not known which shell this is" if found is None else f"this shell is {found}"
    raise InputError(what, expected=EXPECTED, remedy="name it with --shell")
