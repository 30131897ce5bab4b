"""The reference of study files: every key, its kind, its default and its help, from the schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tollbox.studies import schema

TABLES: Mapping[str, type] = {
    "At the top of the file": schema.StudyTable,
    **{f"`[{name}]`": table for name, table in schema.TABLES.items()},
    **{f"`[[{name}]]`": table for name, table in schema.ARRAYS.items()},
    "`surrogate` of an attack, as a table": schema.SurrogateTable,
    "`[[prices]]`, or an entry of `prices` that is a table": schema.PriceTable,
}
"""By heading, the tables of the file."""


def text() -> str:
    """Return a section for each table of the file, as Markdown."""
    return "\n\n".join(section(heading, table) for heading, table in TABLES.items())


def section(heading: str, table: type) -> str:
    rows = []
    for key in schema.keys(table):
        help, _, default = key.help.removesuffix(".").partition(". Default: ")
        default = default or _default(key)
        rows.append(f"| `{key.name}` | {key.kind.words} | {default} | {help}. |")
    head = ["| key | kind | default | what it is |", "|---|---|---|---|"]
    return "\n".join([f"## {heading}", "", *head, *rows])


def _default(key: schema.Key) -> str:
    value: Any = key.default
    if value is schema.REQUIRED:
        return "*required*"
    if value is None:
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{list(value)}`" if isinstance(value, tuple) else f"`{value}`"
