"""What `tollbox run`, `resume` and `attack` have in common: run what is left of a study, show it,
and say how it ended.

1. Ctrl-C ends the run after the batches under way; exit code 130. All that was answered is kept.
2. A store that cannot be written, a process that died, cells that cannot be replayed: exit code 1,
   and a sentence that says how to go on.
"""

from __future__ import annotations

from pathlib import Path

from ..studies.loading import Loaded
from ..studies.reading import StudyResults
from ..studies.running import Stopper, run_folder
from ..studies.shard import Options, Outcome
from ..studies.status import FAILED as FAILURES
from .codes import FAILED, INTERRUPTED
from .interrupt import Interrupt
from .status import show
from .streams import console, say
from .study_watch import StudyWatch


def run_left(folder: Path, options: Options, loaded: Loaded | None = None) -> tuple[Outcome, bool]:
    """Run what is left, with progress; tells also whether Ctrl-C came. `loaded` is the study, if it
    is at hand."""
    with StudyResults(folder) as before:
        watch = StudyWatch(console(stderr=True), before, options.failed)
    stopper = Stopper()
    with watch, Interrupt(stopper) as interrupt:
        outcome = run_folder(folder, options, watch.tell, stopper, loaded)
    return outcome, interrupt.came


def told(folder: Path, outcome: Outcome, interrupted: bool) -> int:
    """Say how a run ended; gives the exit code."""
    with StudyResults(folder) as found:
        lines = found.status()
        show(f"{found.study.name}: {folder}", lines)
        left = len(found.grid) - len(found)
        failed = sum(line.failed for line in lines)
        first = next((row for row in found.rows() if row["stop"] in FAILURES), None)
        places = {cell: found.grid.place(cell) for cell in list(outcome.diverged)[:1]}
        names = [f"{p.line.named(found.study)}, image {p.image}" for p in places.values()]
    if failed and first is not None:
        say(
            f"{failed} cells failed; the first, image {first['name']} under {first['attack']}: "
            f"{first['reason']}. Run them again with `tollbox resume {folder} --failed`."
        )
    if outcome.restarted:
        say(f"{outcome.restarted} cells did not ask what they asked before, and were begun anew.")
    if interrupted:
        say(f"Interrupted with {left} cells left: go on with `tollbox resume {folder}`.")
        return INTERRUPTED
    if outcome.diverged:
        [why] = list(outcome.diverged.values())[:1]
        say(
            f"{len(outcome.diverged)} cells cannot be replayed here; the first is {names[0]}: "
            f"{why}. Go on where they were begun, or begin them anew with `tollbox resume {folder} "
            "--rerun`."
        )
        return FAILED
    if left:
        say(f"The time is up, with {left} cells left: go on with `tollbox resume {folder}`.")
    return FAILED if failed and failed == len(found.grid) else 0
