"""Medians, intervals and success rates over images.

1. A median is over runs. A run without an adversarial point has an infinite distance, and counts.
   A run whose distance is unknown at a mark (it was cut short, or a limit stopped it) is left out.
2. Several seeds on one image are not several images: every interval comes from a bootstrap that
   draws images, each with all its seeds.
3. Two attacks are significantly different at a mark if the 95 % interval of the difference of their
   medians excludes 0. Both are drawn on the same images. With fewer than six images no difference
   is significant: even if all agree, the chance of that is 1 in 16.
4. If half of the runs or more have no adversarial point, the median is infinite; the success rate
   is the share of runs that have one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..core.result import By, Values
from .distance_rule import DistanceRule
from .runs import CellCurve

Images = NDArray[np.int64]

DRAWS = 2000
BLOCK = 100
"""Number of bootstrap samples in memory at a time."""
PERCENTILES = (2.5, 97.5)
"""The ends of a 95 % interval."""
FEWEST_IMAGES = 6
"""Minimum number of images for a significant difference."""


class Run(Protocol):
    """A run of which the distance at a mark is known."""

    @property
    def image(self) -> int: ...

    def at(self, marks: Values, by: By, rule: DistanceRule) -> Values: ...


class Mark(NamedTuple):
    """The point of an axis at which distances are compared, and the rule for them."""

    value: float
    by: By
    rule: DistanceRule


class Median(NamedTuple):
    """A median with its 95 % interval and the number of runs and images behind it."""

    value: float
    low: float
    high: float
    success: float
    """Share of the runs with an adversarial point."""
    runs: int
    images: int


def distances_at(runs: Sequence[Run], marks: Values, by: By, rule: DistanceRule) -> Values:
    """Return the distance of each run at each mark, (runs, marks); NaN if it is unknown."""
    if not runs:
        return np.empty((0, len(marks)))
    return np.stack([run.at(marks, by, rule) for run in runs])


def median(values: Values) -> float:
    """Return the median of the known values, infinities included; NaN if none is known."""
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else math.nan


def success(
    runs: Sequence[CellCurve], within: float, marks: Values, by: By, rule: DistanceRule
) -> Values:
    """Return the share of the runs with a distance below `within` at each mark."""
    table = distances_at(runs, marks, by, rule)
    known = ~np.isnan(table)
    with np.errstate(invalid="ignore"):
        return np.asarray((known & (table < within)).sum(axis=0) / known.sum(axis=0))


def median_at(
    runs: Sequence[Run], mark: float, by: By, rule: DistanceRule, seed: int = 0
) -> Median:
    """Return the median at one mark, with its interval over images."""
    values = distances_at(runs, np.array([mark]), by, rule)[:, 0]
    images = np.array([run.image for run in runs])
    known = ~np.isnan(values)
    values, images = values[known], images[known]
    if not len(values):
        return Median(math.nan, math.nan, math.nan, math.nan, 0, 0)
    low, high = interval(values, images, seed)
    rate = float(np.isfinite(values).mean())
    return Median(median(values), low, high, rate, len(values), len(np.unique(images)))


def interval(
    values: Values, images: Images, seed: int = 0, draws: int = DRAWS
) -> tuple[float, float]:
    """Return the 95 % percentile interval of the median, over draws of images."""
    medians = bootstrap(lambda rows: np.median(values[rows], axis=1), images, seed, draws)
    low, high = np.percentile(medians, PERCENTILES, method="nearest")
    return float(low), float(high)


def significantly_different(
    smaller: Sequence[CellCurve], larger: Sequence[CellCurve], mark: Mark
) -> bool:
    """Return whether the median of the first runs is significantly smaller at a mark (rule 3)."""
    at = np.array([mark.value])
    first, second = (
        {(run.image, run.seed): float(run.at(at, mark.by, mark.rule)[0]) for run in runs}
        for runs in (smaller, larger)
    )
    both = sorted(key for key in first.keys() & second if not math.isnan(first[key] + second[key]))
    images = np.array([image for image, _ in both])
    if len(np.unique(images)) < FEWEST_IMAGES:
        return False
    small, large = (np.array([each[key] for key in both]) for each in (first, second))

    def difference(rows: Images) -> Values:
        with np.errstate(invalid="ignore"):
            found = np.median(large[rows], axis=1) - np.median(small[rows], axis=1)
        return np.where(np.isnan(found), 0.0, found)  # both are infinite

    return bool(np.percentile(bootstrap(difference, images), PERCENTILES[0], method="nearest") > 0)


def bootstrap(
    statistic: Callable[[Images], Values], images: Images, seed: int = 0, draws: int = DRAWS
) -> Values:
    """Return a statistic of `draws` samples of images, drawn with replacement with all their runs.

    `images` has the image of each run. `statistic` receives the row numbers of the runs in several
    samples, (samples, runs), and returns a row for each sample.
    """
    counts = np.unique(images, return_counts=True)[1]
    groups = np.split(np.argsort(images, kind="stable"), np.cumsum(counts)[:-1])
    drawn = np.random.default_rng(seed).integers(len(groups), size=(draws, len(groups)))
    if len({len(group) for group in groups}) == 1:  # samples have one size: compute many at once
        runs = np.stack(groups)
        blocks = (
            runs[part].reshape(len(part), -1)
            for part in np.split(drawn, range(BLOCK, draws, BLOCK))
        )
    else:
        blocks = (np.concatenate([groups[i] for i in row])[None] for row in drawn)
    return np.concatenate([statistic(block) for block in blocks])


class Effort(NamedTuple):
    """Median number of flagged queries and of all queries to reach a distance."""

    flagged: float
    queries: float
    share: float
    """Share of the runs that reached it; the others count as infinite."""


def effort(runs: Sequence[CellCurve], within: float) -> Effort:
    """Return the queries needed to reach a distance below `within`."""
    flagged, queries = [], []
    for run in runs:
        reached = np.nonzero(run.distances < within)[0]
        place = reached[0] if len(reached) else None
        flagged.append(math.inf if place is None else float(run.needs["source"][place] - 1))
        queries.append(math.inf if place is None else float(run.needs["queries"][place]))
    if not flagged:
        return Effort(math.nan, math.nan, math.nan)
    share = float(np.isfinite(queries).mean())
    return Effort(float(np.median(flagged)), float(np.median(queries)), share)
