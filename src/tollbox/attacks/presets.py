"""Presets: attacks by name, each with its family, its parts, and where its settings are from.

The bare name is the paper's vanilla row; `+as` swaps in asymmetric search, `+agrest` asymmetric
gradient estimation, and `a-` both. Settings follow the paper's published code, moved to images in
[0,1] by the factor 0.225: n_0 = 30, delta = 0.0045, chunks of 128, tolerance 1e-4.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import UnknownNameError
from ..estimates import Agrest, MonteCarlo
from ..problem import Attack
from ..searches import AsymmetricSearch, BinarySearch
from ..starts import GrowingNoise
from .hsja import HSJA

PAPER = "Rewriting the Budget, Table 1"
HSJA_M = 0.02
"""The paper's scheduler rate for HSJA."""


@dataclass(frozen=True)
class Preset:
    """A named attack."""

    name: str
    family: str
    parts: str
    source: str
    attack: Attack


def _all() -> dict[str, Preset]:
    start, binary, asymmetric = GrowingNoise(), BinarySearch(), AsymmetricSearch()
    plain, agrest = MonteCarlo(), Agrest(m=HSJA_M)
    found = [
        Preset("hsja", "HSJA", "binary search, Monte Carlo", PAPER, HSJA(start, binary, plain)),
        Preset("hsja+as", "HSJA", "AS, Monte Carlo", PAPER, HSJA(start, asymmetric, plain)),
        Preset("hsja+agrest", "HSJA", "binary search, AGREST", PAPER, HSJA(start, binary, agrest)),
        Preset("a-hsja", "HSJA", "AS, AGREST", PAPER, HSJA(start, asymmetric, agrest)),
    ]
    return {preset.name: preset for preset in found}


PRESETS = _all()


def presets() -> list[str]:
    """The names of all presets."""
    return list(PRESETS)


def preset(name: str) -> Attack:
    """The attack of that name; change a part with `dataclasses.replace`."""
    if name not in PRESETS:
        raise UnknownNameError("preset", name, PRESETS)
    return PRESETS[name].attack
