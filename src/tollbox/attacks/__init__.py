"""Attacks, one file each, and the presets."""

from .hsja import HSJA
from .methods import Kind, Method
from .presets import PRESETS, Preset, preset, presets

__all__ = ["HSJA", "PRESETS", "Kind", "Method", "Preset", "preset", "presets"]
