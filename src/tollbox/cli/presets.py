"""`tollbox presets`: the attacks that can be named, under where their settings are from."""

from __future__ import annotations

from itertools import groupby

from ..attacks import PRESETS, WITH_SURROGATE
from .streams import console


def presets() -> int:
    """List the attacks that can be named, with their families and parts."""
    to, known = console(), [*PRESETS.values(), *WITH_SURROGATE.values()]
    name, family = max(len(p.name) for p in known), max(len(p.family) for p in known)
    for source, group in groupby(known, lambda preset: preset.source):
        to.print(source, soft_wrap=True)
        for p in group:
            to.print(f"  {p.name:{name}}  {p.family:{family}}  {p.parts}", soft_wrap=True)
    to.print(f"A network for {', '.join(WITH_SURROGATE)} is given by --surrogate.", soft_wrap=True)
    return 0
