"""Profiles, turns of them, and the start of `frugal-linf`."""

from __future__ import annotations

import math

import pytest
import torch
from driver import drive

import tollbox as tb
from tollbox import testing
from tollbox.core.metric import Metric
from tollbox.parts.inward import tries_at
from tollbox.parts.profile_start import CUTS, ProfileStart
from tollbox.parts.profiles import ProfileTurn, moved

LARGE = (3, 64, 64)


def noise(seed, shape=LARGE):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def unit(vector):
    return vector / torch.linalg.vector_norm(vector)


def across(vector, other):
    """The unit part of `vector` across `other`."""
    along = unit(other)
    return unit(vector - (vector * along).sum() * along)


def grey(shape=LARGE):
    return torch.full(shape, 0.5, dtype=torch.float64)


def test_a_point_is_clipped_to_the_ball_and_then_to_the_box():
    source = torch.tensor([[[0.5, 0.95, 0.1, 0.5]]], dtype=torch.float64)
    values = torch.tensor([[[3.0, 0.5, -1.0, -0.25]]], dtype=torch.float64)
    assert moved(source, values, 0.2).flatten().tolist() == pytest.approx([0.7, 1, 0, 0.45])


@pytest.mark.parametrize(("spread", "share"), [(1, 0.856), (2, 0.960), (1000, 1)])
def test_the_larger_a_profile_along_the_normal_the_nearer_it_is_to_its_signs(spread, share):
    normal = noise(0)
    clipped = (spread * normal).clamp(-1, 1)
    assert float((clipped * normal).sum() / normal.abs().sum()) == pytest.approx(share, abs=0.01)


def test_a_turn_begins_at_the_profile_and_keeps_its_length():
    values, radius = noise(0), 0.1
    turn = ProfileTurn(grey(), values, radius, unit(noise(1)))
    assert torch.allclose(turn.point(0.0), moved(grey(), values, radius))
    for phi in (0.3, 1.2):
        at = turn.values(phi)
        length = torch.linalg.vector_norm(values)
        assert float(torch.linalg.vector_norm(at) / length) == pytest.approx(1)
        assert float((unit(at) * unit(values)).sum()) == pytest.approx(math.cos(phi))
        apart = (turn.point(phi) - grey())[None]
        assert Metric.LINF.norms(apart).item() == pytest.approx(radius * math.cos(phi))


def test_a_direction_along_the_profile_leaves_its_shape():
    values = noise(0)
    turn = ProfileTurn(grey(), values, 0.1, unit(values))
    assert torch.allclose(turn.values(0.5), values * math.cos(0.5))


@pytest.mark.parametrize("tangent", [0.25, 0.5, 1.0, 2.0])
def test_on_a_plane_a_turn_is_adversarial_up_to_the_angle_of_the_circle_in_l2(tangent):
    """Bussgang: <clip(p), g> is in proportion to <p, g>. With 12 288 numbers that holds to about
    two hundredths of the angle."""
    values = noise(0)
    side = across(noise(1), values)
    normal = 0.02 * (unit(values) + tangent * side) + 0.1 * across(noise(2), values) / 64
    turn = ProfileTurn(grey(), values, 0.1, side)
    height = float(((moved(grey(), values, 0.1) - grey()) * normal).sum())
    angles = [k * 0.002 for k in range(1, 780)]
    inside = [phi for phi in angles if float(((turn.point(phi) - grey()) * normal).sum()) >= height]
    assert max(inside) == pytest.approx(math.atan(tangent), rel=0.1, abs=0.02)


# -- the start ------------------------------------------------------------------------------------


def begun(boundary, start=None, ratio=1.0):
    problem = tb.Problem(
        boundary.source, 0, tb.Prices(ratio, 1), start_image=start, norm=Metric.LINF
    )
    return drive(
        ProfileStart()(problem), problem, lambda point: int(boundary.labels(point[None])[0])
    )


@pytest.mark.parametrize("boundary", testing.linf_boundaries(factor=4)[:-1], ids=lambda b: b.name)
def test_a_start_ends_just_outside_the_boundary(boundary):
    found = begun(boundary).returned
    again = moved(boundary.source, found.values, found.radius)
    assert torch.equal(again, found.iterate.point)
    assert int(boundary.labels(again[None])) != 0
    nearer = moved(boundary.source, found.values, found.radius * (1 - ProfileStart.tolerance))
    assert int(boundary.labels(nearer[None])) == 0


def test_the_dearer_a_flagged_answer_the_fewer_rays():
    assert [tries_at(12, ratio) for ratio in (0.1, 1, 10, 100, 1000)] == [12, 12, 6, 4, 3]
    assert [tries_at(1, ratio) for ratio in (1, 1000)] == [1, 1]


def test_where_nothing_is_adversarial_every_try_is_asked_once():
    problem = tb.Problem(testing.constant().source, 0, norm=Metric.LINF)
    start = ProfileStart(tries=3, starts=len(CUTS))
    done = drive(start(problem), problem, lambda point: 0)
    assert done.returned is None
    assert len(done.points) == 3 + len(CUTS)


def test_a_given_start_is_clipped_inward_and_its_shape_is_the_profile():
    boundary = testing.linf_half_space(factor=4)
    normal = testing._unit(0, (3, 16, 16), 4).view(boundary.source.shape)
    given = (boundary.source + 0.4 * normal / normal.abs().amax()).clamp(0, 1)
    found = begun(boundary, given).returned
    assert found.smooth is None
    assert found.values.abs().amax().item() == pytest.approx(1)
    assert torch.allclose(
        moved(boundary.source, found.values, found.radius), found.iterate.point, atol=1e-12
    )
    assert int(boundary.labels(found.iterate.point[None])) != 0


# -- the attack -----------------------------------------------------------------------------------


def test_where_flagged_answers_are_dear_it_is_the_nearest_on_a_plane_of_low_frequencies():
    """At c* = 1 RayS, which has time to flip every pixel, ends nearer: a profile is no sign."""
    boundary = testing.linf_half_space(factor=4)
    names = ["frugal-linf", "rays", "a-rays", "a-hsja-linf", "hsja-linf"]
    cells = [
        tb.Cell(tb.preset(name), boundary.source, 0, tb.Prices(10, 1), 6000, norm=boundary.norm)
        for name in names
    ]
    ours, *others = [result.distance for result in tb.run_cells(cells, boundary.model())]
    assert ours <= 1.25 * boundary.optimum
    assert ours < min(others)
