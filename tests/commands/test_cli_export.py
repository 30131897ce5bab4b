"""`tollbox export`: what it writes where, and what it leaves alone."""

from __future__ import annotations

import csv
import json
import shutil
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from small_studies import copy_partial_study, reseal, rewrite_record

from tollbox.cli.app import main
from tollbox.data.tables import plain_text
from tollbox.studies.export import STEPS, files_of
from tollbox.studies.results import COLUMNS, StudyResults
from tollbox.studies.store.store import Store

Export = Callable[..., tuple[int, str]]
ALARMS = ("alarms", "first_alarm_queries", "first_alarm_flagged")
"""Columns that are empty without a detector."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    copy_partial_study(tmp_path / "out")
    return tmp_path / "out"


@pytest.fixture
def export(folder: Path, capsys: pytest.CaptureFixture[str]) -> Export:
    def run(*options: str, study: Path = folder) -> tuple[int, str]:
        with pytest.raises(SystemExit) as end:
            main(["export", str(study), *options])
        out, err = capsys.readouterr()
        return int(end.value.code or 0), " ".join((out + err).split())

    return run


def rows(file: Path) -> list[dict[str, str]]:
    with open(file, newline="") as content:
        return list(csv.DictReader(content))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_another_price_has_a_folder_of_its_own(folder: Path, export: Export) -> None:
    assert export()[0] == 0
    plain = contents(folder / "export")
    assert set(plain) == files_of("csv")
    assert export("--price", "1000")[0] == 0
    assert export("--price", "inf")[0] == 0
    assert contents(folder / "export") == plain
    for name in ("cells.csv", "steps.csv"):
        for row in rows(folder / "export" / name):
            assert row["counted_price"] == row["price"]
        for row in rows(folder / "export-price-1000" / name):
            assert (row["price"], row["counted_price"]) == ("3", "1000")
            other = int(row["queries"]) - int(row["flagged"])
            assert float(row["cost"]) == 1000 * int(row["flagged"]) + other
        assert {row["counted_price"] for row in rows(folder / "export-price-inf" / name)} == {"inf"}


def test_what_is_spent_includes_the_query_that_found_a_point(folder: Path, export: Export) -> None:
    assert export()[0] == 0
    for row in rows(folder / "export" / "steps.csv"):
        queries, flagged = int(row["queries"]), int(row["flagged"])
        assert flagged < queries
        assert float(row["cost"]) == flagged * float(row["price"]) + queries - flagged


def test_the_export_of_the_same_study_is_replaced(folder: Path, export: Export) -> None:
    assert export()[0] == 0
    before = contents(folder / "export")
    (folder / "export" / "cells.csv").write_text("old")
    assert export()[0] == 0
    assert contents(folder / "export") == before


def test_the_export_of_another_study_is_not(folder: Path, export: Export, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "other")
    with Store(tmp_path / "other" / "shard-0.sqlite", write=True) as store:
        rewrite_record(store, "text", store.study.text.replace("budget = 90", "budget = 91"))
    csv_folder = tmp_path / "csv"
    assert export("--out", str(csv_folder), study=tmp_path / "other")[0] == 0
    before = contents(csv_folder)
    code, text = export("--out", str(csv_folder))
    assert code == 2
    assert f"--out {csv_folder} has an export that may be of another study; remove" in text
    for marker in ("{}", "[]", "[" * 100_000, "not JSON", None):
        if marker is None:
            (csv_folder / "export.json").unlink()
        else:
            (csv_folder / "export.json").write_text(marker)
        assert export("--out", str(csv_folder))[0] == 2
    assert contents(csv_folder) == {k: v for k, v in before.items() if k != "export.json"}


def test_other_files_are_not_overwritten(folder: Path, export: Export, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "cells.csv").write_text("precious")
    code, text = export("--out", str(tmp_path / "mine"))
    assert (code, "may be of another study" in text) == (2, True)
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    code, text = export("--out", str(tmp_path / "mine"))
    assert (code, "files that this command does not write" in text) == (2, True)
    assert (tmp_path / "mine" / "cells.csv").read_text() == "precious"


def test_images_misclassified_from_the_start_are_marked(folder: Path, export: Export) -> None:
    with closing(sqlite3.connect(folder / "shard-0.sqlite")) as store, store:
        [first] = store.execute("SELECT min(cell) FROM results").fetchone()
        store.execute(
            "UPDATE results SET stop = 'already_misclassified', distance = 0 WHERE cell = ?",
            (first,),
        )
        reseal(store)
    assert export()[0] == 0
    cells = rows(folder / "export" / "cells.csv")
    assert list(cells[0]) == list(COLUMNS)
    assert [row["already_misclassified"] for row in cells] == ["true"] + ["false"] * (
        len(cells) - 1
    )
    steps = rows(folder / "export" / "steps.csv")
    assert list(steps[0]) == list(STEPS)
    key = ("model", "attack", "price", "seed", "image")
    marked = {tuple(row[name] for name in key) for row in cells[:1]}
    for row in steps:
        of_it = tuple(row[name] for name in key) in marked
        assert row["already_misclassified"] == str(of_it).lower()


def test_the_price_of_the_run_is_a_number(folder: Path, export: Export) -> None:
    assert export("--price", "7")[0] == 0
    for name in ("cells.csv", "steps.csv"):
        for row in rows(folder / "export-price-7" / name):
            assert (row["price"], row["price_ratio"], row["counted_price"]) == ("3", "3.0", "7")


def test_rows_have_the_columns_and_types_that_are_told(folder: Path) -> None:
    with StudyResults(folder) as results:
        for row in results.rows():
            kinds = {name: type(row[name]) for name in row if name not in ALARMS}
            assert kinds | dict.fromkeys(ALARMS, int) == COLUMNS
            assert [row[name] for name in ALARMS] == [None] * 3


def test_parquet_without_pyarrow_is_told_and_nothing_is_written(
    folder: Path, export: Export, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = set(folder.iterdir())
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    code, text = export("--format", "parquet")
    assert (code, set(folder.iterdir())) == (2, before)
    assert "pyarrow is not installed: it writes Parquet files" in text
    assert text.endswith("install it with `pip install 'tollbox[parquet]'`.")
    code, text = export("--format", "excel")
    assert (code, set(folder.iterdir())) == (2, before)
    assert "excel" in text
    assert "parquet" in text


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_names_are_no_formulas(folder: Path, export: Export, start: str) -> None:
    formula = f"{start}cmd|' /C calc'!A0"
    with closing(sqlite3.connect(folder / "shard-0.sqlite")) as store, store:
        store.execute("UPDATE images SET name = ?", (formula,))
        warnings = json.dumps([formula])
        store.execute("UPDATE results SET reason = ?, warnings = ?", (formula, warnings))
        change = "UPDATE about SET value = replace(value, ?, ?) WHERE key = ?"
        store.execute(change, ('a-cgba\\"', 'a-cgba\\"\\nname = \\"=a\\"', "text"))
        for key in ("series", "attacks"):
            store.execute(change, ("a-cgba", "=a", key))
        reseal(store)
    assert export()[0] == 0
    for row in rows(folder / "export" / "cells.csv"):
        assert row["name"] == row["reason"] == row["warnings"] == f"'{formula}"
        assert float(row["distance"]) > 0
    for name in ("cells.csv", "steps.csv"):
        assert {row["attack"] for row in rows(folder / "export" / name)} == {"surfree", "'=a"}


@pytest.mark.parametrize("value", [-5, -0.5, float("-inf"), None, "", "cat", "1-2", "a=b"])
def test_all_else_is_left_alone(value: object) -> None:
    assert plain_text(value) is value
