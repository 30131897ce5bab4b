"""`tollbox resume`: its options, and its help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from .later import work_of
from .options import FOLDER, FORCE_HELP, RAY_WORKERS_HELP, RAY_GPUS_HELP, RAY_HELP


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ResumeOptions:
    """The options of `tollbox resume`."""

    rerun: Annotated[
        bool,
        Parameter(help="Begin cells anew that do not ask what they asked before.", negative=""),
    ] = False
    failed: Annotated[
        bool, Parameter(help="Run cells again that ended in an error.", negative="")
    ] = False
    time_limit: Annotated[float | None, Parameter(help="Seconds after which the run ends.")] = None
    force_workers: Annotated[bool, Parameter(help=FORCE_HELP, negative="")] = False
    ray: Annotated[
        list[str] | None, Parameter(help=RAY_HELP, negative="", consume_multiple=(0, 1))
    ] = None
    ray_workers: Annotated[int | None, Parameter(help=RAY_WORKERS_HELP)] = None
    ray_gpus: Annotated[float | None, Parameter(help=RAY_GPUS_HELP)] = None


def resume(
    folder: Annotated[Path, FOLDER],
    /,
    options: ResumeOptions = ResumeOptions(),  # noqa: B008
) -> int:
    """Continue a study or an attack; recorded answers are not asked again."""
    return work_of(resume)(folder, options)
