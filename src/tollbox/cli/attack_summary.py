"""The table that `tollbox attack` prints at its end.

The median and the number of images without an adversarial point are over the runs that were not cut
short. A run that failed counts as failed, and one that the time limit or Ctrl-C stopped as stopped
early; what those had reached is a row of its own.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from ..attacks.surrogates import Surrogate
from ..core.goal import class_words, numbered
from ..core.result import Result, Results
from ..core.stop import Stop
from ..studies.store.record import DetectorRecord
from . import hints
from .output import console

MOST_CLASSES = 3
"""Maximum number of classes that are named."""


def show(
    results: Results,
    settings: Mapping[str, Any],
    lost: int | None,
    folder: Path,
    surrogate: Surrogate | None = None,
    *,
    labels: Sequence[int],
    classes: Sequence[str],
    sizes: Sequence[str] = (),
    detector: DetectorRecord | None = None,
) -> None:
    """Print the summary of an attack.

    lost: number of points that are no longer adversarial at 8 bits; None if the model was not asked
    folder: where everything is saved
    surrogate: the surrogate that this process used
    labels: those of the images
    classes: names of the classes, if they are known
    sizes: sentences on how images got their size
    """
    target, norm = settings["target"], results[0].norm
    flagged_set = ""
    if settings.get("flagged"):
        flagged_set = results[0].ledger.goal.flagged_text(lambda label: numbered(label, classes))
    goal = "" if target is None else f", target {numbered(target, classes)}"
    goal += f", flagged {flagged_set}" if flagged_set else ""
    goal += "" if settings.get("mask") is None else ", within a mask"
    ended = [r for r in results.counted if not r.stop.cut_short]
    early = [r for r in results.counted if r.stop.unfinished]
    queries = sum(r.ledger.queries for r in results)
    flagged = sum(r.ledger.flagged for r in results)
    rows = {
        "images": f"{len(results)}",
        **({"classes": _most(Counter(labels), classes)} if classes else {}),
        "misclassified anyway": f"{results.misclassified}",
        "no adversarial point": f"{sum(math.isinf(r.distance) for r in ended)}",
        "failed": f"{results.failed}",
        **_median(f"median {norm}", ended),
    }
    if early:
        rows["stopped early"] = f"{len(early)}"
        rows |= _median(f"median {norm} reached early", [r for r in early if r.ledger.queries > 0])
    rows["no longer adversarial at 8 bits"] = "not asked" if lost is None else f"{lost}"
    rows["queries"] = f"{queries:,}"
    rows["flagged share"] = f"{flagged / queries:.1%}" if queries else "-"
    if detector is not None:
        rows |= _alarms(results, detector)
    if surrogate is not None:
        gradients = f"{surrogate.gradients:,} in {surrogate.seconds:.1f} s"
        rows["gradients of the surrogate"] = gradients
    title = f"{settings['attack']}, price {settings['price']}{goal}"
    table = Table(title=Text(title), show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in rows.items():
        table.add_row(name, value)
    to = console()
    to.print(table)
    said = [f"Note: {warning}." for warning in settings["warnings"]]
    said += [*sizes, *settings["exactness"], *([] if detector is None else detector.sentences)]
    without_point = Counter(r.stop for r in ended if math.isinf(r.distance))
    points = sum(r.adversarial is not None for r in results.counted)
    for hint in (
        hints.infinite_median(len(ended), without_point, norm),
        hints.lost_by_rounding(lost or 0, points, settings["quantize"]),
    ):
        said += [hint[:1].upper() + hint[1:]] if hint else []
    no_start = sum(r.stop is Stop.NO_START for r in results)
    if settings["start"] is not None and no_start:
        answer = "a flagged class" if flagged_set else "the source class"
        if target is not None:
            answer = f"another class than {numbered(target, classes)}"
        said.append(f"{no_start} images have no start: the model answers {answer} to it.")
    if results.failed and not all_failed(results):
        said.append(failures(results))
    pngs = "PNGs, " if any(folder.glob("[0-9]*.png")) else ""
    said.append(f"Saved in {folder}: adversarial.npz, {pngs}results.csv, ledger.json.")
    for sentence in said:
        to.print(sentence, soft_wrap=True)


def _alarms(results: Results, detector: DetectorRecord) -> dict[str, str]:
    """Return the rows on alarms, with those that benign queries raise."""
    firsts = [r.first_alarm for r in results if r.first_alarm is not None]
    [panel] = detector.benign.values()
    return {
        "alarms": f"{results.alarms:,}",
        "images with an alarm": f"{len(firsts)}",
        "first alarm, median query": f"{np.median([f.queries for f in firsts]):g}"
        if firsts
        else "-",
        "flagged answers until then": f"{np.median([f.flagged for f in firsts]):g}"
        if firsts
        else "-",
        "benign sessions with an alarm": f"{panel.all.rate:.1%}",
    }


def _most(labels: Counter[int], classes: Sequence[str]) -> str:
    """Return the most frequent classes of the images by name."""
    named = [f"{class_words(k, classes)} {n}" for k, n in labels.most_common(MOST_CLASSES)]
    more = len(labels) - len(named)
    return ", ".join([*named, *([f"{more} more"] if more else [])])


def _median(name: str, results: Sequence[Result]) -> dict[str, str]:
    median = f"{np.median([r.distance for r in results]):.4g}" if results else "-"
    return {f"{name} ({len(results)} images)": median}


def all_failed(results: Results) -> bool:
    """Return whether runs started, and all of those failed."""
    return results.failed > 0 and not any(
        r.ledger.queries > 0 for r in results.counted if not r.stop.failed
    )


def failures(results: Results) -> str:
    """Return a sentence on how many runs failed, and why the first did."""
    first = next(r for r in results if r.stop.failed)
    return f"{results.failed} runs failed; the first, image {first.name}: {first.reason}"
