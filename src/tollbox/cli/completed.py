"""Types of what is typed that a shell can complete: names, and files.

Each is a union with str, which takes any text: what is wrong with it is told by tollbox, with the
nearest name. A shell is offered what the other side of the union lists.

Presets are listed with torch only, which takes seconds. So their type has two marks instead: what a
script for a shell has between them is how it parts names, and the names are put there
(`with_presets`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..core.dtypes import DTYPES
from ..core.metric import Metric
from ..files.resizing import INTERPOLATIONS
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
