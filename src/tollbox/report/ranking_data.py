"""The ranking over budgets as plain data, for the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .numbers import rounded
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
                "first": rounded(first_cost(column.mark)),
                "last": rounded(column.mark),
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
                "seconds": rounded(each.seconds),
                "speed": rounded(each.speed),
            }
            for each in found.standings
        ],
    }


def _estimate(estimate: Estimate | None) -> list[float | None] | None:
    """Value, low, high, images; None over none."""
    if estimate is None or not estimate.images:
        return None
    return [*map(rounded, estimate[:3]), estimate.images]
