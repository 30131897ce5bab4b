"""Files that a user gives: what is at a path, and CSV files with a header.

1. Whatever the system refuses (no permission, a name too long) is a FileError that names the file.
2. What is wrong in a CSV file is reported with the file and the line.
3. In a CSV file that is written, no name is a formula (`plain_text`).
"""

from __future__ import annotations

import csv
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from ..core.validation import shown
from ..errors import FileError, InputError

LARGEST = 2**63 - 1
"""The largest class that can be told apart."""
Format = Literal["csv", "parquet"]
"""That tables are written in."""
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes for the beginning of a formula."""


def kind_of(
    path: str | Path, subject: str, *, input: str = ""
) -> Literal["file", "folder", "other", "nothing"]:
    """What is at a path, links followed; if the system does not say, the error is of `subject`."""
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "nothing"
    except OSError as error:
        raise FileError(f"{subject} cannot be read: {error.strerror}", input=input) from None
    except ValueError:  # NUL, or what cannot be encoded
        name = subject.replace("\0", "\\x00")
        raise FileError(f"{name} is a name that no file can have", input=input) from None
    if stat.S_ISDIR(mode):
        return "folder"
    return "file" if stat.S_ISREG(mode) else "other"


def path_of(value: str | os.PathLike[str], name: str) -> Path:
    """The path that the argument `name` is."""
    if not isinstance(value, str | os.PathLike):
        raise InputError(f"is {shown(value)}", expected="a path", input=name)
    return Path(value)


def in_a_line(error: BaseException | str) -> str:
    """The line of an error that says most: the first; of TorchScript, whose cause is last, that."""
    text = (getattr(error, "strerror", None) or str(error)).strip().splitlines()
    if not text:
        return "no message" if isinstance(error, str) else type(error).__name__
    return text[-1 if "TorchScript interpreter" in text[0] else 0].strip().rstrip(".")


def shortened(text: str) -> str:
    """A text from a user, short enough for a message."""
    return text if len(text) <= 60 else f"{text[:40]}... ({len(text)} characters)"


def plain_text(value: Any) -> Any:
    """A value for a CSV file: text that a spreadsheet would take for a formula is marked as text,
    by an apostrophe before it; all else as it is."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def flag_text(value: bool | None) -> str:
    """true, false, or nothing, for a CSV file."""
    return "" if value is None else str(value).lower()


def utf8(value: Any) -> Any:
    """A value for a table that holds nothing but UTF-8, with backslashes for what it has not."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def header_of(file: Path) -> list[str]:
    """The columns of a CSV file, in small letters; none of an empty one, or if it cannot be read,
    which `rows_of` tells."""
    try:
        with open(file, newline="", encoding="utf-8-sig") as text:
            return [name.strip().lower() for name in next(csv.reader(text), [])]
    except (OSError, UnicodeDecodeError, csv.Error):
        return []


def rows_of(file: Path, columns: Sequence[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """(line number, the values of `columns`) of each line that is not empty.

    The first line is a header that has these columns, in any order and case, among any others.
    """
    try:
        with open(file, newline="", encoding="utf-8-sig") as text:
            yield from _rows(csv.reader(text, skipinitialspace=True), file, columns)
    except OSError as error:
        raise FileError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise FileError(f"{file} is not UTF-8 text", expected="a CSV file") from None
    except csv.Error as error:
        raise FileError(f"{file} cannot be read as CSV: {error}") from None


def _rows(
    reader: Iterator[list[str]], file: Path, columns: Sequence[str]
) -> Iterator[tuple[int, tuple[str, ...]]]:
    names = " and ".join(columns)
    header = [name.strip().lower() for name in next(reader, [])]
    if any(header.count(name) != 1 for name in columns):
        raise FileError(
            f"the header is {shortened(','.join(header))!r}",
            expected=f"the columns {names}, once each",
            where=f"{file}, line 1",
        )
    places = [header.index(name) for name in columns]
    for row in reader:
        line = getattr(reader, "line_num", 0)
        if not any(value.strip() for value in row):
            continue
        if len(row) <= max(places):
            raise FileError(
                f"{shortened(','.join(row))!r} lacks a value for {names}",
                where=f"{file}, line {line}",
            )
        yield line, tuple(row[place].strip() for place in places)
