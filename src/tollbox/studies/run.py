"""Running a study: a coordinator in this process, and workers in this or other processes.

1. The coordinator (`coordinator.py`) owns the stores. Workers (`job.py`) request cells from it and
   send their results. An executor connects the two: this process if the study has one shard, one
   process for each shard with cells left, or a Ray cluster.
2. If a worker cannot continue, the others finish, and the study can be resumed. If a worker fails
   with an error, the others are stopped, and the error is raised.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

from ..core.model import Model
from ..core.validation import check_flag, check_function, checked_seconds, require
from ..data.tables import path_of
from ..errors import ModelWarning, TollboxError
from ..workers.executors import Executor, Job, SameProcess, Stopper, fewer_notice, within_cores
from ..workers.process import ProcessPool
from .coordinator import Coordinator
from .create import WHOLE, Part, create, holds
from .events import Options, Outcome, Tell
from .fingerprint import recorded_study
from .inputs import StudyInputs, find_device, load
from .job import Loader, WorkerJob
from .ray import RayPool, RayWorkers
from .results import StudyResults
from .status import StudyStatus
from .store.store import Store, read_record
from .study import Study

CHECK_SECONDS = 0.5
"""Time between two checks whether a model in this process hangs."""


class ProcessDied(TollboxError):
    """A worker's process that died or ran out of memory, and could not be replaced."""


class ModelHangs(TollboxError):
    """A model that does not answer after the time limit is reached."""


def run_study(
    study: Study,
    out: str | Path,
    *,
    models: Mapping[str, Model] | None = None,
    tell: Tell | None = None,
    time_limit: float | str = math.inf,
    force_workers: bool = False,
    shard: str | None = None,
    executor: RayWorkers | None = None,
    trust: bool = False,
) -> StudyResults:
    """Run a study in a new folder, or resume it if the folder already holds it.

    models: models to use instead of loading them, by their names in the study.
    tell: function that is called with each event (`tollbox.studies.events.Event`).
    time_limit: seconds, or text such as "30m", after which the run stops; it can be resumed. A
        model that hangs in this process is not stopped.
    force_workers: start all processes that the study requests, even if there are fewer cores.
    shard: "K/N" runs part K of N only; `merge_parts` merges all parts into one folder.
    executor: `tb.studies.RayWorkers`, for a Ray cluster instead of processes on this machine.
    trust: load models and surrogates from exported programs and TorchScript, which can run code.
    """
    require(isinstance(study, Study), "study", study, "a tb.Study, as of tb.Study.from_toml")
    seconds = checked_seconds("time_limit", time_limit)
    check_function("tell", tell)
    check_flag("force_workers", force_workers)
    check_flag("trust", trust)
    if executor is not None:
        right = isinstance(executor, RayWorkers)
        require(right, "executor", executor, "a tb.studies.RayWorkers")
        executor.rooms(find_device(study))  # before anything is created
    part = WHOLE if shard is None else Part.parse(shard)
    folder = path_of(out, "out")
    resumed = holds(study, folder, part)
    loaded = load(study, models, read_record(folder) if resumed else None, trust)
    if not resumed:
        findings = create(loaded, folder, "python", force_workers=force_workers, part=part)
        if findings:
            warnings.warn(" ".join(findings), ModelWarning, stacklevel=2)
    notice = fewer_notice(study.workers, len(loaded.grid), force_workers, "force_workers=True")
    if notice is not None:
        warnings.warn(notice, stacklevel=2)
    options = Options(time_limit=seconds, force_workers=force_workers, trust=trust)
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

    on_hang: function that is called in another thread, with a message, if the time limit is reached
        and a model in this process does not answer; it must end the process.
    """
    with StudyStatus(folder) as before:
        record, shards = before.record, len(before.stores)
        left = [store.path for store in before.stores if _has_work(store, options.failed)]
        left = left or [before.stores[0].path]  # its worker still compares study and record
    study = recorded_study(record, files=False) if loaded is None else loaded.study
    loader = Loader(models=loaded.supplied if loaded is not None else {}, trust=options.trust)
    workers = len(left)
    # a merged study may have more shards than workers
    count = min(within_cores(workers, options.force_workers), study.workers)
    options = replace(options, share=1 / count, own_process=shards > 1 or cluster is not None)
    with ExitStack() as stack:
        stores = [stack.enter_context(Store(path, write=True)) for path in left]
        executor: Executor
        if cluster is not None:
            executor = pool = stack.enter_context(RayPool(cluster, find_device(study), loader))
            workers, options = pool.wanted, replace(options, share=pool.share)
        elif options.own_process:
            executor = stack.enter_context(ProcessPool(count, loader))
        else:
            executor = SameProcess(Loader(loaded, trust=options.trust))
        coordinator = Coordinator(stores, options, workers, tell, stopper, cluster is not None)
        if not options.own_process and on_hang is not None:
            finished = threading.Event()
            stack.callback(finished.set)
            watch = coordinator, on_hang, finished
            threading.Thread(target=_watch, args=watch, daemon=True).start()
        jobs = [WorkerJob(worker, record, folder, options) for worker in range(workers)]
        return run_jobs(executor, jobs, coordinator, stopper)


def _has_work(store: Store, failed: bool) -> bool:
    """Return whether a shard has cells left; with `failed`, failed cells count as left."""
    ended = sum(not (failed and end.stop.failed) for end in store.results())
    return ended < len(store.study.shard_cells)


def _watch(
    coordinator: Coordinator, on_hang: Callable[[str], None], finished: threading.Event
) -> None:
    """Call `on_hang` if the single worker, which runs in another thread, is overdue."""
    while not finished.wait(CHECK_SECONDS):
        if coordinator.overdue(0):
            on_hang(coordinator.hang_message())
            return


def run_jobs(
    executor: Executor, jobs: Sequence[Job], coordinator: Coordinator, stopper: Stopper
) -> Outcome:
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
                deaths.append(f"worker {end.job} ({end.died})")
            if coordinator.had_work and coordinator.finished:
                break  # some workers may wait for a process that never starts
    if first_error is not None:
        raise first_error
    if coordinator.hung:
        raise ModelHangs(coordinator.hang_message())
    outcome = coordinator.end()
    if outcome.unfinished and (coordinator.out_of_memory or deaths):
        what, advice = f"the process of {', '.join(deaths)} died", ""
        if coordinator.out_of_memory:
            what = f"there is not enough memory, even for a single process: {', '.join(deaths)}"
            advice = "Free some memory, or use a larger machine. "
        raise ProcessDied(
            f"{what}. All recorded answers are kept. {advice}Resume with "
            f"`tollbox resume {coordinator.folder}`."
        )
    return outcome
