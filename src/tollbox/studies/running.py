"""Running a study: a job for each shard, in this process if there is only one.

1. A job opens its shard, loads the images and models itself, checks them against what the study was
   begun with, and runs what is left.
2. What happens comes to one `tell`, whichever process it is from.
3. If a process dies, or hangs when the time is up: see `care.py`. If it cannot be helped, the
   others run to their end, and the shard can be resumed. If a job fails, the others are stopped,
   and its error is raised.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..core.arguments import check_function, check_seconds, shown
from ..core.model import Model
from ..engine.executors import Executor, Link, Processes, SameProcess, Stopper
from ..errors import InputError, TollboxError
from ..files.tables import path_of
from ..running import ModelWarning
from .beginning import begin, holds
from .care import ShardCare
from .identity import check_attacks, recorded_study
from .loading import Loaded, load
from .reading import StudyResults
from .shard import Event, Options, Outcome, Shard, Tell
from .spec.study import Study
from .store.folder import shard_paths
from .store.record import StudyRecord
from .store.store import Store


class ProcessDied(TollboxError):
    """A shard's process ended without a word."""


class ModelHangs(TollboxError):
    """The time is up, and a model does not answer."""


def run_study(
    study: Study,
    out: str | Path,
    *,
    models: Mapping[str, Model] | None = None,
    tell: Tell | None = None,
    time_limit: float = math.inf,
) -> StudyResults:
    """Run a study in a new folder, or resume it if the folder already holds it.

    models: models to use instead of loading them, by their names in the study.
    tell: called with what happens (`tollbox.studies.shard.Event`).
    time_limit: seconds after which the run ends; it can be resumed. A model that hangs in this
        process cannot be ended by it.
    """
    if not isinstance(study, Study):
        raise InputError(
            f"is {shown(study)}", expected="a tb.Study, as of tb.Study.from_toml", input="study"
        )
    check_seconds("time_limit", time_limit)
    check_function("tell", tell)
    folder, loaded = path_of(out, "out"), load(study, models)
    if not holds(study, folder):
        findings = begin(loaded, folder, "python")
        if findings:
            warnings.warn(" ".join(findings), ModelWarning, stacklevel=2)
    run_folder(folder, Options(time_limit=time_limit), tell or _ignore, Stopper(), loaded)
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
    options = replace(options, share=1 / len(paths))
    care = ShardCare(_ShardJob, paths, options, tell, stopper)
    jobs = [_ShardJob(path, options) for path in paths]
    if len(paths) == 1:
        with care.watching(hang):
            return _run_jobs(SameProcess(_Loader(loaded)), jobs, care, stopper)
    loader = _Loader(models=loaded.supplied if loaded is not None else {})
    with Processes(len(paths), loader) as processes:
        return _run_jobs(processes, jobs, care, stopper)


@dataclass(frozen=True)
class _Loader:
    """The study of a record with its images: the one at hand, or loaded."""

    loaded: Loaded | None = None
    models: Mapping[str, Model] = field(default_factory=dict)

    def __call__(self, record: StudyRecord) -> Loaded:
        if self.loaded is not None:
            return self.loaded
        return load(recorded_study(record, files=not self.models), self.models)


@dataclass(frozen=True)
class _ShardJob:
    """Run what is left of a shard."""

    path: Path
    options: Options

    def __call__(self, load_study: _Loader, link: Link) -> Outcome:
        with Store.open(self.path, write=True) as store:
            loaded = load_study(store.study)
            check_attacks(store.study, loaded.study, self.path.parent)
            loaded.check_images(store.images(), self.path.parent)
            shard = Shard(store, loaded, self.options, link.tell)
            link.on_stop(shard.stop)
            return shard.run()


def _run_jobs(
    executor: Executor, jobs: Sequence[_ShardJob], care: ShardCare, stopper: Stopper
) -> Outcome:
    """Run the jobs of all shards to their end."""
    outcome = Outcome()
    first_error: Exception | None = None
    deaths: list[str] = []
    for end in executor.run(jobs, tell=care.tell, answer=_no_answer, stopper=stopper, care=care):
        if end is None:
            continue
        if end.error is not None:
            first_error = first_error or end.error
            stopper()
        elif end.died and stopper.reason is None:  # else whoever stops us may have ended it too
            deaths.append(f"{jobs[end.job].path.name} ({end.died})")
        else:
            outcome.add(end.value)
    if first_error is not None:
        raise first_error
    if care.hung:
        raise ModelHangs(care.sentence())
    if deaths:
        raise ProcessDied(
            f"the process of {', '.join(deaths)} died; all that it had recorded is safe: go on "
            f"with `tollbox resume {jobs[0].path.parent}`."
        )
    return outcome


def _no_answer(job: int, request: Any) -> None:
    """Shards ask nothing."""
