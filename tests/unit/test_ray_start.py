"""RayStart: which rays are queried, what that costs, and which is kept."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import pytest
import torch
from driver import drive

import tollbox as tb
from tollbox import testing
from tollbox.attacks.frugal.patterns import blend, half, spotlight
from tollbox.attacks.frugal.ray_start import (
    CLOSE,
    KINDS,
    LARGEST_RADIUS,
    LAST_BINS,
    PATIENCE,
    RADIUS_STEP,
    SMALLEST_RADIUS,
    SMOOTH,
    RayStart,
)
from tollbox.core.ask import Iterate
from tollbox.core.by_side import at_side
from tollbox.core.stop import Stop
from tollbox.theory.search_costs import optimal_splits

SHAPE = (3, 16, 16)
GREY = torch.full(SHAPE, 0.5, dtype=torch.float64)
SCALE = math.sqrt(768)


def norm(a):
    return float(torch.linalg.vector_norm(a))


def cosine(a, b):
    return float((a * b).sum()) / (norm(a) * norm(b))


def begun(label, ratio=1.0, tries=24, source=GREY, **more):
    problem = tb.attack.Problem(source, 0, tb.Prices(ratio, 1), **more)
    return problem, drive(RayStart(tries)(problem), problem, label)


def first_ways(problem):
    """The first rays, one of each kind."""
    return [kind.ray(problem, number) for number, kind in enumerate(KINDS)]


def is_along(point, way, least=0.99):
    away = point - GREY
    return float((away * way).sum()) > least * max(norm(away), 1e-9) * norm(way)


def outside(radius):
    """Adversarial at a distance: the same on every ray."""
    return lambda point: int(norm(point - GREY) >= radius)


def searched(count, cell, ratio):
    """The answers of a search that is cheapest on average, if the boundary is in a cell."""
    table = optimal_splits(max(2, 1 << (count - 1).bit_length()), ratio)
    low, high, said = 0, count, []
    while high - low > 1:
        place = low + int(table.first[high - low])
        said.append(int(place <= cell))
        low, high = (place, high) if place <= cell else (low, place)
    return said


@pytest.mark.parametrize("ratio", [1, 10, 100])
@pytest.mark.parametrize("radius", [0.4, 1.7])
def test_a_ray_that_is_no_better_costs_one_flagged_answer(ratio, radius):
    """One cheap answer at the far end, the search of the first ray, a flagged answer for every
    other, and the search of the last step: to the query."""
    _, done = begun(outside(radius), ratio)
    count = math.ceil(math.log(SMALLEST_RADIUS / LARGEST_RADIUS) / math.log(RADIUS_STEP))
    step = math.log(LARGEST_RADIUS / SMALLEST_RADIUS) / count
    cell = int(math.log(LARGEST_RADIUS * SCALE / radius) / step)
    others = math.ceil(24 / (1 + math.log10(ratio))) - 1
    best = LARGEST_RADIUS * SCALE * math.exp(-step * cell)
    last = int(math.log(best / radius) / -math.log(RADIUS_STEP) * LAST_BINS)
    wanted = [1, *searched(count, cell, ratio), *[0] * others, *searched(LAST_BINS, last, ratio)]
    assert best * RADIUS_STEP < radius  # which is what drops the others
    assert done.labels == wanted
    assert done.phases == {"start"}
    found = done.returned
    assert radius <= found.distance < radius / (1 - RayStart.tolerance) * (1 + 1e-9)
    assert found.distance == pytest.approx(norm(found.point - GREY))
    assert any(torch.equal(found.point, point) for point in done.points)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("ratio", [1, 10])
def test_the_closest_of_the_first_rays_is_kept(ratio, seed):
    """Behind a plane every ray has its own distance, 0.3 / <ray, normal>. What is kept is the
    closest, or one that it does not undercut by more than a step. With three tries, none of them is
    a change."""
    ways = first_ways(tb.attack.Problem(GREY, 0, seed=seed))
    shares = torch.rand(len(ways), generator=torch.Generator().manual_seed(seed))
    normal = sum(share * way for share, way in zip(shares, ways, strict=True))
    normal = normal / norm(normal)

    def label(point):
        return int(((point - GREY) * normal).sum() >= 0.3)

    problem, done = begun(label, ratio, 6 if ratio == 10 else 3, seed=seed)
    heights = [float((way * normal).sum()) for way in first_ways(problem)]
    radii = [0.3 / height if height > 0 else math.inf for height in heights]
    assert min(radii) < LARGEST_RADIUS * SCALE / 3  # no points are clipped there
    found = done.returned
    unit = (found.point - GREY) / found.distance
    [kept] = [k for k, way in enumerate(first_ways(problem)) if torch.allclose(unit, way)]
    assert radii[kept] <= found.distance <= radii[kept] / (1 - RayStart.tolerance) * (1 + 1e-9)
    assert found.distance <= min(radii) / RADIUS_STEP * (1 + 1e-9)


def test_the_first_rays_are_one_of_each_kind_and_of_the_same_length():
    problem, done = begun(lambda point: 0)
    for point, way in zip(done.points, first_ways(problem), strict=False):
        assert torch.allclose(point, (GREY + LARGEST_RADIUS * SCALE * way).clamp(0, 1), atol=1e-12)


@pytest.mark.parametrize("kept", range(3))
def test_then_come_changes_of_the_closest_ray(kept):
    """One ray is adversarial from 1 on, the others from 3 on, and changes of it nowhere."""
    problem = tb.attack.Problem(GREY, 0, tb.Prices(10, 1))
    way = first_ways(problem)[kept]

    def label(point):
        return int(norm(point - GREY) >= (1.0 if is_along(point, way) else 3.0))

    done = drive(RayStart().find(problem), problem, label)
    fresh = [KINDS[kept].ray(problem, number) for number in range(12)]
    first = first_ways(problem)
    wanted = [
        change
        for number in range(3, 12, 3)
        for change in (
            half(problem, way, number),
            blend(way, fresh[number + 1]),
            spotlight(problem, way, number + 2),
        )
    ]
    changes = [point for point in done.points if not any(is_along(point, ray) for ray in first)]
    for point, change in zip(changes, wanted, strict=True):
        assert is_along(point, change, 1 - 1e-9)
        assert norm(point - GREY) <= 1.0
    assert done.returned.iterate.distance == pytest.approx(1.0, rel=0.02)


def test_a_change_that_is_closer_is_changed_in_turn():
    """The first change is adversarial from 0.5 on, so the next adds a fresh ray to that."""
    problem = tb.attack.Problem(GREY, 0, tb.Prices(10, 1))
    way = first_ways(problem)[0]
    changed = half(problem, way, 3)

    def label(point):
        along = [is_along(point, each, 1 - 1e-6) for each in (changed, way)]
        return int(norm(point - GREY) >= (0.5 if along[0] else 1.0 if along[1] else 3.0))

    done = drive(RayStart(10).find(problem), problem, label)
    assert done.returned.iterate.distance == pytest.approx(0.5, rel=0.02)
    following = blend(changed, KINDS[0].ray(problem, 4))
    assert any(is_along(point, following, 1 - 1e-9) for point in done.points)


TRIES = {0.001: 24, 0.1: 24, 1: 24, 10: 12, 100: 8, 1000: 6, 1e6: 6}


@pytest.mark.parametrize("ratio", TRIES)
def test_the_more_expensive_a_flagged_answer_the_fewer_rays_are_tried(ratio):
    """Where every ray is flagged, three extreme images follow the first kinds, and then growing
    noise, to its last level."""
    problem, done = begun(lambda point: 0, ratio)
    assert done.returned is None
    assert done.offered == [1, 1, 1, 3, 1000]
    assert begun(lambda point: 0, ratio, 1)[1].offered == [1, 3, 1000]
    assert begun(lambda point: 0, ratio, 2)[1].offered == [1, 1, 3, 1000]
    noise = problem.noise("start", 0, 1000)
    wanted = (GREY + 0.0045 * 7 * noise[6:7][0]).clamp(0, 1)
    assert torch.allclose(done.points[3 + 3 + 6], wanted, atol=1e-15)
    first = first_ways(problem)[0]
    found = begun(lambda point: int(is_along(point, first)), ratio)[1]
    count = math.ceil(math.log(SMALLEST_RADIUS / LARGEST_RADIUS) / math.log(RADIUS_STEP))
    search = len(searched(count, count - 1, ratio)) + len(searched(LAST_BINS, LAST_BINS - 1, ratio))
    assert len(found.labels) == 1 + search + TRIES[ratio] - 1


@pytest.mark.parametrize("ratio", [1, 100])
@pytest.mark.parametrize("kept", range(3))
def test_from_white_from_black_or_from_the_inverse_it_goes_inward(kept, ratio):
    """Adversarial from 2 on along one of them alone: it is found to a hundredth, for one flagged
    answer for each kind of ray and each image that is closer, one for each ray that was not tried
    yet, and those of the search."""
    source = torch.rand(SHAPE, generator=torch.Generator().manual_seed(0), dtype=torch.float64) / 2
    afar = [torch.ones_like(source), torch.zeros_like(source), 1 - source]
    way = afar[kept] - source
    order = sorted(range(3), key=lambda k: norm(afar[k] - source))
    assert order == [1, 2, 0]  # of a dark image

    def label(point):
        away = point - source
        along = float((away * way).sum()) / (max(norm(away), 1e-9) * norm(way))
        return int(along > 0.999 and norm(away) >= 2)

    _, done = begun(label, ratio, source=source)
    before = 3 + order.index(kept)
    others = TRIES[ratio] - 3
    assert done.labels[: before + 1 + others] == [0] * before + [1] + [0] * others
    assert 2 <= done.returned.distance <= 2 * 1.02


def test_from_afar_the_other_rays_come_before_the_way_from_there():
    """White is adversarial, and of the rays the fifth alone, from 1 on."""
    problem = tb.attack.Problem(GREY, 0, tb.Prices(100, 1))
    fifth = KINDS[1].ray(problem, 4)

    def label(point):
        return int(
            (norm(point - GREY) >= 1 and is_along(point, fifth, 0.9)) or bool((point == 1).all())
        )

    done = drive(RayStart().find(problem), problem, label)
    # Three rays, the inverse, white, the fourth ray, the fifth.
    assert done.labels[:7] == [0, 0, 0, 0, 1, 0, 1]
    assert 1 <= done.returned.iterate.distance <= 1.02


def fresh(label, iterate, number=0, tries=12, ratio=100.0):
    problem = tb.attack.Problem(GREY, 0, tb.Prices(ratio, 1))
    return drive(RayStart(tries).find_closer(problem, iterate, number), problem, label)


def test_from_a_start_that_leads_nowhere_rays_are_queried_a_step_closer():
    """Rays that none saw before, one flagged answer each; the first that is adversarial is searched
    to a hundredth, and no other is queried."""
    iterate = Iterate(GREY + 4 / SCALE, 4.0)
    none = fresh(lambda point: 0, iterate)
    assert none.returned is None
    assert none.labels == [0] * 12
    assert all(norm(point - GREY) <= 4.0 * RADIUS_STEP + 1e-9 for point in none.points)
    later = fresh(lambda point: 0, iterate, 1).points
    first = first_ways(tb.attack.Problem(GREY, 0))
    for one, other in product([*none.points, *later], first):
        assert cosine(one - GREY, other) < 0.9
    for one, other in product(none.points, later):
        assert cosine(one - GREY, other - GREY) < 0.9
    third = none.points[2] - GREY
    way = third / norm(third)

    def label(point):
        return int(is_along(point, way) and norm(point - GREY) >= 1.5)

    found = fresh(label, iterate)
    assert found.labels[:3] == [0, 0, 1]
    assert 1.5 <= found.returned.distance <= 1.5 * 1.02
    assert all(is_along(point, way) for point in found.points[2:])


def test_from_growing_noise_it_goes_inward_too():
    """Adversarial from 0.6 on along the noise alone: it is found to a hundredth."""
    problem = tb.attack.Problem(GREY, 0)
    levels = problem.noise("start", 0, 1000)[0:20]

    def label(point):
        return int(norm(point - GREY) >= 0.6 and any(is_along(point, level) for level in levels))

    done = drive(RayStart()(problem), problem, label)
    assert done.labels[:10] == [0] * 10  # three rays, three images, and noise within 0.6
    assert 0.6 <= done.returned.distance <= 0.6 * 1.02


@pytest.mark.parametrize("distance", [1e-9, 1e-4, 1e-2])
def test_a_boundary_nearer_than_the_first_search_goes(distance):
    """The first search goes down to SMALLEST_RADIUS a pixel; from there on a ray may halve it. It
    ends with a point that was found adversarial, and no farther out than the first search goes."""
    _, done = begun(outside(distance))
    assert distance <= done.returned.distance <= SMALLEST_RADIUS * SCALE / RADIUS_STEP
    assert len(done.labels) < 24 * 20


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 1, 2), (3, 2, 5), (2, 40, 3)], ids=str)
@pytest.mark.parametrize("level", [0.0, 0.5, 1.0])
def test_any_shape_and_any_colour(shape, level):
    source = torch.full(shape, level, dtype=torch.float64)
    _, done = begun(lambda point: int(norm(point - source) >= 0.1), source=source)
    assert 0.1 <= done.returned.distance <= 0.102


def test_for_a_target_another_class_is_no_success():
    """Class 1 from 0.3 on, class 2 from 0.8 on: with target 2 it is 0.8, and no answer is
    flagged but those below 0.3."""

    def label(point):
        return int(norm(point - GREY) >= 0.3) + int(norm(point - GREY) >= 0.8)

    _, done = begun(label, 10, target=2)
    assert 0.8 <= done.returned.distance <= 0.81
    assert done.labels.count(1) >= 5
    _, done = begun(label, 10)
    assert 0.3 <= done.returned.distance <= 0.303


def test_it_is_a_start_for_any_attack():
    boundary = testing.half_space(0.5, factor=4)
    attack = replace(at_side(tb.preset("cgba"), 224), start=RayStart())  # low frequencies
    [result] = tb.run(attack, boundary.model(), boundary.source[None], [0], budget=1500)
    assert result.stop is Stop.BUDGET
    assert result.distance < 1.1 * boundary.optimum
    _, faults = testing.check_attack(attack, boundary, tb.Prices(10, 1), 2000)
    assert faults == []


# -- whether the closest ray is smooth, and rays that are given ----------------------------------


@pytest.mark.parametrize("kept", range(3))
def test_whether_the_closest_ray_is_smooth_is_reported(kept):
    """One ray is adversarial from 1 on, the others from 3 on. A fine ray says nothing about low
    frequencies."""
    problem = tb.attack.Problem(GREY, 0)
    way = first_ways(problem)[kept]

    def label(point):
        return int(norm(point - GREY) >= (1.0 if is_along(point, way) else 3.0))

    found = drive(RayStart().find(problem), problem, label).returned
    assert found.iterate.distance == pytest.approx(1.0, rel=0.02)
    assert found.smooth is (True if KINDS[kept].shortest >= SMOOTH else None)
    assert not found.given


def test_other_images_say_nothing_about_smoothness():
    problem = tb.attack.Problem(GREY, 0)
    white = torch.ones_like(GREY) - GREY

    def label(point):
        return int(is_along(point, white) and norm(point - GREY) > 5)

    found = drive(RayStart().find(problem), problem, label).returned
    assert found.smooth is None


def pixels(*places):
    """Rays of single pixels."""
    given = torch.zeros(len(places), *SHAPE, dtype=torch.float64)
    for ray, (row, column) in zip(given, places, strict=True):
        ray[0, row, column] = 1.0
    return given


@pytest.mark.parametrize("ratio", [1, 100])
def test_a_given_ray_that_is_close_ends_the_start(ratio):
    given = pixels((0, 0), (3, 3))
    limit = 0.9 * CLOSE * SCALE

    def label(point):
        away = point - GREY
        return int(norm(away) >= 2.0 or float((away * given[1]).sum()) >= limit)

    problem = tb.attack.Problem(GREY, 0, tb.Prices(ratio, 1))
    run = drive(RayStart().find(problem, given), problem, label)
    assert run.returned.given
    assert limit <= run.returned.iterate.distance <= 1.02 * limit
    # The first given ray, the first pattern, and the second given ray.
    patterns = [
        any(is_along(point, way, 0.8) for point in run.points) for way in first_ways(problem)
    ]
    assert patterns == [True, False, False]
    # At a low price, the low frequencies of the ray are queried at twice its radius.
    assert run.returned.smooth is (False if ratio == 1 else None)
    low = [
        point
        for point in run.points
        if is_along(point, given[1], 0.1) and not is_along(point, given[1])
    ]
    assert [round(norm(point - GREY) / limit) for point in low] == ([2] if ratio == 1 else [])


def test_given_rays_and_patterns_take_turns():
    given = pixels((0, 0), (3, 3), (5, 5), (7, 7))
    problem = tb.attack.Problem(GREY, 0)
    none = drive(RayStart().find(problem, given), problem, lambda point: 0)
    fine, checkers, coarse = first_ways(problem)
    order = [given[0], fine, given[1], checkers, given[2], coarse, given[3]]
    for point, way in zip(none.points, order, strict=False):
        assert torch.allclose(point, (GREY + LARGEST_RADIUS * SCALE * way).clamp(0, 1))


def test_changes_of_a_given_ray_end_sooner():
    """After it, later turns gain more than changes do."""
    given = testing._unit(0, SHAPE).view(1, *SHAPE)

    def label(point):
        return int(norm(point - GREY) >= (1.0 if is_along(point, given[0]) else 3.0))

    problem = tb.attack.Problem(GREY, 0)
    run = drive(RayStart().find(problem, given), problem, label)
    assert run.returned.given
    flagged = [point for point in run.points if not label(point) and not is_along(point, given[0])]
    assert len(flagged) == len(KINDS) + PATIENCE + 1  # the last one is of its low frequencies


def test_a_doubted_ray_that_is_no_better_costs_what_a_ray_does_and_leaves_out_the_last():
    given = pixels((3, 3), (3, 3))
    problem = tb.attack.Problem(GREY, 0)
    alone, doubted = (
        drive(RayStart().find(problem, rays, doubted=True), problem, outside(1.7))
        for rays in (None, given)
    )
    assert alone.labels == doubted.labels
    assert not doubted.returned.given
    assert sum(is_along(point, given[0]) for point in doubted.points) == 1
