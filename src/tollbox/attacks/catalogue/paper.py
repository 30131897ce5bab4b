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
from ...parts.estimates import Agrest, MonteCarlo
from ...parts.paths import QUARTER_TURN
from ...parts.searches import AsymmetricSearch, BinarySearch
from ...parts.starts import GrowingNoise
from ...parts.subspaces import Dct, Full, Subspace
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


def _four(
    family: str, make: Callable[..., Attack], m: float, subspace: Subspace, where: str
) -> list[Preset]:
    """The four rows of a gradient attack in Table 1."""
    name = family.lower()
    start, binary, asymmetric = GrowingNoise(), BinarySearch(), AsymmetricSearch()
    plain: Any = MonteCarlo(subspace=subspace)
    agrest: Any = Agrest(m=m, subspace=subspace)
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
            PAPER,
            make(start, search, estimate),
            complete=method is Method.BOTH,
        )
        for row, method, parts, search, estimate in rows
    ]


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
    *_four("HSJA", HSJA, 0.02, Full(), ""),
    *_four("GeoDA", GeoDA, 0.06, Dct(4), ", DCT 1/4"),
    *_four("CGBA", CGBA, 0.06, Dct(4), ", DCT 1/4"),
]
