"""Walks along the boundary: Boundary Attack.

Its steps are those of Foolbox; their sizes are looked at more often, and by fewer answers, so that
they fit after some forty queries, as ART's do, and not after three hundred.

`a-boundary` has asymmetric search on the line from the start, the one search that there is.
"""

from __future__ import annotations

from ...parts.searches import AsymmetricSearch, BinarySearch
from ...parts.starts import NoiseImage
from ..boundary import BoundaryAttack
from ..methods import Method
from ..named import Preset

SOURCE = "Brendel et al. 2018"
TAU = 1e-3
"""Of the line from the start: a tenth of a source step."""
QUICK = {"check_every": 4, "orthogonal_window": 10, "source_window": 8}
"""In place of 10, 100 and 30."""

WALKS = [
    Preset(
        "boundary",
        "Boundary",
        Method.VANILLA,
        "noise image, binary search, a walk",
        SOURCE,
        BoundaryAttack(NoiseImage(), BinarySearch(TAU, relative=True), **QUICK),
    ),
    Preset(
        "a-boundary",
        "Boundary",
        Method.AS,
        "noise image, AS, a walk",
        SOURCE,
        BoundaryAttack(NoiseImage(), AsymmetricSearch(TAU, relative=True), **QUICK),
        complete=True,
    ),
]
