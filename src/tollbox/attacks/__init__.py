"""Attacks, one file each, and the presets. Attack classes are imported on first use."""

from __future__ import annotations

from .._lazy import lazy_names
from .presets import PRESETS, WITH_SURROGATE, Kind, Method, Preset, described, preset, presets

_WHERE = {
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
    "Surrogate": "surrogates",
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
]
__all__ += list(_WHERE)
__getattr__, __dir__ = lazy_names(__name__, _WHERE)
