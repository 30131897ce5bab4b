"""An audit's attacks over all budgets: G beside its first attack and O (`report/ranking.py`), each
at the price that it planned with; and, for the page alone, the time that they took.

Series count once they are finished, as everywhere in an audit: what is known of an image, and so O,
is of these alone. Where flagged answers alone cost something there is no budget to rank over.
"""

from __future__ import annotations

import math
from typing import Any

from ..report.paper_table import TableColumn
from ..report.ranking import Estimate, first_cost
from ..report.reading import Reading
from ..report.standings import Standings, standings, time_of
from .evidence import Evidence
from .numbers import number, price


def over_budgets(evidence: Evidence) -> Standings:
    """Where the finished series stand."""
    results = evidence.results
    [model] = results.study.models
    priced = [tariff for tariff in results.study.tariffs if math.isfinite(tariff.budget)]
    columns = [TableColumn(model.name, tariff) for tariff in priced]
    return standings(results, evidence.complete, columns, Reading.HARD)


def ranking_data(found: Standings) -> dict[str, Any]:
    """As audit.json has it: nothing in it depends on the time that anything took."""
    return {
        "against": found.against,
        "cap": found.cap.words,
        "costs": [
            {"price": price(column.tariff.prices.true_ratio), "by": column.by}
            | {"first": number(first_cost(column.mark)), "last": number(column.mark)}
            for column in found.columns
        ],
        "standings": [
            {"attack": each.attack, "price": price(each.column.tariff.prices.true_ratio)}
            | {"G": _estimate(each.ratios.get(found.against)), "O": _estimate(each.optimality)}
            for each in found.standings
        ],
    }


def times(evidence: Evidence) -> list[dict[str, Any]]:
    """Of each finished series the seconds of all engines together, and queries a second; None if
    that was not recorded."""
    seconds = evidence.results.seconds() or {}
    found = []
    for runs in evidence.complete:
        each = time_of(evidence.results, runs, seconds.get(runs.series.number))
        named = zip(("seconds", "speed"), each, strict=True)
        found.append({name: None if value is None else number(value) for name, value in named})
    return found


def _estimate(found: Estimate | None) -> dict[str, Any] | None:
    """None over no images."""
    if found is None or not found.images:
        return None
    return {n: number(v) for n, v in zip(("value", "low", "high"), found[:3], strict=True)}
