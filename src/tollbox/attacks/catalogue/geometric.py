"""Geometric attacks beside those of the paper's Table 1, and rescaling: a bare name is the vanilla
attack, and `a-` has asymmetric searches, and AGREST where it estimates.

What a search or an estimate has no published value for follows the paper's code: a start of growing
noise, n_0 = 30, searches down to 2.25e-5 in l2. The rate m of AGREST is that of CGBA and GeoDA.
"""

from __future__ import annotations

from ...parts.directions import SingleWaves
from ...parts.estimates import Agrest, MonteCarlo
from ...parts.radii import AdaptiveRadius, RelativeRadius
from ...parts.searches import AsymmetricSearch, BinarySearch, OptimalSearch
from ...parts.starts import GrowingNoise
from ...parts.subspaces import Dct, Resize
from ..cgba_h import CGBAH
from ..frugal import Frugal
from ..methods import Method
from ..named import Preset
from ..qeba import QEBA
from ..qfool import QFool
from ..rescaled import Rescaled
from ..triangle import TriA
from ..ttba import TtBA
from .paper import SEARCHES, TABLE_1, estimates_in, four

M = 0.06
THETA = 2.6e-5
"""QEBA's 0.01 / sqrt(d) at 3x224x224."""
OMEGA = 0.00675
"""qFool's 0.03 of normalised pixels."""
SIGMA = 0.0291
"""TtBA's 3e-4 for each of 56 x 56 x 3 coordinates."""
QUARTER = 1 / 4
"""Of the angles of a triangle: two bisections."""


def _tria(asymmetric: bool) -> TriA:
    search = AsymmetricSearch if asymmetric else BinarySearch
    waves = SingleWaves(Dct(4))
    return TriA(GrowingNoise(), search(), search(QUARTER, relative=True), waves)


def _ttba(asymmetric: bool) -> list[Preset]:
    estimates = (
        MonteCarlo(SIGMA, subspace=Dct(4), weighted=False),
        Agrest(SIGMA, M, subspace=Dct(4)),
    )
    where, source = ", DCT 1/4", "Wang et al. 2025"
    return four("TtBA", TtBA, SEARCHES, estimates, where, source, asymmetric=asymmetric)


def _ends(rows: list[Preset]) -> tuple[Preset, Preset]:
    """The vanilla row, and that with all that the paper has."""
    return rows[0], rows[-1]


QEBA_ROW, A_QEBA = _ends(
    four(
        "QEBA",
        QEBA,
        (BinarySearch(THETA, relative=True), AsymmetricSearch(THETA, relative=True)),
        (
            RelativeRadius(MonteCarlo(subspace=Resize(4))),
            RelativeRadius(Agrest(m=M, subspace=Resize(4))),
        ),
        ", resized 1/4",
        "Li et al. 2020",
    )
)
QFOOL, A_QFOOL = _ends(
    four(
        "qFool",
        QFool,
        (BinarySearch(0.00225), AsymmetricSearch(0.00225)),
        (
            AdaptiveRadius(MonteCarlo(subspace=Dct(4), weighted=False), OMEGA),
            Agrest(OMEGA, M, subspace=Dct(4)),
        ),
        ", DCT 1/4",
        "Liu et al. 2019",
    )
)
CGBA_H, A_CGBA_H = _ends(
    four("CGBA-H", CGBAH, SEARCHES, estimates_in(Dct(4), M), ", DCT 1/4", "Reza et al. 2023")
)
GEOMETRIC = [
    QEBA_ROW,
    A_QEBA,
    QFOOL,
    A_QFOOL,
    Preset(
        "tria",
        "TriA",
        Method.VANILLA,
        "two bisections of an angle, single waves, DCT 1/4",
        "Wang et al. 2022",
        _tria(asymmetric=False),
    ),
    Preset(
        "a-tria",
        "TriA",
        Method.AS,
        "AS of an angle, single waves, DCT 1/4",
        "Wang et al. 2022",
        _tria(asymmetric=True),
        complete=True,
    ),
    _ttba(asymmetric=False)[0],
    _ttba(asymmetric=True)[-1],
    CGBA_H,
    A_CGBA_H,
]
CGBA_ATTACK = next(preset.attack for preset in TABLE_1 if preset.name == "cgba")
RESCALED = [
    Preset(
        "cgba+seri",
        "CGBA",
        Method.RESCALED,
        "as cgba, a fifth of the cost for rescaled blocks",
        "SeRI, 2026",
        Rescaled(CGBA_ATTACK),
    ),
    Preset(
        "frugal+seri",
        "Frugal",
        Method.RESCALED,
        "as frugal, a fifth of the cost for rescaled blocks",
        "SeRI, 2026",
        Rescaled(Frugal(), OptimalSearch(1 / 16, relative=True)),
    ),
]
"""With SeRI's rescaling."""
