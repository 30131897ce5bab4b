"""Types of what is typed that a shell can complete: names, and files.

Each is a union with str, which takes any text: what is wrong with it is told by tollbox, with the
nearest name. A shell is offered what the other side of the union lists.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..attacks import PRESETS, WITH_SURROGATE
from ..core.metric import Metric
from ..files.resizing import INTERPOLATIONS
from ..models.precision import DTYPES


def offered(names: Iterable[str]) -> Any:
    """The type of a text for which a shell is offered these names."""
    return Literal[tuple(map(str, names))] | str


if TYPE_CHECKING:
    PresetName = str
    NormName = str
    InterpolationName = str
    DtypeName = str
    FileOrText = str
else:
    PresetName = offered([*PRESETS, *WITH_SURROGATE])
    NormName = offered(Metric)
    InterpolationName = offered(INTERPOLATIONS)
    DtypeName = offered(DTYPES)
    FileOrText = str | Path
