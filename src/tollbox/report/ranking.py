"""Attacks ranked over all budgets, rather than at one: two numbers, from arrays of distances.

    G   exp of the mean, over costs and images, of log(d / d_ref): what part of a reference's
        distance an attack has, at whatever cost
    O   1 - mean over costs and images of clip(log(d / d*) / log(cap / d*), 0, 1): 1 if it is at
        every cost where the best that is known of the image, d*, is; 0 if it is nowhere

1. Distances are (runs, costs), at costs that are equal ratios apart (`log_spaced`). No adversarial
   point is an infinite distance, and counts as the cap; so does what is farther than it.
2. Two attacks are paired: a row of each is the same image and seed. A run that is not known at all
   of the costs is left out, with its pair.
3. An image counts once, with the mean of its runs. The interval of 95 % draws images.

Where the attacks of a study stand over all budgets: G and O of every series (`ranking.py`), and
the time it took.

1. Costs go from a twentieth of a column's mark to it, where the table is read: cost up to the
   budget; queries up to their cap where there is no budget.
2. The cap is half of the range in every pixel: as far as a black image is from a mid-grey one.
   Where the size of the images is not known any more, it is the farthest point that any run has.
3. d* is the nearest that any attack came to an image of a model in this study, at any price, with
   any seed; or a floor that a file has (`floors.py`), if that is nearer.
4. Seconds are those of engines, summed; two at work for a second took two. Queries a second are
   told of a series that is finished, since those of unfinished runs are not known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..core.metric import Metric
from ..core.result import Values
from ..errors import InputError, UnknownNameError
from ..studies.results import StudyResults
from . import statistics
from .numbers import distance
from .paper_table import TableColumn
from .reading import Reading
from .runs import CellCurve, SeriesRuns
from .statistics import PERCENTILES, Images, bootstrap

COSTS = 24
FIRST_SHARE = 0.05
"""Of the last cost: where the costs begin."""
NEAREST = 1e-9
"""Of the cap: no distance counts as less, so that all have a logarithm."""


class Estimate(NamedTuple):
    """A number with its 95 % interval, and the images that it is over; NaN over none."""

    value: float
    low: float
    high: float
    images: int

    @property
    def exponential(self) -> Estimate:
        """Of a mean of logs, the geometric mean."""
        value, low, high = map(math.exp, (self.value, self.low, self.high))
        return Estimate(value, low, high, self.images)


def cap_in(norm: Metric, size: int) -> float:
    """Half of the range in every pixel of an image of so many values: as far as a black image is
    from a mid-grey one."""
    return 0.5 if norm is Metric.LINF else 0.5 * math.sqrt(size)


def first_cost(last: float) -> float:
    """Where the costs begin that end with `last`."""
    return FIRST_SHARE * last


def log_spaced(last: float) -> Values:
    """The costs, equal ratios apart."""
    return np.geomspace(first_cost(last), last, COSTS)


def mean_logs(distances: Values, cap: float) -> Values:
    """Of each run, the mean over costs of the log of its distance; NaN if one is not known."""
    return np.asarray(np.log(np.clip(distances, NEAREST * cap, cap)).mean(axis=1))


def distance_ratio(distances: Values, reference: Values, images: Images, cap: float) -> Estimate:
    """G of an attack; the rows of both are the same runs, and `images` has the image of each."""
    logs = np.stack([mean_logs(reference, cap), mean_logs(distances, cap)], axis=1)
    return distance_ratios(logs, 0, images)[1]


def distance_ratios(logs: Values, reference: int, images: Images) -> list[Estimate]:
    """G of several attacks beside one of them, each over the runs that both have; `logs` are
    (runs, attacks), of `mean_logs`, NaN where there is no such run."""
    differences = logs - logs[:, [reference]]
    alike: dict[bytes, list[int]] = {}
    for attack, known in enumerate(~np.isnan(differences.T)):
        alike.setdefault(known.tobytes(), []).append(attack)
    found: dict[int, Estimate] = {}
    for attacks in alike.values():
        means = _means(differences[:, attacks], images)
        found |= dict(zip(attacks, means, strict=True))
    return [found[attack].exponential for attack in range(len(found))]


def optimality(distances: Values, best: Values, images: Images, cap: float) -> Estimate:
    """O of an attack; `best` is d* of each run's image. An image that nobody brings below the cap
    tells nothing, and is left out."""
    return _means((1 - lags(distances, best, cap))[:, None], images)[0]


def lags(distances: Values, best: Values, cap: float) -> Values:
    """Of each run, how far it is behind the best on average, from 0 to 1; NaN if not known."""
    best = np.where(best < cap, np.maximum(best, NEAREST * cap), math.nan)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        behind = np.log(np.maximum(distances, best) / best) / np.log(cap / best)
    return np.asarray(np.clip(behind, 0, 1).mean(axis=1))


def _means(values: Values, images: Images) -> list[Estimate]:
    """The mean over images of each column of (runs, columns), with its interval; runs that are not
    known are left out."""
    known = ~np.isnan(values).any(axis=1)
    names, place = np.unique(images[known], return_inverse=True)
    if not len(names):
        return [Estimate(math.nan, math.nan, math.nan, 0)] * values.shape[1]
    sums = np.zeros((len(names), values.shape[1]))
    np.add.at(sums, place, values[known])
    of_image = sums / np.bincount(place)[:, None]
    drawn = bootstrap(lambda rows: of_image[rows].mean(axis=1), np.arange(len(names)))
    low, high = np.percentile(drawn, PERCENTILES, axis=0, method="nearest")
    means = zip(of_image.mean(axis=0), low, high, strict=True)
    return [Estimate(float(mean), float(a), float(b), len(names)) for mean, a, b in means]


Floors = Mapping[tuple[str, int], float]
"""By model and image, a distance that is known to suffice."""


class Cap(NamedTuple):
    """What no adversarial point counts as."""

    value: float
    words: str


@dataclass(frozen=True)
class Standing:
    """Where a series stands."""

    attack: str
    column: TableColumn
    ratios: Mapping[str, Estimate]
    """G beside each attack that has runs there."""
    optimality: Estimate
    seconds: float | None
    """None if that was not recorded."""
    speed: float | None
    """Queries a second."""


@dataclass(frozen=True)
class Standings:
    """Where all series with runs stand."""

    against: str
    """The reference."""
    cap: Cap
    floors: bool
    """Whether there are any beside what the study itself found."""
    standings: list[Standing]

    @property
    def columns(self) -> list[TableColumn]:
        """Those that have any."""
        columns: list[TableColumn] = []
        for each in self.standings:
            columns += [] if each.column in columns else [each.column]
        return columns

    def ranked(self, column: TableColumn) -> list[Standing]:
        """Those of a column by G, the least first; without it, in the end."""

        def key(each: Standing) -> tuple[bool, float]:
            ratio = each.ratios.get(self.against)
            known = ratio is not None and ratio.images > 0
            return not known, ratio.value if ratio is not None and known else 0.0

        return sorted((each for each in self.standings if each.column == column), key=key)

    @property
    def best_known(self) -> str:
        """What d* is, in words."""
        return "best distance known in this study" + " or by a floor" * self.floors


def standings(
    results: StudyResults,
    all_series: Sequence[SeriesRuns],
    columns: Sequence[TableColumn],
    reading: Reading,
    against: str | None = None,
    floors: Floors | None = None,
) -> Standings:
    """The standings in columns of a table, beside the attack `against`, or the first."""
    names = [spec.name for spec in results.study.attacks]
    if against is not None and against not in names:
        raise UnknownNameError("attack", against, names)
    cap, best = cap_of(results, all_series), best_known(all_series, floors or {})
    seconds = results.seconds() or {}
    found: list[Standing] = []
    for column in columns:
        if math.isfinite(column.mark):
            here = [s for s in all_series if s.runs and _in(s, column)]
            times = [time_of(results, s, seconds.get(s.series.number)) for s in here]
            found += _column(here, times, column, reading, cap.value, best)
    return Standings(against or names[0], cap, bool(floors), found)


def _in(runs: SeriesRuns, column: TableColumn) -> bool:
    return (runs.series.model.name, runs.series.tariff) == (column.model, column.tariff)


def _column(
    series: Sequence[SeriesRuns],
    times: Sequence[tuple[float | None, float | None]],
    column: TableColumn,
    reading: Reading,
    cap: float,
    best: Floors,
) -> list[Standing]:
    costs = log_spaced(column.mark)
    keys = sorted({_key(run) for each in series for run in each.runs})
    place = {key: row for row, key in enumerate(keys)}
    images = np.array([image for image, _ in keys])
    nearest = np.array([best.get((column.model, image), math.inf) for image, _ in keys])
    logs = np.full((len(keys), len(series)), math.nan)
    optimal = []
    for number, each in enumerate(series):
        distances = statistics.table_of(each.runs, costs, column.by, reading)
        rows = [place[_key(run)] for run in each.runs]
        logs[rows, number] = mean_logs(distances, cap)
        optimal.append(optimality(distances, nearest[rows], images[rows], cap))
    names = [each.series.attack.name for each in series]
    beside = {name: distance_ratios(logs, n, images) for n, name in enumerate(names)}
    return [
        Standing(
            name,
            column,
            {other: beside[other][number] for other in names},
            optimal[number],
            *times[number],
        )
        for number, name in enumerate(names)
    ]


def _key(run: CellCurve) -> tuple[int, int]:
    return run.image, run.seed


def time_of(
    results: StudyResults, runs: SeriesRuns, seconds: float | None
) -> tuple[float | None, float | None]:
    """Seconds, and queries a second."""
    number, done = runs.series.number, len(runs.runs) + runs.misclassified
    if not seconds or done < results.record.cells_of(number, number + 1):
        return seconds, None
    queries = sum(run.spent["queries"] for run in runs.runs) + runs.misclassified
    return seconds, queries / seconds


def best_known(all_series: Sequence[SeriesRuns], floors: Floors) -> dict[tuple[str, int], float]:
    """By model and image, the nearest point of all runs, or the floor."""
    best = dict(floors)
    for each in all_series:
        for run in each.runs:
            key = each.series.model.name, run.image
            nearest = min(run.distances, default=math.inf)
            best[key] = min(float(nearest), best.get(key, math.inf))
    return best


def cap_of(results: StudyResults, all_series: Sequence[SeriesRuns]) -> Cap:
    """What no adversarial point counts as in a study."""
    norm = results.record.norm
    size = 1 if norm is Metric.LINF else _size(results)
    if size is not None:
        value = cap_in(norm, size)
        return Cap(value, f"half of the range in every pixel ({norm.sign} {distance(value)})")
    firsts = [run.distances[0] for s in all_series for run in s.runs if len(run.distances)]
    value = float(max(firsts, default=1.0))
    return Cap(value, f"the farthest point of the study ({norm.sign} {distance(value)})")


def _size(results: StudyResults) -> int | None:
    """How many numbers an image has, if that is known."""
    if results.record.shape is not None:
        return math.prod(results.record.shape)
    try:
        return results.pixels[0].numel()
    except (InputError, OSError, RuntimeError):
        return None
