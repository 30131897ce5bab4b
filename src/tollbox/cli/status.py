"""`tollbox status`: the progress of a study, as text or as JSON. It starts without torch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .options import FOLDER
from .output import JSON, console, print_json

if TYPE_CHECKING:
    from ..studies.status import Failure, SeriesStatus, StudyStatus

MOST_REASONS = 5
"""Maximum number of failure reasons printed."""
MOST_HINTS = 5
"""Maximum number of explanations of an infinite median."""
NARROWEST_TABLE = 60
"""Width of a terminal, in columns, below which lines replace the table."""


def status(folder: Annotated[Path, FOLDER], /, *, json: Annotated[bool, JSON] = False) -> int:
    """Show the progress of a study; it may be running."""
    from ..studies.status import StudyStatus
    from .hints import page_hint

    with StudyStatus(folder) as study:
        series, running, failures = study.status(), study.running, study.failures()
        notes = study.warnings
        sentences = [*study.kept, *study.sizes, *study.exactness, *study.detector]
        left = study.record.cells - sum(each.done for each in series)
        if json:
            print_json(_values(study, series, failures, running, [*notes, *sentences]))
            return 0
        part = f" (part {study.record.part_name})" if study.record.parts > 1 else ""
        title = f"{study.record.name}{part}: {folder}"
        failed = [*_failed(study.record.series, failures, folder)]
    show(title, series)
    to = console()
    for sentence in failed:
        to.print(sentence, soft_wrap=True)
    for note in notes:
        to.print(f"Note: {note}.", soft_wrap=True)
    for sentence in sentences:
        to.print(sentence, soft_wrap=True)
    if running:
        to.print(f"It is running now: {', '.join(running)}.", soft_wrap=True)
    elif left:
        to.print(f"{left} cells remain. Resume with `tollbox resume {folder}`.", soft_wrap=True)
    else:
        to.print(f"All cells are done. {page_hint(folder)}", soft_wrap=True)
    return 0


def _failed(series: Sequence[str], failures: Sequence[Failure], folder: Path) -> Iterator[str]:
    """Yield a sentence for each reason why cells failed, and how to run them again."""
    from .hints import command

    for each in failures[:MOST_REASONS]:
        reason = " ".join(each.reason.split()).rstrip(".")
        first = f"{series[each.series]}, image {each.image}"
        many = "cells failed; the first" if each.cells > 1 else "cell failed"
        yield f"{each.cells} {many}, {first}: {reason}."
    rest = failures[MOST_REASONS:]
    if rest:
        cells = sum(each.cells for each in rest)
        yield f"{len(rest)} more reasons concern {cells} cells."
    if failures:
        yield f"Run failed cells again with `{command('resume', folder, '--failed')}`."


def _values(
    study: StudyStatus,
    series: Sequence[SeriesStatus],
    failures: Sequence[Failure],
    running: list[str],
    notes: list[str],
) -> dict[str, Any]:
    record, grid, done = study.record, study.series_keys, sum(each.done for each in series)
    return {
        "name": record.name,
        "folder": str(study.folder),
        "made_by": record.made_by,
        "part": record.part + 1,
        "parts": record.parts,
        "norm": record.norm,
        "cells": record.cells,
        "done": done,
        "left": record.cells - done,
        "failed": sum(each.failed for each in series),
        "queries": sum(each.queries for each in series),
        "running": running,
        "notes": [note.rstrip(".") for note in notes],
        "series": [
            {
                "name": each.name,
                "model": model,
                "attack": attack,
                "price": price,
                "cells": each.cells,
                "done": each.done,
                "failed": each.failed,
                "queries": each.queries,
                "median": each.median,
                "counted": each.counted,
                "without_point": {str(stop): n for stop, n in each.without_point.items()},
            }
            for each, (model, attack, price) in zip(series, grid, strict=True)
        ],
        "failures": [
            {
                "reason": each.reason,
                "cells": each.cells,
                "model": grid[each.series][0],
                "attack": grid[each.series][1],
                "price": grid[each.series][2],
                "image": each.image,
                "seed": each.seed,
            }
            for each in failures
        ],
    }


def show(title: str, series: Sequence[SeriesStatus]) -> None:
    """Print a row for each series, or lines if no table fits, and why medians are infinite."""
    from .hints import infinite_median

    to = console()
    if to.width < NARROWEST_TABLE:
        _show_lines(to, title, series)
    else:
        _show_table(to, title, series)
    hints = [
        (each.name, infinite_median(each.counted, each.without_point, each.norm)) for each in series
    ]
    hints = [(name, hint) for name, hint in hints if hint]
    for name, hint in hints[:MOST_HINTS]:
        to.print(f"{name}: {hint}", soft_wrap=True)
    if len(hints) > MOST_HINTS:
        to.print(f"The same holds for {len(hints) - MOST_HINTS} more series.")


def _show_lines(to: Console, title: str, series: Sequence[SeriesStatus]) -> None:
    to.print(Text(title))
    for each in series:
        to.print(Text(each.name))
        to.print(f"  {each.done}/{each.cells} cells, {each.failed} failed")
        to.print(f"  median {each.norm} {_median(each)}, {each.queries:,} queries")
        if each.alarms is not None:
            to.print(f"  {each.alarms:,} alarms, the first after {_first(each)} queries")


def _show_table(to: Console, title: str, series: Sequence[SeriesStatus]) -> None:
    table = Table(title=Text(title))
    median = " and ".join(f"median {norm}" for norm in dict.fromkeys(s.norm for s in series))
    watched = any(each.alarms is not None for each in series)
    alarms = ("alarms", "first after") if watched else ()
    for name in ("", "cells", "failed", median, "queries", *alarms):
        table.add_column(name, justify="left" if not name else "right")
    for each in series:
        done, failed = f"{each.done}/{each.cells}", f"{each.failed}"
        said = (f"{each.alarms:,}", _first(each)) if each.alarms is not None else ()
        table.add_row(Text(each.name), done, failed, _median(each), f"{each.queries:,}", *said)
    to.print(table)


def _first(series: SeriesStatus) -> str:
    return "-" if math.isnan(series.first_alarm) else f"{series.first_alarm:g}"


def _median(series: SeriesStatus) -> str:
    return "-" if math.isnan(series.median) else f"{series.median:.4g}"
