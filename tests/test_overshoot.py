"""Measured overshoot: the belief against simulated answers, its aim against the paper's theorem,
and whole estimates on planes whose normal is known."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from driver import drive
from scipy.special import log_ndtr, ndtr

import tollbox as tb
from tollbox import calibrated, testing, theory
from tollbox.ask import Found
from tollbox.calibrated import FIRST, KEPT, Calibrated, Sampler, _Scored
from tollbox.overshoot import LOG_SLOPES, PLACES, STEP, Belief, best
from tollbox.subspaces import Dct, Full

SHAPE = (3, 16, 16)
MANY_DIMENSIONS = 10**6


def certain(slope: float, slack: float = 0.0, place: int = 0, ratio: float = 1.0) -> Belief:
    """A belief that knows the slope, one of the table's, and the place."""
    belief = Belief(ratio)
    belief.begin(slack, 0.4)
    row = int(np.abs(LOG_SLOPES - math.log(slope)).argmin())
    belief._weights = np.zeros_like(belief._weights)
    belief._weights[row, place] = 1.0
    return belief


# -- closed forms ---------------------------------------------------------------------------------


@pytest.mark.parametrize("ratio", [1, 2, 10, 100, 1000])
def test_the_best_place_is_that_of_the_theorem_as_d_grows(ratio):
    """z = x* sqrt(d), to one step of the table, and the share is that of the cap."""
    x = theory.optimal_overshoot(ratio, MANY_DIMENSIONS)
    found = best(ratio)
    assert found.z == pytest.approx(x * math.sqrt(MANY_DIMENSIONS), abs=STEP)
    assert found.share == pytest.approx(theory.cap_probability(x, MANY_DIMENSIONS), abs=0.4 * STEP)
    share = theory.cap_probability(x, MANY_DIMENSIONS)
    price = share + ratio * (1 - share)
    a_query = theory.objective(x, MANY_DIMENSIONS, 1) ** 2 * MANY_DIMENSIONS
    assert found.rate == pytest.approx(a_query / price, rel=1e-3)


@pytest.mark.parametrize("ratio", [2, 100, 1000])
def test_below_one_it_is_mirrored(ratio):
    one, other = best(ratio), best(1 / ratio)
    assert other.z == pytest.approx(-one.z, abs=1e-9)
    assert other.share == pytest.approx(1 - one.share, abs=1e-9)
    assert other.rate == pytest.approx(ratio * one.rate)
    assert Belief(1 / ratio).aim() == pytest.approx(-Belief(ratio).aim(), rel=1e-6)


@pytest.mark.parametrize("place", [0, 3])
@pytest.mark.parametrize("z", [-4, -2, -0.5, 0, 0.5, 1.5, 4])
def test_scores_are_derivatives_and_information_is_their_mean_square(z, place):
    """d/dm log P(answer) at the margin m = z, by differences, and Fisher's information from them;
    whatever of z is shift and whatever is slack."""
    slope, slack = math.exp(LOG_SLOPES[30]), 0.3
    shift = z / slope - slack * PLACES[place]
    scores = certain(slope, slack, place).scores(shift)
    h = 1e-5
    passed = (log_ndtr(z + h) - log_ndtr(z - h)) / (2 * h)
    failed = (log_ndtr(-z - h) - log_ndtr(-z + h)) / (2 * h)
    assert scores.passed == pytest.approx(passed, rel=1e-6)
    assert -scores.failed == pytest.approx(failed, rel=1e-6)
    p = ndtr(z)
    assert scores.information == pytest.approx(p * passed**2 + (1 - p) * failed**2, rel=1e-6)
    assert p * scores.passed == pytest.approx((1 - p) * scores.failed)  # no direction, no drift


def test_the_scores_of_one_chunk_are_the_weights_of_algorithm_3():
    """(1 - p) for adversarial answers, p for the others, up to a common factor."""
    for z in (-1.0, 0.0, 1.2):
        scores = certain(math.exp(LOG_SLOPES[30])).scores(z / math.exp(LOG_SLOPES[30]))
        assert scores.passed / scores.failed == pytest.approx((1 - ndtr(z)) / ndtr(z))


# -- the belief -----------------------------------------------------------------------------------


@pytest.mark.parametrize("slack", [0.0, 0.2])
@pytest.mark.parametrize("ratio", [10, 100, 0.1])
@pytest.mark.parametrize("log_slope", [-0.5, 2.3, 4.6])
def test_the_belief_concentrates_on_the_slope(log_slope, ratio, slack):
    """2000 answers, in chunks of 50, each where the belief aims. An answer tells z^2 phi^2 / p(1-p)
    of log k, 0.3 or more at these aims: a standard error of 0.04, and 0.036 for the table's steps
    of 0.125. Off by 0.3 is 5 of them (6e-7 by chance); a slope that is off by half (0.41) is seen
    with probability .97 or more."""
    draw, belief, slope = np.random.default_rng(3), Belief(ratio), math.exp(log_slope)
    slack /= slope
    belief.begin(slack, 0.4)
    shares = []
    for _ in range(40):
        shift = belief.aim()
        passed = int(draw.binomial(50, ndtr(slope * (0.5 * slack + shift))))
        belief.update(shift, passed, 50 - passed)
        shares.append(passed / 50)
    assert belief.log_slope == pytest.approx(log_slope, abs=0.3)
    # The last 30 chunks: 0.014 or less to one standard error, and a step of the aims is 0.25 in z.
    assert np.mean(shares[10:]) == pytest.approx(best(ratio).share, abs=5 * 0.014 + 0.03)


@pytest.mark.parametrize("ratio", [0.1, 1, 2, 10, 100, 1000])
@pytest.mark.parametrize("slack", [0.001, 0.05])
def test_a_one_sided_chunk_moves_the_next_one_the_right_way(ratio, slack):
    """All flagged: farther out; all adversarial: nearer."""
    aims = []
    for passed in (0, FIRST):
        belief = Belief(ratio)
        belief.begin(slack, 0.4)
        aims.append(belief.aim())
        belief.update(aims[0], passed, FIRST - passed)
        aims.append(belief.aim())
    out, near = aims[1] - aims[0], aims[3] - aims[2]
    if ratio in (1, 2):  # at the boundary itself, or so, no answer says much of the slope
        assert -slack < near <= 0 <= out < slack
    else:
        assert near < 0 < out


def test_a_new_point_widens_the_belief_and_keeps_its_mean():
    belief = certain(math.exp(LOG_SLOPES[36]))
    belief.begin(0.1, 0.4)
    weights = belief._weights.sum(1)
    assert weights.sum() == pytest.approx(1)
    assert belief.log_slope == pytest.approx(LOG_SLOPES[36], abs=1e-3)
    spread = math.sqrt(weights @ (LOG_SLOPES - belief.log_slope) ** 2)
    assert spread == pytest.approx(0.4, rel=0.01)
    assert np.allclose(belief._weights, weights[:, None] / len(PLACES))  # any place again
    assert belief._weights.min() > 0  # no slope is out of the question


def test_a_belief_is_never_nan():
    """After more one-sided answers than any run has, at shifts that are huge, and none."""
    for ratio in (1e-3, 1, 1e3, 1e5):
        for passed in (0, 1 << 20):
            belief = Belief(ratio)
            for slack in (0.0, 1e-12, 1.0, 1e12):
                belief.begin(slack, 0.4)
                for shift in (0.0, 1e9, -1e9, belief.aim()):
                    belief.update(shift, passed, (1 << 20) - passed)
                    assert math.isfinite(belief.aim())
                    assert all(math.isfinite(v) for v in belief.scores(shift))
                assert belief._weights.sum() == pytest.approx(1)


# -- estimates on a plane -------------------------------------------------------------------------


@dataclass(frozen=True)
class Plane:
    """A plane, and its point on a ray of known cosine with the normal."""

    problem: tb.Problem
    normal: torch.Tensor
    found: Found

    def label(self, point):
        return int((point - self.found.point).flatten() @ self.normal >= 0)


def plane(ratio=1.0, cosine=0.3, seed=0, shape=SHAPE, factor=1.0):
    source = torch.full(shape, 0.5, dtype=torch.float64)
    normal, side = testing._unit(3, shape, factor), testing._unit(4, shape)
    side = side - (side @ normal) * normal
    side = side / torch.linalg.vector_norm(side)
    ray = cosine * normal + math.sqrt(1 - cosine**2) * side
    point = source + (0.5 * ray).view(shape)
    problem = tb.Problem(source, 0, tb.Prices(ratio, 1), seed=seed)
    return Plane(problem, normal, Found(point, 0.5))


def estimated(one, part, queries, t=1):
    done = drive(part.begin(one.problem)(t, one.found, queries), one.problem, one.label)
    return done, one.problem.notes


ANGLES = [(0.0045, 0.03), (0.0045, 0.9), (0.05, 0.3)]
"""Radii of samples, and cosines of the ray with the normal: nothing of them is told."""


@pytest.mark.parametrize("ratio", [10, 100])
@pytest.mark.parametrize(("delta", "cosine"), ANGLES)
def test_the_share_of_low_cost_answers_is_near_its_target(ratio, delta, cosine):
    """n is 1300 or more, so 5 standard errors are 0.046 and 0.021 or less, and 0.03 is left for the
    first answers, which are asked before anything is known, and for aims a quarter of z apart.
    Without an overshoot the share would be off by 0.37 and 0.48, with twice the right one by 0.11
    at c* = 10, which is seen with a probability of .99 or more."""
    one = plane(ratio, cosine)
    done, notes = estimated(one, Calibrated(delta=delta), {10: 650, 100: 120}[ratio])
    target, n = best(ratio).share, notes["estimate_queries"]
    assert n == len(done.labels) >= 1300
    assert notes["planned_share"] == target
    assert notes["share"] == np.mean(done.labels)
    assert abs(notes["share"] - target) < 0.03 + 5 * math.sqrt(target * (1 - target) / n)
    slope = cosine * math.sqrt(768)
    assert math.log(notes["slope"]) == pytest.approx(math.log(slope), abs=0.3)


@pytest.mark.parametrize(("delta", "cosine"), ANGLES)
def test_at_c2_an_estimate_may_stay_at_the_boundary_and_loses_a_twentieth_by_it(delta, cosine):
    """At c* = 2 the best share is 0.648. While the slope is not known the boundary itself is the
    best place, and answers there do not tell the slope: so the share is between a half and that
    (n = 1600: 5 standard errors are 0.062). The rate there is 0.95 of the best."""
    one = plane(2, cosine)
    _, notes = estimated(one, Calibrated(delta=delta), 1600)
    assert 0.5 - 0.062 < notes["share"] < 0.648 + 0.062
    at_zero = best(1).rate / 1.5
    assert 0.94 < at_zero / best(2).rate < 1


@pytest.mark.parametrize("subspace", [Full(), Dct(4)], ids=str)
@pytest.mark.parametrize("ratio", [1, 10, 100])
def test_an_estimate_points_where_the_theorem_says(ratio, subspace):
    """The expected cosine for its number of queries at the best overshoot, over 8 seeds; that of
    one estimate varies by 0.03 or less, their mean by 0.011: 0.06 is 5 of that. Half the queries
    would be 0.08 or more below."""
    d, found, wanted = subspace.dimension(SHAPE), [], []
    queries = {1: 400, 10: 250, 100: 90}[ratio] * (1 if d == 768 else 0.15)
    factor = 1 if d == 768 else 4
    for seed in range(8):
        one = plane(ratio, 0.3, seed, factor=factor)
        done, notes = estimated(one, Calibrated(subspace=subspace), int(queries))
        found.append(float(done.returned.flatten() @ one.normal))
        x = theory.optimal_overshoot(ratio, d)
        wanted.append(theory.expected_cosine(x, d, notes["estimate_queries"]))
    assert 0.4 < np.mean(wanted) < 0.75
    assert np.mean(found) == pytest.approx(np.mean(wanted), abs=0.06)


@pytest.mark.parametrize("ratio", [0.1, 1, 2, 10, 100])
@pytest.mark.parametrize("queries", [5, 30])
def test_what_an_estimate_costs(ratio, queries):
    """What AGREST's would, n' (c* + 1) / 2, and no more beyond than its last chunk."""
    given = queries * (ratio + 1) / 2
    for cosine in (0.03, 0.8):
        one = plane(ratio, cosine)
        done, notes = estimated(one, Calibrated(), queries)
        flagged = done.flagged
        cost = flagged * ratio + len(done.labels) - flagged
        dearest = max(1.0, ratio)
        assert cost >= given
        assert cost <= given + max(done.offered[-1], FIRST) * dearest
        assert max(done.offered) <= 128
        assert done.offered[0] == FIRST
        assert sum(done.offered) == notes["estimate_queries"]


def test_chunks_grow_as_much_as_was_asked_before_and_the_noise_is_the_same_for_all():
    """8, 8, 16, 32, ... up to `chunk`, whatever it is: and row k of the noise is asked as row k."""
    asked = {}
    for chunk in (5, 16, 64, 128):
        one = plane()
        done, _ = estimated(one, Calibrated(chunk=chunk), 200)
        wanted, total = [], 0
        while total < 200:
            rows = min(chunk, 200 - total, max(FIRST, total))
            wanted, total = [*wanted, max(rows, min(2, chunk))], total + rows
        assert done.offered == wanted
        ray = (one.found.point - one.problem.source).flatten()
        ray = ray / torch.linalg.vector_norm(ray)
        moved = (torch.stack(done.points) - one.found.point).flatten(1)
        asked[chunk] = (moved - torch.outer(moved @ ray, ray))[:200]  # the shift is along the ray
    assert all(torch.allclose(rows, asked[128], atol=1e-12) for rows in asked.values())


def test_folded_chunks_count_the_same_if_the_belief_does_not_change():
    """More chunks than are kept apart, against the sum by hand."""
    one, belief = plane(), certain(math.exp(LOG_SLOPES[30]), ratio=10)
    total, wanted, told = _Scored(one.problem.source), torch.zeros(768, dtype=torch.float64), 0.0
    rows, draw = one.problem.noise("test", 0, 300), np.random.default_rng(0)
    for k in range(3 * KEPT):
        moved, shift = rows[10 * k : 10 * k + 10], 0.05 * (k - 10)
        adversarial = draw.random(10) < 0.7
        total.add(shift, moved.clone(), adversarial, belief)
        scores = belief.scores(shift)
        weights = torch.tensor(np.where(adversarial, scores.passed, -scores.failed))
        wanted += weights @ moved.flatten(1)
        told += 10 * scores.information
        assert len(total._chunks) == min(k + 1, KEPT)
        assert total.told(belief) == pytest.approx(told)
    found = total.direction(belief).flatten()
    assert torch.allclose(found, wanted / torch.linalg.vector_norm(wanted), atol=1e-12)
    assert total.asked == 30 * KEPT


def test_how_many_chunks_are_kept_hardly_matters(monkeypatch):
    """Those that are folded were weighed by an earlier belief, which by then was good."""
    one, found = plane(10), []
    for kept in (1, KEPT, 1000):
        monkeypatch.setattr(calibrated, "KEPT", kept)
        found.append(estimated(one, Calibrated(chunk=32), 300)[0].returned.flatten())
    assert float(found[1] @ found[2]) > 0.999
    assert float(found[0] @ found[2]) > 0.98


@pytest.mark.parametrize("information", [3.0, 40.0, 400.0])
@pytest.mark.parametrize("ratio", [0.1, 1, 100])
def test_a_sampler_asks_until_it_knows_enough(ratio, information):
    one = plane(ratio)
    sampler = Sampler(one.problem, ratio, 128)
    drawing = Full().begin(one.problem)
    asking = sampler.estimate(1, one.found, drawing, 0.02, 1e-5, information)
    done = drive(asking, one.problem, one.label)
    made = done.returned
    assert made.information >= information * (1 - 1e-9)
    assert made.information <= 1.3 * information + FIRST * 2 / math.pi
    spent = done.flagged * ratio + len(done.labels) - done.flagged
    assert spent * best(ratio).rate <= 1.3 * information + 4 * FIRST * ratio  # little is wasted


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 1, 2), (3, 4, 4)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("ratio", [0.05, 1, 100])
@pytest.mark.parametrize("answer", [0, 1, None])
def test_what_comes_out_is_a_unit_vector_whatever_the_answers(ratio, answer, dtype, shape):
    """All alike, or drawn by lot; None and NaN never."""
    source = torch.full(shape, 0.5, dtype=dtype)
    problem, draw = tb.Problem(source, 0, tb.Prices(ratio, 1)), np.random.default_rng(1)
    estimate = replace(Calibrated(), chunk=16).begin(problem)
    for t, away in enumerate((0.4, 1e-6, 0.1), 1):
        point = source + away
        found = Found(point, away * math.sqrt(source.numel()))

        def label(_):
            return int(draw.integers(2)) if answer is None else answer

        done = drive(estimate(t, found, 4), problem, label)
        assert float(torch.linalg.vector_norm(done.returned)) == pytest.approx(1, rel=1e-5)
        assert all(math.isfinite(value) for value in problem.notes.values())
        assert len(done.labels) <= 16 + 2 * (ratio + 1) / min(ratio, 1)


def test_clipped_displacements_are_what_counts():
    """On a black image nothing moves towards darker: all flagged is away from brighter."""
    source = torch.zeros((1, 8, 8), dtype=torch.float64)
    problem = tb.Problem(source, 0)
    point = source + 1e-6
    asking = Calibrated(delta=0.1).begin(problem)(1, Found(point, 8e-6), 20)
    done = drive(asking, problem, lambda point: 0)
    assert done.returned.max() <= 1e-4
