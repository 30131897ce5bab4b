"""The table at the end of `tollbox attack`, on stdout.

The median, and the count of images without an adversarial point, are over the runs that were not
cut short. A run that failed is counted as failed, and one that the clock or Ctrl-C ended as ended
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
from ..studies.store.record import WatchRecord
from . import hints
from .output import console

MOST_CLASSES = 3
"""That are named."""


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
    watch: WatchRecord | None = None,
) -> None:
    """Print it; `lost` points are no longer adversarial at 8 bits (None: the model was not asked);
    all is saved in `folder`; `surrogate` is the one that was asked in this process; `labels` are
    those of the images, and `classes` the names of the classes, if they are known; `sizes`
    says how pictures got theirs; `watch` is the detector, if there is one."""
    to, target, norm = console(), settings["target"], results[0].norm
    flagged_set = ""
    if settings.get("flagged"):
        aim = results[0].ledger.goal
        flagged_set = aim.flagged_text(lambda label: numbered(label, classes))
    goal = "" if target is None else f", target {numbered(target, classes)}"
    goal += f", flagged {flagged_set}" if flagged_set else ""
    goal += "" if settings.get("mask") is None else ", within a mask"
    title = f"{settings['attack']}, price {settings['price']}{goal}"
    ended = [r for r in results.counted if not r.stop.cut_short]
    early = [r for r in results.counted if r.stop.unfinished]
    queries = sum(r.ledger.queries for r in results)
    flagged = sum(r.ledger.flagged for r in results)
    table = Table(title=Text(title), show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_row("images", f"{len(results)}")
    if classes:
        table.add_row("classes", _most(Counter(labels), classes))
    table.add_row("misclassified anyway", f"{results.misclassified}")
    table.add_row("no adversarial point", f"{sum(math.isinf(r.distance) for r in ended)}")
    table.add_row("failed", f"{results.failed}")
    table.add_row(*_median(f"median {norm}", ended))
    if early:
        table.add_row("ended early", f"{len(early)}")
        begun = [r for r in early if r.ledger.queries > 0]
        table.add_row(*_median(f"median {norm} reached early", begun))
    table.add_row("no longer adversarial at 8 bits", "not asked" if lost is None else f"{lost}")
    table.add_row("queries", f"{queries:,}")
    table.add_row("flagged share", f"{flagged / queries:.1%}" if queries else "-")
    if watch is not None:
        for name, value in _alarms(results, watch).items():
            table.add_row(name, value)
    if surrogate is not None:
        gradients = f"{surrogate.gradients:,} in {surrogate.seconds:.1f} s"
        table.add_row("gradients of the surrogate", gradients)
    to.print(table)
    for warning in settings["warnings"]:
        to.print(f"Note: {warning}.", soft_wrap=True)
    watched = [] if watch is None else watch.sentences
    for sentence in [*sizes, *settings["exactness"], *watched]:
        to.print(sentence, soft_wrap=True)
    without_point = Counter(r.stop for r in ended if math.isinf(r.distance))
    points = sum(r.adversarial is not None for r in results.counted)
    for hint in (
        hints.infinite_median(len(ended), without_point, norm),
        hints.lost_by_rounding(lost or 0, points, settings["quantize"]),
    ):
        if hint:
            to.print(hint[:1].upper() + hint[1:], soft_wrap=True)
    no_start = sum(r.stop is Stop.NO_START for r in results)
    if settings["start"] is not None and no_start:
        flagged_answer = "a flagged class" if flagged_set else "the source class"
        other = "" if target is None else f"another class than {numbered(target, classes)}"
        answer = other or flagged_answer
        to.print(
            f"{no_start} images have no start: the model answers {answer} to it.", soft_wrap=True
        )
    if results.failed and not all_failed(results):
        to.print(failures(results), soft_wrap=True)
    pictures = "PNGs, " if any(folder.glob("[0-9]*.png")) else ""
    files = f"adversarial.npz, {pictures}results.csv, ledger.json"
    to.print(f"Saved in {folder}: {files}.", soft_wrap=True)


def _alarms(results: Results, watch: WatchRecord) -> dict[str, str]:
    """What the detector said, beside what it says of harmless queries."""
    firsts = [r.first_alarm for r in results if r.first_alarm is not None]
    queries = f"{np.median([first.queries for first in firsts]):g}" if firsts else "-"
    flagged = f"{np.median([first.flagged for first in firsts]):g}" if firsts else "-"
    [panel] = watch.benign.values()
    return {
        "alarms": f"{results.alarms:,}",
        "images with an alarm": f"{len(firsts)}",
        "first alarm, median query": queries,
        "flagged answers until then": flagged,
        "benign sessions with an alarm": f"{panel.all.rate:.1%}",
    }


def _most(labels: Counter[int], classes: Sequence[str]) -> str:
    """The classes of the images, the most frequent ones by name."""
    named = [f"{class_words(k, classes)} {n}" for k, n in labels.most_common(MOST_CLASSES)]
    more = len(labels) - len(named)
    return ", ".join([*named, *([f"{more} more"] if more else [])])


def _median(name: str, results: Sequence[Result]) -> tuple[str, str]:
    median = f"{np.median([r.distance for r in results]):.4g}" if results else "-"
    return f"{name} ({len(results)} images)", median


def all_failed(results: Results) -> bool:
    """Whether runs were begun, and all of those failed."""
    return results.failed > 0 and not any(
        r.ledger.queries > 0 for r in results.counted if not r.stop.failed
    )


def failures(results: Results) -> str:
    """How many failed, and why the first did."""
    first = next(r for r in results if r.stop.failed)
    return f"{results.failed} runs failed; the first, image {first.name}: {first.reason}"
