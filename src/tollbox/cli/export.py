"""`tollbox export`: the results of a study as CSV or Parquet files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ..data.tables import Format
from ..errors import FileError, InputError
from .options import Folder


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    out: Path | None = None
    """Folder for the files. Default: export, in the study's folder; with --price,
    export-price-PRICE; with --format parquet, export-parquet."""
    format: Annotated[Format, Parameter(show_choices=True)] = "csv"
    """csv or parquet, which needs `pip install 'tollbox[parquet]'`."""
    price: float | None = None
    """c* at which to price the recorded answers, or inf. Default: that of the run."""


def export(folder: Folder, /, options: ExportOptions = ExportOptions()) -> int:  # noqa: B008
    """Write a study's finished cells, their steps and its images as CSV or Parquet."""
    from ..data.output import staged
    from ..studies import export as tables
    from ..studies.results import StudyResults
    from .output import write

    out = options.out or tables.export_folder(folder, options.price, options.format)
    if options.price is not None and not options.price >= 0:
        raise InputError(f"is {options.price}", expected="0 or more, or inf", input="price")
    if options.format == "parquet":
        tables.parquet_packages()  # before the study is read
    with StudyResults(folder) as results:
        tables.check_folder(results, out)
        with staged(out, tables.FILES) as stage:
            try:
                tables.write_export(results, stage.folder, options.price, options.format)
            except OSError as error:  # nothing is left behind, so the command can be repeated
                given = f"{out} cannot be written: {error.strerror or error}. Nothing was saved."
                raise FileError(given, input="out") from None
            stage.commit()
        done = len(results)
    names = ", ".join(sorted(tables.files_of(options.format)))
    write(f"{done} cells are in {out}: {names}.")
    return 0
