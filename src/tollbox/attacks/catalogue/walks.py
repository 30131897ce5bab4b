"""Walks along the boundary: Boundary Attack, with Foolbox's settings.

`a-boundary` has asymmetric search on the line from the start, the one search that there is.
"""

from __future__ import annotations

from ...parts.searches import AsymmetricSearch, BinarySearch
from ...parts.starts import NoiseImage
from ..boundary import BoundaryAttack
from ..methods import Method
from ..named import Preset

SOURCE = "Brendel et al. 2018, Foolbox 3.3.4"
TAU = 1e-3
"""Of the line from the start: a tenth of a source step."""

WALKS = [
    Preset(
        "boundary",
        "Boundary",
        Method.VANILLA,
        "noise image, binary search, a walk",
        SOURCE,
        BoundaryAttack(NoiseImage(), BinarySearch(TAU, relative=True)),
    ),
    Preset(
        "a-boundary",
        "Boundary",
        Method.AS,
        "noise image, AS, a walk",
        SOURCE,
        BoundaryAttack(NoiseImage(), AsymmetricSearch(TAU, relative=True)),
        complete=True,
    ),
]
