"""RayS beside a reading of its algorithm that asks one query at a time; rays and boxes as paths."""

import math
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch
from driver import drive

import tollbox as tb
from tollbox import testing
from tollbox.attacks.rays import RayS, RaySL2, blocks
from tollbox.core.ask import Iterate
from tollbox.core.metric import Metric
from tollbox.parts.estimates import MIN_ROUNDINGS, RelativeRadius
from tollbox.parts.paths import Box, Ray, Segment, inward
from tollbox.parts.searches import BinarySearch, LineSearch

SHAPE = (3, 4, 4)
TAU = 1e-3


def label_of(boundary):
    return lambda point: int(boundary.labels(point[None])[0])


@pytest.mark.parametrize(
    ("dimension", "level"), [(48, 0), (48, 3), (48, 5), (48, 6), (48, 9), (7, 2)]
)
def test_blocks_cover_all_numbers_once(dimension, level):
    found = blocks(dimension, level)
    size = math.ceil(dimension / 2**level)
    assert [k for first, last in found for k in range(first, last)] == list(range(dimension))
    assert {last - first for first, last in found[:-1]} <= {size}
    assert len(found) <= 2**level


def one_by_one(boundary, source, queries):
    """Chen and Gu's algorithm: the points that it asks, and the radius that it ends with."""
    x, asked = source.flatten().numpy(), []
    root = math.sqrt(len(x))

    def adversarial(signs, radius):
        point = np.clip(x + radius * signs, 0, 1)
        asked.append(point)
        return label_of(boundary)(torch.from_numpy(point).view(source.shape)) != 0

    signs, best, level, index = np.ones(len(x)), math.inf, 0, 0
    while len(asked) < queries:
        size = math.ceil(len(x) / 2**level)
        first, last = index * size, min(len(x), (index + 1) * size)
        attempt = signs.copy()
        attempt[first:last] *= -1
        at = min(best, 1.0)
        if adversarial(attempt, at):
            bins = math.ceil(max(2.0, at * root / TAU))
            low, high = 0, bins  # of the way inward
            while high - low > 1 and len(asked) < queries:
                middle = low + math.ceil((high - low) / 2)
                if adversarial(attempt, at * (1 - middle / bins)):
                    low = middle
                else:
                    high = middle
            if at * (1 - low / bins) < best:
                signs, best = attempt, at * (1 - low / bins)
        index += 1
        if index == 2**level or last == len(x):
            level, index = level + 1, 0
    return asked[:queries], best


@pytest.mark.parametrize(
    "made", [partial(testing.half_space, 0.5, norm=Metric.LINF), testing.corner, testing.cube]
)
def test_it_asks_what_the_published_algorithm_asks_in_its_order(made):
    boundary = made(shape=SHAPE, seed=0)
    problem = tb.attack.Problem(boundary.source, 0, norm=Metric.LINF)
    done = drive(RayS(BinarySearch(TAU), levels=7)(problem), problem, label_of(boundary))
    wanted, _ = one_by_one(boundary, boundary.source, len(done.points))
    assert len(done.points) > 300
    found = torch.stack(done.points).flatten(1).numpy()
    assert found == pytest.approx(np.array(wanted), abs=1e-12)
    assert done.points[0].max() == 0  # all ones, flipped


def test_read_in_l2_the_same_points_are_asked():
    boundary = testing.half_space_in_box(SHAPE, seed=3)
    asked = []
    for attack, norm in ((RayS, Metric.LINF), (RaySL2, Metric.L2)):
        problem = tb.attack.Problem(boundary.source, 0, norm=norm)
        done = drive(attack(BinarySearch(TAU), levels=7)(problem), problem, label_of(boundary))
        asked.append(torch.stack(done.points))
    assert torch.equal(*asked)


def test_on_a_plane_it_ends_with_the_sign_of_every_weight():
    """At b / |w|_1, but for the tolerance and weights too small to be told."""
    boundary = testing.half_space(0.5, SHAPE, seed=1, norm=Metric.LINF)
    attack = tb.preset("rays")
    [result] = tb.run(
        attack, boundary.model(), boundary.source[None], [0], budget=3000, norm="linf"
    )
    assert result.stop is tb.Stop.CONVERGED
    assert 1 <= result.distance / boundary.optimum <= 1.01
    weights = testing._unit(1, SHAPE)
    signs = (result.adversarial - boundary.source).flatten().sign()
    wrong = weights[signs != weights.sign()].abs().sum()
    assert wrong / weights.abs().sum() < 0.01


def test_the_stealthy_form_takes_a_tenth_at_most_and_few_flagged():
    boundary = testing.half_space(0.5, SHAPE, seed=1, norm=Metric.LINF)
    problem = tb.attack.Problem(boundary.source, 0, norm=Metric.LINF)
    done = drive(tb.preset("stealthy-rays")(problem), problem, label_of(boundary))
    distances = [step.distance for step in problem.accepted]
    assert all(0.89 < b / a <= 1 for a, b in pairwise(distances))  # 0.5 is as far as grey can go
    assert distances[-1] < 0.3 * distances[0]
    searched = [
        label for label, phase in zip(done.labels, done.phased, strict=True) if phase == "search"
    ]
    assert searched.count(0) <= len(done.points) - len(searched)
    assert isinstance(tb.preset("stealthy-rays").search, LineSearch)


def test_a_given_start_comes_first_with_its_signs():
    boundary = testing.half_space(0.5, SHAPE, seed=1, norm=Metric.LINF)
    signs = testing._unit(1, SHAPE).sign().view(SHAPE)
    given = (boundary.source + 0.4 * signs * torch.rand(SHAPE, dtype=torch.float64)).clamp(0, 1)
    assert int(boundary.labels(given[None])) != 0
    problem = tb.attack.Problem(boundary.source, 0, start_image=given, norm=Metric.LINF)
    done = drive(tb.preset("rays")(problem), problem, label_of(boundary))
    assert torch.equal(done.points[0], given)
    first = done.phased.index("fast check")
    away = done.points[first] - boundary.source
    assert torch.equal(away.sign(), signs)
    assert away.abs().amax() == pytest.approx(problem.accepted[0].distance)
    assert problem.accepted[-1].distance <= 1.01 * boundary.optimum


# -- paths ----------------------------------------------------------------------------------------


def test_a_box_is_the_projection_onto_an_linf_ball():
    source = torch.rand(SHAPE, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    point = torch.rand(SHAPE, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    far = float((point - source).abs().amax())
    box = Box(source, Iterate(point, far))
    for theta in (0.0, 0.3, 0.8, 1.0):
        radius = (1 - theta) * far
        wanted = torch.minimum(torch.maximum(point, source - radius), source + radius)
        assert torch.allclose(box(theta), wanted, atol=1e-15)
        assert Metric.LINF.norms((box(theta) - source)[None]).item() == pytest.approx(radius)
    assert box.length >= float(torch.linalg.vector_norm(point - source))
    assert box.linear_point(0.5) is None
    assert isinstance(inward(source, box.start, Metric.LINF), Box)
    assert isinstance(inward(source, box.start, Metric.L2), Segment)


def test_a_ray_is_clipped_after_it_is_added_up_and_says_where_a_point_is():
    source = torch.tensor([[[0.5, 0.95, 0.1, 0.5]]], dtype=torch.float64)
    signs = torch.tensor([[[1.0, 1.0, -1.0, -1.0]]], dtype=torch.float64)
    ray = Ray(source, signs, 0.4, Iterate((source + 0.4 * signs).clamp(0, 1), 0.4), reach=0.5)
    assert ray(0.5).flatten().tolist() == pytest.approx([0.8, 1, 0, 0.2])
    assert ray(1.0).flatten().tolist() == pytest.approx([0.7, 1, 0, 0.3])
    assert ray.length == pytest.approx(0.4)  # 0.2 in each of four
    problem = tb.attack.Problem(source, 0, norm=Metric.LINF)
    found = drive(
        BinarySearch(1e-4)(problem, ray), problem, lambda point: int(point[0, 0, 0] >= 0.75)
    ).returned
    assert found.theta == pytest.approx(0.75, abs=1e-3)
    assert found.distance == pytest.approx(0.4 * (1 - 0.5 * found.theta))


# -- HSJA -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("t", "wanted"), [(1, 0.1), (2, 0.5 / 48), (9, 0.5 / 48)])
def test_the_radius_of_sampling_shrinks_with_the_distance(t, wanted):
    problem = tb.attack.Problem(torch.full(SHAPE, 0.5, dtype=torch.float64), 0, norm=Metric.LINF)
    point = problem.source + 0.1
    asking = RelativeRadius(delta=1.0, power=1.0).begin(problem)(t, Iterate(point, 0.5), 20)
    done = drive(asking, problem, lambda x: int(x[0, 0, 0] > 0.6))
    apart = [float(torch.linalg.vector_norm(asked - point)) for asked in done.points]
    assert apart == pytest.approx([wanted] * 20)


def test_it_never_shrinks_below_what_the_dtype_resolves():
    problem = tb.attack.Problem(torch.full(SHAPE, 0.5), 0, norm=Metric.LINF)
    point = problem.source + 0.1
    asking = RelativeRadius(delta=1.0, power=1.0).begin(problem)(2, Iterate(point, 1e-9), 20)
    done = drive(asking, problem, lambda x: int(x[0, 0, 0] > 0.6))
    apart = [float(torch.linalg.vector_norm(asked - point)) for asked in done.points]
    assert apart == pytest.approx([MIN_ROUNDINGS * problem.resolution] * 20, rel=0.3)


def test_hsja_for_linf_steps_along_signs_and_projects_by_clipping():
    """On a plane with the true normal as the estimate one step finds the nearest point."""
    boundary = testing.half_space(0.5, SHAPE, seed=1, norm=Metric.LINF)
    normal = testing._unit(1, SHAPE).view(SHAPE)

    class Known:
        rows = 1

        def tolerance_scale(self, problem):
            return 1.0

        def begin(self, problem):
            def estimate(t, iterate, queries):
                yield from ()
                return normal

            return estimate

    attack = replace(tb.preset("hsja-linf"), estimate=Known(), iterations=30)
    problem = tb.attack.Problem(boundary.source, 0, norm=Metric.LINF)
    drive(attack(problem), problem, label_of(boundary))
    away = (problem.accepted[-1].point - boundary.source).flatten()
    assert problem.accepted[-1].distance <= 1.001 * boundary.optimum
    assert away.abs() == pytest.approx(boundary.optimum, rel=0.01)
