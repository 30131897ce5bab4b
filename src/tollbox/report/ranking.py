"""A ranking of attacks over all budgets, rather than at a single one, by two numbers.

    G   exp of the mean, over costs and images, of log(d / d_ref): the attack's distance relative
        to that of a reference attack
    O   1 - mean over costs and images of clip(log(d / d*) / log(cap / d*), 0, 1): 1 if the attack
        has the best known distance d* at every cost, 0 if it never finds an adversarial point

1. Distances are (runs, costs), at log-spaced costs from a twentieth of a column's mark to the mark:
   costs up to the budget, or queries up to their maximum if there is no budget.
2. A distance above the cap counts as the cap, and so does an infinite one. The cap is half of the
   range in every pixel: the distance between a black image and a mid-grey one.
3. Two attacks are paired: the same row is the same image and seed in both. If a run's distance is
   unknown at one of the costs, the pair is left out.
4. An image counts once, with the mean of its runs. The 95 % interval is bootstrapped over images.
5. d* is the smallest distance found for an image and a model in this study, by any attack at any
   price with any seed; or a floor, if that is smaller. A floor is a distance known to be reachable,
   for example from a white-box attack (`read_floors`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..core.metric import Metric
from ..core.result import Values
from ..data.tables import rows_of, shortened
from ..errors import FileError, UnknownNameError
from ..studies.results import StudyResults
from .formatting import distance
from .paper_table import TableColumn
from .runs import SeriesRuns
from .statistics import PERCENTILES, Images, bootstrap, distances_at

COSTS = 24
FIRST_SHARE = 0.05
"""First cost relative to the last."""
SMALLEST = 1e-9
"""Smallest distance relative to the cap, so that every distance has a logarithm."""

Best = Mapping[tuple[str, int], float]
"""Smallest known distances by model and image."""


class Estimate(NamedTuple):
    """A number with its 95 % interval and its number of images; NaN without images."""

    value: float
    low: float
    high: float
    images: int


UNKNOWN = Estimate(math.nan, math.nan, math.nan, 0)


def cap_in(norm: Metric, size: int) -> float:
    """Return the cap (rule 2) for images with `size` values."""
    return 0.5 if norm is Metric.LINF else 0.5 * math.sqrt(size)


def first_cost(last: float) -> float:
    return FIRST_SHARE * last


def log_spaced(last: float) -> Values:
    """Return the costs of the ranking up to `last`."""
    return np.geomspace(first_cost(last), last, COSTS)


def mean_logs(distances: Values, cap: float) -> Values:
    """Return the mean log distance of each run over costs; NaN if a distance is unknown."""
    return np.asarray(np.log(np.clip(distances, SMALLEST * cap, cap)).mean(axis=1))


def distance_ratio(distances: Values, reference: Values, images: Images, cap: float) -> Estimate:
    """Return G of an attack; rows are the same runs in both arrays, and `images` their images."""
    logs = np.stack([mean_logs(reference, cap), mean_logs(distances, cap)], axis=1)
    return distance_ratios(logs, 0, images)[1]


def distance_ratios(logs: Values, reference: int, images: Images) -> list[Estimate]:
    """Return G of several attacks relative to one of them, each over the runs that both have.

    `logs` has the `mean_logs`, (runs, attacks); NaN where there is no such run.
    """
    differences = logs - logs[:, [reference]]
    alike: dict[bytes, list[int]] = {}
    for attack, known in enumerate(~np.isnan(differences.T)):
        alike.setdefault(known.tobytes(), []).append(attack)
    found = [UNKNOWN] * len(differences.T)
    for attacks in alike.values():
        for attack, mean in zip(attacks, _means(differences[:, attacks], images), strict=True):
            value, low, high = map(math.exp, mean[:3])
            found[attack] = Estimate(value, low, high, mean.images)
    return found


def optimality(distances: Values, best: Values, images: Images, cap: float) -> Estimate:
    """Return O of an attack; `best` has d* for each run's image.

    Images whose d* is not below the cap are left out.
    """
    best = np.where(best < cap, np.maximum(best, SMALLEST * cap), math.nan)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = np.log(np.maximum(distances, best) / best) / np.log(cap / best)
    return _means((1 - np.clip(excess, 0, 1).mean(axis=1))[:, None], images)[0]


def _means(values: Values, images: Images) -> list[Estimate]:
    """Return the mean over images of each column of (runs, columns); unknown runs are left out."""
    known = ~np.isnan(values).any(axis=1)
    names, place = np.unique(images[known], return_inverse=True)
    if not len(names):
        return [UNKNOWN] * values.shape[1]
    sums = np.zeros((len(names), values.shape[1]))
    np.add.at(sums, place, values[known])
    of_image = sums / np.bincount(place)[:, None]
    drawn = bootstrap(lambda rows: of_image[rows].mean(axis=1), np.arange(len(names)))
    low, high = np.percentile(drawn, PERCENTILES, axis=0, method="nearest")
    means = zip(of_image.mean(axis=0), low, high, strict=True)
    return [Estimate(float(mean), float(a), float(b), len(names)) for mean, a, b in means]


class Standing(NamedTuple):
    """The numbers that rank one series."""

    attack: str
    column: TableColumn
    ratios: Mapping[str, Estimate]
    """G relative to each attack that has runs in the column."""
    optimality: Estimate
    seconds: float | None
    """Total time of all workers; None if it was not recorded."""
    speed: float | None
    """Queries per second; None if the series is not finished or its time is unknown."""


@dataclass(frozen=True)
class Standings:
    """The standings of all series that have runs."""

    reference: str
    cap: float
    cap_text: str
    best_known: str
    """The definition of d* in words."""
    standings: list[Standing]

    @property
    def columns(self) -> list[TableColumn]:
        return list(dict.fromkeys(each.column for each in self.standings))

    def ratio(self, each: Standing) -> Estimate:
        """Return G relative to the reference."""
        return each.ratios.get(self.reference, UNKNOWN)

    def ranked(self, column: TableColumn) -> list[Standing]:
        """Return the standings in a column by ascending G; unknown ones come last."""
        here = (each for each in self.standings if each.column == column)
        return sorted(here, key=lambda each: (not (g := self.ratio(each)).images, g.value))


def standings(
    results: StudyResults,
    all_series: Sequence[SeriesRuns],
    columns: Sequence[TableColumn],
    reference: str | None = None,
    floors: Best | None = None,
) -> Standings:
    """Return the standings in a table's columns, relative to `reference` or the first attack."""
    names = [spec.name for spec in results.study.attacks]
    if reference is not None and reference not in names:
        raise UnknownNameError("attack", reference, names)
    norm = results.record.norm
    cap = cap_in(norm, math.prod(results.record.shape or ()))
    best = dict(floors or {})
    for each in all_series:
        for run in each.runs:
            key = each.model, run.image
            best[key] = min([*map(float, run.distances), best.get(key, math.inf)])
    found: list[Standing] = []
    for column in columns:
        if math.isfinite(column.mark):
            where = column.model, column.tariff
            here = [s for s in all_series if s.runs and (s.model, s.series.tariff) == where]
            found += _column(results, here, column, cap, best)
    cap_text = f"half of the range in every pixel ({norm.sign} {distance(cap)})"
    known = "smallest distance known from this study" + " or from the floors" * bool(floors)
    return Standings(reference or names[0], cap, cap_text, known, found)


def _column(
    results: StudyResults, series: Sequence[SeriesRuns], column: TableColumn, cap: float, best: Best
) -> list[Standing]:
    keys = sorted({(run.image, run.seed) for each in series for run in each.runs})
    place = {key: row for row, key in enumerate(keys)}
    images = np.array([image for image, _ in keys])
    smallest = np.array([best.get((column.model, image), math.inf) for image, _ in keys])
    logs = np.full((len(keys), len(series)), math.nan)
    optimal = []
    for number, each in enumerate(series):
        distances = distances_at(each.runs, log_spaced(column.mark), column.by)
        rows = [place[run.image, run.seed] for run in each.runs]
        logs[rows, number] = mean_logs(distances, cap)
        optimal.append(optimality(distances, smallest[rows], images[rows], cap))
    ratios = {each.attack: distance_ratios(logs, n, images) for n, each in enumerate(series)}
    times = times_of(results, series)
    return [
        Standing(name, column, {other: ratios[other][n] for other in ratios}, optimal[n], *times[n])
        for n, name in enumerate(ratios)
    ]


def times_of(
    results: StudyResults, all_series: Sequence[SeriesRuns]
) -> list[tuple[float | None, float | None]]:
    """Return the seconds of each series, and its queries per second if it is finished."""
    recorded, times = results.seconds(), []
    for runs in all_series:
        number, done = runs.series.number, len(runs.runs) + runs.misclassified
        seconds, speed = recorded.get(number), None
        if seconds and done >= results.record.cells_of(number, number + 1):
            queries = sum(run.spent["queries"] for run in runs.runs) + runs.misclassified
            speed = queries / seconds
        times.append((seconds, speed))
    return times


def read_floors(file: Path, results: StudyResults) -> dict[tuple[str, int], float]:
    """Read a CSV file of distances that are known to be reachable.

    Its columns are image (the content hash, as in `cells.csv` and `images.txt`) and distance, and
    model if the study has several. Images that are not in the study are ignored.
    """
    models = [model.name for model in results.study.models]
    numbers = {content: number for number, (content, _, _) in enumerate(results.images)}
    columns = ("image", "distance", "model") if len(models) > 1 else ("image", "distance")
    floors: dict[tuple[str, int], float] = {}
    for where, (image, text, *model) in rows_of(file, columns):
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        given, expected = "", ""
        if not 0 < value < math.inf:
            given, expected = f"the distance is {shortened(text)!r}", "a number above 0"
        elif model and model[0] not in models:
            given, expected = f"the model is {shortened(model[0])!r}", f"one of {', '.join(models)}"
        if given:
            raise FileError(given, expected=expected, where=where)
        if image in numbers:
            key = (model[0] if model else models[0]), numbers[image]
            floors[key] = min(value, floors.get(key, math.inf))
    if not floors:
        expected = "hashes of images, as `tollbox export` writes them"
        raise FileError(f"{file} has no image of this study", expected=expected)
    return floors
