"""Attacks, one file each, and the presets."""

from .hsja import HSJA
from .presets import PRESETS, Preset, preset, presets

__all__ = ["HSJA", "PRESETS", "Preset", "preset", "presets"]
