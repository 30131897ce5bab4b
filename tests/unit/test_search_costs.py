"""What searches cost: published tables, brute force, and Algorithm 1 simulated."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from tollbox.errors import InputError
from tollbox.theory import search_costs


@pytest.mark.parametrize(
    ("ratio", "binary", "asymmetric"), [(2, 21.8, 20.8), (100, 747, 343), (1000, 7408, 2735)]
)
def test_search_costs_of_the_notes(ratio, binary, asymmetric):
    assert search_costs.expected_search_cost(20_000, ratio, 1) == pytest.approx(binary, rel=2e-3)
    assert search_costs.expected_search_cost(20_000, ratio) == pytest.approx(asymmetric, rel=2e-3)


@pytest.mark.parametrize(
    ("ratio", "cost", "share"),
    [(2, 20.7, 0.382), (5, None, 0.245), (100, 310, 0.0334), (1000, 2097, 0.00524)],
)
def test_the_optimal_search_of_the_notes(ratio, cost, share):
    if cost is not None:
        found = search_costs.optimal_splits(20_000, float(ratio)).cost(20_000)
        assert found == pytest.approx(cost, rel=2e-3)
    assert search_costs.optimal_share(ratio) == pytest.approx(share, rel=2e-3)


@pytest.mark.parametrize("ratio", [1.0, 2.0, 3.7, 10.0, 0.2])
def test_the_optimal_search_against_brute_force(ratio):
    """Every split of every number of cells, by dynamic programming over all of them."""
    best = [0.0, 0.0]
    for m in range(2, 120):
        best.append(min(best[k] + k * ratio + best[m - k] + m - k for k in range(1, m)))
    found = search_costs.optimal_splits(119, ratio)
    assert found.total.tolist() == pytest.approx(best)
    for m in range(2, 120):
        k = int(found.first[m])
        assert best[k] + k * ratio + best[m - k] + m - k == pytest.approx(best[m])


def test_up_to_c_cells_line_search_is_optimal_and_as_equals_it():
    for ratio in (10.0, 100.0):
        for cells in (2, 5, int(ratio)):
            line = search_costs.expected_line_search_cost(cells, ratio)
            assert search_costs.optimal_splits(cells, ratio).cost(cells) == pytest.approx(line)
            assert search_costs.expected_search_cost(cells, ratio) == pytest.approx(line)


def test_the_optimal_share_is_mirrored_below_one():
    assert search_costs.optimal_share(1) == pytest.approx(0.5)
    for ratio in (2, 17, 1e3, 1e8):
        assert search_costs.optimal_share(1 / ratio) == pytest.approx(
            1 - search_costs.optimal_share(ratio)
        )


@pytest.mark.parametrize("ratio", [1e-6, 0.01, 0.5, 1.0, 1.5, 10.0, 1e3, 1e9])
def test_the_expected_cost_is_that_of_the_plain_recursion(ratio):
    for planned in {ratio, 1.0}:
        cost = [0.0, 0.0]
        for m in range(2, 300):
            k = min(math.ceil(m / (planned + 1)), m - 1)
            cost.append((k * (cost[k] + ratio) + (m - k) * (cost[m - k] + 1)) / m)
            found = search_costs.expected_search_cost(m, ratio, planned)
            assert found == pytest.approx(cost[m], rel=1e-12)
    assert search_costs.expected_search_cost(1, ratio) == 0


def algorithm_1(ratio, count, boundary):
    """What Algorithm 1 costs, line by line, where T(k tau) is adversarial up to each boundary."""
    low, high = np.zeros_like(boundary), np.full_like(boundary, count)
    cost = np.zeros(len(boundary))
    while len(open_ := np.flatnonzero(high - low > 1)):
        a, b = low[open_], high[open_]
        middle = a + np.ceil((b - a) / (ratio + 1)).astype(int)
        adversarial = middle <= boundary[open_]
        cost[open_] += np.where(adversarial, 1, ratio)
        low[open_], high[open_] = np.where(adversarial, middle, a), np.where(adversarial, b, middle)
    assert np.array_equal(low, boundary)
    return cost


@pytest.mark.parametrize("ratio", [1.0, 2.0, 5.0, 100.0, 1000.0])
def test_asymmetric_search_against_simulation(ratio):
    # n = 4000 boundaries, uniform among 10 000 cells. The mean cost is within 4.4 standard errors
    # (alpha = 1e-5); one that is a twelfth off is seen with a power of .999 (3.1 more).
    n, count = 4000, 10_000
    cost = algorithm_1(ratio, count, np.random.default_rng(3).integers(0, count, n))
    wanted = search_costs.expected_search_cost(count, ratio)
    error = cost.std() / math.sqrt(n)
    assert (4.4 + 3.1) * error < wanted / 12
    assert abs(cost.mean() - wanted) <= 4.4 * error + 0.01  # binary search hardly varies


@pytest.mark.parametrize("ratio", [1.0, 1.5, 2.0, 5.0, 100.0, 1000.0, 1e5])
def test_asymmetric_search_is_within_the_bound_of_its_theorem(ratio):
    """C(m) < 2 c* ceil(log_{c*+1} m); and never dearer than binary search by more than a rounding
    of the splits."""
    for m in [*range(2, 200), 999, 1000, 1001, 10_000, 20_000, 65_536, 1_000_000]:
        power = 1
        while (ratio + 1) ** power < m:
            power += 1
        cost = search_costs.expected_search_cost(m, ratio)
        assert cost < 2 * ratio * power
        assert search_costs.optimal_search_cost(m, ratio) <= cost * (1 + 1e-12)
        assert cost <= search_costs.expected_search_cost(m, ratio, 1.0) * 1.01


@pytest.mark.parametrize("ratio", [1e-5, 0.3, 1.0, 2.0, 2.5, 17.0, 1e3, 1e5, 1e9])
def test_the_optimal_cost_without_a_table(ratio):
    for m in (1, 2, 3, 4, 10, 999, 20_000):
        wanted = search_costs.optimal_splits(m, ratio).cost(m)
        assert search_costs.optimal_search_cost(m, ratio) == pytest.approx(wanted, rel=1e-11)


def test_the_optimal_cost_of_very_many_cells():
    """log(m) / -log(x) for m cells, x + x^c* = 1, up to a constant, which the difference lacks."""
    for ratio in (2.0, 100.0):
        x = 1 - search_costs.optimal_share(ratio)
        more, fewer = (search_costs.optimal_search_cost(10**n, ratio) for n in (40, 20))
        assert more - fewer == pytest.approx(20 * math.log(10) / -math.log(x), rel=1e-2)


@pytest.mark.parametrize("ratio", [1.0, 2.0, 1e3, 1e9, 1e15])
def test_the_optimal_share_solves_its_equation(ratio):
    q = search_costs.optimal_share(ratio)
    assert math.log(q) == pytest.approx(ratio * math.log1p(-q), rel=1e-11)
    with pytest.raises(InputError, match="expected a finite ratio above 0"):
        search_costs.optimal_share(-ratio)


# -- line search ----------------------------------------------------------------------------------


def test_the_step_of_a_line_search():
    for stages in range(1, 9):
        for width in [*range(1, 600), 998_001, 998_002, 2**20, 2**20 + 1, 3**12, 3**12 + 1]:
            b = 1
            while b**stages < width and stages > 1:
                b += 1
            wanted = 1 if stages == 1 else math.ceil(width / b)
            assert search_costs.line_step(width, stages) == wanted
    assert search_costs.line_step(10**18, 2) == 10**9  # exact where a float is not
    assert search_costs.line_step((10**9 + 1) ** 2, 2) == 10**9 + 1
    assert search_costs.line_step(100, 10**9) == 50
    with pytest.raises(InputError, match="stages is 0: expected 1 or more"):
        search_costs.line_step(10, 0)


def line_search(width, stages, boundary):
    """(low-cost, flagged) answers, where cells up to the boundary are adversarial."""
    low, high, passed, flagged = 0, width, 0, 0
    for left in range(stages, 0, -1):
        for k in range(low + (step := search_costs.line_step(high - low, left)), high, step):
            if k > boundary:
                high, flagged = k, flagged + 1
                break
            low, passed = k, passed + 1
    assert (low, high) == (boundary, boundary + 1)
    return passed, flagged


@pytest.mark.parametrize("stages", [1, 2, 3, 4, 7, 40])
def test_a_line_search_costs_what_the_closed_form_says(stages):
    """The boundary in each of the cells in turn."""
    for cells in [*range(1, 70), 100, 101, 1000]:
        answers = [line_search(cells, stages, boundary) for boundary in range(cells)]
        assert max(flagged for _, flagged in answers) <= stages
        passed, flagged = map(sum, zip(*answers, strict=True))
        for ratio in (0.5, 100.0):
            wanted = (passed + ratio * flagged) / cells
            assert search_costs.expected_line_search_cost(cells, ratio, stages) == pytest.approx(
                wanted
            )


def test_a_line_search_of_enough_stages_is_binary():
    for cells in (2, 3, 100, 1024, 10_000):
        found = search_costs.expected_line_search_cost(cells, 7.0, cells.bit_length())
        assert found == pytest.approx(search_costs.expected_search_cost(cells, 7.0, 1.0))


def test_costs_of_a_million_cells_take_about_a_second():
    begun = time.process_time()
    for stages in (1, 2, 3, 4):
        search_costs.expected_line_search_cost(1_000_000, 1000.0, stages)
    search_costs.expected_search_cost(1_000_000, 1000.0)
    search_costs.optimal_search_cost(1_000_000, 1000.0)
    assert time.process_time() - begun < 5  # for a busy machine; 0.1 s elsewhere
