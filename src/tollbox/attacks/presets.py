"""Presets: attacks by name.

What each is stands in `catalogue/`, a file for each place that they are from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from ..core.metric import metrics_of, norm_of
from ..core.problem import Attack
from ..core.validation import shown
from ..errors import InputError, UnknownNameError
from .catalogue import LISTED, WITH_SURROGATE
from .preset import Preset
from .surrogates import Surrogate

PRESETS = {preset.name: preset for preset in LISTED}
"""Those that need nothing but their name."""


def presets(norm: str | None = None) -> list[str]:
    """The names of all presets that need nothing else; `norm`: of those made for this metric."""
    if norm is None:
        return list(PRESETS)
    metric = norm_of(norm)
    return [name for name, each in PRESETS.items() if metric in metrics_of(each.attack)]


def preset(
    name: str, *, surrogate: Surrogate | nn.Module | Sequence[nn.Module] | None = None
) -> Attack:
    """The attack of that name; change a part with `dataclasses.replace`.

    surrogate: for `frugal+surrogate`, a network of one's own, or several.
    """
    attack: Any = described(name, surrogate is not None).attack
    if surrogate is None:
        return attack  # type: ignore[no-any-return]
    given = surrogate if isinstance(surrogate, Surrogate) else Surrogate(surrogate)
    return replace(attack, surrogate=given)  # type: ignore[no-any-return]


def described(name: str, surrogate: bool = False) -> Preset:
    """The preset of that name; `surrogate`: one is given with it."""
    if not isinstance(name, str):
        raise InputError(
            f"is {shown(name)}",
            expected="the name of a preset; tb.presets() lists them",
            input="name",
        )
    known = {**PRESETS, **WITH_SURROGATE}
    if name not in known:
        raise UnknownNameError("preset", name, known)
    if name in WITH_SURROGATE and not surrogate:
        raise InputError(
            f"is not given, and the preset {name!r} needs one",
            expected="a network of one's own, or several",
            input="surrogate",
        )
    if surrogate and name not in WITH_SURROGATE:
        raise InputError(
            f"is given, and the preset {name!r} takes none",
            expected=f"it with {', '.join(WITH_SURROGATE)} only",
            remedy="leave it out",
            input="surrogate",
        )
    return known[name]
