"""Presets: attacks by name, each with its family, its method, its parts, and its source.

The bare name is the paper's vanilla row; `+as` swaps in asymmetric search, `+agrest` asymmetric
gradient estimation, and `a-` both. These are habits of naming: what a preset is stands in its
fields. Settings follow the paper's published code, moved to images in [0,1] by the factor 0.225:
n_0 = 30, delta = 0.0045, chunks of 128, searches down to 2.25e-5 in l2. `-original` is the form of
an attack's own authors where that differs. `+calibrated` measures the overshoot, and `frugal` is
our own. `frugal+surrogate` is that with networks of the user's own, which are given with the name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from ..core.arguments import shown
from ..core.problem import Attack
from ..errors import InputError, UnknownNameError
from ..parts.calibrated import Calibrated
from ..parts.directions import TernarySpectrum
from ..parts.estimates import Agrest, Biased, MonteCarlo
from ..parts.opt_style import OptStyle
from ..parts.paths import QUARTER_TURN
from ..parts.searches import AsymmetricSearch, BinarySearch, LineSearch
from ..parts.starts import GrowingNoise, UniformNoise
from ..parts.subspaces import Dct, Full, Subspace
from ..parts.sweeps import Galloping, SignedGrid
from .cgba import CGBA
from .frugal import Frugal
from .geoda import GeoDA
from .hsja import HSJA
from .methods import Method
from .surfree import SurFree
from .surrogates import Surrogate

PAPER = "Rewriting the Budget, Table 1"
OWN = "docs/frugal.md"
STEALTHY = "Debenedetti et al. 2024"
MEAN = 0.449
"""Of ImageNet's channels: what the code's normalisation takes off an image, whatever the model."""
ANGLE = 0.005 / QUARTER_TURN
"""0.005 of a radian, as a share of a quarter turn."""


@dataclass(frozen=True)
class Preset:
    """A named attack."""

    name: str
    family: str
    method: Method
    parts: str
    """In words."""
    source: str
    """Where its settings are from."""
    attack: Attack
    complete: bool = False
    """Nothing more of the attack can be made asymmetric: the paper calls it A-, then the family."""

    @property
    def title(self) -> str:
        """The name as the paper writes it."""
        return (Method.BOTH if self.complete else self.method).title(self.family)

    @property
    def words(self) -> str:
        """The method as a table has it."""
        return f"{self.method.words} ({self.title})" if self.complete else self.method.words


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
            OWN,
            make(start, binary, Calibrated(subspace=subspace)),
        )
        for family, make, subspace, where in rows
    ]


def _all() -> dict[str, Preset]:
    start, binary = GrowingNoise(), BinarySearch()
    coarse = BinarySearch(1 / 128, relative=True)
    spectrum = TernarySpectrum(Dct(4), gamma=None, centre=MEAN, memory=9)
    listed = [
        Preset(
            "surfree",
            "SurFree",
            Method.VANILLA,
            "binary search, the image's coefficients, DCT 1/4",
            PAPER,
            SurFree(start, binary, BinarySearch(ANGLE, relative=True), spectrum),
        ),
        Preset(
            "a-surfree",
            "SurFree",
            Method.AS,
            "AS, the image's coefficients, DCT 1/4",
            PAPER,
            SurFree(start, AsymmetricSearch(), AsymmetricSearch(ANGLE, relative=True), spectrum),
            complete=True,
        ),
        *_four("HSJA", HSJA, 0.02, Full(), ""),
        *_four("GeoDA", GeoDA, 0.06, Dct(4), ", DCT 1/4"),
        *_four("CGBA", CGBA, 0.06, Dct(4), ", DCT 1/4"),
        Preset(
            "surfree-original",
            "SurFree",
            Method.ORIGINAL,
            "angles to both sides, tanh of coefficients, 8x8 DCT",
            "Maho et al. 2021",
            SurFree(
                GrowingNoise(step=0.5),
                coarse,
                coarse,
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
                start,
                binary,
                MonteCarlo(delta=0.00437, subspace=Dct(4), weighted=False),
                Galloping(),
            ),
        ),
        Preset(
            "stealthy-hsja",
            "HSJA",
            Method.STEALTHY,
            "line search in two stages, OPT-style estimate",
            STEALTHY,
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
            STEALTHY,
            GeoDA(
                UniformNoise(),
                BinarySearch(1e-4, relative=True),
                Biased(subspace=Dct(4)),
                queries=100,
                unit_mean=False,
            ),
        ),
        *_calibrated(),
        Preset(
            "frugal",
            "Frugal",
            Method.OWN,
            "inward start, optimal search, overshoot, priors",
            OWN,
            Frugal(),
        ),
    ]
    return {preset.name: preset for preset in listed}


PRESETS = _all()
"""Those that need nothing but their name."""
WITH_SURROGATE = {
    "frugal+surrogate": Preset(
        "frugal+surrogate",
        "Frugal",
        Method.SURROGATE,
        "as frugal, with a network of one's own",
        OWN,
        Frugal(),
    )
}
"""Those that need a surrogate, too, which their attack is given later."""


def presets() -> list[str]:
    """The names of all presets that need nothing else."""
    return list(PRESETS)


def preset(
    name: str, *, surrogate: Surrogate | nn.Module | Sequence[nn.Module] | None = None
) -> Attack:
    """The attack of that name; change a part with `dataclasses.replace`.

    surrogate: for `frugal+surrogate`, a network of one's own, or several.
    """
    attack: Any = described(name, surrogate is not None).attack
    if surrogate is None:
        return attack  # type: ignore[no-any-return]
    given = surrogate if isinstance(surrogate, Surrogate) else Surrogate(surrogate)
    return replace(attack, surrogate=given)  # type: ignore[no-any-return]


def described(name: str, surrogate: bool = False) -> Preset:
    """The preset of that name; `surrogate`: one is given with it."""
    if not isinstance(name, str):
        raise InputError(
            f"is {shown(name)}",
            expected="the name of a preset; tb.presets() lists them",
            input="name",
        )
    known = {**PRESETS, **WITH_SURROGATE}
    if name not in known:
        raise UnknownNameError("preset", name, known)
    if name in WITH_SURROGATE and not surrogate:
        raise InputError(
            f"is not given, and the preset {name!r} needs one",
            expected="a network of one's own, or several",
            input="surrogate",
        )
    if surrogate and name not in WITH_SURROGATE:
        raise InputError(
            f"is given, and the preset {name!r} takes none",
            expected=f"it with {', '.join(WITH_SURROGATE)} only",
            remedy="leave it out",
            input="surrogate",
        )
    return known[name]
