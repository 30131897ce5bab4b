"""Stores that someone copied or edited: every command says so in one sentence, and uses nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import sys
import time
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from small_studies import PARTIAL, copy_partial_study, reseal, rewrite_record

from tollbox import Study, run_study
from tollbox.cli.app import main
from tollbox.errors import FileError, InputError
from tollbox.studies import StudyResults
from tollbox.studies.store import codec
from tollbox.studies.store.store import COLUMNS, Store

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


def forge(folder: Path, statement: str, *values: Any) -> None:
    """Edit a store and make its checksums fit."""
    with closing(sqlite3.connect(folder / "shard-0.sqlite")) as connection, connection:
        connection.execute(statement, values)
        reseal(connection)


def rewrite_trace(folder: Path, change: Callable[[Any], Any], column: str = "account") -> None:
    with closing(sqlite3.connect(folder / "shard-0.sqlite")) as connection, connection:
        cell, packed = connection.execute(f"SELECT cell, {column} FROM results").fetchone()
        values = json.loads(zlib.decompress(packed[8:]))
        change(values)
        content = packed[:8] + zlib.compress(json.dumps(values).encode())
        connection.execute(f"UPDATE results SET {column} = ? WHERE cell = ?", (content, cell))
        reseal(connection)


def two_shards(folder: Path) -> None:
    """The same study as if it had two shards."""
    shutil.copy(folder / "shard-0.sqlite", folder / "shard-1.sqlite")
    for number in (0, 1):
        with Store(folder / f"shard-{number}.sqlite", write=True) as store:
            store.forget(set(range(8)) - set(range(number, 8, 2)))
            rewrite_record(store, "shards", 2)
            rewrite_record(store, "shard", number)


def test_a_shard_copied_over_another(folder: Path, refused: Refused) -> None:
    two_shards(folder)
    with pytest.raises(SystemExit) as end:
        main(["status", str(folder)])
    assert not end.value.code
    shutil.copy(folder / "shard-0.sqlite", folder / "shard-1.sqlite")
    refused("shard-1.sqlite holds shard 0 of a study: expected shard 1; restore it")


def test_a_shard_that_is_not_of_the_folder(folder: Path, refused: Refused) -> None:
    """As if parts were joined by copying their files into one folder."""
    shutil.copy(folder / "shard-0.sqlite", folder / "shard-1.sqlite")
    refused("shard-1.sqlite is not of the study in this folder; remove it, and join parts with")


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_linked_shard_is_read_and_not_written(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], link: Callable[..., None]
) -> None:
    """Each name would have a lock of its own, so that two processes could write to one file."""
    other = tmp_path / "other"
    other.mkdir()
    link(folder / "shard-0.sqlite", other / "shard-0.sqlite")
    assert typed("status", other) == 0
    assert typed("resume", other) == 2
    assert "is a link to a file elsewhere; replace it by a copy" in capsys.readouterr().err


def test_a_view_is_not_run(folder: Path, refused: Refused) -> None:
    """A view without an end would make every command wait forever."""
    rows = "WITH RECURSIVE t(key) AS (SELECT 1 UNION ALL SELECT 1 FROM t LIMIT 40000000)"
    edit(folder, "DROP TABLE about")
    edit(folder, f"CREATE VIEW about AS {rows} SELECT key, key AS value, key AS checksum FROM t")
    start = time.perf_counter()
    refused("its tables are not those of a study", commands=("status",))
    assert time.perf_counter() - start < 2


@pytest.mark.parametrize("prices", ["[1979-05-27, 1979-05-28]", "[[1], [3]]", "[" * 5000])
def test_prices_that_no_study_has(
    folder: Path, capsys: pytest.CaptureFixture[str], prices: str
) -> None:
    text = json.dumps(PARTIAL.replace("[1, 3]", prices))
    forge(folder, "UPDATE about SET value = ? WHERE key = 'text'", text)
    assert typed("status", folder, "--json") == 2
    assert "damaged (its study text does not match its series)" in capsys.readouterr().err


def test_shards_of_two_studies(folder: Path, refused: Refused) -> None:
    two_shards(folder)
    with Store(folder / "shard-1.sqlite", write=True) as store:
        rewrite_record(store, "name", "another")
    refused("shard-1.sqlite is of another study than shard-0.sqlite")


def test_shards_with_other_images(folder: Path, refused: Refused) -> None:
    two_shards(folder)
    forge(folder, "UPDATE images SET label = label + 1")
    refused("shard-1.sqlite is of another study than shard-0.sqlite")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("distance = -5", "has distance -5"),
        ("distance = 'near'", "is damaged"),
        ("seed = 'near'", "is damaged"),
        ("cost = -1", "has cost -1"),
        ("cost = 9e999", "has cost inf"),
        ("queries = -3", "has -3 queries"),
        ("queries = 2.5", "has 2.5 queries"),
        ("flagged = queries + 1", "flagged of"),
        ("first_alarm_queries = queries + 1, first_alarm_flagged = 0", "has its first alarm after"),
        ("stop = 'lunch'", "'lunch' is not a valid Stop"),
        ("warnings = '[3]'", "a warning that is not text"),
        ("warnings = '['", "is damaged"),
        ("cell = 4000", "cell 4000 is not one of its cells"),
        ("cell = -1", "cell -1 is not one of its cells"),
    ],
)
def test_a_result_that_no_run_can_have(
    folder: Path, refused: Refused, change: str, words: str
) -> None:
    forge(folder, f"UPDATE results SET {change} WHERE cell = (SELECT MAX(cell) FROM results)")
    refused("shard-0.sqlite is damaged", words, "restore a complete copy")


READ_TRACES = ("export", "report")


def test_traces_that_are_not_traces(folder: Path, refused: Refused) -> None:
    for content in (b"nothing", zlib.compress(b"\xff"), zlib.compress(b"[]")):
        forge(folder, "UPDATE results SET account = ?", b"checksum" + content)
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


# -- checksums ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE results SET distance = 0.01",
        "UPDATE results SET queries = queries + 1 WHERE cell = 7",
        "UPDATE results SET cell = 4 WHERE cell = 3",
        "UPDATE images SET label = label + 1 WHERE place = 1",
        "UPDATE images SET place = 1 - place - 10",
        "DELETE FROM images WHERE place = 1",
        "DELETE FROM images WHERE place = 0",
        "UPDATE batches SET content = randomblob(length(content))",
        "UPDATE batches SET content = (SELECT content FROM batches WHERE id = 1)",
        "UPDATE batches SET id = -id WHERE id = 2",
        "UPDATE batches SET id = id + 1 WHERE id = (SELECT MAX(id) FROM batches)",
        "UPDATE times SET seconds = seconds + 1",
        "INSERT INTO restarts VALUES (0, 1, 'why', x'00')",
        "DELETE FROM batches",
        "DELETE FROM batches WHERE id = 1",
        "DELETE FROM batches WHERE id > 1",
        "UPDATE about SET value = '2' WHERE key = 'shards'",
        "DELETE FROM about WHERE key = 'images'",
        *(f"DROP TABLE {table}" for table in COLUMNS),
        "CREATE TRIGGER more AFTER INSERT ON batches BEGIN DELETE FROM results; END",
        "ALTER TABLE times ADD COLUMN more",
    ],
)
def test_what_was_edited_or_is_missing(folder: Path, refused: Refused, statement: str) -> None:
    edit(folder, statement)
    refused("shard-0.sqlite", commands=("status", "export", "report", "resume"))


def test_values_of_another_row(folder: Path, refused: Refused) -> None:
    other = "(SELECT {0} FROM results WHERE cell = 7) WHERE cell = 3"
    edit(folder, f"UPDATE results SET steps = {other.format('steps')}")
    refused("steps of cell 3 was changed", commands=("report",))
    edit(folder, f"UPDATE results SET account = {other.format('account')}")
    refused("account of cell 3 was changed", commands=READ_TRACES)


def test_a_row_of_another_study(folder: Path, refused: Refused, tmp_path: Path) -> None:
    """Its checksum fits the row, but not the study."""
    copy_partial_study(tmp_path / "other")
    with Store(tmp_path / "other" / "shard-0.sqlite", write=True) as store:
        rewrite_record(store, "text", store.study.text.replace("budget = 90", "budget = 91"))
    path = folder / "shard-0.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("ATTACH ? AS other", (str(tmp_path / "other" / "shard-0.sqlite"),))
        connection.execute("REPLACE INTO results SELECT * FROM other.results")
    refused("row 3 of results was changed")


def test_an_image_that_was_removed(tmp_path: Path) -> None:
    study = Study.from_text(f"keep_images = true\n{PARTIAL}", tmp_path, "study.toml")
    run_study(study, tmp_path / "out").close()
    edit(tmp_path / "out", "UPDATE results SET image = NULL WHERE cell = 3")
    with StudyResults(tmp_path / "out") as results:
        assert results.kept_image(2) is not None
        with pytest.raises(InputError, match="image of cell 3 was changed"):
            results.results()


def test_answers_that_no_run_can_have(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "shard-0.sqlite")) as connection:
        (packed,) = connection.execute("SELECT content FROM batches WHERE id = 5").fetchone()
    late = [each._replace(first=each.first + 7) for each in codec.unpack_answers(packed)]
    longer = zlib.compress(zlib.decompress(packed) + bytes(8))
    for content, words in (
        (codec.pack_answers(late), "rows .* are missing"),
        (longer, "the labels of a batch do not match its spans"),
    ):
        forge(folder, "UPDATE batches SET content = ? WHERE id = 5", content)
        with (
            Store(folder / "shard-0.sqlite", write=False) as store,
            pytest.raises(FileError, match=rf"shard-0.sqlite is damaged \(ValueError: {words}"),
        ):
            store.answers(set(range(8)))


def test_content_that_grows_beyond_measure(
    folder: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codec, "MOST_BYTES", 50_000)
    bomb = zlib.compress(bytes(1_000_000))
    forge(folder, "UPDATE results SET steps = ?", b"checksum" + bomb)
    refused("ValueError: it has over 50000 bytes", commands=("report",))
    forge(folder, "UPDATE results SET account = ?", b"checksum" + bomb)
    refused("ValueError: it has over 50000 bytes", commands=READ_TRACES)
    forge(folder, "UPDATE batches SET content = ?", bomb)
    refused("ValueError: it has over 50000 bytes", commands=("status", "resume"))


@pytest.mark.parametrize(
    "key",
    [
        *("attacks", "detector", "exactness", "findings", "fingerprint", "kept", "models", "part"),
        *("parts", "series", "shape", "shard", "shards", "text", "where", "width", "folder"),
    ],
)
def test_a_record_of_another_type(folder: Path, refused: Refused, key: str) -> None:
    for value in (-1, [0], {"net": 3}, True):
        forge(folder, "UPDATE about SET value = ? WHERE key = ?", json.dumps(value), key)
        refused("shard-0.sqlite is damaged", commands=("status", "export"))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("attacks", ["surfree"]),
        ("series", ["a"]),
        ("models", {}),
        ("kept", {"places": [0, 1], "of_model": {"net": [0, 2]}, "looked_at": {"net": 2}}),
        ("kept", {"places": [0, 1], "of_model": {}, "looked_at": {}}),
        ("shards", 0),
        ("part", 1),
        ("parts", 0),
        ("width", 0),
        ("width", 3),
        ("width", 2 * 10**30),
        ("text", PARTIAL.replace("[1, 3]", "[1, 3, 9]")),
        ("images", 3),
        ("shape", [3, 2**40, 1]),
        ("resizing", {"resize": None, "crop": None, "interpolation": "silk"}),
    ],
)
def test_a_record_that_does_not_fit(folder: Path, refused: Refused, key: str, value: Any) -> None:
    forge(folder, "UPDATE about SET value = ? WHERE key = ?", json.dumps(value), key)
    refused("shard-0.sqlite is damaged", commands=("export", "report", "resume"))


@pytest.mark.parametrize("suffix", [".lock", ".sqlite-journal", ".sqlite-wal"])
@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_files_next_to_a_shard_are_regular(folder: Path, suffix: str, kind: str) -> None:
    """A pipe would make a command wait forever; a link would let it write elsewhere."""
    other, precious = folder / f"shard-0{suffix}", folder.parent / "precious"
    precious.write_text("precious")
    other.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(other)
    else:
        other.symlink_to(precious)
    signal.alarm(60)  # ends the tests rather than hang
    for write in (False, True):
        with pytest.raises(FileError, match=f"shard-0{suffix} is not a regular file; remove it"):
            Store(folder / "shard-0.sqlite", write=write)
    signal.alarm(0)
    assert precious.read_text() == "precious"


def test_status_counts_the_answers_of_unfinished_cells(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Six of eight cells have answers but no result; one of them was restarted."""
    with Store(folder / "shard-0.sqlite", write=False) as store:
        every = {
            cell: sum(len(each.labels) for each in answers)
            for cell, answers in store.answers(set(range(8))).items()
        }
        ended = {end.cell: end.queries for end in store.results()}
    assert ended.keys() == {3, 7}
    for restarted, counted in (({}, every | ended), ({0}, every | ended | {0: 0})):
        with Store(folder / "shard-0.sqlite", write=True) as store:
            for cell in restarted:
                store.restart(cell, "why")
        assert typed("status", folder, "--json") == 0
        assert json.loads(capsys.readouterr().out)["queries"] == sum(counted.values())


# -- folders that someone sent -------------------------------------------------------------------

HOSTILE = "from pathlib import Path\n\nPath({marker!r}).touch()\nimages = net = detector = print\n"
BUILT_IN = "tollbox.models.stand_ins"


def receive(monkeypatch: pytest.MonkeyPatch, folder: Path, marker: Path) -> None:
    """Make the text of a store name code in its own folder, which is the current one."""
    (folder / "received.py").write_text(HOSTILE.format(marker=str(marker)))
    for path in folder.glob("*.sqlite"):
        with Store(path, write=True) as store:
            text = store.study.text.replace(BUILT_IN, "received")
            rewrite_record(store, "text", text)
            rewrite_record(store, "folder", str(folder))
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))


def typed(*words: str | Path) -> int:
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    return int(end.value.code or 0)


@pytest.mark.parametrize(
    "command",
    [("status",), ("status", "--json"), ("export",), ("report",), ("report", "--figures")],
)
def test_reading_runs_no_code_of_the_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    marker = folder.parent / "marker"
    receive(monkeypatch, folder, marker)
    name, *options = command
    options += [str(folder.parent / "figures")] if "--figures" in options else []
    assert typed(name, folder, *options) == 0
    assert not marker.exists()
    assert str(folder) not in sys.path
    if name == "report":
        page = (folder / "report.html").read_text()
        assert "the images come from received:images, and reading a study runs no code" in page
        assert typed(name, folder, "--trust-code") == 0
        assert marker.exists()


def test_the_functions_that_read_run_no_code(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marker = folder.parent / "marker"
    receive(monkeypatch, folder, marker)
    with StudyResults(folder) as results:
        assert list(results.rows())
        for read in (lambda: results.pixels, lambda: results.replayed(3)):
            with pytest.raises(InputError, match=r"runs no code; set trust_code if you trust"):
                read()
    assert not marker.exists()


def test_tollboxs_own_images_are_shown_without_looking_elsewhere(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (folder / "PIL").mkdir()  # a package of this name must not be found here
    assert typed("report", folder) == 0
    assert "cannot be shown" not in (folder / "report.html").read_text()
    assert str(folder) not in sys.path


def test_a_misspelt_model_does_not_open_the_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with Store(folder / "shard-0.sqlite", write=True) as store:
        rewrite_record(store, "text", store.study.text.replace(BUILT_IN + ":conv", "timn:a/"))
    assert typed("report", folder) == 2
    assert str(folder) not in sys.path


def test_merging_runs_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, marker = Study.from_text(PARTIAL, tmp_path, "study.toml"), tmp_path / "marker"
    parts = [tmp_path / f"part-{number}" for number in (1, 2)]
    for number, part in enumerate(parts, 1):
        run_study(study, part, shard=f"{number}/2").close()
        receive(monkeypatch, part, marker)
    assert typed("merge", tmp_path / "merged", *parts) == 0
    assert not marker.exists()


def test_an_audit_that_is_read_again_runs_no_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, marker = tmp_path / "out", tmp_path / "marker"
    named = ("--model", f"{BUILT_IN}:convolutional", "--images", f"{BUILT_IN}:images")
    how = ("--limit", "1", "--budget", "100", "--device", "cpu")
    assert typed("audit", *named, *how, "--out", out) == 0
    assert "cannot be shown" not in (out / "audit.html").read_text()
    with Store(out / "shard-0.sqlite", write=True) as store:
        settings: dict[str, Any] = {**store.study.settings["audit"]}
        for key in settings:
            rewrite_record(store, "settings", {"audit": {**settings, key: ["x"]}})
            assert typed("audit", "--out", out) == 2
        for shape in ([0, 28, 28], [1, 28], [10**200, 10**200]):
            rewrite_record(store, "settings", {"audit": {**settings, "shape": shape}})
            assert typed("audit", "--out", out) == 2
        rewrite_record(store, "settings", {"audit": settings})
    for name in ("audit.html", "audit.json"):
        (out / name).rename(out / "kept")
        for precious in (tmp_path / "precious", tmp_path / "none"):
            (tmp_path / "precious").write_text("precious")
            (out / name).symlink_to(precious)
            assert typed("audit", "--out", out) == 2
            assert (tmp_path / "precious").read_text() == "precious"
            assert not (tmp_path / "none").exists()
            (out / name).unlink()
        (out / "kept").rename(out / name)
    receive(monkeypatch, out, marker)
    assert typed("audit", "--out", out, "--worth", "5", "--against", out) == 0
    assert "the images come from received:images" in (out / "audit.html").read_text()
    assert not marker.exists()
