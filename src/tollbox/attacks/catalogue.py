"""The fourteen rows of the paper's Table 1.

The bare name is the vanilla row; `+as` swaps in asymmetric search, `+agrest` asymmetric gradient
estimation, and `a-` both. Settings follow the paper's published code, moved to images in [0,1] by
the factor 0.225: n_0 = 30, delta = 0.0045, chunks of 128, searches down to 2.25e-5 in l2.

Stealthy attacks (Debenedetti et al.): few flagged answers, whatever the others cost.

`-original`: the form of an attack's own authors, where the paper's code has another.

Geometric attacks beside those of the paper's Table 1, and rescaling: a bare name is the vanilla
attack, and `a-` has asymmetric searches, and AGREST where it estimates.

What a search or an estimate has no published value for follows the paper's code: a start of growing
noise, n_0 = 30, searches down to 2.25e-5 in l2. The rate m of AGREST is that of CGBA and GeoDA.

Attacks that bring ℓ∞ down, and RayS's reading in ℓ2.

RayS searches down to 1e-3 along the unit vector of its signs, a length in ℓ2, as its authors do;
Stealthy RayS steps by 1e-3 of ℓ∞, and takes at most a tenth off the radius. HSJA's tolerance is
1/d^2 of the path: a millionth is as near as float32 can come to that.

OPT and Sign-OPT: of their authors, with asymmetric search, and stealthy.

`a-` has asymmetric search in place of every binary one, that of the start too. A bracket is
narrowed to beta / 500, as in the authors' code. The stealthy ones have beta = 0.01, and line
searches in two stages of 100 steps.

Walks along the boundary: Boundary Attack.

Its steps are those of Foolbox; their sizes are looked at more often, and by fewer answers, so that
they fit after some forty queries, as ART's do, and not after three hundred.

`a-boundary` has asymmetric search on the line from the start, the one search that there is.

Our own: `+calibrated` measures the overshoot, `frugal` is an attack of its own.

`frugal+surrogate` is that with networks of the user's, which are given with the name.

All presets, a file for each place that they are from; `LISTED` has them in that order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.problem import Attack
from ..parts.directions import SingleWaves, TernarySpectrum
from ..parts.estimates import Agrest, Biased, Estimate, MonteCarlo
from ..parts.opt_style import OptStyle
from ..parts.paths import QUARTER_TURN
from ..parts.radii import AdaptiveRadius, RelativeRadius, ThetaSearch
from ..parts.searches import AsymmetricSearch, BinarySearch, LineSearch, OptimalSearch, Search
from ..parts.starts import GaussianRays, GrowingNoise, NoiseImage, UniformNoise
from ..parts.subspaces import Dct, Full, Prior, Resize, Subspace
from ..parts.sweeps import Galloping, SignedGrid
from .boundary import BoundaryAttack
from .cgba import CGBA, CGBAH
from .frugal.attack import Frugal
from .frugal.calibrated import Calibrated
from .geoda import GeoDA, GeoDAOriginal
from .hsja import HSJA, QEBA, HSJALinf
from .opt import OPT, SignOPT
from .preset import Method, Preset
from .qfool import QFool
from .rays import RayS, RaySL2
from .rescaled import Rescaled
from .surfree import SurFree
from .triangle import TriA
from .ttba import TtBA

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


STEALTHY_SOURCE = "Debenedetti et al. 2024"

STEALTHY = [
    Preset(
        "stealthy-hsja",
        "HSJA",
        Method.STEALTHY,
        "line search in two stages, OPT-style estimate",
        STEALTHY_SOURCE,
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
        STEALTHY_SOURCE,
        GeoDA(
            UniformNoise(),
            BinarySearch(1e-4, relative=True),
            Biased(subspace=Dct(4)),
            queries=100,
            unit_mean=False,
        ),
    ),
]


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
            sweep=Galloping(),
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


CHEN_GU = "Chen, Gu 2020"
CHEN_JORDAN = "Chen, Jordan, Wainwright 2020"
DEBENEDETTI = "Debenedetti et al. 2024"
LINF_TOLERANCE = 1e-3

LINF = [
    Preset(
        "stealthy-rays",
        "RayS",
        Method.STEALTHY,
        "linf: sign flips, line search of a tenth",
        DEBENEDETTI,
        RayS(LineSearch(LINF_TOLERANCE), linf_tau=True, least_left=0.9),
    ),
    Preset(
        "rays",
        "RayS",
        Method.VANILLA,
        "linf: sign flips, binary search",
        CHEN_GU,
        RayS(BinarySearch(LINF_TOLERANCE)),
    ),
    Preset(
        "a-rays",
        "RayS",
        Method.AS,
        "linf: sign flips, AS",
        CHEN_GU,
        RayS(AsymmetricSearch(LINF_TOLERANCE)),
        complete=True,
    ),
    Preset(
        "rays-l2",
        "RayS-l2",
        Method.VANILLA,
        "sign flips, binary search, read in l2",
        CHEN_GU,
        RaySL2(BinarySearch(LINF_TOLERANCE)),
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


BETA = 0.001
RAY_TOLERANCE = BETA / 500
START_TOLERANCE = 1e-5
LINES = LineSearch(1e-4, relative=True, stages=2)


def _three(
    family: str, make: Callable[..., Attack], what: str, source: str, **stealthy: Any
) -> list[Preset]:
    """The authors' form, the asymmetric and the stealthy one."""
    name = family.lower()
    binary = make(GaussianRays(BinarySearch(START_TOLERANCE)), BinarySearch(RAY_TOLERANCE))
    asymmetric = make(
        GaussianRays(AsymmetricSearch(START_TOLERANCE)), AsymmetricSearch(RAY_TOLERANCE)
    )
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


WALKS_SOURCE = "Brendel et al. 2018"
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
        WALKS_SOURCE,
        BoundaryAttack(NoiseImage(), BinarySearch(TAU, relative=True), **QUICK),
    ),
    Preset(
        "a-boundary",
        "Boundary",
        Method.AS,
        "noise image, AS, a walk",
        WALKS_SOURCE,
        BoundaryAttack(NoiseImage(), AsymmetricSearch(TAU, relative=True), **QUICK),
        complete=True,
    ),
]


OWN_SOURCE = "docs/frugal.md"


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
            OWN_SOURCE,
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
        OWN_SOURCE,
        Frugal(),
    ),
]
WITH_SURROGATE = {
    "frugal+surrogate": Preset(
        "frugal+surrogate",
        "Frugal",
        Method.SURROGATE,
        "as frugal, with a network of one's own",
        OWN_SOURCE,
        Frugal(),
    )
}
"""Those that need a surrogate, too, which their attack is given later."""


LISTED: list[Preset] = [
    *(*TABLE_1, *ORIGINALS, *STEALTHY, *GEOMETRIC, *WALKS, *RAY_SEARCH, *LINF),
    *(*OWN, *RESCALED),
]

__all__ = ["LISTED", "WITH_SURROGATE"]
