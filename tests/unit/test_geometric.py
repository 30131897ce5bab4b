"""Geometric attacks: their steps at a plane, in closed form, with estimates that are known."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from driver import drive
from torch.nn.functional import interpolate

import tollbox as tb
from tollbox import testing
from tollbox.attacks.cgba import CGBAH
from tollbox.attacks.geoda import GeoDAOriginal
from tollbox.attacks.hsja import QEBA
from tollbox.attacks.qfool import QFool
from tollbox.attacks.rescaled import Rescaled
from tollbox.attacks.triangle import TriA, corner
from tollbox.attacks.ttba import TtBA, step_of
from tollbox.core.ask import Ask, Iterate, at_once
from tollbox.core.stop import Stop
from tollbox.parts.comparisons import PHASE as COMPARE
from tollbox.parts.directions import SingleWaves
from tollbox.parts.estimates import (
    MIN_ROUNDINGS,
    AdaptiveRadius,
    Agrest,
    MonteCarlo,
    RelativeRadius,
)
from tollbox.parts.paths import Circle, Segment
from tollbox.parts.searches import BinarySearch, ThetaSearch
from tollbox.parts.subspaces import Dct, Resize, bilinear_basis

SHAPE = (3, 16, 16)
GREY = torch.full(SHAPE, 0.5, dtype=torch.float64)
NORMAL = testing._unit(0, SHAPE).view(SHAPE)
ACROSS = testing._unit(1, SHAPE).view(SHAPE)
ACROSS = ACROSS - (ACROSS * NORMAL).sum() * NORMAL
ACROSS = ACROSS / torch.linalg.vector_norm(ACROSS)
DIAGONAL = (NORMAL + ACROSS) / math.sqrt(2)
FINE = BinarySearch(1e-6, relative=True)


def norm(vector):
    return float(torch.linalg.vector_norm(vector))


def behind(point):
    """The half-space at distance 1."""
    return int(((point - GREY) * NORMAL).sum() >= 1)


@dataclass
class Given:
    """An estimate that asks nothing, and gives the directions it was given, over and over."""

    directions: list
    asked: list = field(default_factory=list)
    rows: int = 1

    def tolerance_scale(self, problem):
        return 1.0

    def begin(self, problem):
        def estimate(t, found, queries):
            self.asked.append(queries)
            return at_once(self.directions[(t - 1) % len(self.directions)])

        return estimate


@dataclass(frozen=True)
class At:
    """A start that knows where."""

    point: torch.Tensor

    def __call__(self, problem):
        return at_once(Iterate(self.point, norm(self.point - problem.source)))


def attacked(make, directions, iterations, **more) -> tuple[Any, list[float], Given]:
    """An attack from a boundary point at 45 degrees: what it did, the distances of its iterates."""
    part, problem = Given(directions), tb.attack.Problem(GREY, 0)
    attack = make(At(GREY + 3 * DIAGONAL), FINE, part, iterations=iterations, **more)
    done = drive(attack(problem), problem, behind)
    return done, [accepted.distance for accepted in problem.accepted], part


def phase(done, name):
    return [p for p, each in zip(done.points, done.phased, strict=True) if each == name]


# -- CGBA-H ---------------------------------------------------------------------------------------


def test_cgba_h_goes_half_of_the_angle_and_then_straight_to_the_plane():
    done, reached, _ = attacked(CGBAH, [NORMAL], 2)
    first, second = phase(done, "sweep")
    angle = math.pi / 8
    assert norm(first - GREY) == pytest.approx(math.sqrt(2) * math.cos(angle), rel=1e-5)
    assert reached == pytest.approx(
        [math.sqrt(2), 1 / math.cos(angle), 1 / math.cos(angle / 2)], rel=1e-5
    )
    assert norm(second - GREY) == pytest.approx(reached[1] * math.cos(angle / 2), rel=1e-5)


def test_cgba_h_halves_until_a_point_is_adversarial_or_stays():
    """Away from the normal no point of the circle is."""
    done, reached, _ = attacked(CGBAH, [-NORMAL], 1, halvings=7)
    assert reached[1] == reached[0]
    points = phase(done, "sweep")
    angles = [math.pi * 3 / 4 / 2**k for k in range(1, 8)]
    assert [norm(p - GREY) / reached[0] for p in points] == pytest.approx(np.cos(angles))


# -- TtBA -----------------------------------------------------------------------------------------


def test_ttba_takes_two_thirds_of_a_long_bridge_and_more_of_a_short_one():
    assert step_of(0.6) == pytest.approx(0.4)
    assert step_of(0.05) == pytest.approx(0.045)
    assert step_of(0.15) == pytest.approx((0.09 + 0.4 / 3) / 2)
    ends = [step_of(k / 1000) for k in range(1001)]
    assert all(0 < after - before < 0.001 for before, after in pairwise(ends))


@pytest.mark.parametrize("asymmetric", [False, True])
def test_ttba_finds_where_the_bridge_ends(asymmetric):
    """At 45 degrees from the plane's normal, towards a direction across it on the other side: the
    bridge is adversarial up to the mirror image, k = 2s / (1 + 2s), s = sin 45."""
    done, reached, _ = attacked(TtBA, [-ACROSS], 1, asymmetric=asymmetric)
    s = math.sqrt(0.5)
    bridge = math.floor(1000 * 2 * s / (1 + 2 * s)) / 1000
    k = bridge * 2 / 3
    [point] = phase(done, "step")
    along, across = (1 - k) * s, (1 - k) * s - k
    cosine = along / math.hypot(along, across)
    assert norm(point - GREY) == pytest.approx(math.sqrt(2), rel=1e-5)
    assert reached[1] == pytest.approx(1 / cosine, rel=1e-5)


def test_ttba_stays_where_no_part_of_the_bridge_is_adversarial():
    done, reached, _ = attacked(TtBA, [-NORMAL], 1)
    assert reached[1] == reached[0]
    assert not phase(done, "step")


# -- the Triangle Attack --------------------------------------------------------------------------


def test_the_corner_of_a_triangle_is_where_the_law_of_sines_has_it():
    point = GREY + math.sqrt(2) * DIAGONAL
    circle = Circle.through(GREY, point, NORMAL)
    for alpha, beta in ((math.pi / 2, 0.3), (1.5, 0.5), (1.65, -0.4)):
        third = corner(circle, alpha, beta).point()
        one, other = third - GREY, third - point
        ratio = math.sin(alpha + abs(beta)) / math.sin(alpha)
        assert norm(one) == pytest.approx(math.sqrt(2) * ratio)
        cosine = float((one * other).sum()) / norm(one) / norm(other)
        assert math.acos(cosine) == pytest.approx(alpha)
    assert corner(circle, math.pi / 2, 0.3).point().allclose(circle.at(0.3).point())


@dataclass(frozen=True)
class Turning:
    """Directions that are known."""

    directions: tuple
    rows = 1

    def begin(self, problem, count, away):
        return iter(self.directions * count)


def triangle(directions, iterations, **more):
    problem = tb.attack.Problem(GREY, 0)
    quarter = BinarySearch(1 / 4, relative=True)
    attack = TriA(
        At(GREY + 3 * DIAGONAL), FINE, quarter, Turning(directions), iterations=iterations, **more
    )
    return drive(attack(problem), problem, behind), problem.accepted


def test_the_triangle_attack_bisects_beta_twice_on_the_side_that_is_adversarial():
    """At a plane, alpha = 90 degrees, the corner is adversarial up to 45 degrees: the least beta
    is 11.25, and of the three steps from there to 90 the first, 30.9375, is as well."""
    for direction, asked in ((NORMAL, 1), (-NORMAL, 2)):
        done, accepted = triangle((direction,), 1)
        assert len(phase(done, "sweep")) == asked
        beta = math.radians(11.25 + (90 - 11.25) / 4)
        assert accepted[1].distance == pytest.approx(math.sqrt(2) * math.cos(beta), rel=1e-5)
        assert len(phase(done, "search")) - 2 == len(phase(triangle((ACROSS * 0,), 1)[0], "search"))


def test_the_triangle_attack_gives_up_after_so_many_planes():
    """A direction of nothing leaves the diameter, on which all points are flagged. alpha falls to
    90 degrees less 0.1, so that the points come nearer to where x_t is."""
    done, accepted = triangle((ACROSS * 0,), 99, patience=30)
    assert done.returned is Stop.CONVERGED
    assert len(accepted) == 1
    points = phase(done, "sweep")
    assert len(points) == 60
    alpha = math.pi / 2 - 0.1
    beta = 0.2 + math.pi / 16
    wanted = math.sin(alpha + beta) / math.sin(alpha) * math.cos(beta) * math.sqrt(2)
    assert norm(points[-1] - GREY) == pytest.approx(wanted, rel=1e-5)


def test_single_waves_have_one_coefficient_a_channel_and_are_spread_evenly():
    problem = tb.attack.Problem(GREY, 0)
    space = Dct(4)
    turn = SingleWaves(space).begin(problem, 640, GREY)
    found = torch.cat([space.project(next(turn)[None]) for _ in range(640)]).flatten(2)
    assert found.pow(2).sum((1, 2)).allclose(torch.ones(640, dtype=torch.float64))
    chosen = found.abs() > 1e-9
    assert chosen.sum(-1).eq(1).all()
    counts = chosen.sum((0, 1)).double()  # 1920 over 16 waves: chi squared of 15 degrees
    assert float(((counts - 120) ** 2 / 120).sum()) < 44.3  # probability 1e-4 by chance


# -- qFool and GeoDA of its authors ---------------------------------------------------------------


def test_qfool_leaves_a_point_when_another_round_does_not_pay():
    """With the true normal the first round finds the nearest point; the second, which always
    follows, brings nothing: half of the gain per query."""
    done, reached, part = attacked(QFool, [NORMAL], 3)
    assert reached == pytest.approx([math.sqrt(2), math.sqrt(2), 1, 1], rel=1e-5)
    assert part.asked == [100] * 3
    assert norm(phase(done, "step")[0] - GREY) == pytest.approx(math.sqrt(2), rel=1e-5)


def test_qfool_goes_on_while_rounds_pay():
    """The first two rounds point elsewhere; their sum, and what follows, to the plane."""
    half = [(NORMAL + 0.9 * ACROSS), (NORMAL - 0.9 * ACROSS)]
    directions = [each / norm(each) for each in half] + [NORMAL]
    _, reached, _ = attacked(QFool, directions, 3, rounds=9)
    assert reached[:3] == pytest.approx([math.sqrt(2)] * 3, rel=1e-5)  # at P_0 still
    assert reached[3] == pytest.approx(1, rel=1e-5)


def test_geoda_of_its_authors_splits_4000_queries_and_goes_on():
    attack = tb.preset("geoda-original")
    planned = [attack.planned(t) for t in range(1, 11)]
    assert planned == [75, 105, 148, 208, 293, 412, 579, 813, 1144, 1608]
    assert sum(planned[:9]) == pytest.approx(4000 - 9 * 25, rel=0.003)
    assert attack.planned(10_000) == 10**6


def test_geoda_of_its_authors_walks_outward_by_the_length_of_its_sum():
    """The first mean counts sqrt(d / 75): steps of 0.1 of it, until behind the plane."""
    done, reached, _ = attacked(GeoDAOriginal, [NORMAL], 1, epsilon=0.1)
    step = 0.1 * math.sqrt(768 / 75)
    wanted = [step * k for k in range(1, math.ceil(1 / step) + 1)]
    assert [norm(p - GREY) for p in phase(done, "step")] == pytest.approx(wanted)
    assert reached[1] == pytest.approx(1, rel=1e-5)


# -- QEBA and HSJA's schedule ---------------------------------------------------------------------


def test_qeba_asks_as_many_in_every_estimate():
    _, _, part = attacked(QEBA, [NORMAL], 4)
    assert part.asked == [100] * 4


def test_an_adaptive_radius_follows_the_share_of_adversarial_answers():
    """On the boundary half of the answers are; well outside all of them, and the radius grows by a
    half each time, up to a tenth of the distance; well inside none, and it is halved."""
    for height, factor in ((1.1, 1.5), (0.9, 0.5)):
        problem = tb.attack.Problem(GREY, 0)
        point = GREY + height * NORMAL
        estimate = AdaptiveRadius(delta=0.01).begin(problem)
        radii = []
        for t in range(1, 9):
            done = drive(estimate(t, Iterate(point, height), 5), problem, behind)
            radii.append(norm(done.points[0] - point))
        wanted = [min(0.01 * factor**k, 0.1 * height) for k in range(8)]
        assert radii == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("make", [MonteCarlo, Agrest])
def test_the_radius_is_a_share_of_the_distance(make):
    problem = tb.attack.Problem(GREY, 0)
    point = GREY + math.sqrt(2) * DIAGONAL
    for t, (delta, power), wanted in (
        (1, (0.01, 0.0), 0.1),
        (2, (0.01, 0.0), 0.01 * math.sqrt(2)),
        (2, (1.0, 1.0), math.sqrt(2) / 768),
        (2, (1e-30, 0.0), MIN_ROUNDINGS * problem.resolution),
    ):
        estimate = RelativeRadius(make(subspace=Dct(4)), delta, power).begin(problem)
        done = drive(estimate(t, Iterate(point, math.sqrt(2)), 5), problem, behind)
        assert [norm(p - point) for p in done.points] == pytest.approx([wanted] * 5, rel=1e-4)


def test_theta_is_a_share_of_the_way_that_falls_with_the_dimension():
    problem = tb.attack.Problem(GREY, 0)
    line = Segment(GREY, Iterate(GREY + 3 * DIAGONAL, 3.0))
    for gamma, power in ((1.0, 1.5), (0.01, 0.5), (1e-9, 1.0)):
        done = drive(ThetaSearch(gamma, power)(problem, line), problem, behind)
        bins = min(math.ceil(768**power / gamma), 3 / problem.resolution)
        assert len(done.points) in (math.floor(math.log2(bins)), math.ceil(math.log2(bins)))


@pytest.mark.parametrize(("side", "count"), [(16, 4), (224, 56), (15, 4), (7, 1), (5, 5)])
def test_resizing_is_bilinear_interpolation(side, count):
    small = torch.randn(1, 1, count, count, dtype=torch.float64)
    wanted = interpolate(small, (side, side), mode="bilinear", align_corners=False)[0, 0]
    basis = torch.from_numpy(bilinear_basis(side, count))
    assert (basis @ small[0, 0] @ basis.T).allclose(wanted)


def test_resized_directions_have_their_length_and_effective_dimension():
    problem = tb.attack.Problem(GREY, 0)
    prior = Resize(4)
    assert prior.shape((3, 224, 224)) == (3, 56, 56)
    drawing = prior.begin(problem)
    made = drawing(problem.noise("test", 0, 4000, drawing.shape)[:], 0.5).flatten(1)
    assert made.norm(dim=1).allclose(torch.full((4000,), 0.5, dtype=torch.float64))
    variances = torch.linalg.eigvalsh(made.T @ made)
    effective = float(variances.sum() ** 2 / variances.pow(2).sum())
    wanted = prior.dimension(SHAPE)
    assert wanted < 48
    assert effective == pytest.approx(wanted, rel=0.1)


# -- rescaling ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Steady:
    """An attack that has one iterate, and asks at the source ever after."""

    point: torch.Tensor
    queries: int = 100
    rows = 1

    def __call__(self, problem):
        answers = yield Ask(self.point[None], phase="start")
        problem.accept(Iterate(self.point, float(answers.distances[0])))
        for _ in range(self.queries):
            yield Ask(problem.source[None], phase="steady")
        return Stop.ITERATIONS


def one_sided(point):
    """A plane at distance 1 whose normal is on the left half of the image."""
    return int((point - GREY)[..., :8].sum() / math.sqrt(3 * 16 * 8) >= 1)


def test_rescaling_takes_off_what_the_model_does_not_look_at():
    """A perturbation that is the same everywhere is sqrt(2) long, half of it in vain. Two blocks
    of four by 0.2, twice over in finer grids, leave little of it."""
    point = GREY + 1.0001 * math.sqrt(2) / math.sqrt(768)
    problem = tb.attack.Problem(GREY, 0)
    attack = Rescaled(Steady(point, 600), stretch=100.0)
    done = drive(attack(problem), problem, one_sided)
    good = [norm(p - GREY) for p, y in zip(done.points, done.labels, strict=True) if y]
    assert good[0] == pytest.approx(math.sqrt(2), rel=1e-3)
    assert 1 <= min(good) < 1.06


@dataclass(frozen=True)
class Improving(Steady):
    """An attack that accepts a closer point with every query."""

    def __call__(self, problem):
        for step in range(self.queries):
            point = torch.lerp(self.point, problem.source, 1e-6 * step)
            answers = yield Ask(point[None], phase="steady")
            problem.accept(Iterate(point, float(answers.distances[0])))
        return Stop.ITERATIONS


def test_an_attack_that_improves_with_every_query_is_rescaled():
    point = GREY + 1.0001 * math.sqrt(2) / math.sqrt(768)
    problem = tb.attack.Problem(GREY, 0)
    attack = Rescaled(Improving(point, 300), stretch=100.0)
    done = drive(attack(problem), problem, lambda _: 1)
    assert done.phased.count(COMPARE) >= 40


def test_rescaling_has_its_share_of_the_cost_and_the_attack_asks_what_it_asked():
    point = GREY + 1.0001 * math.sqrt(2) / math.sqrt(768)
    problem = tb.attack.Problem(GREY, 0, prices=tb.Prices(10, 1))
    attack = Rescaled(Steady(point), stretch=200.0)
    done = drive(attack(problem), problem, one_sided)
    costs = {True: 0.0, False: 0.0}
    for name, label in zip(done.phased, done.labels, strict=True):
        costs[name == COMPARE] += 1 if label else 10
        highest = 2 * (2 + 2 * 17) * 10  # of one attempt
        assert costs[True] <= 0.25 * costs[False] + highest
    assert costs[True] >= 0.2 * costs[False]
    alone = tb.attack.Problem(GREY, 0, prices=tb.Prices(10, 1))
    steady = drive(Steady(point)(alone), alone, one_sided)
    asked = [p for p, n in zip(done.points, done.phased, strict=True) if n in ("start", "steady")]
    assert all(map(torch.equal, asked, steady.points))
    assert len(asked) == len(steady.points)
