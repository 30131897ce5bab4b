"""Attacks and prices as the paper writes them, and what marks an attack that it does not have."""

from __future__ import annotations

import math

from ..attacks.methods import Kind
from ..studies.spec.specs import AttackSpec, Tariff

NOT_IN_THE_PAPER = "not in the paper"
OURS = f"ours, {NOT_IN_THE_PAPER}"
"""What the legends of figures say of our own attacks."""
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def attack_name(spec: AttackSpec) -> str:
    """A-HSJA, Stealthy HSJA, HSJA, Frugal (ours); a name that a study gives stands as it is."""
    name = spec.described.title if spec.name == spec.preset else spec.name
    return f"{name} (ours)" if is_ours(spec) else name


def attack_kind(spec: AttackSpec) -> Kind:
    """Its group in the trade-off figure."""
    return spec.described.method.kind


def is_ours(spec: AttackSpec) -> bool:
    """Whether the attack is one of this package, which the paper does not have."""
    return attack_kind(spec) is Kind.OWN


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
