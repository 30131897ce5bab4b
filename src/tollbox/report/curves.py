"""Medians against cost, by the rule of `Result.distance_at`: a row counts if it is affordable."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ..results import Result, Results


def distances_at(result: Result, costs: NDArray[np.float64]) -> NDArray[np.float64]:
    """`distance_at` for many costs at once; infinity before the first adversarial point."""
    dearest = result.ledger.prices.dearest
    needs = np.array([step.cost + dearest for step in result.improvements])
    reached = np.array([np.inf, *(step.distance for step in result.improvements)])
    return np.asarray(reached[np.searchsorted(needs, costs, side="right")])


def median_curve(results: Iterable[Result], costs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Median distance at each cost, over the images that count; NaN if there are none."""
    rows = [distances_at(result, costs) for result in Results(results).counted]
    return np.median(np.stack(rows), axis=0) if rows else np.full(len(costs), np.nan)
