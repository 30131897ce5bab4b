"""Attacks and prices as the paper writes them."""

from __future__ import annotations

import math

from ..attacks.presets import PRESETS
from ..studies.spec.specs import AttackSpec, Tariff

RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def attack_name(spec: AttackSpec) -> str:
    """A-HSJA, Stealthy HSJA, HSJA; a name that a study gives stands as it is."""
    if spec.name != spec.preset:
        return spec.name
    family = PRESETS[spec.preset].family
    if spec.preset.startswith("a-"):
        return f"A-{family}"
    if spec.preset.startswith("stealthy-"):
        return f"Stealthy {family}"
    _, plus, part = spec.preset.partition("+")
    return f"{family}+{part.upper()}" if plus else family


def kind_of_attack(spec: AttackSpec) -> str:
    """Asymmetric, stealthy or vanilla."""
    if spec.preset.startswith("a-") or "+" in spec.preset:
        return "asymmetric"
    return "stealthy" if spec.preset.startswith("stealthy-") else "vanilla"


def price_name(tariff: Tariff) -> str:
    """c* = 5, c* = 10⁴, c* = ∞; a name that a study gives stands as it is."""
    if tariff.name == "inf":
        return "c* = ∞"
    plain = tariff.name == f"{tariff.prices.ratio:g}"
    return f"c* = {number(tariff.prices.ratio) if plain else tariff.name}"


def number(ratio: float) -> str:
    """5, 300, 10⁵."""
    power = math.log10(ratio) if ratio > 0 else math.nan
    if power >= 2 and power == round(power):
        return f"10{str(round(power)).translate(RAISED)}"
    return f"{ratio:g}"
