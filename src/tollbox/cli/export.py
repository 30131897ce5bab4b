"""`tollbox export`: the results of a study as CSV or Parquet files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ..errors import FileError, InputError
from ..files.output import staged
from ..studies.export import (
    FILES,
    Format,
    check_folder,
    check_format,
    export_folder,
    files_of,
    write_export,
)
from ..studies.reading import StudyResults
from .status import FOLDER
from .streams import console


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
    out = options.out or export_folder(folder, options.price, options.format)
    if options.price is not None and not options.price >= 0:
        raise InputError(
            f"is {options.price}", expected="a number that is 0 or more, or inf", input="price"
        )
    check_format(options.format)
    with StudyResults(folder) as results:
        check_folder(results, out)
        with staged(out, FILES) as stage:
            try:
                write_export(results, stage.folder, options.price, options.format)
            except OSError as error:  # it can be repeated: nothing is left behind
                raise FileError(
                    f"{out} cannot be written: {error.strerror or error}. Nothing was saved.",
                    input="out",
                ) from None
            stage.commit()
        done = len(results)
    names = ", ".join(sorted(files_of(options.format)))
    console().print(f"{done} cells are in {out}: {names}.", soft_wrap=True)
    return 0
