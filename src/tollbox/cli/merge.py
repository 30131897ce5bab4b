"""`tollbox merge`: its options, and its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from .later import work_of

OUT = Parameter(help="The new folder, for all of the study.")
PARTS = Parameter(help="The folders of the parts, all of them.")


def merge(out: Annotated[Path, OUT], /, *folders: Annotated[Path, PARTS]) -> int:
    """Make one folder of the parts of a study, each run with --shard.

    It is then read, resumed and reported like any other; the parts are left as they are.
    """
    return work_of(merge)(out, *folders)
