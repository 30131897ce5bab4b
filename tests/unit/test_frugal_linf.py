"""FrugalLinf: which rays are queried, which is kept, and how flips follow."""

from __future__ import annotations

import pytest
import torch
from driver import drive

import tollbox as tb
from tollbox.attacks.frugal.linf import EQUAL, LARGEST_RADIUS, FrugalLinf
from tollbox.attacks.frugal.patterns import is_on_one_side
from tollbox.attacks.frugal.ray_start import EXPENSIVE, KINDS, RADIUS_STEP
from tollbox.attacks.rays import FAST_CHECK
from tollbox.core.metric import Metric
from tollbox.parts.comparisons import PHASE as COMPARE

SHAPE = (3, 16, 16)
GREY = torch.full(SHAPE, 0.5, dtype=torch.float64)
ONES = torch.ones_like(GREY)


def problem_of(ratio=1.0, **more):
    return tb.attack.Problem(GREY, 0, tb.Prices(ratio, 1), norm=Metric.LINF, **more)


def patterns(problem, numbers=range(1, 4)):
    """The signs of the first pattern of each kind."""
    rays = [kind.ray(problem, number) for kind, number in zip(KINDS, numbers, strict=True)]
    return [torch.where(ray < 0, -1.0, 1.0) for ray in rays]


def radius(point):
    return float((point - GREY).abs().max())


def is_along(point, signs):
    return torch.equal(torch.sign(point - GREY), signs.to(point))


def raced(problem, label, tries=12):
    return drive(FrugalLinf(tries)._race(problem), problem, label)


def test_equal_signs_come_first_and_then_those_of_patterns():
    problem = problem_of()
    done = raced(problem, lambda point: 0)
    assert done.returned is None
    assert len(done.points) == 1 + len(KINDS)
    for point, signs in zip(done.points, [ONES, *patterns(problem)], strict=True):
        assert torch.allclose(point, GREY + LARGEST_RADIUS * signs)


@pytest.mark.parametrize("ratio", [1, 10])
@pytest.mark.parametrize("kept", range(4))
def test_the_closest_ray_is_kept(kept, ratio):
    """Adversarial from 0.06 on along one of them, from 0.3 on along the others."""
    problem = problem_of(ratio)
    rays = [ONES, *patterns(problem)]

    def label(point):
        return int(radius(point) >= (0.06 if is_along(point, rays[kept]) else 0.3))

    found = raced(problem, label).returned
    assert torch.equal(found.way, rays[kept])
    assert found.kind == kept
    assert 0.06 <= found.radius <= 0.06 / RADIUS_STEP
    assert found.iterate.distance == pytest.approx(found.radius)


@pytest.mark.parametrize("ratio", [EXPENSIVE - 1, EXPENSIVE])
def test_where_flips_are_cheap_a_pattern_must_be_much_closer(ratio):
    """A pattern is at 0.6 of the radius of equal signs."""
    problem = problem_of(ratio)
    fine = patterns(problem)[0]
    found = raced(problem, lambda x: int(radius(x) >= (0.12 if is_along(x, fine) else 0.2)))
    assert (found.returned.kind == EQUAL) is (ratio < EXPENSIVE)


@pytest.mark.parametrize("ratio", [1, 10, 100])
def test_a_ray_that_is_no_closer_costs_one_flagged_answer(ratio):
    """All rays have the same boundary, so the first is kept, and no change of it is tried."""
    problem = problem_of(ratio)
    done = raced(problem, lambda point: int(radius(point) >= 0.2))
    assert torch.equal(done.returned.way, ONES)
    assert done.labels[-3:] == [0, 0, 0]
    assert [is_along(point, ONES) for point in done.points[-3:]] == [False] * 3
    assert all(is_along(point, ONES) for point in done.points[:-3])


def test_a_pattern_that_wins_is_replaced_on_one_side_of_a_line():
    problem = problem_of()
    fine = patterns(problem)[0]

    def label(point):
        return int(radius(point) >= (0.06 if is_along(point, fine) else 0.3))

    done = raced(problem, label)
    changes = done.points[-8:]
    for number, point in enumerate(changes, 4):
        side = is_on_one_side(problem, number).expand(SHAPE)
        signs = torch.sign(point - GREY)
        assert torch.equal(signs[side], fine[side].to(signs))
        fresh = torch.where(KINDS[0].ray(problem, number) < 0, -1.0, 1.0) if number % 2 else -fine
        assert torch.equal(signs[~side], fresh[~side].to(signs))
        assert 0.05 < float(side.double().mean()) < 0.95


@pytest.mark.parametrize("ratio", [1, EXPENSIVE - 1, EXPENSIVE, 1000])
def test_flips_are_compared_or_searched_by_the_price(ratio):
    """Behind a plane to which a quarter of all signs, the second, is the wrong way."""
    weights = torch.ones(768, dtype=torch.float64)
    weights[192:384] = -1
    model = tb.models.from_callable(
        lambda images: ((images.double() - 0.5).flatten(1) @ weights >= 30).long()
    )
    prices, images = tb.Prices(ratio, 1), GREY[None].float()
    [result] = tb.run(
        FrugalLinf(), model, images, [0], prices=prices, budget=200 * ratio, norm="linf"
    )
    phases = set(result.ledger.by_phase)
    assert (COMPARE in phases) is (ratio < EXPENSIVE)
    assert (FAST_CHECK in phases) is (ratio >= EXPENSIVE)
    assert result.distance == pytest.approx(30 / 768, rel=0.05)  # half of what equal signs reach


@pytest.mark.parametrize("ratio", [1, 100])
def test_where_no_ray_is_adversarial_flips_start_from_afar(ratio):
    """Only beyond the largest radius of the race, and with one half flipped."""
    image = torch.rand(SHAPE, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    wanted = torch.cat([-torch.ones(384), torch.ones(384)]).view(SHAPE)

    def label(point):
        return int(torch.equal(torch.where(point >= image, 1.0, -1.0), wanted))

    model = tb.models.from_callable(
        lambda images: torch.tensor([label(each.double()) for each in images])
    )
    [result] = tb.run(
        FrugalLinf(), model, image[None], [0], prices=tb.Prices(ratio, 1), budget=2000, norm="linf"
    )
    assert result.distance <= 1  # a comparison shrinks the radius only if both are adversarial


@pytest.mark.parametrize("ratio", [1, 100])
def test_from_a_given_start_its_signs_are_flipped_without_a_race(ratio):
    signs, seen = patterns(problem_of())[1], []

    def labels(images):
        seen.extend(images.double())
        return (images.double() - GREY).abs().flatten(1).amax(1).ge(0.1).long()

    [result] = tb.run(
        FrugalLinf(),
        tb.models.from_callable(labels),
        GREY[None].float(),
        [0],
        starts=(GREY + 0.4 * signs)[None].float(),
        prices=tb.Prices(ratio, 1),
        budget=30 * ratio,
        norm="linf",
    )
    assert 0.1 <= result.distance <= 0.102
    moved = [point for point in seen if radius(point) > 1e-6]
    assert is_along(moved[0], signs)
    assert not any(is_along(point, ONES) for point in moved)


def test_signs_stay_within_the_mask():
    mask = torch.zeros(SHAPE[1:], dtype=torch.bool)
    mask[4:9] = True
    problem = problem_of(mask=mask)
    done = raced(problem, lambda point: int(radius(point) >= 0.2))
    assert all(torch.equal(point[:, ~mask], GREY[:, ~mask]) for point in done.points)
