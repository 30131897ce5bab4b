"""`tollbox status`: the progress of a study, as text or as JSON. It starts without torch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from rich.table import Table
from rich.text import Text

from ..core.metric import Metric
from ..core.stop import Stop
from ..studies.schema import LIMITS
from .options import Folder
from .output import JSON, command, console, json_text, page_hint, write

if TYPE_CHECKING:
    from ..studies.status import Failure, SeriesStatus, StudyStatus

MOST_REASONS = 5
"""Maximum number of reasons printed for failures, and for infinite medians."""
NARROWEST_TABLE = 60
"""Width of a terminal, in columns, below which lines replace the table."""


def status(folder: Folder, /, *, json: Annotated[bool, JSON] = False) -> int:
    """Show the progress of a study, even while it is running."""
    from ..studies.status import StudyStatus

    with StudyStatus(folder) as study:
        series, running = study.status(), study.running
        if json:
            write(json_text(_values(study, series, running)))
            return 0
        part = f" (part {study.record.part_name})" if study.record.parts > 1 else ""
        show(f"{study.record.name}{part}: {folder}", series)
        write(*_failed(study), *(f"Note: {note}." for note in study.warnings), *findings(study))
        left = study.record.cells - sum(each.done for each in series)
    if running:
        write(f"It is running now: {', '.join(running)}.")
    elif left:
        write(f"{left} cells remain. Resume with `tollbox resume {folder}`.")
    else:
        write(f"All cells are done. {page_hint(folder)}")
    return 0


def findings(study: StudyStatus) -> list[str]:
    """Return sentences on the images, the exactness of the models, and the detector."""
    return [*study.kept, *study.sizes, *study.exactness, *study.detector]


def _failed(study: StudyStatus) -> Iterator[str]:
    """Yield a sentence for each reason why cells failed, and one on how to run them again."""
    failures = study.failures()
    for each in failures[:MOST_REASONS]:
        reason = " ".join(each.reason.split()).rstrip(".")
        many = "cells failed; the first" if each.cells > 1 else "cell failed"
        series = study.record.series[each.series]
        yield f"{each.cells} {many}, {series}, image {each.image}: {reason}."
    rest = failures[MOST_REASONS:]
    if rest:
        cells = sum(each.cells for each in rest)
        yield f"{len(rest)} more reasons concern {cells} cells."
    if failures:
        yield f"Run failed cells again with `{command('resume', study.folder, '--failed')}`."


def _values(
    study: StudyStatus, series: Sequence[SeriesStatus], running: list[str]
) -> dict[str, Any]:
    record, done = study.record, sum(each.done for each in series)
    keys = [dict(zip(("model", "attack", "price"), key, strict=True)) for key in study.series_keys]
    hidden = ("norm", "alarms", "first_alarm", "series")

    def fields(value: SeriesStatus | Failure) -> dict[str, Any]:
        return {name: each for name, each in vars(value).items() if name not in hidden}

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
        "notes": [note.rstrip(".") for note in [*study.warnings, *findings(study)]],
        "series": [fields(each) | key for each, key in zip(series, keys, strict=True)],
        "failures": [fields(each) | keys[each.series] for each in study.failures()],
    }


def show(title: str, series: Sequence[SeriesStatus]) -> None:
    """Print a row for each series, or lines if no table fits, and why medians are infinite."""
    to = console()
    norms = " and ".join(f"median {norm}" for norm in dict.fromkeys(each.norm for each in series))
    heads = ["cells", "failed", norms, "queries"]
    if any(each.alarms is not None for each in series):
        heads += ["alarms", "first after"]
    table = Table("", title=Text(title))
    for head in heads:
        table.add_column(head, justify="right")
    lines = [title]
    for each in series:
        cells = [f"{each.done}/{each.cells}", f"{each.failed}", _number(each.median, ".4g")]
        cells.append(f"{each.queries:,}")
        if each.alarms is not None:
            cells += [f"{each.alarms:,}", _number(each.first_alarm, "g")]
        table.add_row(Text(each.name), *cells)
        lines.append(each.name)
        lines += [f"  {head}: {cell}" for head, cell in zip(heads, cells, strict=False)]
    if to.width < NARROWEST_TABLE:
        to.print(Text("\n".join(lines)))
    else:
        to.print(table)
    hints = [
        f"{each.name}: {hint}"
        for each in series
        if (hint := infinite_median(each.counted, each.without_point, each.norm))
    ]
    write(*hints[:MOST_REASONS])
    if len(hints) > MOST_REASONS:
        write(f"The same holds for {len(hints) - MOST_REASONS} more series.")


def infinite_median(counted: int, without_point: Mapping[Stop, int], norm: Metric) -> str:
    """Return why the median of `counted` images is infinite; empty if it is finite."""
    missing = sum(without_point.values())
    if 2 * missing < counted or not counted:
        return ""
    reached = dict.fromkeys(LIMITS, "{} was reached before a start was found")
    reached |= {Stop.BUDGET: "the budget ended before a start was found at this price"}
    reasons = ", ".join(
        f"for {number} {reached.get(stop, 'none was found ({})').format(stop)}"
        for stop, number in sorted(without_point.items())
    )
    remedy = "; a larger budget may find more" if Stop.BUDGET in without_point else ""
    return (
        f"median {norm} is inf: {counted - missing} of {counted} images have an adversarial point; "
        f"{reasons}{remedy}."
    )


def _number(value: float, form: str) -> str:
    return "-" if math.isnan(value) else f"{value:{form}}"
