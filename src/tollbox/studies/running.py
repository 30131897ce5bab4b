"""Running a study: a job for each shard that has cells left, in this process if the study has only
one shard. There are no more processes than such shards, nor than cores unless they are forced.

1. A job opens its shard, loads the images, models and surrogates itself, checks them against what
   the study was begun with, and runs what is left.
2. What happens comes to one `tell`, whichever process it is from.
3. If a process dies, runs out of memory, or hangs when the time is up: see `care.py`. If it cannot
   be helped, the others run to their end, and the shard can be resumed. If a job fails, the others
   are stopped, and its error is raised.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..core.arguments import check_flag, check_function, check_seconds, shown
from ..core.model import Model
from ..engine.executors import (
    Executor,
    Link,
    Processes,
    SameProcess,
    Stopper,
    fewer_notice,
    within_cores,
)
from ..errors import InputError, TollboxError
from ..files.tables import path_of
from ..running import ModelWarning
from .beginning import WHOLE, Part, begin, holds
from .care import ShardCare
from .identity import check_attacks, check_tables, recorded_study
from .loading import Loaded, load
from .reading import StudyResults
from .shard import Event, Options, Outcome, Shard, Tell
from .spec.study import Study
from .store.folder import read_record, shard_paths
from .store.record import StudyRecord
from .store.store import Store


class ProcessDied(TollboxError):
    """A shard's process ended without a word, or for lack of memory."""


class ModelHangs(TollboxError):
    """The time is up, and a model does not answer."""


def run_study(
    study: Study,
    out: str | Path,
    *,
    models: Mapping[str, Model] | None = None,
    tell: Tell | None = None,
    time_limit: float = math.inf,
    force_workers: bool = False,
    shard: str | None = None,
) -> StudyResults:
    """Run a study in a new folder, or resume it if the folder already holds it.

    models: models to use instead of loading them, by their names in the study.
    tell: called with what happens (`tollbox.studies.shard.Event`).
    time_limit: seconds after which the run ends; it can be resumed. A model that hangs in this
        process cannot be ended by it.
    force_workers: use all the processes that the study asks for, even if they are more than cores.
    shard: "K/N" runs part K of N only; `merge_parts` makes one folder of all parts.
    """
    if not isinstance(study, Study):
        raise InputError(
            f"is {shown(study)}", expected="a tb.Study, as of tb.Study.from_toml", input="study"
        )
    check_seconds("time_limit", time_limit)
    check_function("tell", tell)
    check_flag("force_workers", force_workers)
    part = WHOLE if shard is None else Part.parse(shard)
    folder = path_of(out, "out")
    resumed = holds(study, folder, part)
    loaded = load(study, models, read_record(folder) if resumed else None)
    if not resumed:
        findings = begin(loaded, folder, "python", force_workers=force_workers, part=part)
        if findings:
            warnings.warn(" ".join(findings), ModelWarning, stacklevel=2)
    notice = fewer_notice(study.workers, len(loaded.grid), force_workers, "force_workers=True")
    if notice is not None:
        warnings.warn(notice, stacklevel=2)
    options = Options(time_limit=time_limit, force_workers=force_workers)
    run_folder(folder, options, tell or _ignore, Stopper(), loaded)
    return StudyResults(folder, loaded)


def _ignore(event: Event) -> None:
    """Nobody listens."""


def run_folder(
    folder: Path,
    options: Options,
    tell: Tell,
    stopper: Stopper,
    loaded: Loaded | None = None,
    hang: Callable[[str], None] | None = None,
) -> Outcome:
    """Run what is left of the study in a folder; `loaded` is that study, if it is at hand.

    hang: called in another thread, with a sentence, if the time is up and a model in this process
        does not answer; it is to end the process.
    """
    paths = shard_paths(folder)
    with Store.open(paths[0], write=False) as store:
        record = store.study
    shards = dict(zip(record.folder_shards, paths, strict=True))
    left = {n: path for n, path in shards.items() if _has_work(path, options.failed)}
    left = left or {record.part: paths[0]}  # which sees whether all is as it was
    count = within_cores(len(left), options.force_workers)
    if loaded is None or len(paths) > 1:  # of a merged study there may be more than workers
        count = min(count, recorded_study(record, files=False).workers)
    options = replace(options, share=1 / count, own_process=len(paths) > 1)
    care = ShardCare(folder, [*left], options.time_limit, tell, stopper)
    jobs = [_ShardJob(path, options) for path in left.values()]
    if len(paths) == 1:
        with care.watching(hang):
            return _run_jobs(SameProcess(_Loader(loaded)), jobs, care, stopper)
    loader = _Loader(models=loaded.supplied if loaded is not None else {})
    with Processes(count, loader) as processes:
        return _run_jobs(processes, jobs, care, stopper)


def _has_work(path: Path, failed: bool) -> bool:
    """Whether a shard has cells left; those that failed are left if they are to be run again."""
    with Store.open(path, write=False) as store:
        ended = sum(not (failed and end.stop.failed) for end in store.results())
        return ended < len(store.study.shard_cells)


@dataclass
class _Loader:
    """The study of a record with its images: the one at hand, or loaded once in this process."""

    loaded: Loaded | None = None
    models: Mapping[str, Model] = field(default_factory=dict)

    def __call__(self, record: StudyRecord) -> Loaded:
        if self.loaded is None:
            study = recorded_study(record, files=not self.models)
            self.loaded = load(study, self.models, record)
        return self.loaded


@dataclass(frozen=True)
class _ShardJob:
    """Run what is left of a shard."""

    path: Path
    options: Options

    def __call__(self, load_study: _Loader, link: Link) -> Outcome:
        with Store.open(self.path, write=True) as store:
            loaded = load_study(store.study)
            check_tables(store.study, loaded.study)
            check_attacks(store.study, loaded.study, self.path.parent)
            loaded.check_images(store.images(), self.path.parent)
            loaded.check_masks(store.study.masks, self.path.parent)
            for spec in loaded.study.attacks:
                loaded.check_surrogate(spec, store.study.surrogates, self.path.parent)
            options = replace(self.options, time_limit=link.ask("seconds left") or 0.0)
            shard = Shard(store, loaded, options, link.tell)
            link.on_stop(shard.stop)
            return shard.run()


def _run_jobs(
    executor: Executor, jobs: Sequence[_ShardJob], care: ShardCare, stopper: Stopper
) -> Outcome:
    """Run the jobs of all shards to their end."""
    outcome = Outcome()
    first_error: Exception | None = None
    deaths: list[str] = []
    ends = executor.run(jobs, tell=care.tell, answer=care.seconds_left, stopper=stopper, care=care)
    for end in ends:
        if end is None:
            continue
        if end.error is not None:
            first_error = first_error or end.error
            stopper()
        elif end.died and stopper.reason is None:  # else whoever stops us may have ended it too
            deaths.append(f"{jobs[end.job].path.name} ({end.died})")
        elif end.value is not None:
            outcome.add(end.value)
    if first_error is not None:
        raise first_error
    if care.hung:
        raise ModelHangs(care.sentence())
    if care.out_of_memory:
        raise ProcessDied(
            f"there is not enough memory, even for a single process: {', '.join(deaths)}; all that "
            "was recorded is safe: free some, or go where there is more, and go on with "
            f"`tollbox resume {jobs[0].path.parent}`."
        )
    if deaths:
        raise ProcessDied(
            f"the process of {', '.join(deaths)} died; all that it had recorded is safe: go on "
            f"with `tollbox resume {jobs[0].path.parent}`."
        )
    return outcome
