"""The share of low-cost answers in the first AGREST estimate, against the share that is optimal.

1. The optimum is p(x*) of theory.py, for a plane boundary. An attack aims at it with the cosine of
   its schedule for the first iteration, that of a random direction.
2. The first estimate has about 500 queries at every price. A finished estimate has its share in the
   notes of its step. At high prices AGREST plans many more queries, and the maximum number of
   queries stops the run inside the estimate. Then the ledger has its answers, since no other
   estimate started.
3. A dot is an image (and a seed); the bars are quartiles with the median. Above each price is the
   share of estimates without a flagged answer, and so without information. Estimates of fewer than
   `FEWEST` answers are left out, and counted.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..core.result import Result, Values
from ..core.stop import Stop
from ..errors import InputError
from ..parts.estimates import PHASE, Agrest
from ..report import axes
from ..report.axes import Axes, Figure
from ..studies.results import StudyResults
from ..theory.caps import cap_probability, optimal_overshoot

FEWEST = 100
"""Minimum number of answers of an estimate in the figure."""
BARS = "median (across) and quartiles (upright)"


class Shares(NamedTuple):
    """The first estimates of an attack at one price."""

    ratio: float
    planned: float
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
    """Return the optimal share of low-cost answers."""
    return cap_probability(optimal_overshoot(ratio, d), d)


def panels(results: StudyResults) -> list[SharePanel]:
    """Return the first estimates of each model and each attack with AGREST."""
    study, shape = results.study, tuple(results.pixels.shape[1:])
    all_panels = []
    for model, spec in itertools.product(study.models, study.attacks):
        estimate = getattr(spec.attack, "estimate", None)
        if isinstance(estimate, Agrest):
            d = estimate.subspace.dimension(shape)
            prices = [
                _shares(results.results(spec.name, tariff.name, model.name), tariff.prices.ratio, d)
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


def _shares(results: Sequence[Result], ratio: float, d: int) -> Shares:
    counted = [r for r in results if r.stop is not Stop.ALREADY_MISCLASSIFIED]
    first = [each for result in counted if (each := first_estimate(result)) is not None]
    table = np.array([each for each in first if each[1] >= FEWEST], float).reshape(-1, 2)
    left_out = len(counted) - len(table)
    return Shares(ratio, optimal(ratio, d), table[:, 0], table[:, 1], left_out)


def first_estimate(result: Result) -> tuple[float, int] | None:
    """Return the share of low-cost answers in a run's first estimate, and its answers."""
    for step in result.trace:
        if "share" in step.notes:
            return step.notes["share"], step.notes["estimate_queries"]
    tally = result.ledger.counts.get(PHASE)
    if not tally:
        return None
    return 1 - result.ledger.flagged_in(PHASE) / tally.total(), tally.total()


def draw(results: StudyResults) -> Figure:
    """Draw shares against c*, with a panel for each model and attack."""
    up = "low-cost answers in the first estimate"
    return axes.draw_panels(panels(results), _draw_panel, up, 3.8)


def _draw_panel(axis: Axes, panel: SharePanel) -> None:
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
