"""`--json`: one strict JSON object on stdout, and nothing else; mistakes are told as ever."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from small_studies import StudyFolder, rewrite_record
from test_cli import typed

import tollbox as tb
from tollbox.attacks import PRESETS, WITH_SURROGATE
from tollbox.cli.output import strict
from tollbox.studies.store.store import Store, shard_path


def never(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def read(capsys: pytest.CaptureFixture[str], *tokens: str) -> dict[str, Any]:
    code, out, err = typed(capsys, *tokens, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out, parse_constant=never)
    assert isinstance(found, dict)
    return found


def test_what_json_cannot_hold() -> None:
    assert strict({"a": [float("inf"), float("nan"), 1.5, 2], "b": ("\udcff",)}) == {
        "a": [None, None, 1.5, 2],
        "b": ["\\udcff"],
    }


def test_presets(capsys: pytest.CaptureFixture[str]) -> None:
    found = {each.pop("name"): each for each in read(capsys, "presets")["presets"]}
    assert found.keys() == {*PRESETS, *WITH_SURROGATE}
    assert found["a-cgba"] == {
        "family": "CGBA",
        "method": "VA+AS+AGREST",
        "kind": "asymmetric",
        "parts": PRESETS["a-cgba"].parts,
        "source": PRESETS["a-cgba"].source,
        "norms": ["l2"],
        "surrogate": False,
    }
    assert [name for name, each in found.items() if each["surrogate"]] == [*WITH_SURROGATE]
    assert sorted(n for n, each in found.items() if "linf" in each["norms"]) == sorted(
        tb.presets("linf")
    )
    some = [each["name"] for each in read(capsys, "presets", "rays")["presets"]]
    assert set(some) < set(found)
    assert "rays" in some
    code, out, _ = typed(capsys, "presets", "rais", "--json")
    assert (code, out) == (2, "")


def test_status(
    capsys: pytest.CaptureFixture[str], study_folder: StudyFolder, tmp_path: Path
) -> None:
    study_folder.file.write_text(
        study_folder.file.read_text().replace(
            "prices = [1, 10]",
            'prices = [1, inf, {ratio = "dear.csv", budget = 150}]\nmax_queries = 40',
        )
    )
    (tmp_path / "dear.csv").write_text("class,price\ndefault,100\n")
    assert typed(capsys, "run", "study.toml", "--out", "out")[0] == 0
    found = read(capsys, "status", "out")
    series = found.pop("series")
    assert found == {
        "name": "study",
        "folder": "out",
        "made_by": "run",
        "part": 1,
        "parts": 1,
        "norm": "l2",
        "cells": 18,
        "done": 18,
        "left": 0,
        "failed": 0,
        "queries": sum(each["queries"] for each in series),
        "running": [],
        "notes": ["Not checked: repeated runs may or may not agree bit for bit"],
        "failures": [],
    }
    with tb.studies.StudyResults("out") as results:
        known = results.status()
        assert [(e["attack"], e["model"], e["price"]) for e in series] == [
            (attack, "net", price)
            for attack in ("surfree", "a-hsja")
            for price in (1, None, "dear.csv")  # null: what is not finite
        ]
    for each, truth in zip(series, known, strict=True):
        assert each["name"] == truth.name
        assert (each["cells"], each["done"], each["counted"]) == (3, 3, truth.counted)
        assert each["queries"] == truth.queries
        infinite = truth.median == float("inf")
        assert each["median"] == (None if infinite else truth.median)
        assert sum(each["without_point"].values()) == sum(truth.without_point.values())
    assert any(each["median"] is None and each["counted"] for each in series)  # of "dear"
    assert any(each["median"] for each in series)


def test_status_of_what_is_not_begun_or_not_there(
    capsys: pytest.CaptureFixture[str], study_folder: StudyFolder
) -> None:
    assert typed(capsys, "status", "nowhere", "--json")[:2] == (2, "")
    done = ("run", "study.toml", "--out", "out", "--time-limit", "0.000000001s")
    assert typed(capsys, *done)[0] == 3
    found = read(capsys, "status", "out")
    assert found["left"] == found["cells"] == 12
    assert {(each["median"], each["counted"]) for each in found["series"]} == {(None, 0)}
    path = shard_path(Path("out"), 0)
    with Store(path, write=True) as store:
        rewrite_record(store, "text", "prices = 3")
    code, out, err = typed(capsys, "status", "out", "--json")
    assert (code, out) == (2, "")
    assert "its study text does not match its series" in err


def test_status_does_not_wait_for_torch(study_folder: StudyFolder) -> None:
    tb.run_study(study_folder.study(), "out")
    code = (
        "import sys; from tollbox.cli import main\n"
        "try: main(['status', 'out', '--json'])\n"
        "except SystemExit: sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0
