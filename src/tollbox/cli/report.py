"""`tollbox report`: a study as one page, and as figures and tables for a paper."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ..report import DistanceRule
from .options import Folder, ReadingName, chosen

PAGE = "report.html"


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    out: Path | None = None
    """File for the page. Default: report.html, in the study's folder."""
    figures: Path | None = None
    """A folder for the figures (SVG, PDF, PNG) and tables (CSV, md, tex)."""
    reading: Annotated[ReadingName, Parameter(metavar="READING")] = "hard"
    """How distances are read: hard (the best under a hard budget) or paper (iterates only,
    interpolated)."""
    against: str | None = None
    """The attack that the ranking compares with. Default: the study's first."""
    floors: Path | None = None
    """CSV with the columns image (its hash) and distance: distances known to be reachable, used for
    O in the ranking."""
    trust_code: bool = False
    """For the gallery, run the function that the study names for its images. Use it only if you
    trust the folder."""


def report(folder: Folder, /, options: ReportOptions = ReportOptions()) -> int:  # noqa: B008
    """Make a page from a study, finished or not: table, curves, trade-offs, gallery."""
    from ..data.output import check_free, check_replaceable, replace_file, staged
    from ..report import table_files as files
    from ..report.figures import write_figures
    from ..report.page import GENERATOR, page, page_data
    from ..report.paper_table import paper_table, with_best_of_all
    from ..report.ranking import read_floors, standings
    from ..report.runs import series_of
    from ..studies.results import StudyResults
    from .output import write

    reading, out = chosen(DistanceRule, "reading", options.reading), options.out or folder / PAGE
    check_replaceable(out, GENERATOR)
    if options.figures is not None:
        check_free(options.figures, input="figures")
    with StudyResults(folder, trust_code=options.trust_code) as results:
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
                    "table.md": f"Median {table.norm.sign} distance.\n\n{files.markdown(table)}",
                    "table.csv": files.comma_separated(table),
                    "table.tex": f"% median {table.norm} distance\n{files.latex(table)}",
                    "ranking.md": files.ranking_markdown(ranking),
                    "ranking.csv": files.ranking_csv(ranking),
                    "ranking.tex": files.ranking_latex(ranking),
                }
                for name, text in texts.items():
                    (stage.folder / name).write_text(text, encoding="utf-8")
            stage.commit()
        write(f"{len(names) + len(texts)} files are in {options.figures}.")
    write(f"Open {out} in a browser.")
    return 0
