"""Stealthy attacks (Debenedetti et al.): few flagged answers, whatever the others cost."""

from __future__ import annotations

from ...parts.estimates import Biased
from ...parts.opt_style import OptStyle
from ...parts.searches import BinarySearch, LineSearch
from ...parts.starts import UniformNoise
from ...parts.subspaces import Dct
from ..geoda import GeoDA
from ..hsja import HSJA
from ..methods import Method
from ..named import Preset

SOURCE = "Debenedetti et al. 2024"

STEALTHY = [
    Preset(
        "stealthy-hsja",
        "HSJA",
        Method.STEALTHY,
        "line search in two stages, OPT-style estimate",
        SOURCE,
        HSJA(
            UniformNoise(),
            LineSearch(1e-4, relative=True, stages=2),
            OptStyle(),
            queries=100,
        ),
    ),
    Preset(
        "stealthy-geoda",
        "GeoDA",
        Method.STEALTHY,
        "uniform start, bias with feedback, sum, DCT 1/4",
        SOURCE,
        GeoDA(
            UniformNoise(),
            BinarySearch(1e-4, relative=True),
            Biased(subspace=Dct(4)),
            queries=100,
            unit_mean=False,
        ),
    ),
]
