"""A store that version 0.1.0 wrote, before stores kept the attacks' parts and the noise's version:
it is read, and not resumed.

`stores/v1` was made by `tollbox run study.toml`, killed after its 26th batch.
"""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from small_studies import rewrite_record

from tollbox.cli.app import main
from tollbox.errors import InputError
from tollbox.studies import StudyResults
from tollbox.studies import fingerprint as identity
from tollbox.studies.store.record import parts_of
from tollbox.studies.store.store import Store

KEPT = Path(__file__).parent.parent / "stores" / "v1"

Command = Callable[..., tuple[int, str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(KEPT, tmp_path / "out")
    return tmp_path / "out"


@pytest.fixture
def command(folder: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    def run(name: str, *options: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as end:
            main([name, str(folder), *options])
        out, err = capsys.readouterr()
        return int(end.value.code or 0), " ".join((out + err).split())

    return run


def rows(file: Path) -> list[dict[str, str]]:
    with open(file, newline="") as content:
        return list(csv.DictReader(content))


def test_it_is_read(folder: Path, command: Command, tmp_path: Path) -> None:
    code, text = command("status")
    assert code == 0
    assert "before: " in text
    assert "6 cells are left" in text
    assert "Not known: repeated runs may or may not agree bit for bit." in text
    assert command("export", "--out", str(tmp_path / "csv"))[0] == 0
    assert len(rows(tmp_path / "csv" / "cells.csv")) == 2
    assert command("report")[0] == 0
    page = (folder / "report.html").read_text()
    assert "a-cgba" in page
    assert "The images cannot be shown: these cells cannot be replayed here: noise was" in page
    with StudyResults(folder) as results:
        assert (results.record.attacks, results.record.noise) == (None, 1)
        [first, _] = results.results()
        assert first.improvements
        with pytest.raises(InputError, match="cannot be replayed here: noise was version 1 and"):
            results.replayed(first.index)


def test_it_is_not_resumed_since_the_noise_is_another(folder: Path, command: Command) -> None:
    code, text = command("resume")
    assert code == 2
    assert "cannot be resumed: noise was version 1 and is 2; resume it with tollbox 0.1.0" in text
    assert "6 cells are left" in command("status")[1]


def test_under_other_parts_it_is_read_and_not_resumed(
    folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the preset had changed since, and the noise had not."""
    monkeypatch.setattr(identity, "NOISE_VERSION", 1)
    with StudyResults(folder) as results:
        parts = {spec.name: parts_of(spec.attack) for spec in results.study.attacks}
    assert parts["a-cgba"]["search.tau"] == "0.001"
    with Store.open(folder / "shard-0.sqlite", write=True) as store:
        store._connection.execute("INSERT INTO about VALUES ('attacks', '{}')")
        rewrite_record(store, "attacks", parts)
    parts["a-cgba"]["search.tau"] = "0.0001"
    with Store.open(folder / "shard-0.sqlite", write=True) as store:
        rewrite_record(store, "attacks", parts)
    code, text = command("resume")
    assert code == 2
    assert "the attack a-cgba was begun with search.tau = 0.0001, and is 0.001 now; resume" in text
    assert "6 cells are left" in command("status")[1]
    assert command("export")[0] == 0
