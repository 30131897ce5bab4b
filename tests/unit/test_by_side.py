"""Values that depend on the side of the image: one rule, resolved before anything reads them."""

import dataclasses
import math
import pickle
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from every_preset import attack_of, names

import tollbox as tb
from tollbox import testing
from tollbox.attack import Ask, Asking, Cell, Problem, Stop
from tollbox.attacks.cgba import CGBA
from tollbox.attacks.geoda import GeoDA
from tollbox.core.by_side import BELOW, BySide, at_side, by_side
from tollbox.errors import InputError
from tollbox.parts.estimates import Agrest, MonteCarlo, RelativeRadius
from tollbox.parts.searches import BinarySearch
from tollbox.parts.starts import GrowingNoise, UniformNoise
from tollbox.parts.subspaces import Dct, Full, Resize
from tollbox.studies.fingerprint import settings_of

DOCS = Path(__file__).parents[2] / "docs" / "attacks.md"


def preset(name: str) -> Any:
    return attack_of(name)


def cell(attack: Any, image: torch.Tensor) -> Any:
    return Cell(attack, image, 0, limits=tb.Limits(100))


def found(part: Any, key: str = "") -> dict[str, BySide]:
    """All values of a part that depend on the side, by dotted key."""
    values = {}
    for field in dataclasses.fields(part):
        value, name = getattr(part, field.name), f"{key}{field.name}"
        if isinstance(value, BySide):
            values[name] = value
        elif dataclasses.is_dataclass(value):
            values |= found(value, f"{name}.")
    return values


def test_the_smaller_side_decides() -> None:
    qeba = preset("qeba")
    small, large = (cell(qeba, torch.rand(3, *size)).fitted for size in ((32, 300), (224, 224)))
    assert (small.queries, large.queries) == (30, 100)
    assert (small.start, large.start) == (UniformNoise(), GrowingNoise())
    assert (small.search.tau, large.search.tau) == (1.8e-4, 2.6e-5)
    assert small.estimate.inner.subspace == Resize(2)
    assert large.estimate.inner.subspace == Resize(4)
    at_limit = [at_side(qeba, side).queries for side in (BELOW - 1, BELOW)]
    assert at_limit == [30, 100]
    assert cell(qeba, torch.empty(0)).fitted == large  # a cell without an image


def test_an_attack_without_such_values_is_the_same_object() -> None:
    attack = preset("hsja")
    assert at_side(attack, 32) is attack
    assert cell(attack, torch.rand(3, 8, 8)).fitted is attack


def test_the_papers_rows_are_unchanged_on_large_images() -> None:
    low = MonteCarlo(subspace=Dct(4))
    assert at_side(preset("cgba"), 224) == CGBA(GrowingNoise(), BinarySearch(), low)
    assert at_side(preset("a-cgba"), 224).estimate == Agrest(m=0.06, subspace=Dct(4))
    assert preset("geoda") == GeoDA(GrowingNoise(), BinarySearch(), low)


@pytest.mark.parametrize("name", names())
def test_parts_agree_in_all_forms_of_a_family(name: str) -> None:
    """`a-`, `+as` and `+agrest` have the vanilla attack's values for each size."""
    vanilla = name.removeprefix("a-").removesuffix("+as")
    vanilla = vanilla.removesuffix("+agrest")
    mine, theirs = (
        {key.split(".")[-1]: value for key, value in found(preset(each)).items()}
        for each in (name, vanilla)
    )
    assert mine == theirs


def test_both_values_are_checked() -> None:
    for queries in (by_side(0, 100), by_side(30, 0)):
        with pytest.raises(InputError, match="queries is 0: expected a whole number from 1"):
            replace(preset("cgba"), queries=queries)
    with pytest.raises(InputError, match="growths is 9000: expected fewer"):
        replace(preset("geoda"), growths=by_side(9000, 50))
    with pytest.raises(InputError, match="an estimate that has a delta"):
        RelativeRadius(by_side(BinarySearch(), MonteCarlo()))
    with pytest.raises(InputError, match="below is 0: expected a whole number from 1"):
        by_side(1, 2, below=0)


def test_a_part_can_be_replaced() -> None:
    changed = replace(preset("cgba"), estimate=MonteCarlo(subspace=Full()))
    assert not found(changed)
    twice = by_side(by_side(1, 2, below=10), 3)
    assert [at_side(twice, side) for side in (9, 10, 200)] == [1, 2, 3]


def test_an_object_that_contains_itself_is_left_as_it_is() -> None:
    @dataclass
    class Knot:
        inner: Any = None

    knot = Knot()
    knot.inner = knot
    assert at_side(knot, 32) is knot


def test_the_stored_description_has_the_rule() -> None:
    settings = settings_of("attack", preset("cgba"))
    assert settings["estimate.subspace"] == "Dct"
    assert settings["estimate.subspace below 112 pixels"] == "Full"
    others = settings_of("attack", replace(preset("cgba"), estimate=MonteCarlo(subspace=Dct(4))))
    assert set(settings) - set(others) == {"estimate.subspace below 112 pixels"}
    assert "Dct(factor=4, block=None) (below 112 pixels: Full())" in repr(preset("cgba"))


def queried(attack: Any, side: int) -> list[float]:
    """A run on an image of that side, as the distances of its improvements."""
    boundary = testing.sphere((1, side, side), seed=3)
    [result] = tb.run(attack, boundary.model(), boundary.source[None], [0], budget=150)
    return [row.distance for row in result.improvements]


@pytest.mark.parametrize("name", ["qeba", "cgba", "ttba"])
def test_a_run_uses_the_values_of_its_image(name: str) -> None:
    attack = preset(name)
    for side in (16, 128):
        assert queried(attack, side) == queried(at_side(attack, side), side)
    assert queried(attack, 16) != queried(at_side(attack, math.inf), 16)
    assert queried(attack, 128) != queried(at_side(attack, 0), 128)


def test_another_attack_may_call_a_preset() -> None:
    class Wrapped:
        def __call__(self, problem: Problem) -> Asking[Stop]:
            yield Ask(problem.source[None], phase="own")
            return (yield from preset("cgba")(problem))

    boundary = testing.half_space()
    [result] = tb.run(Wrapped(), boundary.model(), boundary.source[None], [0], budget=200)
    assert result.stop is Stop.BUDGET, result.reason


def test_alone_in_company_and_after_a_pickle() -> None:
    boundary = testing.half_space()
    generator = torch.Generator().manual_seed(5)
    moved = torch.rand((4, *boundary.source.shape), generator=generator, dtype=torch.float64)
    images = boundary.source + (moved - 0.5) / 50

    def distances(attack: Any, images: torch.Tensor, **how: Any) -> list[float]:
        results = tb.run(attack, boundary.model(), images, [0] * len(images), budget=150, **how)
        return [result.distance for result in results]

    attack = preset("cgba")
    together = distances(attack, images)
    assert together == [distances(attack, image[None])[0] for image in images]
    assert together == distances(pickle.loads(pickle.dumps(attack)), images)
    one = cell(attack, images[0])
    assert pickle.loads(pickle.dumps(one)).fitted == one.fitted


def test_the_table_of_the_docs_is_the_catalogue() -> None:
    rows = [line for line in DOCS.read_text().splitlines() if line.startswith("| `")]
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    written = {
        (name, cells[1]): (cells[2], cells[3])
        for cells in rows
        if len(cells) == 5
        for name in re.findall(r"`([^`]+)`", cells[0])
        if name in names() and re.fullmatch("[a-z._]+", cells[1])
    }
    catalogue = {
        (name, key): (short(value.small), short(value.large))
        for name in names()
        for key, value in found(preset(name)).items()
    }
    assert written == catalogue


def short(value: Any) -> str:
    """A value as the docs write it: a part with the fields that are not its defaults."""
    if not dataclasses.is_dataclass(value):
        return repr(value)
    fields = (each for each in dataclasses.fields(value) if each.name == "factor")
    values = ", ".join(f"{getattr(value, each.name):g}" for each in fields)
    return f"{type(value).__name__}({values})"
