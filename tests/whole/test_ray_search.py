"""OPT and Sign-OPT: slopes in closed form on a plane, the search for alpha, and what is flagged.

Along a unit vector theta a plane at distance 1 with normal n is at g(theta) = 1 / <theta, n>.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from driver import drive

import tollbox as tb
from tollbox import testing
from tollbox.attacks.opt import OPT, RayDescent, SignOPT, Slope
from tollbox.core.ask import Iterate, at_once
from tollbox.core.stop import Stop
from tollbox.parts.rays import FARTHEST
from tollbox.parts.searches import AsymmetricSearch, BinarySearch, LineSearch

SHAPE = (3, 16, 16)
GREY = torch.full(SHAPE, 0.5, dtype=torch.float64)
NORMAL = testing._unit(0, SHAPE).view(SHAPE)
ACROSS = testing._unit(1, SHAPE).view(SHAPE)
ACROSS = ACROSS - (ACROSS * NORMAL).sum() * NORMAL
ACROSS = ACROSS / torch.linalg.vector_norm(ACROSS)
FINE = BinarySearch(1e-9)


def norm(a):
    return float(torch.linalg.vector_norm(a))


def label(point):
    return int(float(((point - GREY) * NORMAL).sum()) >= 1 - 1e-12)


def at_angle(angle):
    """The point of the plane at this angle from the normal."""
    theta = math.cos(angle) * NORMAL + math.sin(angle) * ACROSS
    return Iterate(GREY + theta / math.cos(angle), 1 / math.cos(angle))


@dataclass(frozen=True)
class At:
    """A start on the boundary."""

    found: Any
    tolerance = 1e-9

    def __call__(self, problem):
        return at_once(self.found)


def drawn(problem, t, count):
    noise = problem.noise("estimate", t, count)[0:count].flatten(1)
    return noise / torch.linalg.vector_norm(noise, dim=1, keepdim=True)


def turned(found, units, beta):
    theta = ((found.point - GREY) / norm(found.point - GREY)).flatten()
    rays = theta + beta * units
    return rays / torch.linalg.vector_norm(rays, dim=1, keepdim=True)


# -- slopes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("beyond", [False, True])
def test_opt_has_the_slope_of_the_differences(beyond):
    problem, found = tb.attack.Problem(GREY, 0), at_angle(1.2)
    attack = OPT(At(found), FINE, beta=0.01, directions=7, from_beyond=beyond)
    done = drive(attack.slope(problem, 3, found, 0.01), problem, label)
    units = drawn(problem, 3, 7)
    values = 1 / (turned(found, units, 0.01) @ NORMAL.flatten())
    wanted = ((values - found.distance) / 0.01) @ units / 7
    assert norm(done.returned.gradient.flatten() - wanted) < 1e-5 * norm(wanted)
    assert done.returned.closest.distance == pytest.approx(float(values.min()), abs=1e-8)
    assert values.min() < found.distance
    assert done.phases == {"estimate"}
    assert done.asks < len(done.points) / 7  # side by side


def test_opts_searches_are_finer_for_a_smaller_beta():
    """From beta = 0.01 to 0.001, each of seven rays takes three or four bisections more."""
    problem, found = tb.attack.Problem(GREY, 0), at_angle(1.2)
    attacks = [OPT(At(found), BinarySearch(1e-5), beta=beta, directions=7) for beta in (1e-3, 1e-2)]
    same, finer = (
        len(drive(attack.slope(problem, 3, found, 1e-3), problem, label).points)
        for attack in attacks
    )
    assert 7 * 2 < finer - same < 7 * 5


def test_opts_slope_is_uphill_on_average():
    """Its mean is the gradient of g over d. Over 400 directions the standard error is sqrt(2 / 400)
    of it; 5 of them are 0.35."""
    problem, found = tb.attack.Problem(GREY, 0), at_angle(1.0)
    attack = OPT(At(found), BinarySearch(1e-6), directions=400)
    done = drive(attack.slope(problem, 1, found, 1e-3), problem, label)
    away = -(math.cos(1.0) * ACROSS - math.sin(1.0) * NORMAL)  # across theta, to the normal's side
    gain = float((done.returned.gradient * away).sum()) * problem.dimension
    assert gain == pytest.approx(-math.sin(1.0) / math.cos(1.0) ** 2, rel=0.35)  # -dg/dphi


@pytest.mark.parametrize("beyond", [False, True])
def test_a_ray_without_a_boundary_counts_as_a_little_farther_than_it_was_asked(beyond):
    problem, found = tb.attack.Problem(GREY, 0), at_angle(0.3)
    attack = OPT(At(found), FINE, beta=0.01, directions=2, from_beyond=beyond)
    done = drive(attack.slope(problem, 1, found, 0.01), problem, lambda _: 0)
    farther = (1.02 * 1.01 if beyond else FARTHEST) - 1
    wanted = farther * found.distance / 0.01 * drawn(problem, 1, 2).sum(0) / 2
    assert norm(done.returned.gradient.flatten() - wanted) < 1e-9 * norm(wanted)
    assert done.returned.closest is found
    assert len(done.points) == (2 if beyond else 2 * 71)


@pytest.mark.parametrize("chunk", [7, 128])
def test_sign_opt_adds_up_signs_and_asks_once_a_direction(chunk):
    problem, found = tb.attack.Problem(GREY, 0), at_angle(1.2)
    attack = SignOPT(At(found), FINE, queries=50, chunk=chunk)
    done = drive(attack.slope(problem, 2, found, 0.01), problem, label)
    units = drawn(problem, 2, 50)
    rays = turned(found, units, 0.01)
    signs = torch.where(rays @ NORMAL.flatten() * found.distance >= 1, -1.0, 1.0).double()
    assert norm(done.returned.gradient.flatten() - signs @ units / 50) < 1e-12
    assert done.returned.closest is found
    assert len(done.points) == 50
    assert 10 < done.flagged < 40
    for point, ray in zip(done.points, rays, strict=True):
        assert torch.allclose((point - GREY).flatten(), found.distance * ray, atol=1e-12)


# -- steps ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Given(RayDescent):
    """An attack whose estimates ask nothing, and give a direction that was given."""

    search: Any = FINE
    iterations: int = 1
    gradient: Any = None

    def _step(self, problem, iterate, gradient, alpha, scale):
        problem.note(finer=scale)
        return super()._step(problem, iterate, gradient, alpha, scale)

    def slope(self, problem, t, iterate, beta):
        problem.note(estimated=beta)
        return at_once(Slope(self.gradient, iterate))


def stepped(gradient, angle=1.2, **changes):
    problem = tb.attack.Problem(GREY, 0)
    done = drive(Given(At(at_angle(angle)), gradient=gradient, **changes)(problem), problem, label)
    return problem, done


def angles(done):
    """Between the normal and what was asked."""
    away = [(point - GREY) / norm(point - GREY) for point in done.points]
    return [math.acos(min(1.0, float((theta * NORMAL).sum()))) for theta in away]


def angle_of(alpha, angle=1.2):
    """Of theta + alpha normal."""
    return math.atan2(math.sin(angle), math.cos(angle) + alpha)


def test_alpha_is_doubled_as_long_as_the_boundary_comes_nearer():
    """Down the slope -n: theta + 0.2 n, theta + 0.4 n, ... come nearer to the normal for ever, and
    all 15 are tried, each from the distance of the one before."""
    problem, done = stepped(-NORMAL)
    wanted = [angle_of(0.2 * 2**k) for k in range(15)]
    tried = list(dict.fromkeys(round(angle, 9) for angle in angles(done)))
    assert tried == pytest.approx([round(angle, 9) for angle in wanted], abs=2e-9)
    distance = 1 / math.cos(1.2)
    for angle in wanted[:8]:
        firsts = [
            p for p, a in zip(done.points, angles(done), strict=True) if abs(a - angle) < 1e-8
        ]
        assert norm(firsts[0] - GREY) == pytest.approx(distance, rel=1e-8)
        distance = 1 / math.cos(angle)
    last = problem.accepted[-1]
    assert last.distance == pytest.approx(1, abs=1e-6)
    assert last.notes["alpha"] == pytest.approx(0.2 * 2**15)
    assert done.phases == {"step"}


def test_doubling_ends_with_the_first_step_that_is_no_nearer():
    """Towards -across the angle falls to 0 and grows again on the other side."""
    problem, done = stepped(ACROSS, angle=0.3, alpha=0.1)
    reached = [abs(math.atan2(math.sin(0.3) - 0.1 * 2**k, math.cos(0.3))) for k in range(3)]
    assert reached[0] > reached[1] < reached[2]
    assert problem.accepted[-1].distance == pytest.approx(1 / math.cos(reached[1]), abs=1e-8)
    assert done.labels[-1] == 0  # flagged at once, and nothing more is asked of it
    assert angles(done)[-1] == pytest.approx(reached[2])
    assert problem.accepted[-1].notes["alpha"] == pytest.approx(0.1 * 2**3)


def test_alpha_is_divided_by_four_until_the_boundary_comes_nearer():
    """The first step of 4 goes far beyond; 4 * 2 / 4, / 16, / 64 are tried, flagged once each."""
    problem, done = stepped(ACROSS, angle=0.3, alpha=4.0)
    reached = [math.atan2(math.sin(0.3) - a, math.cos(0.3)) for a in (4.0, 2.0, 0.5)]
    assert abs(reached[2]) < 0.3 < abs(reached[1])
    assert done.labels[:3] == [0, 0, 1]
    assert angles(done)[:3] == pytest.approx([abs(angle) for angle in reached])
    assert [norm(p - GREY) for p in done.points[:3]] == pytest.approx([1 / math.cos(0.3)] * 3)
    assert problem.accepted[-1].distance == pytest.approx(1 / math.cos(reached[2]), abs=1e-8)
    assert problem.accepted[-1].notes["alpha"] == 0.5


def test_without_a_step_beta_falls_to_a_tenth_and_alpha_begins_at_one():
    """Up the slope nothing is nearer: 1 + 15 flagged answers an iteration, until beta is 1e-8."""
    problem, done = stepped(NORMAL, iterations=100)
    assert done.returned is Stop.CONVERGED
    assert done.labels == [0] * 16 * 6
    notes = [step.notes for step in problem.accepted[1:]]
    assert [each["beta"] for each in notes] == pytest.approx([10.0**-k for k in range(3, 9)])
    assert [each["finer"] for each in notes] == pytest.approx([10.0**-k for k in range(6)])
    assert notes[0]["alpha"] == pytest.approx(0.4 / 4**15)
    assert notes[1]["alpha"] == pytest.approx(2 / 4**15)
    assert {step.distance for step in problem.accepted} == {1 / math.cos(1.2)}


def test_the_nearest_ray_of_an_estimate_is_taken_if_no_step_is_nearer():
    problem, near = tb.attack.Problem(GREY, 0), at_angle(0.5)

    @dataclass(frozen=True)
    class Upon(Given):
        def slope(self, *_):
            return at_once(Slope(NORMAL, near))

    drive(Upon(At(at_angle(1.2)))(problem), problem, label)
    assert problem.accepted[-1][:2] == near[:2]


def test_a_start_that_was_given_is_searched_and_none_ends_it():
    problem = tb.attack.Problem(GREY, 0, start_image=GREY + 1.5 * NORMAL)
    done = drive(Given(At(None), gradient=NORMAL)(problem), problem, label)
    assert done.phased[0] == "start"
    assert problem.accepted[0].distance == pytest.approx(1, abs=1e-8)
    nothing = tb.attack.Problem(GREY, 0)
    assert (
        drive(Given(At(None), gradient=NORMAL)(nothing), nothing, label).returned is Stop.NO_START
    )


# -- presets --------------------------------------------------------------------------------------


def test_the_presets_have_the_settings_of_their_sources():
    for name, part in (("", BinarySearch), ("a-", AsymmetricSearch), ("stealthy-", LineSearch)):
        for family in ("opt", "sign-opt"):
            attack = tb.preset(name + family)
            assert type(attack.search) is type(attack.start.search) is part
            assert (attack.start.directions, attack.alpha) == (100, 0.2)
            assert attack.beta == (0.01 if name == "stealthy-" else 0.001)
            if name != "stealthy-":
                assert (attack.search.tau, attack.start.search.tau) == (2e-6, 1e-5)
    assert {tb.preset(f"{name}opt").directions for name in ("", "a-", "stealthy-")} == {10}
    assert {tb.preset(f"{name}sign-opt").queries for name in ("", "a-", "stealthy-")} == {200}
    assert tb.preset("stealthy-opt").from_beyond
    assert not tb.preset("a-opt").from_beyond


def flagged_a_ray(preset, ratio):
    """Flagged answers of OPT's estimates, for each ray, and all of them."""
    boundary = testing.half_space()
    given = boundary.source + 3 * testing._unit(0, SHAPE).view(SHAPE) + 0.2 * ACROSS
    attack = replace(tb.preset(preset), iterations=3)
    prices = tb.Prices(ratio, 1)
    cell = tb.attack.Cell(attack, boundary.source, 0, prices, limits=tb.Limits(1e6), start=given)
    [result] = tb.attack.run_cells([cell], boundary.model())
    counts = result.ledger.counts["estimate"]
    return counts[0] / 30, sum(counts.values()) / 30


def test_a_line_search_is_flagged_twice_a_ray_and_an_asymmetric_one_less_than_a_binary_one():
    stealthy, many = flagged_a_ray("stealthy-opt", 100)
    asymmetric, some = flagged_a_ray("a-opt", 100)
    binary, few = flagged_a_ray("opt", 100)
    assert stealthy <= 2
    assert stealthy < asymmetric < 0.6 * binary
    assert few < 20 < some < many
