"""`tollbox --install-completion`: a real bash completes names, options and files."""

import fcntl
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import termios
import time
from pathlib import Path

import pytest
from test_cli import typed

from tollbox.cli.app import COMMANDS, command_line

BASH = shutil.which("bash")
needs_bash = pytest.mark.skipif(BASH is None, reason="there is no bash")
MOST_SECONDS = 20.0


@pytest.fixture(scope="module")
def script() -> str:
    return command_line().generate_completion(shell="bash")


def offered(script: str, *words: str) -> list[str]:
    """What bash is offered for the last of the words."""
    line = f"""{script}
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tollbox; printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    ended = subprocess.run(
        [str(BASH), "--norc", "-c", line, "bash", "tollbox", *words],
        capture_output=True,
        text=True,
        env={"PATH": ""},  # nothing is started for it
    )
    assert ended.stderr == ""
    return ended.stdout.split()


@needs_bash
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["attack", "--attack", "a-c"], ["a-cgba", "a-cgba-h"]),
        (["attack", "--attack", "frugal+"], ["frugal+seri", "frugal+surrogate"]),
        (["attack", "--norm", "l"], ["l2", "linf"]),
        (["attack", "--interpolation", "bi"], ["bilinear", "bicubic"]),
        (["attack", "--dtype", "b"], ["bfloat16"]),
        (["attack", "--surrogate-m"], ["--surrogate-mean"]),
        (["presets", "rays"], ["rays", "rays-l2"]),
        (["paper", "table-1", "--scale", "s"], ["small"]),
        (["report", "--reading", "h"], ["hard"]),
        (["export", "--format", "p"], ["parquet"]),
        (["init", "--interpolation", "la"], ["lanczos"]),
        (["re"], ["report", "resume"]),
        (["--inst"], ["--install-completion"]),
        (["attack", "--attack", "nothing"], []),
    ],
)
def test_what_bash_offers(script: str, words: list[str], expected: list[str]) -> None:
    assert sorted(offered(script, *words)) == sorted(expected)


@needs_bash
def test_commands_are_offered(script: str) -> None:
    assert offered(script, "") == [*COMMANDS]


class Terminal:
    """A bash that somebody types in."""

    def __init__(self, folder: Path) -> None:
        self._end, shell = pty.openpty()
        fcntl.ioctl(shell, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
        self._process = subprocess.Popen(
            [str(BASH), "--rcfile", ".bashrc", "-i"],
            **dict.fromkeys(("stdin", "stdout", "stderr"), shell),
            cwd=folder,
            env={"HOME": str(folder), "TERM": "dumb", "INPUTRC": os.devnull, "PATH": ""},
            start_new_session=True,
        )
        os.close(shell)

    def type(self, text: str, until: str) -> str:
        """What is shown after something was typed, until it has a pattern."""
        os.write(self._end, text.encode())
        shown, end = "", time.monotonic() + MOST_SECONDS
        while not re.search(until, shown):
            assert time.monotonic() < end, shown
            if select.select([self._end], [], [], 0.1)[0]:
                shown += os.read(self._end, 4096).decode().replace("\a", "")
        return shown

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._end)


@needs_bash
def test_a_new_bash_completes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".bashrc").write_text("PS1='ready> '\n")
    code, out, err = typed(capsys, "--install-completion", "--shell", "bash")
    assert (code, err) == (0, "")
    file = tmp_path / ".local/share/bash-completion/completions/tollbox"
    assert str(file) in out
    once = (tmp_path / ".bashrc").read_text()
    assert once.startswith("PS1='ready> '\n")
    code, out, _ = typed(capsys, "--install-completion", "--shell", "bash")
    assert code == 0
    assert (tmp_path / ".bashrc").read_text() == once
    (tmp_path / "pictures").mkdir()
    terminal = Terminal(tmp_path)
    try:
        terminal.type("", "ready> ")
        terminal.type("tollbox attack --attack a-c\t\t", "a-cgba")
        assert "a-cgba-h" in terminal.type("\t\t", "a-cgba-h")
        terminal.type("\x15tollbox attack --images pic\t", "pictures")
    finally:
        terminal.close()


@pytest.mark.parametrize(
    ("shell", "file", "start"),
    [
        ("zsh", ".zsh/completions/_cyclopts_tollbox", ".zshrc"),
        ("fish", ".config/fish/completions/tollbox.fish", None),
    ],
)
def test_other_shells(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    shell: str,
    file: str,
    start: str | None,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("ZSH", "ZSH_CUSTOM"):
        monkeypatch.delenv(name, raising=False)
    code, out, err = typed(capsys, "--install-completion", "--shell", shell)
    assert (code, err) == (0, "")
    assert str(tmp_path / file) in out
    text = (tmp_path / file).read_text()
    assert "a-cgba" in text
    assert "stealthy-sign-opt" in text
    assert (tmp_path / ".zshrc").exists() == (start is not None)
    if shutil.which(shell):
        assert subprocess.run([shell, "-n", tmp_path / file]).returncode == 0


def test_a_script_that_cannot_be_written(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "no" / "home"))
    assert typed(capsys, "--install-completion", "--shell", "tcsh")[:2] == (2, "")
    (tmp_path / "no").write_text("in the way")
    code, out, err = typed(capsys, "--install-completion", "--shell", "fish")
    assert (code, out) == (2, "")
    assert "the completion script cannot be written" in err
