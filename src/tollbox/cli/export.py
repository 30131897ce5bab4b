"""`tollbox export`: its options, and its help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ..data.tables import Format
from .later import work_of
from .options import FOLDER


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """The options of `tollbox export`."""

    out: Annotated[
        Path | None,
        Parameter(
            help="Folder for the files. Default: export, in the study's folder; with --price, "
            "export-price-PRICE; with --format parquet, export-parquet."
        ),
    ] = None
    format: Annotated[
        Format,
        Parameter(help="csv or parquet, which needs `pip install 'tollbox[parquet]'`."),
    ] = "csv"
    price: Annotated[
        float | None,
        Parameter(
            help="c* to count the recorded answers with, instead of that of the run; or inf."
        ),
    ] = None


def export(
    folder: Annotated[Path, FOLDER],
    /,
    options: ExportOptions = ExportOptions(),  # noqa: B008
) -> int:
    """Write a study's finished cells, their steps and its images, as CSV or Parquet."""
    return work_of(export)(folder, options)
