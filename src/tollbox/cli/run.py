"""`tollbox run`: its options, and its help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from .later import work_of
from .options import CHECK_HELP, FORCE_HELP, RAY_WORKERS_HELP, RAY_GPUS_HELP, RAY_HELP


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of `tollbox run`."""

    out: Annotated[
        Path | None, Parameter(help="Folder for the results: a new one, or an empty one.")
    ] = None
    dry_run: Annotated[
        bool,
        Parameter(help="Print the cells, queries and time; attack nothing.", negative=""),
    ] = False
    check: Annotated[bool, Parameter(help=CHECK_HELP, negative="")] = False
    shard: Annotated[
        str | None,
        Parameter(help="K/N: only part K of N, in a folder of its own; see `tollbox merge`."),
    ] = None
    time_limit: Annotated[float | None, Parameter(help="Seconds after which the run ends.")] = None
    force_workers: Annotated[bool, Parameter(help=FORCE_HELP, negative="")] = False
    ray: Annotated[
        list[str] | None, Parameter(help=RAY_HELP, negative="", consume_multiple=(0, 1))
    ] = None
    ray_workers: Annotated[int | None, Parameter(help=RAY_WORKERS_HELP)] = None
    ray_gpus: Annotated[float | None, Parameter(help=RAY_GPUS_HELP)] = None


STUDY = Parameter(help="The study file; `tollbox init` writes one.")


def run(
    study: Annotated[Path, STUDY],
    /,
    options: RunOptions = RunOptions(),  # noqa: B008
) -> int:
    """Run a study: models x attacks x prices x images, from a TOML file.

    Results are in --out as they come; after a stop of any kind, `tollbox resume` continues.
    """
    return work_of(run)(study, options)
