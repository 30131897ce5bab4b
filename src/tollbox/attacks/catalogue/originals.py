"""`-original`: the form of an attack's own authors, where the paper's code has another."""

from __future__ import annotations

from ...parts.directions import TernarySpectrum
from ...parts.estimates import MonteCarlo
from ...parts.radii import RelativeRadius, ThetaSearch
from ...parts.searches import BinarySearch
from ...parts.starts import GrowingNoise, UniformNoise
from ...parts.subspaces import Dct
from ...parts.sweeps import Galloping, SignedGrid
from ..cgba import CGBA
from ..geoda_original import GeoDAOriginal
from ..hsja import HSJA
from ..methods import Method
from ..named import Preset
from ..surfree import SurFree

COARSE = BinarySearch(1 / 128, relative=True)

ORIGINALS = [
    Preset(
        "surfree-original",
        "SurFree",
        Method.ORIGINAL,
        "angles to both sides, tanh spectrum, 8x8 DCT",
        "Maho et al. 2021",
        SurFree(
            GrowingNoise(step=0.5),
            COARSE,
            COARSE,
            TernarySpectrum(Dct(2, block=8)),
            SignedGrid(),
        ),
    ),
    Preset(
        "cgba-original",
        "CGBA",
        Method.ORIGINAL,
        "galloping, binary search, signs, DCT 1/4",
        "Reza et al. 2023",
        CGBA(
            GrowingNoise(),
            BinarySearch(),
            MonteCarlo(delta=0.00437, subspace=Dct(4), weighted=False),
            Galloping(),
        ),
    ),
    Preset(
        "hsja-original",
        "HSJA",
        Method.ORIGINAL,
        "uniform start, radius by the distance, 100 sqrt(t)",
        "Chen et al. 2020",
        HSJA(UniformNoise(), ThetaSearch(), RelativeRadius(delta=1.0, power=1.0), queries=100),
    ),
    Preset(
        "geoda-original",
        "GeoDA",
        Method.ORIGINAL,
        "outward walk, split of 4000 queries, signs, DCT 1/3",
        "Rahmati et al. 2020",
        GeoDAOriginal(
            GrowingNoise(),
            BinarySearch(),
            MonteCarlo(delta=0.00585, subspace=Dct(3), weighted=False),
        ),
    ),
]
