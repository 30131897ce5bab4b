"""`tollbox resume`: go on with a study, or an attack, that was ended by whatever it was."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ..studies.shard import Options
from ..studies.store.folder import edited, shards
from ..studies.store.store import Store
from . import attack_files
from .choices import seconds
from .streams import say
from .study_run import run_left, told


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


def resume(folder: Path, options: ResumeOptions = ResumeOptions()) -> int:  # noqa: B008
    """Go on with a study or an attack; recorded answers are not asked again."""
    limit = seconds(options.time_limit)
    with Store.open(shards(folder)[0], write=False) as store:
        about = store.about
    if about["made_by"] == "run" and (changed := edited(about)) is not None:
        say(changed)
    how = Options(rerun=options.rerun, failed=options.failed, time_limit=limit)
    outcome, interrupted = run_left(folder, how)
    if about["made_by"] == "attack":
        return attack_files.finish(folder, outcome, interrupted)
    return told(folder, outcome, interrupted)
