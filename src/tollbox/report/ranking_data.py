"""The ranking over budgets as plain data, for the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .ranking import Estimate, first_cost
from .standings import Standings


def ranking_data(found: Standings, attacks: Sequence[str]) -> dict[str, Any]:
    """Each series with its O, and its G beside each of the attacks, in their order."""
    return {
        "against": found.against,
        "cap": found.cap.words,
        "best": found.best_known,
        "ranges": [
            {
                "model": column.model,
                "price": column.tariff.name,
                "by": column.by,
                "first": _number(first_cost(column.mark)),
                "last": _number(column.mark),
            }
            for column in found.columns
        ],
        "standings": [
            {
                "model": each.column.model,
                "price": each.column.tariff.name,
                "attack": each.attack,
                "ratios": [_estimate(each.ratios.get(attack)) for attack in attacks],
                "optimality": _estimate(each.optimality),
                "seconds": _number(each.seconds),
                "speed": _number(each.speed),
            }
            for each in found.standings
        ],
    }


def _estimate(estimate: Estimate | None) -> list[float | None] | None:
    """Value, low, high, images; None over none."""
    if estimate is None or not estimate.images:
        return None
    return [*map(_number, estimate[:3]), estimate.images]


def _number(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.5g}")
