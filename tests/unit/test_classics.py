"""Tangent Attack, Evolutionary Attack, AHA and Sign Flip: their steps in closed form, and their
walks beside one query at a time."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from driver import drive

import tollbox as tb
from tollbox import testing
from tollbox.attacks.aha import agreement
from tollbox.attacks.evolutionary import chosen
from tollbox.attacks.sign_flip import turn
from tollbox.attacks.tangent import tangents
from tollbox.core.by_side import at_side
from tollbox.core.metric import Metric
from tollbox.core.stop import Stop
from tollbox.parts.paths import Circle

SHAPE = (3, 8, 8)
GREY = torch.full(SHAPE, 0.5, dtype=torch.float64)


def norm(a):
    return float(torch.linalg.vector_norm(a))


def run(name, boundary, budget, ratio=1, seed=0, **changes):
    attack = replace(at_side(tb.preset(name), boundary.source.shape[-1]), **changes)
    cell = tb.attack.Cell(
        attack,
        boundary.source,
        0,
        tb.Prices(ratio, 1),
        tb.Limits(budget),
        seed=seed,
        norm=boundary.norm,
    )
    [result] = tb.attack.run_cells([cell], boundary.model())
    return result


def asked(name, boundary, **changes):
    """The queries of an attack after its first search, with whether each was adversarial, and the
    first boundary point."""
    problem = tb.attack.Problem(boundary.source, 0, norm=boundary.norm)
    attack = replace(at_side(tb.preset(name), boundary.source.shape[-1]), **changes)
    driven = drive(attack(problem), problem, lambda point: int(boundary.labels(point[None])[0]))
    walk = [
        (point, label != 0)
        for point, label, phase in zip(driven.points, driven.labels, driven.phased, strict=True)
        if phase == "walk"
    ]
    return walk, problem.accepted[0].point


# -- Tangent Attack -------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.9, 0.5, 0.1])
def test_a_tangent_point_is_where_the_way_from_the_source_touches_the_ball(share):
    away = 0.3 * testing._unit(1, SHAPE).view(SHAPE)
    normal = testing._unit(2, SHAPE).view(SHAPE)
    circle = Circle.through(GREY, GREY + away, normal)
    [k] = tangents(circle, [share])[0:1]
    radius, way = k - (GREY + away), k - GREY
    assert norm(radius) == pytest.approx(0.3 * share)  # on the ball
    assert float((radius * way).sum()) == pytest.approx(0, abs=1e-12)  # a tangent
    assert norm(way) == pytest.approx(0.3 * math.sqrt(1 - share**2))
    assert float((way * away).sum()) / norm(way) / 0.3 == pytest.approx(math.sqrt(1 - share**2))
    assert float((radius * normal).sum()) > 0  # on the side of the normal
    plane = torch.stack([away.flatten(), normal.flatten()]).T
    left = radius.flatten() - plane @ torch.linalg.lstsq(plane, radius.flatten()).solution
    assert norm(left) < 1e-12  # in the plane of both


def test_the_tangent_point_is_that_of_the_authors_formula():
    """Theorem 1 of the paper: k = x_t + R (cos(gamma) e + sin(gamma) u), gamma = beta - alpha."""
    away = 0.3 * testing._unit(3, SHAPE).view(SHAPE)
    u, radius = testing._unit(4, SHAPE).view(SHAPE), 0.17
    inward = -away
    sine = -float((inward * u).sum()) / norm(inward)
    gamma = math.acos(radius / norm(inward)) - math.asin(sine)
    e = inward - (inward * u).sum() * u
    k = GREY + away + radius * (math.cos(gamma) * e / norm(e) + math.sin(gamma) * u)
    [made] = tangents(Circle.through(GREY, GREY + away, u), [radius / 0.3])[0:1]
    assert torch.allclose(made, k, atol=1e-12)


def test_at_a_plane_with_its_normal_a_step_ends_at_the_best_tangent_and_projects_on_it():
    """From the closest point of the plane no tangent point is closer; the iterate stays there."""
    boundary = testing.half_space(0.3, SHAPE)
    first, second = (run("tangent", boundary, budget).distance for budget in (700, 3000))
    assert 0.3 <= second < first
    assert second < 1.1 * 0.3


def test_radii_are_halved_and_the_source_is_not_queried():
    made = tb.preset("tangent")
    move = made.begin(tb.attack.Problem(GREY, 0))
    x = GREY + 0.3 * testing._unit(1, SHAPE).view(SHAPE)
    u = testing._unit(2, SHAPE).view(SHAPE)
    for t in (1, 2):
        ask = next(move(t, tb.attack.Iterate(x, 0.3), u, None))
        rows = ask.runs[0].points[0:30]
        radii = [norm(row - x) / 0.3 for row in rows]
        assert radii[0] == pytest.approx(0.5 if t == 1 else 1 / math.sqrt(2))
        assert all(one == pytest.approx(2 * two) for one, two in pairwise(radii[:10]))


# -- Evolutionary Attack --------------------------------------------------------------------------


def test_coefficients_are_chosen_without_replacement_in_proportion_to_their_variances():
    """One of ten: shares of 4000 draws are within 5 standard errors of the weights. Five of ten:
    the least of the weights is chosen least often."""
    weights = torch.arange(1.0, 11, dtype=torch.float64)
    noise = tb.attack.Problem(GREY, 0).noise("draw", 0, 4000, (10,))[0:4000]
    shares = torch.stack([chosen(weights, row, 1) for row in noise]).mean(0)
    expected = weights / weights.sum()
    error = (expected * (1 - expected) / 4000).sqrt()
    assert ((shares - expected).abs() < 5 * error).all()
    five = torch.stack([chosen(weights, row, 5) for row in noise])
    assert (five.sum(1) == 5).all()
    assert int(five.mean(0).argmin()) == 0
    assert int(five.mean(0).argmax()) == 9


def test_every_proposal_is_closer_by_mu_and_changes_some_of_the_coefficients():
    boundary = testing.half_space(0.3, SHAPE)
    walk, x = asked("evolutionary", boundary, steps=25)
    moved = 0
    for point, good in walk:
        distance = norm(x - boundary.source)
        assert norm(point - boundary.source) <= 0.99 * distance + 1e-12
        step = point - x - 0.01 * (boundary.source - x)
        assert 0 < norm(step) < 0.04 * distance
        if good:
            x, moved = point, moved + 1
    assert moved


@pytest.mark.parametrize("name", ["evolutionary", "aha", "sign-flip"])
@pytest.mark.parametrize("every", [3, 10])
def test_a_walk_has_as_many_steps_as_it_is_given(name, every):
    boundary = testing.half_space(0.3, SHAPE)
    if name == "sign-flip":
        boundary = testing.half_space(0.3, SHAPE, norm=Metric.LINF)
    result = run(name, boundary, 10_000, steps=25, every=every)
    assert result.stop is Stop.ITERATIONS
    assert result.ledger.by_phase["walk"] == (50 if name == "sign-flip" else 25)


@pytest.mark.parametrize("name", ["evolutionary", "aha", "sign-flip"])
def test_asymmetric_search_is_the_same_run_at_c1_and_saves_flagged_answers_at_c10(name):
    """The first search is all that differs."""
    metric = Metric.LINF if name == "sign-flip" else Metric.L2
    boundary = testing.half_space_in_box(norm=metric)

    def of(preset, ratio):
        return run(preset, boundary, 5000, ratio, steps=20)

    one, other = of(name, 1), of(f"a-{name}", 1)
    assert one.ledger.counts == other.ledger.counts
    assert one.distance == other.distance
    assert torch.equal(one.adversarial, other.adversarial)
    binary, asymmetric = (of(each, 10).ledger.by_phase["search"] for each in (name, f"a-{name}"))
    assert asymmetric < binary


# -- AHA ------------------------------------------------------------------------------------------


def test_agreement_is_1_where_gains_are_as_expected_and_0_where_nothing_was_gained():
    assert agreement([0.1, 0.2], [0.1, 0.2]) == pytest.approx(1)
    assert agreement([0.1, 0.2], [0, 0]) == 0
    assert agreement([0.1, -0.2], [0.05, 0.1]) == pytest.approx(0.5)


def test_without_a_bias_aha_forgets_what_it_was_answered():
    """The bias is what the method adds: without it the walk ends farther away (median of seeds)."""
    boundary = testing.half_space(factor=4)
    with_bias, without = (
        sorted(run("aha", boundary, 4000, seed=seed, m=m).distance for seed in range(3))[1]
        for m in (0.01, 1e-9)
    )
    assert with_bias < 0.9 * without


# -- Sign Flip ------------------------------------------------------------------------------------


def test_a_setting_changes_outside_3_to_7_successes_of_ten():
    assert [turn(kept, 10) for kept in (0, 2, 3, 5, 7, 8, 10)] == [-1, -1, 0, 0, 0, 1, 1]


def test_a_projection_shrinks_the_ball_and_a_flip_keeps_it():
    boundary = testing.half_space(0.05, SHAPE, norm=Metric.LINF)
    walk, x = asked("sign-flip", boundary, steps=40, alpha=5e-4, every=1000)

    def radius(point):
        return float((point - boundary.source).abs().max())

    current, kept = radius(x), [0, 0]
    for (projected, good), (flipped, also) in zip(walk[::2], walk[1::2], strict=True):
        assert radius(projected) == pytest.approx(current - 5e-4, abs=1e-9)
        current = current - 5e-4 if good else current
        assert radius(flipped) <= current + 1e-9
        kept = [kept[0] + good, kept[1] + also]
    assert all(kept)
