"""Running a study: a coordinator in this process, and workers in this or other processes.

1. The coordinator (`coordinator.py`) owns the stores. Workers (`job.py`) request cells from it and
   send their results. An executor connects the two: this process if the study has one shard, one
   process for each shard with cells left, or a Ray cluster.
2. All events go to one callback, whichever worker they come from.
3. `supervisor.py` says what happens if a process dies, runs out of memory, or hangs at the time
   limit. If a worker cannot continue, the others finish, and the study can be resumed. If a worker
   fails with an error, the others are stopped, and the error is raised.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

from ..core.model import Model
from ..core.validation import check_flag, check_function, check_seconds, shown
from ..data.tables import path_of
from ..errors import InputError, ModelWarning, TollboxError
from ..workers.executors import Executor, SameProcess, Stopper, fewer_notice, within_cores
from ..workers.process import ProcessPool
from .coordinator import Coordinator, open_stores
from .create import WHOLE, Part, create, holds
from .events import Options, Outcome, Tell
from .fingerprint import recorded_study
from .inputs import StudyInputs, find_device, load
from .job import Loader, WorkerJob
from .ray import RayPool, RayWorkers
from .results import StudyResults
from .store.store import Store, read_record, shard_paths
from .study import Study
from .supervisor import Supervisor


class ProcessDied(TollboxError):
    """A worker's process died, or ran out of memory, and could not be replaced."""


class ModelHangs(TollboxError):
    """The time limit was reached, and a model does not answer."""


def run_study(
    study: Study,
    out: str | Path,
    *,
    models: Mapping[str, Model] | None = None,
    tell: Tell | None = None,
    time_limit: float = math.inf,
    force_workers: bool = False,
    shard: str | None = None,
    executor: RayWorkers | None = None,
) -> StudyResults:
    """Run a study in a new folder, or resume it if the folder already holds it.

    models: models to use instead of loading them, by their names in the study.
    tell: function that is called with each event (`tollbox.studies.events.Event`).
    time_limit: seconds after which the run stops; it can be resumed. A model that hangs in this
        process is not stopped.
    force_workers: start all processes that the study requests, even if they are more than cores.
    shard: "K/N" runs part K of N only; `merge_parts` merges all parts into one folder.
    executor: `tb.studies.RayWorkers`, for a Ray cluster instead of processes of this machine.
    """
    if not isinstance(study, Study):
        raise InputError(
            f"is {shown(study)}", expected="a tb.Study, as of tb.Study.from_toml", input="study"
        )
    check_seconds("time_limit", time_limit)
    check_function("tell", tell)
    check_flag("force_workers", force_workers)
    if executor is not None and not isinstance(executor, RayWorkers):
        expected = "a tb.studies.RayWorkers"
        raise InputError(f"is {shown(executor)}", expected=expected, input="executor")
    if executor is not None:
        executor.rooms(find_device(study))  # before anything is created
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
    run_folder(folder, options, tell or (lambda _: None), Stopper(), loaded, cluster=executor)
    return StudyResults(folder, loaded)


def run_folder(
    folder: Path,
    options: Options,
    tell: Tell,
    stopper: Stopper,
    loaded: StudyInputs | None = None,
    on_hang: Callable[[str], None] | None = None,
    cluster: RayWorkers | None = None,
) -> Outcome:
    """Run the remaining cells of the study in a folder.

    loaded: the study, if it is already loaded.
    on_hang: function that is called in another thread, with a message, if the time limit is reached
        and a model in this process does not answer; it must end the process.
    cluster: where workers run, if not on this machine.
    """
    paths = shard_paths(folder)
    with Store.open(paths[0], write=False) as store:
        record = store.study
    shards = dict(zip(record.folder_shards, paths, strict=True))
    left = {n: path for n, path in shards.items() if _has_work(path, options.failed)}
    left = left or {record.part: paths[0]}  # its worker compares the study with the record
    loader = Loader(models=loaded.supplied if loaded is not None else {})
    workers: Sequence[int] = [*left]
    count = within_cores(len(left), options.force_workers)
    if loaded is None or len(paths) > 1:  # a merged study may have more shards than workers
        count = min(count, recorded_study(record, files=False).workers)
    options = replace(options, share=1 / count, own_process=len(paths) > 1 or cluster is not None)
    with ExitStack() as stack:
        stores = stack.enter_context(open_stores(left))
        executor: Executor
        if cluster is not None:
            device = find_device(recorded_study(record, files=False))
            executor = pool = stack.enter_context(RayPool(cluster, device, loader))
            workers = range(pool.wanted)
            options = replace(options, share=pool.share)
        elif options.own_process:
            executor = stack.enter_context(ProcessPool(count, loader))
        else:
            executor = SameProcess(Loader(loaded))
        on_cluster = cluster is not None
        supervisor = Supervisor(folder, workers, options.time_limit, tell, stopper, on_cluster)
        coordinator = Coordinator(stores, options, supervisor)
        if not options.own_process:
            stack.enter_context(supervisor.watch_own_process(on_hang))
        jobs = [WorkerJob(worker, record, folder, options) for worker in workers]
        return run_jobs(executor, jobs, coordinator, stopper)


def _has_work(path: Path, failed: bool) -> bool:
    """Return whether a shard has cells left; with `failed`, failed cells count as left."""
    with Store.open(path, write=False) as store:
        ended = sum(not (failed and end.stop.failed) for end in store.results())
        return ended < len(store.study.shard_cells)


def run_jobs(
    executor: Executor, jobs: Sequence[WorkerJob], coordinator: Coordinator, stopper: Stopper
) -> Outcome:
    """Run all workers until they end, or until no cell is left."""
    supervisor = coordinator.supervisor
    first_error: Exception | None = None
    deaths: list[str] = []
    ends = executor.run(
        jobs,
        report=coordinator.hear,
        answer=coordinator.answer,
        stopper=stopper,
        policy=coordinator,
    )
    with closing(ends):
        for end in ends:
            if end is not None and end.error is not None:
                first_error = first_error or end.error
                stopper()
            elif end is not None and end.died and stopper.reason is None:
                deaths.append(f"worker {jobs[end.job].worker} ({end.died})")
            out_of_time = supervisor.time_is_up and coordinator.idle
            if coordinator.had_work and (coordinator.finished or out_of_time):
                break  # some workers may wait for a process that never starts
    if first_error is not None:
        raise first_error
    if supervisor.hung:
        raise ModelHangs(supervisor.hang_message())
    outcome = coordinator.end()
    resume = f"Resume with `tollbox resume {jobs[0].folder}`."
    if outcome.unfinished and supervisor.out_of_memory:
        raise ProcessDied(
            f"there is not enough memory, even for a single process: {', '.join(deaths)}. All "
            f"recorded answers are kept. Free some memory, or use a larger machine. {resume}"
        )
    if outcome.unfinished and deaths:
        raise ProcessDied(
            f"the process of {', '.join(deaths)} died. All recorded answers are kept. {resume}"
        )
    return outcome
