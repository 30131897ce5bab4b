"""`tollbox presets`: the attacks that can be named, family by family, under their sources.

Words after it are a filter. A preset is listed if each of them is in its name, its family, its
source or its method, in capitals or not.
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from typing import Annotated

from cyclopts import Parameter

from ..attacks import PRESETS, WITH_SURROGATE, Preset
from ..errors import InputError
from ..files.tables import shortened
from .streams import console

FILTER = Parameter(help="Words that are in a preset's name, family, source or method.")


def presets(*words: Annotated[str, FILTER]) -> int:
    """List the attacks that can be named, with their families and parts."""
    to, known = console(), [*PRESETS.values(), *WITH_SURROGATE.values()]
    listed = [preset for preset in known if all(_matches(preset, word) for word in words)]
    if not listed:
        raise _nothing(" ".join(words), known)
    families = list(dict.fromkeys(preset.family for preset in known))
    groups: dict[tuple[int, str], list[Preset]] = defaultdict(list)
    for preset in listed:
        groups[families.index(preset.family), preset.source].append(preset)
    width = max(len(preset.name) for preset in known)
    for (family, source), group in sorted(groups.items(), key=lambda item: item[0][0]):
        to.print(f"{families[family]} ({source})", soft_wrap=True)
        for preset in group:
            to.print(f"  {preset.name:{width}}  {preset.parts}", soft_wrap=True)
    needing = [preset.name for preset in listed if preset.name in WITH_SURROGATE]
    if needing:
        to.print(f"A network for {', '.join(needing)} is given by --surrogate.", soft_wrap=True)
    return 0


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
