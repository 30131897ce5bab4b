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

from ..core.goal import class_words, numbered
from ..core.result import Result, Results
from ..core.stop import Stop
from ..studies.inputs import StudyInputs
from ..studies.results import StudyResults
from . import hints
from .output import console

MOST_CLASSES = 3
"""Maximum number of classes that are named."""


def show(
    results: Results,
    settings: Mapping[str, Any],
    store: StudyResults,
    loaded: StudyInputs,
    lost: int | None,
) -> None:
    """Print the summary of an attack; `lost` points are no longer adversarial at 8 bits, None if
    the model was not asked."""
    target, norm, classes = settings["target"], results[0].norm, loaded.images.class_names
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
    rows = {"images": f"{len(results)}"}
    if classes:
        labels = Counter(loaded.images.labels)
        named = [f"{class_words(k, classes)} {n}" for k, n in labels.most_common(MOST_CLASSES)]
        more = len(labels) - len(named)
        rows["classes"] = ", ".join([*named, *([f"{more} more"] if more else [])])
    rows["misclassified anyway"] = f"{results.misclassified}"
    rows["no adversarial point"] = f"{sum(math.isinf(r.distance) for r in ended)}"
    rows["failed"] = f"{results.failed}"
    rows |= _median(f"median {norm}", ended)
    if early:
        rows["stopped early"] = f"{len(early)}"
        rows |= _median(f"median {norm} reached early", [r for r in early if r.ledger.queries > 0])
    rows["no longer adversarial at 8 bits"] = "not asked" if lost is None else f"{lost}"
    rows["queries"] = f"{queries:,}"
    rows["flagged share"] = f"{flagged / queries:.1%}" if queries else "-"
    if (detector := store.record.detector) is not None:
        firsts = [r.first_alarm for r in results if r.first_alarm is not None]
        medians = np.median(firsts, axis=0) if firsts else ()
        first_query, first_flagged = [f"{median:g}" for median in medians] or ["-", "-"]
        [panel] = detector.benign.values()
        rows["alarms"] = f"{results.alarms:,}"
        rows["images with an alarm"] = f"{len(firsts)}"
        rows["first alarm, median query"] = first_query
        rows["flagged answers until then"] = first_flagged
        rows["benign sessions with an alarm"] = f"{panel.all.rate:.1%}"
    surrogate = loaded.surrogate(loaded.study.attacks[0]) if store.record.shards == 1 else None
    if surrogate is not None:  # the one that this process used
        gradients = f"{surrogate.gradients:,} in {surrogate.seconds:.1f} s"
        rows["gradients of the surrogate"] = gradients
    title = f"{settings['attack']}, price {settings['price']}{goal}"
    table = Table(title=Text(title), show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for row in rows.items():
        table.add_row(*row)
    to = console()
    to.print(table)
    said = [f"Note: {warning}." for warning in settings["warnings"]]
    said += [*store.sizes, *settings["exactness"], *store.detector]
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
    pngs = "PNGs, " if any(Path(store.folder).glob("[0-9]*.png")) else ""
    said.append(f"Saved in {store.folder}: adversarial.npz, {pngs}results.csv, ledger.json.")
    for sentence in said:
        to.print(sentence, soft_wrap=True)


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
