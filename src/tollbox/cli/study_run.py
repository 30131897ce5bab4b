"""What all commands that run a study share: run the remaining cells, show progress, report the end.

1. Ctrl-C stops the run after the current batches, a second one at once, with exit code 130. All
   answers are kept. SIGTERM does the same, with exit code 143.
2. If a store cannot be written, a process died or cells cannot be replayed, the exit code is 1, and
   a message says how to resume.
3. If a model misclassifies all images, the exit code is 1, and a message says what to check.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import InputError, mention
from ..studies.events import Options, Outcome
from ..studies.fingerprint import environment_notice
from ..studies.inputs import StudyInputs
from ..studies.ray import RayWorkers
from ..studies.results import StudyResults
from ..studies.run import run_folder
from ..studies.sources import find_device
from ..studies.store.codec import End
from ..workers.executors import Stopper, fewer_notice
from . import hints
from .interrupt import Interrupt, ignore_signals
from .options import RunningOptions
from .output import FAILED, console, say, write
from .progress import StudyProgress
from .status import findings, show


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

    Returns the outcome and the exit code of an interruption, 0 if there was none.
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
    with progress, Interrupt(stopper, progress.announce) as interrupt:
        outcome = run_folder(
            folder, options, progress.tell, stopper, loaded, progress.end_process, cluster
        )
    return outcome, interrupt.code


@contextmanager
def keeping(folder: Path) -> Iterator[None]:
    """While a study runs, make an interruption report what is saved in its folder."""
    try:
        yield
    except KeyboardInterrupt as stop:
        ignore_signals()
        with StudyResults(folder) as results:
            done, total = len(results), results.record.cells
            cells = "images" if results.record.made_by == "attack" else "cells"
        rest = f" All answers are kept. Resume with `tollbox resume {folder}`." * (done < total)
        raise type(stop)(
            f"interrupted: {done} of {total} {cells} are finished and saved.{rest}"
        ) from None


def say_end(
    folder: Path, outcome: Outcome, interruption: int, next_step: str = "", table: bool = True
) -> int:
    """Report how a run ended, with the next step if all went well, and return the exit code.

    Without `table`, print only what went wrong.
    """
    with StudyResults(folder) as results:
        total = results.record.cells
        if table:
            show(f"{results.study.name}: {folder}", results.status())
            write(*findings(results))
        left = total - len(results)
        failed = [end for end in results.finished() if end.stop.failed]
        first_failed = _name_cell(results, failed[0].cell) if failed else ""
        first_diverged = _name_cell(results, min(outcome.diverged)) if outcome.diverged else ""
        unfit, nothing_measured = _unfit_models(results)
    if failed:
        say(
            f"{len(failed)} cells failed; the first, {first_failed}: {failed[0].reason}. Run them "
            f"again with `tollbox resume {folder} --failed`."
        )
    if outcome.restarted:
        say(f"Restarted {outcome.restarted} cells whose queries no longer matched the recording.")
    for hint in unfit:
        say(hint)
    if interruption:
        say(f"Interrupted; {left} cells remain. Resume with `tollbox resume {folder}`.")
        return interruption
    if outcome.diverged:
        say(
            f"{len(outcome.diverged)} cells cannot be replayed here; the first is "
            f"{first_diverged}: {outcome.diverged[min(outcome.diverged)]}. Resume where they were "
            f"started, or restart them with `tollbox resume {folder} --rerun`."
        )
        return FAILED
    if left:
        say(f"Time limit reached; {left} cells remain. Resume with `tollbox resume {folder}`.")
    if nothing_measured or (failed and len(failed) == total):
        return FAILED
    if next_step and not left:
        write(next_step)
    return 0


def _unfit_models(results: StudyResults) -> tuple[list[str], bool]:
    """Return what seems wrong with the models whose cells are all done.

    Also returns whether one of them misclassifies all images.
    """
    grid, models, record = results.grid, results.study.models, results.record
    series_each, cells_each = len(grid.series) // len(models), len(grid) // len(models)
    ends: list[list[End]] = [[] for _ in models]
    for end in results.finished():
        ends[end.cell // cells_each].append(end)
    labels: dict[int, Counter[int]] = {}
    for number, found in enumerate(ends):
        cells = record.cells_of(number * series_each, (number + 1) * series_each)
        same = all(not end.stop.attacked or end.flagged == end.queries for end in found)
        if same and 0 < len(found) == cells:
            labels[number] = Counter()
    for cell, _, trace in results.traces() if labels else ():
        if cell // cells_each in labels:
            for tally in trace.counts.values():
                labels[cell // cells_each] += tally
    sentences, nothing_measured = [], False
    for number, answers in labels.items():
        images = {grid.place(end.cell).image for end in ends[number]}
        wrong = {grid.place(end.cell).image for end in ends[number] if not end.stop.attacked}
        nothing_measured |= wrong == images
        name = f"the model {models[number].name!r}"
        sentences.append(
            hints.unfit_model(name, len(images), len(wrong), answers, record.class_names)
        )
    return [hint for hint in sentences if hint], nothing_measured


def _name_cell(results: StudyResults, cell: int) -> str:
    series, _, image = results.grid.place(cell)
    return f"{series.named(results.study)}, image {results.images[image][2]}"
