"""What searches have cost after each iteration: binary search against asymmetric search.

1. An accepted step says what each phase had cost by then; the searches are the phase "search".
   Iteration 0 is the search after the start.
2. Runs are compared in pairs, the same image and seed under both attacks, whose start and noise are
   the same. Some end sooner than others, so the curves go up to the last iteration that nine tenths
   of the pairs came to, and are means over those pairs from the first iteration to the last.
3. Bands and intervals are of 95 % and over images, drawn again and again with all their seeds.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.stop import Stop
from ..errors import InputError
from ..parts.searches import PHASE, AsymmetricSearch, BinarySearch
from ..report.axes import (
    COLOURS,
    INK,
    legend,
    name_panel,
    panels,
    plain_numbers,
    style,
    whole_ticks,
)
from ..report.statistics import PERCENTILES, Images, bootstrap
from ..studies.results import StudyResults
from ..studies.specs import ModelSpec, Tariff

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Values = NDArray[np.float64]

SHARE_OF_PAIRS = 0.9
"""Share of the pairs that come to the last iteration that is drawn."""
NAMES = ("binary search", "asymmetric search")
MISSING = (
    "no two attacks of the study differ in their search alone: expected one with BinarySearch and "
    'one with AsymmetricSearch, as preset = "geoda" and preset = "geoda+as".'
)


class SearchCosts(NamedTuple):
    """Mean cumulative costs by iteration, of both searches, with intervals."""

    model: str
    price: str
    means: tuple[Values, Values]
    """Binary search, asymmetric search."""
    bands: tuple[Values, Values]
    """(2, iterations): low and high."""
    ratios: Values
    """(3, iterations): the ratio of the means, low and high."""
    images: int
    pairs: int
    left_out: int
    """Pairs that did not come as far."""


def search_costs(results: StudyResults) -> list[SearchCosts]:
    """For each model and price of a study."""
    pair = _attacks(results)
    columns = [(model, price) for model in results.study.models for price in results.study.tariffs]
    costs = [_costs(results, pair, *column) for column in columns]
    known = [each for each in costs if each is not None]
    if not known:
        raise InputError("no image has a finished run under both attacks: expected some; resume.")
    return known


def _attacks(results: StudyResults) -> tuple[str, str]:
    """The names of the first two attacks that differ in their search alone."""
    specs: list[tuple[str, Any]] = [(spec.name, spec.attack) for spec in results.study.attacks]
    for binary, one in specs:
        for asymmetric, other in specs:
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
    spent: tuple[dict[tuple[int, int], list[float]], ...] = ({}, {})
    for attack, runs in zip(pair, spent, strict=True):
        for result in results.results(attack, tariff.name, model.name):
            if result.stop is not Stop.ALREADY_MISCLASSIFIED:
                place = results.grid.place(result.index)
                costs = [step.by_phase.get(PHASE, 0.0) for step in result.trace]
                runs[place.image, place.seed] = costs
    both = sorted(spent[0].keys() & spent[1].keys())
    lengths = np.sort([min(len(spent[0][key]), len(spent[1][key])) for key in both])
    if not len(lengths):
        return None
    length = int(lengths[len(lengths) - int(np.ceil(SHARE_OF_PAIRS * len(lengths)))])
    complete = [key for key in both if min(len(spent[0][key]), len(spent[1][key])) >= length]
    if length == 0:
        return None
    tables = tuple(np.array([runs[key][:length] for key in complete]) for runs in spent)
    return _averaged(
        model.name,
        f"c* = {tariff.name}",
        (tables[0], tables[1]),
        np.array([image for image, _ in complete]),
        len(both) - len(complete),
    )


def _averaged(
    model: str,
    price: str,
    tables: tuple[Values, Values],
    images: Images,
    left_out: int,
) -> SearchCosts:
    """Means over runs, and intervals over images with all their runs."""
    both = np.stack(tables, axis=1)  # (runs, 2, iterations)
    samples = bootstrap(lambda rows: both[rows].mean(axis=1), images)
    means = both.mean(axis=0)
    bands = np.percentile(samples, PERCENTILES, axis=0)  # (low and high, 2, iterations)
    spread = np.percentile(samples[:, 0] / samples[:, 1], PERCENTILES, axis=0)
    return SearchCosts(
        model,
        price,
        (means[0], means[1]),
        (bands[:, 0], bands[:, 1]),
        np.vstack([means[0] / means[1], spread]),
        len(np.unique(images)),
        len(images),
        left_out,
    )


# -- the figure -----------------------------------------------------------------------------------


def draw(results: StudyResults) -> Figure:
    """Mean cumulative search cost by iteration, a panel for each model and price."""
    costs = search_costs(results)
    figure, axes = panels(len(costs), 3.6, sharey=False)
    for axis, each in zip(axes, costs, strict=True):
        _draw_panel(axis, each)
    axes[0].set_ylabel("cumulative search cost (mean)")
    return figure


def _draw_panel(axis: Axes, costs: SearchCosts) -> None:
    iterations = np.arange(len(costs.means[0]))
    for name, colour, mean, band in zip(
        NAMES, COLOURS[1::-1], costs.means, costs.bands, strict=True
    ):
        axis.fill_between(iterations, *band, color=colour, alpha=0.15, linewidth=0)
        axis.plot(
            iterations, mean, color=colour, linewidth=1.8, marker="o", markersize=3, label=name
        )
    axis.fill_between([], [], color=INK, alpha=0.15, linewidth=0, label="95 % interval")
    ratio, low, high = costs.ratios[:, -1]
    left = f", {costs.left_out} that ended sooner left out" if costs.left_out else ""
    name_panel(
        axis,
        f"{costs.model}, {costs.price}, {costs.images} images{left}\n"
        f"binary / asymmetric: {ratio:.1f} [{low:.1f}, {high:.1f}] at iteration {iterations[-1]}",
    )
    axis.set_ylim(0, None)
    axis.set_xlim(0, max(1, iterations[-1]))
    axis.set_xlabel("iteration")
    whole_ticks(axis.xaxis)
    plain_numbers(axis.yaxis)
    legend(axis, loc="upper left")
    style(axis)
