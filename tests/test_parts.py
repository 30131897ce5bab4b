"""Searches, starts and estimates: exact costs, shares, and what they do where nothing is found."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch

import tollbox as tb
from tollbox import testing, theory
from tollbox.ask import Found
from tollbox.errors import Stop
from tollbox.estimates import Agrest, MonteCarlo
from tollbox.paths import Line
from tollbox.searches import AsymmetricSearch, BinarySearch, OptimalSearch, cells
from tollbox.starts import GrowingNoise


@dataclass(frozen=True)
class OnlySearch:
    """Searches the line from a point that is two away from the source."""

    search: object
    found: list

    def __call__(self, problem):
        end = torch.full_like(problem.source, 1.0)
        found = yield from self.search(problem, Line(problem.source, Found(end, 1.0)))
        self.found.append(float(found.point.flatten()[0]))
        assert found.distance == self.found[-1]  # the source is black
        return Stop.CONVERGED


@pytest.mark.parametrize("search", [BinarySearch, AsymmetricSearch, OptimalSearch])
@pytest.mark.parametrize("ratio", [1, 2, 3.5, 10, 100, 0.5, 0.01])
@pytest.mark.parametrize("count", [2, 3, 17, 60])
def test_a_search_costs_exactly_what_the_recursion_says(search, ratio, count):
    """The boundary in each of the cells in turn: the mean cost is the expected cost, exactly."""
    source = torch.zeros(1, 1, 1, dtype=torch.float64)
    costs = []
    for cell in range(count):
        level = 1 - (cell + 0.5) / count  # adversarial at and above it; theta = 1 - level

        def labels(images, level=level):
            return (images.flatten() >= level).long()

        found = []
        attack = OnlySearch(search(tau=1 / count), found)
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
    wanted = {
        BinarySearch: theory.expected_search_cost(count, ratio, 1.0),
        AsymmetricSearch: theory.expected_search_cost(count, ratio),
        OptimalSearch: theory.optimal_splits(count, ratio).cost(count),
    }[search]
    assert math.fsum(costs) / count == pytest.approx(wanted, rel=1e-12)


def test_below_one_the_search_favours_the_source_side():
    assert theory.split(100, 9) == 10
    assert theory.split(100, 1 / 9) == 90
    assert theory.split(100, 1e-9) == 99
    assert theory.split(2, 1e9) == 1


def test_cells_are_no_finer_than_the_points_can_tell():
    problem = tb.Problem(torch.zeros(3, 224, 224), 0)
    line = Line(problem.source, Found(problem.source, 1.0))
    assert cells(problem, line, 1e-3) == 1000
    assert cells(problem, line, 0.3) == 4
    assert problem.resolution == pytest.approx(1e-5, rel=0.2)
    assert cells(problem, line, 1e-9) == math.ceil(1 / problem.resolution)
    assert cells(problem, Line(problem.source, Found(problem.source, 0.0)), 1e-3) == 2


@dataclass(frozen=True)
class OnlyEstimate:
    """One estimate at a boundary point of a half-space, seen along a ray of known cosine."""

    estimate: object
    distance: float
    cosine: float
    queries: int
    found: list

    def __call__(self, problem):
        shape = tuple(problem.source.shape)
        normal, side = testing._unit(0, shape), testing._unit(5, shape)
        side = side - (side @ normal) * normal
        side = side / torch.linalg.vector_norm(side)
        ray = self.cosine * normal + math.sqrt(1 - self.cosine**2) * side
        point = problem.source + (ray * (self.distance / self.cosine)).view(problem.source.shape)
        assert point.min() > 0.1  # clipping plays no part
        assert point.max() < 0.9
        length = self.distance / self.cosine
        direction = yield from self.estimate.begin(problem)(1, Found(point, length), self.queries)
        self.found.append(None if direction is None else float(direction.flatten() @ normal))
        problem.accept(point)
        return Stop.CONVERGED


def estimate(part, ratio, queries, cosine=None, seed=0):
    boundary = testing.half_space(0.05)
    cosine = cosine or theory.initial_cosine(boundary.source.numel())
    found = []
    [result] = tb.run(
        OnlyEstimate(part, 0.05, cosine, queries, found),
        boundary.model(),
        boundary.source[None],
        [0],
        prices=tb.Prices(ratio, 1),
        budget=1e12,
        seed=seed,
    )
    assert result.stop is Stop.CONVERGED, result.reason
    return result, found[0]


@pytest.mark.parametrize("ratio", [2, 5, 100, 1000])
def test_agrest_has_the_share_of_low_cost_answers_of_the_closed_form(ratio):
    # At iteration 1 the schedule's cosine is the true one, so the share must be p(x*). A share that
    # is off by 5 standard errors has probability 6e-7 by chance. An overshoot of 1.2 times the
    # right one would shift it by 6.8, 6.2, 9.4 and 12.7 standard errors (n = 13 300, 3300, 8950,
    # 61 000): it is seen with probability .88 or more.
    d = 768
    result, _ = estimate(Agrest(), ratio, queries={2: 12_000, 5: 2000}.get(ratio, 600))
    notes = result.trace[-1].notes
    p = theory.cap_probability(theory.optimal_overshoot(ratio, d), d)
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


@pytest.mark.parametrize(("part", "ratio"), [(MonteCarlo(), 1), (Agrest(), 1), (Agrest(), 100)])
def test_an_estimate_points_where_the_closed_form_says(part, ratio):
    """J of the expected-cosine theorem: cos = sqrt(n) E[phi <g,u>] / sqrt(E phi^2), corrected for
    the cosine's own bound by a / sqrt(1 + a^2), which is what a sum of n random vectors gives."""
    d, found, wanted = 768, [], []
    for seed in range(12):
        result, cosine = estimate(part, ratio, queries=300, seed=seed)
        notes = result.trace[-1].notes
        x = theory.optimal_overshoot(ratio, d)
        p, n = theory.cap_probability(x, d), notes["estimate_queries"]
        height = theory.initial_cosine(d) / 2 * (1 - x * x) ** ((d - 1) / 2)
        a = math.sqrt(n) * height / math.sqrt(p * (1 - p))
        found.append(cosine)
        wanted.append(a / math.sqrt(1 + a * a))
    # The mean of 12 cosines with a standard error of about 0.01: 0.05 is five of them.
    assert np.mean(found) == pytest.approx(np.mean(wanted), abs=0.05)


def test_an_estimate_without_a_flagged_answer_is_none_and_not_nan():
    """The true cosine is 0.9, the schedule says 0.03: the overshoot loses all flagged answers."""
    result, cosine = estimate(Agrest(), 100, queries=100, cosine=0.9)
    assert cosine is None
    assert result.trace[-1].notes["share"] == 1.0


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
            found.append((yield from estimate(1, Found(problem.source, 0.0), 20)))
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
    [(point, distance)] = begun
    tally = result.ledger.counts["start"]
    assert sum(tally.values()) == tally[0] + 1
    assert int(boundary.labels(point[None])) != 0
    assert distance == result.distance
    noise = tb.Problem(boundary.source, 0).noise("start", 0, 1000)
    level = tally[0] + 1
    wanted = (boundary.source + 0.0045 * level * noise[level - 1 : level][0]).clamp(0, 1)
    assert torch.equal(point, wanted)


class TestNoise:
    problem = tb.Problem(torch.full((1, 3, 3), 0.5), 2, seed=4)

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
            tb.Problem(torch.full((1, 3, 3), 0.5), 2, seed=5).noise("x", 1, 4),
            tb.Problem(torch.full((1, 3, 3), 0.501), 2, seed=4).noise("x", 1, 4),
            tb.Problem(torch.full((1, 3, 3), 0.5), 2, seed=4).noise("y", 1, 4),
            tb.Problem(torch.full((1, 3, 3), 0.5), 2, seed=4).noise("x", 2, 4),
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
        other = tb.Problem(torch.full((1, 3, 3), 0.5), 2, tb.Prices(9, 1), target=1, seed=4)
        assert torch.equal(self.problem.noise("x", 1, 4)[0:4], other.noise("x", 1, 4)[0:4])
