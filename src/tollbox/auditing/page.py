"""The page of an audit: one HTML file that holds all it needs and reaches out to nothing.

It is put together as a report's page is (`report/page.py`), with a script of its own. Beside the
answers it has, for each ε and image, the accounts that are cheapest at some price, so that a reader
may ask for any price and any worth: the page computes what `answers.py` would.
"""

from __future__ import annotations

from typing import Any

from ..report.page import assembled, packaged
from ..report.words import counted, running
from .data import accounts
from .evidence import Evidence
from .over_budgets import times
from .pictures import pictures
from .questions import Questions

MOST_ACCOUNTS = 2000
"""Images of which the page has accounts; of more, it cannot be asked for other prices."""


def page_data(evidence: Evidence, data: dict[str, Any]) -> dict[str, Any]:
    """What the page shows: the answers, and what only a page has."""
    record = evidence.results.record
    [model] = record.models.values()
    levels = Questions.from_json(data["questions"]).levels(evidence.nearest, evidence.values)
    reached = evidence.reached(levels)
    few = len(reached.images) <= MOST_ACCOUNTS
    measured = counted(data["images"]["measured"], "image")
    runs = counted(sum(row["runs"] for row in data["runs"]), "run")
    return data | {
        "title": f"What it costs to attack {evidence.name}",
        "made": f"{measured}, {runs}; tollbox {record.environment.tollbox}",
        "accounts": [accounts(reached.at(n)) for n in range(len(levels))] if few else [],
        "times": times(evidence),
        "pictures": pictures(evidence, data["weakest"]),
        "environment": data["environment"] | {"model": running(model)},
    }


def page(evidence: Evidence, data: dict[str, Any]) -> str:
    """The whole page as text, to be written as UTF-8."""
    script, css = (packaged(name, __package__) for name in ("audit.js", "audit.css"))
    return assembled(page_data(evidence, data), script, css)
