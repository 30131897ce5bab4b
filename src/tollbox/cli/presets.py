"""`tollbox presets`: the named attacks, by family and source."""

from __future__ import annotations

import difflib
import textwrap
from collections import defaultdict
from typing import Annotated

from cyclopts import Parameter

from ..attacks.presets import PRESETS, WITH_SURROGATE, Preset
from ..core.by_side import BELOW
from ..data.tables import shortened
from ..errors import InputError
from .options import PresetName
from .output import JSON, json_text, write

HELP = "Words to look for in a preset's name, family, source or method."
FILTER = Parameter(help=HELP, metavar="WORD")


def presets(*words: Annotated[PresetName, FILTER], json: Annotated[bool, JSON] = False) -> int:
    """List the named attacks, with their families and parts."""
    known = [*PRESETS.values(), *WITH_SURROGATE.values()]
    families = list(dict.fromkeys(preset.family for preset in known))
    listed = [preset for preset in known if all(_matches(preset, word) for word in words)]
    if not listed:
        given = " ".join(words)
        names = [preset.name for preset in known]
        near = difflib.get_close_matches(given.casefold(), names, n=3, cutoff=0.4)
        meant = f"did you mean {' or '.join(map(repr, near))}?"
        remedy = meant if near else "`tollbox presets` lists all"
        raise InputError(f"no preset matches {shortened(given)!r}", remedy=remedy)
    listed.sort(key=lambda preset: families.index(preset.family))
    if json:
        found = [
            {
                "name": preset.name,
                "family": preset.family,
                "method": preset.method.words,
                "kind": preset.method.kind,
                "parts": preset.parts,
                "source": preset.source,
                "norms": preset.norms,
                "surrogate": preset.needs_surrogate,
            }
            for preset in listed
        ]
        write(json_text({"presets": found}))
        return 0
    width = max(len(preset.name) for preset in known)
    groups: dict[tuple[str, str], list[Preset]] = defaultdict(list)
    for preset in listed:
        groups[preset.family, preset.source].append(preset)
    for (family, source), group in groups.items():
        write(f"{family} ({source})")
        write(*(f"  {preset.name:{width}}  {preset.parts}" for preset in group))
    if any(" or " in preset.parts for preset in listed):
        write(f"A or B: B for images whose smaller side is below {BELOW} pixels.")
    needing = [preset.name for preset in listed if preset.needs_surrogate]
    if needing:
        text = f"With --surrogate NETWORK only: {', '.join(needing)}."
        write(textwrap.fill(text, 80, break_on_hyphens=False))
    return 0


def _matches(preset: Preset, word: str) -> bool:
    texts = (preset.name, preset.family, preset.source, preset.words)
    return any(word.casefold() in text.casefold() for text in texts)
