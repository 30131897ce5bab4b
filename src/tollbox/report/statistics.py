"""Medians, intervals and success rates over images.

1. A median is over runs; no adversarial point is an infinite distance, and counts. A run that is
   not known at a mark (it was cut short, or ended by a limit before it) is left out there.
2. Several seeds on one image are not several images: an interval comes from drawing images, with
   all their seeds, again and again (`bootstrap`, over clusters). Every interval is made so.
3. Two attacks are told apart at a mark if the 95 % interval of the difference of their medians is
   on one side of 0: over draws of the images that both have, the same for both. Fewer than six
   images tell nothing apart: even if all agree, the chance of that is 1 in 16.
4. Where half of the runs or more have no adversarial point, the median is infinite, and the success
   rate says how many have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..core.result import By, Values
from .reading import Reading
from .runs import CellCurve

Images = NDArray[np.int64]

DRAWS = 2000
BLOCK = 100
"""Samples of a bootstrap that are in memory at once."""
PERCENTILES = (2.5, 97.5)
"""The ends of an interval of 95 %."""


FEWEST_IMAGES = 6
"""That can tell two attacks apart."""


class Run(Protocol):
    """What a statistic reads of a run."""

    @property
    def image(self) -> int:
        """The number of its image."""

    def at(self, marks: Values, by: By, reading: Reading) -> Values:
        """The distance at each mark."""


class Mark(NamedTuple):
    """Where distances are read, and how."""

    value: float
    by: By
    reading: Reading


class Median(NamedTuple):
    """A median with its 95 % interval, and on how much it stands."""

    value: float
    low: float
    high: float
    success: float
    """Share of the runs with an adversarial point."""
    runs: int
    images: int


def table_of(runs: Sequence[Run], marks: Values, by: By, reading: Reading) -> Values:
    """(runs, marks): the distance of each run at each mark, NaN where it is not known."""
    if not runs:
        return np.empty((0, len(marks)))
    return np.stack([run.at(marks, by, reading) for run in runs])


def median(values: Values) -> float:
    """The median of what is known, infinities included; NaN of nothing."""
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else math.nan


def success(
    runs: Sequence[CellCurve], within: float, marks: Values, by: By, reading: Reading
) -> Values:
    """Share of the runs with an adversarial point nearer than `within` at each mark."""
    table = table_of(runs, marks, by, reading)
    known = ~np.isnan(table)
    with np.errstate(invalid="ignore"):
        return np.asarray((known & (table < within)).sum(axis=0) / known.sum(axis=0))


def median_at(runs: Sequence[Run], mark: float, by: By, reading: Reading, seed: int = 0) -> Median:
    """The median at one mark, with its interval over images."""
    values = table_of(runs, np.array([mark]), by, reading)[:, 0]
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
    """The 95 % percentile interval of the median, over draws of images with all their runs."""
    medians = bootstrap(lambda rows: np.median(values[rows], axis=1), images, seed, draws)
    low, high = np.percentile(medians, PERCENTILES, method="nearest")
    return float(low), float(high)


def told_apart(nearer: Sequence[CellCurve], farther: Sequence[CellCurve], mark: Mark) -> bool:
    """Whether the first have the smaller median at a mark, and not by chance (rule 3)."""
    at = np.array([mark.value])

    def values(runs: Sequence[CellCurve]) -> dict[tuple[int, int], float]:
        return {(run.image, run.seed): float(run.at(at, mark.by, mark.reading)[0]) for run in runs}

    first, second = values(nearer), values(farther)
    both = sorted(key for key in first.keys() & second if not math.isnan(first[key] + second[key]))
    images = np.array([image for image, _ in both])
    if len(np.unique(images)) < FEWEST_IMAGES:
        return False
    near, far = (np.array([each[key] for key in both]) for each in (first, second))

    def difference(rows: Images) -> Values:
        with np.errstate(invalid="ignore"):
            apart = np.median(far[rows], axis=1) - np.median(near[rows], axis=1)
        return np.where(np.isnan(apart), 0.0, apart)  # both infinite

    return bool(np.percentile(bootstrap(difference, images), PERCENTILES[0], method="nearest") > 0)


def bootstrap(
    statistic: Callable[[Images], Values], images: Images, seed: int = 0, draws: int = DRAWS
) -> Values:
    """A statistic of each of `draws` samples: as many images as there are, drawn with replacement,
    each with all its runs.

    `images` has the image of each run. `statistic` is given the runs of several samples, by their
    numbers, (samples, runs), and answers with a row for each sample.
    """
    counts = np.unique(images, return_counts=True)[1]
    groups = np.split(np.argsort(images, kind="stable"), np.cumsum(counts)[:-1])
    drawn = np.random.default_rng(seed).integers(len(groups), size=(draws, len(groups)))
    if len({len(group) for group in groups}) == 1:  # samples are of one size: many at once
        runs = np.stack(groups)
        blocks = (
            runs[part].reshape(len(part), -1)
            for part in np.split(drawn, range(BLOCK, draws, BLOCK))
        )
    else:
        blocks = (np.concatenate([groups[i] for i in row])[None] for row in drawn)
    return np.concatenate([statistic(block) for block in blocks])


class Effort(NamedTuple):
    """Flagged queries and all queries that it took to come within a distance: medians over runs."""

    flagged: float
    queries: float
    share: float
    """Of the runs that came within it; the others count as infinite."""


def effort(runs: Sequence[CellCurve], within: float) -> Effort:
    """What it took to reach a distance below `within`."""
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
