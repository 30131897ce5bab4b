"""Medians against cost, by the rules of `Result.distance_at` and `Results.median_at`.

A row counts if it is affordable; a run that was cut short counts up to what it had spent.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ..core.result import CUT_SHORT, Result, Results


def distances_at(result: Result, costs: NDArray[np.float64]) -> NDArray[np.float64]:
    """`distance_at` for many costs at once; infinity before the first adversarial point."""
    dearest = result.ledger.prices.dearest
    needs = np.array([step.cost + dearest for step in result.improvements])
    reached = np.array([np.inf, *(step.distance for step in result.improvements)])
    return np.asarray(reached[np.searchsorted(needs, costs, side="right")])


def median_curve(results: Iterable[Result], costs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Median distance at each cost, over the images that count; NaN if there are none."""
    counted = Results(results).counted
    medians = np.full(len(costs), np.nan)
    if not counted:
        return medians
    rows = np.stack([distances_at(result, costs) for result in counted])
    ends = [r.known_up_to() if r.stop in CUT_SHORT else np.inf for r in counted]
    rows[costs > np.array(ends)[:, None]] = np.nan
    known = ~np.isnan(rows).all(axis=0)
    medians[known] = np.nanmedian(rows[:, known], axis=0)
    return medians
