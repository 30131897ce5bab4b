"""Attacks that bring ℓ∞ down, and RayS's reading in ℓ2.

RayS searches down to 1e-3 along the unit vector of its signs, a length in ℓ2, as its authors do;
Stealthy RayS steps by 1e-3 of ℓ∞, and takes at most a tenth off the radius. HSJA's tolerance is
1/d^2 of the path: a millionth is as near as float32 can come to that.
"""

from __future__ import annotations

from ...parts.estimates import Agrest
from ...parts.radii import RelativeRadius
from ...parts.searches import AsymmetricSearch, BinarySearch, LineSearch
from ...parts.starts import UniformNoise
from ..hsja_linf import HSJALinf
from ..methods import Method
from ..named import Preset
from ..rays import RayS, RaySL2

CHEN_GU = "Chen, Gu 2020"
CHEN_JORDAN = "Chen, Jordan, Wainwright 2020"
DEBENEDETTI = "Debenedetti et al. 2024"
TOLERANCE = 1e-3

LINF = [
    Preset(
        "stealthy-rays",
        "RayS",
        Method.STEALTHY,
        "linf: sign flips, line search of a tenth",
        DEBENEDETTI,
        RayS(LineSearch(TOLERANCE), linf_tau=True, least_left=0.9),
    ),
    Preset(
        "rays",
        "RayS",
        Method.VANILLA,
        "linf: sign flips, binary search",
        CHEN_GU,
        RayS(BinarySearch(TOLERANCE)),
    ),
    Preset(
        "a-rays",
        "RayS",
        Method.AS,
        "linf: sign flips, AS",
        CHEN_GU,
        RayS(AsymmetricSearch(TOLERANCE)),
        complete=True,
    ),
    Preset(
        "rays-l2",
        "RayS-l2",
        Method.VANILLA,
        "sign flips, binary search, read in l2",
        CHEN_GU,
        RaySL2(BinarySearch(TOLERANCE)),
    ),
    Preset(
        "hsja-linf",
        "HSJA-linf",
        Method.VANILLA,
        "linf: binary search, Monte Carlo, shrinking delta",
        CHEN_JORDAN,
        HSJALinf(
            UniformNoise(),
            BinarySearch(1e-6, relative=True),
            RelativeRadius(delta=1.0, power=1.0),
        ),
    ),
    Preset(
        "a-hsja-linf",
        "HSJA-linf",
        Method.BOTH,
        "linf: AS, AGREST",
        CHEN_JORDAN,
        HSJALinf(UniformNoise(), AsymmetricSearch(), Agrest(), queries=100),
        complete=True,
    ),
]
