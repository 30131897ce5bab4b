"""Output folders and files, which appear whole or not at all.

1. An output folder must be new or empty, or contain only files that the command replaces.
   This is checked before any query.
2. Everything is written to a hidden folder, which is removed if the run is abandoned. If the output
   folder exists (it may be a mount point, or `.`), the hidden folder is inside it, and its files
   move up at the end. Otherwise it is a sibling of the output folder, and is renamed at the end.
   Links are resolved first.
3. A single file (a page) is written next to the old one and then replaces it.
4. Results of a finished run (`Stage.writing`) are never removed: if a step fails, the message says
   where they are. What can be made again is removed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import threading
from collections.abc import Iterator, Set
from pathlib import Path

from ..errors import FileError, InputError, mention
from .tables import kind_of, system_errors

MARK_BYTES = 4096
"""Number of bytes at the start of a file that are searched for its mark."""


def check_free(
    out: Path, replaceable: Set[str] = frozenset(), replace: bool = False, *, input: str = "out"
) -> None:
    """Raise InputError about the argument `input` unless `out` does not exist or is empty.

    With `replace`, it may also hold regular files that `replaceable` names.
    """
    kind = kind_of(out, str(out), input=input)
    if kind == "nothing" and not os.path.islink(os.path.realpath(out)):  # else a cycle of links
        return
    if kind != "folder":
        expected = "a folder, or a name that is free"
        raise InputError(f"{out} is a file", expected=expected, input=input)
    with system_errors(f"{out} cannot be used", input=input), os.scandir(out) as entries:
        regular = {entry.name: entry.is_file(follow_symlinks=False) for entry in entries}
    others = sorted(name for name in regular if not (name in replaceable and regular[name]))
    if replace and others:
        given = f"{out} has files that this command does not write ({others[0]})"
        raise InputError(given, remedy="give another folder", input=input)
    if regular and not replace:
        remedy = "give another folder" + ("" if others else f", or {mention('replace')}")
        first = (others or sorted(regular))[0]
        raise InputError(f"{out} is not empty (it has {first})", remedy=remedy, input=input)


def check_replaceable(file: Path, mark: bytes) -> None:
    """Raise InputError unless `file` is new, is empty, or has tollbox's `mark` near its start."""
    kind = kind_of(file, str(file), input="out")
    if kind == "nothing" and not os.path.islink(file):  # a received folder may have any link
        return
    if kind == "file":
        with system_errors(f"{file} cannot be read", input="out"), open(file, "rb") as stored:
            start = stored.read(MARK_BYTES)
        if not start or mark in start:
            return
    given = f"{file} already exists, and is not a file that this command wrote"
    raise InputError(given, remedy="give another name, or remove it", input="out")


def replace_file(file: Path, content: str) -> None:
    """Write a whole file, or leave the old one unchanged."""
    final = Path(os.path.realpath(file))
    partial = final.with_name(f".{final.name}.partial-{os.getpid()}")
    try:
        with system_errors(f"{file} cannot be written", input="out"):
            with open(partial, "w", encoding="utf-8") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(partial, final)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


class Stage:
    """A hidden folder to write into; `commit` makes it the output folder."""

    def __init__(self, out: Path, replaceable: Set[str], shared: bool, input: str) -> None:
        self._out, self._replaceable = out, replaceable
        self._shared, self._input = shared, input
        self._final = Path(os.path.realpath(out))
        self._inside = self._final.is_dir()
        name = f".partial-{os.getpid()}"
        sibling = self._final.with_name(f".{self._final.name}{name}")
        self.folder = self._final / name if self._inside else sibling
        self.left = self._precious = False
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            self.folder.mkdir()
        except OSError as error:
            given = f"{out} cannot be written: {error.strerror}. Nothing was saved."
            raise FileError(given, input=input) from None

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Keep the folder if writing the results of a finished run, or moving them, fails."""
        self._precious = True
        try:
            yield
        except Exception as error:
            self.left = True
            where = f"The files that could be written are in {self.folder}."
            if isinstance(error, OSError):
                given = f"{self._out} cannot be written: {error.strerror or error}. {where}"
                raise FileError(given, input=self._input) from None
            error.add_note(where)
            raise

    def commit(self) -> None:
        """Move the written files to the output folder; Ctrl-C takes effect only afterwards."""
        with _signals_held_back():
            try:
                if self._inside:
                    self._move_up()
                else:
                    os.rename(self.folder, self._final)
            except OSError as error:  # `out` was free before the run
                self.left = self._precious
                given = f"{self._out} was changed during the run ({error.strerror})"
                kept = f"the results are in {self.folder}" if self.left else "nothing was saved"
                raise FileError(f"{given}: {kept}", input=self._input) from None

    def _move_up(self) -> None:
        names = {entry.name for entry in self.folder.iterdir()}
        present = {entry.name for entry in self._final.iterdir()}
        others = present - self._replaceable - {self.folder.name}
        if others and not self._shared:
            raise FileExistsError(0, f"it has {min(others)}")
        for name in self._replaceable - names:
            (self._final / name).unlink(missing_ok=True)
        for name in sorted(names):
            os.replace(self.folder / name, self._final / name)
        self.folder.rmdir()


@contextlib.contextmanager
def staged(
    out: Path, replaceable: Set[str] = frozenset(), shared: bool = False, *, input: str = "out"
) -> Iterator[Stage]:
    """Create a stage for `out`, the value of the argument `input`; remove it if it is abandoned.

    Files named in `replaceable` are replaced or removed. With `shared`, other files may stay.
    """
    stage = Stage(out, replaceable, shared, input)
    try:
        yield stage
    finally:
        if not stage.left:
            shutil.rmtree(stage.folder, ignore_errors=True)


@contextlib.contextmanager
def _signals_held_back() -> Iterator[None]:
    """Delay Ctrl-C and SIGTERM until the end of the block."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pending: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number, handler in before.items():
        if handler not in (signal.SIG_IGN, None):  # None: not installed from Python
            signal.signal(number, lambda number, _: pending.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)
        for received in pending[:1]:
            signal.raise_signal(received)
