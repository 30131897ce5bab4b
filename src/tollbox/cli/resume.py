"""`tollbox resume`: continue a study, an attack or an audit, whatever stopped it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import Parameter

from ..errors import FileError
from .options import Folder, RunningOptions, seconds

if TYPE_CHECKING:
    from ..studies.store.record import StudyRecord


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ResumeOptions(RunningOptions):
    rerun: bool = False
    """Restart cells whose queries no longer match the recording."""
    failed: bool = False
    """Run failed cells again."""


def resume(folder: Folder, /, options: ResumeOptions = ResumeOptions()) -> int:  # noqa: B008
    """Continue a study or an attack; recorded answers are not asked for again."""
    from ..audits.audit import conclude, options_of
    from ..audits.costs import SETTINGS
    from ..studies.events import Options
    from ..studies.fingerprint import recorded_study
    from ..studies.inputs import load
    from ..studies.status import StudyStatus
    from .attack_files import finish
    from .audit import show
    from .output import page_hint, say
    from .study_run import cluster_of, keeping, run_left, say_end

    limit, cluster = seconds(options.time_limit), cluster_of(options)
    with StudyStatus(folder) as status:
        record = status.record
    force, rerun, failed = options.force_workers, options.rerun, options.failed
    trust = options.trust_model
    how = Options(rerun, failed, time_limit=limit, force_workers=force, trust=trust)
    if record.made_by == "attack":
        loaded = load(recorded_study(record, files=True), record=record, trust=trust)
        with keeping(folder):
            return finish(folder, *run_left(folder, how, loaded, cluster), loaded)
    if SETTINGS in record.settings:
        with keeping(folder):
            how = replace(how, in_order=options_of(limit).in_order)
            code = say_end(folder, *run_left(folder, how, cluster=cluster), table=False)
            show(conclude(folder, trust_code=True))
            return code
    if record.made_by == "run" and (change := _describe_edit(record)) is not None:
        say(change)
    next_step = page_hint(folder) if record.parts == 1 else ""
    with keeping(folder):
        return say_end(folder, *run_left(folder, how, cluster=cluster), next_step)


def _describe_edit(record: StudyRecord) -> str | None:
    """Return a notice if the study file has changed since the study was created; else None."""
    from ..studies.store.record import first_difference
    from ..studies.toml import read_text

    path = record.folder / Path(record.where).name  # independent of the current folder
    try:
        now = read_text(path)
    except FileError:
        return None
    line = first_difference(record.text, now.removeprefix("\ufeff"))
    if line is None:
        return None
    return (
        f"{path} was edited since (line {line}): this resumes the study as it was created. To run "
        "the edited study, use `tollbox run` with another --out."
    )
