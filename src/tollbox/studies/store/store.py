"""The store: one SQLite file (WAL) for each shard of a study.

    about    what the study was begun with: its text, versions, models, the shard's place
    images   content hash, label and name, in the order of the study
    batches  the labels of every model batch, committed before the attacks hear them
    results  how each finished cell ended: what a table wants
    traces   its counts, improvements and steps; the adversarial image if it is kept
    restarts cells that were begun anew: their earlier batches do not count

1. A file of another kind, of another schema, or cut short is told as such, and never written to.
2. One process writes to a shard; a lock beside it, which ends with the process, keeps others out.
3. Readers need no lock, and may read while it is written.
4. What the disk refuses is told in one sentence; all that was committed stays.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import sqlite3
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...core.result import Result
from ...engine.journal import Answered
from ...errors import FileError, TollboxError
from . import codec as records

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
CREATE TABLE restarts (cell INTEGER PRIMARY KEY, batch INTEGER NOT NULL, why TEXT NOT NULL);
"""
NO_ROOM = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_SHMSIZE,
    sqlite3.SQLITE_IOERR_SHMMAP,
)
"""What SQLite says on a full disk."""
RESULT = "cell, seed, stop, reason, warnings, distance, cost, queries, source"


class End(NamedTuple):
    """How a finished cell ended."""

    cell: int
    seed: int
    stop: str
    reason: str
    warnings: tuple[str, ...]
    distance: float
    cost: float
    queries: int
    source: int


class StoreError(TollboxError):
    """The store could not be written; what was committed before is safe."""


class Store:
    """One shard's file, open."""

    def __init__(self, path: Path, connection: sqlite3.Connection, lock: int | None) -> None:
        self.path, self._connection, self._lock = path, connection, lock
        self.about: dict[str, Any] = {}

    @classmethod
    def create(
        cls, path: Path, about: dict[str, Any], images: Iterable[tuple[int, str, int, str]]
    ) -> None:
        """Make a new shard file, and close it."""
        with _making(path), contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA application_id={APPLICATION}")
            connection.execute(f"PRAGMA user_version={SCHEMA}")
            with connection:
                for statement in TABLES.split(";"):
                    connection.execute(statement)
                connection.executemany(
                    "INSERT INTO about VALUES (?, ?)",
                    [(key, json.dumps(value)) for key, value in about.items()],
                )
                connection.executemany("INSERT INTO images VALUES (?, ?, ?, ?)", images)

    @classmethod
    def open(cls, path: Path, write: bool) -> Store:
        """Open a shard file; to write, only if no other process does."""
        if not path.is_file():
            raise FileError(f"{path} does not exist: expected a study's file.")
        lock = _locked(path) if write else None
        with contextlib.ExitStack() as undo:
            if lock is not None:
                undo.callback(os.close, lock)
            with _reading(path):
                connection = _connected(path, write)
                undo.callback(connection.close)
                store = cls(path, connection, lock)
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
            raise FileError(f"{self.path} is not a study's: expected a file that tollbox made.")
        (schema,) = self._connection.execute("PRAGMA user_version").fetchone()
        if schema != SCHEMA:
            raise FileError(
                f"{self.path} has schema {schema}: expected {SCHEMA}; it was made by "
                f"{'a newer' if schema > SCHEMA else 'an older'} tollbox, use that one."
            )
        _check_length(self.path, self._connection)
        if write:
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
        self.about = {
            key: json.loads(value)
            for key, value in self._connection.execute("SELECT key, value FROM about")
        }

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

    def record(self, answers: Sequence[Answered]) -> None:
        """Commit the labels of a batch."""
        with self._writing() as connection:
            connection.execute(
                "INSERT INTO batches (content) VALUES (?)", (records.packed(answers),)
            )

    def save(self, cell: int, result: Result, image: bool) -> None:
        """Commit how a cell ended."""
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
            ledger.source,
        )
        picture = records.packed_image(result.adversarial) if image else None
        with self._writing() as connection:
            marks = ", ".join("?" * len(row))
            connection.execute(f"INSERT OR REPLACE INTO results ({RESULT}) VALUES ({marks})", row)
            connection.execute(
                "INSERT OR REPLACE INTO traces VALUES (?, ?, ?)",
                (cell, records.packed_trace(result), picture),
            )

    def forget(self, cells: Iterable[int]) -> None:
        """Drop the results of cells, so that they are run again; their labels stay."""
        with self._writing() as connection:
            for table in ("results", "traces"):
                connection.executemany(
                    f"DELETE FROM {table} WHERE cell = ?", [(cell,) for cell in cells]
                )

    def restart(self, cell: int, why: str) -> None:
        """Begin a cell anew: what was recorded of it so far does not count."""
        with self._writing() as connection:
            (last,) = connection.execute("SELECT COALESCE(MAX(id), 0) FROM batches").fetchone()
            row = (cell, last, why)
            connection.execute("INSERT OR REPLACE INTO restarts VALUES (?, ?, ?)", row)

    # -- reading ----------------------------------------------------------------------------------

    def images(self) -> list[tuple[str, int, str]]:
        """Content hash, label and name of each image."""
        with _reading(self.path):
            return list(
                self._connection.execute("SELECT content, label, name FROM images ORDER BY place")
            )

    def results(self) -> list[End]:
        """How each finished cell ended."""
        with _reading(self.path):
            rows = self._connection.execute(f"SELECT {RESULT} FROM results ORDER BY cell")
            return [End._make((*row[:4], tuple(json.loads(row[4])), *row[5:])) for row in rows]

    def traces(self, images: bool = False) -> Iterator[tuple[int, bytes, bytes | None]]:
        """(cell, trace, image) of each finished cell, one after another."""
        column = "image" if images else "NULL"
        with _reading(self.path):
            yield from self._connection.execute(
                f"SELECT cell, trace, {column} FROM traces ORDER BY cell"
            )

    def answers(self, wanted: set[int]) -> dict[int, list[Answered]]:
        """All that was recorded of cells, in order, since each was last begun anew."""
        with _reading(self.path):
            restarts = dict(self._connection.execute("SELECT cell, batch FROM restarts"))
            found: dict[int, list[Answered]] = {}
            cells = np.array(sorted(wanted), np.int64)
            for number, content in self._connection.execute(
                "SELECT id, content FROM batches ORDER BY id"
            ):
                for answered in records.unpacked(content, cells):
                    if number > restarts.get(answered.cell, 0):
                        found.setdefault(answered.cell, []).append(answered)
            return found


@contextlib.contextmanager
def _making(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(
            f"{path} cannot be written: {error}. Make room, or choose another folder."
        ) from None


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.DatabaseError as error:
        if _no_room(error):
            raise _full(path, str(error)) from None
        raise FileError(
            f"{path} cannot be used: {error}. Expected a study's file, whole: bring back a copy, "
            "or begin anew in another folder."
        ) from None
    except (zlib.error, struct.error, json.JSONDecodeError) as error:
        raise FileError(
            f"{path} is damaged ({error}): bring back a whole copy, or begin anew in another "
            "folder."
        ) from None


def _no_room(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", None) in NO_ROOM


def _full(path: Path, error: str) -> StoreError:
    return StoreError(
        f"{path} cannot be written: {error}. All that was recorded is safe: make room, and go on "
        "with `tollbox resume`."
    )


def _check_length(path: Path, connection: sqlite3.Connection) -> None:
    """Raise FileError if the file is shorter than it says. (It is not opened for this: to close it
    would end the locks of any other connection of this process.)"""
    beside = path.with_name(path.name + "-wal")
    if beside.exists() and beside.stat().st_size:
        return  # what is missing may be there
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (page,) = connection.execute("PRAGMA page_size").fetchone()
    size = path.stat().st_size
    if size < pages * page:
        raise FileError(
            f"{path} has been cut short ({size} of {pages * page} bytes): bring back a whole copy, "
            "or begin anew in another folder."
        )


def _connected(path: Path, write: bool) -> sqlite3.Connection:
    address = path.absolute().as_uri()
    if write:
        connection = sqlite3.connect(f"{address}?mode=rw", uri=True, timeout=30)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.rollback()
        except sqlite3.DatabaseError as error:
            connection.close()
            if _no_room(error) or not isinstance(error, sqlite3.OperationalError):
                raise
            raise FileError(
                f"{path} cannot be written: {error}. Make it and its folder writable."
            ) from None
        return connection
    connection = sqlite3.connect(f"{address}?mode=ro", uri=True, timeout=30)
    try:
        connection.execute("SELECT COUNT(*) FROM about").fetchone()
    except sqlite3.DatabaseError as error:
        connection.close()
        if not isinstance(error, sqlite3.OperationalError):
            raise
        # A folder that cannot be written, where no one writes.
        connection = sqlite3.connect(f"{address}?immutable=1", uri=True)
    return connection


def _locked(path: Path) -> int:
    lock = path.with_suffix(".lock")
    try:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _full(path, error.strerror or str(error)) from None
        raise FileError(
            f"{path.parent} cannot be written: {error.strerror}. Make it writable to go on."
        ) from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.read(handle, 100).decode(errors="replace").strip()
        os.close(handle)
        raise FileError(
            f"{path.parent} is in use by another process ({holder or 'unknown'}): wait until it "
            "ends, or end it."
        ) from None
    with contextlib.suppress(OSError):  # a full disk: it is locked all the same
        os.ftruncate(handle, 0)
        os.write(handle, f"process {os.getpid()}\n".encode())
    return handle
