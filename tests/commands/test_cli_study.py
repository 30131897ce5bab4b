"""`tollbox run`, `resume`, `status`, `export`, as a user types them, whatever comes in between."""

from __future__ import annotations

import contextlib
import csv
import errno
import fcntl
import itertools
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_studies import NETWORK, StudyFolder, contents, rewrite_record
from test_store import remount, tmpfs

from tollbox.cli.app import main
from tollbox.studies import StudyResults
from tollbox.studies.store.store import Store

BEGIN = ("run", "study.toml", "--out", "out")


class Killed(BaseException):
    """Stands for kill -9 where a process of its own is not needed."""


class Case:
    """A folder with a study; commands are run in it."""

    def __init__(
        self,
        study: StudyFolder,
        capture: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        self.folder, self.out = study.folder, study.folder / "out"
        self.module, self.code, self.file = study.module, study.code, study.file
        self._capture, self.patch = capture, monkeypatch

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, stdout, stderr."""
        sys.modules.pop(self.module, None)
        with pytest.raises(SystemExit) as end:
            main(list(arguments))
        out, err = self._capture.readouterr()
        assert "Traceback" not in err
        return int(end.value.code or 0), out, err

    def begin(self, out: str = "out") -> tuple[int, str, str]:
        return self.run("run", "study.toml", "--out", out, *self.trust)

    trust: tuple[str, ...] = ()

    def told(self, code: int, *words: str, command: tuple[str, ...] = ("resume", "out")) -> str:
        """The command ends with this code and one sentence that says all this."""
        found, _, err = self.run(*command, *self.trust)
        assert found == code, err
        last = err.rstrip("\n").split("\n")[-1]
        assert last.startswith("tollbox: ")
        for word in words:
            assert word in last
        return last

    def cut_off(self, begin: Callable[[], Any], batches: int = 12) -> None:
        """As killed after so many batches were recorded: nothing is said or cleaned up."""
        original = Store.record
        calls = itertools.count(1)

        def record(store: Store, answers: Any) -> None:
            original(store, answers)
            if next(calls) == batches:
                raise Killed

        self.patch.setattr(Store, "record", record)
        with pytest.raises(Killed):
            begin()
        self.patch.setattr(Store, "record", original)
        self._capture.readouterr()

    def half(self) -> None:
        """A study that was cut off, and the same unbroken, in `whole`."""
        code, _, err = self.begin("whole")
        assert code == 0, err
        self.cut_off(lambda: main(["run", "study.toml", "--out", "out", *self.trust]))
        assert 0 <= len(contents(self.out)) < 12

    def goes_on(self) -> str:
        """Resumed, it ends as the unbroken one."""
        code, _, err = self.run("resume", "out", *self.trust)
        assert code == 0, err
        assert contents(self.out) == contents(self.folder / "whole")
        return err


@pytest.fixture
def case(
    study_folder: StudyFolder,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Case:
    return Case(study_folder, capsys, monkeypatch)


def test_a_file_in_place_of_the_folder_of_figures_is_told(case: Case) -> None:
    case.half()
    (case.folder / "file").touch()
    code, _, err = case.run("report", "out", "--figures", "file")
    assert (code, err.startswith("tollbox: --figures file is a file: expected a")) == (2, True)


# -- what is as it should be ----------------------------------------------------------------------


def test_a_study_from_beginning_to_end(case: Case) -> None:
    code, out, err = case.run("run", "study.toml", "--dry-run")
    assert (code, err) == (0, "")
    assert "12 cells" in out
    assert not case.out.exists()
    case.half()
    code, out, _ = case.run("status", "out")
    left = 12 - len(contents(case.out))
    assert code == 0
    assert f"{left} cells remain. Resume with `tollbox resume out`" in out
    assert case.goes_on() != ""
    code, out, _ = case.run("status", "out")
    assert "All cells are done." in out
    assert "3/3" in out
    case.patch.setenv("COLUMNS", "40")
    _, narrow, _ = case.run("status", "out")
    assert narrow.splitlines()[2:4] == ["  cells: 3/3", "  failed: 0"]
    assert narrow.splitlines()[4].startswith("  median l2: ")
    assert case.run("resume", "out")[0] == 0


def test_export_prices_the_same_answers_again(case: Case) -> None:
    case.file.write_text(case.file.read_text().replace("budget = 60", "max_queries = 40"))
    assert case.begin()[0] == 0
    assert case.run("export", "out", "--out", "plain")[0] == 0
    assert case.run("export", "out", "--out", "dear", "--price", "10")[0] == 0
    assert case.run("export", "out", "--out", "free", "--price", "inf")[0] == 0

    def rows(folder: str, name: str) -> list[dict[str, str]]:
        with open(case.folder / folder / name, newline="") as file:
            return list(csv.DictReader(file))

    plain, dear = rows("plain", "cells.csv"), rows("dear", "cells.csv")
    assert len(plain) == len(dear) == 12
    for one, other in zip(plain, dear, strict=True):
        queries, flagged = int(one["queries"]), int(one["flagged"])
        assert float(other["cost"]) == queries + 9 * flagged
        assert (one["counted_price"], other["counted_price"]) == (one["price"], "10")
        same = {"cost": "", "counted_price": ""}
        assert {**one, **same} == {**other, **same}
        if one["price"] == "10":
            assert one == other
    vanilla = [r for r in dear if r["attack"] == "surfree" and r["price"] == "1"]
    assert [r["cost"] for r in vanilla] == [
        r["cost"] for r in plain if r["attack"] == "surfree" and r["price"] == "10"
    ]
    assert all(float(r["cost"]) == int(r["flagged"]) for r in rows("free", "cells.csv"))
    for one, other in zip(rows("plain", "steps.csv"), rows("dear", "steps.csv"), strict=True):
        assert float(other["cost"]) == int(one["queries"]) + 9 * int(one["flagged"])
        assert (one["counted_price"], other["counted_price"]) == (one["price"], "10")
    assert len((case.folder / "plain" / "images.txt").read_text().splitlines()) == 3
    case.told(2, "--price is -1.0: expected", command=("export", "out", "--price=-1"))


def test_a_time_limit_and_then_resume(case: Case) -> None:
    assert case.begin("whole")[0] == 0
    code, _, err = case.run("run", "study.toml", "--out", "out", "--time-limit", "0.001s")
    assert code == 3
    left = 12 - len(contents(case.out))
    assert f"Time limit reached; {left} cells remain. Resume with `tollbox resume out`" in err
    case.goes_on()


# -- mistakes, and what has changed ---------------------------------------------------------------


def test_a_folder_that_has_no_study(case: Case) -> None:
    for command in ("resume", "status", "export"):
        told = ("is not a folder", "expected a folder that `tollbox run` or")
        case.told(2, *told, command=(command, "nowhere"))
    (case.folder / "empty").mkdir()
    case.told(2, "empty has no study", command=("resume", "empty"))
    case.told(2, "--out is not given", command=("run", "study.toml"))


def test_run_again_with_the_same_or_another_study(case: Case) -> None:
    case.half()
    command = ("run", "study.toml", "--out", "out")
    case.told(2, "out already has this study: resume it with `tollbox resume out`", command=command)
    text = case.file.read_text()
    case.file.write_text(text.replace("prices = [1, 10]", "prices = [1, 20]"))
    words = (
        "out has another study, started from study.toml; line 2 of study.toml is the first that",
        "differs (prices = [1, 10] there, prices = [1, 20] here)",
        "resume the study as it was with `tollbox resume out`, or choose another folder",
    )
    case.told(2, *words, command=command)
    err = case.goes_on()
    assert "study.toml was edited since (line 2): this resumes the study as it was" in err
    assert "use `tollbox run` with another --out" in err


def test_an_edited_study_is_told_wherever_one_stands(case: Case) -> None:
    case.half()
    case.file.write_text("# a remark\n" + case.file.read_text())
    (case.folder / "below").mkdir()
    case.patch.chdir(case.folder / "below")
    code, _, err = case.run("resume", "../out")
    assert code == 0, err
    assert "study.toml was edited since (line 1)" in err
    assert contents(case.out) == contents(case.folder / "whole")


@pytest.mark.parametrize("where", ["study\0.toml", "\ud800.toml", "pipe", "zeros"])
def test_a_study_file_that_cannot_be_read_is_not_compared(case: Case, where: str) -> None:
    case.half()
    os.mkfifo(case.folder / "pipe")
    (case.folder / "zeros").symlink_to("/dev/zero")
    with Store(case.out / "shard-0.sqlite", write=True) as store:
        rewrite_record(store, "where", where)
    signal.alarm(60)  # ends the tests rather than hang
    assert "was edited" not in case.goes_on()
    signal.alarm(0)


def test_changed_and_missing_images(case: Case) -> None:
    case.half()
    file = case.folder / "images.npz"
    kept = file.read_bytes()
    with np.load(file) as stored:
        images, labels = stored["images"], stored["labels"]
    images[2, 0, 0, 0] ^= 255
    np.savez(file, images=images, labels=labels)
    case.told(2, "the content of image 2 (2) of", "images.npz changed; restore the images")
    file.unlink()
    case.told(2, "study.toml", "images.npz", "does not exist")
    assert case.run("status", "out")[0] == 0
    file.write_bytes(kept)
    case.goes_on()


def test_a_changed_or_missing_model(case: Case) -> None:
    case.half()
    slightly = "self.first = nn.Parameter(1.0000001 * torch.randn("  # no answer changes
    case.code.write_text(NETWORK.replace("self.first = nn.Parameter(torch.randn(", slightly))
    words = f"out cannot be resumed: the weights of the model 'net' ({case.module}:net) changed"
    case.told(2, words, "restore it, or start a new study")
    case.code.unlink()
    case.told(2, "study.toml, line ", "the model 'net'", case.module)
    case.code.write_text(NETWORK)
    case.goes_on()


def test_a_function_with_other_answers(case: Case) -> None:
    case.file.write_text(case.file.read_text().replace(":net", ":labels"))
    case.half()
    case.code.write_text(NETWORK.replace("shift = 0", "shift = 1"))
    case.told(2, "out cannot be resumed: the labels for some images of the model 'net'")
    case.code.write_text(NETWORK)
    case.goes_on()


def test_a_changed_model_file(case: Case) -> None:
    file = case.folder / "net.pt"
    for name, seed in (("net.pt", 3), ("other.pt", 4)):
        torch.manual_seed(seed)
        net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 5)).eval()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            torch.jit.save(torch.jit.trace(net, torch.rand(2, 3, 8, 8)), case.folder / name)
    case.file.write_text(case.file.read_text().replace(f"{case.module}:net", "net.pt"))
    case.told(
        2, "net.pt is TorchScript", "--trust-model", command=("run", "study.toml", "--dry-run")
    )
    case.trust = ("--trust-model",)
    case.half()
    kept = file.read_bytes()
    file.write_bytes((case.folder / "other.pt").read_bytes())
    case.told(2, "the file of the model 'net' (net.pt) changed; restore it")
    file.unlink()
    case.told(2, "study.toml", "net.pt", "does not exist")
    file.write_bytes(kept)
    case.goes_on()


def test_a_changed_file_of_prices(case: Case) -> None:
    (case.folder / "dear.csv").write_text("class,price\n1,7\ndefault,1\n")
    case.file.write_text(case.file.read_text().replace("[1, 10]", '[1, "dear.csv"]'))
    case.half()
    (case.folder / "dear.csv").write_text("class,price\n1,8\ndefault,1\n")
    words = ("study.toml: the values of the price", "restore the file, or start")
    case.told(2, *words)
    (case.folder / "dear.csv").write_text("class,price\n1,7\ndefault,1\n")
    case.goes_on()


# -- the store ------------------------------------------------------------------------------------


def test_files_cut_short_or_of_another_kind(case: Case) -> None:
    assert case.begin("whole")[0] == 0
    assert case.begin()[0] == 0
    path = case.out / "shard-0.sqlite"
    whole = path.read_bytes()
    for content, words in (
        (whole[: len(whole) // 2], "restore a"),
        (whole[:4096], "restore a"),
        (b"", "not a study's"),
        (b"budget = 3\n" * 999, "not a database"),
    ):
        path.write_bytes(content)
        for command in ("resume", "status", "export"):
            case.told(2, "shard-0.sqlite", words, command=(command, "out"))
        assert path.read_bytes() == content
    path.unlink()
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE about (key, value)")
    case.told(2, "is not a study's: expected a file that tollbox made")
    path.write_bytes(whole)
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA user_version=7")
    case.told(2, "has schema 7: expected 5; it was made by a newer tollbox, use that one")
    path.write_bytes(whole)
    case.goes_on()


def test_a_second_process(case: Case) -> None:
    case.half()
    lock = os.open(case.out / "shard-0.lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.ftruncate(lock, 0)
        os.write(lock, b"process 123\n")
        case.told(2, "out is in use by another process (process 123); wait until it ends")
        code, out, _ = case.run("status", "out")
        assert (code, "It is running now: process 123." in out) == (0, True)
    finally:
        os.close(lock)
    assert "running now" not in case.run("status", "out")[1]
    case.goes_on()


def test_a_store_that_may_not_grow(case: Case) -> None:
    case.half()
    check = Store._check

    def small(store: Store) -> None:
        check(store)
        (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
        store._connection.execute(f"PRAGMA max_page_count={pages}")

    case.patch.setattr(Store, "_check", small)
    case.told(
        1,
        "shard-0.sqlite cannot be written: database or disk is full.",
        "All that was recorded before is safe: free some space",
        "resume with `tollbox resume`",
    )
    case.patch.setattr(Store, "_check", check)
    case.goes_on()


def test_a_full_disk(case: Case) -> None:
    assert case.begin("whole")[0] == 0
    with tmpfs(case.folder / "disk", "150k") as disk:
        (disk / "more").write_bytes(b"\0" * 40_000)
        case.told(
            1,
            "cannot be written: ",
            "All that was recorded before is safe: free some space",
            command=("run", "study.toml", "--out", "disk/out"),
        )
        before = len(contents(disk / "out"))
        assert case.run("status", "disk/out")[0] == 0
        assert case.run("resume", "disk/out")[0] == 1
        remount(disk, "size=8m")
        code, _, err = case.run("resume", "disk/out")
        assert code == 0, err
        assert contents(disk / "out") == contents(case.folder / "whole")
        assert before < 12


def test_a_read_only_folder(case: Case) -> None:
    assert case.begin("whole")[0] == 0
    with tmpfs(case.folder / "disk", "8m") as disk:
        case.cut_off(lambda: main(["run", "study.toml", "--out", "disk/out"]))
        done = len(contents(disk / "out"))
        remount(disk, "ro")
        case.told(2, "cannot be written", "writable", command=("resume", "disk/out"))
        code, out, _ = case.run("status", "disk/out")
        assert code == 0
        assert f"{12 - done} cells remain" in out
        case.told(2, "cannot be written", command=("export", "disk/out"))
        case.told(2, "cannot be written", command=("run", "study.toml", "--out", "disk/another"))
        remount(disk, "rw")
        assert case.run("resume", "disk/out")[0] == 0
        assert contents(disk / "out") == contents(case.folder / "whole")


# -- cells that cannot be replayed, that failed, that were answered differently -------------------


def test_cells_that_cannot_be_replayed_are_named_and_rerun(case: Case) -> None:
    case.half()
    done = contents(case.out)
    with Store(case.out / "shard-0.sqlite", write=True) as store:
        rewrite_record(store, "text", store.study.text.replace("budget", "seeds = [9]\nbudget"))
        rewrite_record(
            store, "environment", {**vars(store.study.environment), "device": "cuda (H100)"}
        )
    told = case.told(
        1,
        "cells cannot be replayed here; the first is surfree, c* = 1, image ",
        "device was cuda (H100), is cpu",
        "Resume where they were started, or restart them with `tollbox resume out --rerun`",
    )
    assert ": ask " in told
    assert all(contents(case.out)[cell] == done[cell] for cell in done)
    code, _, err = case.run("resume", "out", "--rerun")
    assert code == 0
    assert "cells whose queries no longer matched the recording" in err
    assert len(contents(case.out)) == 12


@pytest.mark.parametrize(
    ("key", "before"), [("tollbox", "0.0.9"), ("torch", "0.4"), ("numpy", "1.0"), ("device", "mps")]
)
def test_another_environment_is_told_before_a_study_goes_on(
    case: Case, key: str, before: str
) -> None:
    case.half()
    with Store(case.out / "shard-0.sqlite", write=True) as store:
        rewrite_record(store, "environment", {**vars(store.study.environment), key: before})
    err = case.goes_on()
    [notice] = [line for line in err.splitlines() if "was started elsewhere" in line]
    assert f"This study was started elsewhere ({key} was {before}, is " in notice
    assert "elsewhere" not in case.run("resume", "out")[2]  # nothing is left to be run


def test_the_same_environment_is_not_mentioned(case: Case) -> None:
    case.half()
    with Store(case.out / "shard-0.sqlite", write=True) as store:
        rewrite_record(store, "environment", {**vars(store.study.environment), "python": "3.1"})
    assert "elsewhere" not in case.goes_on()


def test_failed_cells_are_run_again(case: Case) -> None:
    assert case.begin("whole")[0] == 0
    broken = NETWORK.replace(
        "def forward(self, images):",
        "calls = 0\n\n    def forward(self, images):\n"
        "        Net.calls += 1\n"
        "        if Net.calls > 30:\n            raise RuntimeError('no more')",
    )
    case.code.write_text(broken)
    code, _, err = case.begin()
    assert code == 0
    assert "cells failed; the first, surfree, c* = 1, image 0: " in err
    assert "RuntimeError: no more" in err
    assert "Run them again with `tollbox resume out --failed`" in err
    _, out, _ = case.run("status", "out")
    assert "cells failed; the first, surfree, c* = 1, image 0: " in out
    assert "RuntimeError: no more" in out
    case.code.write_text(NETWORK)
    before = contents(case.out)
    assert case.run("resume", "out")[0] == 0
    assert contents(case.out) == before
    code, _, err = case.run("resume", "out", "--failed")
    assert (code, "failed" in err) == (0, False)
    assert "3/3" in err
    assert contents(case.out) == contents(case.folder / "whole")


def test_images_that_a_model_gets_right_are_told_and_kept(case: Case) -> None:
    """Of the three images the second is misclassified: judged in a run, not again in a resume."""
    with np.load("images.npz") as arrays:
        images, labels = arrays["images"], arrays["labels"]
    labels[1] = (labels[1] + 1) % 5
    np.savez("images.npz", images=images, labels=labels)
    text = case.file.read_text()
    case.file.write_text(text.replace("[images]\n", "[images]\ncorrect_only = true\n"))
    sentence = "The model 'net' classifies 2 of the first 3 images correctly: these are attacked."
    _, planned, _ = case.run("run", "study.toml", "--dry-run")
    assert sentence in planned
    assert "8 cells" in planned
    case.cut_off(case.begin)
    code, out, err = case.run("resume", "out")
    assert code == 0, err
    assert sentence in out
    assert sentence in case.run("status", "out")[1]
    assert len(contents(case.out)) == 8
    assert case.run("report", "out")[0] == 0
    page = (case.out / "report.html").read_text()
    assert "of the first 3 images correctly: these are attacked" in page
    assert "2 images; 8 of 8 runs are finished" in page
    assert "misclassifies anyway" not in page
    case.run("export", "out")
    with open("out/export/cells.csv") as file:
        assert {row["name"] for row in csv.DictReader(file)} == {"0", "2"}
    assert case.begin()[0] == 2  # and not judged for nothing
    case.file.write_text("metered = true\n" + case.file.read_text())
    case.told(
        *(2, "study.toml, line 8", "images.correct_only and metered are both set", "bills every"),
        command=("run", "study.toml", "--dry-run"),
    )


def test_a_flaky_model_is_reported(case: Case) -> None:
    case.half()
    flaky = NETWORK.replace(
        "        return torch.tanh",
        "        if Net.calls > 1:\n            return self.plain(images).roll(1, 1)\n"
        "        Net.calls += 1\n        return self.plain(images)\n\n"
        "    calls = 0\n\n    def plain(self, images):\n        return torch.tanh",
    )
    case.code.write_text(flaky)  # the probes are answered as before
    assert case.run("resume", "out")[0] == 0
    _, out, _ = case.run("status", "out")
    assert "Note: " in out
    assert "differently the second time" in " ".join(out.split())


# -- the page -------------------------------------------------------------------------------------


def test_a_report_is_written_whole_or_not_at_all(case: Case) -> None:
    """On a full disk the old page stays as it is, and no part of the new one is left."""
    assert case.begin()[0] == 0
    assert case.run("report", "out")[0] == 0
    page, files = case.out / "report.html", sorted(case.out.iterdir())
    before = page.read_bytes()

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with case.patch.context() as patch:
        patch.setattr(os, "fsync", full)
        command = ("report", "out", "--reading", "paper")
        case.told(2, "--out out/report.html cannot be written: No space left", command=command)
    assert page.read_bytes() == before
    assert sorted(case.out.iterdir()) == files
    assert case.run("report", "out", "--reading", "paper")[0] == 0
    assert page.read_bytes() != before


def test_a_report_replaces_nothing_but_a_page(case: Case) -> None:
    assert case.begin()[0] == 0
    for name, content in {"precious.txt": "my notes\n", "other.html": "<!doctype html>\n"}.items():
        Path(name).write_text(content)
        words = f"--out {name} already exists, and is not a file that this command wrote"
        case.told(2, words, command=("report", "out", "--out", name))
        assert Path(name).read_text() == content


# -- processes of their own -----------------------------------------------------------------------


@contextlib.contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", "from tollbox.cli import main; main()", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for_batches(folder: Path, process: subprocess.Popen[str], batches: int = 1) -> None:
    """Wait until so many batches are recorded."""
    path = folder / "shard-0.sqlite"
    recorded = 0
    while recorded < batches:
        assert process.poll() is None
        time.sleep(0.005)
        if path.exists():
            with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as store:
                (recorded,) = store.execute("SELECT COUNT(*) FROM batches").fetchone()


EXACT = NETWORK.replace("Net().eval()", "Net().double().eval()")
"""In float64, where a result does not depend on the rows beside it."""


@pytest.mark.slow
def test_ctrl_c_and_a_second_process_that_is_alive(case: Case) -> None:
    case.code.write_text(EXACT)
    case.file.write_text(case.file.read_text().replace("budget = 60", "budget = 700"))
    assert case.begin("whole")[0] == 0
    with started("run", "study.toml", "--out", "out") as process:
        wait_for_batches(case.out, process)
        case.told(2, f"in use by another process (process {process.pid})")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    left = 12 - len(contents(case.out))
    assert process.returncode == 130, err
    assert f"Interrupted; {left} cells remain. Resume with `tollbox resume out`" in err
    assert left > 0
    case.goes_on()


def read_line(process: subprocess.Popen[str], words: str) -> str:
    """Wait for a line on stderr that has these words."""
    assert process.stderr is not None
    seen = []
    for line in process.stderr:
        seen.append(line)
        if words in line:
            return line
    raise AssertionError("".join(seen))


def write_odd_model(case: Case, workers: int, odd: str) -> None:
    """The model does something odd from its 40th batch on; the study has so many workers."""
    case.code.write_text(
        EXACT.replace("return torch.tanh", "be_odd()\n        return torch.tanh")
        + "import os, threading\nfrom pathlib import Path\ncalls = 0\n"
        "def be_odd():\n    global calls\n    calls += 1\n"
        f"    if calls > 40:\n        {odd}\n"
    )
    text = case.file.read_text().replace("budget = 60", "budget = 700")
    case.file.write_text(f"workers = {workers}\n{text}")


HANGS = "Path(f'waits-{os.getpid()}').touch(); threading.Event().wait()"


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_second_signal_stops_in_the_middle_of_a_batch(
    case: Case, workers: int, number: signal.Signals
) -> None:
    """The model never answers again; what is saved by then is said."""
    write_odd_model(case, workers, HANGS)
    with started("run", "study.toml", "--out", "out") as process:
        while len(list(case.folder.glob("waits-*"))) < workers:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(number)
        assert "finishing the batch" in read_line(process, "to stop now")
        process.send_signal(number)
        line = read_line(process, "interrupted")
        assert process.wait() == 128 + number
    done = len(contents(case.out))
    assert line == (
        f"tollbox: interrupted: {done} of 12 cells are finished and saved. All answers are kept. "
        "Resume with `tollbox resume out`.\n"
    )


IMPATIENT = """
from tollbox.studies import coordinator
from tollbox.cli import main
coordinator.GRACE_SECONDS = 0.5
if __name__ == "__main__":
    main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_model_that_hangs_is_ended_when_the_time_is_up(case: Case, workers: int) -> None:
    write_odd_model(case, workers, HANGS)
    Path("impatient.py").write_text(IMPATIENT)
    command = ["impatient.py", "run", "study.toml", "--out", "out", "--time-limit", "5s"]
    ended = subprocess.run([sys.executable, *command], capture_output=True, text=True)
    assert ended.returncode == 1, ended.stderr
    last = ended.stderr.splitlines()[-1]
    assert "time limit reached, and the model has not answered for " in last
    assert "All recorded answers are kept. Resume with `tollbox resume out`." in last
    case.code.write_text(EXACT)
    assert case.run("resume", "out")[0] == 0
    assert case.begin("whole")[0] == 0
    assert contents(case.out) == contents(case.folder / "whole")


@pytest.mark.slow
def test_a_model_that_kills_its_process_is_given_up(case: Case) -> None:
    write_odd_model(case, 2, "os._exit(9)")
    with started("run", "study.toml", "--out", "out") as process:
        _, err = process.communicate()
    assert process.returncode == 1, err
    for worker in (0, 1):
        died = f"worker {worker} died (exit code 9)"
        assert err.count(f"{died}; another one takes over its cells.") == 1
        assert err.count(f"{died}; its cells wait until another one is free.") == 1
        assert err.count(f"{died}; its cells are left, and the others continue.") == 1
    assert "Resume with `tollbox resume out`" in err.splitlines()[-1]


FIRST = """
import os
from pathlib import Path

def first(name, times=1):
    "Whether this is one of the first processes, so many of them, that ask."
    for number in range(times):
        try:
            with Path(f"{name}-{number}").open("x") as file:
                file.write(str(os.getpid()))
            return True
        except FileExistsError:
            if Path(f"{name}-{number}").read_text() == str(os.getpid()):
                return True
    return False
"""


def run_to_the_end(case: Case, code: int, *options: str) -> str:
    """A run in processes of their own; what it says."""
    with started("run", "study.toml", "--out", "out", *options) as process:
        _, err = process.communicate()
    assert process.returncode == code, err
    assert "Traceback" not in err
    return err


def ends_as_unbroken(case: Case) -> None:
    case.code.write_text(EXACT)
    assert case.begin("whole")[0] == 0
    assert but_warnings(case.out) == but_warnings(case.folder / "whole")


def but_warnings(folder: Path) -> dict[int, tuple[Any, ...]]:
    """The results, without what they say of memory that ran out meanwhile."""
    found = contents(folder)
    return {cell: (*values[:2], *values[3:]) for cell, values in found.items()}


@pytest.mark.slow
def test_a_process_that_is_killed_twice_goes_on_elsewhere(case: Case) -> None:
    """As by a kernel that is out of memory; the second time its cells wait for the other."""
    write_odd_model(case, 2, "first('killed', 2) and os.kill(os.getpid(), 9)")
    case.code.write_text(FIRST + case.code.read_text().replace("calls > 40", "calls == 40"))
    err = run_to_the_end(case, 0)
    assert err.count("died (signal 9)") == 2
    ends_as_unbroken(case)


SHORT = "if os.getpid() != int(Path('parent').read_text()) and first('short', {times}):"


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("where", ["load", "batch"])
def test_a_process_without_enough_memory_leaves_its_cells_to_others(
    case: Case, where: str, times: int
) -> None:
    """With both short of memory, a fresh one has the machine for itself."""
    condition = SHORT.format(times=times)
    write_odd_model(case, 2, f"{condition}\n            raise MemoryError('too large')")
    if where == "load":
        case.code.write_text(f"{EXACT}\n{condition}\n    raise MemoryError('too large')\n")
    parent = "if not Path('parent').exists():\n    Path('parent').write_text(str(os.getpid()))\n"
    case.code.write_text(f"{FIRST}{parent}{case.code.read_text()}")
    err = run_to_the_end(case, 0)
    lines = [line for line in err.splitlines() if "ran out of memory" in line]
    assert len(lines) == times
    assert all("too large" in line for line in lines)
    assert all(line.endswith("; its cells wait until another one is free.") for line in lines)
    ends_as_unbroken(case)


@pytest.mark.slow
def test_without_memory_for_a_single_process_the_study_can_be_resumed(case: Case) -> None:
    condition = SHORT.format(times=9)
    write_odd_model(case, 2, f"{condition}\n            raise MemoryError('too large')")
    parent = "Path('parent').exists() or Path('parent').write_text(str(os.getpid()))\n"
    case.code.write_text(f"{FIRST}{parent}{case.code.read_text()}")
    last = run_to_the_end(case, 1).splitlines()[-1]
    assert "there is not enough memory, even for a single process: worker " in last
    assert "All recorded answers are kept" in last
    assert last.endswith("Resume with `tollbox resume out`.")
    case.code.write_text(EXACT)
    assert case.run("resume", "out")[0] == 0
    ends_as_unbroken(case)


@pytest.mark.slow
def test_more_workers_than_cores_are_used_only_if_they_are_forced(case: Case) -> None:
    cores = len(os.sched_getaffinity(0))
    case.file.write_text(f"workers = {cores + 1}\n{case.file.read_text()}")
    notice = (
        f"tollbox: workers is {cores + 1}, and this machine has {cores} cores: no more processes "
        "than cores are used; --force-workers lifts that."
    )
    assert notice in run_to_the_end(case, 0)
    assert len(list(case.out.glob("shard-*.sqlite"))) == cores
    case.out.rename(case.folder / "fewer")
    assert notice not in run_to_the_end(case, 0, "--force-workers")
    assert len(list(case.out.glob("shard-*.sqlite"))) == cores + 1
    assert len(contents(case.out)) == 12


def attack(module: str, out: str) -> list[str]:
    given = {
        "model": f"{module}:net",
        "images": "images.npz",
        "attack": "surfree",
        "price": "3",
        "budget": "1500",
        "device": "cpu",
        "out": out,
    }
    return ["attack", *(f"--{name}={value}" for name, value in given.items())]


def same_files(one: Path, other: Path) -> None:
    assert sorted(p.name for p in one.glob("*.png")) == sorted(p.name for p in other.glob("*.png"))
    for name in ("results.csv", *(p.name for p in one.glob("*.png"))):
        assert (one / name).read_bytes() == (other / name).read_bytes()
    ledgers = [json.loads((folder / "ledger.json").read_text()) for folder in (one, other)]
    assert ledgers[0]["images"] == ledgers[1]["images"]
    with np.load(one / "adversarial.npz") as a, np.load(other / "adversarial.npz") as b:
        assert sorted(a) == sorted(b)
        for name in a:
            assert a[name].dtype == b[name].dtype
            assert a[name].tobytes() == b[name].tobytes()


@pytest.mark.slow
def test_an_attack_that_is_killed_and_resumed_ends_with_the_same_files(case: Case) -> None:
    assert case.run(*attack(case.module, "whole"))[0] == 0
    with started(*attack(case.module, "out")) as process:
        wait_for_batches(case.out, process, 5)
        process.kill()
        process.wait()
    assert not (case.out / "results.csv").exists()
    case.cut_off(lambda: main(["resume", "out"]), batches=9)
    code, _, err = case.run("resume", "out")
    assert code == 0, err
    same_files(case.out, case.folder / "whole")


@pytest.mark.slow
def test_an_attack_that_is_killed_while_it_saves(case: Case) -> None:
    assert case.run(*attack(case.module, "whole"))[0] == 0
    from tollbox.cli import attack_files

    original = attack_files.write_all

    def killed(folder: Path, *given: Any) -> None:
        original(folder, *given)
        (folder.parent / ".partial-1").mkdir()  # what one that was killed here leaves
        (folder.parent / ".partial-1" / "results.csv").write_text("half a li")
        raise Killed

    case.patch.setattr(attack_files, "write_all", killed)
    with pytest.raises(Killed):
        main(attack(case.module, "out"))
    case.patch.setattr(attack_files, "write_all", original)
    code, _, err = case.run("resume", "out")
    assert code == 0, err
    same_files(case.out, case.folder / "whole")


# -- what the numbers do not say by themselves ----------------------------------------------------


def test_infinite_medians_are_explained(case: Case) -> None:
    text = case.file.read_text().replace("prices = [1, 10]", "prices = [1, 50]")
    case.file.write_text(text)
    _, out, _ = case.begin()
    sentence = (
        "c* = 50: median l2 is inf: 0 of 3 images have an adversarial point; for 3 the budget"
    )
    assert sentence in out
    assert "c* = 1: median l2 is inf" not in out
    assert sentence in case.run("status", "out")[1]


def test_a_radius_that_is_not_resolved_is_said_once_and_kept(case: Case) -> None:
    case.file.write_text(case.file.read_text().replace(':net"', ':net"\ndtype = "bfloat16"'))
    said = "the model does not resolve estimate.delta = 0.0045 in bfloat16 (6 of 6 runs of a-hsja)"
    for command in (BEGIN, ("status", "out")):
        _, out, _ = case.run(*command)
        assert " ".join(out.split()).count("does not resolve") == 1
        assert f"Note: {said}" in " ".join(out.split())
    case.run("report", "out")
    assert said[4:] in (case.out / "report.html").read_text()
    with StudyResults(case.out) as results:
        rows = {row["attack"]: row for row in results.rows()}
        assert rows["a-hsja"]["resolution"] == "not resolved"
        assert "does not resolve" in rows["a-hsja"]["warnings"]
        assert rows["surfree"]["resolution"] == "no fixed radius"
        assert {each.resolution.precision for each in results.results("a-hsja")} == {"bfloat16"}


def test_a_model_that_misclassifies_all_images_measures_nothing(case: Case) -> None:
    case.code.write_text(NETWORK.replace("shift = 0", "shift = 1"))
    case.file.write_text(case.file.read_text().replace(":net", ":labels"))
    case.told(1, "nothing was measured", "'net' misclassifies all 3 images", command=BEGIN)
    case.told(1, "nothing was measured", "the order of the labels")


def test_a_model_that_answers_at_random_leaves_no_folder(case: Case) -> None:
    sampled = "torch.randint(0, 5, (len(images),))"
    case.code.write_text(NETWORK.replace("(net(images).argmax(1) + shift) % 5", sampled))
    case.file.write_text(case.file.read_text().replace(":net", ":labels"))
    case.told(2, "study.toml, line 11", "'net': source answers at random", command=BEGIN)
    assert not case.out.exists()


def test_the_check_of_models_is_said_and_kept(case: Case) -> None:
    padded = "(net(images).argmax(1) + (images[-1, 0, 0, 0] == 0.5)) % 5"
    case.code.write_text(NETWORK.replace("(net(images).argmax(1) + shift) % 5", padded))
    case.file.write_text(case.file.read_text().replace(":net", ":labels"))
    _, _, err = case.run(*BEGIN, "--check")
    assert "Note: the model 'net': " in err
    assert "among other images" in err
    assert "Note: the model 'net': " in case.run("status", "out")[1]
    case.file.write_text(f"check = true\n{case.file.read_text()}")
    assert "among other images" in case.begin("by_key")[2]


def test_a_metered_model_is_not_checked(case: Case) -> None:
    case.file.write_text(f"metered = true\n{case.file.read_text()}")
    case.told(2, "--check and --metered are both set", command=(*BEGIN, "--check"))
    assert not case.out.exists()
