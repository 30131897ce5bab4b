"""TurnBelief: how much to ask and where to search, against brute force and a true plane."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.special import ndtr

from tollbox import testing
from tollbox.attacks.frugal import turn_belief as turns
from tollbox.attacks.frugal.turn_belief import (
    LARGEST_ANGLE,
    MAX_BINS,
    MIN_BINS,
    REFERENCE,
    BeliefPath,
    TurnBelief,
    bin_width,
    search_cost,
)
from tollbox.core.ask import Iterate
from tollbox.parts.paths import Circle
from tollbox.theory.search_costs import optimal_search_cost

OTHER = (-1.0, 0.5)
"""What is believed at first of a second prior."""
SHAPE = (3, 16, 16)
GREY = torch.full(SHAPE, 0.5, dtype=torch.float64)


def believing(q: float) -> TurnBelief:
    one = TurnBelief()
    one._mean[0] = math.log(q)
    return one


def unit(seed):
    return testing._unit(seed, SHAPE).view(SHAPE)


# -- how much to ask ------------------------------------------------------------------------------


@pytest.mark.parametrize("q", [1e-3, 1 / 64, 0.2])
@pytest.mark.parametrize("search", [0.5, 7, 120])
def test_what_is_wanted_has_the_largest_gain_per_cost(q, search):
    """log(1 + q I) / (I + C rate), by brute force over I."""
    table = np.geomspace(turns.MIN_INFORMATION, turns.MAX_INFORMATION, 200_001)
    gains = np.log1p(q * table) / (table + search)
    assert believing(q).best_information(search) == pytest.approx(table[gains.argmax()], rel=1e-3)


@pytest.mark.parametrize("k", [1e-9, 1e-3, 0.1, 1, 30, 1e6])
def test_the_best_turn_solves_its_equation(k):
    y = turns._best_y(k)
    assert y + k == pytest.approx((1 + y) * math.log1p(y), rel=1e-9)
    near = [y * 0.99, y, y * 1.01]
    gains = [math.log1p(v) / (v + k) for v in near]
    assert gains[1] == max(gains)


def test_the_dearer_the_search_the_more_is_asked_before_it():
    wanted = [
        believing(1 / 64).best_information(search) for search in (0, 1e-3, 1, 10, 100, 1e4, 1e9)
    ]
    assert wanted == sorted(wanted)
    assert wanted[0] == turns.MIN_INFORMATION
    assert wanted[-1] == turns.MAX_INFORMATION
    assert wanted[2] < 0.6 * wanted[3] < 0.6 * wanted[4]
    for q in (1e-12, 1e12):
        assert turns.MIN_INFORMATION <= believing(q).best_information(5.0) <= turns.MAX_INFORMATION


def test_search_costs_are_those_of_the_optimal_search():
    for count, ratio in ((2, 1), (40, 10), (256, 1000)):
        assert search_cost(count, ratio) == optimal_search_cost(count, ratio)


# -- the identity ---------------------------------------------------------------------------------


@pytest.mark.parametrize("angle", [0.3, 0.9, 1.3])
@pytest.mark.parametrize("b", [0.02, 0.3, 2.0])
def test_on_a_plane_tan_phi_is_b_over_a_and_the_distance_falls_by_cos_phi(b, angle):
    """u at an angle to the normal g; a direction whose part across u has <side, g> = b, so that a
    turn of phi leaves a cos^2 phi + b cos phi sin phi >= a up to tan phi = b / a."""
    g, other = unit(0), unit(1)
    other = other - (other * g).sum() * g
    other = other / torch.linalg.vector_norm(other)
    u = math.cos(angle) * g + math.sin(angle) * other
    across = math.sin(angle) * g - math.cos(angle) * other  # the part of g across u
    third = unit(2)
    third = third - (third * g).sum() * g - (third * other).sum() * other
    third = third / torch.linalg.vector_norm(third)
    share = min(b / math.sin(angle), 1.0)
    side = share * across + math.sqrt(1 - share**2) * third
    a, b = math.cos(angle), share * math.sin(angle)
    circle = Circle.through(GREY, GREY + 2 * u, side)
    last = math.atan2(b, a)

    def margin(phi):
        return float(((circle.at(phi).point() - GREY) * g).sum()) - 2 * a

    assert margin(last) == pytest.approx(0, abs=1e-9)
    assert margin(0.98 * last) > 0 > margin(1.02 * last)
    there = circle.at(last).point()
    assert float(torch.linalg.vector_norm(there - GREY)) == pytest.approx(2 * math.cos(last))


def test_the_filter_learns_q_and_its_variance_converges():
    """tan^2 phi = q I with I of all sizes. The variance is the fixed point of Kalman's recursion,
    v = (v + D^2) M^2 / (v + D^2 + M^2), whatever was told; exact turns are learned exactly."""
    one, q = TurnBelief(), 0.003
    for k in range(200):
        information = 10.0 * (1 + k % 7)
        one.widen()
        one.update(math.atan(math.sqrt(q * information)), information)
    mean, variance = one._log_q(0)
    assert math.exp(mean) == pytest.approx(q, rel=1e-6)
    drift, measured = turns.LOG_Q_DRIFT**2 + turns.OFFSET_DRIFT**2, turns.TURN_NOISE**2
    v = (math.sqrt(drift**2 + 4 * drift * measured) - drift) / 2
    assert variance == pytest.approx(v, rel=1e-6)
    middle, spread = one.predict(50.0)
    assert math.exp(2 * middle) == pytest.approx(q * 50, rel=1e-6)
    assert spread == pytest.approx(math.sqrt(v + measured) / 2, rel=1e-6)
    one.widen()
    assert one._log_q(0)[1] == pytest.approx(v + drift)


def test_a_turn_of_nothing_is_a_small_one():
    one = TurnBelief()
    one.update(0.0, 20.0)
    assert math.isfinite(one._log_q(0)[0])
    assert one._log_q(0)[0] < turns.FIRST_LOG_Q
    assert one.best_information(10.0) > TurnBelief().best_information(10.0)


# -- which prior ----------------------------------------------------------------------------------


def turned(one: TurnBelief, prior: int, q: float, information: float = 40.0) -> None:
    one.widen()
    one.update(math.atan(math.sqrt(q * information)), information, prior)


def choices(one: TurnBelief, q: tuple[float, ...], rounds: int) -> list[int]:
    """The priors chosen, if turns are as their q says."""
    chosen = []
    for _ in range(rounds):
        chosen.append(one.best_prior())
        turned(one, chosen[-1], q[chosen[-1]])
    return chosen


def test_the_filter_of_two_priors_is_bayes_by_hand():
    """Two turns of the first and one of the second, against the posterior of a normal with all
    three seen at once."""
    one, told = TurnBelief(REFERENCE, OTHER), [(0, 0.01), (0, 0.03), (1, 0.002)]
    prior = np.diag([turns.LOG_Q_SPREAD**2, 0.0, OTHER[1] ** 2])
    drift = np.diag([turns.LOG_Q_DRIFT**2, turns.OFFSET_DRIFT**2, turns.OFFSET_DRIFT**2])
    mean = np.array([turns.FIRST_LOG_Q, 0.0, OTHER[0]])
    rows = np.array([[1.0, 1, 0], [1, 1, 0], [1, 0, 1]])
    for kind, q in told:
        turned(one, kind, q)
    # what was seen at times 1, 2, 3, and the state at time 3: all jointly normal
    seen = np.array([math.log(q) for _, q in told])
    covariance = np.array(
        [
            [rows[i] @ (prior + min(i, j, key=int) * drift + drift) @ rows[j] for j in range(3)]
            for i in range(3)
        ]
    ) + turns.TURN_NOISE**2 * np.eye(3)
    with_state = np.array([(prior + (i + 1) * drift) @ rows[i] for i in range(3)])
    gain = np.linalg.solve(covariance, with_state).T
    assert one._mean == pytest.approx(mean + gain @ (seen - rows @ mean))
    assert one._covariance == pytest.approx(prior + 3 * drift - gain @ with_state)


def test_the_first_prior_is_used_while_it_is_better_and_the_other_tried_now_and_then():
    chosen = choices(TurnBelief(REFERENCE, OTHER), (0.01, 0.002), 400)
    assert chosen[0] == 0
    assert 1 in chosen
    assert np.mean(chosen[100:]) < 0.1


def test_a_prior_that_is_better_is_found_and_used():
    """While the first one's turns stay as they are, only the growing spread asks for a trial."""
    chosen = choices(TurnBelief(REFERENCE, OTHER), (0.002, 0.01), 400)
    assert chosen[0] == 0
    assert chosen.index(1) < 100
    assert np.mean(chosen[150:]) > 0.9


def test_a_prior_that_is_exhausted_is_left():
    """Turns of the first prior become nothing: the other, seldom tried until then, takes over."""
    one = TurnBelief(REFERENCE, OTHER)
    choices(one, (0.01, 0.002), 60)
    after = choices(one, (1e-5, 0.002), 40)
    assert after[0] == 0
    assert np.mean(after[10:]) > 0.8


@pytest.mark.parametrize(("best", "within"), [(0, 12), (1, 12), (2, 100)])
def test_of_three_the_best_is_found_the_sooner_the_likelier_it_was(best, within):
    """Of which nothing is known but that two may be anything, and the third is seldom better."""
    true = [0.0015, 0.0015, 0.0005]
    true[best] = 0.006
    one = TurnBelief(REFERENCE, (0.0, 1.0), OTHER)
    chosen = choices(one, tuple(true), 200)
    assert chosen[0] == 1  # of which most is to be hoped
    assert np.mean([each == best for each in chosen[within:]]) > 0.7


def test_what_is_hoped_of_a_way_is_its_gain_a_spread_above_the_mean_for_its_cost():
    """log(1 + q I) is twice what log r falls by (the head of turn_belief.py)."""
    one = TurnBelief()
    log_q = turns.FIRST_LOG_Q + turns.LOG_Q_SPREAD
    hoped = one.optimistic_gain(10.0, 4.0)
    assert hoped == pytest.approx(math.log(1 + 10 * math.exp(log_q)) / 4)
    angle = math.atan(math.sqrt(10 * math.exp(log_q)))
    assert hoped == pytest.approx(-2 * math.log(math.cos(angle)) / 4)


def test_one_prior_is_always_chosen():
    assert set(choices(TurnBelief(), (1e-6,), 20)) == {0}


# -- where to search ------------------------------------------------------------------------------


def likely(middle=-1.6, spread=0.5, tail=0.1):
    start = Iterate(GREY + 0.3 * unit(0), 0.3)
    return BeliefPath(Circle.through(GREY, start.point, unit(1)), start, middle, spread, tail)


CASES = [(m, s, t) for m in (-7, -1.6, 0, 2) for s in (0.3, 0.9) for t in (0, 0.1, 1)]


@pytest.mark.parametrize(("middle", "spread", "tail"), CASES)
def test_bins_have_equal_belief(middle, spread, tail):
    """By the belief itself: a lognormal of tan phi and a share of a uniform angle, up to 1.5. (To
    0.04 near the end, where a step of the table of angles is 0.036 wide.)"""
    path = likely(middle, spread, tail)

    def belief(phi):
        return (1 - tail) * ndtr(
            (math.log(math.tan(phi)) - middle) / spread
        ) + tail * phi / LARGEST_ANGLE

    for k in range(1, 8):
        found = path.angle(k / 8)
        assert belief(found) / belief(LARGEST_ANGLE) == pytest.approx(
            k / 8, abs=0.04 if middle == 2 else 0.003
        )


@pytest.mark.parametrize(("middle", "spread", "tail"), CASES)
def test_angles_rise_from_nothing_to_the_largest(middle, spread, tail):
    path = likely(middle, spread, tail)
    angles = [path.angle(k / 200) for k in range(201)]
    assert angles[0] == 0
    assert angles[-1] == pytest.approx(LARGEST_ANGLE)
    assert all(b > a for a, b in pairwise(angles))


def test_with_all_of_the_belief_spread_cells_are_equal_angles():
    path = likely(tail=1)
    for theta in (0, 0.1, 0.5, 0.99, 1):
        assert path.angle(theta) == pytest.approx(theta * LARGEST_ANGLE, abs=1e-9)
    assert path.count_bins(LARGEST_ANGLE / 99.9) == 100


def test_a_point_of_the_path_lies_at_its_angle():
    path = likely()
    assert torch.allclose(path(0), path.start.point, atol=1e-15)
    u = path.start.point - GREY
    for theta in (0.2, 0.7):
        away = path(theta) - GREY
        cosine = float((away * u).sum()) / 0.3 / float(torch.linalg.vector_norm(away))
        assert math.acos(cosine) == pytest.approx(path.angle(theta), abs=1e-7)
        assert float(torch.linalg.vector_norm(away)) == pytest.approx(0.3 * cosine)


@pytest.mark.parametrize(("middle", "spread", "tail"), CASES)
def test_the_likeliest_cells_are_as_fine_as_is_asked_for(middle, spread, tail):
    """Where tan phi is at its middle a cell is `fine` wide, unless that takes too few or too many
    cells. (Twice that at most: a cell is no point, and the belief ends at 1.5.)"""
    path, phi = likely(middle, spread, tail), math.atan(math.exp(middle))
    for fine in (0.2, 0.03, 1e-3, 1e-9):
        count = path.count_bins(fine)
        assert MIN_BINS <= count <= MAX_BINS
        edges = [path.angle(k / count) for k in range(count + 1)]
        here = max(k for k in range(count) if k == 0 or edges[k] <= phi)
        wide = edges[here + 1] - edges[here]
        if MIN_BINS < count < MAX_BINS and phi < 1.4:
            assert wide < 2 * fine
            assert wide > 0.4 * fine


def test_fineness_is_half_of_what_the_next_samples_spread():
    """The margin falls by r b per radian, b = sqrt(I) |g|_v, and samples spread it by delta |g|_v:
    over one cell of FINE delta / (r sqrt I) by FINE of that."""
    for r, delta, information in ((1, 0.1, 25), (40, 0.5, 400), (1e-6, 1e-3, 1)):
        cell = bin_width(r, delta, information)
        assert cell * r * math.sqrt(information) / delta == pytest.approx(turns.BIN_SHARE)
