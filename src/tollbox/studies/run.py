"""Running a study: the desk in this process, and an engine for each shard that has cells left, in
this process too if the study has only one shard; or engines on a cluster. On this machine there are
no more processes than such shards, nor than cores unless they are forced.

1. The desk (`desk.py`) owns the stores; engines (`engine_job.py`) pull cells from it and send what
   becomes of them. An executor is all that is between the two.
2. What happens comes to one `tell`, whichever engine it is from.
3. If a process dies, runs out of memory, or hangs when the time is up: see `care.py`. If it cannot
   be helped, the others run to their end, and the study can be resumed. If an engine fails, the
   others are stopped, and its error is raised.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from ..core.model import Model
from ..core.validation import check_flag, check_function, check_seconds, shown
from ..data.tables import path_of
from ..errors import InputError, ModelWarning, TollboxError
from ..workers.executors import Executor, SameProcess, Stopper, fewer_notice, within_cores
from ..workers.process import Processes
from .coordinator import Desk, writing
from .create import WHOLE, Part, create, holds
from .events import Event, Options, Outcome, Tell
from .fingerprint import recorded_study
from .inputs import StudyInputs, load
from .job import EngineJob, Loader
from .ray import RayCrew, RayEngines
from .results import StudyResults
from .sources import find_device
from .store.record import StudyRecord
from .store.store import Store, read_record, shard_paths
from .study import Study
from .supervisor import EngineCare


class ProcessDied(TollboxError):
    """An engine's process ended without a word, or for lack of memory."""


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
    executor: RayEngines | None = None,
) -> StudyResults:
    """Run a study in a new folder, or resume it if the folder already holds it.

    models: models to use instead of loading them, by their names in the study.
    tell: called with what happens (`tollbox.studies.events.Event`).
    time_limit: seconds after which the run ends; it can be resumed. A model that hangs in this
        process cannot be ended by it.
    force_workers: use all the processes that the study asks for, even if they are more than cores.
    shard: "K/N" runs part K of N only; `merge_parts` makes one folder of all parts.
    executor: engines on a Ray cluster (`RayEngines`) instead of processes of this machine.
    """
    if not isinstance(study, Study):
        raise InputError(
            f"is {shown(study)}", expected="a tb.Study, as of tb.Study.from_toml", input="study"
        )
    check_seconds("time_limit", time_limit)
    check_function("tell", tell)
    check_flag("force_workers", force_workers)
    if executor is not None and not isinstance(executor, RayEngines):
        raise InputError(f"is {shown(executor)}", expected="a RayEngines", input="executor")
    if executor is not None:
        executor.rooms(find_device(study))  # before anything is made
    part = WHOLE if shard is None else Part.parse(shard)
    folder = path_of(out, "out")
    resumed = holds(study, folder, part)
    loaded = load(study, models, read_record(folder) if resumed else None)
    if not resumed:
        findings = create(loaded, folder, "python", force_workers=force_workers, part=part)
        if findings:
            warnings.warn(" ".join(findings), ModelWarning, stacklevel=2)
    notice = fewer_notice(study.workers, len(loaded.grid), force_workers, "force_workers=True")
    if notice is not None:
        warnings.warn(notice, stacklevel=2)
    options = Options(time_limit=time_limit, force_workers=force_workers)
    run_folder(folder, options, tell or _ignore, Stopper(), loaded, cluster=executor)
    return StudyResults(folder, loaded)


def _ignore(event: Event) -> None:
    """Nobody listens."""


def run_folder(
    folder: Path,
    options: Options,
    tell: Tell,
    stopper: Stopper,
    loaded: StudyInputs | None = None,
    hang: Callable[[str], None] | None = None,
    cluster: RayEngines | None = None,
) -> Outcome:
    """Run what is left of the study in a folder; `loaded` is that study, if it is at hand.

    hang: called in another thread, with a sentence, if the time is up and a model in this process
        does not answer; it is to end the process.
    cluster: where engines run instead of on this machine.
    """
    paths = shard_paths(folder)
    with Store.open(paths[0], write=False) as store:
        record = store.study
    shards = dict(zip(record.folder_shards, paths, strict=True))
    left = {n: path for n, path in shards.items() if _has_work(path, options.failed)}
    left = left or {record.part: paths[0]}  # whose engine sees whether all is as it was
    if cluster is not None:
        return _run_on(cluster, left, record, options, tell, stopper, loaded)
    count = within_cores(len(left), options.force_workers)
    if loaded is None or len(paths) > 1:  # of a merged study there may be more than workers
        count = min(count, recorded_study(record, files=False).workers)
    options = replace(options, share=1 / count, own_process=len(paths) > 1)
    care = EngineCare(folder, [*left], options.time_limit, tell, stopper)
    jobs = [EngineJob(engine, record, folder, options) for engine in left]
    with writing(left) as stores:
        desk = Desk(stores, [*left], options, care.seconds_left, care.tell)
        if len(paths) == 1:
            with care.watching(hang):
                return _run_jobs(SameProcess(Loader(loaded)), jobs, desk, care, stopper)
        loader = Loader(models=loaded.supplied if loaded is not None else {})
        with Processes(count, loader) as processes:
            return _run_jobs(processes, jobs, desk, care, stopper)


def _run_on(
    cluster: RayEngines,
    left: Mapping[int, Path],
    record: StudyRecord,
    options: Options,
    tell: Tell,
    stopper: Stopper,
    loaded: StudyInputs | None,
) -> Outcome:
    """The same by engines of a cluster; `left` are the shards that have work, by number."""
    folder = next(iter(left.values())).parent
    with writing(left) as stores:
        study = recorded_study(record, files=False)
        loader = Loader(models=loaded.supplied if loaded is not None else {})
        with RayCrew(cluster, find_device(study), loader) as crew:
            engines = range(crew.wanted)
            options = replace(options, share=crew.share, own_process=True)
            care = EngineCare(folder, engines, options.time_limit, tell, stopper, cluster=True)
            desk = Desk(stores, engines, options, care.seconds_left, care.tell)
            jobs = [EngineJob(engine, record, folder, options) for engine in engines]
            return _run_jobs(crew, jobs, desk, care, stopper)


def _has_work(path: Path, failed: bool) -> bool:
    """Whether a shard has cells left; those that failed are left if they are to be run again."""
    with Store.open(path, write=False) as store:
        ended = sum(not (failed and end.stop.failed) for end in store.results())
        return ended < len(store.study.shard_cells)


def _run_jobs(
    executor: Executor,
    jobs: Sequence[EngineJob],
    desk: Desk,
    care: EngineCare,
    stopper: Stopper,
) -> Outcome:
    """Run all engines to their end, or to that of the work."""
    care.take_back = desk.take_back
    first_error: Exception | None = None
    deaths: list[str] = []
    ends = executor.run(jobs, tell=desk.hear, answer=desk.answer, stopper=stopper, care=care)
    with closing(ends):
        for end in ends:
            if end is not None and end.error is not None:
                first_error = first_error or end.error
                stopper()
            elif end is not None and end.died and stopper.reason is None:
                deaths.append(f"engine {jobs[end.job].engine} ({end.died})")
            if desk.had_work and (desk.finished or (care.time_is_up and desk.idle)):
                break  # some may wait for a process that never comes
    if first_error is not None:
        raise first_error
    if care.hung:
        raise ModelHangs(care.sentence())
    outcome, folder = desk.end(), jobs[0].folder
    if outcome.unfinished and care.out_of_memory:
        raise ProcessDied(
            f"there is not enough memory, even for a single process: {', '.join(deaths)}; all that "
            "was recorded is safe: free some, or go where there is more, and go on with "
            f"`tollbox resume {folder}`."
        )
    if outcome.unfinished and deaths:
        raise ProcessDied(
            f"the process of {', '.join(deaths)} died; all that it had recorded is safe: go on "
            f"with `tollbox resume {folder}`."
        )
    return outcome
