"""Helpers for commands that run a study: run remaining cells, show progress, report the outcome.

1. Ctrl-C and SIGTERM stop the run as `interrupt.py` describes. All answers are kept.
2. If a store cannot be written, a process dies, or cells cannot be replayed, the exit code is 1,
   and a message says how to resume.
3. If a model misclassifies all images, the exit code is 1, and a message says what to check. If all
   runs fail, the exit code is 1 as well.
4. If the time limit stops a run before all cells are finished, the exit code is 3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from ..core.goal import numbered
from ..errors import InputError, mention
from ..studies.events import Options, Outcome
from ..studies.fingerprint import environment_notice
from ..studies.inputs import StudyInputs, find_device
from ..studies.ray import RayWorkers
from ..studies.results import StudyResults
from ..studies.run import run_folder
from ..workers.executors import Stopper, fewer_notice
from .interrupt import HANGS, Interrupt, ignore_signals
from .options import RunningOptions
from .output import FAILED, INCOMPLETE, console, say, write
from .progress import StudyProgress
from .status import findings, show

MANY_QUERIES = 100
"""Number of answers about one image among which more than one class is expected."""
WHAT_TO_CHECK = (
    "check the mean and std, the order of the channels, the order of the labels and the "
    "preprocessing"
)


def cluster_of(options: RunningOptions) -> RayWorkers | None:
    """Return the Ray cluster that the options name; None without --ray."""
    if options.ray is not None:
        address = options.ray[0] if options.ray else None
        return RayWorkers(address, options.ray_workers, options.ray_gpus)
    for name in ("ray_workers", "ray_gpus"):
        if getattr(options, name) is not None:
            raise InputError(f"is given without {mention('ray')}", input=name)
    return None


def run_left(
    folder: Path,
    options: Options,
    loaded: StudyInputs | None = None,
    cluster: RayWorkers | None = None,
) -> tuple[Outcome, int]:
    """Run the remaining cells and show progress.

    Returns the outcome, and the exit code of an interruption (0 if there was none).
    """
    with StudyResults(folder) as before:
        progress = StudyProgress(console(stderr=True), before, options.failed)
        if options.failed or len(before) < before.record.cells:
            device = find_device(before.study) if loaded is None else loaded.device
            notices = [environment_notice(before.record, device)]
            if cluster is None:
                workers, force = before.study.workers, options.force_workers
                notices.append(fewer_notice(workers, len(before.grid), force, "--force-workers"))
            for notice in filter(None, notices):
                say(notice)
    stopper = Stopper()
    hangs = f"{HANGS}. All recorded answers are kept. Resume with `tollbox resume {folder}`."
    end = partial(progress.end_process, hangs)
    with progress, Interrupt(stopper, progress.announce, end) as interrupt:
        outcome = run_folder(
            folder, options, progress.tell, stopper, loaded, progress.end_process, cluster
        )
    return outcome, interrupt.code


@contextmanager
def keeping(folder: Path) -> Iterator[None]:
    """Make an interruption within this context report what is saved in the study's folder."""
    try:
        yield
    except KeyboardInterrupt as stop:
        ignore_signals()
        with StudyResults(folder) as results:
            done, total, cells = len(results), results.record.cells, _cells(results)
        rest = f" All answers are kept. Resume with `tollbox resume {folder}`." * (done < total)
        said = f"interrupted: {done} of {total} {cells} are finished and saved.{rest}"
        raise type(stop)(said) from None


def say_end(
    folder: Path, outcome: Outcome, interruption: int, next_step: str = "", table: bool = True
) -> int:
    """Report the outcome of a run, with the next step if all went well; return the exit code.

    Without `table`, print only what went wrong, and the next step.
    """
    with StudyResults(folder) as results:
        total = results.record.cells
        if table:
            show(f"{results.study.name}: {folder}", results.status())
            notes = (f"Note: {note}." for note in results.unresolved)
            write(*findings(results), *notes)
        ends, cells = results.finished(), _cells(results)
        left = total - len(ends)
        failed = [end for end in ends if end.stop.failed]
        measured = any(end.stop.attacked and not end.stop.failed for end in ends)
        unfit, nothing_measured = _unfit_models(results)
    if failed:
        first = f"{_name_cell(results, failed[0].cell)}: {failed[0].reason}"
        again = f"Run them again with `tollbox resume {folder} --failed`."
        say(f"{len(failed)} {cells} failed; the first, {first}. {again}")
    if outcome.restarted:
        say(f"Restarted {outcome.restarted} {cells} whose queries no longer matched the recording.")
    for hint in unfit:
        say(hint)
    if interruption:
        saved = f"; what they had reached is saved, in {folder}" if cells == "images" else ""
        say(f"Interrupted; {left} {cells} remain{saved}. Resume with `tollbox resume {folder}`.")
        return interruption
    if outcome.diverged:
        cell, why = min(outcome.diverged.items())
        say(
            f"{len(outcome.diverged)} {cells} cannot be replayed here; the first is "
            f"{_name_cell(results, cell)}: {why}. Resume where they were started, or restart "
            f"them with `tollbox resume {folder} --rerun`."
        )
        return FAILED
    if left:
        say(f"Time limit reached; {left} {cells} remain. Resume with `tollbox resume {folder}`.")
    if nothing_measured or (failed and not left and not measured):
        return FAILED
    if left:
        return INCOMPLETE
    if next_step:
        write(next_step)
    return 0


def _unfit_models(results: StudyResults) -> tuple[list[str], bool]:
    """Return sentences about what seems wrong with models whose cells are all finished.

    Also returns whether one of them misclassifies all images.
    """
    grid, status, record = results.grid, results.status(), results.record
    sentences, nothing_measured = [], False
    for model in results.study.models:
        own = [each for each in grid.series if each.model == model]
        ends = [end for end in results.finished() if grid.place(end.cell).series.model == model]
        suspect = all(not end.stop.attacked or end.flagged == end.queries for end in ends)
        if not suspect or sum(status[each.number].cells for each in own) > len(ends):
            continue
        runs = ((grid.place(end.cell).series, trace) for end, trace in results.runs())
        traces = (trace for series, trace in runs if series.model == model)
        labels = sum((tally for each in traces for tally in each.counts.values()), Counter[int]())
        images = {grid.place(end.cell).image for end in ends}
        wrong = {grid.place(end.cell).image for end in ends if not end.stop.attacked}
        name = "the model" if record.made_by == "attack" else f"the model {model.name!r}"
        single = len(labels) == 1 and numbered(next(iter(labels)), record.class_names, "class ")
        if images and wrong == images:
            nothing_measured = True
            to_each = f" (it answers {single} to each)" if single else ""
            text = f"nothing was measured: {name} misclassifies all {len(images)} images{to_each}"
            sentences.append(f"{text}; {WHAT_TO_CHECK}.")
        elif single and (wrong or max(end.queries for end in ends) >= MANY_QUERIES):
            text = f"{name} answers {single} to all {labels.total()} queries"
            sentences.append(f"{text}; {WHAT_TO_CHECK}.")
    return sentences, nothing_measured


def _cells(results: StudyResults) -> str:
    return "images" if results.record.made_by == "attack" else "cells"


def _name_cell(results: StudyResults, cell: int) -> str:
    series, _, image = results.grid.place(cell)
    return f"{series.named(results.study)}, image {results.images[image][2]}"
