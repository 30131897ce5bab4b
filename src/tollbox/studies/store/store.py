"""The stores of a study: its folder has one SQLite file for each shard.

    about    the record of the study: its text, versions, fingerprint, the number of the shard
    images   content hash, label and name, in the order of the study
    batches  the labels of every model batch, committed before the attacks receive them
    results  the outcome of each finished cell, its trace, and its adversarial image if it is kept
    restarts cells that were restarted: their earlier batches do not count
    times    the seconds that each series took, over all runs of the study

1. A file of another kind or version, or one cut short, is reported as such and never written to.
2. One process writes to a shard; others may read it at any time (`connection.py`).
3. A value that no run can have is reported with its file and not used.
4. A folder is used only if each file holds the shard in its name, and all belong to one study.
"""

from __future__ import annotations

import json
import math
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.detector import FirstAlarm
from ...core.result import Result
from ...core.stop import Stop
from ...data.tables import kind_of
from ...engine.journal import Answered
from ...errors import FileError
from . import codec
from .codec import End, Trace
from .connection import (
    TO_CREATE,
    WAL,
    check_length,
    connect,
    damaged,
    journal_of,
    lock,
    reading,
    writing,
)
from .record import StudyRecord, from_json

if TYPE_CHECKING:
    from torch import Tensor

PATTERN = re.compile(r"shard-(\d+)\.sqlite")
MADE_BY_RUN = "a folder that `tollbox run` or `tollbox audit` made"
RESTORE = "restore it, or start again in another folder"
APPLICATION = 0x70011B0C
SCHEMA = 3
TABLES = """
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE images (place INTEGER PRIMARY KEY, content TEXT NOT NULL, label INTEGER NOT NULL,
    name TEXT NOT NULL);
CREATE TABLE batches (id INTEGER PRIMARY KEY, content BLOB NOT NULL);
CREATE TABLE results (cell INTEGER PRIMARY KEY, seed INTEGER NOT NULL, stop TEXT NOT NULL,
    reason TEXT NOT NULL, warnings TEXT NOT NULL, distance REAL NOT NULL, cost REAL NOT NULL,
    queries INTEGER NOT NULL, flagged INTEGER NOT NULL, alarms INTEGER NOT NULL,
    first_alarm_queries INTEGER, first_alarm_flagged INTEGER,
    account BLOB NOT NULL, steps BLOB NOT NULL, image BLOB);
CREATE TABLE restarts (cell INTEGER PRIMARY KEY, batch INTEGER NOT NULL, why TEXT NOT NULL);
CREATE TABLE times (series INTEGER PRIMARY KEY, seconds REAL NOT NULL);
"""
END = (
    "cell, seed, stop, reason, warnings, distance, cost, queries, flagged, alarms, "
    "first_alarm_queries, first_alarm_flagged"
)
"""Columns of a result that make up an `End`."""


class Store:
    """The open file of one shard. Use it as a context manager, or `close` it."""

    def __init__(self, path: Path, write: bool) -> None:
        """Open the file; with `write`, only if no other process writes to it."""
        if not path.is_file():
            raise FileError(
                f"{path} does not exist", expected="the file of a study", remedy=RESTORE
            )
        self.path = path
        with ExitStack() as opened:
            if write:
                opened.callback(os.close, lock(path))
            with reading(path):
                self._connection = connect(path, write)
                opened.callback(self._connection.close)
                self._check()
                rows = self._connection.execute("SELECT key, value FROM about")
                about = {key: json.loads(value) for key, value in rows}
                self.study: StudyRecord = from_json(StudyRecord, about)
                if write:
                    log = journal_of(path.parent) == WAL
                    self._connection.execute(f"PRAGMA journal_mode={'WAL' if log else 'TRUNCATE'}")
                    self._connection.execute(f"PRAGMA synchronous={'NORMAL' if log else 'FULL'}")
                    # leaves one file, unless someone is reading
                    opened.callback(self._connection.execute, "PRAGMA journal_mode=DELETE")
            self._opened = opened.pop_all()

    def _check(self) -> None:
        """Raise FileError unless the file is a complete store of this version."""
        (kind,) = self._connection.execute("PRAGMA application_id").fetchone()
        if kind != APPLICATION:
            raise FileError(f"{self.path} is not a study's", expected="a file that tollbox made")
        (schema,) = self._connection.execute("PRAGMA user_version").fetchone()
        if schema != SCHEMA:
            age = "a newer" if schema > SCHEMA else "an older"
            raise FileError(
                f"{self.path} has schema {schema}",
                expected=f"{SCHEMA}",
                remedy=f"it was made by {age} tollbox, use that one",
            )
        check_length(self.path, self._connection)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self._opened.close()

    @staticmethod
    def create(path: Path, study: StudyRecord, images: Iterable[tuple[int, str, int, str]]) -> None:
        """Write the file of a new shard, and close it."""
        with writing(path, TO_CREATE), closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA application_id={APPLICATION}")
            connection.execute(f"PRAGMA user_version={SCHEMA}")
            with connection:
                for statement in TABLES.split(";"):
                    connection.execute(statement)
                _write_about(connection, study)
                connection.executemany("INSERT INTO images VALUES (?, ?, ?, ?)", images)

    def _commit(self, statement: str, *rows: Sequence[Any]) -> None:
        """Execute a statement for each row, in one transaction."""
        with writing(self.path), self._connection:
            self._connection.executemany(statement, rows)

    def record(self, content: bytes) -> None:
        """Commit the labels of a batch (`codec.pack_answers`)."""
        self._commit("INSERT INTO batches (content) VALUES (?)", (content,))

    def save(self, cell: int, result: Result) -> None:
        """Commit the result of a cell, with its adversarial image if the result has it."""
        ledger, first = result.ledger, result.first_alarm or (None, None)
        row = (
            *(cell, result.seed, result.stop.value, result.reason, json.dumps(result.warnings)),
            *(result.distance, ledger.cost, ledger.queries, ledger.flagged, ledger.alarms, *first),
            *(*codec.pack_trace(result), codec.pack_image(result.adversarial)),
        )
        marks = ", ".join("?" * len(row))
        self._commit(f"INSERT OR REPLACE INTO results VALUES ({marks})", row)

    def forget(self, cells: Iterable[int]) -> None:
        """Delete the results of cells, so that they are run again; their labels stay."""
        self._commit("DELETE FROM results WHERE cell = ?", *((cell,) for cell in cells))

    def restart(self, cell: int, why: str) -> None:
        """Mark a cell as restarted: its recorded labels no longer count."""
        last = "SELECT ?, COALESCE(MAX(id), 0), ? FROM batches"
        self._commit(f"INSERT OR REPLACE INTO restarts {last}", (cell, why))

    def add_seconds(self, seconds: Mapping[int, float]) -> None:
        """Add the time that series took to the recorded time."""
        add = "ON CONFLICT (series) DO UPDATE SET seconds = seconds + excluded.seconds"
        self._commit(f"INSERT INTO times VALUES (?, ?) {add}", *seconds.items())

    def copy_to(self, path: Path, study: StudyRecord) -> None:
        """Copy everything committed into a new file, with `study` as its record."""
        with writing(path, TO_CREATE), closing(sqlite3.connect(path)) as copy:
            self._connection.backup(copy)
            with copy:
                copy.execute("DELETE FROM about")
                _write_about(copy, study)

    def check_whole(self) -> None:
        """Read every page, result, trace and batch; raise FileError if one is damaged."""
        with reading(self.path):
            (found,) = self._connection.execute("PRAGMA quick_check(1)").fetchone()
            if found != "ok":
                raise damaged(self.path, found)
            finished = {end.cell for end, _ in self.runs(steps=True)}
            self.answers(finished | set(self.study.shard_cells))
            self.seconds()

    def images(self) -> list[tuple[str, int, str]]:
        """Return the content hash, label and name of each image."""
        query = "SELECT content, label, name FROM images ORDER BY place"
        with reading(self.path):
            return list(self._connection.execute(query))

    def results(self) -> list[End]:
        """Return the outcome of each finished cell."""
        with reading(self.path):
            rows = self._connection.execute(f"SELECT {END} FROM results ORDER BY cell")
            return [self._end(*row) for row in rows]

    def runs(self, steps: bool = False) -> Iterator[tuple[End, Trace]]:
        """Yield the outcome and the trace of each finished cell; `steps` adds the steps."""
        columns = f"{END}, account, {'steps' if steps else 'NULL'}"
        with reading(self.path):
            rows = self._connection.execute(f"SELECT {columns} FROM results ORDER BY cell")
            for *end, account, packed in rows:
                yield self._end(*end), codec.unpack_trace(account, packed)

    def _end(self, cell: int, seed: int, stop: str, reason: str, warnings: str, *rest: Any) -> End:
        cells = len(self.study.series) * self.study.width
        if not 0 <= cell < cells:
            raise damaged(self.path, f"cell {cell} is not one of the {cells} of the study")
        *account, queries, flagged = rest
        first = None if queries is None else FirstAlarm(queries, flagged)
        said = tuple(json.loads(warnings))
        end = End._make([cell, seed, Stop(stop), reason, said, *account, first])
        if end.fault is not None:
            raise damaged(self.path, f"cell {cell} {end.fault}")
        return end

    def seconds(self) -> dict[int, float]:
        """Return the time that each series took so far."""
        with reading(self.path):
            found = dict(self._connection.execute("SELECT series, seconds FROM times"))
            for series, seconds in found.items():
                if not (0 <= series < len(self.study.series) and 0 <= seconds < math.inf):
                    raise damaged(self.path, f"series {series} took {seconds} seconds")
            return found

    def kept_image(self, cell: int) -> Tensor | None:
        """Return the adversarial image of a finished cell, if it was kept."""
        with reading(self.path):
            query = "SELECT image FROM results WHERE cell = ?"
            row = self._connection.execute(query, (cell,)).fetchone()
            return None if row is None else codec.unpack_image(row[0])

    def answers(self, cells: set[int]) -> dict[int, list[Answered]]:
        """Return all recorded answers of cells, in order, since each cell was last restarted."""
        answers: dict[int, list[Answered]] = {}
        numbers = np.array(sorted(cells), np.int64)
        with reading(self.path):
            restarts = dict(self._connection.execute("SELECT cell, batch FROM restarts"))
            batches = self._connection.execute("SELECT id, content FROM batches ORDER BY id")
            for batch, content in batches:
                for answered in codec.unpack_answers(content, numbers):
                    if batch > restarts.get(answered.cell, 0):
                        answers.setdefault(answered.cell, []).append(answered)
        return answers


def _write_about(connection: sqlite3.Connection, study: StudyRecord) -> None:
    connection.executemany(
        "INSERT INTO about VALUES (?, ?)",
        [(key, json.dumps(value)) for key, value in study.to_json().items()],
    )


def shard_path(folder: Path, number: int) -> Path:
    return folder / f"shard-{number}.sqlite"


def read_record(folder: Path) -> StudyRecord | None:
    """Return the record in a folder's first shard; None if the folder has no study."""
    try:
        found = [PATTERN.fullmatch(name) for name in os.listdir(folder)]
    except (FileNotFoundError, NotADirectoryError, ValueError):  # a NUL in the name
        return None
    except OSError as error:
        raise FileError(f"{folder} cannot be read: {error.strerror}") from None
    numbers = [int(match[1]) for match in found if match is not None]
    if not numbers:
        return None
    with Store(shard_path(folder, min(numbers)), write=False) as store:
        return store.study


def open_shards(folder: Path, opened: ExitStack) -> list[Store]:
    """Open all shards of a folder for reading and check them; `opened` closes them."""
    if kind_of(folder, str(folder)) != "folder":
        raise FileError(f"{folder} is not a folder", expected=MADE_BY_RUN)
    record = read_record(folder)
    if record is None:
        raise FileError(f"{folder} has no study", expected=MADE_BY_RUN)
    stores = []
    for number in record.folder_shards:
        stores.append(opened.enter_context(Store(shard_path(folder, number), write=False)))
        if stores[-1].study.shard != number:
            raise FileError(
                f"{stores[-1].path} holds shard {stores[-1].study.shard} of a study",
                expected=f"shard {number}",
                remedy=RESTORE,
            )
    contents = [(store.study.of_study, store.images()) for store in stores]
    for store, content in zip(stores, contents, strict=True):
        if content != contents[0]:
            first = stores[0].path.name
            raise FileError(f"{store.path} is of another study than {first}", remedy=RESTORE)
    return stores
