"""`tollbox export`: the results of a study as CSV files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ..errors import FileError, InputError
from ..files.output import staged
from ..studies.export import FILES, check_folder, export_folder, write_csv
from ..studies.reading import StudyResults
from .streams import console


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """The options of `tollbox export`."""

    out: Annotated[
        Path | None,
        Parameter(
            help="Folder for the files. Default: export, in the study's folder; with --price, "
            "export-price-PRICE."
        ),
    ] = None
    price: Annotated[
        float | None,
        Parameter(
            help="c* to count the recorded answers with, instead of that of the run; or inf."
        ),
    ] = None


def export(folder: Path, options: ExportOptions = ExportOptions()) -> int:  # noqa: B008
    """Write a study's finished cells, their steps and the list of images as CSV files."""
    out = options.out or export_folder(folder, options.price)
    if options.price is not None and not options.price >= 0:
        raise InputError(
            f"is {options.price}", expected="a number that is 0 or more, or inf", input="price"
        )
    with StudyResults(folder) as results:
        check_folder(results, out)
        with staged(out, FILES) as stage:
            try:
                write_csv(results, stage.folder, options.price)
            except OSError as error:  # it can be repeated: nothing is left behind
                raise FileError(
                    f"{out} cannot be written: {error.strerror or error}. Nothing was saved.",
                    input="out",
                ) from None
            stage.commit()
        done = len(results)
    console().print(f"{done} cells are in {out}: {', '.join(sorted(FILES))}.", soft_wrap=True)
    return 0
