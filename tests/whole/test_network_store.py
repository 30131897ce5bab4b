"""Stores on a network file system: a rollback journal, and nothing that two machines cannot share.

There is no such file system here; `TOLLBOX_JOURNAL` stands for it, and processes with host names
and shared memory of their own for the machines.
"""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from small_studies import contents, sample_record
from torture import children, write_studies

from tollbox import Study, run_study
from tollbox.engine.journal import Answered
from tollbox.errors import FileError, InputError
from tollbox.studies import merge_parts
from tollbox.studies.store import connection as journal_mode
from tollbox.studies.store import connection as opening
from tollbox.studies.store.codec import pack_answers
from tollbox.studies.store.store import Store

HOST = ["unshare", "--map-root-user", "--uts", "--ipc", "--fork"]


@pytest.mark.parametrize(
    ("folder", "kind", "journal"),
    [
        ("/data/runs/a", "nfs4", "rollback"),
        ("/data/runs local", "ext4", "wal"),
        ("/data/runs local/deep", "ext4", "wal"),
        ("/scratch/x", "lustre", "rollback"),
        ("/mnt/s", "fuse.sshfs", "rollback"),
        ("/mnt/d", "fuseblk", "wal"),
        ("/elsewhere", "overlay", "wal"),
    ],
)
def test_the_table_of_mounts_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, kind: str, journal: str
) -> None:
    table = tmp_path / "mounts"
    table.write_text(
        "overlay / overlay rw 0 0\nserver:/x /data ext4 rw 0 0\nserver:/x /data nfs4 rw 0 0\n"
        "/dev/a /data/runs\\040local ext4 rw 0 0\nm@o:/l /scratch lustre rw 0 0\n"
        "me@there: /mnt/s fuse.sshfs rw 0 0\n/dev/b /mnt/d fuseblk rw 0 0\n"
    )
    monkeypatch.setattr(journal_mode, "MOUNTS", table)
    assert journal_mode.file_system(Path(folder)) == kind
    assert journal_mode.journal_of(Path(folder)) == journal
    monkeypatch.setenv(journal_mode.VARIABLE, "wal")
    assert journal_mode.journal_of(Path(folder)) == "wal"
    monkeypatch.setenv(journal_mode.VARIABLE, "fast")
    with pytest.raises(InputError, match=r"TOLLBOX_JOURNAL is 'fast': expected wal or rollback"):
        journal_mode.journal_of(Path(folder))


def test_what_a_killed_writer_left_half_written_is_undone_by_a_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(journal_mode.VARIABLE, "rollback")
    path = tmp_path / "shard-0.sqlite"
    Store.create(path, sample_record(), [])
    whole = pack_answers([Answered(0, 0, 0, 0, np.arange(9), 1.0)])
    with Store(path, write=True) as store:
        store.record(whole)
    pid = os.fork()
    if pid == 0:  # writes pages of a commit that never ends
        store = Store(path, write=True)
        connection = store._connection
        connection.execute("PRAGMA cache_size=1")
        connection.execute("PRAGMA cache_spill=1")
        for _ in range(200):
            row = "INSERT INTO batches (content, checksum) VALUES (?, x'00')"
            connection.execute(row, (os.urandom(5000),))
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    assert (tmp_path / "shard-0.sqlite-journal").stat().st_size
    with Store(path, write=False) as store:
        store.check_whole()
        [answers] = store.answers({0}).values()
        assert len(answers) == 1
    assert not list(tmp_path.glob("*-shm"))


def test_a_writer_that_stands_still_in_a_commit_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(journal_mode.VARIABLE, "rollback")
    monkeypatch.setattr(opening, "BUSY_SECONDS", 0.1)
    path = tmp_path / "shard-0.sqlite"
    Store.create(path, sample_record(), [])
    with Store(path, write=True) as store:
        store._connection.execute("BEGIN EXCLUSIVE")
        holder = (
            rf"in use by another process \(process {os.getpid()} on .*\), which does not finish"
        )
        with pytest.raises(FileError, match=holder):
            Store(path, write=False)
        store._connection.rollback()


def on_a_host(words: Sequence[str], folder: Path) -> subprocess.Popen[str]:
    """A command as on a machine of its own, with the folder in common; its words go to a file."""
    with (folder / f"{'-'.join(words)}.log".replace("/", "-")).open("w") as log:
        return subprocess.Popen(
            [*HOST, sys.executable, "-m", "tollbox", *words],
            cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": "1", journal_mode.VARIABLE: "rollback"},
            stdout=log,
            stderr=log,
            text=True,
        )


def ended(words: Sequence[str], folder: Path) -> tuple[int, str]:
    """The exit code of such a command, and what it said."""
    with on_a_host(words, folder) as process:
        code = process.wait()
    return code, (folder / f"{'-'.join(words)}.log").read_text()


def batches(path: Path) -> int:
    """How many are recorded."""
    if not path.exists():
        return 0
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=30)) as store:
        return int(store.execute("SELECT COUNT(*) FROM batches").fetchone()[0])


def test_two_hosts_on_one_file_system(tmp_path: Path) -> None:
    """Each runs a part; one is killed, read from the other and resumed there; merged, they are the
    whole. Nothing is shared but files."""
    if subprocess.run([*HOST, "true"], capture_output=True).returncode:
        pytest.skip("there can be no namespaces here")
    write_studies(tmp_path, images=2, seeds=2, budget=1000, attacks=3)
    run_study(Study.from_toml(tmp_path / "study-1.toml"), tmp_path / "whole").close()
    words = ["run", "study-1.toml", "--out"]
    with (
        on_a_host([*words, "p1", "--shard", "1/2"], tmp_path) as first,
        on_a_host([*words, "p2", "--shard", "2/2"], tmp_path) as second,
    ):
        while batches(tmp_path / "p2" / "shard-1.sqlite") < 3:
            assert second.poll() is None
            time.sleep(0.01)
        victims = children(second.pid)
        for pid in victims:
            os.kill(pid, signal.SIGSTOP)
        assert not list(tmp_path.glob("*/*-shm"))
        code, told = ended(["resume", "p2"], tmp_path)
        assert code == 2, told
        assert "is in use by another process (process " in told
        assert f" on {socket.gethostname()})" in told  # also if it stands still in a commit
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        assert second.wait() != 0
        for command in ("status", "resume"):
            code, told = ended([command, "p2"], tmp_path)
            assert code == 0, told
        assert first.wait() == 0
    merge_parts(tmp_path / "merged", [tmp_path / "p1", tmp_path / "p2"]).close()
    assert contents(tmp_path / "merged") == contents(tmp_path / "whole")
    assert not list(tmp_path.glob("p?/*-shm"))
    assert not list(tmp_path.glob("p?/*-wal"))
