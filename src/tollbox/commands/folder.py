"""The output folder: whole or not at all.

1. It must not exist, or be empty, or (with `replace`) hold nothing but files that this command
   writes. That is checked before any query.
2. All is written into a hidden folder beside it, which is renamed at the end, and removed if
   anything goes wrong.
3. An error of the system while writing is told in one sentence, as a FileError.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Set
from pathlib import Path

from ..errors import FileError, InputError

Commit = Callable[[], None]


def check_free(out: Path, replace: Set[str] = frozenset()) -> None:
    """Raise InputError unless `out` is not there, or empty, or has only files of `replace`."""
    try:
        if not out.exists():
            return
        if not out.is_dir():
            raise InputError(f"--out {out} is a file: expected a folder, or a name that is free.")
        others = sorted({entry.name for entry in out.iterdir()} - replace)
    except OSError as error:
        raise FileError(f"--out {out} cannot be used: {error.strerror}.") from None
    if others:
        hint = "it has files that are not this command's" if replace else "give another folder"
        raise InputError(f"--out {out} is not empty (it has {others[0]}): {hint}.")


@contextlib.contextmanager
def staged(out: Path, replace: Set[str] = frozenset()) -> Iterator[tuple[Path, Commit]]:
    """A folder to write into, and what makes it `out`; gone at the end if that was not called."""
    final = Path(os.path.abspath(out))
    stage = final.parent / f".{final.name}.partial-{os.getpid()}"
    with told(out):
        final.parent.mkdir(parents=True, exist_ok=True)
        stage.mkdir()

    def commit() -> None:
        with told(out):
            try:
                if final.is_dir():
                    for name in replace:
                        (final / name).unlink(missing_ok=True)
                    final.rmdir()
                os.rename(stage, final)
            except OSError as error:  # it was free before the run: what the run cost is not lost
                other = final.with_name(f"{final.name}-{os.getpid()}")
                os.rename(stage, other)
                raise FileError(
                    f"the output folder {out} was changed during the run ({error.strerror}): the "
                    f"results are in {other.name} beside it."
                ) from None

    try:
        yield stage, commit
    finally:
        shutil.rmtree(stage, ignore_errors=True)


@contextlib.contextmanager
def told(out: Path) -> Iterator[None]:
    """Turn the system's refusal to write into a FileError."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise FileError(
            f"the output folder {out} cannot be written: {error.strerror or error}. "
            "Nothing was saved."
        ) from None
