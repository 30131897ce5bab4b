"""The attack of every preset, with all its settings; `presets.py` says what each preset is.

The rows of the paper's Table 1 follow its published code, scaled to images in [0,1] by the factor
0.225: n_0 = 30, delta = 0.0045, chunks of 128, searches down to 2.25e-5 in l2. Attacks by other
authors have their published settings. Unpublished settings follow the paper's code: a start from
growing noise, n_0 = 30, and for AGREST the rate m of CGBA and GeoDA.

`by_side` has the authors' settings for small images, with lengths for 3x32x32, and those for large
ones. Where nobody has published any for small images, the whole space or low frequencies are used
there, whichever gave the smaller distances on CIFAR-10 (docs/attacks.md, "Small images").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.by_side import by_side
from ..core.problem import Attack
from ..parts.blocks import Weakest
from ..parts.comparisons import CommonRadius, FollowInward
from ..parts.directions import SingleWaves, TernarySpectrum
from ..parts.estimates import AdaptiveRadius, Agrest, Biased, MonteCarlo, OptStyle, RelativeRadius
from ..parts.paths import QUARTER_TURN, Galloping, SignedGrid
from ..parts.searches import (
    AsymmetricSearch,
    BinarySearch,
    CosineSearch,
    LineSearch,
    Search,
    ThetaSearch,
)
from ..parts.starts import GaussianRays, GrowingNoise, NoiseImage, UniformNoise
from ..parts.subspaces import Dct, Full, Resize
from .adba import ADBA
from .aha import AHA
from .boundary import BoundaryAttack
from .cgba import CGBA, CGBAH
from .dpattack import DPAttack, DPAttackL2
from .evolutionary import Evolutionary
from .frugal.attack import Frugal
from .frugal.calibrated import Calibrated
from .frugal.linf import FrugalLinf
from .geoda import GeoDA, GeoDAOriginal
from .hsja import HSJA, QEBA, HSJALinf
from .opt import OPT, SignOPT
from .prior_opt import PARSOPT, PriorOPT
from .qfool import QFool
from .rays import RayS, RaySL2
from .rescaled import Rescaled
from .sign_flip import SignFlip
from .sqba import SQBA
from .surfree import SurFree
from .tangent import Tangent
from .transfer_start import Transfer  # noqa: F401  registers the part
from .triangle import TriA
from .ttba import TtBA

Make = Callable[..., Attack]
Two = tuple[Any, Any]
"""The vanilla part and the asymmetric one."""

MEAN = 0.449
"""Mean over ImageNet's channels, which the paper's code subtracts whatever the model."""
M = 0.06
"""AGREST's rate m for CGBA and GeoDA."""
THETA = by_side(1.8e-4, 2.6e-5)
"""QEBA's 0.01 / sqrt(d)."""
GAMMA = by_side(1.0, 1000.0)
"""Tangent Attack's gamma: the radius is gamma / d of the distance."""
TANGENT_TAU = by_side(5.9e-6, 1.7e-5)
"""Its gamma / d^1.5."""
OMEGA = 0.00675
"""qFool's 0.03 in normalised pixels, scaled to [0,1]."""
SIGMA = by_side(0.0166, 0.0291)
"""TtBA's 3e-4 for each coordinate: of 3x32x32, or of 56 x 56 x 3."""
SMALLER_SIGMA = by_side(0.0111, 0.0194)
"""2e-4 for each coordinate: SeRI's and SAR's, and Stealthy GeoDA's."""
ADAPTATION = {"check_every": 4, "orthogonal_window": 10, "source_window": 8}
"""Foolbox uses 10, 100 and 30. With these values the step sizes adapt within about forty queries,
as in ART, rather than three hundred."""
RAY_TAU, START_TAU = 1e-3 / 500, 1e-5
"""`RAY_TAU` is beta / 500, as in the code of OPT's and Sign-OPT's authors."""
SIGNS_TAU = 1e-3
"""RayS searches down to this length in l2 along the unit vector of its signs, as its authors do.
Stealthy RayS steps by this length in l-infinity, and reduces the radius by at most a tenth."""

SEARCHES = (BinarySearch(), AsymmetricSearch())
LOW = by_side(Full(), Dct(4))
IN_DCT = (MonteCarlo(subspace=Dct(4)), Agrest(m=M, subspace=Dct(4)))
IN_LOW = (MonteCarlo(subspace=LOW), Agrest(m=M, subspace=LOW))
RESIZED = by_side(Resize(2), Resize(4))
FINE = BinarySearch(1e-4, relative=True)
LINES = LineSearch(1e-4, relative=True, stages=2)


def four(name: str, make: Make, searches: Two, estimates: Two) -> dict[str, Attack]:
    """Return the vanilla, `+as`, `+agrest` and `a-` forms of an attack that estimates."""
    (binary, asymmetric), (plain, agrest) = searches, estimates
    start = GrowingNoise()
    return {
        name: make(start, binary, plain),
        f"{name}+as": make(start, asymmetric, plain),
        f"{name}+agrest": make(start, binary, agrest),
        f"a-{name}": make(start, asymmetric, agrest),
    }


def two(name: str, make: Make, searches: Two, estimates: Two) -> dict[str, Attack]:
    """Return the vanilla and the `a-` form."""
    rows = four(name, make, searches, estimates)
    return {key: rows[key] for key in (name, f"a-{name}")}


def rays(name: str, make: Make, **more: Any) -> dict[str, Attack]:
    """Return the authors' form and the asymmetric one, including its start."""
    return {
        key: make(GaussianRays(search(START_TAU)), search(RAY_TAU), **more)
        for key, search in ((name, BinarySearch), (f"a-{name}", AsymmetricSearch))
    }


def surfree(search: Callable[..., Search]) -> SurFree:
    """Return SurFree as in the paper's code; its arcs are searched down to 0.005 radians."""
    spectrum = TernarySpectrum(Dct(4), gamma=None, centre=MEAN, memory=9)
    return SurFree(GrowingNoise(), search(), search(0.005 / QUARTER_TURN, relative=True), spectrum)


def qeba(start: Any, search: Search, estimate: Any) -> QEBA:
    noise = by_side(UniformNoise(), start)
    return QEBA(noise, search, estimate, queries=by_side(30, 100))


def tria(search: Callable[..., Search]) -> TriA:
    """Return TriA; a relative tolerance of 1/4 gives two bisections."""
    return TriA(GrowingNoise(), search(), search(1 / 4, relative=True), SingleWaves(Dct(4)))


def walk(search: Callable[..., Search]) -> BoundaryAttack:
    """Return Boundary Attack; the tolerance of its only search is a tenth of a source step."""
    return BoundaryAttack(NoiseImage(), search(1e-3, relative=True), **ADAPTATION)


def tangent(_: Any, search: Search, estimate: Any) -> Tangent:
    return Tangent(UniformNoise(), search, estimate)


def evolution(search: Callable[..., Search]) -> Evolutionary:
    """Return Evolutionary Attack; at 224 pixels its directions have 45 x 45 x 3 coefficients."""
    enlarged = Resize(by_side(1.0, 5.0))
    return Evolutionary(NoiseImage(), search(1e-3, relative=True), enlarged)


def sign_flip(search: Callable[..., Search]) -> SignFlip:
    """Return Sign Flip; its first search takes 10 queries if they halve."""
    return SignFlip(NoiseImage(), search(1 / 1024, relative=True))


def dpattack(make: Make, asymmetric: bool = False, **more: Any) -> Attack:
    """Return DPAttack with the authors' settings for CIFAR-10, or those for ImageNet in `more`; the
    race has ten rounds of bisection."""
    search = AsymmetricSearch if asymmetric else BinarySearch
    chosen = {"doublings": by_side(3, 4), "until_one": by_side(True, False)}
    chosen |= {"chroma": by_side(100.0, 0.0), "asymmetric": asymmetric, **more}
    return make(search(1 / 1024, relative=True), **chosen)


def signs(subspace: Any, delta: Any = 0.0045) -> MonteCarlo:
    return MonteCarlo(delta, subspace=subspace, weighted=False)


CGBA_2E4 = CGBA(
    GrowingNoise(0.02), BinarySearch(1e-4), signs(LOW, SMALLER_SIGMA), sweep=Galloping()
)
"""CGBA in the code of SeRI and SAR."""

ATTACKS: dict[str, Attack] = {
    # the paper's Table 1
    "surfree": surfree(BinarySearch),
    "a-surfree": surfree(AsymmetricSearch),
    **four("hsja", HSJA, SEARCHES, (MonteCarlo(), Agrest())),
    **four("geoda", GeoDA, SEARCHES, IN_DCT),
    **four("cgba", CGBA, SEARCHES, IN_LOW),
    # forms by the attacks' authors, and stealthy forms (Debenedetti et al.)
    "surfree-original": SurFree(
        GrowingNoise(step=0.5),
        BinarySearch(1 / 1024, relative=True),
        CosineSearch(),
        TernarySpectrum(Dct(1), gamma=1e6, memory=10, dropped=0.5),
        SignedGrid(grid=1),
    ),
    "cgba-original": CGBA(
        GrowingNoise(), BinarySearch(), signs(LOW, by_side(0.0025, 0.00437)), sweep=Galloping()
    ),
    "hsja-original": HSJA(
        UniformNoise(), ThetaSearch(), RelativeRadius(delta=1.0, power=1.0), queries=100
    ),
    "geoda-original": GeoDAOriginal(GrowingNoise(), BinarySearch(), signs(Dct(3), 0.00585)),
    "stealthy-hsja": HSJA(UniformNoise(), LINES, OptStyle(), queries=100),
    "stealthy-geoda": GeoDA(
        UniformNoise(), FINE, Biased(SMALLER_SIGMA, subspace=LOW), queries=100, unit_mean=False
    ),
    # geometric attacks
    **two(
        "qeba",
        qeba,
        (BinarySearch(THETA, relative=True), AsymmetricSearch(THETA, relative=True)),
        (
            RelativeRadius(MonteCarlo(subspace=RESIZED)),
            RelativeRadius(Agrest(m=M, subspace=RESIZED)),
        ),
    ),
    **two(
        "qfool",
        QFool,
        (BinarySearch(0.00225), AsymmetricSearch(0.00225)),
        (AdaptiveRadius(signs(LOW), OMEGA), Agrest(OMEGA, m=M, subspace=LOW)),
    ),
    "tria": tria(BinarySearch),
    "a-tria": tria(AsymmetricSearch),
    "ttba": TtBA(GrowingNoise(0.02), BinarySearch(1e-4), signs(LOW, SIGMA)),
    "a-ttba": TtBA(
        GrowingNoise(0.02),
        AsymmetricSearch(1e-4),
        Agrest(SIGMA, m=M, subspace=LOW),
        asymmetric=True,
    ),
    **two("cgba-h", CGBAH, SEARCHES, IN_LOW),
    **two(
        "tangent",
        tangent,
        (BinarySearch(TANGENT_TAU, relative=True), AsymmetricSearch(TANGENT_TAU, relative=True)),
        (
            RelativeRadius(delta=GAMMA, power=1.0),
            RelativeRadius(Agrest(), delta=GAMMA, power=1.0),
        ),
    ),
    # walks along the boundary, rays, and the l-infinity norm
    "boundary": walk(BinarySearch),
    "a-boundary": walk(AsymmetricSearch),
    "evolutionary": evolution(BinarySearch),
    "a-evolutionary": evolution(AsymmetricSearch),
    "aha": AHA(NoiseImage(), BinarySearch(1e-3, relative=True)),
    "a-aha": AHA(NoiseImage(), AsymmetricSearch(1e-3, relative=True)),
    **rays("opt", OPT),
    "stealthy-opt": OPT(GaussianRays(LINES), LINES, beta=0.01, from_beyond=True),
    **rays("sign-opt", SignOPT),
    "stealthy-sign-opt": SignOPT(GaussianRays(LINES), LINES, beta=0.01),
    "stealthy-rays": RayS(LineSearch(SIGNS_TAU), linf_tau=True, least_left=0.9),
    "rays": RayS(BinarySearch(SIGNS_TAU)),
    "a-rays": RayS(AsymmetricSearch(SIGNS_TAU)),
    "adba": ADBA(BinarySearch(SIGNS_TAU), CommonRadius(rounds=8)),
    "a-adba": ADBA(AsymmetricSearch(SIGNS_TAU), CommonRadius(rounds=8, priced=True)),
    "rays-l2": RaySL2(BinarySearch(SIGNS_TAU)),
    "dpattack": dpattack(DPAttack, median=by_side(False, True)),
    "a-dpattack": dpattack(DPAttack, True, median=by_side(False, True)),
    "dpattack-l2": dpattack(DPAttackL2),
    "a-dpattack-l2": dpattack(DPAttackL2, True),
    # The published tolerance is 1/d^2 of the path; 1e-6 is what float32 resolves.
    "hsja-linf": HSJALinf(
        UniformNoise(), BinarySearch(1e-6, relative=True), RelativeRadius(delta=1.0, power=1.0)
    ),
    "a-hsja-linf": HSJALinf(UniformNoise(), AsymmetricSearch(), Agrest(), queries=100),
    "sign-flip": sign_flip(BinarySearch),
    "a-sign-flip": sign_flip(AsymmetricSearch),
    # tollbox's own
    "hsja+calibrated": HSJA(GrowingNoise(), FINE, Calibrated()),
    "geoda+calibrated": GeoDA(GrowingNoise(), FINE, Calibrated(subspace=Dct(4))),
    "cgba+calibrated": CGBA(GrowingNoise(), FINE, Calibrated(subspace=LOW)),
    "frugal": Frugal(),
    "frugal-linf": FrugalLinf(),
    "frugal+surrogate": Frugal(),
    "cgba+seri": Rescaled(CGBA_2E4),
    "frugal+seri": Rescaled(Frugal(), comparison=CommonRadius(priced=True)),
    "cgba+sar": Rescaled(CGBA_2E4, Weakest(by_side(4, 16)), FollowInward(), 0.03, stretch=1940.0),
    # with a surrogate
    **rays("prior-opt", PriorOPT, longest=by_side(0.1, 1.0)),
    **rays("pars-opt", PARSOPT, longest=by_side(0.1, 1.0), alpha=by_side(2.0, 0.4)),
    **two(
        "sqba",
        SQBA,
        (BinarySearch(1e-3, relative=True), AsymmetricSearch(1e-3, relative=True)),
        (RelativeRadius(), RelativeRadius(Agrest(m=M))),
    ),
}
"""The attack of every preset, by name."""
