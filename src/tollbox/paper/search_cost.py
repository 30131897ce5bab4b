"""The cost of searches after each iteration: binary search against asymmetric search.

1. An accepted step has the cost of each phase so far; searches are the phase "search". Iteration 0
   is the search after the start.
2. Runs are compared in pairs: the same image and seed under both attacks, with the same start and
   noise. Some stop earlier than others, so the curves stop at the last iteration that nine tenths
   of the pairs reach, and are means over those pairs.
3. Bands and intervals are 95 % intervals over images, each drawn with all its seeds.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from ..core.result import Values
from ..core.stop import Stop
from ..errors import InputError
from ..parts.searches import PHASE, AsymmetricSearch, BinarySearch
from ..report import axes
from ..report.axes import Axes, Figure
from ..report.statistics import PERCENTILES, bootstrap
from ..studies.results import StudyResults
from ..studies.specs import ModelSpec, Tariff

SHARE_OF_PAIRS = 0.9
"""Share of the pairs that reach the last iteration in the figure."""
NAMES = ("binary search", "asymmetric search")
MISSING = (
    "no two attacks of the study differ only in their search: expected one with BinarySearch and "
    'one with AsymmetricSearch, as preset = "geoda" and preset = "geoda+as".'
)


class SearchCosts(NamedTuple):
    """Mean cumulative costs of both searches by iteration, with intervals."""

    title: str
    """The model and the price."""
    means: Values
    """(2, iterations): costs of binary search and of asymmetric search."""
    bands: Values
    """(2, 2, iterations): low and high of each."""
    ratios: Values
    """(3, iterations): the ratio of the means, low and high."""
    images: int
    pairs: int
    left_out: int
    """Number of pairs that stopped earlier."""


def search_costs(results: StudyResults) -> list[SearchCosts]:
    """Return the search costs for each model and price of a study."""
    pair = _attacks(results)
    columns = itertools.product(results.study.models, results.study.tariffs)
    costs = [_costs(results, pair, *column) for column in columns]
    known = [each for each in costs if each is not None]
    if not known:
        raise InputError("no image has a finished run under both attacks: resume the study.")
    return known


def _attacks(results: StudyResults) -> tuple[str, str]:
    """Return the names of the first two attacks that differ only in their search."""
    specs: list[tuple[str, Any]] = [(spec.name, spec.attack) for spec in results.study.attacks]
    for (binary, one), (asymmetric, other) in itertools.product(specs, specs):
        if (
            isinstance(getattr(one, "search", None), BinarySearch)
            and isinstance(getattr(other, "search", None), AsymmetricSearch)
            and dataclasses.replace(one, search=other.search) == other
        ):
            return binary, asymmetric
    raise InputError(MISSING)


def _costs(
    results: StudyResults, pair: tuple[str, str], model: ModelSpec, tariff: Tariff
) -> SearchCosts | None:
    """Return means over runs, with intervals over images."""
    spent: tuple[dict[tuple[int, int], list[float]], ...] = ({}, {})
    for attack, runs in zip(pair, spent, strict=True):
        for result in results.results(attack, tariff.name, model.name):
            if result.stop is not Stop.ALREADY_MISCLASSIFIED:
                place = results.grid.place(result.index)
                costs = [step.by_phase.get(PHASE, 0.0) for step in result.trace]
                runs[place.image, place.seed] = costs
    keys = sorted(spent[0].keys() & spent[1].keys())
    lengths = [min(len(runs[key]) for runs in spent) for key in keys]
    enough = math.ceil(SHARE_OF_PAIRS * len(keys))
    length = sorted(lengths)[len(keys) - enough] if keys else 0
    if length == 0:
        return None
    complete = [key for key, least in zip(keys, lengths, strict=True) if least >= length]
    images = np.array([image for image, _ in complete])
    both = np.array([[runs[key][:length] for runs in spent] for key in complete])
    samples = bootstrap(lambda rows: both[rows].mean(axis=1), images)
    means = both.mean(axis=0)
    spread = np.percentile(samples[:, 0] / samples[:, 1], PERCENTILES, axis=0)
    return SearchCosts(
        f"{model.name}, c* = {tariff.name}",
        means,
        np.percentile(samples, PERCENTILES, axis=0).swapaxes(0, 1),
        np.vstack([means[0] / means[1], spread]),
        len(np.unique(images)),
        len(complete),
        len(keys) - len(complete),
    )


def draw(results: StudyResults) -> Figure:
    """Draw the mean cumulative search cost, with a panel for each model and price."""
    up = "cumulative search cost (mean)"
    return axes.draw_panels(search_costs(results), _draw_panel, up, 3.6, sharey=False)


def _draw_panel(axis: Axes, costs: SearchCosts) -> None:
    from matplotlib.ticker import MaxNLocator

    iterations = np.arange(costs.means.shape[1])
    curves = zip(NAMES, axes.COLOURS[1::-1], costs.means, costs.bands, strict=True)
    for name, colour, mean, band in curves:
        axis.fill_between(iterations, *band, color=colour, alpha=0.15, linewidth=0)
        axis.plot(iterations, mean, color=colour, linewidth=1.8, marker="o", ms=3, label=name)
    axis.fill_between([], [], color=axes.INK, alpha=0.15, linewidth=0, label="95 % interval")
    ratio, low, high = costs.ratios[:, -1]
    left = f", {costs.left_out} that stopped earlier left out" if costs.left_out else ""
    title = f"{costs.title}, {costs.images} images{left}"
    ends = f"{ratio:.1f} [{low:.1f}, {high:.1f}] at iteration {iterations[-1]}"
    axes.name_panel(axis, f"{title}\nbinary / asymmetric: {ends}")
    axis.set_ylim(0, None)
    axis.set_xlim(0, max(1, iterations[-1]))
    axis.set_xlabel("iteration")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.plain_numbers(axis.yaxis)
    axes.legend(axis, loc="upper left")
