"""`tollbox merge`: the parts of a study, run anywhere, as one folder."""

from __future__ import annotations

from pathlib import Path

from ..studies.merge import merge_parts
from .output import console


def merge(out: Path, *folders: Path) -> int:
    """Write the folder, and say what is in it."""
    with merge_parts(out, folders) as results:
        done, total = len(results), results.record.cells
    rest = "" if done == total else f"; go on with `tollbox resume {out}`"
    console().print(
        f"{out} has the {len(folders)} parts: {done} of {total} cells are finished{rest}.",
        soft_wrap=True,
    )
    return 0
