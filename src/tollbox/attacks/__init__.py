"""Attacks, one file each, and the presets."""

from .catalogue import WITH_SURROGATE
from .hsja import HSJA
from .preset import Kind, Method, Preset
from .presets import PRESETS, described, preset, presets

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
