"""`tollbox presets`: its options, and its help."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from .later import work_of
from .options import PresetName
from .output import JSON

FILTER = Parameter(
    help="Words that are in a preset's name, family, source or method.",
    metavar="WORD",
    show_choices=False,
)


def presets(*words: Annotated[PresetName, FILTER], json: Annotated[bool, JSON] = False) -> int:
    """List the attacks that can be named, with their families and parts."""
    return work_of(presets)(*words, json=json)
