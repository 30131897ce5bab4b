"""`tollbox export`: the results of a study as CSV or Parquet files."""

from __future__ import annotations

from pathlib import Path

from ..data.output import staged
from ..errors import FileError, InputError
from ..studies.export import (
    FILES,
    check_folder,
    check_format,
    export_folder,
    files_of,
    write_export,
)
from ..studies.results import StudyResults
from .export import ExportOptions
from .output import console


def export(folder: Path, options: ExportOptions) -> int:
    """Write the files."""
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
