"""`tollbox report`: its options, and its help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from .later import work_of
from .options import FOLDER, ReadingName


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """The options of `tollbox report`."""

    out: Annotated[
        Path | None, Parameter(help="The page. Default: report.html, in the study's folder.")
    ] = None
    figures: Annotated[
        Path | None,
        Parameter(help="A folder for the figures (SVG, PDF, PNG) and tables (CSV, md, tex)."),
    ] = None
    reading: Annotated[
        ReadingName,
        Parameter(
            help="How distances are read: hard (the best under a hard budget), or paper (iterates "
            "only, interpolated).",
            metavar="READING",
            show_choices=False,
        ),
    ] = "hard"
    against: Annotated[
        str | None,
        Parameter(help="The attack that the ranking is beside. Default: the study's first."),
    ] = None
    floors: Annotated[
        Path | None,
        Parameter(
            help="A CSV of image (its hash) and distance: what is known to suffice, for O of the "
            "ranking."
        ),
    ] = None


def report(
    folder: Annotated[Path, FOLDER],
    /,
    options: ReportOptions = ReportOptions(),  # noqa: B008
) -> int:
    """Make a page of a study: table, curves, trade-offs, gallery; finished or not."""
    return work_of(report)(folder, options)
