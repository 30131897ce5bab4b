"""Comparisons beside their closed forms and ADBA beside a reading that asks one query at a time."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from driver import drive
from scipy.integrate import quad
from scipy.optimize import minimize_scalar

import tollbox as tb
from tollbox import testing
from tollbox.attacks.adba import ADBA, halves
from tollbox.core.ask import Iterate
from tollbox.core.metric import Metric
from tollbox.parts.blocks import Quarters, Weakest, share_of
from tollbox.parts.comparisons import Bracket, CommonRadius, FollowInward
from tollbox.parts.searches import BinarySearch
from tollbox.theory.comparison_costs import (
    A,
    B,
    C,
    D,
    expected_comparison_cost,
    radius_of,
    share_to_query,
)

SHAPE = (1, 1, 2)
BLACK = torch.zeros(SHAPE, dtype=torch.float64)
WAYS = torch.eye(2, dtype=torch.float64).view(2, *SHAPE)
RUNS = 800


def beyond(*boundaries):
    """Adversarial beyond the boundary of either axis."""
    return lambda point: int(any(x >= b for x, b in zip(point.flatten(), boundaries, strict=True)))


def known(low=0.0, high=1.0):
    return Bracket(WAYS[0], low, high, Iterate(WAYS[0] * high, high))


def compare(part, boundaries, ratio=1.0, low=0.0):
    problem = tb.attack.Problem(BLACK, 0, prices=tb.Prices(ratio, 1))
    return drive(part(problem, known(low), WAYS[1]), problem, beyond(*boundaries))


@pytest.mark.parametrize("ratio", [0.1, 1, 2, 100, 1e4])
def test_the_best_share_is_where_the_expected_cost_is_least(ratio):
    found = minimize_scalar(
        lambda p: expected_comparison_cost(ratio, p), bounds=(1e-6, 1 - 1e-6), method="bounded"
    )
    assert share_to_query(ratio) == pytest.approx(found.x, abs=1e-4)
    assert expected_comparison_cost(ratio) == pytest.approx((1 + math.sqrt(ratio)) ** 2)
    assert expected_comparison_cost(ratio) == pytest.approx(found.fun)
    assert expected_comparison_cost(ratio, 0.5) == pytest.approx(2 * (1 + ratio))


def test_the_expected_cost_at_the_ends_of_prices():
    assert expected_comparison_cost(0) == 1
    assert expected_comparison_cost(math.inf) == math.inf


@pytest.mark.parametrize("measured", [False, True])
@pytest.mark.parametrize(("ratio", "priced"), [(1, False), (1, True), (25, False), (25, True)])
def test_the_smaller_distance_wins_at_the_expected_cost(ratio, priced, measured):
    """800 pairs of the assumed distribution: the mean is within 4 standard errors, which are
    3 to 4 % each. At c* = 25 the median costs 52, the best radius 36."""
    part = CommonRadius(tau=1e-12, rounds=200, measured=measured, priced=priced)
    drawn = np.random.default_rng(0).random((RUNS, 2))
    to_radius = radius_of if measured else lambda share, low, high, _: low + share * (high - low)
    costs, queries = [], []
    for pair in drawn:
        boundaries = [to_radius(share, 0.0, 1.0, 1.0) for share in pair]
        done = compare(part, boundaries, ratio)
        assert torch.equal(done.returned.direction, WAYS[int(np.argmin(boundaries))])
        assert done.returned.low < min(boundaries) <= done.returned.high < max(boundaries)
        assert done.returned.point.distance == pytest.approx(done.returned.high)
        assert done.labels[0] == 1
        costs.append(sum(1 if label else ratio for label in done.labels[1:]))
        queries.append(len(done.labels) - 1)
    wanted = expected_comparison_cost(ratio, None if priced else 0.5)
    error = float(np.std(costs)) / math.sqrt(RUNS)
    assert abs(float(np.mean(costs)) - wanted) < 4 * error < 0.2 * wanted
    if not priced:
        assert np.mean(queries) == pytest.approx(4, rel=0.15)


@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
@pytest.mark.parametrize("ends", [(0.0, 1.0, 1.0), (0.01, 0.03, 0.05)])
def test_the_measured_distribution_is_the_integral_of_its_density(share, ends):
    low, high, top = ends

    def mass(first, last):
        return quad(lambda r: A / ((1 - r / top) + D) ** B + C, first, last)[0]

    radius = radius_of(share, *ends)
    assert low < radius < high
    assert mass(low, radius) == pytest.approx(share * mass(low, high), rel=1e-6)


def test_equal_directions_and_the_bounds_of_a_comparison():
    done = compare(CommonRadius(rounds=5), (0.3, 0.3))
    assert torch.equal(done.returned.direction, WAYS[0])
    assert len(done.labels) == 1 + 2 * 5
    assert done.returned.low < 0.3 <= done.returned.high
    done = compare(CommonRadius(tau=0.01, measured=False), (0.3, 0.3))
    assert done.returned.high - done.returned.low <= 0.01
    assert len(done.labels) == 1 + 2 * 7
    done = compare(CommonRadius(priced=True), (0.3, 0.2), ratio=1e6)
    assert len(done.labels) == 1 + 2 * 17


def test_the_first_queries_of_a_comparison():
    for part in (CommonRadius(), FollowInward()):
        done = compare(part, (0.5, 1.5))
        assert done.labels == [0]
        assert done.returned.high == 1
    done = compare(CommonRadius(), (0.5, 0.3), low=0.4)
    assert done.labels == [1, 1]
    assert torch.equal(done.returned.direction, WAYS[1])
    assert (done.returned.low, done.returned.high) == (0, 0.4)
    assert done.returned.point.distance == pytest.approx(0.4)
    done = compare(CommonRadius(), (0.5, 0.9), low=0.4)
    assert done.labels[:2] == [1, 0]
    assert torch.equal(done.returned.direction, WAYS[0])
    done = compare(FollowInward(), (0.1, 0.7))
    assert torch.equal(done.returned.direction, WAYS[1])
    assert 0.7 <= done.returned.high < 0.7002


# -- blocks ---------------------------------------------------------------------------------------


def test_quarters_follow_the_largest_norm_down_to_single_pixels():
    image = torch.zeros(3, 8, 6)
    image[:, 5, 1], image[:, 0, 0] = 2.0, 1.0
    propose = Quarters(0.5, 1.5).begin(image)
    seen = []
    for _ in range(4):
        smaller, larger = propose(image)
        assert torch.equal((smaller < 1), (larger > 1))
        rows, columns = torch.where(smaller[0] < 1)
        seen.append((int(rows.min()), int(rows.max()), int(columns.min()), int(columns.max())))
        assert len(rows) == (seen[-1][1] - seen[-1][0] + 1) * (seen[-1][3] - seen[-1][2] + 1)
    # halves of 4 rows and 3 columns; the first half has the middle one. Then the other pixel's.
    assert seen == [(4, 7, 0, 2), (4, 5, 0, 1), (0, 3, 0, 2), (0, 1, 0, 1)]
    rounds = 4
    while propose(image):
        rounds += 1
    assert rounds < 2 * 48


def test_the_weakest_blocks_are_the_share_of_the_image_that_is_due():
    assert [share_of(k) for k in range(7)] == [1 / 2, 1 / 4, 3 / 4, 1 / 8, 3 / 8, 5 / 8, 7 / 8]
    image = torch.arange(1.0, 17).view(1, 4, 4).repeat_interleave(4, 1).repeat_interleave(4, 2)
    propose = Weakest(size=4).begin(-image)
    for share, blocks in ((1 / 2, 8), (1 / 4, 4), (3 / 4, 12)):
        [factors] = propose(torch.zeros(1, 16, 16))
        assert factors.unique().tolist() == pytest.approx([0.9, 1])
        assert torch.equal(factors < 1, image <= blocks), share
    # Blocks without a perturbation, as outside a mask, do not count: scaling them changes nothing.
    image[..., 8:] = 0
    [factors] = Weakest(size=4).begin(image)(image)
    assert (factors * image != image).sum() == 4 * 16
    [factors] = Weakest(size=5).begin(torch.rand(3, 7, 12))(image)
    assert factors.shape == (1, 7, 12)


# -- ADBA -----------------------------------------------------------------------------------------


def one_by_one(boundary, source, queries, rounds):
    """Algorithms 1 and 2 of Wang et al. (ADBA with midpoints): its points and its last radius."""
    x, asked = source.flatten().numpy(), []

    def adversarial(signs, radius):
        asked.append(np.clip(x + radius * signs, 0, 1))
        return int(boundary.labels(torch.from_numpy(asked[-1]).view(1, *source.shape))[0]) != 0

    def flipped(signs, block):
        made = signs.copy()
        made[slice(*block)] *= -1
        return made

    signs, best, level = np.ones(len(x)), 1.0, 1
    pairs = [((0, 0), (0, len(x)))]
    while len(asked) < queries:
        each = halves(len(x), level)
        for pair in [*pairs, *zip(each[::2], each[1::2], strict=True)]:
            both = [flipped(signs, block) for block in pair]
            left = [made for made in both if adversarial(made, best)]
            if not left:
                continue
            low, high, signs = 0.0, best, left[0]
            for _ in range(rounds if len(left) == 2 else 0):
                middle = (low + high) / 2
                inside = [made for made in left if adversarial(made, middle)]
                if not inside:
                    low = middle
                    continue
                high = middle
                signs = inside[0]
                if len(inside) == 1:
                    break
            best = high
        level, pairs = level + 1, []
    return asked[:queries]


@pytest.mark.parametrize("make", [testing.half_space, testing.corner, testing.cube])
def test_adba_asks_what_its_authors_algorithm_asks(make):
    boundary = make(0.3, (3, 4, 4), norm=Metric.LINF) if make is testing.half_space else make()
    problem = tb.attack.Problem(boundary.source, 0, norm=Metric.LINF)
    attack = ADBA(BinarySearch(), CommonRadius(rounds=8, measured=False, tau=1e-12))
    asking = attack(problem)
    done = drive(asking, problem, lambda point: int(boundary.labels(point[None])[0]))
    queries = min(200, len(done.points))
    wanted = one_by_one(boundary, boundary.source, queries, 8)
    for point, other in zip(done.points, wanted, strict=False):
        assert point.flatten().numpy() == pytest.approx(other, abs=1e-12)
    radii = [each.distance for each in problem.accepted]
    assert all(after <= before for before, after in pairwise(radii))
