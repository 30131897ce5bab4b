"""The output folder: whole or not at all.

1. It must not exist, or be empty, or (to replace an earlier output) hold nothing but regular files
   that this command writes. That is checked before any query.
2. All is written into a hidden folder, which is removed if the run is given up. It lies inside the
   output folder if that exists (it may be a mount point, or `.`), and its files are moved up at the
   end; otherwise it lies beside it, and is renamed. Links are followed first.
3. A single file (a page) likewise: written beside the old one, which it then replaces, and which
   must be one of ours.
4. Once the run is over, nothing that was written is removed: if something fails, the message says
   where it is. An error of the system is a FileError in one sentence.
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
from .tables import kind_of

MARK_BYTES = 4096
"""How far into a file its mark is looked for."""


def check_free(
    out: Path,
    replaceable: Set[str] = frozenset(),
    replace: bool = False,
    *,
    input: str = "out",
) -> None:
    """Raise InputError, of the argument `input`, unless `out` is free: not there, or empty.

    With `replace`, it may also hold regular files that `replaceable` names.
    """
    kind = kind_of(out, str(out), input=input)
    if kind == "nothing" and not os.path.islink(os.path.realpath(out)):  # else: links in a circle
        return
    if kind != "folder":
        raise InputError(
            f"{out} is a file", expected="a folder, or a name that is free", input=input
        )
    try:
        with os.scandir(out) as entries:
            regular = {entry.name: entry.is_file(follow_symlinks=False) for entry in entries}
    except OSError as error:
        raise FileError(f"{out} cannot be used: {error.strerror}", input=input) from None
    others = sorted(name for name in regular if not (name in replaceable and regular[name]))
    if replace and others:
        raise InputError(
            f"{out} is not empty (it has {others[0]}): it has files that this command does not "
            "write",
            remedy="give another folder",
            input=input,
        )
    if regular and not replace:
        remedy = "give another folder" + ("" if others else f", or {mention('replace')}")
        first = (others or sorted(regular))[0]
        raise InputError(f"{out} is not empty (it has {first})", remedy=remedy, input=input)


def check_replaceable(file: Path, mark: bytes, older: bytes = b"") -> None:
    """Raise InputError if `file` is there and is not of ours: it has no `mark` near its beginning,
    nor what `older` versions had."""
    kind = kind_of(file, str(file), input="out")
    if kind == "nothing":
        return
    if kind == "file":
        try:
            with open(file, "rb") as opened:
                beginning = opened.read(MARK_BYTES)
        except OSError as error:
            raise FileError(f"{file} cannot be read: {error.strerror}", input="out") from None
        if not beginning or mark in beginning or (older and older in beginning):
            return
    raise InputError(
        f"{file} is there already, and is not a file that this command wrote",
        remedy="give another name, or remove it",
        input="out",
    )


def replace_file(file: Path, content: str) -> None:
    """Write a file whole, or leave the old one as it is: beside it, and then renamed."""
    final = Path(os.path.realpath(file))
    partial = final.with_name(f".{final.name}.partial-{os.getpid()}")
    try:
        with open(partial, "w", encoding="utf-8") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        os.replace(partial, final)
    except OSError as error:
        raise FileError(f"{file} cannot be written: {error.strerror}", input="out") from None
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


class Stage:
    """A folder to write into; `commit` makes it the output folder."""

    def __init__(self, out: Path, replaceable: Set[str], shared: bool, input: str) -> None:
        self._out, self._replaceable, self._shared = out, replaceable, shared
        self._input = input
        self._final = Path(os.path.realpath(out))
        self._inside = self._final.is_dir()
        mark = f".partial-{os.getpid()}"
        place = self._final if self._inside else self._final.parent
        self.folder = place / (mark if self._inside else f".{self._final.name}{mark}")
        self.committed = False
        self.left = False
        """Whether the folder stays where it is."""

    def make(self) -> None:
        """Make the folder."""
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            self.folder.mkdir()
        except OSError as error:
            raise FileError(
                f"{self._out} cannot be written: {error.strerror}. Nothing was saved.",
                input=self._input,
            ) from None

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """While the results of a finished run are written: whatever fails, they stay there."""
        try:
            yield
        except Exception as error:
            self.left = True
            where = f"What could be written is in {self.folder}."
            if isinstance(error, OSError):
                raise FileError(
                    f"{self._out} cannot be written: {error.strerror or error}. {where}",
                    input=self._input,
                ) from None
            error.add_note(where)
            raise

    def commit(self) -> None:
        """Make what was written the output folder; Ctrl-C waits for it."""
        with _signals_held_back():
            try:
                if self._inside:
                    self._move_up()
                else:
                    os.rename(self.folder, self._final)
            except OSError as error:  # it was free before the run: what the run cost is not lost
                self.left = True
                raise FileError(
                    f"{self._out} was changed during the run ({error.strerror}): the results are "
                    f"in {self.folder}",
                    input=self._input,
                ) from None
            self.committed = True

    def _move_up(self) -> None:
        others = (
            {entry.name for entry in self._final.iterdir()} - self._replaceable - {self.folder.name}
        )
        if others and not self._shared:
            raise FileExistsError(0, f"it has {min(others)}")
        names = {entry.name for entry in self.folder.iterdir()}
        for name in self._replaceable - names:
            (self._final / name).unlink(missing_ok=True)
        for name in sorted(names):
            os.replace(self.folder / name, self._final / name)
        self.folder.rmdir()


@contextlib.contextmanager
def staged(
    out: Path,
    replaceable: Set[str] = frozenset(),
    shared: bool = False,
    *,
    input: str = "out",
) -> Iterator[Stage]:
    """A stage for `out`, which is the argument `input`; removed if it is not committed.

    Files that `replaceable` names are replaced. With `shared`, others may be there, and stay.
    """
    stage = Stage(out, replaceable, shared, input)
    stage.make()
    try:
        yield stage
    finally:
        if not stage.left:
            shutil.rmtree(stage.folder, ignore_errors=True)


@contextlib.contextmanager
def _signals_held_back() -> Iterator[None]:
    """Ctrl-C and SIGTERM wait until the end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pending: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        if before[number] not in (signal.SIG_IGN, None):  # None: not set by Python
            signal.signal(number, lambda number, _: pending.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)
        for came in pending[:1]:
            signal.raise_signal(came)
