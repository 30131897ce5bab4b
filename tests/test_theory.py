"""Closed forms against published tables, brute force and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from tollbox import theory
from tollbox.errors import InputError


@pytest.mark.parametrize("d", [2, 3, 10, 768, 9408, 150_528, 10_000_000])
def test_the_cap_probability_is_a_distribution(d):
    grid = np.linspace(-1, 1, 401)
    values = [theory.cap_probability(x, d) for x in grid]
    assert values[0] == pytest.approx(0, abs=1e-12)
    assert values[200] == 0.5
    assert values[-1] == 1
    assert np.all(np.diff(values) >= 0)
    for x in grid[::40]:
        assert theory.cap_complement(x, d) == pytest.approx(1 - theory.cap_probability(x, d))


@pytest.mark.parametrize("d", [2, 3, 7, 50])
def test_the_cap_probability_is_the_integral_of_the_lemma(d):
    def density(t):
        return (1 - t * t) ** ((d - 3) / 2)

    whole, _ = quad(density, -1, 1, points=[0])
    for x in (-0.6, 0.1, 0.5, 0.9):
        above, _ = quad(density, -x, 1, points=[0])
        assert theory.cap_probability(x, d) == pytest.approx(above / whole, rel=1e-5)


def test_in_high_dimension_the_cap_is_the_normal_tail():
    d = 10_000_000
    for s in (0.5, 2.0, 5.0):
        x = s / math.sqrt(d)
        assert theory.cap_complement(x, d) == pytest.approx(norm.sf(s), rel=1e-4)


@pytest.mark.parametrize(
    ("ratio", "s", "complement"),
    [
        (2, 0.375, 0.354),
        (5, 0.830, 0.203),
        (100, 1.975, 0.0241),
        (1000, 2.660, 0.00390),
        (1e4, 3.256, 5.65e-4),
        (1e5, 3.790, 7.54e-5),
    ],
)
def test_the_optimal_overshoot_of_the_notes(ratio, s, complement):
    for d in (10_000, 150_528):
        x = theory.optimal_overshoot(ratio, d)
        assert x * math.sqrt(d) == pytest.approx(s, abs=2e-3)
        assert theory.cap_complement(x, d) == pytest.approx(complement, rel=0.01)


@pytest.mark.parametrize("d", [2, 3, 16, 768, 10_000_000])
@pytest.mark.parametrize("ratio", [1.5, 10, 1e5, 1e8])
def test_the_optimal_overshoot_against_brute_force(d, ratio):
    grid = np.linspace(0, min(1 - 1e-9, 12 / math.sqrt(d)), 20_001)
    values = [theory.log_objective(x, d, ratio) for x in grid]
    best = theory.optimal_overshoot(ratio, d)
    assert theory.log_objective(best, d, ratio) >= max(values) - 1e-9


def test_below_one_everything_is_mirrored():
    assert theory.optimal_overshoot(1, 768) == 0
    assert theory.optimal_overshoot(0.01, 768) == -theory.optimal_overshoot(100, 768)
    # The objective itself agrees, up to the constant that a change of the unit of cost adds.
    for x in (-0.05, 0.0, 0.02):
        apart = theory.log_objective(x, 768, 0.01) - theory.log_objective(-x, 768, 100)
        assert apart == pytest.approx(math.log(100))


def test_the_number_of_queries_spends_the_expected_cost():
    x = theory.optimal_overshoot(100, 768)
    p = theory.cap_probability(x, 768)
    n = theory.optimal_queries(5000, 100, 768)
    assert n * (100 - 99 * p) == pytest.approx(5000)


def test_the_initial_cosine_without_the_dropped_factor():
    assert theory.initial_cosine(3) == pytest.approx(0.5)
    assert theory.initial_cosine(2) == pytest.approx(2 / math.pi)
    assert theory.initial_cosine(10_000_000) == pytest.approx(
        math.sqrt(2 / math.pi / 1e7), rel=1e-5
    )


def test_the_initial_cosine_against_simulation():
    # Mean of |cos| over n = 40 000 random directions in d = 50: standard error about 0.085 / 200 =
    # 4.3e-4. The bound of 4 standard errors is passed by chance alone with probability 6e-5; the
    # published value, half of the true one, would be 130 standard errors off.
    rng = np.random.default_rng(0)
    u = rng.standard_normal((40_000, 50))
    cosine = np.abs(u[:, 0]) / np.linalg.norm(u, axis=1)
    error = cosine.std() / math.sqrt(len(cosine))
    assert abs(cosine.mean() - theory.initial_cosine(50)) < 4 * error


def test_the_schedule_begins_at_the_initial_cosine_and_rises():
    first = theory.initial_cosine(768)
    values = [theory.scheduled_cosine(t, first, 0.02) for t in (1, 2, 10, 1000)]
    assert values[0] == pytest.approx(first)
    assert values == sorted(values)
    assert values[-1] < 1


@pytest.mark.parametrize(
    ("ratio", "binary", "asymmetric"), [(2, 21.8, 20.8), (100, 747, 343), (1000, 7408, 2735)]
)
def test_search_costs_of_the_notes(ratio, binary, asymmetric):
    assert theory.expected_search_cost(20_000, ratio, 1) == pytest.approx(binary, rel=2e-3)
    assert theory.expected_search_cost(20_000, ratio) == pytest.approx(asymmetric, rel=2e-3)


@pytest.mark.parametrize(
    ("ratio", "cost", "share"),
    [(2, 20.7, 0.382), (5, None, 0.245), (100, 310, 0.0334), (1000, 2097, 0.00524)],
)
def test_the_optimal_search_of_the_notes(ratio, cost, share):
    if cost is not None:
        found = theory.optimal_splits(20_000, float(ratio)).cost(20_000)
        assert found == pytest.approx(cost, rel=2e-3)
    assert theory.optimal_share(ratio) == pytest.approx(share, rel=2e-3)


@pytest.mark.parametrize("ratio", [1.0, 2.0, 3.7, 10.0, 0.2])
def test_the_optimal_search_against_brute_force(ratio):
    """Every split of every number of cells, by dynamic programming over all of them."""
    best = [0.0, 0.0]
    for m in range(2, 120):
        best.append(min(best[k] + k * ratio + best[m - k] + m - k for k in range(1, m)))
    found = theory.optimal_splits(119, ratio)
    assert found.total.tolist() == pytest.approx(best)
    for m in range(2, 120):
        k = int(found.first[m])
        assert best[k] + k * ratio + best[m - k] + m - k == pytest.approx(best[m])


def test_up_to_c_cells_line_search_is_optimal_and_as_equals_it():
    for ratio in (10.0, 100.0):
        for cells in (2, 5, int(ratio)):
            line = theory.expected_line_search_cost(cells, ratio)
            assert theory.optimal_splits(cells, ratio).cost(cells) == pytest.approx(line)
            assert theory.expected_search_cost(cells, ratio) == pytest.approx(line)


def test_the_optimal_share_is_mirrored_below_one():
    assert theory.optimal_share(1) == pytest.approx(0.5)
    for ratio in (2, 17, 1e3, 1e8):
        assert theory.optimal_share(1 / ratio) == pytest.approx(1 - theory.optimal_share(ratio))


@pytest.mark.parametrize(("d", "n", "s"), [(50, 200, 0.0), (300, 100, 1.0), (768, 400, 2.0)])
def test_the_expected_cosine_against_simulation(d, n, s):
    # 60 estimates each; the standard error of their mean cosine is below 0.006, the bound 0.03.
    # J itself, which takes the length across the normal for the whole, is off by 0.02 to 0.35.
    rng, x, cosines = np.random.default_rng(1), s / math.sqrt(d), []
    p = theory.cap_probability(x, d)
    for _ in range(60):
        u = rng.standard_normal((n, d))
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        weight = np.where(u[:, 0] >= -x, 1 - p, -p)
        g = weight @ u
        cosines.append(g[0] / np.linalg.norm(g))
    assert np.mean(cosines) == pytest.approx(theory.expected_cosine(x, d, n), abs=0.03)


def test_the_optimal_weight_is_the_share():
    x = theory.optimal_overshoot(100, 768)
    best = theory.objective(x, 768, 100)
    for beta in (0.5, 0.9, 0.999):
        assert theory.objective(x, 768, 100, beta) < best


def test_wrong_arguments():
    with pytest.raises(InputError, match="expected a ratio above 0"):
        theory.optimal_share(0)
    with pytest.raises(InputError, match="expected c"):
        theory.optimal_overshoot(-1, 10)
    with pytest.raises(InputError, match="d of 2 or more"):
        theory.optimal_overshoot(10, 1)
