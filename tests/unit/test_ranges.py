"""Ranges: every number of every part and attack has one, and what is in it can be run."""

import dataclasses
import math
import typing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from every_preset import attack_of, names

import tollbox as tb
from tollbox import Stop, testing
from tollbox.attacks.adba import ADBA
from tollbox.attacks.aha import AHA
from tollbox.attacks.boundary import BoundaryAttack
from tollbox.attacks.cgba import CGBA, CGBAH
from tollbox.attacks.dpattack import DPAttack, DPAttackL2
from tollbox.attacks.evolutionary import Evolutionary
from tollbox.attacks.frugal.attack import Frugal
from tollbox.attacks.frugal.calibrated import Calibrated
from tollbox.attacks.frugal.linf import FrugalLinf
from tollbox.attacks.frugal.ray_start import RayStart
from tollbox.attacks.geoda import GeoDA, GeoDAOriginal, growing_radii
from tollbox.attacks.hsja import HSJA, QEBA, HSJALinf
from tollbox.attacks.opt import OPT, SignOPT
from tollbox.attacks.prior_opt import PARSOPT, PriorOPT
from tollbox.attacks.qfool import QFool
from tollbox.attacks.rays import RayS, RaySL2
from tollbox.attacks.rescaled import Rescaled
from tollbox.attacks.sign_flip import SignFlip
from tollbox.attacks.sqba import SQBA
from tollbox.attacks.surfree import SurFree
from tollbox.attacks.tangent import Tangent
from tollbox.attacks.triangle import TriA
from tollbox.attacks.ttba import TtBA
from tollbox.core.validation import (
    MAX_DEPTH,
    MAX_LIMIT,
    MAX_VALUE,
    above,
    between,
    check,
    number,
    whole,
)
from tollbox.errors import InputError
from tollbox.parts.blocks import Quarters, Weakest
from tollbox.parts.comparisons import CommonRadius
from tollbox.parts.directions import TernarySpectrum
from tollbox.parts.estimates import (
    AdaptiveRadius,
    Agrest,
    Biased,
    MonteCarlo,
    OptStyle,
    RelativeRadius,
)
from tollbox.parts.paths import Galloping, SignedGrid
from tollbox.parts.priors import Photo, Reweighed, Spectrum, Texture
from tollbox.parts.registry import PARTS
from tollbox.parts.searches import (
    AsymmetricSearch,
    BinarySearch,
    CosineSearch,
    LineSearch,
    OptimalSearch,
    ThetaSearch,
)
from tollbox.parts.starts import GaussianRays, GrowingNoise, NoiseImage, UniformNoise
from tollbox.parts.subspaces import Dct, Resize
from tollbox.studies.study import Study

ATTACKS = {type(attack_of(name)): attack_of(name) for name in names()}
CLASSES = [*(part for kind in PARTS.values() for part in kind), *ATTACKS]

SHARE = ([1e-300, 0.5, math.nextafter(1, 0)], [0, -0.5, 1, 2.0, 1e300], "a number above 0, below 1")
UP_TO_ONE = ([1e-300, 0.5, 1], [0, -0.5, math.nextafter(1, 2)], "a number above 0, up to 1")
LENGTH = (
    [1e-300, 1, MAX_VALUE],
    [0, -1e-9, 1e6 + 1, 1e300],
    "a number above 0, up to 1000000",
)
COUNT = (
    [1, 2, MAX_VALUE],
    [0, -1, MAX_VALUE + 1, 10**12],
    "a whole number from 1 to 1000000",
)
FROM_0 = (
    [0, 1, MAX_VALUE],
    [-1, MAX_VALUE + 1, 10**12],
    "a whole number from 0 to 1000000",
)
HALVED = (
    [1, 2, MAX_DEPTH],
    [0, -1, MAX_DEPTH + 1, 10**12],
    "a whole number from 1 to 1000",
)
LIMIT = (
    [1, 2, MAX_LIMIT],
    [0, -1, MAX_LIMIT + 1, 10**12],
    "a whole number from 1 to 1000000000",
)
FROM_0_TO_1 = ([0, 1e-300, 1], [-1e-9, math.nextafter(1, 2), 1e300], "a number from 0 to 1")
WAVES = ([1, 1.5, MAX_VALUE], [0, 0.99, 1e6 + 1, 1e300], "a number from 1 to 1000000")
TURN = ([1e-8, 0.01, 1], [0, 9e-9, 1.1, 1e300], "a number from 1e-08 to 1")
OR_0 = ([0, 1e-300, MAX_VALUE], [-1e-9, 1e6 + 1, 1e300], "a number from 0 to 1000000")

POWER = ([0, 0.5, 10], [-1e-9, 10.1, 1e300], "a number from 0 to 10")

RANGES: dict[tuple[type, str], tuple[list[float | None], list[float], str]] = {
    (BinarySearch, "tau"): SHARE,
    (AsymmetricSearch, "tau"): SHARE,
    (OptimalSearch, "tau"): SHARE,
    (LineSearch, "tau"): SHARE,
    (LineSearch, "stages"): HALVED,
    (MonteCarlo, "delta"): LENGTH,
    (MonteCarlo, "chunk"): COUNT,
    (Agrest, "delta"): LENGTH,
    (Agrest, "m"): LENGTH,
    (Agrest, "chunk"): COUNT,
    (AdaptiveRadius, "delta"): LENGTH,
    (RelativeRadius, "delta"): LENGTH,
    (RelativeRadius, "power"): POWER,
    (ThetaSearch, "gamma"): LENGTH,
    (ThetaSearch, "power"): POWER,
    (Biased, "delta"): LENGTH,
    (Biased, "bias"): OR_0,
    (Biased, "few"): FROM_0,
    (Biased, "many"): FROM_0,
    (Biased, "shrink"): UP_TO_ONE,
    (Biased, "grow"): ([1, 1.1, 100], [0, 0.99, 100.1, 1e300], "a number from 1 to 100"),
    (Biased, "chunk"): COUNT,
    (Calibrated, "delta"): LENGTH,
    (Calibrated, "chunk"): COUNT,
    (Calibrated, "slack"): FROM_0_TO_1,
    (OptStyle, "directions"): COUNT,
    (OptStyle, "side_by_side"): COUNT,
    (OptStyle, "gamma"): (
        [1e-300, 1e4, MAX_LIMIT],
        [0, -1, 1e300],
        "a number above 0, up to 1000000000",
    ),
    (OptStyle, "widest"): LENGTH,
    (OptStyle, "reach"): UP_TO_ONE,
    (TernarySpectrum, "gamma"): (
        [None, 0, 1e-300, MAX_VALUE],
        [-1e-9, 1e6 + 1, 1e300],
        "a number from 0 to 1000000, or None",
    ),
    (TernarySpectrum, "centre"): FROM_0_TO_1,
    (TernarySpectrum, "floor"): OR_0,
    (TernarySpectrum, "memory"): FROM_0,
    (TernarySpectrum, "dropped"): FROM_0_TO_1,
    (CosineSearch, "gamma"): SHARE,
    (CosineSearch, "most"): HALVED,
    (Galloping, "most"): HALVED,
    (SignedGrid, "largest"): (
        [1e-300, 90, 180],
        [0, -30, 180.1, 1e300],
        "a number above 0, up to 180",
    ),
    (SignedGrid, "rho"): UP_TO_ONE,
    (SignedGrid, "grid"): HALVED,
    (GrowingNoise, "step"): LENGTH,
    (GrowingNoise, "levels"): COUNT,
    (NoiseImage, "tries"): COUNT,
    (UniformNoise, "tries"): COUNT,
    (UniformNoise, "tau"): SHARE,
    (GaussianRays, "directions"): COUNT,
    (GaussianRays, "tries"): COUNT,
    (RayStart, "tries"): COUNT,
    (Spectrum, "cut"): WAVES,
    (Spectrum, "grey"): FROM_0_TO_1,
    (Texture, "power"): ([0, 1.5, 10], [-1e-9, 10.1, 1e300], "a number from 0 to 10"),
    (Texture, "window"): UP_TO_ONE,
    (Texture, "cut"): WAVES,
    (Photo, "texture"): FROM_0_TO_1,
    (Photo, "low"): WAVES,
    (Photo, "high"): WAVES,
    (Reweighed, "cut"): WAVES,
    (Reweighed, "low"): WAVES,
    (Reweighed, "high"): WAVES,
    (Dct, "factor"): ([1, 1.5, 1e300], [0, 0.99, -4], "a finite number of 1 or more"),
    (Dct, "block"): ([None, 1, 10**12], [0, -8], "a whole number of 1 or more, or None"),
    (Resize, "factor"): ([1, 1.5, 1e300], [0, 0.99, -4], "a finite number of 1 or more"),
    (HSJA, "queries"): COUNT,
    (HSJA, "halvings"): HALVED,
    (HSJA, "blind_limit"): LIMIT,
    (HSJA, "iterations"): LIMIT,
    (HSJALinf, "queries"): COUNT,
    (HSJALinf, "halvings"): HALVED,
    (HSJALinf, "blind_limit"): LIMIT,
    (HSJALinf, "iterations"): LIMIT,
    (RayS, "least_left"): FROM_0_TO_1,
    (RayS, "starts"): COUNT,
    (RayS, "levels"): HALVED,
    (RaySL2, "starts"): COUNT,
    (RaySL2, "levels"): HALVED,
    **{
        (made, name): allowed
        for made in (DPAttack, DPAttackL2)
        for name, allowed in (
            ("doublings", HALVED),
            ("chroma", OR_0),
            ("shrinkage", SHARE),
            ("rounds", HALVED),
            ("starts", COUNT),
            ("passes", LIMIT),
        )
    },
    (GeoDA, "queries"): COUNT,
    (GeoDA, "growth"): (
        [math.nextafter(1, 2), 1.5, 4],
        [1, 0.9, 0, -2, 1e300],
        "a number above 1, up to 1000000",
    ),
    (GeoDA, "growths"): ([1, 50, 725], [0, -1, 10**12], "a whole number from 1 to 1000000"),
    (GeoDA, "blind_limit"): LIMIT,
    (GeoDA, "iterations"): LIMIT,
    (CGBA, "queries"): COUNT,
    (CGBA, "blind_limit"): LIMIT,
    (CGBA, "iterations"): LIMIT,
    (SurFree, "iterations"): LIMIT,
    (BoundaryAttack, "steps"): LIMIT,
    (BoundaryAttack, "orthogonal_step"): (
        [1e-300, 1, 1000],
        [0, -1e-9, 1000.1, 1e300],
        "a number above 0, up to 1000",
    ),
    (BoundaryAttack, "source_step"): SHARE,
    (BoundaryAttack, "adaptation"): (
        [math.nextafter(1, 2), 1.5, MAX_VALUE],
        [1, 0.9, 0, -2, 1e300],
        "a number above 1, up to 1000000",
    ),
    (BoundaryAttack, "convergence"): UP_TO_ONE,
    (BoundaryAttack, "check_every"): COUNT,
    (BoundaryAttack, "orthogonal_window"): COUNT,
    (BoundaryAttack, "source_window"): COUNT,
    (Evolutionary, "steps"): LIMIT,
    (Evolutionary, "mu"): SHARE,
    (Evolutionary, "sigma"): LENGTH,
    (Evolutionary, "c_c"): UP_TO_ONE,
    (Evolutionary, "c_cov"): UP_TO_ONE,
    (Evolutionary, "every"): HALVED,
    (Evolutionary, "fewer"): COUNT,
    (AHA, "steps"): LIMIT,
    (AHA, "alpha"): SHARE,
    (AHA, "beta"): LENGTH,
    (AHA, "m"): SHARE,
    (AHA, "every"): COUNT,
    (AHA, "block"): COUNT,
    (SignFlip, "steps"): LIMIT,
    (SignFlip, "alpha"): SHARE,
    (SignFlip, "flips"): SHARE,
    (SignFlip, "every"): COUNT,
    (SignFlip, "factor"): WAVES,
    (OPT, "directions"): HALVED,
    (OPT, "alpha"): LENGTH,
    (OPT, "beta"): TURN,
    (OPT, "iterations"): LIMIT,
    (SignOPT, "queries"): COUNT,
    (SignOPT, "alpha"): LENGTH,
    (SignOPT, "beta"): TURN,
    (SignOPT, "chunk"): COUNT,
    (SignOPT, "iterations"): LIMIT,
    **{
        (made, name): allowed
        for made in (PriorOPT, PARSOPT)
        for names_of, allowed in (
            (("queries",), COUNT),
            (("alpha", "longest"), LENGTH),
            (("beta",), TURN),
            (("iterations",), LIMIT),
        )
        for name in names_of
    },
    (SQBA, "halvings"): HALVED,
    (SQBA, "shortest"): ([0, 1, MAX_VALUE], [-1e-9, 1e6 + 1, 1e300], "a number from 0 to 1000000"),
    (SQBA, "sign_images"): FROM_0,
    **{
        (made, name): allowed
        for made in (QEBA, QFool, CGBAH, TtBA, GeoDAOriginal, SQBA, Tangent)
        for name, allowed in (("queries", COUNT), ("blind_limit", LIMIT), ("iterations", LIMIT))
    },
    (QEBA, "halvings"): HALVED,
    (Tangent, "halvings"): HALVED,
    (CGBAH, "halvings"): HALVED,
    (QFool, "epsilon"): SHARE,
    (QFool, "rounds"): COUNT,
    (QFool, "steps"): COUNT,
    (GeoDAOriginal, "mu"): SHARE,
    (GeoDAOriginal, "epsilon"): LENGTH,
    (GeoDAOriginal, "steps"): COUNT,
    (TtBA, "bins"): ([2, 3, MAX_VALUE], [1, 0, -1, 10**12], "a whole number from 2 to 1000000"),
    (TriA, "rise"): FROM_0_TO_1,
    (TriA, "fall"): FROM_0_TO_1,
    (TriA, "reach"): UP_TO_ONE,
    (TriA, "patience"): LIMIT,
    (TriA, "iterations"): LIMIT,
    (Rescaled, "share"): SHARE,
    (Rescaled, "stretch"): LENGTH,
    (Quarters, "smaller"): FROM_0_TO_1,
    (Quarters, "larger"): WAVES,
    (Weakest, "size"): COUNT,
    (Weakest, "factor"): FROM_0_TO_1,
    (CommonRadius, "tau"): SHARE,
    (CommonRadius, "rounds"): HALVED,
    (ADBA, "starts"): COUNT,
    (ADBA, "levels"): HALVED,
    (Frugal, "reweighing_period"): FROM_0,
    (Frugal, "reweighing_information"): WAVES,
    (Frugal, "relative_delta"): FROM_0_TO_1,
    (Frugal, "tail"): FROM_0_TO_1,
    (Frugal, "schedule"): FROM_0,
    (Frugal, "plan"): (
        [None, 1e-300, 1, 1000],
        [0, -1, 1000.1, 1e300],
        "a number above 0, up to 1000, or None",
    ),
    (Frugal, "chunk"): COUNT,
    (Frugal, "iterations"): LIMIT,
    (FrugalLinf, "tries"): COUNT,
}
"""Of every number: values that are allowed, values that are not, and what is expected."""
GOOD_REASONS = (
    *(Stop.BUDGET, Stop.ITERATIONS, Stop.NO_INFORMATION, Stop.NO_START),
    Stop.CONVERGED,
)
NEVER = (math.nan, math.inf, -math.inf, -1, -1e300, "1", [])

EACH = [
    pytest.param(made, field, *row, id=f"{made.__name__}.{field}")
    for (made, field), row in RANGES.items()
]


def built(made: type, **changes: Any) -> Any:
    """A part with its defaults, or an attack with the parts of a preset, and some fields."""
    if made in ATTACKS:
        attack: Any = ATTACKS[made]
        return dataclasses.replace(attack, **changes)
    return made(**changes)


def numbers_of(made: type) -> list[str]:
    """The fields that are numbers."""
    hints = typing.get_type_hints(made)
    kinds = {f.name: typing.get_args(hints[f.name]) or (hints[f.name],) for f in fields(made)}
    return [name for name, kind in kinds.items() if {int, float} & set(kind)]


def fields(made: Any) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(made)


def test_every_number_is_in_the_table() -> None:
    assert {(made, name) for made in CLASSES for name in numbers_of(made)} == set(RANGES)


@pytest.mark.parametrize("made", CLASSES, ids=lambda made: made.__name__)
def test_every_number_has_a_range(made: type) -> None:
    """Whoever adds a number to a part says what it may be."""
    for name in numbers_of(made):
        for value in NEVER:
            with pytest.raises(InputError, match=rf"^{name} is .*: expected .*\.$"):
                built(made, **{name: value})


@pytest.mark.parametrize(("made", "field", "good", "bad", "expected"), EACH)
def test_ranges(made: type, field: str, good: list[Any], bad: list[Any], expected: str) -> None:
    for value in good:
        assert getattr(built(made, **{field: value}), field) == value
    for value in bad:
        with pytest.raises(InputError) as error:
            built(made, **{field: value})
        shown = str(value)
        assert str(error.value) == f"{field} is {shown}: expected {expected}."


@pytest.mark.parametrize("preset", names())
def test_every_preset_can_be_built_again(preset: str) -> None:
    def again(part: Any) -> Any:
        values = {field.name: getattr(part, field.name) for field in fields(part)}
        return type(part)(
            **{k: again(v) if dataclasses.is_dataclass(v) else v for k, v in values.items()}
        )

    assert again(attack_of(preset)) == attack_of(preset)


PLACES: dict[type, tuple[str, str]] = {
    BinarySearch: ("hsja", "search"),
    AsymmetricSearch: ("a-cgba", "search"),
    OptimalSearch: ("a-geoda", "search"),
    LineSearch: ("stealthy-hsja", "search"),
    MonteCarlo: ("cgba", "estimate"),
    Agrest: ("a-cgba", "estimate"),
    ThetaSearch: ("hsja-original", "search"),
    AdaptiveRadius: ("qfool", "estimate"),
    RelativeRadius: ("qeba", "estimate"),
    Biased: ("stealthy-geoda", "estimate"),
    OptStyle: ("stealthy-hsja", "estimate"),
    TernarySpectrum: ("surfree", "directions"),
    Galloping: ("cgba-original", "sweep"),
    Quarters: ("cgba+seri", "blocks"),
    Weakest: ("cgba+sar", "blocks"),
    CommonRadius: ("cgba+seri", "comparison"),
    SignedGrid: ("surfree-original", "sweep"),
    CosineSearch: ("surfree-original", "arc_search"),
    GrowingNoise: ("cgba", "start"),
    NoiseImage: ("boundary", "start"),
    UniformNoise: ("stealthy-hsja", "start"),
    GaussianRays: ("opt", "start"),
    Calibrated: ("cgba+calibrated", "estimate"),
    RayStart: ("frugal", "start"),
    Spectrum: ("frugal", "prior"),
    Texture: ("frugal", "prior"),
    Photo: ("frugal", "prior"),
    Reweighed: ("frugal", "reweighing_prior"),
}


@pytest.mark.parametrize(("made", "field", "good", "bad", "expected"), EACH)
def test_what_is_allowed_can_be_run(
    made: type, field: str, good: list[Any], bad: list[Any], expected: str
) -> None:
    """Ends of a range too: in float32, to the end of a budget or another good reason."""
    boundary = testing.half_space(0.2, (1, 8, 8))
    model = tb.models.from_callable(boundary.labels)
    for value in good:
        part = built(made, **{field: value})
        if made in (Dct, Resize):
            attack: Any = dataclasses.replace(ATTACKS[CGBA], estimate=MonteCarlo(subspace=part))
        elif made in ATTACKS:
            attack = part
        else:
            preset, place = PLACES[made]
            if issubclass(made, (MonteCarlo, Agrest, Biased, Calibrated)):
                part = dataclasses.replace(part, subspace=Dct(2))
            attack = dataclasses.replace(tb.preset(preset), **{place: part})  # type: ignore[type-var]
        if isinstance(attack, Rescaled) and field != "stretch":
            attack = dataclasses.replace(attack, stretch=100.0)
        [result] = tb.run(
            attack,
            model,
            boundary.source[None].float(),
            [0],
            prices=tb.Prices(2),
            budget=400,
            norm=attack.metrics[0],
        )
        assert result.stop in GOOD_REASONS


def test_geoda_asks_at_no_radius_that_overflows() -> None:
    """growth ** k is soon more than a float32 can hold, and then more than a float."""
    geoda: Any = ATTACKS[GeoDA]
    says = r"^growths is 50: expected fewer, or a growth below 10, so that growth \*\* "
    with pytest.raises(InputError, match=says):
        dataclasses.replace(geoda, growth=10)
    with pytest.raises(InputError, match=r"^growths is 10000: expected fewer, or a growth below"):
        dataclasses.replace(geoda, growths=10_000)
    step = torch.tensor([[[1e4, 1e-4, 0.0]]])
    for growth, growths in ((10.0, 31), (1.1, 725), (1e6, 6), (1.0001, MAX_VALUE // 2)):
        dataclasses.replace(geoda, growth=growth, growths=growths)
        rows = growing_radii(torch.zeros_like(step), step, growth, growths)
        assert rows[growths - 1 : growths].tolist() == [[[[1, 1, 0]]]]


@dataclasses.dataclass(frozen=True)
class Part:
    share: Any = 0.5
    reach: Any = 1
    weight: Any = 0
    count: Any = 1

    def __post_init__(self) -> None:
        check(self, share=between(0, 1), reach=above(0, 2.5), weight=number(0), count=whole(1))


def test_numbers_of_any_kind_are_numbers() -> None:
    Part(np.float32(0.5), np.int64(1), np.float64(0), np.int64(3))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"share": 0}, "share is 0: expected a number above 0, below 1."),
        ({"share": -0.0}, "share is -0.0: expected a number above 0, below 1."),
        ({"share": 0.1 + 0.9}, "share is 1.0: expected a number above 0, below 1."),
        ({"share": "0.5"}, "share is '0.5': expected a number above 0, below 1."),
        ({"reach": 2.5000001}, "reach is 2.5000001: expected a number above 0, up to 2.5."),
        ({"weight": math.inf}, "weight is inf: expected a finite number of 0 or more."),
        ({"weight": math.nan}, "weight is nan: expected a finite number of 0 or more."),
        ({"count": 3.0}, "count is 3.0: expected a whole number of 1 or more."),
        ({"count": None}, "count is None: expected a whole number of 1 or more."),
        ({"weight": -1, "count": 0}, "weight is -1: expected a finite number of 0 or more."),
    ],
)
def test_messages(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as error:
        Part(**changes)
    assert str(error.value) == says


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            "search.tau = 0",
            "search.tau in [[attacks]] number 1 is 0.0: expected a number above 0, ",
        ),
        (
            "search.tau = inf",
            "search.tau in [[attacks]] number 1 is inf: expected a number above 0",
        ),
        (
            "start.levels = -3",
            "start.levels in [[attacks]] number 1 is -3: expected a whole number",
        ),
        ("estimate.m = 0.0", "estimate.m in [[attacks]] number 1 is 0.0: expected a number above"),
        (
            "iterations = 0",
            "iterations in [[attacks]] number 1 is 0: expected a whole number from 1 to 1000000000",
        ),
    ],
)
def test_a_study_tells_the_key_and_the_line(line: str, says: str) -> None:
    text = f"""\
prices = [1]
budget = 10
[images]
path = "set.npz"
[[models]]
source = "a:b"
[[attacks]]
preset = "a-cgba"
blind_limit = 3
{line}
"""
    with pytest.raises(InputError) as error:
        Study.from_text(text, Path(), "study.toml", files=False)
    assert str(error.value).startswith("study.toml, line 10: ")
    assert says in str(error.value)
