"""Medians, intervals and success rates over images.

1. A median is over runs. A run without an adversarial point has an infinite distance, which counts.
   A run whose distance is unknown at a mark (it was cut short, or a limit stopped it) is left out.
2. Several seeds on one image are not several images: every interval comes from a bootstrap that
   draws images, each with all its seeds.
3. Two attacks are significantly different at a mark if the 95 % interval of the difference of their
   medians excludes 0. Each draw uses the same images for both. With fewer than six images no
   difference is significant: five images all agree by chance in 1 of 16 cases.
4. If half of the runs or more have no adversarial point, the median is infinite; the success rate
   is the share of runs that have one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.result import AXES, By, Values
from .runs import BestRun, CellCurve

Images = NDArray[np.int64]

DRAWS = 2000
BLOCK = 100
"""Number of bootstrap samples in memory at a time."""
PERCENTILES = (2.5, 97.5)
"""The ends of a 95 % interval."""
FEWEST_IMAGES = 6
"""Minimum number of images for a significant difference."""


class Median(NamedTuple):
    """A median with its 95 % interval and the number of runs and images behind it."""

    value: float
    low: float
    high: float
    success: float
    """Share of the runs with an adversarial point."""
    runs: int
    images: int
    best: bool = False
    """Whether a table marks this median."""


def distances_at(runs: Sequence[CellCurve | BestRun], marks: Values, by: By) -> Values:
    """Return the distance of each run at each mark, (runs, marks); NaN if it is unknown."""
    if not runs:
        return np.empty((0, len(marks)))
    return np.stack([run.at(marks, by) for run in runs])


def median(values: Values) -> float:
    """Return the median of the known values, infinities included; NaN if none is known."""
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else math.nan


def success(runs: Sequence[CellCurve], within: float, marks: Values, by: By) -> Values:
    """Return the share of the runs with a distance below `within` at each mark."""
    table = distances_at(runs, marks, by)
    known = ~np.isnan(table)
    with np.errstate(invalid="ignore"):
        return np.asarray((known & (table < within)).sum(axis=0) / known.sum(axis=0))


def medians_at(
    runs: Sequence[CellCurve | BestRun], marks: Values, by: By, draws: int = DRAWS
) -> list[Median]:
    """Return the median at each mark, with its interval over images."""
    all_images = np.array([run.image for run in runs])
    medians = []
    for column in distances_at(runs, marks, by).T:
        known = ~np.isnan(column)
        values, images = column[known], all_images[known]
        if not len(values):
            medians.append(Median(math.nan, math.nan, math.nan, math.nan, 0, 0))
            continue
        rate, count = float(np.isfinite(values).mean()), len(np.unique(images))
        ends = interval(values, images, draws)
        medians.append(Median(median(values), *ends, rate, len(values), count))
    return medians


def median_at(runs: Sequence[CellCurve | BestRun], mark: float, by: By) -> Median:
    return medians_at(runs, np.array([mark]), by)[0]


def interval(values: Values, images: Images, draws: int = DRAWS) -> tuple[float, float]:
    """Return the 95 % percentile interval of the median, over draws of images."""
    medians = bootstrap(lambda rows: np.median(values[rows], axis=1), images, draws=draws)
    low, high = np.percentile(medians, PERCENTILES, method="nearest")
    return float(low), float(high)


def significantly_different(
    smaller: Sequence[CellCurve], larger: Sequence[CellCurve], mark: float, by: By
) -> bool:
    """Return whether the median of the first runs is significantly smaller at a mark (rule 3)."""
    first, second = (
        {(run.image, run.seed): float(run.at(np.array([mark]), by)[0]) for run in runs}
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
    """Return a statistic of `draws` bootstrap samples of images, each image with all its runs.

    `images` has the image of each run. `statistic` receives the row numbers of the runs in several
    samples, (samples, runs), and returns a row for each sample.
    """
    counts = np.unique(images, return_counts=True)[1]
    groups = np.split(np.argsort(images, kind="stable"), np.cumsum(counts)[:-1])
    drawn = np.random.default_rng(seed).integers(len(groups), size=(draws, len(groups)))
    if len(set(counts)) == 1:  # all samples have the same size: compute many at once
        runs = np.stack(groups)
        parts = np.split(drawn, range(BLOCK, draws, BLOCK))
        blocks = (runs[part].reshape(len(part), -1) for part in parts)
    else:
        blocks = (np.concatenate([groups[i] for i in row])[None] for row in drawn)
    return np.concatenate([statistic(block) for block in blocks])


class Effort(NamedTuple):
    """The median numbers of flagged queries and of all queries to reach a distance."""

    flagged: float
    queries: float
    share: float
    """Share of the runs that reached the distance; the others count as infinite."""


def effort(runs: Sequence[CellCurve], within: float) -> Effort:
    """Return the median numbers of queries needed to reach a distance below `within`."""
    if not runs:
        return Effort(math.nan, math.nan, math.nan)
    flagged, queries = (
        [run.needs[by][run.distances < within].min(initial=math.inf) for run in runs]
        for by in AXES[1:]
    )
    share = float(np.isfinite(queries).mean())
    return Effort(float(np.median(flagged)) - 1, float(np.median(queries)), share)
