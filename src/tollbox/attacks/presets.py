"""Presets: attacks by name, with what a reader needs to know about each.

1. Code reads the properties of a preset from its fields, never from its name.
2. `preset_settings.py` has the attack of each preset, with all its settings. It is imported when an
   attack is first needed, so that presets can be listed without torch.
3. A bare name is the vanilla attack. `+as` has asymmetric search, `+agrest` asymmetric gradient
   estimation, and `a-` everything that can be asymmetric. `-original` is the authors' form where
   the paper's code differs. `+calibrated` has a measured overshoot, `+seri` and `+sar` the
   rescaling of blocks by these methods.
4. In the words for the parts, "A or B" is A for large images and B for small ones
   (core/by_side.py).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..core.metric import Metric, norm_of
from ..core.validation import require
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
    """The difference between an attack and its family's vanilla attack: the words that a table
    shows, the kind, and the title as the paper writes it."""

    VANILLA = ("VA", Kind.VANILLA, "{}")
    AS = ("VA+AS", Kind.ASYMMETRIC, "{}+AS")
    AGREST = ("VA+AGREST", Kind.ASYMMETRIC, "{}+AGREST")
    BOTH = ("VA+AS+AGREST", Kind.ASYMMETRIC, "A-{}")
    CALIBRATED = ("measured overshoot", Kind.OWN, "{}+calibrated")
    STEALTHY = ("stealthy", Kind.STEALTHY, "Stealthy {}")
    ORIGINAL = ("original", Kind.VANILLA, "original {}")
    OWN = ("built-in", Kind.OWN, "{}")
    RESCALED = ("with SeRI's rescaling", Kind.OWN, "{}+SeRI")
    SAR = ("with SAR's rescaling", Kind.OWN, "{}+SAR")
    SURROGATE = ("with a surrogate", Kind.OWN, "{}+surrogate")

    def __init__(self, words: str, kind: Kind, title: str) -> None:
        self.words, self.kind, self.title = words, kind, title


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
    complete: bool
    """Whether every part that can be asymmetric is asymmetric; the paper then says A-FAMILY."""
    needs_surrogate: bool
    norms: tuple[Metric, ...]

    @property
    def attack(self) -> Attack:
        from .preset_settings import ATTACKS

        return ATTACKS[self.name]

    @property
    def title(self) -> str:
        """The name as the paper writes it."""
        return (Method.BOTH if self.complete else self.method).title.format(self.family)

    @property
    def words(self) -> str:
        """The method as a table shows it."""
        return f"{self.method.words} ({self.title})" if self.complete else self.method.words


_TABLE = """
Rewriting the Budget, Table 1:
surfree            SurFree    VANILLA     l2    binary search, the image's coefficients, DCT 1/4
a-surfree          SurFree    AS*         l2    AS, the image's coefficients, DCT 1/4
hsja               HSJA       VANILLA     l2    binary search, Monte Carlo
hsja+as            HSJA       AS          l2    AS, Monte Carlo
hsja+agrest        HSJA       AGREST      l2    binary search, AGREST
a-hsja             HSJA       BOTH*       l2    AS, AGREST
geoda              GeoDA      VANILLA     l2    binary search, Monte Carlo, DCT 1/4
geoda+as           GeoDA      AS          l2    AS, Monte Carlo, DCT 1/4
geoda+agrest       GeoDA      AGREST      l2    binary search, AGREST, DCT 1/4
a-geoda            GeoDA      BOTH*       l2    AS, AGREST, DCT 1/4
cgba               CGBA       VANILLA     l2    binary search, Monte Carlo, DCT 1/4 or all
cgba+as            CGBA       AS          l2    AS, Monte Carlo, DCT 1/4 or all
cgba+agrest        CGBA       AGREST      l2    binary search, AGREST, DCT 1/4 or all
a-cgba             CGBA       BOTH*       l2    AS, AGREST, DCT 1/4 or all
Maho et al. 2021:
surfree-original   SurFree    ORIGINAL    l2    angle to both sides, half of the DCT
Reza et al. 2023:
cgba-original      CGBA       ORIGINAL    l2    galloping, binary search, signs, DCT 1/4 or all
Chen et al. 2020:
hsja-original      HSJA       ORIGINAL    l2    uniform start, radius by the distance, 100 sqrt(t)
Rahmati et al. 2020:
geoda-original     GeoDA      ORIGINAL    l2    outward walk, split of 4000 queries, signs, DCT 1/3
Debenedetti et al. 2024:
stealthy-hsja      HSJA       STEALTHY    l2    line search in two stages, OPT-style estimate
stealthy-geoda     GeoDA      STEALTHY    l2    uniform start, bias with feedback, DCT 1/4 or all
Ma et al. 2021:
tangent            Tangent    VANILLA     l2    binary search, Monte Carlo, tangent points
a-tangent          Tangent    BOTH*       l2    AS, AGREST, tangent points
Li et al. 2020:
qeba               QEBA       VANILLA     l2    binary search, Monte Carlo, resized 1/4 or 1/2
a-qeba             QEBA       BOTH*       l2    AS, AGREST, resized 1/4 or 1/2
Liu et al. 2019:
qfool              qFool      VANILLA     l2    binary search, Monte Carlo, DCT 1/4 or all
a-qfool            qFool      BOTH*       l2    AS, AGREST, DCT 1/4 or all
Wang et al. 2022:
tria               TriA       VANILLA     l2    two bisections of an angle, single waves, DCT 1/4
a-tria             TriA       AS*         l2    AS of an angle, single waves, DCT 1/4
Wang et al. 2025:
ttba               TtBA       VANILLA     l2    binary search, Monte Carlo, DCT 1/4 or all
a-ttba             TtBA       BOTH*       l2    AS, AGREST, DCT 1/4 or all
Reza et al. 2023:
cgba-h             CGBA-H     VANILLA     l2    binary search, Monte Carlo, DCT 1/4 or all
a-cgba-h           CGBA-H     BOTH*       l2    AS, AGREST, DCT 1/4 or all
Brendel et al. 2018:
boundary           Boundary   VANILLA     l2    noise image, binary search, a walk
a-boundary         Boundary   AS*         l2    noise image, AS, a walk
Dong et al. 2019:
evolutionary       Evolutionary  VANILLA  l2    noise image, binary search, a walk by CMA-ES
a-evolutionary     Evolutionary  AS*      l2    noise image, AS, a walk by CMA-ES
Li et al. 2021:
aha                AHA        VANILLA     l2    noise image, binary search, a walk with a bias
a-aha              AHA        AS*         l2    noise image, AS, a walk with a bias
Cheng et al. 2019:
opt                OPT        VANILLA     l2    binary search, differences of 10 rays
a-opt              OPT        AS*         l2    AS, differences of 10 rays
Debenedetti et al. 2024:
stealthy-opt       OPT        STEALTHY    l2    line search in two stages, differences of 10 rays
Cheng et al. 2020:
sign-opt           Sign-OPT   VANILLA     l2    binary search, signs of 200 rays
a-sign-opt         Sign-OPT   AS*         l2    AS, signs of 200 rays
Debenedetti et al. 2024:
stealthy-sign-opt  Sign-OPT   STEALTHY    l2    line search in two stages, signs of 200 rays
stealthy-rays      RayS       STEALTHY    linf  linf: sign flips, line search of a tenth
Chen, Gu 2020:
rays               RayS       VANILLA     linf  linf: sign flips, binary search
a-rays             RayS       AS*         linf  linf: sign flips, AS
rays-l2            RayS-l2    VANILLA     l2    sign flips, binary search, read in l2
USENIX Security 2026:
dpattack           DPAttack   VANILLA     linf  linf: race of DCT signs by bisection, sign flips
a-dpattack         DPAttack   AS*         linf  linf: race of DCT signs by AS, sign flips
dpattack-l2        DPAttack-l2  VANILLA   l2    race of DCT images by bisection, sign flips
a-dpattack-l2      DPAttack-l2  AS*       l2    race of DCT images by AS, sign flips
Wang et al. 2025:
adba               ADBA       VANILLA     linf  linf: sign flips, compared at common radii
a-adba             ADBA       AS*         linf  linf: sign flips, radii by expected cost
Chen, Jordan, Wainwright 2020:
hsja-linf          HSJA-linf  VANILLA     linf  linf: binary search, Monte Carlo, shrinking delta
a-hsja-linf        HSJA-linf  BOTH*       linf  linf: AS, AGREST
Chen, Zhang, Hu, Wu 2020:
sign-flip          Sign-Flip  VANILLA     linf  linf: binary search, smaller balls, sign flips
a-sign-flip        Sign-Flip  AS*         linf  linf: AS, smaller balls, sign flips
docs/frugal.md:
hsja+calibrated    HSJA       CALIBRATED  l2    binary search, measured overshoot
geoda+calibrated   GeoDA      CALIBRATED  l2    binary search, measured overshoot, DCT 1/4
cgba+calibrated    CGBA       CALIBRATED  l2    binary search, measured overshoot, DCT 1/4 or all
frugal             Frugal     OWN         l2    ray start, optimal search, overshoot, priors
frugal-linf        Frugal-linf  OWN       linf  linf: signs of patterns, flips by expected cost
SeRI, 2026:
cgba+seri          CGBA       RESCALED    l2    as cgba, a fifth of the cost for rescaled blocks
frugal+seri        Frugal     RESCALED    l2    as frugal, a fifth of the cost for rescaled blocks
SAR, 2026:
cgba+sar           CGBA       SAR         l2    as cgba, 3 % of the cost for its weakest blocks
docs/frugal.md:
frugal+surrogate   Frugal     SURROGATE@  l2    as frugal, guided by surrogate networks
ICLR 2025:
prior-opt          Prior-OPT  VANILLA@    l2    binary search, slopes along gradients, 200 signs
a-prior-opt        Prior-OPT  AS*@        l2    AS, slopes along gradients, 200 signs
AAAI 2026:
pars-opt           PARS-OPT   VANILLA@    l2    as prior-opt, with a look-ahead (Nesterov)
a-pars-opt         PARS-OPT   AS*@        l2    as a-prior-opt, with a look-ahead (Nesterov)
Park et al. 2024:
sqba               SQBA       VANILLA@    l2    gradient signs, binary search, Monte Carlo
a-sqba             SQBA       BOTH*@      l2    gradient signs, AS, AGREST
"""
"""Name, family, method (* if complete, @ if it needs a surrogate), norm and parts, below the source
of the settings."""


def _presets() -> Iterator[Preset]:
    source = ""
    for line in _TABLE.strip().splitlines():
        if line.endswith(":"):
            source = line.removesuffix(":")
            continue
        name, family, method, norm, parts = re.split(" {2,}", line)
        how, complete, guided = Method[method.rstrip("*@")], "*" in method, "@" in method
        yield Preset(name, family, how, parts, source, complete, guided, (Metric(norm),))


_ALL = list(_presets())
PRESETS = {each.name: each for each in _ALL if not each.needs_surrogate}
"""The presets that need no surrogate."""
WITH_SURROGATE = {each.name: each for each in _ALL if each.needs_surrogate}


def presets(norm: str | None = None) -> list[str]:
    """Return the names of the presets that need no surrogate: all, or those for one norm."""
    metric = None if norm is None else norm_of(norm)
    return [name for name, each in PRESETS.items() if metric is None or metric in each.norms]


def preset(
    name: str, *, surrogate: Surrogate | nn.Module | str | Sequence[nn.Module | str] | None = None
) -> Attack:
    """Return the attack with that name; change a part with `dataclasses.replace`.

    surrogate: a network or the name of one, or several, for the presets that need one.
    """
    attack: Any = described(name, surrogate is not None).attack
    if surrogate is not None:
        from .surrogates import Surrogate

        given = surrogate if isinstance(surrogate, Surrogate) else Surrogate(surrogate)
        attack = replace(attack, surrogate=given)
    return attack  # type: ignore[no-any-return]


def described(name: str, surrogate: bool | None = False) -> Preset:
    """Return the preset with that name; `surrogate` says whether the caller provides one, or is
    None if that is not to be checked."""
    expected = "the name of a preset; tb.presets() lists them"
    require(isinstance(name, str), "name", name, expected)
    known = {**PRESETS, **WITH_SURROGATE}
    if name not in known:
        raise UnknownNameError("preset", name, known)
    found, given, remedy = known[name], "", ""
    if surrogate is None:
        return found
    if found.needs_surrogate and not surrogate:
        given = f"is missing, and the preset {name!r} needs one"
        expected = "a network, or several"
    elif surrogate and not found.needs_surrogate:
        given, remedy = f"is given, and the preset {name!r} takes none", "leave it out"
        expected = f"it with {', '.join(WITH_SURROGATE)} only"
    if given:
        raise InputError(given, expected=expected, remedy=remedy, input="surrogate")
    return found
