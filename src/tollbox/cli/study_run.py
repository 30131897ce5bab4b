"""What `tollbox run`, `resume` and `attack` have in common: run what is left of a study, show it,
and say how it ended.

1. Ctrl-C ends the run after the batches under way, a second one at once; exit code 130. All that
   was answered is kept. SIGTERM is the same, with exit code 143.
2. A store that cannot be written, a process that died, cells that cannot be replayed: exit code 1,
   and a sentence that says how to go on.
3. A model that misclassifies all images: exit code 1, and what to check.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import InputError, mention
from ..studies.events import Options, Outcome
from ..studies.fingerprint import environment_notice
from ..studies.inputs import StudyInputs
from ..studies.ray import RayEngines
from ..studies.results import StudyResults
from ..studies.run import run_folder
from ..studies.sources import find_device
from ..workers.executors import Stopper, fewer_notice
from . import hints
from .exit_codes import FAILED
from .interrupt import Interrupt, ignore_signals
from .output import console, say
from .progress import StudyWatch
from .status_work import show


def cluster_of(
    address: list[str] | None, engines: int | None, gpus: float | None
) -> RayEngines | None:
    """The cluster that --ray and what belongs to it name; None if --ray is not given."""
    if address is not None:
        return RayEngines(address[0] if address else None, engines, gpus)
    for name, value in (("ray_engines", engines), ("ray_gpus", gpus)):
        if value is not None:
            raise InputError(f"is given without {mention('ray')}", input=name)
    return None


def say_findings(findings: Iterable[str]) -> None:
    """What the check of the models found, before a run."""
    for finding in findings:
        say(f"Note: {finding}")


def run_left(
    folder: Path,
    options: Options,
    loaded: StudyInputs | None = None,
    cluster: RayEngines | None = None,
) -> tuple[Outcome, int]:
    """Run what is left, with progress; gives also the exit code of an interruption, 0 if there was
    none. `loaded` is the study, if it is at hand; `cluster` is where engines run, if not here."""
    with StudyResults(folder) as before:
        watch = StudyWatch(console(stderr=True), before, options.failed)
        if options.failed or len(before) < before.record.cells:
            device = find_device(before.study) if loaded is None else loaded.device
            workers, force = before.study.workers, options.force_workers
            fewer = fewer_notice(workers, len(before.grid), force, "--force-workers")
            for notice in (
                environment_notice(before.record, device),
                fewer if cluster is None else None,
            ):
                if notice is not None:
                    say(notice)
    stopper = Stopper()
    with watch, Interrupt(stopper, watch.announce) as interrupt:
        outcome = run_folder(
            folder, options, watch.tell, stopper, loaded, watch.end_process, cluster
        )
    return outcome, interrupt.code


@contextmanager
def keeping(folder: Path) -> Iterator[None]:
    """While a study in a folder is run and shown: an interruption says what is saved there."""
    try:
        yield
    except KeyboardInterrupt as stop:
        ignore_signals()
        with StudyResults(folder) as results:
            done, total = len(results), results.record.cells
            cells = "images" if results.record.made_by == "attack" else "cells"
        rest = f", and all answers are kept: go on with `tollbox resume {folder}`" * (done < total)
        raise type(stop)(
            f"interrupted: {done} of {total} {cells} are finished and saved{rest}."
        ) from None


def say_end(
    folder: Path, outcome: Outcome, interruption: int, next_step: str = "", table: bool = True
) -> int:
    """Say how a run ended, and the next step if all is well; gives the exit code, that of the
    interruption if there was one. Without `table`, only what did not go well."""
    with StudyResults(folder) as results:
        series, total = results.status(), results.record.cells
        if table:
            show(f"{results.study.name}: {folder}", series)
            for sentence in [*results.kept, *results.sizes, *results.exactness, *results.detector]:
                console().print(sentence, soft_wrap=True)
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
        say(f"{outcome.restarted} cells did not ask what they asked before, and were begun anew.")
    for hint in unfit:
        say(hint)
    if interruption:
        say(f"Interrupted with {left} cells left: go on with `tollbox resume {folder}`.")
        return interruption
    if outcome.diverged:
        say(
            f"{len(outcome.diverged)} cells cannot be replayed here; the first is "
            f"{first_diverged}: {outcome.diverged[min(outcome.diverged)]}. Go on where they were "
            f"begun, or begin them anew with `tollbox resume {folder} --rerun`."
        )
        return FAILED
    if left:
        say(f"The time is up, with {left} cells left: go on with `tollbox resume {folder}`.")
    if nothing_measured or (failed and len(failed) == total):
        return FAILED
    if next_step and not left:
        console().print(next_step, soft_wrap=True)
    return 0


def _unfit_models(results: StudyResults) -> tuple[list[str], bool]:
    """What seems wrong with the answers of each model whose cells are all done; and whether one of
    them misclassifies all images."""
    grid, models, record = results.grid, results.study.models, results.record
    series_each, cells_each = len(grid.series) // len(models), len(grid) // len(models)
    misclassified: list[set[int]] = [set() for _ in models]
    suspect_cells: list[set[int]] = [set() for _ in models]
    images: list[set[int]] = [set() for _ in models]
    for end in results.finished():
        number = end.cell // cells_each
        image = grid.place(end.cell).image
        images[number].add(image)
        if not end.stop.attacked:
            misclassified[number].add(image)
        if not end.stop.attacked or end.flagged == end.queries:
            suspect_cells[number].add(end.cell)
    here = [
        record.cells_of(number * series_each, (number + 1) * series_each)
        for number in range(len(models))
    ]
    suspects = [
        number for number, cells in enumerate(suspect_cells) if 0 < len(cells) == here[number]
    ]
    labels = {number: Counter[int]() for number in suspects}
    for cell, _, trace in results.traces() if suspects else ():
        if cell // cells_each in labels:
            for tally in trace.counts.values():
                labels[cell // cells_each] += tally
    sentences = [
        hints.unfit_model(
            f"the model {models[number].name!r}",
            len(images[number]),
            len(misclassified[number]),
            labels[number],
            results.record.class_names,
        )
        for number in suspects
    ]
    nothing_measured = any(misclassified[number] == images[number] for number in suspects)
    return [hint for hint in sentences if hint], nothing_measured


def _name_cell(results: StudyResults, cell: int) -> str:
    series, _, image = results.grid.place(cell)
    return f"{series.named(results.study)}, image {results.images[image][2]}"
