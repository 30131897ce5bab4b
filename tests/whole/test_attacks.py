"""Attacks: their own steps with parts that are known, twins at c* = 1, alone and in company."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest
import torch
from driver import drive
from every_preset import attack_of, names

import tollbox as tb
from tollbox import testing
from tollbox.attacks.cgba import CGBA
from tollbox.attacks.geoda import GeoDA
from tollbox.attacks.hsja import HSJA
from tollbox.core.ask import Iterate, at_once
from tollbox.core.by_side import at_side
from tollbox.core.stop import Stop
from tollbox.parts.paths import Galloping, Quarter, ToDirection
from tollbox.parts.searches import BinarySearch
from tollbox.parts.starts import GrowingNoise

SHAPE = (3, 16, 16)
TWINS = [
    ("surfree", "a-surfree"),
    ("hsja", "hsja+as"),
    ("geoda", "geoda+as"),
    ("cgba", "cgba+as"),
    ("hsja+agrest", "a-hsja"),
    ("geoda+agrest", "a-geoda"),
    ("cgba+agrest", "a-cgba"),
    ("opt", "a-opt"),
    ("sign-opt", "a-sign-opt"),
    ("prior-opt", "a-prior-opt"),
    ("pars-opt", "a-pars-opt"),
    ("tria", "a-tria"),
]


# -- twins ----------------------------------------------------------------------------------------


def asked(preset, boundary, ratio, budget, seed=0):
    """Every point that a metered model was sent, in order, and the result."""
    rows = []

    def recording(images):
        rows.extend(images.clone())
        return boundary.labels(images)

    model = tb.models.from_callable(recording, dtype=torch.float64, classes=3)
    [result] = tb.run(
        attack_of(preset),
        model,
        boundary.source[None],
        [0],
        prices=tb.Prices(ratio, 1),
        budget=budget,
        seed=seed,
        execution=tb.Execution(batch_size=1, metered=True),
    )
    assert len(rows) == result.ledger.queries
    return torch.stack(rows), result


@pytest.mark.slow
@pytest.mark.parametrize(
    "boundary",
    [testing.half_space(factor=4), testing.half_space_in_box(factor=4)],
    ids=lambda b: b.name,
)
@pytest.mark.parametrize(("plain", "with_as"), TWINS)
def test_at_c1_asymmetric_search_makes_query_for_query_the_same_run(plain, with_as, boundary):
    """The split 1 : c* is then a half. (At c* = 10 the runs part, or this would show nothing.)

    The start, which all have in common, takes 100 to 400 queries, and at c* = 10 all but the last
    are flagged: budgets are such that every run goes on after it."""
    one, left = asked(plain, boundary, 1, 600)
    other, right = asked(with_as, boundary, 1, 600)
    assert len(one) == 600
    assert left.ledger.by_phase["search"] > 0
    assert torch.equal(one, other)
    assert left.ledger.counts == right.ledger.counts
    assert left.distance == right.distance
    short, _ = asked(plain, boundary, 10, 4500)
    long, _ = asked(with_as, boundary, 10, 4500)
    assert short.shape != long.shape or not torch.equal(short, long)


def test_at_c1_agrest_has_no_overshoot_and_differs_from_monte_carlo_by_the_tolerance_alone():
    boundary = testing.half_space(factor=4)
    attack = at_side(tb.preset("cgba+agrest"), 16)
    problem = tb.attack.Problem(boundary.source, 0)
    assert attack.estimate.overshoot(problem, 1) == 0
    scale = attack.estimate.tolerance_scale(problem)
    search = replace(attack.search, tau=attack.search.tau * scale)
    plain = replace(tb.preset("cgba"), search=search)
    cells = [tb.attack.Cell(a, boundary.source, 0, limits=tb.Limits(2000)) for a in (attack, plain)]
    one, other = tb.attack.run_cells(cells, boundary.model())
    assert [s.cost for s in one.trace] == [s.cost for s in other.trace]
    assert [s.distance for s in one.trace] == pytest.approx([s.distance for s in other.trace])


# -- alone and in company -------------------------------------------------------------------------


def told(result):
    """All that a result says, for comparison."""
    return (
        result.stop,
        result.reason,
        result.ledger.counts,
        result.ledger.cost,
        [tuple(i) for i in result.improvements],
        None if result.adversarial is None else result.adversarial.tolist(),
        [(s.iteration, s.cost, s.source, s.other, s.distance, s.notes) for s in result.trace],
    )


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [0.5, 10])
def test_every_preset_is_the_same_alone_and_in_company(ratio):
    boundary = testing.half_space(0.5, factor=4)
    other = (boundary.source + 0.02 * testing._unit(9, SHAPE).view(SHAPE)).clamp(0, 1)
    prices, budget = tb.Prices(ratio, 1), 200 * max(1, ratio)
    cells = [
        tb.attack.Cell(
            attack, image, 0, prices, tb.Limits(budget), seed=3, name=name, norm=attack.metrics[0]
        )
        for name, attack in ((name, attack_of(name)) for name in names())
        for image in (boundary.source, other)
    ]
    company = tb.attack.run_cells(cells, boundary.model(), execution=tb.Execution(batch_size=64))
    few = tb.attack.run_cells(
        cells[::-1], boundary.model(), execution=tb.Execution(batch_size=5, live=4, metered=True)
    )
    for cell, one, two in zip(cells, company, list(few)[::-1], strict=True):
        assert told(one) == told(two), cell.name
        assert one.stop not in (Stop.ATTACK_ERROR, Stop.MODEL_ERROR), one.reason
    for index in range(0, len(cells), 2):
        [alone] = tb.attack.run_cells(
            [cells[index]], boundary.model(), execution=tb.Execution(batch_size=16)
        )
        assert told(alone) == told(company[index]), cells[index].name


@pytest.mark.parametrize("preset", names())
def test_an_attack_keeps_nothing_of_a_run(preset):
    """The same object once more: the same result, after a run on another image at another price."""
    boundary = testing.half_space(0.5, factor=4)
    attack = attack_of(preset)

    def once(image, ratio, seed):
        norm = attack.metrics[0]
        cell = tb.attack.Cell(
            attack, image, 0, tb.Prices(ratio, 1), tb.Limits(250 * ratio), seed=seed, norm=norm
        )
        return tb.attack.run_cells([cell], boundary.model())[0]

    first = once(boundary.source, 1, 0)
    between = once(boundary.source + 0.01, 3, 0)
    assert told(between) != told(first)
    assert told(once(boundary.source, 1, 0)) == told(first)
    # RayS and ADBA have no use for random numbers, and an even image gives DPAttack no statistics.
    draws = not any(name in preset for name in ("rays", "adba", "dpattack"))
    assert (told(once(boundary.source, 1, 1)) != told(first)) == draws


# -- steps, with parts that are known -------------------------------------------------------------


@dataclass
class Given:
    """An estimate that asks nothing, and gives the directions it was given; None after them."""

    directions: list
    asked: list = field(default_factory=list)
    """(t, distance of x_t, n'_t) of each call."""
    rows: int = 1

    def tolerance_scale(self, problem):
        return 1.0

    def begin(self, problem):
        def estimate(t, found, queries):
            self.asked.append((t, found.distance, queries))
            assert found.distance == pytest.approx(norm(found.point - problem.source))
            return at_once(self.directions[t - 1] if t <= len(self.directions) else None)

        return estimate


@dataclass(frozen=True)
class At:
    """A start that knows where."""

    point: torch.Tensor

    def __call__(self, problem):
        return at_once(Iterate(self.point, norm(self.point - problem.source)))


def norm(a):
    return float(torch.linalg.vector_norm(a))


def unit(a):
    return a / torch.linalg.vector_norm(a)


GREY = torch.full(SHAPE, 0.5, dtype=torch.float64)
NORMAL = testing._unit(0, SHAPE).view(SHAPE)
ACROSS = testing._unit(1, SHAPE).view(SHAPE)
ACROSS = unit(ACROSS - (ACROSS * NORMAL).sum() * NORMAL)


def behind(point):
    """The half-space at distance 1."""
    return int(((point - GREY) * NORMAL).sum() >= 1)


def attacked(make, directions, iterations=None, label=behind, start=None, **more):
    """Drive an attack from a point at 45 degrees with given directions."""
    begun = GREY + 3 * unit(NORMAL + ACROSS) if start is None else start
    part = Given(directions)
    attack = make(
        At(begun),
        BinarySearch(1e-6, relative=True),
        part,
        iterations=iterations or len(directions),
        **more,
    )
    problem = tb.attack.Problem(GREY, 0)
    done = drive(attack(problem), problem, label)
    return done, [point for point, *_ in problem.accepted], part


@pytest.mark.parametrize(("make", "first"), [(HSJA, 30), (GeoDA, 30), (CGBA, 30), (HSJA, 100)])
def test_an_estimate_has_n0_sqrt_t_queries(make, first):
    done, _, part = attacked(make, [NORMAL] * 9, queries=first)
    assert done.returned is Stop.ITERATIONS
    assert [t for t, _, _ in part.asked] == list(range(1, 10))
    assert [n for _, _, n in part.asked] == [int(first * math.sqrt(t)) for t in range(1, 10)]


@pytest.mark.parametrize("make", [HSJA, GeoDA, CGBA])
def test_ten_estimates_without_information_in_a_row_end_it(make):
    done, iterates, part = attacked(make, [NORMAL, NORMAL], iterations=99)
    assert done.returned is Stop.NO_INFORMATION
    assert len(part.asked) == 2 + 10
    assert len(iterates) == 1 + 2 + 9
    assert all(torch.equal(point, iterates[2]) for point in iterates[3:])


@pytest.mark.parametrize("make", [HSJA, GeoDA, CGBA])
def test_the_first_iterate_is_on_the_line_to_the_start(make):
    _, iterates, _ = attacked(make, [NORMAL])
    assert norm(iterates[0] - GREY) == pytest.approx(math.sqrt(2), rel=1e-5)
    assert torch.allclose(unit(iterates[0] - GREY), unit(NORMAL + ACROSS), atol=1e-9)


@pytest.mark.parametrize("make", [GeoDA, CGBA])
def test_with_the_true_normal_one_iteration_finds_the_nearest_point(make):
    _, iterates, _ = attacked(make, [NORMAL])
    assert norm(iterates[1] - GREY) == pytest.approx(1, rel=1e-5)
    assert torch.allclose(iterates[1], GREY + NORMAL, atol=1e-3)


def steps(done):
    return [p for p, phase in zip(done.points, done.phased, strict=True) if phase == "step"]


def test_hsja_steps_by_the_distance_over_sqrt_t_and_halves_on_failure():
    """Against the normal no step is adversarial: all are asked, and the iterate stays. With it the
    first is."""
    done, iterates, _ = attacked(HSJA, [NORMAL, -NORMAL, NORMAL], halvings=9)
    asked = steps(done)
    assert len(asked) == 1 + 9 + 1
    x = [point - GREY for point in iterates]
    assert torch.allclose(asked[0], iterates[0] + norm(x[0]) * NORMAL, atol=1e-12)
    for k in range(9):
        length = norm(x[1]) / math.sqrt(2) / 2**k
        assert torch.allclose(asked[1 + k], iterates[1] - length * NORMAL, atol=1e-12)
    assert torch.equal(iterates[2], iterates[1])
    length = norm(x[2]) / math.sqrt(3)
    assert torch.allclose(asked[10], iterates[2] + length * NORMAL, atol=1e-12)


def test_a_halved_step_is_taken_as_soon_as_it_is_adversarial():
    """From a point above the plane, against the normal: the fourth step is short enough."""

    def label(point):
        height = float(((point - GREY) * NORMAL).sum())
        return int(height >= 1 - 0.3)  # found at 1 on the line (see below), 0.3 to spare

    class Loose:
        """A search that stays where it is."""

        def __call__(self, problem, path, scale=1.0):
            return at_once(path.start)

    start = GREY + NORMAL
    part = Given([-NORMAL])
    attack = HSJA(At(start), Loose(), part, iterations=1)
    problem = tb.attack.Problem(GREY, 0)
    done = drive(attack(problem), problem, label)
    assert done.labels == [0, 0, 1]  # 1, 1/2, 1/4
    assert torch.allclose(problem.accepted[-1][0], GREY + 0.75 * NORMAL, atol=1e-12)


def test_geoda_adds_up_directions_and_asks_at_the_radius_and_beyond():
    """m = unit(m + g); at r, 1.1 r, 1.21 r, ... along m until one is adversarial."""
    gs = [unit(NORMAL + ACROSS), ACROSS, unit(NORMAL - 0.2 * ACROSS)]
    done, iterates, _ = attacked(GeoDA, gs)
    asked, mean = steps(done), torch.zeros_like(GREY)
    for t, g in enumerate(gs):
        mean = unit(mean + g)
        radius = norm(iterates[t] - GREY)
        height = float((mean * NORMAL).sum())
        needed = max(0, math.ceil(math.log(1 / (radius * height)) / math.log(1.1)))
        for k in range(needed + 1):
            wanted = GREY + radius * 1.1**k * mean
            assert torch.allclose(asked.pop(0), wanted, atol=1e-9), (t, k)
        assert norm(iterates[t + 1] - GREY) == pytest.approx(1 / height, rel=1e-4)
    assert asked == []


def test_stealthy_geoda_adds_up_without_dividing():
    """m = m + g; at |m| r, 1.1 |m| r, ... along it, which after three directions is farther out."""
    gs = [unit(NORMAL + ACROSS), unit(NORMAL + 0.5 * ACROSS), unit(NORMAL - 0.2 * ACROSS)]
    done, iterates, _ = attacked(GeoDA, gs, unit_mean=False)
    asked, total = steps(done), torch.zeros_like(GREY)
    assert len(asked) == 3  # all that far out are adversarial
    for t, g in enumerate(gs):
        total = total + g
        wanted = GREY + norm(iterates[t] - GREY) * total
        assert torch.allclose(asked[t], wanted, atol=1e-9), t
        height = float((unit(total) * NORMAL).sum())
        assert norm(iterates[t + 1] - GREY) == pytest.approx(1 / height, rel=1e-4)
    assert norm(asked[2] - GREY) > 2.5 * norm(iterates[2] - GREY)
    assert not tb.preset("stealthy-geoda").unit_mean
    assert tb.preset("geoda").unit_mean


def test_geoda_stays_where_no_radius_is_adversarial():
    done, iterates, _ = attacked(GeoDA, [-NORMAL], growths=7)
    assert len(steps(done)) == 7
    assert torch.equal(iterates[0], iterates[1])


@pytest.mark.parametrize("sweep", [ToDirection(), Quarter(), Galloping()], ids=str)
@pytest.mark.parametrize("angle", [0.2, 0.7, 1.2])
def test_cgba_finds_the_nearest_point_of_the_circle_whatever_the_sweep(sweep, angle):
    """In the plane of the normal every sweep ends at the foot of the plane."""
    start = GREY + 2 * (math.cos(angle) * NORMAL + math.sin(angle) * ACROSS)
    start = start if behind(start) else GREY + 2.5 / math.cos(angle) * unit(start - GREY)
    _, iterates, _ = attacked(CGBA, [NORMAL], start=start, sweep=sweep)
    assert norm(iterates[1] - GREY) == pytest.approx(1, rel=1e-4)


def test_the_presets_have_the_settings_of_their_sources():
    assert tb.preset("hsja").estimate.subspace == tb.preset("a-hsja").estimate.subspace
    assert {name: tb.preset(name).queries for name in ("hsja", "cgba", "geoda")} == {
        "hsja": 30,
        "cgba": 30,
        "geoda": 30,
    }
    for name in ("stealthy-hsja", "stealthy-geoda"):
        assert tb.preset(name).queries == 100
    assert [tb.preset(f"a-{f}").estimate.m for f in ("hsja", "geoda", "cgba")] == [0.02, 0.06, 0.06]
    assert isinstance(tb.preset("surfree").start, GrowingNoise)
    for _, with_as in TWINS[:7]:  # the paper's
        search = tb.preset(with_as).search
        assert (search.tau, search.relative) == (1e-4 * 0.225, False)


# -- a vanilla estimate is on the boundary --------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["hsja", "geoda", "cgba"])
def test_a_vanilla_estimate_has_as_many_flagged_answers_as_others(preset):
    """However far the first boundary point is; a tolerance that grows with the distance makes it an
    accidental AGREST.

    A plane at 1 in d = 12 288, first met at 25 to 44. Sampling with delta = 0.0045 moves by
    0.0045 / sqrt(d) = 4.1e-5 across the plane. A search that ends within 2.25e-5 leaves the point
    outside by 6e-7 at most, one within 1e-4 of the distance by up to 1e-4 and 5e-5 on average, 1.2
    standard deviations: a share of about 0.9. n = 8 x 400 answers: the standard error is 0.009;
    0.05 is more than five of them, and a share of 0.6 is seen with probability above .999."""
    boundary = testing.half_space(1.0, (3, 64, 64))
    attack = replace(tb.preset(preset), queries=400, iterations=1)
    coarse = replace(attack, search=BinarySearch(1e-4, relative=True))
    shares = {}
    for name, made in (("published", attack), ("relative", coarse)):
        cells = [
            tb.attack.Cell(made, boundary.source, 0, limits=tb.Limits(1e5), seed=seed)
            for seed in range(8)
        ]
        results = tb.attack.run_cells(cells, boundary.model())
        assert all(result.trace[0].distance > 20 for result in results)
        notes = [result.trace[1].notes for result in results]
        assert sum(note["estimate_queries"] for note in notes) == 3200
        shares[name] = sum(note["share"] for note in notes) / 8
    assert abs(shares["published"] - 0.5) < 0.05
    assert shares["relative"] > 0.8


# -- never outward --------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", ["surfree", "a-surfree", "surfree-original"])
@pytest.mark.parametrize(
    "boundary",
    [
        testing.half_space(factor=4),
        testing.half_space_in_box(),
        testing.sphere(),
        testing.wedge(),
        testing.half_space(0.2, (1, 2, 2)),
        testing.half_space(0.2, (1, 1, 1)),
    ],
    ids=lambda b: f"{b.name} {tuple(b.source.shape)}",
)
def test_an_iterate_of_surfree_is_nearer_than_the_one_before(preset, boundary):
    """Every arc that holds an adversarial point is a step nearer."""
    [result] = tb.run(tb.preset(preset), boundary.model(), boundary.source[None], [0], budget=900)
    distances = [step.distance for step in result.trace]
    assert len(distances) > 1 or boundary.source.numel() == 1  # where there is nowhere to turn
    for before, after in pairwise(distances):
        assert after <= before * (1 + 1e-9)


def test_surfree_searches_the_line_once_more_after_the_last_iteration():
    """What an arc of coarse cells left is found there."""
    boundary = testing.half_space(factor=4)
    attack = replace(tb.preset("surfree"), iterations=3)
    [result] = tb.run(attack, boundary.model(), boundary.source[None], [0], budget=9000)
    assert result.stop is Stop.ITERATIONS
    before, last = (step.distance for step in result.trace[-2:])
    assert last < before
    way = result.adversarial - boundary.source
    inside = boundary.source + way * (1 - 3e-5 / result.distance)
    assert int(boundary.labels(inside[None])) == 0
