"""Attacks, one file each, and the presets."""

from .hsja import HSJA
from .methods import Kind, Method
from .presets import PRESETS, WITH_SURROGATE, Preset, described, preset, presets

__all__ = [
    "HSJA",
    "PRESETS",
    "WITH_SURROGATE",
    "Kind",
    "Method",
    "Preset",
    "described",
    "preset",
    "presets",
]
