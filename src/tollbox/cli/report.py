"""`tollbox report`: a study as one page, and as figures and tables for a paper."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ..errors import UnknownNameError
from .options import FOLDER, ReadingName

PAGE = "report.html"


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
            help="How distances are read: hard (the best under a hard budget) or paper (iterates "
            "only, interpolated).",
            metavar="READING",
            show_choices=False,
        ),
    ] = "hard"
    against: Annotated[
        str | None,
        Parameter(help="The attack that the ranking compares with. Default: the study's first."),
    ] = None
    floors: Annotated[
        Path | None,
        Parameter(
            help="A CSV with the columns image (its hash) and distance: distances known to "
            "suffice, for O of the ranking."
        ),
    ] = None


def report(
    folder: Annotated[Path, FOLDER],
    /,
    options: ReportOptions = ReportOptions(),  # noqa: B008
) -> int:
    """Make a page from a study, finished or not: table, curves, trade-offs, gallery."""
    from ..data.output import check_free, check_replaceable, replace_file, staged
    from ..report import DistanceRule
    from ..report.figures import write_figures
    from ..report.page import GENERATOR, page, page_data
    from ..report.paper_table import paper_table, with_best_of_all
    from ..report.ranking import read_floors, standings
    from ..report.runs import series_of
    from ..report.table_files import (
        comma_separated,
        latex,
        markdown,
        ranking_csv,
        ranking_latex,
        ranking_markdown,
    )
    from ..studies.results import StudyResults
    from .output import console

    if options.reading not in list(DistanceRule):
        raise UnknownNameError("reading", options.reading, [str(r) for r in DistanceRule])
    reading, out, to = DistanceRule(options.reading), options.out or folder / PAGE, console()
    check_replaceable(out, GENERATOR)
    if options.figures is not None:
        check_free(options.figures, input="figures")
    with StudyResults(folder) as results:
        all_series = series_of(results, reading)
        floors = None if options.floors is None else read_floors(options.floors, results)
        table = with_best_of_all(paper_table(results.study, all_series), all_series)
        ranking = standings(results, all_series, table.columns, options.against, floors)
        data = page_data(results, reading, all_series, table, ranking)
    replace_file(out, page(data))
    if options.figures is not None:
        with staged(options.figures, input="figures") as stage:
            with stage.writing():
                names = write_figures(data, stage.folder)
                texts = {
                    "table.md": f"Median {table.norm.sign} distance.\n\n{markdown(table)}",
                    "table.csv": comma_separated(table),
                    "table.tex": f"% median {table.norm} distance\n{latex(table)}",
                    "ranking.md": ranking_markdown(ranking),
                    "ranking.csv": ranking_csv(ranking),
                    "ranking.tex": ranking_latex(ranking),
                }
                for name, text in texts.items():
                    (stage.folder / name).write_text(text, encoding="utf-8")
            stage.commit()
        count = len(names) + len(texts)
        to.print(f"{count} files are in {options.figures}.", soft_wrap=True)
    to.print(f"Open {out} in a browser.", soft_wrap=True)
    return 0
