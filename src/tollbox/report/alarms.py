"""What a detector said of the queries of a study, beside what it says of harmless ones.

A row for each series, and, for each model, one of benign sessions: alarms mean nothing alone.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from ..studies.reading import StudyResults
from ..studies.store.codec import End


def alarms(results: StudyResults) -> dict[str, Any] | None:
    """For the page; None if nobody watched."""
    watch = results.record.watch
    if watch is None:
        return None
    ends = defaultdict[int, list[End]](list)
    for end in results.finished():
        if end.stop.attacked:
            ends[results.grid.series_of(end.cell)].append(end)
    rows = [
        {
            "model": series.model.name,
            "price": series.tariff.name,
            "attack": series.attack.name,
            **_said(ends[series.number]),
        }
        for series in results.grid.series
        if ends[series.number]
    ]
    benign = [
        {
            "model": name,
            "runs": panel.all.sessions,
            "share": panel.all.rate,
            "per_query": panel.all.per_query,
        }
        for name, panel in watch.benign.items()
    ]
    return {"sentences": watch.sentences, "rows": rows, "benign": benign}


def _said(ends: list[End]) -> dict[str, Any]:
    firsts = [end.first_alarm for end in ends if end.first_alarm is not None]
    queries = sum(end.queries for end in ends)
    return {
        "runs": len(ends),
        "share": round(len(firsts) / len(ends), 4),
        "per_query": sum(end.alarms for end in ends) / max(1, queries),
        "queries": float(np.median([first.queries for first in firsts])) if firsts else None,
        "flagged": float(np.median([first.flagged for first in firsts])) if firsts else None,
    }
