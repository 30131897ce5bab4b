"""The store: one SQLite file for each shard of a study.

    about    what the study was begun with: its text, versions, models, the shard's place
    images   content hash, label and name, in the order of the study
    batches  the labels of every model batch, committed before the attacks hear them
    results  how each finished cell ended: what a table wants
    traces   its counts, improvements and steps; the adversarial image if it is kept
    alarms   of each finished cell that was watched: how many, and when the first came
    restarts cells that were begun anew: their earlier batches do not count
    times    the seconds that each series took, all runs of the study together; a store that an
             older tollbox made has no such table, and does not get one

1. A file of another kind or schema, or one cut short, is reported as such and never written to.
2. One process writes to a shard; a lock beside it, which ends with the process, keeps others out.
3. Readers need no lock, and may read while it is written.
4. What the disk refuses is reported in one sentence; all that was committed stays.
5. What is read is checked: a value that no run can have is reported with the file, and not used.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.detector import FirstAlarm
from ...core.result import Result
from ...core.stop import Stop
from ...engine.journal import Answered
from ...errors import FileError
from . import codec
from .codec import End, Trace
from .connection import (
    StoreError,
    check_length,
    connect,
    damaged,
    journal_of,
    lock,
    making,
    reading,
    set_journal,
)
from .record import StudyRecord

if TYPE_CHECKING:
    from torch import Tensor

APPLICATION = 0x70011B0C
SCHEMA = 1
TABLES = """
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE images (place INTEGER PRIMARY KEY, content TEXT NOT NULL, label INTEGER NOT NULL,
    name TEXT NOT NULL);
CREATE TABLE batches (id INTEGER PRIMARY KEY, content BLOB NOT NULL);
CREATE TABLE results (cell INTEGER PRIMARY KEY, seed INTEGER NOT NULL, stop TEXT NOT NULL,
    reason TEXT NOT NULL, warnings TEXT NOT NULL, distance REAL NOT NULL, cost REAL NOT NULL,
    queries INTEGER NOT NULL, source INTEGER NOT NULL);
CREATE TABLE traces (cell INTEGER PRIMARY KEY, trace BLOB NOT NULL, image BLOB);
CREATE TABLE alarms (cell INTEGER PRIMARY KEY, alarms INTEGER NOT NULL, queries INTEGER,
    flagged INTEGER);
CREATE TABLE restarts (cell INTEGER PRIMARY KEY, batch INTEGER NOT NULL, why TEXT NOT NULL);
CREATE TABLE times (series INTEGER PRIMARY KEY, seconds REAL NOT NULL);
"""
RESULT_COLUMNS = "cell, seed, stop, reason, warnings, distance, cost, queries, source"
TRACED = "EXISTS (SELECT 1 FROM traces WHERE traces.cell = results.cell)"


class Store:
    """One shard's file, open."""

    def __init__(self, path: Path, connection: sqlite3.Connection, handle: int | None) -> None:
        """`handle` is that of its lock, if it may be written."""
        self.path, self._connection, self._lock = path, connection, handle
        self.study: StudyRecord

    @classmethod
    def create(
        cls, path: Path, study: StudyRecord, images: Iterable[tuple[int, str, int, str]]
    ) -> None:
        """Make a new shard file, and close it."""
        with making(path), contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA application_id={APPLICATION}")
            connection.execute(f"PRAGMA user_version={SCHEMA}")
            with connection:
                for statement in TABLES.split(";"):
                    connection.execute(statement)
                _write_about(connection, study)
                connection.executemany("INSERT INTO images VALUES (?, ?, ?, ?)", images)

    @classmethod
    def open(cls, path: Path, write: bool) -> Store:
        """Open a shard file; to write, only if no other process does."""
        if not path.is_file():
            raise FileError(f"{path} does not exist", expected="a study's file")
        handle = lock(path) if write else None
        with contextlib.ExitStack() as undo:
            if handle is not None:
                undo.callback(os.close, handle)
            with reading(path):
                connection = connect(path, write)
                undo.callback(connection.close)
                store = cls(path, connection, handle)
                store._check(write)
            undo.pop_all()
            return store

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it; the lock goes too."""
        if self._lock is not None:
            with contextlib.suppress(sqlite3.Error):  # leaves one file, unless someone is reading
                self._connection.execute("PRAGMA journal_mode=DELETE")
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _check(self, write: bool) -> None:
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
        rows = self._connection.execute("SELECT key, value FROM about")
        self.study = StudyRecord.from_json({key: json.loads(value) for key, value in rows})
        if write:
            set_journal(self._connection, journal_of(self.path.parent))

    # -- writing ----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._connection:
                yield self._connection
        except sqlite3.Error as error:
            raise StoreError(
                f"{self.path} cannot be written: {error}. All that was recorded before is safe: "
                "make room, or put right what is wrong, and go on with `tollbox resume`."
            ) from None

    def record(self, content: bytes) -> None:
        """Commit the labels of a batch (`codec.pack_answers`)."""
        with self._writing() as connection:
            connection.execute("INSERT INTO batches (content) VALUES (?)", (content,))

    def save(self, cell: int, result: Result) -> None:
        """Commit how a cell ended, with its image if the result has it."""
        ledger = result.ledger
        row = (
            cell,
            result.seed,
            result.stop.value,
            result.reason,
            json.dumps(result.warnings),
            result.distance,
            ledger.cost,
            ledger.queries,
            ledger.flagged,
        )
        picture = codec.pack_image(result.adversarial)
        with self._writing() as connection:
            marks = ", ".join("?" * len(row))
            connection.execute(
                f"INSERT OR REPLACE INTO results ({RESULT_COLUMNS}) VALUES ({marks})", row
            )
            connection.execute(
                "INSERT OR REPLACE INTO traces VALUES (?, ?, ?)",
                (cell, codec.pack_trace(result), picture),
            )
            if result.detection is not None:
                first = result.first_alarm or (None, None)
                alarms = (cell, ledger.alarms, *first)
                connection.execute("INSERT OR REPLACE INTO alarms VALUES (?, ?, ?, ?)", alarms)

    def forget(self, cells: Iterable[int]) -> None:
        """Drop the results of cells, so that they are run again; their labels stay."""
        with self._writing() as connection:
            watched = ("alarms",) if self.study.watch is not None else ()
            for table in ("results", "traces", *watched):
                connection.executemany(
                    f"DELETE FROM {table} WHERE cell = ?", [(cell,) for cell in cells]
                )

    def restart(self, cell: int, why: str) -> None:
        """Begin a cell anew: what was recorded of it so far does not count."""
        with self._writing() as connection:
            (last,) = connection.execute("SELECT COALESCE(MAX(id), 0) FROM batches").fetchone()
            row = (cell, last, why)
            connection.execute("INSERT OR REPLACE INTO restarts VALUES (?, ?, ?)", row)

    def add_seconds(self, seconds: Mapping[int, float]) -> None:
        """Commit what series took beyond what is there, if the store keeps times."""
        if seconds and self._keeps_times:
            with self._writing() as connection:
                connection.executemany(
                    "INSERT INTO times VALUES (?, ?) ON CONFLICT (series) "
                    "DO UPDATE SET seconds = seconds + excluded.seconds",
                    seconds.items(),
                )

    @property
    def _keeps_times(self) -> bool:
        named = "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = 'times'"
        return bool(self._connection.execute(named).fetchone()[0])

    def copy_to(self, path: Path, study: StudyRecord) -> None:
        """Write all that is in it, as far as it is committed, into a new file, which says `study`
        about itself."""
        with making(path), contextlib.closing(sqlite3.connect(path)) as copy:
            self._connection.backup(copy)
            with copy:
                copy.execute("DELETE FROM about")
                _write_about(copy, study)

    # -- reading ----------------------------------------------------------------------------------

    def check_whole(self) -> None:
        """Raise FileError if anything in it is damaged: every page, result, trace and batch is
        read."""
        with reading(self.path):
            (found,) = self._connection.execute("PRAGMA quick_check(1)").fetchone()
            if found != "ok":
                raise damaged(self.path, found)
            finished = {end.cell for end in self.results()}
            for _, trace, _ in self.traces():
                _ = trace.counts, trace.steps
            self.answers(finished | set(self.study.shard_cells))
            self.seconds()

    def images(self) -> list[tuple[str, int, str]]:
        """Content hash, label and name of each image."""
        with reading(self.path):
            return list(
                self._connection.execute("SELECT content, label, name FROM images ORDER BY place")
            )

    def results(self) -> list[End]:
        """How each finished cell ended."""
        with reading(self.path):
            ends, alarms = [], self._alarms()
            for *row, traced in self._connection.execute(
                f"SELECT {RESULT_COLUMNS}, {TRACED} FROM results ORDER BY cell"
            ):
                end = _end(row, alarms.get(row[0]))
                fault = self._cell_fault(end.cell) or end.fault
                if fault is not None or not traced:
                    raise damaged(self.path, f"cell {end.cell} {fault or 'has no trace'}")
                ends.append(end)
            return ends

    def seconds(self) -> dict[int, float] | None:
        """What each series took so far; None if the store does not keep times."""
        with reading(self.path):
            if not self._keeps_times:
                return None
            found = dict(self._connection.execute("SELECT series, seconds FROM times"))
            for series, seconds in found.items():
                if not (0 <= series < len(self.study.series) and 0 <= seconds < math.inf):
                    raise damaged(self.path, f"series {series} took {seconds} seconds")
            return found

    def _alarms(self) -> dict[int, tuple[int, int | None, int | None]]:
        """By cell, how many alarms there were, and the first; of a study that is watched."""
        if self.study.watch is None:
            return {}
        rows = self._connection.execute("SELECT cell, alarms, queries, flagged FROM alarms")
        return {cell: row for cell, *row in rows}

    def traces(self, images: bool = False) -> Iterator[tuple[int, Trace, bytes | None]]:
        """(cell, trace, packed image) of each finished cell, one after another."""
        column = "image" if images else "NULL"
        with reading(self.path):
            for cell, trace, image in self._connection.execute(
                f"SELECT cell, trace, {column} FROM traces ORDER BY cell"
            ):
                fault = self._cell_fault(cell)
                if fault is not None:
                    raise damaged(self.path, f"cell {cell} {fault}")
                yield cell, Trace(trace, self.path), image

    def kept_image(self, cell: int) -> Tensor | None:
        """The image that was kept of a finished cell, if one was."""
        with reading(self.path):
            query = "SELECT image FROM traces WHERE cell = ?"
            row = self._connection.execute(query, (cell,)).fetchone()
            return None if row is None else codec.unpack_image(row[0])

    def _cell_fault(self, cell: int) -> str | None:
        cells = len(self.study.series) * self.study.width
        return None if 0 <= cell < cells else f"is not one of the {cells} of the study"

    def answers(self, cells: set[int]) -> dict[int, list[Answered]]:
        """All that was recorded of cells, in order, since each was last begun anew."""
        with reading(self.path):
            restarts = dict(self._connection.execute("SELECT cell, batch FROM restarts"))
            answers: dict[int, list[Answered]] = {}
            numbers = np.array(sorted(cells), np.int64)
            for batch, content in self._connection.execute(
                "SELECT id, content FROM batches ORDER BY id"
            ):
                for answered in codec.unpack_answers(content, numbers):
                    if batch > restarts.get(answered.cell, 0):
                        answers.setdefault(answered.cell, []).append(answered)
            return answers


def _write_about(connection: sqlite3.Connection, study: StudyRecord) -> None:
    connection.executemany(
        "INSERT INTO about VALUES (?, ?)",
        [(key, json.dumps(value)) for key, value in study.to_json().items()],
    )


def _end(row: Sequence[Any], alarms: Sequence[Any] | None) -> End:
    cell, seed, stop, reason, warnings, distance, cost, queries, source = row
    count, *first = alarms or (0, None, None)
    when = None if None in first else FirstAlarm(*first)
    told, spent = tuple(json.loads(warnings)), (cost, queries, source, count, when)
    return End(cell, seed, Stop(stop), reason, told, distance, *spent)
