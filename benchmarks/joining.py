"""Parts of a table, of several runs or machines, put together.

Parts must agree in all settings and images; what two of them both have must be identical, but for
what the clock cut short, which gives way to what it did not.
"""

from __future__ import annotations

from typing import Any


class Disagreement(Exception):
    """Parts that cannot be merged."""


def join(parts: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """One report from named parts; raises Disagreement."""
    (first, whole), *others = parts
    entries: dict[tuple[Any, ...], dict[str, Any]] = {}
    for name, part in [(first, whole), *others]:
        for key in {**whole["settings"], **part["settings"]}:
            value, theirs = (report["settings"].get(key) for report in (whole, part))
            if theirs != value:
                what = "" if key == "images" else f": {value} and {theirs}"
                raise Disagreement(f"{first} and {name} disagree in {key}{what}")
        for entry in part["entries"]:
            key = (entry["preset"], entry["price"], entry["budget"])
            before = entries.get(key)
            if before is None or (before["cut"] and not entry["cut"]):
                entries[key] = entry
            elif before != entry and not entry["cut"]:
                raise Disagreement(f"{name} has other results than before it for {key}")
    return {
        "settings": whole["settings"],
        "parts": [run for _, part in parts for run in part["parts"]],
        "entries": list(entries.values()),
    }


def first(report: dict[str, Any], count: int) -> dict[str, Any]:
    """The report of the first `count` images alone, without costs by phase, which are of all."""

    def cut(value: Any) -> Any:
        return value[:count] if isinstance(value, list) else value

    entries = [
        {
            **{key: cut(value) for key, value in entry.items()},
            "at": {mark: cut(values) for mark, values in entry["at"].items()},
            "phases": {},
        }
        for entry in report["entries"]
    ]
    settings = {**report["settings"], "images": cut(report["settings"]["images"])}
    return {**report, "settings": settings, "entries": entries}
