"""CSV files that a user gives: a header, then lines; errors name the file and the line."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from .errors import FileError


def rows_of(file: Path, columns: Sequence[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """(line number, the values of `columns`) of each line that is not empty.

    The first line is a header that has these columns, in any order and case, among any others.
    """
    try:
        with open(file, newline="", encoding="utf-8-sig") as text:
            yield from _rows(csv.reader(text), file, columns)
    except OSError as error:
        raise FileError(f"{file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise FileError(f"{file} is not UTF-8 text: expected a CSV file.") from None
    except csv.Error as error:
        raise FileError(f"{file} cannot be read as CSV: {error}.") from None


def _rows(
    reader: Iterator[list[str]], file: Path, columns: Sequence[str]
) -> Iterator[tuple[int, tuple[str, ...]]]:
    wanted = " and ".join(columns)
    header = [name.strip().lower() for name in next(reader, [])]
    if any(header.count(name) != 1 for name in columns):
        raise FileError(
            f"{file}, line 1: the header is {','.join(header)!r}: expected the columns {wanted}, "
            "once each."
        )
    places = [header.index(name) for name in columns]
    for row in reader:
        line = getattr(reader, "line_num", 0)
        if not any(value.strip() for value in row):
            continue
        if len(row) <= max(places):
            raise FileError(f"{file}, line {line}: {','.join(row)!r} lacks a value for {wanted}.")
        yield line, tuple(row[place].strip() for place in places)
