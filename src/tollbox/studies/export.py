"""A study as tables, CSV or Parquet.

    cells        a row for each finished cell
    steps        a row for each point that was nearer than all before it, with all that had been
                 spent once it was found
    images.txt   content hash, label and name of each image: what `images.list` of a study takes
    export.json  which study it is of

1. Columns and their types are the same in both formats: `COLUMNS` and `STEPS`.
2. With a price, costs are those that the same answers would have had then; `counted_price` says
   which price the costs of a row are counted at. `price_ratio` is the c* of the run, as a number.
3. An image that was misclassified from the start has distance 0, and `already_misclassified`:
   medians leave it out.
4. A folder with the export of another study is left as it is.
5. In a CSV file text that a spreadsheet would take for a formula is marked as text.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from ..data.output import check_free
from ..data.tables import Format, flag_text, plain_text, utf8
from ..data.user_code import optional
from ..errors import InputError
from .results import COLUMNS, StudyResults, price_name

Rows = Iterable[Mapping[str, Any]]
MARKER = "export.json"
TABLES = ("cells", "steps")
_STEP_COLUMNS = (
    *("model", "attack", "price", "price_ratio", "counted_price", "seed", "image"),
    *("already_misclassified", "cost", "flagged", "queries", "distance", "norm"),
)
STEPS: dict[str, type] = {name: COLUMNS[name] for name in _STEP_COLUMNS}
"""What there is of a step: columns of its cell, and its own account."""
AT_A_TIME = 10_000
"""Rows of a Parquet file that are in memory at once."""


def files_of(format: Format) -> frozenset[str]:
    """The files of an export."""
    return frozenset({*(f"{table}.{format}" for table in TABLES), "images.txt", MARKER})


FILES = files_of("csv") | files_of("parquet")
"""What an export may replace."""


def export_folder(study: Path, price: float | None = None, format: Format = "csv") -> Path:
    """Where an export goes unless it is said: a folder for each price and format."""
    name = "export" if format == "csv" else f"export-{format}"
    return study / (name if price is None else f"{name}-price-{price_name(price)}")


def check_format(format: Format) -> None:
    """Raise InputError if what writes the format is not there."""
    if format == "parquet":
        _parquet()


def check_folder(results: StudyResults, folder: Path) -> None:
    """Raise InputError unless a folder is free, or has nothing but an export of this study."""
    check_free(folder, FILES, replace=True)
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    try:
        marker = json.loads((folder / MARKER).read_text(encoding="utf-8"))
        same = marker["identity"] == _identity(results)
    except (OSError, ValueError, KeyError, TypeError):
        same = False
    if not same:
        raise InputError(
            f"{folder} has an export that is not known to be of this study",
            remedy="remove it, or give another folder",
            input="out",
        )


def write_export(
    results: StudyResults, folder: Path, price: float | None = None, format: Format = "csv"
) -> None:
    """Write all files into a folder."""
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
    """A row for each point that was nearer than all before it, with the values of `STEPS`."""
    stops = {end.cell: end.stop for end in results.finished()}
    for cell, (series, seed, image), trace in results.traces():
        if cell not in stops:  # it has just been finished
            continue
        content, label, _ = results.images[image]
        goal = results.study.goal.for_label(label)
        prices = series.tariff.prices.for_source(label, goal)

        for row in trace.improvements(prices, goal):
            yield {
                "model": series.model.name,
                "attack": series.attack.name,
                "price": series.tariff.name,
                "price_ratio": prices.true_ratio,
                "counted_price": series.tariff.name if price is None else price_name(price),
                "seed": seed,
                "image": content,
                "already_misclassified": not stops[cell].attacked,
                "cost": row.cost
                if price is None
                else results.cost_at(price, row.source, row.queries, row.alarms),
                "flagged": row.source,
                "queries": row.queries,
                "distance": row.distance,
                "norm": str(results.record.norm),
            }


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
    pyarrow, parquet = _parquet()
    types = {
        str: pyarrow.string(),
        int: pyarrow.int64(),
        float: pyarrow.float64(),
        bool: pyarrow.bool_(),
    }
    schema = pyarrow.schema([(name, types[kind]) for name, kind in columns.items()])
    clean = ({name: utf8(value) for name, value in row.items()} for row in rows)
    with parquet.ParquetWriter(file, schema) as writer:
        while part := list(islice(clean, AT_A_TIME)):
            writer.write_table(pyarrow.Table.from_pylist(part, schema=schema))


def _parquet() -> tuple[Any, Any]:
    names = "pyarrow", "pyarrow.parquet"
    pyarrow, parquet = (optional(name, "it writes Parquet files", "parquet") for name in names)
    return pyarrow, parquet


def _identity(results: StudyResults) -> str:
    """What tells a study from others: its text, where it is, its models and its images."""
    record = results.record
    models = {name: asdict(model) for name, model in record.models.items()}
    values = record.text, str(record.folder), models, results.digest
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _file(path: Path) -> TextIO:
    return open(path, "w", newline="", encoding="utf-8", errors="backslashreplace")
