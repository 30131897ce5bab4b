"""`tollbox --install-completion`: its options, and its help."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from .later import work_of

Shell = Literal["bash", "zsh", "fish"]
EXPECTED = "bash, zsh or fish"


def install_completion(
    *,
    shell: Annotated[
        Shell | None, Parameter(help=f"{EXPECTED}. Default: the one that this is typed in.")
    ] = None,
    show: Annotated[
        bool, Parameter(help="Print the script instead, and change nothing.", negative="")
    ] = False,
) -> int:
    """Let the shell complete commands, options and presets: bash, zsh or fish.

    Writes a script into your home folder and has the shell's start-up file (.bashrc, .zshrc) load
    it. Repeat it after an update of tollbox.
    """
    return work_of(install_completion)(shell=shell, show=show)
