"""The output folder: whole or not at all.

1. It must not exist, or be empty, or (to replace an earlier output) hold nothing but regular files
   that this command writes. That is checked before any query.
2. All is written into a hidden folder, which is removed if the run is given up. Where the output
   folder exists (it may be a mount point, or `.`) that lies inside, and its files are moved up at
   the end; where it does not, that lies beside it and is renamed. Links are followed first.
3. Once the run is over, nothing that was written is removed: if something fails, the message says
   where it is. An error of the system is told in one sentence, as a FileError.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import threading
from collections.abc import Iterator, Set
from pathlib import Path

from ..errors import FileError, InputError
from .tables import kind_of


def check_free(out: Path, ours: Set[str] = frozenset(), replace: bool = False) -> None:
    """Raise InputError unless `out` is not there, or empty, or (`replace`) has only `ours`."""
    kind = kind_of(out, f"--out {out}")
    if kind == "nothing" and not os.path.islink(os.path.realpath(out)):  # else: links in a circle
        return
    if kind != "folder":
        raise InputError(f"--out {out} is a file: expected a folder, or a name that is free.")
    try:
        with os.scandir(out) as entries:
            plain = {entry.name: entry.is_file(follow_symlinks=False) for entry in entries}
    except OSError as error:
        raise FileError(f"--out {out} cannot be used: {error.strerror}.") from None
    others = sorted(name for name in plain if not (name in ours and plain[name]))
    if replace and others:
        raise InputError(
            f"--out {out} is not empty (it has {others[0]}): it has files that are not this "
            "command's."
        )
    if plain and not replace:
        hint = "give another folder" if others else "give another folder, or --replace"
        first = (others or sorted(plain))[0]
        raise InputError(f"--out {out} is not empty (it has {first}): {hint}.")


class Stage:
    """A folder to write into; `commit` makes it the output folder."""

    def __init__(self, out: Path, ours: Set[str], shared: bool) -> None:
        self._out, self._ours, self._shared = out, ours, shared
        self._final = Path(os.path.realpath(out))
        self._inside = self._final.is_dir()
        mark = f".partial-{os.getpid()}"
        place = self._final if self._inside else self._final.parent
        self.folder = place / (mark if self._inside else f".{self._final.name}{mark}")
        self.committed = False
        self.kept = False
        """Whether the folder is left where it is."""

    def make(self) -> None:
        """Make the folder."""
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            self.folder.mkdir()
        except OSError as error:
            raise FileError(
                f"the output folder {self._out} cannot be written: {error.strerror}. Nothing was "
                "saved."
            ) from None

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """While the results of a finished run are written: whatever fails, they are kept."""
        try:
            yield
        except Exception as error:
            self.kept = True
            where = f"What could be written is in {self.folder}."
            if isinstance(error, OSError):
                raise FileError(
                    f"the output folder {self._out} cannot be written: {error.strerror or error}. "
                    f"{where}"
                ) from None
            error.add_note(where)
            raise

    def commit(self) -> None:
        """Make what was written the output folder; Ctrl-C waits for it."""
        with _no_interrupt():
            try:
                if self._inside:
                    self._move_up()
                else:
                    os.rename(self.folder, self._final)
            except OSError as error:  # it was free before the run: what the run cost is not lost
                self.kept = True
                raise FileError(
                    f"the output folder {self._out} was changed during the run "
                    f"({error.strerror}): the results are in {self.folder}."
                ) from None
            self.committed = True

    def _move_up(self) -> None:
        others = {entry.name for entry in self._final.iterdir()} - self._ours - {self.folder.name}
        if others and not self._shared:
            raise FileExistsError(0, f"it has {min(others)}")
        names = {entry.name for entry in self.folder.iterdir()}
        for name in self._ours - names:
            (self._final / name).unlink(missing_ok=True)
        for name in sorted(names):
            os.replace(self.folder / name, self._final / name)
        self.folder.rmdir()


@contextlib.contextmanager
def staged(out: Path, ours: Set[str] = frozenset(), shared: bool = False) -> Iterator[Stage]:
    """A stage for `out`, in which files named `ours` may be replaced; gone if not committed. If it
    is `shared`, other files may be there, and stay."""
    stage = Stage(out, ours, shared)
    stage.make()
    try:
        yield stage
    finally:
        if not stage.kept:
            shutil.rmtree(stage.folder, ignore_errors=True)


@contextlib.contextmanager
def _no_interrupt() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)
