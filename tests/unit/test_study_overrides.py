"""Overrides: a field of any part of any preset by its dotted key, and nothing else changes."""

import dataclasses
import inspect
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tollbox as tb
from tollbox.attacks import transfer_start
from tollbox.attacks.frugal import calibrated
from tollbox.attacks.frugal import ray_start as inward
from tollbox.attacks.frugal.calibrated import Calibrated
from tollbox.attacks.frugal.ray_start import RayStart
from tollbox.core.by_side import BySide, at_side, by_side
from tollbox.errors import InputError
from tollbox.parts import (
    blocks,
    comparisons,
    directions,
    estimates,
    paths,
    priors,
    searches,
    starts,
    subspaces,
)
from tollbox.parts import starts as gaussian_rays
from tollbox.parts.estimates import Agrest, OptStyle
from tollbox.parts.paths import Galloping
from tollbox.parts.priors import Photo, Reweighed, Spectrum
from tollbox.parts.registry import PARTS
from tollbox.parts.searches import AsymmetricSearch, LineSearch, OptimalSearch
from tollbox.parts.subspaces import Dct, Full, Resize
from tollbox.studies.overrides import PART
from tollbox.studies.study import Study

HEAD = """\
prices = [{ratio = 1, budget = 10}]
[images]
path = "set.npz"
[[models]]
source = "a:b"
[[attacks]]
"""


def built(preset: str, *lines: str) -> Any:
    """The attack of a study with these lines below its preset, which stands on line 8."""
    norm = tb.preset(preset).metrics[0] if preset in tb.presets() else "l2"
    text = "\n".join((f'norm = "{norm}"\n{HEAD}preset = "{preset}"', *lines))
    [spec] = Study.from_text(text, Path(), "study.toml", files=False).attacks
    return spec.attack


def refused(preset: str, *lines: str) -> str:
    with pytest.raises(InputError) as error:
        built(preset, *lines)
    return str(error.value)


def fields_of(part: Any, key: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every field that is no part, of a part and of its parts, for large images: (key, value)."""
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        value = value.large if isinstance(value, BySide) else value
        if dataclasses.is_dataclass(value):
            yield from fields_of(value, (*key, field.name))
        else:
            yield (*key, field.name), value


def kind_of(attack: Any, key: tuple[str, ...]) -> Any:
    for name in key[:-1]:
        attack = getattr(attack, name)
        attack = attack.large if isinstance(attack, BySide) else attack
    return typing.get_type_hints(type(attack))[key[-1]]


EVERY = [
    pytest.param(name, key, value, id=f"{name}:{'.'.join(key)}")
    for name in tb.presets()
    for key, value in fields_of(tb.preset(name))
    if key[-1] != "surrogate"  # which a preset of its own takes
]


def test_there_are_fields_of_all_types() -> None:
    kinds = {kind_of(tb.preset(p.values[0]), p.values[1]) for p in EVERY}
    assert {float, int, bool, str} <= kinds
    assert {p.values[0] for p in EVERY} == set(tb.presets())


@pytest.mark.parametrize(("preset", "key", "value"), EVERY)
def test_every_field_of_every_preset(preset: str, key: tuple[str, ...], value: Any) -> None:
    kind = kind_of(tb.preset(preset), key)
    wanted: Any = {int: 77, bool: value is False, str: "other"}.get(kind, 5)
    if kind == float | None:
        wanted = 5.0
    if kind is float:
        wanted = (value or 0.5) * 1.0078125  # in the range of each
    written = str(wanted).lower() if kind is bool else repr(wanted)
    before = dict(fields_of(tb.preset(preset)))
    after = dict(fields_of(built(preset, f"{'.'.join(key)} = {written}")))
    assert before[key] != wanted
    assert after == {**before, key: wanted}
    assert type(after[key]) is type(wanted)
    nested = [f"[attacks.{'.'.join(key[:-1])}]"] if key[1:] else []
    assert dict(fields_of(built(preset, *nested, f"{key[-1]} = {written}"))) == after


@pytest.mark.parametrize(("preset", "key", "value"), EVERY)
def test_every_field_refuses_what_is_not_of_its_type(
    preset: str, key: tuple[str, ...], value: Any
) -> None:
    kind, name = kind_of(tb.preset(preset), key), ".".join(key)
    wrong = {
        float: ['"1"', "true", "nan", "[1.0]", "{}"],
        float | None: ['"1"', "true", "nan", "[1.0]", "{}"],
        bool: ["1", '"true"', "0.0"],
        str: ["1", "true", '""'],
    }.get(kind, ["1.0", "true", '"1"', "inf"])
    for text in wrong:
        message = refused(preset, f"{name} = {text}")
        assert message.startswith(f"study.toml, line 9: {name} in [[attacks]] number 1 is ")
        assert ": expected " in message


def test_floats_take_whole_numbers_and_come_out_as_floats() -> None:
    factor = built("cgba", "estimate.subspace.factor = 8").estimate.subspace.factor
    assert (factor, type(factor)) == (8.0, float)


def test_parts_are_replaced_with_their_defaults() -> None:
    attack = built("a-cgba", 'search.part = "OptimalSearch"')
    assert attack == dataclasses.replace(tb.preset("a-cgba"), search=OptimalSearch())
    attack = built("a-cgba", "search.tau = 1e-3", 'search.part = "LineSearch"', "search.stages = 2")
    assert attack.search == LineSearch(tau=1e-3, stages=2)
    lines = ["[attacks.estimate]", "m = 0.5", 'part = "Agrest"', 'subspace.part = "Dct"']
    attack = built("cgba", *lines, "subspace.block = 8", "[attacks.sweep]", 'part = "Galloping"')
    assert attack == dataclasses.replace(
        tb.preset("cgba"), estimate=Agrest(m=0.5, subspace=Dct(block=8)), sweep=Galloping()
    )


def test_the_part_that_is_there_starts_from_its_defaults_too() -> None:
    low = by_side(Full(), Dct(4))
    assert tb.preset("a-cgba").estimate == Agrest(m=0.06, subspace=low)  # type: ignore[attr-defined]
    assert built("a-cgba", 'estimate.part = "Agrest"').estimate == Agrest()
    changed = built("a-cgba", "estimate.chunk = 9").estimate
    assert changed == Agrest(m=0.06, chunk=9, subspace=low)


def test_a_value_that_depends_on_the_size_is_replaced_for_all_sizes() -> None:
    assert tb.preset("qeba").queries == by_side(30, 100)  # type: ignore[attr-defined]
    attack = built("qeba", "queries = 50", "search.tau = 0.5", "estimate.inner.subspace.factor = 3")
    assert [at_side(attack, side).queries for side in (32, 224)] == [50, 50]
    assert attack.search.tau == 0.5
    assert attack.start == tb.preset("qeba").start  # type: ignore[attr-defined]
    assert attack.estimate.inner.subspace == Resize(3)
    assert built("cgba", "estimate.subspace.block = 8").estimate.subspace == Dct(4, block=8)
    small = built("cgba", 'estimate.subspace.part = "Full"').estimate.subspace
    assert small == Full()


def test_a_part_inside_a_part() -> None:
    attack = built("stealthy-hsja", 'estimate.search.part = "AsymmetricSearch"')
    assert attack.estimate == OptStyle(search=AsymmetricSearch())
    attack = built("stealthy-hsja", "estimate.search.tau = 0.25")
    assert attack.estimate.search == LineSearch(0.25, relative=True, stages=2, phase="estimate")
    assert attack.search == LineSearch(1e-4, relative=True, stages=2)


def test_parts_of_frugal_and_what_it_is_made_of() -> None:
    attack = built(
        "frugal", 'prior.part = "Spectrum"', "prior.cut = 9", 'reweighing_prior.part = "Dct"'
    )
    assert attack == dataclasses.replace(
        tb.preset("frugal"), prior=Spectrum(cut=9.0), reweighing_prior=Dct()
    )
    attack = built(
        "frugal", "start.tries = 3", "prior.texture = 0", "reweighing_prior.low = 2", "plan = 7"
    )
    wanted = {
        "start": RayStart(3),
        "prior": Photo(texture=0.0),
        "reweighing_prior": Reweighed(low=2.0),
    }
    assert attack == dataclasses.replace(tb.preset("frugal"), plan=7.0, **wanted)
    lines = [
        'estimate.part = "Calibrated"',
        "estimate.slack = 0",
        'estimate.subspace.part = "Photo"',
    ]
    assert built("cgba", *lines).estimate == Calibrated(slack=0.0, subspace=Photo())
    assert built("a-hsja", 'start.part = "RayStart"').start == RayStart()


def test_a_preset_is_never_changed() -> None:
    before = repr(tb.preset("a-cgba"))
    built("a-cgba", "search.tau = 0.5", "queries = 3", "estimate.subspace.factor = 9")
    assert repr(tb.preset("a-cgba")) == before


REFUSED = [
    ('search.part = "OptimalSerch"', ["unknown search part 'OptimalSerch'", "'OptimalSearch'"]),
    ('search.part = "Agrest"', ["unknown search part 'Agrest'", "Known: AsymmetricSearch"]),
    ('search.part = "Split"', ["unknown search part 'Split'"]),
    (
        'start.part = "Pool"',
        [
            "unknown start part 'Pool'",
            "Known: GaussianRays, GrowingNoise, NoiseImage, RayStart",
        ],
    ),
    ("search.part = 3", ["search.part in [[attacks]] number 1 is 3", "the name of a part, one of"]),
    ('search = "OptimalSearch"', ["search in [[attacks]]", "search.part = 'BinarySearch'"]),
    ("search = []", ["search in [[attacks]] number 1 is an empty list", "a table of its fields"]),
    ("search.tau.x = 3", ["search.tau in [[attacks]] number 1 is a table", "expected a number"]),
    ("estimate.subspace.factr = 3", ["unknown field of Dct 'factr'", "did you mean 'factor'"]),
    ('estimate.part = "Agrest"\nestimate.subspace.factor = 3', ["unknown field of Full 'factor'"]),
    (
        "search.stages = 3",
        ["unknown field of AsymmetricSearch 'stages'", "Known: part, rel"],
    ),
    ('part = "HSJA"', ["unknown field of CGBA 'part'"]),
    ("rows = 3", ["unknown field of CGBA 'rows'", "Known: blind_limit"]),
    ("search.seeds = [1]", ["seeds stands in search in [[attacks]] number 1", "top of the file"]),
    ("queries = 9223372036854775808", ["queries in [[attacks]] number 1 is 92", "64 bits"]),
]


@pytest.mark.parametrize(("lines", "says"), REFUSED)
def test_refused(lines: str, says: list[str]) -> None:
    message = refused("a-cgba", *lines.split("\n"))
    line = 8 + len(lines.split("\n"))
    assert message.startswith(f"study.toml, line {line}: ")
    for fragment in says:
        assert fragment in message


def test_what_a_part_itself_refuses_is_told_with_its_key() -> None:
    lines = ["estimate.delta = 0.5", "estimate.subspace.block = 8", "estimate.subspace.factor = 0"]
    assert refused("a-cgba", *lines) == (
        "study.toml, line 11: estimate.subspace.factor in [[attacks]] number 1 is 0.0: expected "
        "a finite number of 1 or more."
    )
    lines = ["[attacks.directions.subspace]", "factor = 2", "block = 0"]
    assert refused("surfree", *lines) == (
        "study.toml, line 11: directions.subspace.block in [[attacks]] number 1 is 0: expected a "
        "whole number of 1 or more, or None."
    )


@pytest.mark.parametrize("kind", PARTS, ids=lambda kind: kind.__name__)
def test_every_part_can_take_the_place_of_its_kind(kind: Any) -> None:
    places = [
        ("a-cgba", starts.Start, "start"),
        ("a-cgba", searches.Search, "search"),
        ("a-cgba", estimates.Estimate, "estimate"),
        ("a-cgba", paths.Sweep, "sweep"),
        ("surfree", directions.Directions, "directions"),
        ("surfree", subspaces.Subspace, "directions.subspace"),
        ("frugal", subspaces.Prior, "prior"),
        ("adba", comparisons.Comparison, "comparison"),
        ("cgba+seri", blocks.Blocks, "blocks"),
    ]
    [(preset, _, key)] = [place for place in places if place[1] is kind]
    for part in PARTS[kind]:
        lines = [f'{key}.part = "{part.__name__}"']
        lines += ['surrogate = "timm:resnet18"'] * hasattr(part(), "surrogate")
        attack = built(preset, *lines)
        for name in key.split("."):
            attack = getattr(attack, name)
        assert attack == part()
        assert type(attack) is part


def test_every_part_of_ours_is_known() -> None:
    """Whoever adds a part registers it, unless it takes more than numbers and words."""
    not_parts = {"Tolerance", "SplitRule", "OptimalRule", "Pool", "Drawing", "Sampling", "Circle"}
    modules = [starts, searches, estimates, subspaces, directions, paths, blocks, comparisons]
    modules += [calibrated, gaussian_rays, inward, priors, transfer_start]
    found = {
        name
        for module in modules
        for name, made in inspect.getmembers(module, inspect.isclass)
        if dataclasses.is_dataclass(made)
        and made.__module__ == module.__name__
        and not name.startswith("_")
    }
    assert found - not_parts == {part.__name__ for kind in PARTS.values() for part in kind}


def test_no_field_has_the_name_of_a_key() -> None:
    attacks = [type(tb.preset(name)) for name in tb.presets()]
    names = {field.name for attack in attacks for field in dataclasses.fields(attack)}
    assert not names & {"preset", "name", PART}
    parts = [part for kind in PARTS.values() for part in kind]
    assert all(field.name != PART for part in parts for field in dataclasses.fields(part))
