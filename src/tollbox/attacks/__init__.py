"""Attacks, one file each, and the presets. Attack classes are imported on first use."""

from __future__ import annotations

from .._lazy import lazy_names
from .presets import PRESETS, WITH_SURROGATE, Kind, Method, Preset, described, preset, presets

_CLASSES = {
    "aha": ["AHA"],
    "adba": ["ADBA"],
    "boundary": ["BoundaryAttack"],
    "cgba": ["CGBA", "CGBAH"],
    "evolutionary": ["Evolutionary"],
    "dpattack": ["DPAttack", "DPAttackL2"],
    "frugal.attack": ["Frugal"],
    "frugal.linf": ["FrugalLinf"],
    "geoda": ["GeoDA", "GeoDAOriginal"],
    "hsja": ["HSJA", "HSJALinf", "QEBA"],
    "opt": ["OPT", "SignOPT"],
    "prior_opt": ["PARSOPT", "PriorOPT"],
    "qfool": ["QFool"],
    "rays": ["RayS", "RaySL2"],
    "rescaled": ["Rescaled"],
    "sign_flip": ["SignFlip"],
    "sqba": ["SQBA"],
    "surfree": ["SurFree"],
    "surrogates": ["Surrogate"],
    "tangent": ["Tangent"],
    "transfer_start": ["Transfer"],
    "triangle": ["TriA"],
    "ttba": ["TtBA"],
}
_WHERE = {name: module for module, names in _CLASSES.items() for name in names}
__all__ = ["PRESETS", "WITH_SURROGATE", "Kind", "Method", "Preset", "described", "preset"]
__all__ += ["presets", *_WHERE]
__getattr__, __dir__ = lazy_names(__name__, _WHERE)
