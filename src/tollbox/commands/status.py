"""`tollbox status`: how far a study has come, and whether it is being run."""

from __future__ import annotations

from pathlib import Path

from ..studies.reading import StudyResults
from .streams import console
from .study_run import show


def status(folder: Path) -> int:
    """Show how far a study has come; it may be running."""
    with StudyResults(folder) as found:
        show(found)
        to, left = console(), len(found.grid) - len(found)
        if found.running:
            to.print(f"It is being run now, by {', '.join(found.running)}.")
        elif left:
            to.print(f"{left} cells are left: go on with `tollbox resume {folder}`.")
        else:
            to.print("All cells are done.")
        notes = sorted({row["warnings"] for row in found.rows() if row["warnings"] != "[]"})
        for note in notes:
            to.print(f"Note: {note}")
    return 0
