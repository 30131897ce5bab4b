"""The store: what was committed stays; what cannot be read or written is told in one sentence."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_studies import sample_record

import tollbox as tb
from tollbox.core.detector import BenignStats, Sessions
from tollbox.core.exactness import Exactness, Seen
from tollbox.core.metric import Metric
from tollbox.data.resizing import Resizing
from tollbox.engine.journal import Answered
from tollbox.errors import FileError, InputError
from tollbox.studies.fingerprint import settings_of
from tollbox.studies.store import codec
from tollbox.studies.store.codec import pack_answers
from tollbox.studies.store.connection import StoreError
from tollbox.studies.store.record import DetectorRecord, Kept, StudyRecord, difference, from_json
from tollbox.studies.store.store import APPLICATION, SCHEMA, Store
from tollbox.testing import half_space

IMAGES = [(0, "a" * 32, 3, "one.png"), (1, "b" * 32, 4, "two.png")]


def answered(cell: int, ask: int, labels: list[int], run: int = 0, first: int = 0) -> Answered:
    return Answered(cell, ask, run, first, np.array(labels, np.int64), 0.5 * ask)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "shard-0.sqlite"
    Store.create(file, sample_record(), IMAGES)
    return file


def plain(found: dict[int, list[Answered]]) -> dict[int, list[tuple[Any, ...]]]:
    return {c: [(*a[:4], a.labels.tolist(), a.distance) for a in each] for c, each in found.items()}


@contextlib.contextmanager
def tmpfs(folder: Path, size: str) -> Iterator[Path]:
    """A small file system; the test is skipped where none may be mounted."""
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True
    )
    if made.returncode:
        pytest.skip(f"no tmpfs may be mounted here: {made.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def remount(folder: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(folder)], check=True)


# -- bytes ----------------------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2**40),
            st.integers(0, 2**31),
            st.integers(0, 99),
            st.integers(0, 10**6),
            st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=9),
            st.floats(width=64),
        ),
        min_size=1,
        max_size=9,
    )
)
def test_labels_come_back_as_they_were(rows: list[tuple[Any, ...]]) -> None:
    given = [Answered(*row[:4], np.array(row[4], np.int64), row[5]) for row in rows]
    found = list(codec.unpack_answers(codec.pack_answers(given)))
    assert [(*a[:4], a.labels.tolist()) for a in found] == [row[:5] for row in rows]
    np.testing.assert_array_equal([a.distance for a in found], [row[5] for row in rows])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_images_come_back_to_the_last_bit(dtype: torch.dtype) -> None:
    image = torch.rand(3, 5, 4, generator=torch.Generator().manual_seed(1)).to(dtype)
    content = codec.pack_image(image)
    assert content is not None
    back = codec.unpack_image(content)
    assert back is not None
    assert back.dtype == dtype
    assert torch.equal(back, image)
    turned = codec.unpack_image(codec.pack_image(image.permute(2, 0, 1)))
    assert turned is not None
    assert torch.equal(turned, image.permute(2, 0, 1))
    assert codec.pack_image(None) is None
    assert codec.unpack_image(None) is None


@pytest.mark.parametrize("attack", ["surfree", "a-hsja", "stealthy-hsja", "a-cgba", "geoda"])
def test_runs_come_back_with_counts_improvements_and_steps(path: Path, attack: str) -> None:
    boundary = half_space(distance=0.3, shape=(3, 8, 8))
    prices = tb.Prices(4, 1)
    [result] = tb.run(
        tb.preset(attack), boundary.model(), boundary.source[None], [0], prices=prices, budget=300
    )
    assert result.trace
    result = replace(result, warnings=("one", "and another"), reason="said", seed=-(2**63))
    with Store(path, write=True) as store:
        store.save(7, result)
        store.save(8, replace(result, adversarial=None))
    with Store(path, write=False) as store:
        (end, trace), (other, _) = store.runs(steps=True)
        assert [end, other] == store.results()
        image, none = store.kept_image(7), store.kept_image(8)
    assert (end.cell, other.cell, none) == (7, 8, None)
    assert (end.stop, end.reason, end.seed) == (result.stop, "said", -(2**63))
    assert end.warnings == result.warnings
    assert image is not None
    assert torch.equal(image, result.adversarial)
    assert (end.distance, end.cost) == (result.distance, result.ledger.cost)
    assert (end.queries, end.flagged) == (result.ledger.queries, result.ledger.flagged)
    assert trace.ledger(prices, tb.Goal.leave({0}), None) == result.ledger
    assert trace.improvements == result.improvements
    assert trace.steps == result.trace


def test_a_trace_is_read_without_its_steps() -> None:
    boundary = half_space(distance=0.3, shape=(3, 8, 8))
    [result] = tb.run(tb.preset("a-cgba"), boundary.model(), boundary.source[None], [0], budget=300)
    account, _ = codec.pack_trace(result)
    trace = codec.unpack_trace(account, None)
    assert (trace.improvements, trace.counts) == (result.improvements, result.ledger.counts)
    assert trace.steps == ()


# -- what a store says about its study ------------------------------------------------------------


def through_json(record: StudyRecord) -> StudyRecord:
    read = from_json(StudyRecord, json.loads(json.dumps(record.to_json())))
    assert isinstance(read, StudyRecord)
    return read


def test_a_record_comes_back_as_it_was(path: Path) -> None:
    record = sample_record(shard=3, settings={"price": 2.5}, experiment="clip", scale="s")
    assert through_json(record) == record
    assert through_json(sample_record()) == sample_record()
    full = sample_record(
        norm=Metric.LINF,
        shape=(3, 8, 8),
        resizing=Resizing((40, 50), 32),
        exactness={"net": Exactness(Seen.LOGITS, shapes=(1, 64))},
        kept=Kept((1, 5), {"net": (0, 1)}, {"net": 6}),
        detector=DetectorRecord(
            "module:detector", 2.0, None, {"net": BenignStats({"crops": Sessions(3, 1, 30, 2)})}
        ),
    )
    assert through_json(full) == full
    with Store(path, write=False) as store:
        assert store.study == sample_record()


def test_a_key_that_is_missing_is_named(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM about WHERE key = 'models'")
    refused(path, r"is damaged \(KeyError: 'models'\); restore a complete copy")


@pytest.mark.parametrize(
    ("then", "now", "words"),
    [
        ({"tau": "1"}, {"tau": "1"}, None),
        ({"tau": "1", "a": "2"}, {"tau": "3", "a": "2"}, "tau of it changed from 1 to 3"),
        ({"tau": "1"}, {"tau": "1", "new": "3"}, "new of it changed from not set to 3"),
        ({"tau": "1", "old": "3"}, {"tau": "1"}, "old of it changed from 3 to not set"),
        ({"the file": "#1"}, {"the file": "#2"}, "the file of it changed"),
        ({"the file": "#1"}, {"the weights": "#2"}, None),  # each side knows something else
        ({"the file": "#1", "tau": "1"}, {"the file": "#1"}, None),  # no settings are known
        ({"the file": "#1", "tau": "1"}, {"the file": "#2"}, "the file of it changed"),
    ],
)
def test_the_property_that_differs_is_named(
    then: dict[str, str], now: dict[str, str], words: str | None
) -> None:
    assert difference({"it": then, "other": {"a": "1"}}, {"it": now}) == words


def test_the_parts_of_an_attack_are_named_field_by_field() -> None:
    parts = settings_of("attack", tb.preset("a-cgba"))
    assert (parts["attack"], parts["search"]) == ("CGBA", "AsymmetricSearch")
    assert (parts["search.tau"], parts["estimate.subspace.factor"]) == ("2.25e-05", "4")
    inside = settings_of("attack", tb.preset("cgba+seri"))
    assert (inside["attack"], inside["inner"], inside["inner.queries"]) == (
        "Rescaled",
        "CGBA",
        "30",
    )
    for name in tb.presets():
        assert settings_of("attack", tb.preset(name)) == settings_of("attack", tb.preset(name))
        assert not any(" at 0x" in text for text in settings_of("attack", tb.preset(name)).values())


# -- commits --------------------------------------------------------------------------------------


def test_what_was_recorded_comes_back_in_order(path: Path) -> None:
    with Store(path, write=True) as store:
        store.record(pack_answers([answered(0, 0, [3]), answered(5, 0, [4])]))
        store.record(pack_answers([answered(0, 1, [1, 2]), answered(0, 1, [7], run=1)]))
        with Store(path, write=False) as reader:  # while it is written
            assert plain(reader.answers({0, 5})) == plain(store.answers({0, 5}))
    with Store(path, write=False) as store:
        assert store.images() == [row[1:] for row in IMAGES]
        found = plain(store.answers({0, 9}))
        assert found == {
            0: [(0, 0, 0, 0, [3], 0.0), (0, 1, 0, 0, [1, 2], 0.5), (0, 1, 1, 0, [7], 0.5)]
        }


def test_a_cell_begun_anew_has_no_history_before_that(path: Path) -> None:
    with Store(path, write=True) as store:
        store.record(pack_answers([answered(0, 0, [3]), answered(1, 0, [4])]))
        store.restart(0, "why")
        assert plain(store.answers({0, 1})) == {1: [(1, 0, 0, 0, [4], 0.0)]}
        store.record(pack_answers([answered(0, 0, [5])]))
        assert plain(store.answers({0})) == {0: [(0, 0, 0, 0, [5], 0.0)]}
        store.restart(0, "again")
        assert store.answers({0}) == {}


def test_a_reader_cannot_write(path: Path) -> None:
    with (
        Store(path, write=False) as store,
        pytest.raises(StoreError, match=r"cannot be written: attempt to write a readonly"),
    ):
        store.record(pack_answers([answered(0, 0, [1])]))


# -- one writer -----------------------------------------------------------------------------------


def test_a_second_writer_is_told_who_the_first_is(path: Path) -> None:
    with Store(path, write=True):
        with pytest.raises(FileError) as told:
            Store(path, write=True)
        assert f"in use by another process (process {os.getpid()})" in str(told.value)
        assert "wait until it ends, or stop it" in str(told.value)
        with Store(path, write=False) as reader:
            assert reader.study.text == "x"
    with Store(path, write=True):
        pass


def test_a_lock_left_by_a_killed_process_does_not_matter(path: Path) -> None:
    code = """
        import fcntl, os, signal, sys
        handle = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
        fcntl.flock(handle, fcntl.LOCK_EX)
        os.write(handle, b"process 1\\n")
        print("locked", flush=True)
        sys.stdin.read()
    """
    lock = path.with_suffix(".lock")
    with subprocess.Popen(
        [sys.executable, "-c", "\n".join(line.strip() for line in code.splitlines()), str(lock)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"locked\n"
        with pytest.raises(FileError, match=r"another process \(process 1\)"):
            Store(path, write=True)
        other.kill()
    assert lock.read_bytes() == b"process 1\n"
    with Store(path, write=True):
        assert lock.read_text() == f"process {os.getpid()}\n"


def test_an_error_on_opening_gives_the_lock_back(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version=99")
    with pytest.raises(FileError, match="schema 99"):
        Store(path, write=True)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version={SCHEMA}")
    with Store(path, write=True):
        pass


# -- files that are not what they should be -------------------------------------------------------


def refused(path: Path, words: str) -> None:
    """Told in one line, for readers and writers, and the file is left as it was."""
    before = path.read_bytes() if path.exists() else None
    for write in (False, True):
        with pytest.raises(FileError, match=words) as told:
            Store(path, write=write)
        assert "\n" not in str(told.value)
        assert str(path) in str(told.value)
    assert (path.read_bytes() if path.exists() else None) == before


def test_a_file_cut_short(path: Path) -> None:
    with Store(path, write=True) as store:
        for ask in range(40):
            store.record(pack_answers([answered(0, ask, list(range(2000)))]))
    whole = path.read_bytes()
    for size in (len(whole) // 2, len(whole) - 1, 4096):
        path.write_bytes(whole[:size])
        refused(path, "cut short|cannot be used|malformed")
    path.write_bytes(whole[:50])
    refused(path, "not a study's|cannot be used")
    path.write_bytes(whole)
    with Store(path, write=True) as store:
        assert len(store.answers({0})[0]) == 40


def test_files_of_another_kind(path: Path) -> None:
    path.write_text("budget = 3\n" * 500)
    refused(path, "not a database|not a study's")
    path.write_bytes(b"")
    refused(path, "is not a study's|cannot be used")
    path.unlink()
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE about (key TEXT, value TEXT)")
    refused(path, "is not a study's: expected a file that tollbox made")
    path.unlink()
    refused(path, "does not exist|cannot be read")


@pytest.mark.parametrize(("schema", "which"), [(SCHEMA + 1, "a newer"), (0, "an older")])
def test_another_schema(path: Path, schema: int, which: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION,)
        connection.execute(f"PRAGMA user_version={schema}")
    refused(path, f"has schema {schema}: expected {SCHEMA}; it was made by {which} tollbox")


def test_a_checkpoint_that_was_cut_off(path: Path, tmp_path: Path) -> None:
    """The log is copied into the file page by page; a kill after the first loses nothing."""
    folder = tmp_path / "killed"
    folder.mkdir()
    store = Store(path, write=True)
    store._connection.execute("PRAGMA wal_autocheckpoint=0")
    rng = np.random.default_rng(0)
    for ask in range(60):
        store.record(pack_answers([answered(0, ask, rng.integers(0, 1000, 3000).tolist())]))
    wanted = plain(store.answers({0}))
    for file in path.parent.glob("shard-0.sqlite*"):
        shutil.copy(file, folder)  # what a kill would leave
    store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    after = path.read_bytes()
    store.close()
    copy = folder / path.name
    with open(copy, "r+b") as file:
        file.write(after[:4096])  # the first page says how many there are; the others are not there
    assert copy.stat().st_size < len(after)
    for write in (False, True, False):
        with Store(copy, write=write) as found:
            assert plain(found.answers({0})) == wanted


# -- disks ----------------------------------------------------------------------------------------


def fill(store: Store) -> int:
    """Record until it is refused; how many batches were committed."""
    rng = np.random.default_rng(0)
    for ask in range(10_000):
        told = ""
        try:
            store.record(pack_answers([answered(0, ask, rng.integers(0, 1000, 2000).tolist())]))
        except StoreError as error:
            told = str(error)
        if told:
            assert "\n" not in told
            assert "All that was recorded before is safe" in told
            assert "free some space" in told
            assert "tollbox resume" in told
            return ask
    raise AssertionError("it was never full")


def test_a_database_that_may_not_grow(path: Path) -> None:
    with Store(path, write=True) as store:
        store._connection.execute("PRAGMA max_page_count=40")
        done = fill(store)
        assert done > 5
        with pytest.raises(StoreError, match="database or disk is full"):
            store.record(pack_answers([answered(1, 0, list(range(5000)) * 4)]))
    with Store(path, write=True) as store:
        found = store.answers({0, 1})
        assert list(found) == [0]
        assert [a.ask for a in found[0]] == list(range(done))
        store.record(pack_answers([answered(1, 0, [1])]))


def test_a_full_disk(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "small", "400k") as folder:
        path = folder / "shard-0.sqlite"
        Store.create(path, sample_record(), IMAGES)
        with Store(path, write=True) as store:
            done = fill(store)
            assert done > 5
            assert len(store.answers({0})[0]) == done
        with Store(path, write=False) as store:
            assert len(store.answers({0})[0]) == done
        (folder / "more").write_bytes(b"")
        with contextlib.suppress(OSError), open(folder / "more", "wb", buffering=0) as file:
            while True:
                file.write(b"\0" * 512)
        # Not a block is left: told, or managed all the same.
        with contextlib.suppress(StoreError), Store(path, write=True) as store:
            assert len(store.answers({0})[0]) == done
        with Store(path, write=False) as store:
            assert len(store.answers({0})[0]) == done
        remount(folder, "size=4m")
        with Store(path, write=True) as store:
            assert len(store.answers({0})[0]) == done
            store.record(pack_answers([answered(0, done, [1])]))


def test_a_disk_that_is_full_before_the_first_batch(tmp_path: Path) -> None:
    """Not a block is left, for the lock or for the log: told as what it is, exit code 1."""
    with tmpfs(tmp_path / "small", "200k") as folder:
        path = folder / "shard-0.sqlite"
        Store.create(path, sample_record(), IMAGES)
        with contextlib.suppress(OSError), open(folder / "more", "wb", buffering=0) as file:
            while True:
                file.write(b"\0" * 512)
        told = pytest.raises(StoreError, match=r"cannot be written.*is safe: free some space")
        with told as found, Store(path, write=True) as store:
            store.record(pack_answers([answered(0, 0, list(range(3000)))]))
        assert "\n" not in str(found.value)
        with Store(path, write=False) as store:
            assert store.images() == [row[1:] for row in IMAGES]
        (folder / "more").unlink()
        with Store(path, write=True) as store:
            store.record(pack_answers([answered(0, 0, [1])]))


def test_a_new_store_on_a_full_disk(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "small", "16k") as folder:
        names = [(i, "c" * 32, 0, "n" * 200) for i in range(500)]
        with pytest.raises(tb.errors.TollboxError, match=r"full.*Free some space") as told:
            Store.create(folder / "shard-0.sqlite", sample_record(), names)
        assert not isinstance(told.value, InputError)  # no mistake of the user: exit code 1


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """Read-only for everyone, root too; what a killed process left is read all the same."""
    with tmpfs(tmp_path / "small", "4m") as folder:
        path = folder / "shard-0.sqlite"
        Store.create(path, sample_record(), IMAGES)
        with Store(path, write=True) as store:
            store.record(pack_answers([answered(0, 0, [1])]))
            store.record(pack_answers([answered(0, 1, [2])]))
            for file in folder.glob("shard-0.sqlite*"):
                shutil.copy(file, tmp_path)
        wanted = plain({0: [answered(0, 0, [1]), answered(0, 1, [2])]})
        remount(folder, "ro")
        with Store(path, write=False) as store:
            assert plain(store.answers({0})) == wanted
        with pytest.raises(FileError, match=r"cannot be written.*writable") as told:
            Store(path, write=True)
        assert "\n" not in str(told.value)
        remount(folder, "rw")
        path.unlink()
        for file in tmp_path.glob("shard-0.sqlite*"):  # as after kill -9, with its log
            shutil.copy(file, folder)
        assert (folder / "shard-0.sqlite-wal").stat().st_size
        remount(folder, "ro")
        with Store(path, write=False) as store:
            assert plain(store.answers({0})) == wanted


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_to_write(path: Path) -> None:
    path.parent.chmod(0o500)
    try:
        with pytest.raises(FileError, match=r"cannot be written.*Make it writable"):
            Store(path, write=True)
        with Store(path, write=False) as store:
            assert store.study.text == "x"
    finally:
        path.parent.chmod(0o700)


def test_a_damaged_batch_is_told(path: Path) -> None:
    with Store(path, write=True) as store:
        store.record(pack_answers([answered(0, 0, [1, 2])]))
        store._connection.execute("UPDATE batches SET content = x'00112233'")
        store._connection.commit()
        with pytest.raises(
            FileError, match=r"shard-0\.sqlite is damaged .*restore a complete copy"
        ):
            store.answers({0})
