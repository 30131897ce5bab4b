"""Sentences that explain numbers: why a median is infinite, what is wrong with a model, what to do
next.
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
"""Number of answers of which some are expected to be of another class."""
WHAT_TO_CHECK = (
    "check the mean and std, the order of the channels, the order of the labels and the "
    "preprocessing"
)

_WHY = {
    Stop.BUDGET: "the budget ended before a start was found at this price",
    Stop.MAX_QUERIES: "max_queries was reached before a start was found",
    Stop.MAX_FLAGGED: "max_flagged was reached before a start was found",
}


def infinite_median(counted: int, without_point: Mapping[Stop, int], norm: Metric) -> str:
    """Return why the median of `counted` images is infinite; empty if it is finite."""
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
    """Return what is wrong with a model's answers, counted by label; empty if nothing is."""
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


def command(*words: str | Path) -> str:
    """Return a command with its words quoted for a shell."""
    return shlex.join(["tollbox", *map(str, words)])


def free_folder() -> Path:
    """Return the name of a folder for results that does not exist yet."""
    first = Path("results")
    others = (Path(f"{first}-{number}") for number in itertools.count(2))
    return next(path for path in itertools.chain([first], others) if not os.path.lexists(path))


def page_hint(folder: Path) -> str:
    """Return how to look at results."""
    return f"Make a page of the results with `{command('report', folder)}`."
