"""Searches, starts and estimates: exact costs, shares, and what they do where nothing is found."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
import torch
from driver import drive

import tollbox as tb
from tollbox import testing
from tollbox.core.ask import Iterate
from tollbox.core.stop import Stop
from tollbox.parts.estimates import Agrest, MonteCarlo
from tollbox.parts.paths import Arc, Circle, Segment
from tollbox.parts.searches import (
    MAX_PLACES,
    AsymmetricSearch,
    BinarySearch,
    LineSearch,
    OptimalRule,
    OptimalSearch,
    SplitRule,
    Tolerance,
    _places,
)
from tollbox.parts.starts import GrowingNoise
from tollbox.parts.subspaces import Dct, Full
from tollbox.theory import caps, search_costs


@dataclass(frozen=True)
class OnlySearch:
    """Searches the line from a point that is two away from the source."""

    search: object
    found: list

    def __call__(self, problem):
        end = torch.full_like(problem.source, 1.0)
        found = yield from self.search(problem, Segment(problem.source, Iterate(end, 1.0)))
        self.found.append(float(found.point.flatten()[0]))
        assert found.distance == self.found[-1]  # the source is black
        return Stop.CONVERGED


EXPECTED = {
    "binary": (
        BinarySearch,
        lambda count, ratio: search_costs.expected_search_cost(count, ratio, 1.0),
    ),
    "asymmetric": (AsymmetricSearch, search_costs.expected_search_cost),
    "optimal": (
        OptimalSearch,
        lambda count, ratio: search_costs.optimal_splits(count, ratio).cost(count),
    ),
    **{
        f"line, {k} stages": (
            partial(LineSearch, stages=k),
            partial(search_costs.expected_line_search_cost, stages=k),
        )
        for k in (1, 2, 3)
    },
}


@pytest.mark.parametrize("search", EXPECTED)
@pytest.mark.parametrize("ratio", [1, 2, 3.5, 10, 100, 0.5, 0.01])
@pytest.mark.parametrize("count", [2, 3, 17, 60])
def test_a_search_costs_exactly_what_the_recursion_says(search, ratio, count):
    """The boundary in each of the bins in turn: the mean cost is the expected cost, exactly."""
    part, wanted = EXPECTED[search]
    source = torch.zeros(1, 1, 1, dtype=torch.float64)
    costs = []
    for cell in range(count):
        level = 1 - (cell + 0.5) / count  # adversarial at and above it; theta = 1 - level

        def labels(images, level=level):
            return (images.flatten() >= level).long()

        found = []
        attack = OnlySearch(part(1 / count, relative=True), found)
        [result] = tb.run(
            attack,
            tb.models.from_callable(labels, dtype=torch.float64),
            source[None],
            [0],
            prices=tb.Prices(ratio, 1),
            budget=1e9,
            charge_clean=False,
        )
        assert found == [pytest.approx(1 - cell / count)]
        costs.append(result.ledger.cost)
        if search.startswith("line"):
            assert result.ledger.flagged <= part.keywords["stages"]
    assert math.fsum(costs) / count == pytest.approx(wanted(count, ratio), rel=1e-12)


def test_below_one_the_search_favours_the_source_side():
    assert search_costs.split(100, 9) == 10
    assert search_costs.split(100, 1 / 9) == 90
    assert search_costs.split(100, 1e-9) == 99
    assert search_costs.split(2, 1e9) == 1


def test_bins_are_no_finer_than_the_points_can_tell():
    problem = tb.attack.Problem(torch.zeros(3, 224, 224), 0)

    def bins(tau, length, relative, scale=1.0):
        line = Segment(problem.source, Iterate(problem.source, length))
        return Tolerance(tau, relative).count_bins(problem, line, scale)

    assert problem.resolution == pytest.approx(1e-5, rel=0.2)
    for length in (1.0, 50.0):
        assert bins(1e-3, length, True) == 1000
        assert bins(1e-3, length, True, 0.1) == 10_000
        assert bins(0.3, length, True) == 4
        assert bins(1e-3, length, False) == 1000 * length
        assert bins(1e-3, length, False, 0.1) == 10_000 * length
        for relative in (True, False):
            assert bins(1e-12, length, relative) == math.ceil(length / problem.resolution)
    assert bins(1e-3, 0.0, True) == bins(1e-3, 0.0, False) == bins(0.5, 0.1, False) == 2


def test_a_piece_of_an_arc_is_as_long_as_it_is():
    """A search with a length for its tolerance must know; a circle over r has r a radian."""
    problem = tb.attack.Problem(torch.zeros(1, 1, 2, dtype=torch.float64), 0)
    point, across = torch.tensor([[[0.8, 0.0]]]).double(), torch.tensor([[[0.0, 1.0]]]).double()
    circle = Circle.through(problem.source, point, across)
    for first, last in ((0.0, 0.5), (0.3, 1.1), (0.0, -0.5), (1.2, 1.5)):
        start = circle.at(first).point()
        arc = Arc(circle, Iterate(start, float(torch.linalg.vector_norm(start))), first, last)
        angles = torch.linspace(first, last, 1001, dtype=torch.float64).view(-1, 1, 1, 1)
        steps = angles.cos() * (angles.cos() * circle.away + angles.sin() * circle.side)
        walked = float(torch.linalg.vector_norm(steps[1:] - steps[:-1], dim=(1, 2, 3)).sum())
        assert arc.length == pytest.approx(walked, rel=1e-5)
    unknown = Arc(circle, Iterate(point, 0.8), 0.0, torch.tensor(0.4))
    assert unknown.length == pytest.approx(0.8 * math.pi / 2)


@dataclass(frozen=True)
class OnlyEstimate:
    """One estimate at a boundary point of a half-space, seen along a ray of known cosine."""

    estimate: object
    distance: float
    cosine: float
    queries: int
    found: list
    factor: float = 1.0

    def __call__(self, problem):
        shape = tuple(problem.source.shape)
        normal, side = testing._unit(0, shape, self.factor), testing._unit(5, shape)
        side = side - (side @ normal) * normal
        side = side / torch.linalg.vector_norm(side)
        ray = self.cosine * normal + math.sqrt(1 - self.cosine**2) * side
        point = problem.source + (ray * (self.distance / self.cosine)).view(problem.source.shape)
        assert point.min() > 0.1  # clipping plays no part
        assert point.max() < 0.9
        length = self.distance / self.cosine
        direction = yield from self.estimate.begin(problem)(1, Iterate(point, length), self.queries)
        self.found.append(direction)
        problem.accept(point)
        return Stop.CONVERGED


def estimated(part, ratio, queries, cosine=None, seed=0, factor=1.0):
    """The result, and the direction."""
    boundary = testing.half_space(0.05, factor=factor)
    cosine = cosine or caps.initial_cosine(boundary.source.numel())
    found = []
    [result] = tb.run(
        OnlyEstimate(part, 0.05, cosine, queries, found, factor),
        boundary.model(),
        boundary.source[None],
        [0],
        prices=tb.Prices(ratio, 1),
        budget=1e12,
        seed=seed,
    )
    assert result.stop is Stop.CONVERGED, result.reason
    return result, found[0]


def estimate(part, ratio, queries, cosine=None, seed=0, factor=1.0):
    """The result, and the cosine of the direction with the normal."""
    result, direction = estimated(part, ratio, queries, cosine, seed, factor)
    if direction is None:
        return result, None
    normal = testing._unit(0, tuple(direction.shape), factor)
    return result, float(direction.flatten() @ normal)


@pytest.mark.parametrize("ratio", [2, 5, 100, 1000])
def test_agrest_has_the_share_of_low_cost_answers_of_the_closed_form(ratio):
    # At iteration 1 the schedule's cosine is the true one, so the share must be p(x*). A share that
    # is off by 5 standard errors has probability 6e-7 by chance. An overshoot of 1.2 times the
    # right one would shift it by 6.8, 6.2, 9.4 and 12.7 standard errors (n = 13 300, 3300, 8950,
    # 61 000): it is seen with probability .88 or more.
    d = 768
    result, _ = estimate(Agrest(), ratio, queries={2: 12_000, 5: 2000}.get(ratio, 600))
    notes = result.trace[-1].notes
    p = caps.cap_probability(caps.optimal_overshoot(ratio, d), d)
    n = notes["estimate_queries"]
    assert n >= 3000
    assert notes["planned_share"] == pytest.approx(p)
    assert abs(notes["share"] - p) < 5 * math.sqrt(p * (1 - p) / n)


def test_agrest_spends_what_the_vanilla_estimate_would():
    result, _ = estimate(Agrest(), 10, queries=400)
    c_t = 400 * 11 / 2
    spent = result.ledger.by_phase["estimate"]
    assert spent < c_t + 128 * 10  # looked at once a chunk
    assert spent > 0.8 * c_t


@pytest.mark.parametrize(
    ("answer", "ratio", "wanted"),
    [
        (0, 10, 110),  # all flagged: c_t / c*
        (0, 100, 101),
        (1, 10, 510),  # none: n* = c_t / (c* - (c* - 1) p), with 1 - p = 0.12858
        (1, 100, 2973),  # 0.024217
    ],
)
def test_an_agrest_estimate_ends_exactly_when_c_t_is_spent_or_n_star_are_asked(
    answer, ratio, wanted
):
    """c_t = n' (c* + 1) / 2, with n' = 200 and a look at the cost after every query; 1 - p is the
    tail at x* in 768 dimensions. A c_t that is off by 1 % is seen."""
    source = torch.full((3, 16, 16), 0.5, dtype=torch.float64)
    problem = tb.attack.Problem(source, 0, tb.Prices(ratio, 1))
    asking = Agrest(chunk=1).begin(problem)(1, Iterate(source + 0.1, 0.1 * 768**0.5), 200)
    assert len(drive(asking, problem, lambda _: answer).labels) == wanted


@pytest.mark.parametrize(("part", "ratio"), [(MonteCarlo(), 1), (Agrest(), 1), (Agrest(), 100)])
def test_an_estimate_points_where_the_closed_form_says(part, ratio):
    """J of the expected-cosine theorem: cos = sqrt(n) E[phi <g,u>] / sqrt(E phi^2), corrected for
    the cosine's own bound by a / sqrt(1 + a^2), which is what a sum of n random vectors gives."""
    d, found, wanted = 768, [], []
    for seed in range(12):
        result, cosine = estimate(part, ratio, queries=300, seed=seed)
        notes = result.trace[-1].notes
        x = caps.optimal_overshoot(ratio, d)
        p, n = caps.cap_probability(x, d), notes["estimate_queries"]
        height = caps.initial_cosine(d) / 2 * (1 - x * x) ** ((d - 1) / 2)
        a = math.sqrt(n) * height / math.sqrt(p * (1 - p))
        found.append(cosine)
        wanted.append(a / math.sqrt(1 + a * a))
    # The mean of 12 cosines with a standard error of about 0.01: 0.05 is five of them.
    assert np.mean(found) == pytest.approx(np.mean(wanted), abs=0.05)


def test_an_estimate_without_a_flagged_answer_is_the_mean_direction_or_refused():
    """The true cosine is 0.9, the schedule says 0.03: the overshoot loses all flagged answers. As
    published the direction is the mean of what was asked; it may be refused; and it is never NaN.
    """
    part = Agrest()
    problem, _, done = at_a_plane(part, 100, 100, label=lambda _: 1)
    wanted = spread(problem, part, len(done.points)).sum(0)
    wanted = wanted / torch.linalg.vector_norm(wanted)
    assert torch.allclose(done.returned, wanted, atol=1e-12)
    refusing = Agrest(refuse_one_sided=True)
    for made, none in ((part, False), (refusing, True)):
        result, cosine = estimate(made, 100, queries=100, cosine=0.9)
        assert result.trace[-1].notes["share"] == 1.0
        assert (cosine is None) == none
    _, cosine = estimate(refusing, 100, queries=100)  # at the cosine of the schedule
    assert cosine > 0


def test_a_one_sided_monte_carlo_estimate_is_the_mean_direction():
    """Two queries are often alike; the direction is then the mean of them, towards the adversarial
    side, as HSJA has it."""
    cosines, shares = [], []
    for seed in range(40):
        result, cosine = estimate(MonteCarlo(), 1, 2, seed=seed)
        shares.append(result.trace[-1].notes["share"])
        cosines.append(cosine)
    assert {0.0, 0.5, 1.0} == set(shares)
    assert min(cosines) > 0  # each of the two points to the side that it was answered with


def test_the_displacement_that_clipping_left_is_what_counts():
    """On a black image half of every displacement is clipped away, so all move towards brighter."""
    source = torch.zeros(1, 8, 8, dtype=torch.float64)
    found = []

    @dataclass(frozen=True)
    class AtTheEdge:
        def __call__(self, problem):
            estimate = MonteCarlo(delta=0.1).begin(problem)
            found.append((yield from estimate(1, Iterate(problem.source, 0.0), 20)))
            return Stop.CONVERGED

    model = tb.models.from_callable(lambda images: torch.zeros(len(images)).long())
    tb.run(AtTheEdge(), model, source[None], [0], budget=100)
    assert found[0].max() <= 0  # all flagged: minus the mean, which is towards brighter everywhere


def test_monte_carlo_asks_for_exactly_its_queries():
    for queries in (1, 30, 128, 300):
        result, _ = estimate(MonteCarlo(chunk=128), 10, queries)
        assert sum(result.ledger.counts["estimate"].values()) == queries


def test_the_noise_does_not_depend_on_the_chunk():
    _, one = estimate(MonteCarlo(chunk=128), 1, 300)
    _, other = estimate(MonteCarlo(chunk=37), 1, 300)
    assert one == pytest.approx(other, abs=1e-12)


def at_a_plane(part, ratio, queries, seed=0, shape=(3, 16, 16), t=1, label=None):
    """Drive one estimate by hand: the problem, the point, what was asked and the direction."""
    source = torch.full(shape, 0.5, dtype=torch.float64)
    problem = tb.attack.Problem(source, 0, tb.Prices(ratio, 1), seed=seed)
    normal, side = testing._unit(3, shape), testing._unit(4, shape)
    cosine = caps.initial_cosine(source.numel())
    side = side - (side @ normal) * normal
    ray = cosine * normal + math.sqrt(1 - cosine**2) * side / torch.linalg.vector_norm(side)
    point = source + (0.5 * ray).view(shape)

    def side_of(asked):
        return int((asked - point).flatten() @ normal >= 0)

    asking = part.begin(problem)(t, Iterate(point, 0.5), queries)
    return problem, point, drive(asking, problem, label or side_of)


def spread(problem, part, rows, t=1):
    """The displacements that an estimate asks for: unit vectors of the subspace, times delta."""
    shape = tuple(problem.source.shape)
    noise = problem.noise("estimate", t, rows, part.subspace.shape(shape))[0:rows]
    unit = noise / torch.linalg.vector_norm(noise.flatten(1), dim=1).view(-1, 1, 1, 1)
    return part.delta * part.subspace.expand(unit, shape)


@pytest.mark.parametrize("space", [Full(), Dct(4), Dct(2, block=8)], ids=str)
@pytest.mark.parametrize("queries", [7, 300])
def test_without_weights_the_estimate_is_the_sum_of_signs(queries, space):
    part = MonteCarlo(subspace=space, weighted=False)
    problem, point, done = at_a_plane(part, 1, queries)
    u = spread(problem, part, queries)
    assert torch.allclose(torch.stack(done.points) - point, u, atol=1e-15)
    signs = torch.tensor(done.labels).double() * 2 - 1
    wanted = torch.einsum("n,nchw->chw", signs, u)
    wanted = wanted / torch.linalg.vector_norm(wanted)
    assert torch.allclose(done.returned, wanted, atol=1e-12)


@pytest.mark.parametrize("space", [Full(), Dct(4)], ids=str)
@pytest.mark.parametrize("part", [MonteCarlo, Agrest])
def test_with_weights_it_is_algorithm_3(part, space):
    """g = (1 - p) v+ + p v-, which for an uneven share is not the sum of signs."""
    one = part(subspace=space)
    problem, _, done = at_a_plane(one, 1.3, 40, seed=11)
    labels = torch.tensor(done.labels).double()
    u, p = spread(problem, one, len(labels)), float(labels.mean())
    assert p not in (0, 0.5, 1)
    weights = labels * (1 - p) - (1 - labels) * p
    wanted = torch.einsum("n,nchw->chw", weights, u)
    wanted = wanted / torch.linalg.vector_norm(wanted)
    assert torch.allclose(done.returned, wanted, atol=1e-12)
    signs = torch.einsum("n,nchw->chw", labels * 2 - 1, u)
    assert float(wanted.flatten() @ signs.flatten()) < 0.999 * float(
        torch.linalg.vector_norm(signs)
    )


@pytest.mark.parametrize("weighted", [True, False])
def test_one_sided_signs_are_the_mean_direction_too(weighted):
    part = MonteCarlo(weighted=weighted)
    source = torch.full((1, 4, 4), 0.5, dtype=torch.float64)
    for answer in (0, 1):
        problem = tb.attack.Problem(source, 0)
        asking = part.begin(problem)(1, Iterate(source + 0.1, 0.4), 9)
        done = drive(asking, problem, lambda point, answer=answer: answer)
        wanted = spread(problem, part, 9).sum(0) * (1 if answer else -1)
        wanted = wanted / torch.linalg.vector_norm(wanted)
        assert torch.allclose(done.returned, wanted, atol=1e-12)


@pytest.mark.parametrize("space", [Dct(4), Dct(3), Dct(2, block=8)], ids=str)
@pytest.mark.parametrize(("part", "ratio"), [(MonteCarlo, 1), (Agrest, 1.3)])
def test_in_a_subspace_the_direction_lies_in_it(part, ratio, space):
    """Where nothing clips; and it points to the part of the normal that lies there, which for a
    normal of all frequencies is 1/4, 1/3 or 1/2 of its length (or so)."""
    _, direction = estimated(part(subspace=space), ratio, 1500)
    inside = space.expand(space.project(direction[None]), (3, 16, 16))[0]
    assert torch.allclose(inside, direction, atol=1e-12)
    normal = testing._unit(0, (3, 16, 16)).view(1, 3, 16, 16)
    length = float(torch.linalg.vector_norm(space.project(normal)))
    assert 0.5 * length < float(direction.flatten() @ normal.flatten()) <= length


@pytest.mark.parametrize("t", [1, 7])
@pytest.mark.parametrize("ratio", [0.1, 1, 5, 100])
@pytest.mark.parametrize("space", [Full(), Dct(4), Dct(3)], ids=str)
def test_the_overshoot_has_x_of_the_subspace_and_the_cosine_of_the_image(space, ratio, t):
    """omega_t = x*(d') delta / cos(alpha_t), alpha_1 from d: as the published code has it. The
    centre that was asked around lies so far outward of the boundary point."""
    part = Agrest(m=0.06, subspace=space)
    problem, point, done = at_a_plane(part, ratio, 20, t=t)
    d, low = 768, space.dimension((3, 16, 16))
    assert low == {Full(): 768, Dct(4): 48, Dct(3): 108}[space]
    cosine = 1 - (1 - caps.initial_cosine(d)) * t**-0.06
    omega = caps.optimal_overshoot(ratio, low) * 0.0045 / cosine
    assert part.overshoot(problem, t) == pytest.approx(omega, rel=1e-12)
    centres = torch.stack(done.points) - spread(problem, part, len(done.points), t)
    outward = (point - problem.source) / torch.linalg.vector_norm(point - problem.source)
    assert torch.allclose(centres, (point + omega * outward).expand_as(centres), atol=1e-12)
    finest = caps.optimal_overshoot(max(ratio, 1 / ratio, 2), low)
    assert part.tolerance_scale(problem) == pytest.approx(finest)


def test_the_numbers_of_an_overshoot_in_a_subspace():
    """By hand, at c* = 100 with 3 x 224 x 224 and a quarter of the frequencies: s* = 1.975, so
    x* = 1.975 / sqrt(9408) = 0.02036; cos(alpha_1) = sqrt(2 / (pi 150528)) = 0.002057; omega =
    0.0045 x 0.02036 / 0.002057 = 0.0445. (With d for both it would be 0.0111.)"""
    problem = tb.attack.Problem(torch.zeros(3, 224, 224), 0, tb.Prices(100, 1))
    assert Agrest(subspace=Dct(4)).overshoot(problem, 1) == pytest.approx(0.0445, rel=5e-3)
    assert Agrest().overshoot(problem, 1) == pytest.approx(0.0111, rel=5e-3)


@pytest.mark.parametrize(("factor", "ratio"), [(4, 2), (4, 5), (4, 100), (3, 10)])
def test_in_a_subspace_the_share_is_the_planned_one_if_the_normal_lies_there(factor, ratio):
    # The true cosine is that of the schedule at t = 1, and P g = g: the share must be p(x*) of d'.
    # Off by 5 standard errors has probability 6e-7 by chance. With x* of d in place of d' the share
    # would be lower by 0.11, 0.21, 0.29 and 0.21, which is 11 standard errors or more at n = 3000:
    # the power is above .999.
    d = Dct(factor).dimension((3, 16, 16))
    part = Agrest(subspace=Dct(factor))
    queries = {2: 3500, 5: 2000, 10: 1300, 100: 300}[ratio]
    result, cosine = estimate(part, ratio, queries, factor=factor)
    notes = result.trace[-1].notes
    p, n = caps.cap_probability(caps.optimal_overshoot(ratio, d), d), notes["estimate_queries"]
    assert n >= 3000
    assert notes["planned_share"] == pytest.approx(p)
    assert abs(notes["share"] - p) < 5 * math.sqrt(p * (1 - p) / n)
    assert cosine > 0.9  # n is many times d'


def test_the_start_stops_at_the_first_level_that_is_adversarial():
    boundary = testing.half_space(0.3, (1, 4, 4))

    @dataclass(frozen=True)
    class OnlyStart:
        begun: list

        def __call__(self, problem):
            self.begun.append((yield from GrowingNoise()(problem)))
            return Stop.CONVERGED

    begun = []
    [result] = tb.run(OnlyStart(begun), boundary.model(), boundary.source[None], [0], budget=2000)
    [(point, distance, _)] = begun
    tally = result.ledger.counts["start"]
    assert sum(tally.values()) == tally[0] + 1
    assert int(boundary.labels(point[None])) != 0
    assert distance == result.distance
    noise = tb.attack.Problem(boundary.source, 0).noise("start", 0, 1000)
    level = tally[0] + 1
    wanted = (boundary.source + 0.0045 * level * noise[level - 1 : level][0]).clamp(0, 1)
    assert torch.equal(point, wanted)


class TestNoise:
    problem = tb.attack.Problem(torch.full((1, 3, 3), 0.5), 2, seed=4)

    def test_slices_do_not_matter(self):
        noise = self.problem.noise("x", 1, 100)
        whole = noise[0:100]
        assert torch.equal(whole[37:71], self.problem.noise("x", 1, 100)[37:71])
        assert torch.equal(whole[99:], noise[99:100])
        assert torch.equal(whole[:10], self.problem.noise("x", 1, 10)[0:10])

    def test_it_is_standard_normal(self):
        # 90 000 numbers: the mean's standard error is 0.0033, that of the variance 0.0047.
        values = self.problem.noise("x", 1, 10_000)[0:10_000]
        assert abs(values.mean()) < 0.017
        assert abs(values.var() - 1) < 0.024

    @pytest.mark.parametrize(
        "other",
        [
            tb.attack.Problem(torch.full((1, 3, 3), 0.5), 2, seed=5).noise("x", 1, 4),
            tb.attack.Problem(torch.full((1, 3, 3), 0.501), 2, seed=4).noise("x", 1, 4),
            tb.attack.Problem(torch.full((1, 3, 3), 0.5), 2, seed=4).noise("y", 1, 4),
            tb.attack.Problem(torch.full((1, 3, 3), 0.5), 2, seed=4).noise("x", 2, 4),
        ],
        ids=["seed", "content", "purpose", "step"],
    )
    def test_each_part_of_the_key_matters(self, other):
        mine = self.problem.noise("x", 1, 4)[0:4]
        assert not torch.isclose(mine, other[0:4]).any()

    def test_blocks_differ(self):
        rows = self.problem.noise("x", 1, 64)[0:64].flatten(1)
        assert len(torch.unique(rows, dim=0)) == 64

    def test_prices_and_goal_are_not_in_the_key(self):
        other = tb.attack.Problem(torch.full((1, 3, 3), 0.5), 2, tb.Prices(9, 1), target=1, seed=4)
        assert torch.equal(self.problem.noise("x", 1, 4)[0:4], other.noise("x", 1, 4)[0:4])


def test_an_optimal_search_never_asks_the_end():
    """With the source all but free the share rounds to the whole interval."""
    rule = OptimalRule(1e-8, 65_536)
    assert all(0 < rule(width) < width for width in (2, 3, 65_536, 65_537, 100_000))


def test_a_long_search_is_planned_a_piece_at_a_time():
    places = _places(10**6, SplitRule(1e5))
    assert len(places) == MAX_PLACES
    assert list(places[:3]) == [10, 20, 30]


@pytest.mark.parametrize("search", [BinarySearch(), AsymmetricSearch(), OptimalSearch()], ids=str)
def test_a_search_of_millions_of_bins_is_short_and_ends_in_the_right_one(search):
    """45 in l2 at the published tolerance: 2e6 bins. At c* = 1000 halving takes 21 queries, and a
    search by price less than three thousand, a few hundred of them an ask."""
    source = torch.zeros(1, 1, 2500, dtype=torch.float64)
    problem = tb.attack.Problem(source, 0, tb.Prices(1000, 1))
    line = Segment(source, Iterate(torch.full_like(source, 0.9), 45.0))
    assert search.count_bins(problem, line) == 2_000_000
    done = drive(search(problem, line), problem, lambda point: int(point[0, 0, 0] >= 0.3141592))
    assert done.returned.distance == pytest.approx(0.3141592 * 50, abs=2.25e-5)
    assert done.returned.distance >= 0.3141592 * 50
    assert max(done.offered) <= MAX_PLACES
    assert len(done.points) <= (21 if isinstance(search, BinarySearch) else 3000)
