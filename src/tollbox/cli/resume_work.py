"""`tollbox resume`: continue a study, or an attack, whatever ended it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..audits.audit import options_of
from ..audits.evidence import SETTINGS
from ..studies.events import Options
from ..studies.fingerprint import recorded_study
from ..studies.inputs import load
from ..studies.store.record import StudyRecord, first_difference
from ..studies.store.store import Store, shard_paths
from . import attack_files, audit
from .hints import page_hint
from .output import say
from .parsing import seconds
from .resume import ResumeOptions
from .study_run import cluster_of, keeping, run_left, say_end


def resume(folder: Path, options: ResumeOptions) -> int:
    """Run what is left, and end as the command did that began it."""
    limit = seconds(options.time_limit)
    cluster = cluster_of(options.ray, options.ray_engines, options.ray_gpus)
    with Store.open(shard_paths(folder)[0], write=False) as store:
        record = store.study
    how = Options(
        rerun=options.rerun,
        failed=options.failed,
        time_limit=limit,
        force_workers=options.force_workers,
    )
    if record.made_by == "attack":
        loaded = load(recorded_study(record, files=True), record=record)
        with keeping(folder):
            return attack_files.finish(folder, *run_left(folder, how, loaded, cluster), loaded)
    if SETTINGS in record.settings:
        with keeping(folder):
            how = replace(how, in_order=options_of(limit).in_order)
            return audit.finish(folder, *run_left(folder, how, cluster=cluster))
    if record.made_by == "run" and (change := _describe_edit(record)) is not None:
        say(change)
    next_step = page_hint(folder) if record.parts == 1 else ""
    with keeping(folder):
        return say_end(folder, *run_left(folder, how, cluster=cluster), next_step)


def _describe_edit(record: StudyRecord) -> str | None:
    """A sentence if the study's file is no longer what it was."""
    path = record.folder / Path(record.where).name  # wherever one stands now
    try:
        now = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return None
    line = first_difference(record.text, now.removeprefix("\ufeff"))
    if line is None:
        return None
    return (
        f"{path} was edited since (line {line}): this continues the study as it was begun; for "
        "the new one use `tollbox run` with another --out."
    )
