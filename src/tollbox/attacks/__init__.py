"""Attacks, one file each, and the presets."""

from .boundary import BoundaryAttack
from .catalogue import WITH_SURROGATE
from .cgba import CGBA, CGBAH
from .frugal.attack import Frugal
from .geoda import GeoDA, GeoDAOriginal
from .hsja import HSJA, QEBA, HSJALinf
from .opt import OPT, SignOPT
from .preset import Kind, Method, Preset
from .presets import PRESETS, described, preset, presets
from .qfool import QFool
from .rays import RayS, RaySL2
from .rescaled import Rescaled
from .surfree import SurFree
from .surrogates import Surrogate
from .triangle import TriA
from .ttba import TtBA

__all__ = [
    "CGBA",
    "CGBAH",
    "HSJA",
    "OPT",
    "PRESETS",
    "QEBA",
    "WITH_SURROGATE",
    "BoundaryAttack",
    "Frugal",
    "GeoDA",
    "GeoDAOriginal",
    "HSJALinf",
    "Kind",
    "Method",
    "Preset",
    "QFool",
    "RayS",
    "RaySL2",
    "Rescaled",
    "SignOPT",
    "SurFree",
    "Surrogate",
    "TriA",
    "TtBA",
    "described",
    "preset",
    "presets",
]
