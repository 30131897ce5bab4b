"""Paths, CSV files, and text for messages; none of it needs torch.

1. An operating system error (no permission, a name that is too long) becomes a FileError that names
   the file.
2. An error in a CSV file names the file and the line.
3. In CSV files that tollbox writes, no text can be mistaken for a formula (`plain_text`).
"""

from __future__ import annotations

import contextlib
import csv
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from ..core.validation import require
from ..errors import FileError, InputError, text_of

LARGEST = 2**63 - 1
Format = Literal["csv", "parquet"]
MOST_BYTES = 2**28
"""Maximum size of a text file: labels of a few million images."""
FORMULA = ("=", "+", "-", "@", "\t", "\r")


@contextlib.contextmanager
def system_errors(subject: str, *, input: str = "") -> Iterator[None]:
    """Turn an operating system error into a FileError that starts with `subject`."""
    try:
        yield
    except OSError as error:
        raise FileError(f"{subject}: {error.strerror}", input=input) from None


@contextlib.contextmanager
def errors_in(file: Path) -> Iterator[None]:
    """Turn an InputError into a FileError about the content of a file."""
    try:
        yield
    except InputError as error:
        given, expected, remedy = error.given, error.expected, error.remedy
        raise FileError(given, expected=expected, remedy=remedy, where=str(file)) from None


def kind_of(
    path: str | Path, subject: str, *, input: str = ""
) -> Literal["file", "folder", "other", "nothing"]:
    """Return what is at a path, following links. `subject` starts the error message."""
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "nothing"
    except OSError as error:
        raise FileError(f"{subject} cannot be read: {error.strerror}", input=input) from None
    except ValueError:  # a NUL, or characters that cannot be encoded
        name = subject.replace("\0", "\\x00")
        raise FileError(f"{name} is a name that no file can have", input=input) from None
    if stat.S_ISDIR(mode):
        return "folder"
    return "file" if stat.S_ISREG(mode) else "other"


def check_file(path: str | Path, expected: str, *, input: str = "") -> None:
    kind = kind_of(path, str(path), input=input)
    if kind != "file":
        what = "does not exist" if kind == "nothing" else "is not a file"
        raise FileError(f"{path} {what}", expected=expected, input=input)


def check_text(file: Path, expected: str, *, input: str = "") -> None:
    """Raise FileError unless a text file can be read at once: no device, no pipe, not too large."""
    check_file(file, expected, input=input)
    if (size := os.path.getsize(file)) > MOST_BYTES:
        given, expected = f"{file} has {size:,} bytes", f"{expected}, at most {MOST_BYTES:,} bytes"
        raise FileError(given, expected=expected, input=input)


def path_of(value: str | os.PathLike[str], name: str) -> Path:
    require(isinstance(value, str | os.PathLike), name, value, "a path")
    return Path(value)


def read_lines(file: Path, expected: str, *, input: str) -> list[str]:
    check_text(file, expected, input=input)
    try:
        with system_errors(f"{file} cannot be read", input=input):
            return file.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise FileError(f"{file} is not UTF-8 text", expected=expected, input=input) from None


PICKLE_ADVICE = ("allow_pickle", "weights_only", "Weights only load")
"""Words of NumPy's and torch's advice to load a file unsafely, which is not passed on."""


def in_a_line(error: BaseException | str) -> str:
    """Return the most informative line of an error: the first, or the last for TorchScript."""
    text = (getattr(error, "strerror", None) or text_of(error)).strip().splitlines()
    if any(word in line for line in text for word in PICKLE_ADVICE):
        return "it is not plain data, and pickles are not loaded"
    if not text:
        return "no message" if isinstance(error, str) else type(error).__name__
    return text[-1 if "TorchScript interpreter" in text[0] else 0].strip().rstrip(".")


def shortened(text: str) -> str:
    """Return a user's text, cut to a length that fits a message."""
    return text if len(text) <= 60 else f"{text[:40]}... ({len(text)} characters)"


def plain_text(value: Any) -> Any:
    """Return a value for a CSV file, with an apostrophe before text that looks like a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def flag_text(value: bool | None) -> str:
    """Return "true", "false" or, for None, an empty string."""
    return "" if value is None else str(value).lower()


def utf8(value: Any) -> Any:
    """Return a value, with text that UTF-8 cannot encode replaced by backslash escapes."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def header_of(file: Path) -> list[str]:
    return _column_names(_csv_lines(file))


def rows_of(file: Path, columns: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the location and the values of `columns` for each line that is not empty.

    The header must have these columns in any order and case, and may have others.
    """
    lines, names = _csv_lines(file), " and ".join(columns)
    header = _column_names(lines)
    if any(header.count(name) != 1 for name in columns):
        given, expected = shortened(",".join(header)), f"the columns {names}, once each"
        raise FileError(f"the header is {given!r}", expected=expected, where=f"{file}, line 1")
    places = [header.index(name) for name in columns]
    for where, row in lines:
        if not any(value.strip() for value in row):
            continue
        if len(row) <= max(places):
            given = f"{shortened(','.join(row))!r} lacks a value for {names}"
            raise FileError(given, where=where)
        yield where, tuple(row[place].strip() for place in places)


def _csv_lines(file: Path) -> Iterator[tuple[str, list[str]]]:
    check_text(file, "a CSV file")
    try:
        with (
            system_errors(f"{file} cannot be read"),
            open(file, newline="", encoding="utf-8-sig") as text,
        ):
            reader = csv.reader(text, skipinitialspace=True)
            for row in reader:
                yield f"{file}, line {reader.line_num}", row
    except UnicodeDecodeError:
        raise FileError(f"{file} is not UTF-8 text", expected="a CSV file") from None
    except csv.Error as error:
        raise FileError(f"{file} cannot be read as CSV: {error}") from None


def _column_names(lines: Iterator[tuple[str, list[str]]]) -> list[str]:
    _, header = next(lines, ("", []))
    return [name.strip().lower() for name in header]
