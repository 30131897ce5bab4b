"""`tollbox presets`: the attacks that can be named."""

from __future__ import annotations

from rich.table import Table

from ..attacks import PRESETS
from .streams import console


def presets() -> int:
    """List the attacks that can be named."""
    table = Table("name", "family", "parts", "source")
    for preset in PRESETS.values():
        table.add_row(preset.name, preset.family, preset.parts, preset.source)
    console().print(table)
    return 0
