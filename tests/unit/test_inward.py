"""RayStart: which rays are asked, what that costs, and which is kept."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import pytest
import torch
from driver import drive

import tollbox as tb
from tollbox import testing
from tollbox.attacks.frugal.ray_start import (
    LARGEST_RADIUS,
    LAST_BINS,
    RADIUS_STEP,
    ROUGH_NEXT,
    SMALLEST_RADIUS,
    SMOOTH,
    SMOOTH_NEXT,
    VERY_EXPENSIVE,
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


def begun(label, ratio=1.0, tries=12, source=GREY, **more):
    problem = tb.attack.Problem(source, 0, tb.Prices(ratio, 1), **more)
    return problem, drive(RayStart(tries)(problem), problem, label)


def ways(problem, tries, kinds=ROUGH_NEXT):
    """The rays, in their order while the nearest is not smooth."""
    found = []
    for number in range(tries):
        drawing = kinds[number % len(kinds)].begin(problem)
        noise = problem.noise("inward", number, 1, drawing.shape)
        found.append(drawing(noise[0:1], 1.0)[0])
    return found


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
    others = math.ceil(12 / (1 + math.log10(ratio))) - 1
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
def test_the_nearest_ray_is_kept(ratio, seed):
    """Behind a plane every ray has its own distance, 0.03 / <ray, normal>. What is kept is the
    nearest, or one that it does not undercut by more than a step."""
    normal = testing._unit(seed, SHAPE).view(SHAPE)

    def label(point):
        return int(((point - GREY) * normal).sum() >= 0.03)

    problem, done = begun(label, ratio, seed=seed)
    tries = math.ceil(12 / (1 + math.log10(ratio)))
    heights = [float((way * normal).sum()) for way in ways(problem, tries)]
    radii = [0.03 / height if height > 0 else math.inf for height in heights]
    assert min(radii) > SMALLEST_RADIUS * SCALE  # where the search of a ray ends
    assert min(radii) < LARGEST_RADIUS * SCALE / 3  # nothing clips where it matters
    found = done.returned
    unit = (found.point - GREY) / found.distance
    [kept] = [k for k, way in enumerate(ways(problem, tries)) if torch.allclose(unit, way)]
    assert radii[kept] <= found.distance <= radii[kept] / (1 - RayStart.tolerance) * (1 + 1e-9)
    assert found.distance <= min(radii) / RADIUS_STEP * (1 + 1e-9)


def test_rays_are_of_one_kind_after_another_and_of_the_same_length():
    problem, done = begun(lambda point: 0, 1, 7)
    for point, way in zip(done.points, ways(problem, 7), strict=False):
        assert torch.allclose(point, (GREY + LARGEST_RADIUS * SCALE * way).clamp(0, 1), atol=1e-12)
    assert [kind.cut for kind in ROUGH_NEXT] == [28, 56, 14, 112, 8]


@pytest.mark.parametrize("smooth", [False, True])
def test_after_three_rays_the_next_is_of_the_kind_that_won(smooth):
    """The first or the third is adversarial from 1 on, all others from 3 on; four are asked."""
    problem = tb.attack.Problem(GREY, 0, tb.Prices(100, 1))
    rough, even = ways(problem, 5), ways(problem, 5, SMOOTH_NEXT)
    won = rough[2 if smooth else 0]
    wanted, other = (even, rough) if smooth else (rough, even)

    def label(point):
        away = point - GREY
        along = float((away * won).sum()) / max(norm(away), 1e-9)
        return int(norm(away) >= (1.0 if along > 0.99 else 3.0))

    done = drive(RayStart()(problem), problem, label)
    units = [(point - GREY) / norm(point - GREY) for point in done.points]
    assert any(torch.allclose(unit, wanted[3]) for unit in units)
    assert not any(torch.allclose(unit, other[3]) for unit in units)
    assert [kind.cut for kind in SMOOTH_NEXT] == [28, 56, 14, 8, 112]


TRIES = {0.001: 12, 0.1: 12, 1: 12, 10: 6, 100: 4, 1000: 3, 1e6: 3}


@pytest.mark.parametrize("ratio", TRIES)
def test_the_dearer_a_flagged_answer_the_fewer_rays_are_tried(ratio):
    """And where none is adversarial, nor (from c* = 10 on) an image from afar, noise that grows is
    what is left, to its last level."""
    problem, done = begun(lambda point: 0, ratio)
    afar = [3] if ratio >= 10 else []
    assert done.returned is None
    assert done.offered == [1] * TRIES[ratio] + [*afar, 1000]
    assert begun(lambda point: 0, ratio, 1)[1].offered == [1, *afar, 1000]
    assert begun(lambda point: 0, ratio, 2)[1].offered == [1, 1, *afar, 1000]
    noise = problem.noise("start", 0, 1000)
    wanted = (GREY + 0.0045 * 7 * noise[6:7][0]).clamp(0, 1)
    assert torch.allclose(done.points[TRIES[ratio] + sum(afar) + 6], wanted, atol=1e-15)


@pytest.mark.parametrize("kept", range(3))
def test_from_white_from_black_or_from_the_inverse_it_goes_inward(kept):
    """Adversarial from 2 on along one of them alone: it is found to a hundredth, for one flagged
    answer for each ray and each image that is nearer, one for the kind of ray that was not tried
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

    _, done = begun(label, 100, source=source)
    before = 4 + order.index(kept)
    assert done.labels[: before + 2] == [0] * before + [1, 0]
    assert 2 <= done.returned.distance <= 2 * 1.02


def test_from_afar_the_kinds_that_were_not_tried_come_before_the_way_from_there():
    """White is adversarial, and of the rays the fifth alone, from 1 on."""
    problem = tb.attack.Problem(GREY, 0, tb.Prices(100, 1))
    fifth = ways(problem, 5)[4]

    def label(point):
        away = point - GREY
        along = float((away * fifth).sum()) / max(norm(away), 1e-9)
        return int((norm(away) >= 1 and along > 0.9) or bool((point == 1).all()))

    done = drive(RayStart().find(problem), problem, label)
    assert done.labels[:7] == [0, 0, 0, 0, 0, 1, 1]  # four rays, the inverse, white, the fifth
    assert 1 <= done.returned.iterate.distance <= 1.02
    assert done.returned.smooth is True


def fresh(label, iterate, number=0, tries=12, ratio=100.0):
    problem = tb.attack.Problem(GREY, 0, tb.Prices(ratio, 1))
    return drive(RayStart(tries).find_closer(problem, iterate, number), problem, label)


def test_from_a_start_that_leads_nowhere_rays_are_asked_a_step_nearer():
    """Rays that none saw before, one flagged answer each; the first that is adversarial is searched
    to a hundredth, and no other is asked."""
    iterate = Iterate(GREY + 4 / SCALE, 4.0)
    none = fresh(lambda point: 0, iterate)
    assert none.returned is None
    assert none.labels == [0] * 12
    assert all(norm(point - GREY) <= 4.0 * RADIUS_STEP + 1e-9 for point in none.points)
    later = fresh(lambda point: 0, iterate, 1).points
    first = drive(
        RayStart()(tb.attack.Problem(GREY, 0)), tb.attack.Problem(GREY, 0), lambda point: 0
    ).points[:12]
    for one, other in product([*none.points, *later], first):
        assert cosine(one - GREY, other - GREY) < 0.5
    for one, other in product(none.points, later):
        assert cosine(one - GREY, other - GREY) < 0.5
    third = none.points[2] - GREY
    way = third / norm(third)

    def label(point):
        away = point - GREY
        along = float((away * way).sum()) / max(norm(away), 1e-9)
        return int(along > 0.99 and norm(away) >= 1.5)

    found = fresh(label, iterate)
    assert found.labels[:3] == [0, 0, 1]
    assert 1.5 <= found.returned.distance <= 1.5 * 1.02
    asked = [(point - GREY) / norm(point - GREY) for point in found.points[2:]]
    assert all(float((unit * way).sum()) > 0.99 for unit in asked)


@pytest.mark.parametrize("seed", range(3))
def test_where_flagged_answers_are_very_dear_the_first_ray_leads_to_an_image_of_noise(seed):
    """It is in the box, so nothing clips on its way; from 1 on all is adversarial, and from 0.9 on
    what lies along it, so the other rays cost a flagged answer each."""
    problem = tb.attack.Problem(GREY, 0, tb.Prices(VERY_EXPENSIVE, 1), seed=seed)
    noise = torch.special.ndtr(problem.noise("uniform", 0, 1)[0:1][0])
    assert float(noise.std()) == pytest.approx(12**-0.5, rel=0.1)

    def label(point):
        away = point - GREY
        along = cosine(away, noise - GREY) > 0.999
        return int(norm(away) >= (0.9 if along else 1.0))

    done = drive(RayStart().find(problem), problem, label)
    assert torch.equal(done.points[0], noise)
    assert cosine(done.returned.iterate.point - GREY, noise - GREY) > 1 - 1e-9
    assert 0.9 <= done.returned.iterate.distance <= 0.9 * 1.02
    assert done.returned.smooth is False
    cheaper = tb.attack.Problem(GREY, 0, tb.Prices(VERY_EXPENSIVE - 1, 1), seed=seed)
    first = drive(RayStart()(cheaper), cheaper, label).points[0]
    assert torch.equal(first, (GREY + LARGEST_RADIUS * SCALE * ways(cheaper, 1)[0]).clamp(0, 1))


def test_an_image_of_noise_that_is_flagged_costs_one_answer():
    """The rays go on with the second."""
    problem = tb.attack.Problem(GREY, 0, tb.Prices(1000, 1))
    noise = torch.special.ndtr(problem.noise("uniform", 0, 1)[0:1][0])

    def label(point):
        return int(norm(point - GREY) >= 1 and not torch.equal(point, noise))

    done = drive(RayStart()(problem), problem, label)
    second = (GREY + LARGEST_RADIUS * SCALE * ways(problem, 2)[1]).clamp(0, 1)
    assert done.labels[:2] == [0, 1]
    assert torch.equal(done.points[1], second)
    assert 1 <= done.returned.distance <= 1.02


def test_from_growing_noise_it_goes_inward_too():
    """Adversarial from 0.6 on, but for all rays: along the noise it is found to a hundredth."""
    problem = tb.attack.Problem(GREY, 0)
    rays = [(GREY + LARGEST_RADIUS * SCALE * way).clamp(0, 1) for way in ways(problem, 12)]

    def label(point):
        return int(norm(point - GREY) >= 0.6 and not any(torch.allclose(point, r) for r in rays))

    done = drive(RayStart()(problem), problem, label)
    assert done.labels[:12] == [0] * 12
    assert 0.6 <= done.returned.distance <= 0.6 * 1.02


@pytest.mark.parametrize("distance", [1e-9, 1e-4, 1e-2])
def test_a_boundary_nearer_than_the_first_search_goes(distance):
    """The first search goes down to SMALLEST_RADIUS a pixel; from there on a ray may halve it. It
    ends, with a point that was found adversarial, and no farther out than the first search goes."""
    _, done = begun(outside(distance))
    assert distance <= done.returned.distance <= SMALLEST_RADIUS * SCALE / RADIUS_STEP
    assert len(done.labels) < 12 * 20


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


def test_inward_is_a_start_for_any_attack():
    boundary = testing.half_space(0.5, factor=4)
    attack = replace(at_side(tb.preset("cgba"), 224), start=RayStart())  # low frequencies
    [result] = tb.run(attack, boundary.model(), boundary.source[None], [0], budget=1500)
    assert result.stop is Stop.BUDGET
    assert result.distance < 1.1 * boundary.optimum
    _, faults = testing.check_attack(attack, boundary, tb.Prices(10, 1), 2000)
    assert faults == []


# -- the kind of the nearest ray, and a ray that is given ----------------------------------------


def nearest(label, given=None, tries=12, ratio=1.0):
    problem = tb.attack.Problem(GREY, 0, tb.Prices(ratio, 1))
    found = drive(RayStart(tries).find(problem, given), problem, label).returned
    assert found is not None
    return found


@pytest.mark.parametrize("kept", range(5))
def test_the_kind_of_the_nearest_ray_is_told(kept):
    """One ray of all is adversarial within 1, the others beyond 3."""
    problem = tb.attack.Problem(GREY, 0)
    way = ways(problem, 5)[kept]

    def label(point):
        away = point - GREY
        along = float((away * way).sum()) / max(norm(away), 1e-9)
        return int(norm(away) >= (1.0 if along > 0.99 else 3.0))

    found = nearest(label, tries=5)
    assert found.iterate.distance == pytest.approx(1.0, rel=0.02)
    assert found.smooth == (ROUGH_NEXT[kept].cut <= SMOOTH)


def test_of_what_is_no_ray_no_kind_is_told():
    found = nearest(lambda point: int(norm(point - GREY) > 0.36 * SCALE))
    assert found.smooth is None


@pytest.mark.parametrize("ratio", [1, 100])
def test_given_rays_come_first_and_end_the_start_if_one_is_close(ratio):
    given = torch.zeros(2, *SHAPE, dtype=torch.float64)
    given[0, 0, 0, 0] = given[1, 0, 3, 3] = 1.0

    def label(point):
        away = point - GREY
        return int(norm(away) >= 2.0 or float((away * given[1]).sum()) >= 0.2)

    problem = tb.attack.Problem(GREY, 0, tb.Prices(ratio, 1))
    run = drive(RayStart().find(problem, given), problem, label)
    assert run.returned.given
    assert run.returned.iterate.distance < 0.25
    for way in ways(problem, 3):
        for point in run.points:
            away = (point - GREY).flatten()
            assert abs(float(away @ way.flatten())) < 0.9 * norm(away)
    # At a low price, the low frequencies of the ray are queried at twice its radius.
    if ratio == 1:
        assert run.returned.smooth is False
        assert sum(norm(point - GREY) == pytest.approx(0.45, abs=0.1) for point in run.points) >= 1
    else:
        assert run.returned.smooth is None
    alone = nearest(label, ratio=ratio)
    assert not alone.given
    assert alone.iterate.distance > 1


def test_if_given_rays_are_not_close_others_follow():
    given = torch.zeros(1, *SHAPE, dtype=torch.float64)
    given[0, 0, 3, 3] = 1.0
    problem = tb.attack.Problem(GREY, 0)
    none = drive(RayStart().find(problem, given), problem, lambda point: 0)
    for point, way in zip(none.points, [*given, *ways(problem, 11)], strict=False):
        assert torch.allclose(point, (GREY + LARGEST_RADIUS * SCALE * way).clamp(0, 1))


def test_a_doubted_ray_that_is_no_better_costs_what_a_ray_does_and_leaves_out_the_last():
    given = torch.zeros(2, *SHAPE, dtype=torch.float64)
    given[:, 0, 3, 3] = 1.0
    problem = tb.attack.Problem(GREY, 0)
    alone, doubted = (
        drive(RayStart().find(problem, rays, doubted=True), problem, outside(1.7))
        for rays in (None, given)
    )
    assert alone.labels == doubted.labels
    assert not doubted.returned.given
    along = [
        abs(float((point - GREY)[0, 3, 3])) > 0.99 * norm(point - GREY) for point in doubted.points
    ]
    assert along.count(True) == 1
