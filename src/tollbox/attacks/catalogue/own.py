"""Our own: `+calibrated` measures the overshoot, `frugal` is an attack of its own.

`frugal+surrogate` is that with networks of the user's, which are given with the name.
"""

from __future__ import annotations

from collections.abc import Callable

from ...core.problem import Attack
from ...parts.calibrated import Calibrated
from ...parts.searches import BinarySearch
from ...parts.starts import GrowingNoise
from ...parts.subspaces import Dct, Full, Subspace
from ..cgba import CGBA
from ..frugal import Frugal
from ..geoda import GeoDA
from ..hsja import HSJA
from ..methods import Method
from ..named import Preset

SOURCE = "docs/frugal.md"


def _calibrated() -> list[Preset]:
    """The vanilla attacks with a measured overshoot."""
    start, binary = GrowingNoise(), BinarySearch(1e-4, relative=True)
    rows: list[tuple[str, Callable[..., Attack], Subspace, str]] = [
        ("HSJA", HSJA, Full(), ""),
        ("GeoDA", GeoDA, Dct(4), ", DCT 1/4"),
        ("CGBA", CGBA, Dct(4), ", DCT 1/4"),
    ]
    return [
        Preset(
            f"{family.lower()}+calibrated",
            family,
            Method.CALIBRATED,
            f"binary search, measured overshoot{where}",
            SOURCE,
            make(start, binary, Calibrated(subspace=subspace)),
        )
        for family, make, subspace, where in rows
    ]


OWN = [
    *_calibrated(),
    Preset(
        "frugal",
        "Frugal",
        Method.OWN,
        "inward start, optimal search, overshoot, priors",
        SOURCE,
        Frugal(),
    ),
]
WITH_SURROGATE = {
    "frugal+surrogate": Preset(
        "frugal+surrogate",
        "Frugal",
        Method.SURROGATE,
        "as frugal, with a network of one's own",
        SOURCE,
        Frugal(),
    )
}
"""Those that need a surrogate, too, which their attack is given later."""
