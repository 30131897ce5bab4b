"""What the numbers of a run do not say by themselves: sentences for whoever reads them.

1. A median that is infinite: how many images have an adversarial point, and what kept the others
   from one.
2. A model that misclassifies every image was not measured at all, and one that answers a single
   class to everything hardly: what to check.
3. What to type next.
"""

from __future__ import annotations

import itertools
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..core.goal import numbered
from ..core.metric import Metric
from ..core.stop import Stop

MANY_QUERIES = 100
"""Of so many answers, some are expected to be of another class."""
WHAT_TO_CHECK = (
    "check the mean and std, the order of the channels, the order of the labels and the "
    "preprocessing"
)

_WHY = {
    Stop.BUDGET: "the budget ended before a start was found at this price",
    Stop.MAX_QUERIES: "the cap on queries was reached before a start was found",
    Stop.MAX_FLAGGED: "the cap on flagged answers was reached before a start was found",
}


def infinite_median(counted: int, without_point: Mapping[Stop, int], norm: Metric) -> str:
    """Why a median is infinite: of `counted` images, those without an adversarial point, by stop.

    Empty if it is finite.
    """
    missing = sum(without_point.values())
    if 2 * missing < counted or not counted:
        return ""
    reasons = ", ".join(
        f"for {number} {_WHY.get(stop, f'none was found ({stop})')}"
        for stop, number in sorted(without_point.items())
    )
    remedy = "; a larger budget may find more" if Stop.BUDGET in without_point else ""
    return (
        f"median {norm} is inf: {counted - missing} of {counted} images have an adversarial point; "
        f"{reasons}{remedy}."
    )


def unfit_model(
    name: str,
    images: int,
    misclassified: int,
    labels: Mapping[int, int],
    classes: Sequence[str] = (),
) -> str:
    """What is wrong with a model's answers; `labels` counts them, `classes` are their names. Empty
    if nothing seems to be."""
    single = numbered(next(iter(labels)), classes, "class ") if len(labels) == 1 else ""
    if misclassified == images:
        answers = f" (it answers {single} to each)" if single else ""
        return (
            f"nothing was measured: {name} misclassifies all {images} images{answers}; "
            f"{WHAT_TO_CHECK}."
        )
    queries = sum(labels.values())
    if single and (misclassified or queries >= MANY_QUERIES):
        return f"{name} answers {single} to all {queries} queries; {WHAT_TO_CHECK}."
    return ""


def lost_by_rounding(lost: int, points: int, bits: int | None) -> str:
    """What to do about those of `points` that are not adversarial as 8-bit images, if any are.

    `bits` are those that the model takes.
    """
    if not lost or bits == 8:
        return ""
    return (
        f"{lost} of {points} adversarial points are lost when they are rounded to 8 bits, as "
        "in a PNG; with --quantize 8 the attack works on 8-bit images, and what it finds is one."
    )


def command(*words: str | Path) -> str:
    """A command as one types it, whatever its words are."""
    return shlex.join(["tollbox", *map(str, words)])


def free_folder() -> Path:
    """A folder for results that is not there yet."""
    first = Path("results")
    others = (Path(f"{first}-{number}") for number in itertools.count(2))
    return next(path for path in itertools.chain([first], others) if not os.path.lexists(path))


def page_hint(folder: Path) -> str:
    """How to look at results."""
    return f"`{command('report', folder)}` makes a page of them."
