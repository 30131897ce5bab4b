"""The export of a study as tables, in CSV or Parquet.

    cells        a row for each finished cell
    steps        a row for each point with a smaller distance than all before it, with the account
                 at that point
    images.txt   content hash, label and name of each image, in the format of `images.list`
    export.json  name and identity of the study

1. Columns and their types are the same in both formats: `COLUMNS` and `STEPS`. `counted_price` is
   the price at which the costs of a row are counted, and `price_ratio` the c* of the run.
2. An image that is misclassified without an attack has distance 0, and `already_misclassified` is
   true, so that medians can exclude it.
3. A folder with the export of another study is not changed.
4. In a CSV file, text that a spreadsheet would read as a formula is marked as text.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from ..data.output import check_free
from ..data.tables import Format, flag_text, plain_text, utf8
from ..data.user_code import optional
from ..errors import InputError
from .results import COLUMNS, StudyResults

Rows = Iterable[Mapping[str, Any]]
MARKER = "export.json"
STEPS: dict[str, type] = {
    name: COLUMNS[name]
    for name in (
        *("model", "attack", "price", "price_ratio", "counted_price", "seed", "image"),
        *("already_misclassified", "cost", "flagged", "queries", "distance", "norm"),
    )
}
"""Columns of a step: some from its cell, and the account at that step."""
AT_A_TIME = 10_000
"""Maximum number of rows of a Parquet file in memory at once."""


def files_of(format: Format) -> frozenset[str]:
    return frozenset({f"cells.{format}", f"steps.{format}", "images.txt", MARKER})


FILES = files_of("csv") | files_of("parquet")
"""Files that an export may replace."""


def export_folder(study: Path, price: float | None = None, format: Format = "csv") -> Path:
    """Return the default folder of an export: one for each price and format."""
    name = "export" if format == "csv" else f"export-{format}"
    return study / (name if price is None else f"{name}-price-{price:.15g}")


def check_folder(results: StudyResults, folder: Path) -> None:
    """Raise InputError unless a folder is free, or has only an export of this study."""
    check_free(folder, FILES, replace=True)
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    try:
        marker = json.loads((folder / MARKER).read_text(encoding="utf-8"))
        same = marker["identity"] == _identity(results)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        same = False
    if not same:
        raise InputError(
            f"{folder} has an export that may be of another study",
            remedy="remove it, or choose another folder",
            input="out",
        )


def write_export(
    results: StudyResults, folder: Path, price: float | None = None, format: Format = "csv"
) -> None:
    write = _write_csv if format == "csv" else _write_parquet
    write(folder / f"cells.{format}", COLUMNS, results.rows(price))
    write(folder / f"steps.{format}", STEPS, steps(results, price))
    with _file(folder / "images.txt") as file:
        for content, label, name in results.images:
            file.write(f"{content} {label} {' '.join(name.split())}\n")
    marker = {"study": results.record.name, "identity": _identity(results)}
    with _file(folder / MARKER) as file:
        file.write(json.dumps(marker, indent=1) + "\n")


def steps(results: StudyResults, price: float | None = None) -> Iterator[dict[str, Any]]:
    """Yield a row with the values of `STEPS` for each point with a smaller distance than all before
    it."""
    for end, trace in results.runs():
        row = results.row(end, price)
        for best in trace.improvements:
            cost = best.cost
            if price is not None:
                cost = results.cost_at(price, best.source, best.queries, best.alarms)
            account = {"cost": cost, "flagged": best.source, "queries": best.queries}
            values = {**row, **account, "distance": best.distance}
            yield {name: values[name] for name in STEPS}


def _write_csv(file: Path, columns: Mapping[str, type], rows: Rows) -> None:
    with _file(file) as opened:
        table = csv.writer(opened)
        table.writerow(columns)
        for row in rows:
            table.writerow(
                flag_text(value) if isinstance(value, bool) else plain_text(value)
                for value in row.values()
            )


def _write_parquet(file: Path, columns: Mapping[str, type], rows: Rows) -> None:
    pyarrow, parquet = parquet_packages()
    types = {str: "string", int: "int64", float: "float64", bool: "bool"}
    schema = pyarrow.schema([(name, types[kind]) for name, kind in columns.items()])
    clean = ({name: utf8(value) for name, value in row.items()} for row in rows)
    with parquet.ParquetWriter(file, schema) as writer:
        while part := list(islice(clean, AT_A_TIME)):
            writer.write_table(pyarrow.Table.from_pylist(part, schema=schema))


def parquet_packages() -> list[Any]:
    """Return the modules that write Parquet; raise InputError if they are not installed."""
    names = "pyarrow", "pyarrow.parquet"
    return [optional(name, "it writes Parquet files", "parquet") for name in names]


def _identity(results: StudyResults) -> str:
    """Return a digest of the study's text, folder, fingerprint and images."""
    record = results.record
    values = record.text, str(record.folder), record.fingerprint, results.digest
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _file(path: Path) -> TextIO:
    return open(path, "w", newline="", encoding="utf-8", errors="backslashreplace")
