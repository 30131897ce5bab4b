"""What a store says about the detector of its study, and how it says that something has changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...core.panel import Panel


@dataclass(frozen=True)
class WatchRecord:
    """The detector of a study, what its alarms do, and what it says of harmless queries."""

    source: str
    parts: Mapping[str, str]
    """What it is, field by field."""
    alarm_price: float
    max_alarms: int | None
    """None: any number."""
    benign: Mapping[str, Panel]
    """By model, as queries are sent to it."""

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> WatchRecord:
        """What was written."""
        panels = {name: Panel.from_json(panel) for name, panel in values["benign"].items()}
        return cls(**{**values, "benign": panels})

    @property
    def sentences(self) -> list[str]:
        """What its alarms do, and what it says of harmless queries."""
        price = f"costs {self.alarm_price:g}" if self.alarm_price else "costs nothing"
        end = "" if self.max_alarms is None else f", and a run ends with alarm {self.max_alarms}"
        found = {name: panel.sentence for name, panel in self.benign.items()}
        if len(set(found.values())) == 1:
            panels = [*found.values()][:1]
        else:
            panels = [f"The model {name!r}: {sentence}" for name, sentence in found.items()]
        return [f"Queries are watched by {self.source}: an alarm {price}{end}.", *panels]

    def change(self, now: Mapping[str, str]) -> str | None:
        """How a detector differs from this one, in words; None if it is the same."""
        return difference(self.parts, now)


def difference(begun: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """The first of some settings that is not what it was, in words; None if all are."""
    for key in [*begun, *(key for key in now if key not in begun)]:
        if key not in begun:
            return f"without {key}, and has {key} = {now[key]} now"
        if begun[key] != now.get(key):
            today = f"is {now[key]} now" if key in now else "has no such field now"
            return f"with {key} = {begun[key]}, and {today}"
    return None
