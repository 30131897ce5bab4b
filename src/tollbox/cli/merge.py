"""`tollbox merge`: join the parts of a study in one folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

OUT = Parameter(help="The new folder, for the whole study.")
PARTS = Parameter(help="The folders of all parts.")


def merge(out: Annotated[Path, OUT], /, *folders: Annotated[Path, PARTS]) -> int:
    """Join the parts of a study, each run with --shard, in one folder.

    You can read, resume and report on the new folder like any other. The parts stay as they are.
    """
    from ..studies.merge import merge_parts
    from .output import write

    with merge_parts(out, folders) as results:
        done, total = len(results), results.record.cells
    rest = "" if done == total else f" Resume with `tollbox resume {out}`."
    write(f"{out} has the {len(folders)} parts: {done} of {total} cells are finished.{rest}")
    return 0
