"""Types of what is typed that a shell can complete: names, and files.

Each is a union with str, which takes any text: what is wrong with it is told by tollbox, with the
nearest name. A shell is offered what the other side of the union lists.

Presets are listed with torch only, which takes seconds. So their type has two marks instead: what a
script for a shell has between them is how it parts names, and the names are put there
(`with_presets`).

Options and arguments that several commands have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cyclopts import Parameter

from ..core.metric import Metric
from ..core.validation import DTYPES
from ..data.resizing import INTERPOLATIONS
from ..report.reading import Reading

PRESET_MARKS = ("FIRST_PRESET", "LAST_PRESET")


def offered(names: Iterable[str]) -> Any:
    """The type of a text for which a shell is offered these names."""
    return Literal[tuple(map(str, names))] | str


def with_presets(script: str, names: Iterable[str]) -> str:
    """A script for a shell with the names of presets in place of their marks."""
    first, last = PRESET_MARKS
    listed = list(names)
    return re.sub(rf"{first}(\W+){last}", lambda between: between[1].join(listed), script)


if TYPE_CHECKING:
    PresetName = str
    NormName = str
    InterpolationName = str
    DtypeName = str
    ReadingName = str
    FileOrText = str
else:
    PresetName = offered(PRESET_MARKS)
    NormName = offered(Metric)
    InterpolationName = offered(INTERPOLATIONS)
    DtypeName = offered(DTYPES)
    ReadingName = offered(Reading)
    FileOrText = str | Path


FOLDER = Parameter(help="Where the results are: what --out was.")
LARGEST_SEED = 2**63 - 1

CHECK_HELP = (
    "Test first, uncharged, whether the same images get the same labels in any batch; what is "
    "found is said, and kept with the results."
)
RAY_HELP = (
    "Run workers on a Ray cluster at ADDRESS (host:port); without one, that of RAY_ADDRESS, or a "
    "new one on this machine."
)
RAY_WORKERS_HELP = "Number of workers; default: as many as the cluster has room for."
RAY_GPUS_HELP = "GPUs of each worker, as 0.5; default: 1 if the study runs on a GPU."
FORCE_HELP = "As many processes as `workers` says, even if they are more than cores."
