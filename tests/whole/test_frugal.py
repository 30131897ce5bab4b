"""Frugal: what its options change, prices that are planned alike, targets, and odd images. On known
boundaries it is in test_known_boundaries.py."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest
import torch
from driver import drive

import tollbox as tb
from tollbox import testing
from tollbox.attacks.frugal.attack import CLOSEST_SHARE, SMALLEST_DELTA, Frugal
from tollbox.attacks.frugal.calibrated import CalibratedSampler
from tollbox.attacks.frugal.overshoot_belief import optimum
from tollbox.attacks.frugal.ray_start import RayStart
from tollbox.core.ask import at_once
from tollbox.core.stop import Stop
from tollbox.parts.priors import Spectrum
from tollbox.parts.starts import GrowingNoise
from tollbox.parts.subspaces import Dct, Full

SHAPE = (3, 16, 16)
LOW = Frugal(prior=Dct(4))
"""With directions from where the normals of `factor=4` lie."""


def run(attack, boundary, ratio=1.0, budget=600.0, max_queries=math.inf, **more):
    prices = ratio if isinstance(ratio, tb.Prices) else tb.Prices(ratio, 1)
    cell = tb.attack.Cell(
        attack, boundary.source, 0, prices, tb.Limits(budget, max_queries), **more
    )
    [result] = tb.attack.run_cells([cell], boundary.model())
    assert result.stop is not Stop.ATTACK_ERROR, result.reason
    return result


def counts(result):
    return {phase: dict(tally) for phase, tally in result.ledger.counts.items()}


# -- the start ------------------------------------------------------------------------------------


def test_a_start_that_leads_nowhere_is_left_for_a_fresh_ray(monkeypatch):
    """Adversarial within 6 of white, where the nearest point is the one on the way from the source,
    and at 3 to 7.3 from the source, which the far ends of rays overshoot. At c* = 100 the start is
    from white; only a fresh ray leads away from it."""
    grey = torch.full(SHAPE, 0.5, dtype=torch.float64)

    def labels(points):
        near = torch.linalg.vector_norm((points - 1).flatten(1), dim=1) <= 6
        away = torch.linalg.vector_norm((points - grey).flatten(1), dim=1)
        return (near | ((away >= 3) & (away <= 7.3))).long()

    def ended():
        cell = tb.attack.Cell(Frugal(), grey, 0, tb.Prices(100, 1), tb.Limits(4000))
        [result] = tb.attack.run_cells([cell], tb.models.from_callable(labels))
        assert result.trace[0].distance == pytest.approx(math.sqrt(768) / 2 - 6, rel=0.02)
        return result

    assert 3 <= ended().distance < 3.2
    monkeypatch.setattr(RayStart, "find_closer", lambda *args: at_once(None))
    assert ended().distance > 7.5


# -- prices ---------------------------------------------------------------------------------------


def test_where_others_are_free_the_run_is_that_at_a_thousand():
    """Query for query, apart from what they are charged; and so is any dearer price."""
    boundary = testing.half_space(0.5, factor=4)
    runs = [
        run(LOW, boundary, prices, 1e9, max_queries=1200)
        for prices in (tb.Prices.flagged_only(), tb.Prices(1000, 1), tb.Prices(1e5, 1))
    ]
    assert runs[0].ledger.queries == 1200
    for other in runs[1:]:
        assert counts(other) == counts(runs[0])
        assert [s.distance for s in other.trace] == [s.distance for s in runs[0].trace]
        assert torch.equal(other.adversarial, runs[0].adversarial)
    assert runs[0].ledger.cost == runs[0].ledger.flagged


def test_a_plan_is_followed_whatever_the_price():
    """With its start given (which plans with the price itself) the run is that at the price."""
    boundary = testing.half_space(0.5, factor=4)
    attack = replace(LOW, start=GrowingNoise())
    planned = run(replace(attack, plan=100), boundary, 1, 1e9, max_queries=900)
    priced = run(attack, boundary, 100, 1e9, max_queries=900)
    assert counts(planned) == counts(priced)
    assert planned.distance == priced.distance
    plain = run(attack, boundary, 1, 1e9, max_queries=900)
    assert plain.ledger.flagged > 2 * planned.ledger.flagged


def test_the_dearer_the_price_the_fewer_answers_are_flagged():
    boundary = testing.half_space(0.5, factor=4)
    shares = []
    for ratio in (0.01, 1, 10, 100):
        result = run(LOW, boundary, ratio, 1e9, max_queries=1500)
        shares.append(result.ledger.flagged / result.ledger.queries)
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.8
    assert shares[-1] < 0.15


# -- options --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Noted:
    """The whole space; notes at which points and with which lengths it was drawn from."""

    at: list = field(default_factory=list)
    lengths: list = field(default_factory=list)

    def dimension(self, image):
        return Full().dimension(image)

    def begin(self, problem):
        drawing, noted = Full().begin(problem), self

        class Drawing:
            shape = drawing.shape

            def at(self, point):
                noted.at.append(float(torch.linalg.vector_norm(point - problem.source)))
                return self

            def __call__(self, rows, length):
                noted.lengths.append(length)
                return drawing(rows, length)

        return Drawing()


@pytest.mark.parametrize("every", [0, 1, 4])
def test_one_iteration_of_so_many_draws_from_the_perturbation(every):
    prior, own = Noted(), Noted()
    attack = Frugal(
        prior=prior,
        low_prior=prior,
        fallback_prior=prior,
        reweighing_prior=own,
        reweighing_period=every,
        iterations=12,
    )
    result = run(attack, testing.half_space(0.5), budget=1e6)
    assert result.stop is Stop.ITERATIONS
    assert (len(prior.at), len(own.at)) == {0: (12, 0), 1: (0, 12), 4: (9, 3)}[every]
    if every == 4:
        wanted = [result.trace[t].distance for t in (3, 7, 11)]
        assert own.at == pytest.approx(wanted)  # at the fourth iterate, and so on


def test_once_a_prior_is_exhausted_the_wide_one_is_drawn_from():
    """Directions of brightness alone on a plane whose normal has other colours: x - x* is soon as
    near as brightness can bring it, and the rest is the wide one's, which goes on to the plane."""
    boundary = testing.half_space(factor=4)
    bright, wide = Spectrum(4.5, grey=1), Noted()
    narrow = Frugal(prior=bright, low_prior=bright, fallback_prior=bright, reweighing_period=0)
    limit = run(narrow, boundary, budget=5000).distance
    result = run(replace(narrow, fallback_prior=wide), boundary, budget=5000)
    assert limit > 1.5
    assert result.distance < 1.3
    drawn = [step.notes["prior"] == 2 for step in result.trace[1:]]
    assert not drawn[0]
    assert len(wide.at) - sum(drawn) in (0, 1)  # the budget may end in an estimate
    assert sum(drawn[len(drawn) // 2 :]) > sum(drawn[: len(drawn) // 2])


@pytest.mark.parametrize("share", [0.0, 0.05, 0.3])
def test_samples_lie_at_a_share_of_the_distance(share, monkeypatch):
    """And no nearer than a third of a level of 8 bits a pixel."""
    met, estimate = [], CalibratedSampler.estimate

    def noted(self, t, iterate, delta, slack, **limits):
        met.append((delta, iterate.distance))
        return estimate(self, t, iterate, delta, slack, **limits)

    monkeypatch.setattr(CalibratedSampler, "estimate", noted)
    attack = Frugal(reweighing_period=0, relative_delta=share, iterations=6)
    run(attack, testing.half_space(0.5), budget=1e6)
    floor = SMALLEST_DELTA * math.sqrt(768)
    assert len(met) == 6
    assert [delta for delta, _ in met] == [max(floor, share * distance) for _, distance in met]
    assert share or {delta for delta, _ in met} == {floor}
    assert floor < 1 / 255 / 2 * math.sqrt(768)


def test_the_parts_of_the_perturbation_are_asked_for_their_own_information():
    result = run(
        replace(LOW, reweighing_period=1, reweighing_information=80, iterations=5),
        testing.sphere(),
        1,
        1e6,
    )
    told = [step.notes["information"] for step in result.trace[1:]]
    assert all(80 <= value <= 110 for value in told)


def test_a_schedule_asks_as_other_attacks_do():
    """n_0 sqrt(t) queries an estimate at c* = 1, or what they tell; at other prices what
    n_0 sqrt(t) (c* + 1) / 2 buys."""
    boundary = testing.half_space(factor=4)
    for ratio in (1, 10):
        attack = replace(LOW, schedule=40, reweighing_period=0, iterations=9)
        result = run(attack, boundary, ratio, 1e7)
        for t, step in enumerate(result.trace[1:], 1):
            wanted = 40 * math.sqrt(t) * (ratio + 1) / 2 * optimum(ratio).rate
            assert wanted * (1 - 1e-9) <= step.notes["information"] <= 1.3 * wanted + 2, (ratio, t)
    by_gain = run(replace(attack, schedule=0), boundary, 1, 1e7)
    told = [step.notes["information"] for step in by_gain.trace[1:]]
    assert max(abs(b / a - math.sqrt(2)) for a, b in pairwise(told)) > 0.3


def test_the_tail_changes_where_is_searched_and_nothing_before():
    boundary = testing.half_space(factor=4)
    runs = [run(replace(LOW, tail=tail), boundary) for tail in (0, 0.1, 1)]
    assert len({result.trace[0].distance for result in runs}) == 1
    assert len({result.trace[1].distance for result in runs}) == 3
    searches = [r.ledger.counts["search"] for r in runs]
    assert all(sum(tally.values()) > 0 for tally in searches)


def test_after_a_turn_that_nobody_expected_the_boundary_is_searched_all_the_same():
    """A first turn of 1.4 radians ends in a cell of many times the width that the next estimate
    needs. It is searched again, and the next estimate tells as much as it is asked for."""
    attack = replace(LOW, start=RayStart(1), schedule=40, reweighing_period=0, iterations=3)
    result = run(attack, testing.half_space(factor=4), 1, 1e7)
    first, second = result.trace[1], result.trace[2]
    assert first.notes["angle"] > 1.2
    wanted = 40 * math.sqrt(2) * optimum(1).rate
    assert second.notes["information"] >= wanted * (1 - 1e-9)
    assert second.notes["estimate_queries"] < 2 * wanted


def test_from_a_start_that_may_lie_anywhere_it_finds_the_boundary_first():
    """On the ray, to a hundredth: of a given image, and of another start. RayStart has been there,
    and nothing more is asked."""
    boundary = testing.half_space(0.5, factor=4)
    normal = testing._unit(0, SHAPE, 4)
    problem = tb.attack.Problem(boundary.source, 0)
    grown = drive(
        GrowingNoise()(problem), problem, lambda point: int(boundary.labels(point[None])[0])
    ).returned
    result = run(replace(LOW, start=GrowingNoise()), boundary)
    ray = (grown.point - boundary.source).flatten()
    wanted = 0.5 * grown.distance / float(ray @ normal)
    assert wanted <= result.trace[0].distance <= wanted * 1.0102
    given = 0.5 + 0.5 * testing._unit(0, SHAPE, 4).sign().view(SHAPE)
    result = run(LOW, boundary, start=given)
    ray = (given - boundary.source).flatten()
    wanted = 0.5 * float(torch.linalg.vector_norm(ray)) / float(ray @ normal)
    assert wanted <= result.trace[0].distance <= wanted * 1.0102


# -- runs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("ratio", [0.1, 1, 100])
@pytest.mark.parametrize("boundary", testing.boundaries(4)[:-1], ids=lambda b: b.name)
def test_an_iterate_is_never_farther_than_the_one_before(boundary, ratio):
    """A circle over x - x* has no point that is farther from x*; and notes are numbers."""
    result = run(Frugal(), boundary, ratio, {0.1: 200, 1: 1000, 100: 25_000}[ratio])
    assert len(result.trace) > 2
    for before, after in pairwise(step.distance for step in result.trace):
        assert after <= before * (1 + 1e-9)
    for step in result.trace[1:]:
        assert all(math.isfinite(value) for value in step.notes.values())


@pytest.mark.parametrize("ratio", [1, 10])
@pytest.mark.parametrize("target", [1, 2])
def test_a_targeted_run_reaches_its_class(target, ratio):
    """Labels 1 and 2 lie behind the plane, on the two sides of the first pixel."""
    boundary = testing.half_space(factor=4)
    given = 0.5 + 0.5 * testing._unit(0, SHAPE, 4).sign().view(SHAPE)
    given[0, 0, 0] = target - 1.0
    result = run(LOW, boundary, ratio, 2500 * ratio, target=target, start=given)
    assert int(boundary.labels(result.adversarial[None])) == target
    first = float(testing._unit(0, SHAPE, 4)[0])
    inside = (first > 0) == (target == 2)
    optimum = 1.0 if inside else 1 / math.sqrt(1 - first**2)
    assert optimum <= result.distance <= 1.25 * optimum


def test_a_start_that_is_given_far_inside_is_searched_to_a_thousandth():
    """The boundary is nearer than that share: the attack goes on from there all the same."""
    boundary = testing.half_space(1e-3, factor=4)
    given = 0.5 + 0.5 * testing._unit(0, SHAPE, 4).sign().view(SHAPE)
    result = run(LOW, boundary, budget=1500, start=given)
    far = float(torch.linalg.vector_norm(given - boundary.source))
    assert result.trace[0].distance <= 1.02 * CLOSEST_SHARE * far
    assert result.distance < 2 * boundary.optimum


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 1, 2), (3, 1, 1), (2, 3, 5), (3, 1, 40)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("distance", [1e-7, 1e-3, 0.2])
def test_small_images_and_small_distances(shape, dtype, distance):
    """In any dtype a run ends with a reason that is no error."""
    boundary = testing.half_space(distance, shape)
    for preset in ("frugal", "cgba+calibrated"):
        for ratio in (0.01, 1, 100):
            prices, source = tb.Prices(ratio, 1), boundary.source.to(dtype)
            limits = tb.Limits(80 * max(1, ratio / 5))
            cell = tb.attack.Cell(tb.preset(preset), source, 0, prices, limits)
            [result] = tb.attack.run_cells([cell], boundary.model(dtype))
            assert result.stop in (Stop.BUDGET, Stop.CONVERGED, Stop.NO_START), result.reason
            assert result.adversarial is None or result.adversarial.isfinite().all()


@pytest.mark.parametrize("level", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_image_of_one_colour_and_a_class_of_one_point(level, dtype):
    """All but the source itself is adversarial: down to what the dtype can tell, and no further."""
    source = torch.full((3, 8, 8), level, dtype=dtype)
    model = tb.models.from_callable(
        lambda images: (images != level).flatten(1).any(1).long(), dtype=dtype
    )
    for ratio in (1, 100):
        cell = tb.attack.Cell(Frugal(), source, 0, tb.Prices(ratio, 1), tb.Limits(1500 * ratio))
        [result] = tb.attack.run_cells([cell], model)
        assert result.stop in (Stop.BUDGET, Stop.CONVERGED), result.reason
        assert 0 < result.distance < 0.1
