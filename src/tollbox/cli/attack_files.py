"""The files that an attack ends with, beside its store.

The store has all that was answered, so that an attack can be resumed. Beside it are the files of
`save.py`, written whole, and anew whenever a run ends; what unfinished cells had reached is in them
too.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from ..core.result import Result, Results
from ..core.stop import Stop
from ..data.output import staged
from ..engine.batch import trial_batch_size
from ..studies.events import Outcome
from ..studies.inputs import Loaded
from ..studies.results import StudyResults
from . import hints, summary
from .exit_codes import FAILED
from .output import console, say
from .save import round_points, still_adversarial, write_all

PICTURE = re.compile(r"\d{4,}-(adversarial|lost|unknown)\.png")
FILES = frozenset({"adversarial.npz", "results.csv", "ledger.json"})


def finish(folder: Path, outcome: Outcome, interruption: int, loaded: Loaded) -> int:
    """Write the files of an attack, and say how it ended; gives the exit code, which is that of the
    interruption if there was one."""
    with StudyResults(folder) as store:
        settings, finished = dict(store.record.settings), {r.index: r for r in store.results()}
        warnings, exactness, shards = store.warnings, store.exactness, store.record.shards
        sizes, watch = store.sizes, store.record.watch
    cells = [loaded.cell(loaded.grid.place(number)) for number in range(len(loaded.grid))]
    begun = [result for result in outcome.unfinished.values() if result is not None]
    why = begun[0].stop if begun else Stop.INTERRUPTED  # of those that were not begun, too
    results = Results(
        tuple(
            finished.get(number) or outcome.unfinished.get(number) or Result.of(cell, number, why)
            for number, cell in enumerate(cells)
        )
    )
    unfinished = {text for r in results for text in r.warnings} - set(warnings)
    settings["warnings"] = warnings + sorted(unfinished)
    settings["exactness"] = exactness
    settings["benign"] = None if watch is None else asdict(next(iter(watch.benign.values())))
    model, classes = loaded.model(loaded.study.models[0]), loaded.images.class_names
    pictures = {path.name for path in folder.iterdir() if PICTURE.fullmatch(path.name)}
    with staged(folder, FILES | pictures, shared=True) as stage:
        with stage.writing():
            size = trial_batch_size(model, loaded.study.batch_size)
            rounded = round_points(model, results, size, ask=not loaded.study.metered)
            write_all(stage.folder, cells, results, rounded, settings, classes)
        stage.commit()
    lost = sum(still_adversarial(cells[i], point) is False for i, point in rounded.items())
    surrogate = loaded.surrogate(loaded.study.attacks[0]) if shards == 1 else None
    lost_points = None if loaded.study.metered else lost
    labels = [cell.label for cell in cells]
    summary.show(
        results,
        settings,
        lost_points,
        folder,
        surrogate,
        labels=labels,
        classes=classes,
        sizes=sizes,
        watch=watch,
    )
    return _exit_code(folder, results, outcome, interruption, classes)


def _exit_code(
    folder: Path,
    results: Results,
    outcome: Outcome,
    interruption: int,
    classes: tuple[str, ...],
) -> int:
    """The exit code; if it is not 0, says why."""
    if interruption:
        finished = sum(r.stop is not Stop.INTERRUPTED for r in results)
        say(
            f"Interrupted: {finished} of {len(results)} images were finished; what the others had "
            f"reached is saved as well, in {folder}. Continue with `tollbox resume {folder}`."
        )
        return interruption
    if outcome.diverged:
        why = next(iter(outcome.diverged.values()))
        say(
            f"{len(outcome.diverged)} images cannot be replayed here: {why}. Begin them anew with "
            f"`tollbox resume {folder} --rerun`."
        )
        return FAILED
    if summary.all_failed(results):
        say(f"no run succeeded: {summary.failures(results)}")
        return FAILED
    labels = sum((t for r in results for t in r.ledger.counts.values()), Counter[int]())
    unfit = hints.unfit_model("the model", len(results), results.misclassified, labels, classes)
    if unfit:
        say(unfit)
    if results.misclassified == len(results):
        return FAILED
    console().print(hints.page_hint(folder), soft_wrap=True)
    return 0
