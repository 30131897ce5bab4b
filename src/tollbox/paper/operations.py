"""The paper's figures about its two operations: asymmetric search (AS) and AGREST.

1. Search costs (Figure 4, left): an accepted step records the cost of each phase so far. Iteration
   0 is the search after the start. Runs are compared in pairs: the same image and seed under both
   attacks, with the same start and noise. The curves stop at the last iteration that nine tenths of
   the pairs reach, and are means over those pairs, with 95 % intervals over images.
2. Shares (Figure 4, right): for a plane boundary, the optimal share of low-cost answers is p(x*) in
   theory/caps.py. In its first iteration an attack aims at this share with the cosine of a random
   direction. The notes of a step have the share of its finished estimate. At high prices AGREST
   plans far more than 500 queries, and the maximum number of queries stops the run inside the first
   estimate. The share then comes from the ledger, since no other estimate has started.
3. Estimates of fewer than `FEWEST` answers are left out but counted. An estimate without a flagged
   answer carries no information.
4. A sweep (Figure 5) has each preset several times, with different `estimate.m`, the rate at which
   the overshoot is scheduled. Its medians are those at the budget. An infinite median is not drawn,
   and the figure says so. The marker of the preset's own m, the paper's choice, is filled.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..attacks.presets import PRESETS
from ..core.by_side import at_side
from ..core.result import Result, Values
from ..core.stop import Stop
from ..errors import InputError
from ..parts.estimates import PHASE as ESTIMATE
from ..parts.estimates import Agrest
from ..parts.searches import PHASE as SEARCH
from ..parts.searches import AsymmetricSearch, BinarySearch
from ..report import DistanceRule, axes
from ..report.axes import Axes, Figure
from ..report.formatting import short_cost
from ..report.paper_table import TableColumn
from ..report.runs import series_of
from ..report.statistics import PERCENTILES, Median, bootstrap, median_at
from ..studies.results import StudyResults
from ..studies.specs import ModelSpec, Tariff
from ..theory.caps import cap_probability, optimal_overshoot

SHARE_OF_PAIRS = 0.9
"""Share of the pairs that reach the last iteration in the figure."""
NAMES = ("binary search", "asymmetric search")
MISSING = (
    "no two attacks of the study differ only in their search: expected one with BinarySearch and "
    'one with AsymmetricSearch, as preset = "geoda" and preset = "geoda+as".'
)
FEWEST = 100
"""Minimum number of answers of an estimate in the figure."""
BARS = "median (across) and quartiles (upright)"
MARKERS = ("o", "s", "D", "^", "v", "P")
APART = 1.04
"""Factor by which curves are moved sideways, so that their intervals do not overlap."""


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
                costs = [step.by_phase.get(SEARCH, 0.0) for step in result.trace]
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


def draw_search_costs(results: StudyResults) -> Figure:
    """Draw the mean cumulative search cost, with a panel for each model and price."""
    up = "cumulative search cost (mean)"
    return axes.draw_panels(search_costs(results), _draw_cost_panel, up, 3.6, sharey=False)


def _draw_cost_panel(axis: Axes, costs: SearchCosts) -> None:
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


class Shares(NamedTuple):
    """The first estimates of an attack at one price."""

    ratio: float
    shares: Values
    """Share of low-cost answers of each run."""
    queries: Values
    """Number of answers of each estimate."""
    left_out: int

    @property
    def one_sided(self) -> float:
        """Share of estimates without a flagged answer."""
        return float((self.shares == 1).mean())


class SharePanel(NamedTuple):
    """An attack on a model, at its prices."""

    title: str
    dimension: int
    """Dimension d' of the sampled subspace."""
    prices: list[Shares]


def optimal(ratio: float, d: int) -> float:
    return cap_probability(optimal_overshoot(ratio, d), d)


def share_panels(results: StudyResults) -> list[SharePanel]:
    """Return the first estimates of each model and each attack with AGREST."""
    study, shape = results.study, results.record.shape or ()
    all_panels = []
    for model, spec in itertools.product(study.models, study.attacks):
        attack = at_side(spec.attack, min(shape[1:], default=math.inf))
        estimate = getattr(attack, "estimate", None)
        if isinstance(estimate, Agrest):
            d = estimate.subspace.dimension(shape)
            prices = [
                _shares(results.results(spec.name, tariff.name, model.name), tariff.prices.ratio)
                for tariff in study.tariffs
            ]
            all_panels.append(SharePanel(f"{model.name}, {spec.name}", d, prices))
    if not all_panels:
        raise InputError(
            'the study has no attack with AGREST: expected one, as preset = "hsja+agrest".'
        )
    started = [panel for panel in all_panels if any(len(each.shares) for each in panel.prices)]
    if not started:
        raise InputError("no run reached an estimate: resume the study, or raise max_queries.")
    return started


def _shares(results: Sequence[Result], ratio: float) -> Shares:
    counted = [r for r in results if r.stop is not Stop.ALREADY_MISCLASSIFIED]
    first = [each for result in counted if (each := first_estimate(result)) is not None]
    table = np.array([each for each in first if each[1] >= FEWEST], float).reshape(-1, 2)
    return Shares(ratio, table[:, 0], table[:, 1], len(counted) - len(table))


def first_estimate(result: Result) -> tuple[float, int] | None:
    """Return the share of low-cost answers in a run's first estimate, and its number of answers."""
    for step in result.trace:
        if "share" in step.notes:
            return step.notes["share"], step.notes["estimate_queries"]
    tally = result.ledger.counts.get(ESTIMATE)
    if not tally:
        return None
    return 1 - result.ledger.flagged_in(ESTIMATE) / tally.total(), tally.total()


def draw_shares(results: StudyResults) -> Figure:
    """Draw shares against c*, with a panel for each model and attack."""
    up = "low-cost answers in the first estimate"
    return axes.draw_panels(share_panels(results), _draw_share_panel, up, 3.8, sharey=True)


def _draw_share_panel(axis: Axes, panel: SharePanel) -> None:
    shown = [each for each in panel.prices if len(each.shares)]
    ratios = [each.ratio for each in shown]
    axis.set_xscale("log")
    across = np.geomspace(min(ratios) / 1.5, max(ratios) * 1.5, 200)
    planned = [optimal(ratio, panel.dimension) for ratio in across]
    axis.plot(across, planned, color=axes.COLOURS[0], linewidth=1.8, label="optimal, in theory")
    axis.set_xlim(across[0], across[-1])
    for each in shown:
        _draw_shares(axis, each)
    dot = "measured, one dot per image"
    axis.plot([], [], "o", color=axes.COLOURS[1], alpha=0.6, ms=4, label=dot)
    axis.plot([], [], color=axes.INK, linewidth=2, marker="_", ms=13, label=BARS)
    least = min(float(each.shares.min()) for each in shown)
    axis.set_ylim(max(-0.02, min(0.45, math.floor(10 * least) / 10 - 0.05)), 1.16)
    text = "estimates without a flagged answer:"
    head = axis.text(0.015, 0.985, text, transform=axis.transAxes, color=axes.INK)
    head.set(fontsize=9, va="top")
    axis.axhline(1.0, color=axes.INK, linewidth=0.6)
    axes.name_panel(axis, _title(panel))
    axis.set_xlabel("c*")
    axes.fixed_ticks(axis.xaxis, ratios)
    axes.fixed_ticks(axis.yaxis, [k / 10 for k in range(11)])
    axis.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    axes.legend(axis, loc="lower right")


def _draw_shares(axis: Axes, each: Shares) -> None:
    """Draw dots, quartiles and the median, and above them the share that is one-sided."""
    spread = np.linspace(-1, 1, len(each.shares)) if len(each.shares) > 1 else np.zeros(1)
    across = each.ratio * 1.13 ** np.random.default_rng(0).permutation(spread)
    axis.plot(across, each.shares, "o", color=axes.COLOURS[1], alpha=0.35, ms=3.5, mew=0, zorder=3)
    low, middle, high = np.percentile(each.shares, [25, 50, 75])
    axis.plot([each.ratio] * 2, [low, high], color=axes.INK, linewidth=2, zorder=4)
    axis.plot(each.ratio, middle, "_", color=axes.INK, ms=13, mew=2, zorder=4)
    text = axis.text(each.ratio, 1.045, f"{each.one_sided:.0%}", fontsize=9, color=axes.INK)
    text.set(ha="center", va="center")


def _title(panel: SharePanel) -> str:
    runs = [len(each.shares) for each in panel.prices if len(each.shares)]
    sizes = np.concatenate([each.queries for each in panel.prices])
    left = sum(each.left_out for each in panel.prices)
    many = f"{min(runs)}" if min(runs) == max(runs) else f"{min(runs)} to {max(runs)}"
    estimates = f"{many} estimates per price, of {sizes.min():g} to {sizes.max():g} answers"
    title = f"{panel.title}\n{estimates}"
    return f"{title}\n{left} of fewer than {FEWEST} left out" if left else title


class Point(NamedTuple):
    preset: str
    m: float
    median: Median

    @property
    def published(self) -> bool:
        """Whether it is the preset's own m."""
        return self.m == _rate(PRESETS[self.preset].attack)


class SweepPanel(NamedTuple):
    """A model and a price; points are in the order of presets and of their m."""

    title: str
    points: list[Point]


def sweep_panels(results: StudyResults, rule: DistanceRule = DistanceRule.HARD) -> list[SweepPanel]:
    study, all_panels = results.study, []
    swept = [
        (runs, m)
        for runs in series_of(results, rule)
        if runs.runs and (m := _rate(runs.series.attack.attack)) is not None
    ]
    if not swept:
        raise InputError(
            "no run of an attack with AGREST is finished: expected several attacks of a preset, "
            'as preset = "a-hsja" with estimate.m = 0.02; resume the study, or add them.'
        )
    presets = list(dict.fromkeys(runs.series.attack.preset for runs, _ in swept))
    for model, tariff in itertools.product(study.models, study.tariffs):
        column = TableColumn(model.name, tariff)
        points = [
            Point(runs.series.attack.preset, m, median_at(runs.runs, column.mark, column.by))
            for runs, m in swept
            if (runs.series.model, runs.series.tariff) == (model, tariff)
        ]
        points.sort(key=lambda point: (presets.index(point.preset), point.m))
        images = max((point.median.images for point in points), default=0)
        limit = f"total {column.by} {short_cost(column.mark)}"
        title = f"{model.name}, c* = {tariff.name}, {limit}, {images} images\n{rule.caption}"
        all_panels.append(SweepPanel(title, points))
    return all_panels


def _rate(attack: object) -> float | None:
    """Return m if the attack has AGREST."""
    estimate = getattr(attack, "estimate", None)
    return estimate.m if isinstance(estimate, Agrest) else None


def draw_sweep(results: StudyResults, rule: DistanceRule = DistanceRule.HARD) -> Figure:
    """Draw the median ℓ2 against m, with a panel for each model and price."""
    panels = sweep_panels(results, rule)
    return axes.draw_panels(panels, _draw_sweep_panel, "median ℓ2 distance", 3.7, sharey=True)


def _draw_sweep_panel(axis: Axes, panel: SweepPanel) -> None:
    axis.set(xscale="log", yscale="log")
    medians = [point.median for point in panel.points]
    ends = [end for m in medians for end in (m.value, m.high) if math.isfinite(end)]
    top = 1.2 * max(ends, default=1.0)  # upper end of unbounded intervals
    presets = list(dict.fromkeys(point.preset for point in panel.points))
    for number, preset in enumerate(presets):
        colour, marker = axes.COLOURS[number % len(axes.COLOURS)], MARKERS[number % len(MARKERS)]
        aside = APART ** (number - (len(presets) - 1) / 2)
        own = [point for point in panel.points if point.preset == preset]
        shown = [point for point in own if math.isfinite(point.median.value)]
        across = [point.m * aside for point in shown]
        axis.plot(across, [p.median.value for p in shown], color=colour, linewidth=1.4, zorder=2)
        for x, point in zip(across, shown, strict=True):
            value, low, high = point.median[:3]
            high = high if math.isfinite(high) else top
            axis.plot([x, x], [low, high], color=colour, linewidth=1.2, alpha=0.55)
            face = colour if point.published else "white"
            axis.plot(x, value, marker, color=colour, ms=6, mfc=face, zorder=3)
        label = PRESETS[preset].title
        axis.plot([], [], marker=marker, color=colour, linewidth=1.4, mfc="white", label=label)
    axis.plot([], [], color=axes.INK, linewidth=1.2, alpha=0.55, label="95 % interval")
    axes.name_panel(axis, panel.title)
    axis.set_xlabel("m (filled: the published value)")
    axes.fixed_ticks(axis.xaxis, sorted({point.m for point in panel.points}))
    axes.log_ticks(axis.yaxis, axes.ROUND)
    axes.legend(axis)
    absent = [f"{p.preset} at {p.m:g}" for p in panel.points if math.isinf(p.median.value)]
    if absent:
        text = f"half without an adversarial point:\n{', '.join(absent)}"
        axis.text(0.02, 0.02, text, transform=axis.transAxes, fontsize=8, color=axes.INK)
