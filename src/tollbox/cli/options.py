"""Options and arguments that several commands share, and types that a shell can complete.

A completed type is a union with str, which accepts any text, so that tollbox itself reports a wrong
name, with the closest right one. The shell offers what the other side of the union lists.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from ..attacks.presets import PRESETS, WITH_SURROGATE
from ..core.metric import Metric
from ..core.validation import DTYPES
from ..data.resizing import INTERPOLATIONS
from ..report.distance_rule import DistanceRule


def offered(names: Iterable[str]) -> Any:
    """Return the type of a text for which a shell offers these names."""
    return Literal[tuple(map(str, names))] | str


if TYPE_CHECKING:
    PresetName = str
    NormName = str
    InterpolationName = str
    DtypeName = str
    ReadingName = str
    FileOrText = str
else:
    PresetName = offered([*PRESETS, *WITH_SURROGATE])
    NormName = offered(Metric)
    InterpolationName = offered(INTERPOLATIONS)
    DtypeName = offered(DTYPES)
    ReadingName = offered(DistanceRule)
    FileOrText = str | Path


FOLDER = Parameter(help="The folder of the results: the one that was --out.")
LARGEST_SEED = 2**63 - 1
CHECK_HELP = (
    "Test first, uncharged, whether the same images get the same labels in any batch; findings are "
    "printed and kept with the results."
)
FORCE_HELP = "Start as many processes as `workers` says, even if there are fewer cores."


@dataclass(frozen=True, kw_only=True)
class RunningOptions:
    """How a study is run; none of these changes a result."""

    time_limit: Annotated[float | None, Parameter(help="Seconds after which the run stops.")] = None
    force_workers: Annotated[
        bool,
        Parameter(
            help="Start as many processes as `workers` says, even if there are fewer cores.",
            negative="",
        ),
    ] = False
    ray: Annotated[
        list[str] | None,
        Parameter(
            help="Run on a Ray cluster, at ADDRESS (host:port). Default: that of RAY_ADDRESS, or a "
            "new one on this machine.",
            negative="",
            consume_multiple=(0, 1),
        ),
    ] = None
    ray_engines: Annotated[
        int | None,
        Parameter(help="Number of workers. Default: as many as the cluster has room for."),
    ] = None
    ray_gpus: Annotated[
        float | None,
        Parameter(help="GPUs per worker, such as 0.5. Default: 1 if the study runs on a GPU."),
    ] = None
