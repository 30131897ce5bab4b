"""`tollbox presets`: the attacks that can be named, family by family, under their sources.

Words after it are a filter. A preset is listed if each of them is in its name, its family, its
source or its method, in capitals or not. With --json they are the list `presets` of one object, in
the same order.
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from typing import Any

from ..attacks import PRESETS, WITH_SURROGATE, Preset
from ..core.metric import metrics_of
from ..data.tables import shortened
from ..errors import InputError
from .output import console, print_json


def presets(*words: str, json: bool) -> int:
    """Print those that all words are in."""
    known = [*PRESETS.values(), *WITH_SURROGATE.values()]
    families = list(dict.fromkeys(preset.family for preset in known))
    listed = [preset for preset in known if all(_matches(preset, word) for word in words)]
    if not listed:
        raise _nothing(" ".join(words), known)
    listed.sort(key=lambda preset: families.index(preset.family))
    if json:
        print_json({"presets": [_values(preset) for preset in listed]})
    else:
        _show(listed, max(len(preset.name) for preset in known))
    return 0


def _show(listed: list[Preset], width: int) -> None:
    """Family by family, under their sources, with a column for names of that width."""
    to = console()
    groups: dict[tuple[str, str], list[Preset]] = defaultdict(list)
    for preset in listed:
        groups[preset.family, preset.source].append(preset)
    for (family, source), group in groups.items():
        to.print(f"{family} ({source})", soft_wrap=True)
        for preset in group:
            to.print(f"  {preset.name:{width}}  {preset.parts}", soft_wrap=True)
    needing = [preset.name for preset in listed if preset.name in WITH_SURROGATE]
    if needing:
        to.print(f"A network for {', '.join(needing)} is given by --surrogate.", soft_wrap=True)


def _values(preset: Preset) -> dict[str, Any]:
    """What --json says of one."""
    return {
        "name": preset.name,
        "family": preset.family,
        "method": preset.method.words,
        "kind": preset.method.kind,
        "parts": preset.parts,
        "source": preset.source,
        "norms": metrics_of(preset.attack),
        "surrogate": preset.name in WITH_SURROGATE,
    }


def _matches(preset: Preset, word: str) -> bool:
    said = (preset.name, preset.family, preset.source, preset.words)
    return any(word.casefold() in text.casefold() for text in said)


def _nothing(given: str, known: list[Preset]) -> InputError:
    """The mistake, with the nearest names."""
    names = [preset.name for preset in known]
    near = difflib.get_close_matches(given.casefold(), names, n=3, cutoff=0.4)
    meant = " or ".join(map(repr, near))
    return InputError(
        f"no preset matches {shortened(given)!r}",
        remedy=f"did you mean {meant}?" if near else "`tollbox presets` lists all",
    )
