"""OPT and Sign-OPT: of their authors, with asymmetric search, and stealthy.

`a-` has asymmetric search in place of every binary one, that of the start too. A bracket is
narrowed to beta / 500, as in the authors' code. The stealthy ones have beta = 0.01, and line
searches in two stages of 100 steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.problem import Attack
from ...parts.gaussian_rays import GaussianRays
from ...parts.searches import AsymmetricSearch, BinarySearch, LineSearch
from ..methods import Method
from ..named import Preset
from ..opt import OPT
from ..sign_opt import SignOPT

BETA = 0.001
TOLERANCE = BETA / 500
START_TOLERANCE = 1e-5
LINES = LineSearch(1e-4, relative=True, stages=2)


def _three(
    family: str, make: Callable[..., Attack], what: str, source: str, **stealthy: Any
) -> list[Preset]:
    """The authors' form, the asymmetric and the stealthy one."""
    name = family.lower()
    binary = make(GaussianRays(BinarySearch(START_TOLERANCE)), BinarySearch(TOLERANCE))
    asymmetric = make(GaussianRays(AsymmetricSearch(START_TOLERANCE)), AsymmetricSearch(TOLERANCE))
    lines = make(GaussianRays(LINES), LINES, beta=0.01, **stealthy)
    return [
        Preset(name, family, Method.VANILLA, f"binary search, {what}", source, binary),
        Preset(f"a-{name}", family, Method.AS, f"AS, {what}", source, asymmetric, complete=True),
        Preset(
            f"stealthy-{name}",
            family,
            Method.STEALTHY,
            f"line search in two stages, {what}",
            "Debenedetti et al. 2024",
            lines,
        ),
    ]


RAY_SEARCH = [
    *_three("OPT", OPT, "differences of 10 rays", "Cheng et al. 2019", from_beyond=True),
    *_three("Sign-OPT", SignOPT, "signs of 200 rays", "Cheng et al. 2020"),
]
