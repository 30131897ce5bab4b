"""Paths and sweeps: the paper's formulas, which piece of a circle is searched, what is found."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from driver import drive

import tollbox as tb
from tollbox import testing
from tollbox.core.ask import Iterate
from tollbox.engine.points import write
from tollbox.parts.paths import (
    QUARTER_TURN,
    Arc,
    Circle,
    Galloping,
    Quarter,
    Segment,
    SignedGrid,
    ToDirection,
)
from tollbox.parts.searches import (
    AsymmetricSearch,
    BinarySearch,
    CosineSearch,
    LineSearch,
    OptimalSearch,
)
from tollbox.theory import search_costs

SHAPE = (3, 16, 16)


def scene(alpha, radius=2.0, shape=SHAPE, dtype=torch.float64, seed=0):
    """x* mid-grey, x at `radius` from it along u, and a unit g at the angle `alpha` from u."""
    u, side = (testing._unit(seed + k, shape) for k in (0, 1))
    side = side - (side @ u) * u
    side = side / torch.linalg.vector_norm(side)
    g = math.cos(alpha) * u + math.sin(alpha) * side
    source = torch.full(shape, 0.5, dtype=dtype)
    found = Iterate(source + (radius * u).view(shape).to(dtype), radius)
    return SimpleNamespace(
        source=source,
        found=found,
        u=u.view(shape).to(dtype),
        v=side.view(shape).to(dtype),
        g=g.view(shape).to(dtype),
        radius=radius,
        problem=tb.attack.Problem(source, 0),
    )


def dot(a, b):
    return float(a.flatten().double() @ b.flatten().double())


def place(circle, phi):
    """The point of a circle at an angle."""
    return circle.at(phi).point()


def norm(a):
    return float(torch.linalg.vector_norm(a.double()))


# -- the line -------------------------------------------------------------------------------------


def test_the_line_is_that_of_the_paper():
    """T(theta) = theta x* + (1 - theta) x (section 3.1)."""
    s = scene(0.3)
    line = Segment(s.source, s.found)
    for theta in (0.0, 0.1, 0.25, 0.5, 0.9, 1.0):
        wanted = theta * s.source + (1 - theta) * s.found.point
        assert torch.allclose(line(theta), wanted, atol=1e-15)
        assert norm(line(theta) - s.source) == pytest.approx((1 - theta) * s.radius)
    assert torch.equal(line(0.0), s.found.point)
    assert torch.allclose(line(1.0), s.source, atol=1e-15)


def test_a_line_is_as_long_as_its_start_is_far_or_as_it_is_told():
    s = scene(0.3)
    assert Segment(s.source, s.found).length == s.radius
    assert Segment(s.source, s.found, 0.06).length == 0.06


# -- the arc --------------------------------------------------------------------------------------

ANGLES = [0.01, 0.3, math.pi / 4, 1.2, QUARTER_TURN, 2.0]


@pytest.mark.parametrize("alpha", ANGLES)
def test_the_arc_is_that_of_the_paper(alpha):
    """T(theta) = x* + cos(pi/2 theta) R (cos(pi/2 theta) u + sin(pi/2 theta) v), v across u."""
    s = scene(alpha)
    arc = Arc(Circle.through(s.source, s.found.point, s.g), s.found)
    for theta in np.linspace(0, 1, 21):
        phi = math.pi / 2 * theta
        wanted = s.source + math.cos(phi) * s.radius * (math.cos(phi) * s.u + math.sin(phi) * s.v)
        assert torch.allclose(arc(theta), wanted, atol=1e-12)
        assert norm(arc(theta) - s.source) == pytest.approx(s.radius * math.cos(phi), abs=1e-12)
    assert torch.allclose(arc(0.0), s.found.point, atol=1e-15)
    assert torch.allclose(arc(1.0), s.source, atol=1e-15)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("alpha", ANGLES)
def test_the_side_is_across_and_as_long(alpha, dtype):
    s = scene(alpha, dtype=dtype)
    circle = Circle.through(s.source, s.found.point, s.g)
    exact = 1e-13 if dtype == torch.float64 else 1e-4
    assert abs(dot(circle.side, circle.away)) < exact * s.radius**2
    assert norm(circle.side) == pytest.approx(s.radius, rel=1e-5)
    assert dot(circle.side, s.g) > 0
    assert float(circle.cosine) == pytest.approx(math.cos(alpha), abs=1e-6)


def test_the_arc_lies_on_the_circle_over_the_diameter():
    """Thales: from T both ends are seen at a right angle; the midpoint is R/2 away everywhere."""
    s = scene(0.8)
    circle = Circle.through(s.source, s.found.point, s.g)
    for phi in np.linspace(-QUARTER_TURN, QUARTER_TURN, 31):
        point = place(circle, float(phi))
        assert dot(point - s.source, point - s.found.point) == pytest.approx(0, abs=1e-12)
        middle = (s.source + s.found.point) / 2
        assert norm(point - middle) == pytest.approx(s.radius / 2)


@pytest.mark.parametrize("phi", [0.0, 0.2, 1.0, -0.7, QUARTER_TURN])
def test_an_angle_may_be_a_number_on_the_device(phi):
    s = scene(0.8)
    circle = Circle.through(s.source, s.found.point, s.g)
    unknown = circle.at_unknown(torch.tensor(phi).double())
    assert torch.allclose(unknown, place(circle, phi), atol=1e-15)
    arc = Arc(circle, s.found, 0.0, torch.tensor(0.9).double())
    assert torch.allclose(arc(0.25), place(circle, 0.9 * 0.25), atol=1e-15)


def test_an_arc_goes_from_its_first_angle_to_its_last():
    s = scene(0.8)
    circle = Circle.through(s.source, s.found.point, s.g)
    start = place(circle, -0.2)
    arc = Arc(circle, Iterate(start, norm(start - s.source)), -0.2, -0.6)
    for theta in (0, 0.5, 1):
        assert torch.allclose(arc(theta), place(circle, -0.2 - 0.4 * theta), atol=1e-15)
    assert arc.length == pytest.approx(0.4 * s.radius)


@pytest.mark.parametrize("alpha", [0.05, 0.4, math.pi / 4, 1.3])
def test_a_plane_is_met_at_the_angle_of_its_normal(alpha):
    """A plane through x with its normal in the plane of the circle: adversarial up to alpha, where
    the circle comes nearest to the source, and not beyond. So cos(phi) cos(phi - alpha) >=
    cos(alpha), that is |2 phi - alpha| <= alpha."""
    s = scene(alpha)
    circle = Circle.through(s.source, s.found.point, s.g)
    level = s.radius * math.cos(alpha)  # of the plane, along g
    for phi in np.linspace(0.001, QUARTER_TURN, 97):
        height = dot(place(circle, float(phi)) - s.source, s.g)
        assert (height > level) == (phi < alpha), phi
    nearest = place(circle, alpha) - s.source
    assert torch.allclose(nearest, level * s.g, atol=1e-12)
    assert norm(nearest) == pytest.approx(level)


def test_points_stay_in_the_box():
    """Near the corners of the box the circle leaves it; what is asked does not."""
    source = torch.full((1, 4, 4), 0.05, dtype=torch.float64)
    point = source.clone()
    point[0, 0] = 1.0
    circle = Circle.through(source, point, testing._unit(0, (1, 4, 4)).view(1, 4, 4))
    raw = torch.addcmul(source, circle.side, torch.tensor(0.5))
    assert raw.min() < 0  # or this would show nothing
    for phi in np.linspace(-QUARTER_TURN, QUARTER_TURN, 21):
        assert place(circle, float(phi)).min() >= 0
        assert place(circle, float(phi)).max() <= 1


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("shape", [SHAPE, (1, 2, 2), (1, 1, 1)], ids=str)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_direction_along_the_ray_gives_no_nan_and_leads_no_farther_away(sign, shape, dtype):
    """There is no side to turn to then: what rounding leaves of it must not be taken for one."""
    for seed in range(50):
        generator = torch.Generator().manual_seed(seed)
        source, noise = torch.rand(2, *shape, generator=generator, dtype=dtype)
        point = source + 0.1 * (noise - source)
        away = point - source
        direction = sign * away / torch.linalg.vector_norm(away)
        circle = Circle.through(source, point, direction)
        assert circle.cosine.isfinite()
        for phi in (0.0, 0.3, math.pi / 8, 1.0, QUARTER_TURN):
            found = place(circle, phi)
            assert found.isfinite().all()
            limit = norm(away) * math.cos(phi)
            assert norm(found - source) <= limit * (1 + 1e-4) + 1e-6, (seed, phi)


def test_a_circle_without_radius_is_a_point():
    s = scene(0.4)
    circle = Circle.through(s.source, s.source, s.g)
    assert torch.allclose(place(circle, 0.7), s.source, atol=1e-15)
    assert torch.allclose(circle.at_unknown(torch.tensor(0.7).double()), s.source, atol=1e-15)


# -- sweeps ---------------------------------------------------------------------------------------


def plane(s):
    """Adversarial behind the plane through x with normal g."""
    level = s.radius * dot(s.u, s.g)

    def label(point):
        return int(dot(point - s.source, s.g) >= level)

    return label


def circle(s):
    return Circle.through(s.source, s.found.point, s.g)


def sweep(part, s, label):
    return drive(part.begin()(s.found, circle(s)), s.problem, label)


def angle(s, point):
    """The angle of a point from x, as seen from x*, towards v."""
    return math.atan2(dot(point - s.source, s.v), dot(point - s.source, s.u))


def test_quarter_is_all_of_the_arc_and_asks_nothing():
    s = scene(0.7)
    done = sweep(Quarter(), s, plane(s))
    arc = done.returned
    assert done.asks == 0
    assert (arc.first, arc.last, arc.start) == (0.0, QUARTER_TURN, s.found)
    assert torch.allclose(arc(1.0), s.source, atol=1e-15)


@pytest.mark.parametrize("alpha", [0.01, 0.7, 1.5])
def test_to_direction_ends_at_the_angle_of_the_direction(alpha):
    s = scene(alpha)
    done = sweep(ToDirection(), s, plane(s))
    arc = done.returned
    assert done.asks == 0
    assert (arc.first, arc.start) == (0.0, s.found)
    assert float(arc.last) == pytest.approx(alpha, abs=1e-7)
    assert torch.allclose(arc(1.0), s.source + s.radius * math.cos(alpha) * s.g, atol=1e-7)


@pytest.mark.parametrize(
    ("alpha", "wanted"), [(0.0, 0.0), (math.pi, QUARTER_TURN), (2.5, QUARTER_TURN)]
)
def test_to_direction_never_goes_past_the_source(alpha, wanted):
    """A direction along the ray gives an arc of no length; one that points back the whole arc."""
    s = scene(alpha)
    arc = sweep(ToDirection(), s, plane(s)).returned
    assert float(arc.last) == pytest.approx(wanted, abs=1e-7)  # and so it is not NaN


GALLOP = [45, 67.5, 78.75, 84.375]


@pytest.mark.parametrize("alpha", [20, 44, 46, 60, 70, 80, 84])
def test_galloping_asks_at_45_67_and_on_until_one_is_flagged(alpha):
    s = scene(math.radians(alpha))
    done = sweep(Galloping(), s, plane(s))
    passed = sum(a <= alpha for a in GALLOP)
    asked = [math.degrees(angle(s, point)) for point in done.points]
    assert asked == pytest.approx(GALLOP[: passed + 1])
    assert (done.asks, done.offered, done.phases) == (1, [40], {"sweep"})
    assert done.flagged == 1
    arc = done.returned
    first, last = ([0.0, *GALLOP][passed + k] for k in (0, 1))
    assert (math.degrees(arc.first), math.degrees(arc.last)) == pytest.approx((first, last))
    if passed:
        assert torch.equal(arc.start.point, done.points[passed - 1])
        radius = s.radius * math.cos(math.radians(first))
        assert arc.start.distance == pytest.approx(radius)
    else:
        assert arc.start == s.found
    assert torch.allclose(arc(0.0), arc.start.point, atol=1e-12)


@pytest.mark.parametrize("most", [1, 3, 40])
def test_galloping_ends_where_nothing_is_flagged(most):
    s = scene(0.5)
    done = sweep(Galloping(most), s, lambda point: 1)
    assert len(done.points) == most
    assert done.returned.last == QUARTER_TURN
    assert done.returned.first == pytest.approx((1 - 0.5**most) * QUARTER_TURN)


SIGNED = [30, -30, 20, -20, 10, -10]


@pytest.mark.parametrize("hit", range(6))
def test_the_signed_grid_tries_both_sides_from_the_largest_angle_down(hit):
    s = scene(0.5)
    wanted = math.radians(SIGNED[hit])

    def label(point):
        return int(abs(angle(s, point) - wanted) < 1e-6)

    done = sweep(SignedGrid(), s, label)
    assert [math.degrees(angle(s, p)) for p in done.points] == pytest.approx(SIGNED[: hit + 1])
    assert (done.asks, done.offered, done.phases) == (1, [6], {"sweep"})
    arc = done.returned
    assert arc.first == pytest.approx(wanted)
    assert math.degrees(arc.last) == pytest.approx(SIGNED[hit] + math.copysign(10, SIGNED[hit]))
    assert torch.equal(arc.start.point, done.points[-1])
    assert arc.start.distance == pytest.approx(s.radius * math.cos(wanted))
    assert torch.allclose(arc(0.0), arc.start.point, atol=1e-12)


def test_the_signed_grid_shrinks_on_failure_and_grows_on_success():
    s = scene(0.5)
    sweep = SignedGrid(largest=30, rho=0.5, grid=2).begin()
    largest = []
    for outcome in (0, 1, 1, 0, 0, 1):
        done = drive(sweep(s.found, circle(s)), s.problem, lambda point, outcome=outcome: outcome)
        largest.append(math.degrees(angle(s, done.points[0])))
        assert (done.returned is None) == (outcome == 0)
        assert len(done.points) == (1 if outcome else 4)
    assert largest == pytest.approx([30, 15, 30, 60, 30, 15])


def test_the_signed_grid_grows_to_half_a_turn_at_most():
    s = scene(0.5)
    sweep = SignedGrid(largest=100, rho=0.5, grid=1).begin()
    for _ in range(3):
        done = drive(sweep(s.found, circle(s)), s.problem, lambda point: 1)
    assert done.returned.first == pytest.approx(math.pi)


def test_the_memory_of_a_sweep_is_that_of_one_image():
    s = scene(0.5)
    part = SignedGrid(rho=0.5)
    for _ in range(2):
        one = part.begin()
        done = drive(one(s.found, circle(s)), s.problem, lambda point: 0)
        assert math.degrees(angle(s, done.points[0])) == pytest.approx(30)


def test_the_grid_may_have_one_angle():
    s = scene(0.5)
    done = sweep(SignedGrid(largest=20, grid=1), s, lambda point: 0)
    assert [math.degrees(angle(s, p)) for p in done.points] == pytest.approx([20, -20])


# -- searches on a line and on an arc -------------------------------------------------------------

COUNT = 23
SEARCHES = [
    BinarySearch(1 / COUNT, relative=True),
    AsymmetricSearch(1 / COUNT, relative=True),
    OptimalSearch(1 / COUNT, relative=True),
    *(LineSearch(1 / COUNT, relative=True, stages=stages) for stages in (1, 2, 3)),
]


def small():
    return scene(0.8, 0.4, (1, 3, 4))


def searched(search, path, problem, theta, cell):
    """Search `path`, adversarial up to the middle of `cell`; `theta` inverts the path."""
    level = (cell + 0.5) / COUNT
    return drive(search(problem, path), problem, lambda point: int(theta(point) <= level))


@pytest.mark.parametrize("ratio", [0.2, 1, 7, 100])
@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_every_search_finds_the_same_cell_on_a_line_and_on_an_arc(search, ratio):
    """And asks the same thetas. (The whole arc, one that turns back, and a piece of one.)"""
    s = small()
    problem = tb.attack.Problem(s.source, 0, tb.Prices(ratio, 1))
    circle = Circle.through(s.source, s.found.point, s.g)
    first = Iterate(place(circle, 0.3), norm(place(circle, 0.3) - s.source))

    def along(point):
        return 1 - norm(point - s.source) / s.radius

    paths = [
        (Segment(s.source, s.found), along),
        (Arc(circle, s.found), lambda point: angle(s, point) / QUARTER_TURN),
        (Arc(circle, s.found, 0.0, torch.tensor(0.8).double()), lambda p: angle(s, p) / 0.8),
        (Arc(circle, s.found, 0.0, -0.5), lambda point: angle(s, point) / -0.5),
        (Arc(circle, first, 0.3, 1.1), lambda point: (angle(s, point) - 0.3) / 0.8),
    ]
    for cell in range(COUNT):
        asked = []
        for path, theta in paths:
            done = searched(search, path, problem, theta, cell)
            asked.append([theta(point) for point in done.points])
            assert theta(done.returned.point) == pytest.approx(cell / COUNT, abs=1e-7)
            assert torch.allclose(path(cell / COUNT), done.returned.point, atol=1e-12)
            apart = norm(done.returned.point - s.source)
            assert done.returned.distance == pytest.approx(apart)
            assert done.phases == {"search"}
        for other in asked[1:]:
            assert other == pytest.approx(asked[0], abs=1e-7)


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("count", [2, 3, 10, 100, 997])
def test_a_line_search_has_at_most_as_many_flagged_answers_as_stages(count, stages):
    """And of the others few: N^(1/stages) a stage. In each of the cells the right one is found."""
    s = small()
    line = Segment(s.source, s.found)
    search = LineSearch(1 / count, relative=True, stages=stages, phase="mine")
    cells = range(count) if count <= 100 else range(0, count, 31)
    for cell in cells:
        level = s.radius * (1 - (cell + 0.5) / count)
        done = drive(
            search(s.problem, line),
            s.problem,
            lambda point, level=level: int(norm(point - s.source) >= level),
        )
        assert done.flagged <= stages
        assert done.asks <= stages
        assert len(done.points) <= stages * math.ceil(count ** (1 / stages)) + stages
        assert norm(done.returned.point - s.source) == pytest.approx(s.radius * (1 - cell / count))
        assert done.phases == {"mine"}


def test_a_line_search_that_is_flagged_at_once_in_every_stage_keeps_the_start():
    s = small()
    line, search = Segment(s.source, s.found), LineSearch(1e-4, relative=True, stages=2)
    done = drive(search(s.problem, line), s.problem, lambda p: 0)
    assert done.returned == s.found
    assert done.flagged == 2


def test_two_stages_of_ten_thousand_cells_are_a_hundred_steps_each():
    """The stealthy attacks': 2 flagged answers and about 200 others at most."""
    s = small()
    line, search = Segment(s.source, s.found), LineSearch(1e-4, relative=True, stages=2)
    done = drive(search(s.problem, line), s.problem, lambda p: 1)
    assert done.offered[0] == 99  # T(1) is never asked
    assert search_costs.line_step(10_000, 2) == 100
    assert len(done.points) == 99 + 99


# -- many points at once --------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_points_made_together_are_those_made_alone_bit_for_bit(dtype):
    """Of lines and arcs, with and without a second term, and some that clip."""
    terms = []
    for seed in range(12):
        s = scene(0.5 + 0.05 * seed, 2.0 + seed, (1, 5, 7), dtype, seed)
        circle = Circle.through(s.source, s.found.point, s.g)
        line = Segment(s.source, Iterate(s.found.point.clamp(0, 1), s.radius))
        terms += [line.linear_point(seed / 12), Arc(circle, s.found).linear_point(seed / 12)]
        terms += [circle.at(-0.1 * seed)]
    together = torch.full((len(terms), 1, 5, 7), 2.0, dtype=dtype)
    write(together, terms, range(len(terms)))
    assert all(torch.equal(a, term.point()) for a, term in zip(together, terms, strict=True))
    assert all(a.min() >= 0 and a.max() <= 1 for a in together)
    assert any(a.max() == 1 for a in together)  # or nothing clipped


@pytest.mark.parametrize(
    ("adversarial", "queried"),
    [
        ((0, 40), [45, -45, 37.5, 41.25, 39.375, 40.3125, 39.84375]),
        ((-50, 0), [45, -45, -52.5, -48.75, -50.625, -49.6875, -50.15625]),
        (
            (-60, 60),
            [sign * a for a in (45, 52.5, 56.25, 58.125, 59.0625, 59.53125) for sign in (1, -1)],
        ),
    ],
)
def test_the_cosine_search_ends_where_cosines_agree_and_mirrors_its_angle(adversarial, queried):
    s = scene(0.5)
    first, last = math.radians(30), math.radians(60)
    start = Iterate(circle(s).at(first).point(), s.radius * math.cos(first))
    low, high = map(math.radians, adversarial)
    search = CosineSearch(0.01)(s.problem, Arc(circle(s), start, first, last))
    done = drive(search, s.problem, lambda point: int(low <= angle(s, point) <= high))
    angles = [math.degrees(angle(s, point)) for point in done.points]
    assert angles == pytest.approx(queried)
    inside = [a for a in queried if adversarial[0] <= a <= adversarial[1]]
    closest = max(map(abs, inside))
    assert done.returned.distance == pytest.approx(s.radius * math.cos(math.radians(closest)))


def test_the_cosine_search_has_a_most_and_follows_lines():
    s = scene(0.5)
    line = Segment(s.source, s.found)
    done = drive(CosineSearch(0.5)(s.problem, line), s.problem, lambda point: 1)
    assert len(done.points) == 1
    done = drive(CosineSearch(1e-9, most=3)(s.problem, line), s.problem, lambda point: 1)
    assert done.returned.distance == pytest.approx(s.radius / 8)
