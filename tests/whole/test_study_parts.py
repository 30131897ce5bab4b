"""Parts of a study, run apart and merged, are the study; what does not belong together is told."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_studies import TEXT, StudyFolder, contents, reseal, rewrite_record, write_study

import tollbox as tb
from tollbox.errors import FileError, InputError
from tollbox.studies import StudyResults
from tollbox.studies.create import Part
from tollbox.studies.merge import merge_parts
from tollbox.studies.status import StudyStatus
from tollbox.studies.store.store import Store, read_record, shard_path

CELLS = 12


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StudyFolder:
    monkeypatch.syspath_prepend(tmp_path)
    return write_study(tmp_path, "parts_net", f"one_shape = true\n{TEXT}")


def run_parts(small: StudyFolder, count: int, name: str = "part") -> list[Path]:
    folders = [small.folder / f"{name}-{k}" for k in range(1, count + 1)]
    for k, folder in enumerate(folders, 1):
        tb.run_study(small.study(), folder, shard=f"{k}/{count}").close()
    return folders


def whole(small: StudyFolder) -> dict[int, tuple[object, ...]]:
    tb.run_study(small.study(), small.folder / "whole").close()
    return contents(small.folder / "whole")


@pytest.mark.parametrize("count", [1, 2, 5, 12])
def test_parts_merged_are_the_study(small: StudyFolder, count: int) -> None:
    """Each part has its share of the cells and nothing else, whoever reads it."""
    wanted, seen = whole(small), set()
    folders = run_parts(small, count)
    for k, folder in enumerate(folders):
        found = contents(folder)
        assert {cell % count for cell in found} == {k}
        assert all(found[cell] == wanted[cell] for cell in found)
        seen |= set(found)
        with StudyStatus(folder) as status:
            assert status.record.cells == len(found) == sum(s.cells for s in status.status())
            assert all(s.done == s.cells for s in status.status())
    assert seen == set(wanted) == set(range(CELLS))
    if count == 1:
        return
    with merge_parts(small.folder / "merged", folders[::-1]) as merged:
        assert len(merged) == merged.record.cells == CELLS
        assert merged.record.parts == 1
        assert list(merged.rows()) == list(StudyResults(small.folder / "whole").rows())
        assert merged.replayed(CELLS - 1).distance == merged.finished()[-1].distance
    assert contents(small.folder / "merged") == wanted
    assert contents(folders[0]) == {cell: wanted[cell] for cell in range(0, CELLS, count)}


@pytest.mark.slow
def test_parts_with_several_workers_have_several_shards_each(small: StudyFolder) -> None:
    wanted = whole(small)
    small.file.write_text("workers = 2\n" + small.file.read_text())
    folders = run_parts(small, 3)
    with StudyStatus(folders[1]) as status:
        names = [store.path.name for store in status.stores]
    assert names == ["shard-1.sqlite", "shard-4.sqlite"]
    merge_parts(small.folder / "merged", folders).close()
    with StudyStatus(small.folder / "merged") as status:
        assert len(status.stores) == 6
    assert contents(small.folder / "merged") == wanted


@pytest.mark.slow
def test_unfinished_parts_are_merged_and_resumed(small: StudyFolder) -> None:
    wanted, folders = whole(small), run_parts(small, 3)
    with Store(shard_path(folders[2], 2), write=True) as store:
        store.forget([5, 8])
    with merge_parts(small.folder / "merged", folders) as merged:
        assert len(merged) == CELLS - 2
    tb.run_study(small.study(), small.folder / "merged").close()
    assert contents(small.folder / "merged") == wanted


# -- what does not belong together ----------------------------------------------------------------


def refused(small: StudyFolder, folders: list[Path], words: str) -> None:
    out = small.folder / "merged"
    before = sorted(path.name for path in small.folder.iterdir())
    with pytest.raises(FileError, match=words):
        merge_parts(out, folders)
    assert sorted(path.name for path in small.folder.iterdir()) == before


def test_a_missing_part_and_a_double_one_are_named(small: StudyFolder) -> None:
    folders = run_parts(small, 3)
    refused(small, folders[:2], "part 3/3 is missing")
    refused(small, [folders[0]], "part 2/3, 3/3 is missing")
    shutil.copytree(folders[0], small.folder / "copy")
    refused(small, [*folders, small.folder / "copy"], "part 1/3 is given twice, as .*copy")


def test_foreign_parts_are_named(small: StudyFolder) -> None:
    folders = run_parts(small, 2)
    refused(small, [folders[0], *run_parts(small, 3, "of-three")[1:]], "one of 3 parts, not of 2")
    whole(small)
    refused(small, [folders[0], small.folder / "whole"], "has a whole study")
    text = small.file.read_text()
    small.file.write_text(text.replace("budget = 60", "budget = 61"))
    other = small.folder / "other"
    tb.run_study(small.study(), other, shard="2/2").close()
    refused(small, [folders[0], other], "line 2 of the study differs")
    refused(small, [small.folder / "nothing"], "is not a folder")
    with pytest.raises(InputError, match="no parts"):
        merge_parts(small.folder / "merged", [])


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("the noise", {"the version": "99"}, "the version of the noise changed from . to 99"),
        ("settings", {"other": 1}, "other settings"),
        ("environment", {"torch": "9.9"}, "other versions .torch was"),
        ("the model 'net'", {"the weights": "#00"}, "the weights of the model 'net' .* changed"),
    ],
)
def test_what_was_begun_otherwise_is_named(
    small: StudyFolder, key: str, value: object, words: str
) -> None:
    folders = run_parts(small, 2)
    with Store(shard_path(folders[1], 1), write=True) as store:
        begun = store.study.to_json()
        if key == "environment":
            value = {**begun[key], **value}  # type: ignore[dict-item]
        elif key.startswith("the "):
            [thing] = [name for name in begun["fingerprint"] if name.startswith(key)]
            key, changed = "fingerprint", {**begun["fingerprint"][thing], **value}  # type: ignore[dict-item]
            value = {**begun[key], thing: changed}
        rewrite_record(store, key, value)
    refused(small, folders, words)


def test_other_images_are_told(small: StudyFolder) -> None:
    folders = run_parts(small, 2)
    with Store(shard_path(folders[1], 1), write=True) as store:
        store._connection.execute("UPDATE images SET label = label + 1 WHERE place = 2")
        reseal(store._connection)
    refused(small, folders, "its images differ")


def test_where_it_was_run_and_under_which_python_may_differ(small: StudyFolder) -> None:
    wanted, folders = whole(small), run_parts(small, 2)
    with Store(shard_path(folders[1], 1), write=True) as store:
        begun = store.study.to_json()
        changed = {**begun["environment"], "device": "cuda (other)", "python": "3.99"}
        rewrite_record(store, "environment", changed)
        rewrite_record(store, "folder", "/elsewhere")
    merge_parts(small.folder / "merged", folders).close()
    assert contents(small.folder / "merged") == wanted


@pytest.mark.parametrize("table", ["batches", "results", "file"])
def test_a_damaged_part_is_told(small: StudyFolder, table: str) -> None:
    folders = run_parts(small, 2)
    path = shard_path(folders[1], 1)
    if table == "file":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    else:
        column = "content" if table == "batches" else "steps"
        with Store(path, write=True) as store:
            store._connection.execute(f"UPDATE {table} SET {column} = x'00ff00'")
            store._connection.commit()
    refused(small, folders, r"shard-1.sqlite (is damaged|has been cut short|cannot be used)")


def test_a_cell_that_was_renumbered_is_told(small: StudyFolder) -> None:
    folders = run_parts(small, 2)
    with Store(shard_path(folders[1], 1), write=True) as store:
        store.forget([5])
        store._connection.execute("UPDATE results SET cell = 5 WHERE cell = 3")
        store._connection.commit()
    refused(small, folders, r"shard-1.sqlite is damaged \(row 5 of results was changed\)")
    with Store(shard_path(folders[1], 1), write=True) as store:
        store._connection.execute("UPDATE results SET cell = 4 WHERE cell = 5")
        reseal(store._connection)
    refused(small, folders, r"shard-1.sqlite is damaged \(cell 4 is not one of its cells\)")


def test_a_part_that_is_being_run_is_not_merged(small: StudyFolder) -> None:
    folders = run_parts(small, 2)
    with Store(shard_path(folders[0], 0), write=True):
        refused(small, folders, "in use by another process")


def test_a_folder_keeps_its_part(small: StudyFolder) -> None:
    folders = run_parts(small, 2)
    with pytest.raises(InputError, match="has part 1/2 of this study, not part 2/2"):
        tb.run_study(small.study(), folders[0], shard="2/2")
    with pytest.raises(InputError, match="has part 1/2 of this study, not all"):
        tb.run_study(small.study(), folders[0])
    with tb.run_study(small.study(), folders[0], shard="1/2") as again:
        assert len(again) == CELLS // 2


@pytest.mark.parametrize("text", ["", "3", "0/4", "5/4", "a/b", "1/0", "-1/2", "1/2/3", 3])
def test_a_part_that_is_none_is_refused(text: object) -> None:
    with pytest.raises(InputError, match="expected K/N with K from 1 to N"):
        Part.parse(text)  # type: ignore[arg-type]


def test_more_parts_than_cells_are_refused(small: StudyFolder) -> None:
    with pytest.raises(InputError, match=r"is 13/13, and the study has 12 cells"):
        tb.run_study(small.study(), small.folder / "out", shard="13/13")
    assert not (small.folder / "out").exists()


# -- as a person would ----------------------------------------------------------------------------


def command(small: StudyFolder, *words: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tollbox", *map(str, words)],
        cwd=small.folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_four_processes_of_which_one_is_killed(small: StudyFolder) -> None:
    """`torture.py` does this with sixteen."""
    small.file.write_text(small.file.read_text().replace("budget = 60", "budget = 600"))
    wanted = whole(small)
    runs = [
        command(small, "run", "study.toml", "--out", f"p{k}", "--shard", f"{k}/4")
        for k in range(1, 5)
    ]
    victim = small.folder / "p2"
    while read_record(victim) is None and runs[1].poll() is None:
        time.sleep(0.02)
    runs[1].send_signal(signal.SIGKILL)
    for number, run in enumerate(runs):
        run.communicate(timeout=120)
        assert run.returncode == (-signal.SIGKILL if number == 1 else 0)
    again = command(small, "resume", "p2")
    _, said = again.communicate(timeout=120)
    assert again.returncode == 0, said
    merged = command(small, "merge", "merged", "p1", "p2", "p3", "p4")
    out, _ = merged.communicate(timeout=60)
    assert merged.returncode == 0
    assert "12 of 12 cells are finished" in out
    assert contents(small.folder / "merged") == wanted
    incomplete = command(small, "merge", "other", "p1", "p3", "p4")
    _, said = incomplete.communicate(timeout=60)
    assert incomplete.returncode == 2
    assert "part 2/4 is missing" in said
    assert not (small.folder / "other").exists()


@pytest.mark.slow
def test_the_job_array_of_the_examples(small: StudyFolder) -> None:
    """As Slurm would run it: the variables of the task, and a second time once it has ended."""
    script = Path(__file__).parents[2] / "examples" / "job_array.sh"
    bin_folder = small.folder / "bin"
    bin_folder.mkdir()
    tollbox = bin_folder / "tollbox"
    tollbox.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tollbox "$@"\n')
    tollbox.chmod(0o755)
    for task in (1, 2, 2):
        subprocess.run(
            ["bash", script, "study.toml", "results"],
            cwd=small.folder,
            env={
                **os.environ,
                "OMP_NUM_THREADS": "1",
                "PATH": f"{bin_folder}:{os.environ['PATH']}",
                "SLURM_ARRAY_TASK_ID": str(task),
                "SLURM_ARRAY_TASK_COUNT": "2",
            },
            check=True,
            capture_output=True,
        )
    parts = [small.folder / "results-parts" / str(task) for task in (1, 2)]
    merge_parts(small.folder / "merged", parts).close()
    assert contents(small.folder / "merged") == whole(small)
