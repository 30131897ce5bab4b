"""The finished runs of an audit, and the cost of attacking each image at any price.

1. A series (an attack at a price) counts once all its images are finished. In an unfinished series,
   the images whose runs stop early would be over-represented. Unfinished series are listed.
2. Images that the model misclassifies need no attack: they are left out and counted. A run that
   failed counts up to its failure.
3. An account is the numbers of flagged and other answers up to and including a run's first point
   within ε. Both numbers grow along a run, so no later point is cheaper.
4. Re-pricing is exact: at c* = c that point costs others + c x flagged. At c* = infinity only
   flagged answers count. At a growing price p it costs others + p(1) + … + p(flagged).
5. An image's cost is that of its cheapest run, whatever price that run planned with. So costs
   grow with the price and shrink with ε. They are upper bounds on what an attacker needs. An image
   that no run reached has an infinite cost.
6. A quantile is the smallest cost at which at least that share of the images is reached. It is
   never interpolated, and is infinite if fewer images are reached.
7. The break-even price of an image is the largest c at which a run costs at most `worth`: the
   largest (worth - others) / flagged over all runs. It is infinite if a run has no flagged answer,
   and 0 if no run is profitable at any price.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.prices import Prices
from ..core.result import Values
from ..errors import InputError
from ..report.ranking import Estimate
from ..report.runs import CellCurve, SeriesRuns, series_of
from ..report.statistics import PERCENTILES, bootstrap
from ..studies.grid import Series
from ..studies.results import StudyResults
from ..studies.store.connection import reading
from ..studies.store.record import from_json
from .criteria import Criteria

QUANTILES = (0.1, 0.5, 0.9)
IN_PYTHON = "tollbox.audit"
"""Origin of an audit whose model comes from Python."""
SETTINGS = "audit"
"""Key in the record's settings under which an audit keeps its own."""


class Accounts(NamedTuple):
    """The accounts (images, series) of the first points within an ε; infinite if there is none."""

    images: list[int]
    """Image number of each row."""
    flagged: Values
    others: Values
    distances: Values
    """The smallest distance of each run."""

    def only(self, rows: list[int]) -> Accounts:
        return Accounts([self.images[row] for row in rows], *(each[rows] for each in self[1:]))

    def costs(self, price: float) -> Values:
        """Return the cost of each run at c* = price; infinite if it has no point within ε."""
        with np.errstate(invalid="ignore"):
            each = self.flagged if math.isinf(price) else self.others + price * self.flagged
        return np.where(np.isfinite(self.flagged), each, math.inf)


def accounts_of(series: Sequence[SeriesRuns], epsilons: Sequence[float]) -> list[Accounts]:
    """Return the accounts at each ε, for series with one run per image."""
    images = sorted({run.image for runs in series for run in runs.runs})
    rows = {image: row for row, image in enumerate(images)}
    smallest = np.full((len(images), len(series)), math.inf)
    flagged, others = np.full((2, *smallest.shape, len(epsilons)), math.inf)
    levels = np.asarray(epsilons, float)
    for number, runs in enumerate(series):
        for run in runs.runs:
            if not len(run.distances):
                continue
            place = rows[run.image], number
            smallest[place] = run.distances[-1]
            first = np.searchsorted(-run.distances, -levels)  # the first point within each ε
            there = first < len(run.distances)
            source = run.needs["source"][first[there]] - 1
            flagged[place][there] = source
            others[place][there] = run.needs["queries"][first[there]] - source
    return [
        Accounts(images, flagged[..., level], others[..., level], smallest)
        for level in range(len(epsilons))
    ]


def costs(at: Accounts, price: float) -> Values:
    """Return the cost of each image at c* = price (rules 4 and 5)."""
    return np.asarray(at.costs(price).min(axis=1, initial=math.inf))


def policy_costs(at: Accounts, prices: Prices) -> Values:
    """Return the cost of each image under prices that depend on the number of flagged answers."""
    known = np.isfinite(at.flagged)
    counts = np.stack([np.where(known, at.others, 0), np.where(known, at.flagged, 0)], axis=-1)
    each = np.where(known, prices.cost(counts.astype(np.int64)), math.inf)
    return np.asarray(each.min(axis=1, initial=math.inf))


def break_even(at: Accounts, worth: float) -> Values:
    """Return the price above which no run on an image costs `worth` or less (rule 7)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        prices = (worth - at.others) / at.flagged
        prices = np.where(at.flagged == 0, math.inf, prices)
    profitable = np.isfinite(at.flagged) & (at.others <= worth)
    return np.asarray(np.where(profitable, prices, 0.0).max(axis=1, initial=0.0))


def rank(share: float, count: int) -> int:
    """Return the zero-based index of the quantile `share` among `count` sorted values."""
    return max(0, math.ceil(round(share * count, 9)) - 1)


def quantile(values: Values, share: float) -> float:
    """Return a quantile (rule 6); NaN if there are no values."""
    return float(np.sort(values)[rank(share, len(values))]) if len(values) else math.nan


def quantiles(values: Values, shares: Sequence[float] = QUANTILES) -> list[Estimate]:
    """Return quantiles over images, each with its 95 % interval."""
    if not len(values):
        return [Estimate(math.nan, math.nan, math.nan, 0)] * len(shares)
    places = [rank(share, len(values)) for share in shares]
    ends = interval(lambda rows: np.asarray(np.sort(values[rows], axis=1)[:, places]), len(values))
    found = np.stack([np.sort(values)[places], *ends], axis=1)
    return [Estimate(value, low, high, len(values)) for value, low, high in found.tolist()]


def interval(statistic: Callable[[NDArray[np.int64]], Values], count: int) -> tuple[Values, Values]:
    """Return the 95 % percentile interval of a statistic over bootstrap draws of `count` images."""
    drawn = bootstrap(statistic, np.arange(count))
    low, high = np.percentile(drawn, PERCENTILES, axis=0, method="nearest")
    return low, high


@dataclass(frozen=True)
class AuditRuns:
    """The finished runs of an audit."""

    results: StudyResults
    complete: list[SeriesRuns]
    """Series all of whose images are finished."""
    left_out: list[tuple[Series, int]]
    """The other series, each with its number of finished cells."""

    @classmethod
    def of(cls, results: StudyResults) -> AuditRuns:
        """Read the runs from a study's results; raise InputError if the study is not an audit."""
        if SETTINGS not in results.record.settings:
            given = f"{results.folder} has a study that is not an audit"
            remedy = f"for its report, run `tollbox report {results.folder}`"
            expected = "a folder that `tollbox audit` created"
            raise InputError(given, expected=expected, remedy=remedy)
        settings = results.record.settings[SETTINGS]
        with reading(results.stores[0].path):  # raises if values have other types
            from_json(float, settings["budget"])
            if from_json(tuple[int, ...], settings["shape"]) != results.record.shape:
                raise ValueError("its shape is not that of its images")
            Criteria.from_json(settings["criteria"])
        all_series, status, width = series_of(results), results.status(), results.grid.width
        done = {each.series: status[each.series.number].done for each in all_series}
        complete = [each for each in all_series if done[each.series] >= width]
        left_out = [(series, finished) for series, finished in done.items() if finished < width]
        return cls(results, complete, left_out)

    @property
    def settings(self) -> dict[str, Any]:
        """Settings that the audit keeps in the record of its study."""
        return dict(self.results.record.settings[SETTINGS])

    @property
    def values(self) -> int:
        """Number of values in an image."""
        return math.prod(self.settings["shape"])

    @property
    def runs(self) -> list[CellCurve]:
        return [run for runs in self.complete for run in runs.runs]

    def accounts(self, epsilons: Sequence[float]) -> list[Accounts]:
        """Return the accounts of the first points within each ε."""
        return accounts_of(self.complete, epsilons)

    @cached_property
    def smallest(self) -> Values:
        """Smallest distance of each image, in the order of `accounts`."""
        return np.asarray(self.accounts([0.0])[0].distances.min(axis=1, initial=math.inf))
