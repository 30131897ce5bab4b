"""The fourteen rows of the paper's Table 1.

The bare name is the vanilla row; `+as` swaps in asymmetric search, `+agrest` asymmetric gradient
estimation, and `a-` both. Settings follow the paper's published code, moved to images in [0,1] by
the factor 0.225: n_0 = 30, delta = 0.0045, chunks of 128, searches down to 2.25e-5 in l2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.problem import Attack
from ...parts.directions import TernarySpectrum
from ...parts.estimates import Agrest, Estimate, MonteCarlo
from ...parts.paths import QUARTER_TURN
from ...parts.searches import AsymmetricSearch, BinarySearch, Search
from ...parts.starts import GrowingNoise
from ...parts.subspaces import Dct, Full, Prior
from ..cgba import CGBA
from ..geoda import GeoDA
from ..hsja import HSJA
from ..methods import Method
from ..named import Preset
from ..surfree import SurFree

PAPER = "Rewriting the Budget, Table 1"
MEAN = 0.449
"""Of ImageNet's channels: what the code's normalisation takes off an image, whatever the model."""
ANGLE = 0.005 / QUARTER_TURN
"""0.005 of a radian, as a share of a quarter turn."""
SPECTRUM = TernarySpectrum(Dct(4), gamma=None, centre=MEAN, memory=9)


def four(
    family: str,
    make: Callable[..., Attack],
    searches: tuple[Search, Search],
    estimates: tuple[Estimate, Estimate],
    where: str,
    source: str = PAPER,
    **more: Any,
) -> list[Preset]:
    """The four rows of a gradient attack: vanilla, `+as`, `+agrest` and `a-`.

    searches: by halves, and asymmetric. estimates: Monte Carlo, and AGREST.
    """
    name = family.lower()
    (binary, asymmetric), (plain, agrest) = searches, estimates
    rows = [
        (name, Method.VANILLA, "binary search, Monte Carlo", binary, plain),
        (f"{name}+as", Method.AS, "AS, Monte Carlo", asymmetric, plain),
        (f"{name}+agrest", Method.AGREST, "binary search, AGREST", binary, agrest),
        (f"a-{name}", Method.BOTH, "AS, AGREST", asymmetric, agrest),
    ]
    return [
        Preset(
            row,
            family,
            method,
            parts + where,
            source,
            make(GrowingNoise(), search, estimate, **more),
            complete=method is Method.BOTH,
        )
        for row, method, parts, search, estimate in rows
    ]


SEARCHES = (BinarySearch(), AsymmetricSearch())


def estimates_in(subspace: Prior, m: float) -> tuple[Estimate, Estimate]:
    """Monte Carlo and AGREST as in the paper's code."""
    return MonteCarlo(subspace=subspace), Agrest(m=m, subspace=subspace)


TABLE_1 = [
    Preset(
        "surfree",
        "SurFree",
        Method.VANILLA,
        "binary search, the image's coefficients, DCT 1/4",
        PAPER,
        SurFree(GrowingNoise(), BinarySearch(), BinarySearch(ANGLE, relative=True), SPECTRUM),
    ),
    Preset(
        "a-surfree",
        "SurFree",
        Method.AS,
        "AS, the image's coefficients, DCT 1/4",
        PAPER,
        SurFree(
            GrowingNoise(), AsymmetricSearch(), AsymmetricSearch(ANGLE, relative=True), SPECTRUM
        ),
        complete=True,
    ),
    *four("HSJA", HSJA, SEARCHES, estimates_in(Full(), 0.02), ""),
    *four("GeoDA", GeoDA, SEARCHES, estimates_in(Dct(4), 0.06), ", DCT 1/4"),
    *four("CGBA", CGBA, SEARCHES, estimates_in(Dct(4), 0.06), ", DCT 1/4"),
]
