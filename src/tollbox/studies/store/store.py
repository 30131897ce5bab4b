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
5. Every row has a checksum over the study, the shard, the table and its values, so that a row that
   was edited, or moved from another place, is noticed by whatever reads it. `account`, `steps` and
   `image` begin with checksums of their own, since they are read alone. A checksum protects against
   damage and careless editing; it is no signature.
6. Batches are numbered from 1 without a gap. A result knows the last batch before it, so that
   batches missing at the end are noticed as well.
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
from ...core.resolution import Found, Resolution
from ...core.result import Result
from ...core.stop import Stop
from ...data.tables import kind_of
from ...engine.journal import ALARMS, Answered, History
from ...errors import FileError
from . import codec
from .codec import End, Trace
from .connection import (
    TO_CREATE,
    WAL,
    check_length,
    check_regular,
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

PATTERN = re.compile(r"shard-(\d{1,9})\.sqlite")
MADE_BY_RUN = "a folder that `tollbox run` or `tollbox audit` made"
RESTORE = "restore it, or start again in another folder"
APPLICATION = 0x70011B0C
SCHEMA = 5
TABLES = """
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL, checksum BLOB NOT NULL);
CREATE TABLE images (place INTEGER PRIMARY KEY, content TEXT NOT NULL, label INTEGER NOT NULL,
    name TEXT NOT NULL, checksum BLOB NOT NULL);
CREATE TABLE batches (id INTEGER PRIMARY KEY, content BLOB NOT NULL, checksum BLOB NOT NULL);
CREATE TABLE results (cell INTEGER PRIMARY KEY, seed INTEGER NOT NULL, stop TEXT NOT NULL,
    reason TEXT NOT NULL, warnings TEXT NOT NULL, resolution TEXT NOT NULL,
    distance REAL NOT NULL, cost REAL NOT NULL, queries INTEGER NOT NULL,
    flagged INTEGER NOT NULL, alarms INTEGER NOT NULL, first_alarm_queries INTEGER,
    first_alarm_flagged INTEGER, batch INTEGER NOT NULL, has_image INTEGER NOT NULL,
    checksum BLOB NOT NULL, account BLOB NOT NULL, steps BLOB NOT NULL, image BLOB);
CREATE TABLE restarts (cell INTEGER PRIMARY KEY, batch INTEGER NOT NULL, why TEXT NOT NULL,
    checksum BLOB NOT NULL);
CREATE TABLE times (series INTEGER PRIMARY KEY, seconds REAL NOT NULL, checksum BLOB NOT NULL);
"""
STATEMENTS = [statement.strip() for statement in TABLES.split(";") if statement.strip()]
COLUMNS = {
    "about": "key, value",
    "images": "place, content, label, name",
    "batches": "id, content",
    "results": "cell, seed, stop, reason, warnings, resolution, distance, cost, queries, flagged, "
    "alarms, first_alarm_queries, first_alarm_flagged, batch, has_image",
    "restarts": "cell, batch, why",
    "times": "series, seconds",
}
"""Columns that a row's checksum covers; the first identifies the row."""


class Store:
    """The open file of one shard. Use it as a context manager, or `close` it."""

    def __init__(self, path: Path, write: bool) -> None:
        """Open the file; with `write`, only if no other process writes to it."""
        if not path.is_file():
            raise FileError(
                f"{path} does not exist", expected="the file of a study", remedy=RESTORE
            )
        check_regular(path)
        self.path, self._key = path, b""
        with ExitStack() as opened:
            if write:
                opened.callback(os.close, lock(path))
            with reading(path):
                self._connection = connect(path, write)
                opened.callback(self._connection.close)
                self._check()
                about = {key: json.loads(value) for key, value in self._rows("about")}
                self.study: StudyRecord = from_json(StudyRecord, about)
                self._key, self._images = study_key(self.study), from_json(int, about["images"])
                if self.study.fault is not None:
                    raise damaged(path, self.study.fault)
                last = "SELECT COALESCE(MAX(id), 0) FROM batches"
                (self._last_batch,) = self._connection.execute(last).fetchone()
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
        tables = self._connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
        if sorted(sql for (sql,) in tables) != sorted(STATEMENTS):
            raise damaged(self.path, "its tables are not those of a study")

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self._opened.close()

    @staticmethod
    def create(path: Path, study: StudyRecord, images: Sequence[tuple[int, str, int, str]]) -> None:
        """Write the file of a new shard, and close it."""
        with writing(path, TO_CREATE), closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA application_id={APPLICATION}")
            connection.execute(f"PRAGMA user_version={SCHEMA}")
            with connection:
                for statement in STATEMENTS:
                    connection.execute(statement)
                _write_about(connection, study, len(images))
                rows = [(*row, codec.checksum(study_key(study), "images", *row)) for row in images]
                connection.executemany("INSERT INTO images VALUES (?, ?, ?, ?, ?)", rows)

    def _rows(self, table: str, *blobs: str) -> Iterator[Sequence[Any]]:
        """Yield the verified rows of a table in order, each with the verified content of `blobs`,
        columns that the row's checksum does not cover."""
        columns = COLUMNS[table]
        query = f"SELECT {', '.join((columns, 'checksum', *blobs))} FROM {table} ORDER BY 1"
        count = columns.count(",") + 1
        with reading(self.path):
            for row in self._connection.execute(query):
                values = row[:count]
                if row[count] != codec.checksum(self._key, table, *values):
                    raise damaged(self.path, f"row {values[0]!r} of {table} was changed")
                contents = zip(blobs, row[count + 1 :], strict=True)
                yield [*values, *(self._opened_blob(values[0], *each) for each in contents)]

    def _opened_blob(self, cell: int, name: str, content: bytes | None) -> bytes | None:
        if content is None:
            return None
        if content[:8] != codec.checksum(self._key, name, cell, content[8:]):
            raise damaged(self.path, f"column {name} of cell {cell} was changed")
        return content[8:]

    def _write(self, table: str, *rows: Sequence[Any], **blobs: bytes | None) -> None:
        """Commit rows; `blobs` has the content of columns with their own checksums."""
        packed = [
            content and codec.checksum(self._key, name, rows[0][0], content) + content
            for name, content in blobs.items()
        ]
        full = [(*row, codec.checksum(self._key, table, *row), *packed) for row in rows]
        for row in full[:1]:
            how = "INSERT" if table == "batches" else "INSERT OR REPLACE"
            self._commit(f"{how} INTO {table} VALUES ({', '.join('?' * len(row))})", *full)

    def _commit(self, statement: str, *rows: Sequence[Any]) -> None:
        """Execute a statement for each row, in one transaction."""
        with writing(self.path), self._connection:
            self._connection.executemany(statement, rows)

    def record(self, content: bytes) -> None:
        """Commit the labels of a batch (`codec.pack_answers`)."""
        self._write("batches", (self._last_batch + 1, content))
        self._last_batch += 1

    def save(self, cell: int, result: Result) -> None:
        """Commit the result of a cell, with its adversarial image if the result has it."""
        ledger, first = result.ledger, result.first_alarm or (None, None)
        account, steps = codec.pack_trace(result)
        image = codec.pack_image(result.adversarial)
        row = (
            *(cell, result.seed, result.stop.value, result.reason),
            *(json.dumps(result.warnings), json.dumps(result.resolution)),
            *(float(result.distance), float(ledger.cost), ledger.queries, ledger.flagged),
            *(ledger.alarms, *first, self._last_batch, int(image is not None)),
        )
        self._write("results", row, account=account, steps=steps, image=image)

    def forget(self, cells: Iterable[int]) -> None:
        """Delete the results of cells, so that they are run again; their labels stay."""
        self._commit("DELETE FROM results WHERE cell = ?", *((cell,) for cell in cells))

    def restart(self, cell: int, why: str) -> None:
        """Mark a cell as restarted: its recorded labels no longer count."""
        self._write("restarts", (cell, self._last_batch, why))

    def add_seconds(self, seconds: Mapping[int, float]) -> None:
        """Add the time that series took to the recorded time."""
        before = self.seconds()
        rows = ((series, before.get(series, 0.0) + more) for series, more in seconds.items())
        self._write("times", *rows)

    def copy_to(self, path: Path, study: StudyRecord) -> None:
        """Copy everything committed into a new file, with `study` as its record."""
        with writing(path, TO_CREATE), closing(sqlite3.connect(path)) as copy:
            self._connection.backup(copy)
            with copy:
                copy.execute("DELETE FROM about")
                _write_about(copy, study, self._images)

    def check_whole(self) -> None:
        """Read every page, result, trace and batch; raise FileError if one is damaged."""
        with reading(self.path):
            (found,) = self._connection.execute("PRAGMA quick_check(1)").fetchone()
            if found != "ok":
                raise damaged(self.path, found)
            for _ in self.runs(steps=True):
                pass
            for _ in self._rows("results", "image"):
                pass
            self.answers(set(self.study.shard_cells))

    def check_rows(self) -> None:
        """Raise FileError if recorded answers or times were changed, or answers are missing."""
        number, _, _ = 0, self.seconds(), list(self._rows("restarts"))
        with reading(self.path):
            last = max((row[-2] for row in self._rows("results")), default=0)  # before the batches
            for number, (batch, _) in enumerate(self._rows("batches"), 1):
                if batch != number:
                    raise damaged(self.path, f"batch {number} is missing")
            if number < last:
                raise damaged(self.path, f"batch {last} is missing")

    def images(self) -> list[tuple[str, int, str]]:
        """Return the content hash, label and name of each image."""
        rows = list(self._rows("images"))
        if [place for place, *_ in rows] != list(range(self._images)):
            raise damaged(self.path, f"it has {len(rows)} of {self._images} images")
        if [[*map(type, row)] for row in rows] != [[int, str, int, str]] * len(rows):
            raise damaged(self.path, "an image has values of other types")
        return [(content, label, name) for _, content, label, name in rows]

    def results(self) -> list[End]:
        """Return the outcome of each finished cell."""
        with reading(self.path):
            return [self._end(*row) for row in self._rows("results")]

    def runs(self, steps: bool = False) -> Iterator[tuple[End, Trace]]:
        """Yield the outcome and the trace of each finished cell; `steps` adds the steps."""
        with reading(self.path):
            blobs = "account", "steps" if steps else "NULL"
            for *end, account, packed in self._rows("results", *blobs):
                yield self._end(*end), codec.unpack_trace(account, packed)

    def _end(self, cell: int, seed: int, stop: str, reason: str, *rest: Any) -> End:
        if cell not in self.study.shard_cells:
            raise damaged(self.path, f"cell {cell} is not one of its cells")
        warnings, resolution, *account, queries, flagged, _, _ = rest
        first = None if queries is None else FirstAlarm(queries, flagged)
        outcome, *radius = json.loads(resolution)
        said, found = tuple(json.loads(warnings)), Resolution(Found(outcome), *radius)
        end = End._make([cell, seed, Stop(stop), reason, said, found, *account, first])
        if end.fault is not None:
            raise damaged(self.path, f"cell {cell} {end.fault}")
        return end

    def seconds(self) -> dict[int, float]:
        """Return the time that each series took so far."""
        with reading(self.path):
            found: dict[int, float] = dict(map(tuple, self._rows("times")))
            for series, seconds in found.items():
                if not (0 <= series < len(self.study.series) and 0 <= seconds < math.inf):
                    raise damaged(self.path, f"series {series} took {seconds} seconds")
            return found

    def kept_image(self, cell: int) -> Tensor | None:
        """Return the adversarial image of a finished cell, if it was kept."""
        with reading(self.path):
            query = "SELECT has_image, image FROM results WHERE cell = ?"
            row = self._connection.execute(query, (cell,)).fetchone()
            has_image, content = (0, None) if row is None else row
            if bool(has_image) != (content is not None):
                raise damaged(self.path, f"image of cell {cell} was changed")
            return codec.unpack_image(self._opened_blob(cell, "image", content))

    def answers(self, cells: set[int]) -> dict[int, list[Answered]]:
        """Return all recorded answers of cells, in order, since each cell was last restarted."""
        answers: dict[int, list[Answered]] = {}
        numbers = np.array(sorted(cells), np.int64)
        with reading(self.path):
            restarts = {cell: batch for cell, batch, _ in self._rows("restarts")}
            for batch, content in self._rows("batches"):
                for answered in codec.unpack_answers(content, numbers):
                    if batch > restarts.get(answered.cell, 0):
                        answers.setdefault(answered.cell, []).append(answered)
            for recorded in answers.values():
                History(recorded, again=False)  # raises if rows are missing
        return answers

    def rows_under_way(self) -> dict[int, int]:
        """Return the number of recorded answers of each cell without a result; rows that were sent
        again count once."""
        ended, found = {end.cell for end in self.results()}, [np.zeros((0, 4), np.int64)]
        if len(ended) == len(self.study.shard_cells):
            return {}
        with reading(self.path):
            restarts = {cell: batch for cell, batch, _ in self._rows("restarts")}
            for batch, content in self._rows("batches"):
                spans, _ = codec.unpack_spans(content)
                cells = set(spans[:, 0].tolist()) - ended
                left = [cell for cell in cells if batch > restarts.get(cell, 0)]
                spans = spans[np.isin(spans[:, 0], left) & (spans[:, 2] != ALARMS)]
                found.append(np.column_stack([spans[:, :3], spans[:, 3] + spans[:, 4]]))
        ends = np.concatenate(found)
        ends = ends[np.lexsort(ends.T[::-1])]
        last = np.ones(len(ends), np.bool_)  # whether it is the last row of one run of an ask
        last[:-1] = (ends[1:, :3] != ends[:-1, :3]).any(1)
        numbers, places = np.unique(ends[last, 0], return_inverse=True)
        rows = np.bincount(places, ends[last, 3], len(numbers)).astype(int)
        return dict(zip(numbers.tolist(), rows.tolist(), strict=True))


def _write_about(connection: sqlite3.Connection, study: StudyRecord, images: int) -> None:
    about = {**study.to_json(), "images": images}
    rows = [(key, json.dumps(value)) for key, value in about.items()]
    full = [(*row, codec.checksum(b"", "about", *row)) for row in rows]
    connection.executemany("INSERT INTO about VALUES (?, ?, ?)", full)


def study_key(study: StudyRecord) -> bytes:
    """Return what the checksums of a shard's rows have in common, wherever the shard is copied."""
    fingerprint = json.dumps(study.fingerprint, sort_keys=True)
    return codec.checksum(study.text, fingerprint, study.shard)


def shard_path(folder: Path, number: int) -> Path:
    return folder / f"shard-{number}.sqlite"


def read_record(folder: Path) -> StudyRecord | None:
    """Return the record in a folder's first shard; None if the folder has no study."""
    numbers = _numbers(folder)
    if not numbers:
        return None
    with Store(shard_path(folder, min(numbers)), write=False) as store:
        return store.study


def _numbers(folder: Path) -> list[int]:
    """Return the numbers of the shards whose files are in a folder."""
    try:
        found = [PATTERN.fullmatch(name) for name in os.listdir(folder)]
    except (FileNotFoundError, NotADirectoryError, ValueError):  # a NUL in the name
        return []
    except OSError as error:
        raise FileError(f"{folder} cannot be read: {error.strerror}") from None
    return [int(match[1]) for match in found if match is not None]


def open_shards(folder: Path, opened: ExitStack) -> list[Store]:
    """Open all shards of a folder for reading and check them; `opened` closes them."""
    if kind_of(folder, str(folder)) != "folder":
        raise FileError(f"{folder} is not a folder", expected=MADE_BY_RUN)
    record = read_record(folder)
    if record is None:
        raise FileError(f"{folder} has no study", expected=MADE_BY_RUN)
    foreign = [number for number in _numbers(folder) if number not in record.folder_shards]
    for number in foreign[:1]:
        given = f"{shard_path(folder, number)} is not of the study in this folder"
        raise FileError(given, remedy="remove it, and join parts with `tollbox merge`")
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
        store.check_rows()
    return stores
