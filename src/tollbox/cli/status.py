"""`tollbox status`: how far a study has come, and whether it is being run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from ..studies.status import SeriesStatus, StudyStatus
from .hints import infinite_median
from .streams import console

MOST_HINTS = 5
"""Series of which it is told why their median is infinite."""


def status(folder: Path) -> int:
    """Show how far a study has come; it may be running."""
    with StudyStatus(folder) as study:
        series, running, notes = study.status(), study.running, study.warnings
        name, left = study.record.name, study.cells - sum(each.done for each in series)
    show(f"{name}: {folder}", series)
    to = console()
    for note in notes:
        to.print(f"Note: {note}.", soft_wrap=True)
    if running:
        to.print(f"It is being run now, by {', '.join(running)}.", soft_wrap=True)
    elif left:
        to.print(f"{left} cells are left: go on with `tollbox resume {folder}`.", soft_wrap=True)
    else:
        to.print("All cells are done.")
    return 0


def show(title: str, series: Sequence[SeriesStatus]) -> None:
    """A table with a row for each series, and why medians are infinite."""
    table = Table(title=Text(title))
    for name in ("", "cells", "failed", "median l2", "queries"):
        table.add_column(name, justify="left" if not name else "right")
    for each in series:
        median = "-" if math.isnan(each.median) else f"{each.median:.4g}"
        done = f"{each.done}/{each.cells}"
        table.add_row(Text(each.name), done, f"{each.failed}", median, f"{each.queries:,}")
    to = console()
    to.print(table)
    hints = [(each.name, infinite_median(each.counted, each.without_point)) for each in series]
    hints = [(name, hint) for name, hint in hints if hint]
    for name, hint in hints[:MOST_HINTS]:
        to.print(f"{name}: {hint}", soft_wrap=True)
    if len(hints) > MOST_HINTS:
        to.print(f"Likewise {len(hints) - MOST_HINTS} more series.")
