"""The parts of the stealthy attacks: a bias that feedback sets, and OPT-style estimates."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from driver import drive

import tollbox as tb
from tollbox import testing
from tollbox.core.ask import Iterate
from tollbox.parts.estimates import FLAGGED_RAY_FACTOR, Biased, OptStyle
from tollbox.parts.searches import BinarySearch, LineSearch
from tollbox.parts.subspaces import Dct, Full

SHAPE = (3, 16, 16)
GREY = torch.full(SHAPE, 0.5, dtype=torch.float64)


def norm(a):
    return float(torch.linalg.vector_norm(a))


def plane(cosine, distance, shape=SHAPE, seed=0):
    """A plane at `distance`, its normal, and its point on a ray of that cosine."""
    normal, side = testing._unit(seed, shape), testing._unit(seed + 1, shape)
    side = side - (side @ normal) * normal
    ray = cosine * normal + math.sqrt(1 - cosine**2) * side / torch.linalg.vector_norm(side)
    point = 0.5 + (ray * (distance / cosine)).view(shape)
    found = Iterate(point, distance / cosine)
    return normal, found, lambda x: int((x - 0.5).flatten() @ normal >= distance * (1 - 1e-9))


# -- bias -----------------------------------------------------------------------------------------


class Flagging:
    """Answers the next `count` queries flagged, and those after them not."""

    def __init__(self):
        self.count = 0

    def __call__(self, point):
        self.count -= 1
        return 0 if self.count >= 0 else 1


def outward(problem, found, points, part, t):
    """How far the centre that was asked around lies from the boundary point."""
    shape = tuple(problem.source.shape)
    noise = problem.noise("estimate", t, len(points), part.subspace.shape(shape))[0 : len(points)]
    unit = noise / torch.linalg.vector_norm(noise.flatten(1), dim=1).view(-1, 1, 1, 1)
    centres = torch.stack(points) - part.delta * part.subspace.expand(unit, shape)
    assert float((centres - centres[0]).abs().max()) < 1e-12
    ray = (found.point - problem.source) / norm(found.point - problem.source)
    assert float((centres[0] - found.point).flatten() @ ray.flatten()) == pytest.approx(
        norm(centres[0] - found.point)
    )
    return norm(centres[0] - found.point)


@pytest.mark.parametrize("space", [Full(), Dct(3)], ids=str)
def test_the_bias_shrinks_below_ten_flagged_answers_and_grows_above_twenty(space):
    part = Biased(subspace=space)
    problem = tb.attack.Problem(GREY, 0, tb.Prices(10, 1))
    found = Iterate(GREY + 0.01, norm(torch.full(SHAPE, 0.01)))
    ray = (found.point - GREY) / norm(found.point - GREY)
    estimate, answer = part.begin(problem), Flagging()
    unit = part.delta / math.sqrt(space.dimension(SHAPE))
    assert part.delta == pytest.approx(2e-4 * math.sqrt(56 * 56 * 3), rel=1e-3)
    bias = 30.0
    plan = [
        (15, 1),
        (9, 0.9),
        (10, 1),
        (20, 1),
        (21, 1.1),
        (21, 1.1),
        (0, 0.9),
        (100, 1.1),
        (1, 0.9),
    ]
    for t, (flagged, factor) in enumerate(plan, 1):
        answer.count = flagged
        done = drive(estimate(t, found, 100), problem, answer)
        assert (len(done.points), done.flagged, done.phases) == (100, flagged, {"estimate"})
        assert problem.notes["bias"] == pytest.approx(bias)
        assert problem.notes["overshoot"] == pytest.approx(bias * unit)
        assert problem.notes["share"] == pytest.approx(1 - flagged / 100)
        assert outward(problem, found, done.points, part, t) == pytest.approx(bias * unit)
        if flagged in (0, 100):  # all alike: the mean direction, away from where it was flagged
            moved = (torch.stack(done.points) - found.point).sum(0)
            moved = moved - outward(problem, found, done.points, part, t) * 100 * ray
            mean = moved / norm(moved) * (1 if flagged == 0 else -1)
            assert torch.allclose(done.returned, mean, atol=1e-9)
        bias *= factor


def test_a_biased_estimate_is_that_of_algorithm_3():
    part = Biased(bias=1.0)
    normal, found, label = plane(0.3, 0.3)
    problem = tb.attack.Problem(GREY, 0)
    done = drive(part.begin(problem)(1, found, 300), problem, label)
    labels = torch.tensor(done.labels).double()
    p = float(labels.mean())
    assert 0.5 < p < 1
    noise = problem.noise("estimate", 1, 300)[0:300].flatten(1)
    unit = noise / torch.linalg.vector_norm(noise, dim=1, keepdim=True)
    wanted = (labels * (1 - p) - (1 - labels) * p) @ unit
    wanted = wanted / torch.linalg.vector_norm(wanted)
    assert torch.allclose(done.returned.flatten(), wanted, atol=1e-10)
    # 300 directions in d = 768 give a cosine of about 0.4; by chance it is 0 +- 0.036
    assert float(done.returned.flatten() @ normal) > 0.25


def test_asked_in_chunks_the_estimate_is_the_same():
    problem = tb.attack.Problem(GREY, 0)
    _, found, label = plane(0.3, 0.3)
    whole, parts = (
        drive(Biased(bias=1.0, chunk=chunk).begin(problem)(1, found, 100), problem, label)
        for chunk in (128, 7)
    )
    assert (whole.asks, parts.asks) == (1, 15)
    assert torch.equal(torch.stack(whole.points), torch.stack(parts.points))
    assert torch.allclose(whole.returned, parts.returned, atol=1e-12)


def test_one_attack_may_be_run_again_and_on_many_images():
    """The bias is that of one image in one run: the part itself never changes."""
    attack = tb.preset("stealthy-geoda")
    boundary = testing.half_space(0.3, factor=4)
    images = torch.stack([boundary.source, boundary.source + 0.01, boundary.source - 0.02])
    found = []
    for live in (3, 1, 3):
        results = tb.run(
            attack,
            boundary.model(),
            images,
            [0] * 3,
            budget=1500,
            execution=tb.Execution(live=live),
        )
        assert all(len({step.notes.get("bias") for step in r.trace}) > 2 for r in results)
        found.append([[(s.distance, s.notes) for s in r.trace] for r in results])
    alone = tb.run(attack, boundary.model(), images[1:2], [0], budget=1500)
    assert found[0] == found[1] == found[2]
    assert found[0][1] == [(s.distance, s.notes) for s in alone[0].trace]
    firsts = [next(s[1]["bias"] for s in trace if "bias" in s[1]) for trace in found[0]]
    assert firsts == [30.0, 30.0, 30.0]


# -- OPT-style ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("queries", "rays"), [(1, 10), (199, 10), (399, 10), (400, 20), (1000, 50)]
)
def test_the_number_of_rays(queries, rays):
    """max(n // 200, 1) x 10."""
    _, found, label = plane(0.3, 0.3)
    problem = tb.attack.Problem(GREY, 0)
    done = drive(OptStyle().begin(problem)(1, found, queries), problem, label)
    assert problem.notes["rays"] == rays
    assert done.offered[:rays] == [1] * rays  # the outer ends, in one ask
    assert all(
        norm(point - GREY) == pytest.approx(1.03 * found.distance) for point in done.points[:rays]
    )


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_the_searches_are_asked_side_by_side(stages):
    """One round for the outer ends, and one for each stage, however many rays there are; and no
    ray has more flagged answers than stages (or one, if it is flagged at its outer end)."""
    _, found, label = plane(0.3, 0.3)
    problem = tb.attack.Problem(GREY, 0)
    part = OptStyle(LineSearch(1e-2, relative=True, stages=stages, phase="estimate"))
    done = drive(part.begin(problem)(1, found, 800), problem, label)
    assert done.asks <= 1 + stages
    assert done.phases == {"estimate"}
    assert 0 < done.flagged <= 40 * stages


def test_a_ray_has_two_flagged_answers_at_most_and_two_hundred_others():
    _, found, label = plane(0.3, 0.3)
    problem = tb.attack.Problem(GREY, 0)
    done = drive(OptStyle().begin(problem)(1, found, 100), problem, label)
    assert done.asks == 3
    assert 10 <= done.flagged <= 20
    assert len(done.points) <= 10 * (1 + 99 + 99)


def lengths(found, part, problem, t=1, queries=100):
    """The rays' distances to a plane, by its formula, and their u."""
    rows = max(queries // 200, 1) * 10
    noise = problem.noise("estimate", t, rows)[0:rows]
    u = noise / torch.linalg.vector_norm(noise.flatten(1), dim=1).view(-1, 1, 1, 1)
    d = problem.dimension
    beta = part.widest / max(found.distance, 1.0) if t == 1 else min(part.gamma / d, part.widest)
    theta = (found.point - problem.source) / found.distance
    rays = theta + beta * u
    rays = rays / torch.linalg.vector_norm(rays.flatten(1), dim=1).view(-1, 1, 1, 1)
    return rays, u


@pytest.mark.parametrize("t", [1, 3])
@pytest.mark.parametrize("gamma", [1e4, 20.0])
def test_the_direction_is_the_sum_of_the_formula(t, gamma):
    """- sum_i (g_i - mean) u_i, with g_i the distance of the plane along each ray; a ray beyond
    (1 + reach) g counts as 1.02 times that, and one within (1 - reach) g as that."""
    normal, found, label = plane(0.3, 0.3)
    problem = tb.attack.Problem(GREY, 0)
    part = OptStyle(gamma=gamma)
    done = drive(part.begin(problem)(t, found, 400), problem, label)
    rays, u = lengths(found, part, problem, t, 400)
    g = 0.3 / (rays.flatten(1) @ normal)
    assert (g > 0).all()
    far, near = 1.03 * found.distance, 0.97 * found.distance
    g = torch.where(g > far, FLAGGED_RAY_FACTOR * far, g.clamp(min=near))
    assert g.std() > 0
    wanted = torch.einsum("n,nchw->chw", -(g - g.mean()), u)
    cosine = float(wanted.flatten() @ done.returned.flatten()) / norm(wanted)
    assert cosine > 0.9999  # up to the tolerance of the searches, 1e-4 of 6 % of g
    assert norm(done.returned) == pytest.approx(1)
    assert problem.notes["spread"] == pytest.approx(float(g.std(correction=0)) / 1.0, rel=0.01)


def test_it_points_towards_the_normal_of_a_plane():
    """50 rays in d = 768: the cosine with the part of the normal across the ray is about
    sqrt(50 / 768) = 0.26, for the normal itself (cosine with the ray 0.3) 0.24. The mean of 12 has
    a standard error of 0.036 / sqrt(12) = 0.010; directions of no use have mean 0, and exceed 0.12
    with probability 1e-30; an estimate as good as that falls below it with probability 1e-30."""
    cosines = []
    normal, found, label = plane(0.3, 0.3)
    for seed in range(12):
        problem = tb.attack.Problem(GREY, 0, seed=seed)
        part = OptStyle(LineSearch(1e-2, relative=True, stages=2, phase="estimate"))
        done = drive(part.begin(problem)(1, found, 1000), problem, label)
        cosines.append(float(done.returned.flatten() @ normal))
    assert np.mean(cosines) > 0.12


@pytest.mark.parametrize("g", [0.1, 0.3, 1.0, 1.7, 2.3, 3.1, 5.0, 7.77])
def test_if_all_rays_are_flagged_there_is_no_direction(g):
    """All count as equally long. The mean of equal numbers need not be that number: what is left
    of it by rounding must not be taken for a direction."""
    point = GREY + (g * testing._unit(0, SHAPE)).view(SHAPE)
    for rays in (*range(1, 8), 10, 20, 30):
        problem = tb.attack.Problem(GREY, 0)
        part = OptStyle(directions=rays)
        done = drive(part.begin(problem)(1, Iterate(point, g), 1), problem, lambda x: 0)
        assert len(done.points) == rays
        none = done.returned is None
        assert none, rays


def test_if_no_ray_meets_the_boundary_there_is_no_direction():
    """All end at their inner ends, whose distances differ by rounding and by nothing else."""
    point = GREY + testing._unit(0, SHAPE).view(SHAPE)
    problem = tb.attack.Problem(GREY, 0)
    done = drive(OptStyle().begin(problem)(1, Iterate(point, 1.0), 1), problem, lambda x: 1)
    none = done.returned is None
    assert none


def test_another_search_may_be_plugged_in():
    _, found, label = plane(0.3, 0.3)
    problem = tb.attack.Problem(GREY, 0)
    part = OptStyle(BinarySearch(1e-4, relative=True, phase="estimate"))
    done = drive(part.begin(problem)(1, found, 100), problem, label)
    assert done.asks <= 1 + math.ceil(math.log2(1e4)) + 1
    assert len(done.points) < 10 * 16


@pytest.mark.parametrize(("dimension", "t", "wanted"), [(768, 2, 0.1), (150_528, 2, 0.0664)])
def test_the_radius_is_gamma_over_d_but_no_wider_than_a_tenth(dimension, t, wanted):
    """HSJA's theta = gamma / d^1.5 times sqrt(d): 10^4 / 150 528 = 0.0664 for 3 x 224 x 224."""
    shape = {768: (3, 16, 16), 150_528: (3, 224, 224)}[dimension]
    source = torch.full(shape, 0.5, dtype=torch.float64)
    problem = tb.attack.Problem(source, 0)
    theta = testing._unit(0, shape).view(shape)
    found = Iterate(source + 2 * theta, 2.0)
    done = drive(OptStyle().begin(problem)(t, found, 1), problem, lambda x: 0)
    for point in done.points:
        ray = (point - source) / norm(point - source)
        tangent = math.tan(math.acos(min(1.0, float(ray.flatten() @ theta.flatten()))))
        assert tangent == pytest.approx(wanted, rel=0.02 if dimension > 1000 else 0.15)


# -- the presets ----------------------------------------------------------------------------------


def test_stealthy_hsja_has_few_flagged_answers():
    """Per estimate 2 for each of 10 rays at most, per projection 2: of the queries after the start
    a tenth or less are flagged, where HSJA has about a half."""
    boundary = testing.half_space(0.3)

    def share(preset):
        [result] = tb.run(
            tb.preset(preset),
            boundary.model(),
            boundary.source[None],
            [0],
            limits=tb.Limits(max_queries=4000),
        )
        tallies = [tally for phase, tally in result.ledger.counts.items() if phase != "start"]
        total = sum(sum(tally.values()) for tally in tallies)
        return sum(tally.get(0, 0) for tally in tallies) / total, result

    stealthy, result = share("stealthy-hsja")
    assert stealthy < 0.1
    assert share("hsja")[0] > 0.35
    rays = sum(step.notes.get("rays", 0) for step in result.trace)
    assert result.ledger.counts["estimate"][0] <= 2 * (rays + 10)
    assert result.ledger.counts["search"][0] <= 2 * (len(result.trace) + 1)


def test_stealthy_geoda_holds_its_flagged_answers_near_ten_to_twenty():
    """Feedback: after the first estimates each has 3 to 60 flagged answers of 100 sqrt(t)."""
    boundary = testing.half_space(1.0, factor=4)
    [result] = tb.run(
        tb.preset("stealthy-geoda"), boundary.model(), boundary.source[None], [0], budget=30_000
    )
    flagged = [
        round((1 - step.notes["share"]) * step.notes["estimate_queries"])
        for step in result.trace
        if "bias" in step.notes
    ]
    late = flagged[len(flagged) // 2 :]
    assert len(late) >= 10
    assert 5 <= np.mean(late) <= 40
    biases = [step.notes["bias"] for step in result.trace if "bias" in step.notes]
    for before, after, count in zip(biases, biases[1:], flagged, strict=False):
        factor = 0.9 if count < 10 else 1.1 if count > 20 else 1.0
        assert after == pytest.approx(before * factor)
