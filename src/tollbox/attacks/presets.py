"""Presets: attacks by name, with what a reader needs to know about each.

1. What code needs to know about a preset is a field, and is never read from the name.
2. `catalogue.py` has the attack of each preset, with all its settings. It is imported when an
   attack is first needed, so that presets can be listed without torch.
3. A bare name is the vanilla attack. `+as` has asymmetric search, `+agrest` asymmetric gradient
   estimation, `a-` everything that can be asymmetric, `-original` the form of the attack's authors
   where the paper's code differs, `+calibrated` a measured overshoot, `+seri` SeRI's rescaling.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..core.metric import Metric, norm_of
from ..core.validation import shown
from ..errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from torch import nn

    from ..core.problem import Attack
    from .surrogates import Surrogate


class Kind(enum.StrEnum):
    """The groups of the trade-off figure."""

    VANILLA = "vanilla"
    ASYMMETRIC = "asymmetric"
    STEALTHY = "stealthy"
    OWN = "own"
    """An attack or a variant that tollbox adds to the paper's."""


class Method(enum.Enum):
    """How an attack differs from the vanilla attack of its family."""

    VANILLA = ("VA", Kind.VANILLA, "{}")
    AS = ("VA+AS", Kind.ASYMMETRIC, "{}+AS")
    AGREST = ("VA+AGREST", Kind.ASYMMETRIC, "{}+AGREST")
    BOTH = ("VA+AS+AGREST", Kind.ASYMMETRIC, "A-{}")
    CALIBRATED = ("measured overshoot", Kind.OWN, "{}+calibrated")
    STEALTHY = ("stealthy", Kind.STEALTHY, "Stealthy {}")
    ORIGINAL = ("original", Kind.VANILLA, "original {}")
    OWN = ("built-in", Kind.OWN, "{}")
    RESCALED = ("with SeRI's rescaling", Kind.OWN, "{}+SeRI")
    SURROGATE = ("with a surrogate", Kind.OWN, "{}+surrogate")

    def __init__(self, words: str, kind: Kind, title: str) -> None:
        self.words = words
        """The method as a table shows it."""
        self.kind = kind
        self._title = title

    def title(self, family: str) -> str:
        """Return the name of an attack of this family and method as the paper writes it."""
        return self._title.format(family)


@dataclass(frozen=True)
class Preset:
    """A named attack."""

    name: str
    family: str
    method: Method
    parts: str
    """The parts, in words."""
    source: str
    """The publication that the settings come from."""
    complete: bool = False
    """Whether nothing more of the attack can be made asymmetric: the paper then calls it A-FAMILY.
    """
    norms: tuple[Metric, ...] = (Metric.L2,)
    needs_surrogate: bool = False

    @property
    def attack(self) -> Attack:
        from .catalogue import ATTACKS

        return ATTACKS[self.name]

    @property
    def title(self) -> str:
        """The name as the paper writes it."""
        return (Method.BOTH if self.complete else self.method).title(self.family)

    @property
    def words(self) -> str:
        """The method as a table shows it."""
        return f"{self.method.words} ({self.title})" if self.complete else self.method.words


def _four(family: str, where: str, source: str) -> list[Preset]:
    """Return the four rows of an attack that estimates: vanilla, `+as`, `+agrest` and `a-`."""
    name = family.lower()
    rows = [
        (name, Method.VANILLA, "binary search, Monte Carlo"),
        (f"{name}+as", Method.AS, "AS, Monte Carlo"),
        (f"{name}+agrest", Method.AGREST, "binary search, AGREST"),
        (f"a-{name}", Method.BOTH, "AS, AGREST"),
    ]
    return [
        Preset(row, family, method, parts + where, source, complete=method is Method.BOTH)
        for row, method, parts in rows
    ]


def _two(family: str, where: str, source: str) -> list[Preset]:
    """Return the first and the last of the four rows."""
    return _four(family, where, source)[::3]


def _rays(family: str, what: str, source: str) -> list[Preset]:
    """Return the authors' form, the asymmetric one and the stealthy one."""
    name, lines = family.lower(), f"line search in two stages, {what}"
    return [
        Preset(name, family, Method.VANILLA, f"binary search, {what}", source),
        Preset(f"a-{name}", family, Method.AS, f"AS, {what}", source, complete=True),
        Preset(f"stealthy-{name}", family, Method.STEALTHY, lines, _STEALTHY),
    ]


_PAPER = "Rewriting the Budget, Table 1"
_STEALTHY = "Debenedetti et al. 2024"
_OWN = "docs/frugal.md"
_CHEN_GU, _CHEN_JORDAN = "Chen, Gu 2020", "Chen, Jordan, Wainwright 2020"
_TRIA, _BOUNDARY, _SERI = "Wang et al. 2022", "Brendel et al. 2018", "SeRI, 2026"
_LINF = (Metric.LINF,)
_COEFFICIENTS = "the image's coefficients, DCT 1/4"

_ALL = [
    Preset("surfree", "SurFree", Method.VANILLA, f"binary search, {_COEFFICIENTS}", _PAPER),
    Preset("a-surfree", "SurFree", Method.AS, f"AS, {_COEFFICIENTS}", _PAPER, complete=True),
    *_four("HSJA", "", _PAPER),
    *_four("GeoDA", ", DCT 1/4", _PAPER),
    *_four("CGBA", ", DCT 1/4", _PAPER),
    Preset(
        "surfree-original",
        "SurFree",
        Method.ORIGINAL,
        "angles to both sides, tanh spectrum, 8x8 DCT",
        "Maho et al. 2021",
    ),
    Preset(
        "cgba-original",
        "CGBA",
        Method.ORIGINAL,
        "galloping, binary search, signs, DCT 1/4",
        "Reza et al. 2023",
    ),
    Preset(
        "hsja-original",
        "HSJA",
        Method.ORIGINAL,
        "uniform start, radius by the distance, 100 sqrt(t)",
        "Chen et al. 2020",
    ),
    Preset(
        "geoda-original",
        "GeoDA",
        Method.ORIGINAL,
        "outward walk, split of 4000 queries, signs, DCT 1/3",
        "Rahmati et al. 2020",
    ),
    Preset(
        "stealthy-hsja",
        "HSJA",
        Method.STEALTHY,
        "line search in two stages, OPT-style estimate",
        _STEALTHY,
    ),
    Preset(
        "stealthy-geoda",
        "GeoDA",
        Method.STEALTHY,
        "uniform start, bias with feedback, sum, DCT 1/4",
        _STEALTHY,
    ),
    *_two("QEBA", ", resized 1/4", "Li et al. 2020"),
    *_two("qFool", ", DCT 1/4", "Liu et al. 2019"),
    Preset(
        "tria", "TriA", Method.VANILLA, "two bisections of an angle, single waves, DCT 1/4", _TRIA
    ),
    Preset(
        "a-tria", "TriA", Method.AS, "AS of an angle, single waves, DCT 1/4", _TRIA, complete=True
    ),
    *_two("TtBA", ", DCT 1/4", "Wang et al. 2025"),
    *_two("CGBA-H", ", DCT 1/4", "Reza et al. 2023"),
    Preset("boundary", "Boundary", Method.VANILLA, "noise image, binary search, a walk", _BOUNDARY),
    Preset("a-boundary", "Boundary", Method.AS, "noise image, AS, a walk", _BOUNDARY, True),
    *_rays("OPT", "differences of 10 rays", "Cheng et al. 2019"),
    *_rays("Sign-OPT", "signs of 200 rays", "Cheng et al. 2020"),
    Preset(
        "stealthy-rays",
        "RayS",
        Method.STEALTHY,
        "linf: sign flips, line search of a tenth",
        _STEALTHY,
        norms=_LINF,
    ),
    Preset(
        "rays", "RayS", Method.VANILLA, "linf: sign flips, binary search", _CHEN_GU, norms=_LINF
    ),
    Preset("a-rays", "RayS", Method.AS, "linf: sign flips, AS", _CHEN_GU, True, _LINF),
    Preset("rays-l2", "RayS-l2", Method.VANILLA, "sign flips, binary search, read in l2", _CHEN_GU),
    Preset(
        "hsja-linf",
        "HSJA-linf",
        Method.VANILLA,
        "linf: binary search, Monte Carlo, shrinking delta",
        _CHEN_JORDAN,
        norms=_LINF,
    ),
    Preset("a-hsja-linf", "HSJA-linf", Method.BOTH, "linf: AS, AGREST", _CHEN_JORDAN, True, _LINF),
    *(
        Preset(
            f"{family.lower()}+calibrated",
            family,
            Method.CALIBRATED,
            f"binary search, measured overshoot{where}",
            _OWN,
        )
        for family, where in (("HSJA", ""), ("GeoDA", ", DCT 1/4"), ("CGBA", ", DCT 1/4"))
    ),
    Preset("frugal", "Frugal", Method.OWN, "ray start, optimal search, overshoot, priors", _OWN),
    Preset(
        "cgba+seri",
        "CGBA",
        Method.RESCALED,
        "as cgba, a fifth of the cost for rescaled blocks",
        _SERI,
    ),
    Preset(
        "frugal+seri",
        "Frugal",
        Method.RESCALED,
        "as frugal, a fifth of the cost for rescaled blocks",
        _SERI,
    ),
    Preset(
        "frugal+surrogate",
        "Frugal",
        Method.SURROGATE,
        "as frugal, with your own surrogate network",
        _OWN,
        needs_surrogate=True,
    ),
]
PRESETS = {each.name: each for each in _ALL if not each.needs_surrogate}
"""The presets that need nothing but their name."""
WITH_SURROGATE = {each.name: each for each in _ALL if each.needs_surrogate}


def presets(norm: str | None = None) -> list[str]:
    """Return the names of the presets that need nothing else, all or those made for a norm."""
    metric = None if norm is None else norm_of(norm)
    return [name for name, each in PRESETS.items() if metric is None or metric in each.norms]


def preset(
    name: str, *, surrogate: Surrogate | nn.Module | Sequence[nn.Module] | None = None
) -> Attack:
    """Return the attack of that name; change a part with `dataclasses.replace`.

    surrogate: your own network, or several, for `frugal+surrogate`.
    """
    attack: Any = described(name, surrogate is not None).attack
    if surrogate is not None:
        from .surrogates import Surrogate

        given = surrogate if isinstance(surrogate, Surrogate) else Surrogate(surrogate)
        attack = replace(attack, surrogate=given)
    return attack  # type: ignore[no-any-return]


def described(name: str, surrogate: bool = False) -> Preset:
    """Return the preset of that name; `surrogate` says whether one is given with it."""
    if not isinstance(name, str):
        raise InputError(
            f"is {shown(name)}",
            expected="the name of a preset; tb.presets() lists them",
            input="name",
        )
    known = {**PRESETS, **WITH_SURROGATE}
    if name not in known:
        raise UnknownNameError("preset", name, known)
    if known[name].needs_surrogate and not surrogate:
        raise InputError(
            f"is missing, and the preset {name!r} needs one",
            expected="your own network, or several",
            input="surrogate",
        )
    if surrogate and not known[name].needs_surrogate:
        raise InputError(
            f"is given, and the preset {name!r} takes none",
            expected=f"it with {', '.join(WITH_SURROGATE)} only",
            remedy="leave it out",
            input="surrogate",
        )
    return known[name]
