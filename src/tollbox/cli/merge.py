"""`tollbox merge`: the parts of a study, run anywhere, as one folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ..studies.merging import merge_parts
from .streams import console

OUT = Parameter(help="The new folder, for all of the study.")
PARTS = Parameter(help="The folders of the parts, all of them.")


def merge(out: Annotated[Path, OUT], /, *folders: Annotated[Path, PARTS]) -> int:
    """Make one folder of the parts of a study, each run with --shard.

    It is then read, resumed and reported like any other; the parts are left as they are.
    """
    with merge_parts(out, folders) as results:
        done, total = len(results), results.record.cells
    rest = "" if done == total else f"; go on with `tollbox resume {out}`"
    console().print(
        f"{out} has the {len(folders)} parts: {done} of {total} cells are finished{rest}.",
        soft_wrap=True,
    )
    return 0
