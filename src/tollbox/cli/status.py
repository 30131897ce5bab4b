"""`tollbox status`: how far a study has come, and whether it is being run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from ..studies.status import SeriesStatus, StudyStatus
from .streams import console


def status(folder: Path) -> int:
    """Show how far a study has come; it may be running."""
    with StudyStatus(folder) as found:
        lines, running, notes = found.status(), found.running, found.warnings
        name, left = found.about["name"], found.cells - sum(line.done for line in lines)
    show(f"{name}: {folder}", lines)
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


def show(title: str, lines: Sequence[SeriesStatus]) -> None:
    """The table of lines."""
    table = Table(title=Text(title))
    for name in ("", "cells", "failed", "median l2", "queries"):
        table.add_column(name, justify="left" if not name else "right")
    for line in lines:
        median = "-" if math.isnan(line.median) else f"{line.median:.4g}"
        done = f"{line.done}/{line.cells}"
        table.add_row(Text(line.name), done, f"{line.failed}", median, f"{line.queries:,}")
    console().print(table)
