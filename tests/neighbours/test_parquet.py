"""An export as Parquet, and the rows of a study as a polars DataFrame, read back."""

from __future__ import annotations

import csv
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import polars
import pyarrow.parquet
import pytest
from small_studies import copy_partial_study, reseal

import tollbox as tb
from tollbox.cli.app import main
from tollbox.studies.export import STEPS, files_of, steps
from tollbox.studies.results import COLUMNS

TYPES = {str: "string", int: "int64", float: "double", bool: "bool"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study with an image that is misclassified, one without a point, and odd names."""
    copy_partial_study(tmp_path / "out")
    with closing(sqlite3.connect(tmp_path / "out" / "shard-0.sqlite")) as store, store:
        store.execute("UPDATE images SET name = '=é' WHERE place = 0")
        cells = [cell for (cell,) in store.execute("SELECT cell FROM results ORDER BY cell")]
        wrong = "UPDATE results SET stop = 'already_misclassified', distance = 0 WHERE cell = ?"
        store.execute(wrong, cells[:1])
        store.execute("UPDATE results SET distance = 9e999 WHERE cell = ?", cells[1:2])
        reseal(store)
    return tmp_path / "out"


def export(*options: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(["export", *options])
    return int(end.value.code or 0)


def test_a_parquet_export_has_the_rows_of_the_study(folder: Path) -> None:
    assert export(str(folder), "--format", "parquet") == 0
    out = folder / "export-parquet"
    assert {file.name for file in out.iterdir()} == files_of("parquet")
    with tb.studies.StudyResults(folder) as results:
        expected = {"cells": list(results.rows()), "steps": list(steps(results))}
    for name, columns in (("cells", COLUMNS), ("steps", STEPS)):
        table = pyarrow.parquet.read_table(out / f"{name}.parquet")
        assert table.to_pylist() == expected[name]
        kinds = {field.name: str(field.type) for field in table.schema}
        assert kinds == {column: TYPES[kind] for column, kind in columns.items()}
    cells = expected["cells"]
    assert [row["already_misclassified"] for row in cells[:2]] == [True, False]
    assert cells[1]["distance"] == float("inf")


def test_both_formats_have_the_same_values(folder: Path) -> None:
    price = ("--price", "inf")
    assert export(str(folder), "--format", "parquet", *price) == 0
    assert export(str(folder), *price) == 0
    for name in ("cells", "steps"):
        table = pyarrow.parquet.read_table(folder / "export-parquet-price-inf" / f"{name}.parquet")
        with open(folder / "export-price-inf" / f"{name}.csv", newline="") as file:
            lines = list(csv.DictReader(file))
        assert [*table.column_names] == list(lines[0])
        for row, line in zip(table.to_pylist(), lines, strict=True):
            assert {column: as_text(value) for column, value in row.items()} == line


def as_text(value: Any) -> str:
    """A value as a CSV file has it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f"'{value}" if isinstance(value, str) and value.startswith("=") else str(value)


def test_another_format_replaces_an_export_of_the_same_study(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "tables"
    for format in ("csv", "parquet", "csv"):
        assert export(str(folder), "--out", str(out), "--format", format) == 0
        assert {file.name for file in out.iterdir()} == files_of(format)


def test_a_study_without_finished_cells_keeps_its_types(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "shard-0.sqlite")) as store, store:
        store.execute("DELETE FROM results")
    assert export(str(folder), "--format", "parquet") == 0
    table = pyarrow.parquet.read_table(folder / "export-parquet" / "cells.parquet")
    assert (len(table), table.column_names) == (0, list(COLUMNS))
    assert str(table.schema.field("distance").type) == "double"
    with tb.studies.StudyResults(folder) as results:
        assert dict(results.to_polars().schema)["distance"] == polars.Float64


def test_to_polars_has_the_rows(folder: Path) -> None:
    with tb.studies.StudyResults(folder) as results:
        frame, rows = results.to_polars(price=5), list(results.rows(price=5))
    assert frame.columns == list(COLUMNS)
    assert frame.to_dicts() == rows
    kept = frame.filter(~polars.col("already_misclassified"))
    assert len(kept) == len(rows) - 1
    assert set(kept["price_ratio"]) == {3.0}


def test_text_that_is_not_utf_8_is_written_with_backslashes(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "shard-0.sqlite")) as store, store:
        store.execute("UPDATE results SET warnings = ?", ('["a \\udcff"]',))
        reseal(store)
    assert export(str(folder), "--format", "parquet") == 0
    table = pyarrow.parquet.read_table(folder / "export-parquet" / "cells.parquet")
    with tb.studies.StudyResults(folder) as results:
        assert {row["warnings"] for row in results.rows()} == {"a \udcff"}
        frame = results.to_polars()
    assert {*table.column("warnings").to_pylist(), *frame["warnings"]} == {r"a \udcff"}
