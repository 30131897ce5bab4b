"""The files that an attack ends with, beside its store.

The store has all that was answered, so that an attack can be resumed. Beside it are the files of
`save.py`, written whole, anew whenever a run ends: what was reached by cells that are not finished
is in them too.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ..core.result import Result, Results
from ..core.stop import Stop
from ..files.output import staged
from ..studies.identity import recorded_study
from ..studies.loading import Loaded, load
from ..studies.reading import StudyResults
from ..studies.shard import Outcome
from . import summary
from .codes import FAILED, INTERRUPTED
from .save import kept, rounded, write_all
from .streams import say

PICTURE = re.compile(r"\d{4,}-(adversarial|lost|unknown)\.png")
FILES = frozenset({"adversarial.npz", "results.csv", "ledger.json"})
USUAL_BATCH = 64


def finish(
    folder: Path,
    outcome: Outcome,
    interrupted: bool,
    loaded: Loaded | None = None,
) -> int:
    """Write the files of an attack, and say how it ended; gives the exit code."""
    with StudyResults(folder) as found:
        record, known = found.record, {r.index: r for r in found.results()}
    if loaded is None:
        loaded = load(recorded_study(record, files=True))
    settings = dict(record.settings)
    cells = [loaded.cell(loaded.grid.place(number)) for number in range(len(loaded.grid))]
    results = Results(
        known.get(number)
        or outcome.unfinished.get(number)
        or Result.nothing(number, cell, Stop.INTERRUPTED)
        for number, cell in enumerate(cells)
    )
    settings["warnings"] = sorted({text for r in results for text in r.warnings})
    [spec] = loaded.study.models
    model = loaded.model(spec)
    size = loaded.study.batch_size or model.batch or USUAL_BATCH
    there = {path.name for path in folder.iterdir()}
    ours = FILES | {name for name in there if PICTURE.fullmatch(name)}
    with staged(folder, ours, shared=True) as stage:
        with stage.writing():
            eight_bits = rounded(model, results, size)
            write_all(stage.folder, cells, results, eight_bits, settings)
        stage.commit()
    lost = sum(kept(cells[i], r) is False for i, r in eight_bits.items())
    _show(folder, settings, results, lost)
    return _code(folder, results, outcome, interrupted)


def _show(folder: Path, settings: dict[str, Any], results: Results, lost: int) -> None:
    target = settings["target"]
    goal = "" if target is None else f", target {target}"
    title = f"{settings['attack']}, price {settings['price']}{goal}"
    end = f"Saved in {folder}: adversarial.npz, PNGs, results.csv, ledger.json."
    summary.show(title, results, lost, end, target, settings["start"] is not None)


def _code(folder: Path, results: Results, outcome: Outcome, interrupted: bool) -> int:
    """The exit code; what is not 0 is told."""
    if interrupted:
        finished = sum(r.stop is not Stop.INTERRUPTED for r in results)
        say(
            f"Interrupted: {finished} of {len(results)} images were finished; what the others had "
            f"reached is saved as well, in {folder}. Go on with `tollbox resume {folder}`."
        )
        return INTERRUPTED
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
    return 0
