"""Stores that someone copied or edited: every command says so in one sentence, and uses nothing."""

from __future__ import annotations

import json
import shutil
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from small_studies import copy_partial_study, rewrite_record

from tollbox.cli.app import main
from tollbox.studies.store.store import Store

ALL = ("status", "export", "report", "resume")

Refused = Callable[..., None]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    copy_partial_study(tmp_path / "out")
    return tmp_path / "out"


@pytest.fixture
def refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> Refused:
    def check(*words: str, commands: tuple[str, ...] = ALL) -> None:
        """Each command ends with code 2 and one sentence that has these words."""
        before = {path.name: path.read_bytes() for path in folder.glob("*.sqlite")}
        for command in commands:
            with pytest.raises(SystemExit) as end:
                main([command, str(folder)])
            _, error = capsys.readouterr()
            assert end.value.code == 2, error
            assert error.startswith("tollbox: ")
            assert error.count("\n") == 1
            for word in words:
                assert word in error
        assert before == {path.name: path.read_bytes() for path in folder.glob("*.sqlite")}
        assert not (folder / "report.html").exists()

    return check


def edit(folder: Path, statement: str, *values: Any) -> None:
    with closing(sqlite3.connect(folder / "shard-0.sqlite")) as connection, connection:
        connection.execute(statement, values)


def rewrite_trace(folder: Path, change: Callable[[Any], Any], column: str = "account") -> None:
    with closing(sqlite3.connect(folder / "shard-0.sqlite")) as connection, connection:
        cell, packed = connection.execute(f"SELECT cell, {column} FROM results").fetchone()
        values = json.loads(zlib.decompress(packed))
        change(values)
        content = zlib.compress(json.dumps(values).encode())
        connection.execute(f"UPDATE results SET {column} = ? WHERE cell = ?", (content, cell))


def two_shards(folder: Path) -> None:
    """The same study as if it had two shards."""
    shutil.copy(folder / "shard-0.sqlite", folder / "shard-1.sqlite")
    for number in (0, 1):
        with Store(folder / f"shard-{number}.sqlite", write=True) as store:
            rewrite_record(store, "shards", 2)
            rewrite_record(store, "shard", number)


def test_a_shard_copied_over_another(folder: Path, refused: Refused) -> None:
    two_shards(folder)
    with pytest.raises(SystemExit) as end:
        main(["status", str(folder)])
    assert not end.value.code
    shutil.copy(folder / "shard-0.sqlite", folder / "shard-1.sqlite")
    refused("shard-1.sqlite holds shard 0 of a study: expected shard 1; restore it")


def test_shards_of_two_studies(folder: Path, refused: Refused) -> None:
    two_shards(folder)
    with Store(folder / "shard-1.sqlite", write=True) as store:
        rewrite_record(store, "name", "another")
    refused("shard-1.sqlite is of another study than shard-0.sqlite")


def test_shards_with_other_images(folder: Path, refused: Refused) -> None:
    two_shards(folder)
    edit(folder, "UPDATE images SET label = label + 1")
    refused("shard-1.sqlite is of another study than shard-0.sqlite")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("distance = -5", "has distance -5"),
        ("distance = 'near'", "is damaged"),
        ("cost = -1", "has cost -1"),
        ("cost = 9e999", "has cost inf"),
        ("queries = -3", "has -3 queries"),
        ("queries = 2.5", "has 2.5 queries"),
        ("flagged = queries + 1", "flagged of"),
        ("stop = 'lunch'", "'lunch' is not a valid Stop"),
        ("warnings = '[3]'", "a warning that is not text"),
        ("warnings = '['", "is damaged"),
        ("cell = 4000", "cell 4000 is not one of the 8 of the study"),
        ("cell = -1", "cell -1 is not one of the 8 of the study"),
    ],
)
def test_a_result_that_no_run_can_have(
    folder: Path, refused: Refused, change: str, words: str
) -> None:
    edit(folder, f"UPDATE results SET {change} WHERE cell = (SELECT MAX(cell) FROM results)")
    refused("shard-0.sqlite is damaged", words, "restore a complete copy")


READ_TRACES = ("export", "report")


def test_traces_that_are_not_traces(folder: Path, refused: Refused) -> None:
    for content in (b"nothing", zlib.compress(b"\xff"), zlib.compress(b"[]")):
        edit(folder, "UPDATE results SET account = ?", content)
        refused("shard-0.sqlite is damaged", commands=READ_TRACES)


@pytest.mark.parametrize(
    "change",
    [
        lambda trace: trace["improvements"][0].append(1.0),
        lambda trace: trace["improvements"][0].__delitem__(slice(4, None)),
        lambda trace: trace["improvements"][0].__setitem__(3, -1.0),
        lambda trace: trace["improvements"][0].__setitem__(3, float("nan")),
        lambda trace: trace["improvements"][0].__setitem__(0, "much"),
        lambda trace: trace.pop("improvements"),
    ],
)
def test_improvements_that_no_run_can_have(
    folder: Path, refused: Refused, change: Callable[[dict[str, Any]], Any]
) -> None:
    rewrite_trace(folder, change)
    refused("shard-0.sqlite is damaged", commands=READ_TRACES)


@pytest.mark.parametrize(
    "change",
    [
        lambda trace: trace.pop("counts"),
        lambda trace: trace.update(counts={"start": [1]}),
        lambda trace: trace.update(counts={"start": {"1": -1}}),
        lambda trace: trace.update(counts={"start": {"cat": 1}}),
        lambda trace: trace.update(alarms={"start": -1}),
    ],
)
def test_counts_that_no_run_can_have(
    folder: Path, refused: Refused, change: Callable[[dict[str, Any]], Any]
) -> None:
    rewrite_trace(folder, change)
    refused("shard-0.sqlite is damaged", commands=READ_TRACES)


def test_steps_that_no_run_can_have(folder: Path, refused: Refused) -> None:
    rewrite_trace(folder, lambda steps: steps.append([1, 2]), "steps")
    refused("shard-0.sqlite is damaged", commands=("report",))
