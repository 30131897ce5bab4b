"""Attacks, one file each, and the presets. Attack classes are imported on first use."""

from __future__ import annotations

import importlib
from typing import Any

from .presets import PRESETS, WITH_SURROGATE, Kind, Method, Preset, described, preset, presets

_CLASSES = {
    "BoundaryAttack": "boundary",
    "CGBA": "cgba",
    "CGBAH": "cgba",
    "Frugal": "frugal.attack",
    "GeoDA": "geoda",
    "GeoDAOriginal": "geoda",
    "HSJA": "hsja",
    "HSJALinf": "hsja",
    "OPT": "opt",
    "QEBA": "hsja",
    "QFool": "qfool",
    "RayS": "rays",
    "RaySL2": "rays",
    "Rescaled": "rescaled",
    "SignOPT": "opt",
    "SurFree": "surfree",
    "TriA": "triangle",
    "TtBA": "ttba",
}
__all__ = [
    "PRESETS",
    "WITH_SURROGATE",
    "Kind",
    "Method",
    "Preset",
    "described",
    "preset",
    "presets",
    *_CLASSES,
]


def __getattr__(name: str) -> Any:
    if name not in _CLASSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_CLASSES[name]}", __name__), name)
