"""Prices and the ledger: by label, from counts, and exactly the same however rows are chunked."""

from __future__ import annotations

import math
import pickle
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tollbox as tb
from tollbox.core.ledger import Ledger
from tollbox.core.limits import Limits

prices = st.one_of(
    st.builds(tb.Prices, st.floats(0.01, 1e5), st.floats(0.01, 1e3)),
    st.builds(
        tb.Prices.per_class,
        st.dictionaries(st.integers(0, 5), st.floats(0, 1e4), min_size=1),
        default=st.floats(0.01, 100),
    ),
)
goals = st.frozensets(st.integers(0, 5), min_size=1, max_size=4).map(tb.Goal.leave)
labels = st.lists(st.integers(0, 5), max_size=40).map(lambda found: np.array(found, np.int64))


def test_an_answer_is_priced_by_its_flag_and_not_by_its_side():
    goal = tb.Goal(target=2).for_label(0)  # class 1 is neither flagged nor adversarial
    price, classes = tb.Prices(10), np.arange(3)
    assert np.array(price.values)[price.levels(classes, goal)].tolist() == [10, 1, 1]
    assert [price.values[price.level(label, goal)] for label in range(3)] == [10, 1, 1]


def test_the_ratio_is_what_attacks_plan_with():
    assert tb.Prices(1000, 1).ratio == 1000
    assert tb.Prices(5, 2).ratio == 2.5
    assert tb.Prices(0.25, 1).ratio == 0.25
    assert tb.Prices.flagged_only().ratio == 1e5
    assert tb.Prices(0, 1).ratio == 1e-5
    table = tb.Prices.per_class({3: 50.0}, default=2.0)
    assert table.for_source(3).ratio == 25
    assert table.for_source(4).ratio == 1
    assert tb.attack.Problem(__import__("torch").zeros(1, 2, 2), 3, table).prices.ratio == 25


def test_prices_can_be_sent_to_another_process():
    table = tb.Prices.per_class({3: 50.0}, default=2.0)
    assert pickle.loads(pickle.dumps(table)) == table


def test_a_price_goes_by_label():
    table = tb.Prices.per_class({3: 50.0, 1: 0.0}, default=2.0)
    assert [table.of(label, tb.Goal.leave({3})) for label in (3, 1, 0)] == [50, 0, 2]
    assert (table.highest, table.cheapest) == (50, 0)
    plain = tb.Prices(7, 2)
    assert [plain.of(label, tb.Goal.leave({4})) for label in (4, 0)] == [7, 2]
    assert (plain.highest, plain.cheapest) == (7, 2)
    assert (tb.Prices(1, 9).highest, tb.Prices(1, 9).cheapest) == (9, 1)


@given(prices, labels, goals)
def test_levels_are_the_prices_of_labels(price, found, goal):
    values = [price.values[level] for level in price.levels(found, goal)]
    assert values == [price.of(int(label), goal) for label in found]


@given(prices, labels, st.lists(st.integers(0, 40), max_size=5), goals)
def test_the_cost_does_not_depend_on_the_chunks(price, found, cuts, goal):
    whole, parts = Ledger(price, goal), Ledger(price, goal)
    whole.charge(found, "a")
    for chunk in np.split(found, sorted(min(cut, len(found)) for cut in cuts)):
        parts.charge(chunk, "a")
    assert whole.cost == parts.cost
    assert whole.counts == parts.counts
    assert whole.queries == len(found) == whole.flagged + whole.other
    exact = math.fsum(price.of(int(label), goal) for label in found)
    assert whole.cost == pytest.approx(exact, rel=1e-12)
    assert Ledger(price, goal, whole.counts).cost == whole.cost


@given(prices, labels, labels, goals)
def test_standing_is_the_account_before_each_row(price, before, found, goal):
    ledger = Ledger(price, goal)
    ledger.charge(before, "a")
    standing = ledger.account_before(found)
    for row in range(len(found)):
        assert standing.cost[row] == ledger.cost
        assert standing.flagged[row] == ledger.flagged
        assert standing.queries[row] == ledger.queries
        ledger.charge(found[row : row + 1], "b")


@given(prices, labels, st.floats(0, 1.2), goals, st.integers(1, 50), st.integers(1, 50))
def test_rows_are_affordable_while_the_most_expensive_answer_fits(
    price, found, share, goal, cap, most
):
    budget = share * price.highest * (len(found) + 1)
    ledger, by_hand = Ledger(price, goal), 0
    counted = Ledger(price, goal)
    for label in found:
        if counted.cost + price.highest > budget or counted.queries >= cap:
            break
        if counted.flagged >= most:
            break
        counted.charge(np.array([label]), "a")
        by_hand += 1
    assert ledger.affordable(found, Limits(budget, cap, most)) == by_hand


def test_by_phase_and_sides():
    ledger = Ledger(tb.Prices(10, 1), tb.Goal.leave({2}))
    ledger.charge(np.array([2, 2, 0]), "search")
    ledger.charge(np.array([1]), "estimate")
    assert ledger.by_phase == {"search": 21, "estimate": 1}
    assert (ledger.cost, ledger.queries, ledger.flagged, ledger.other) == (22, 4, 2, 2)
    assert ledger.counts == {"search": Counter({2: 2, 0: 1}), "estimate": Counter({1: 1})}


@pytest.mark.parametrize(
    ("prices", "ratio"),
    [
        (tb.Prices(), 1),
        (tb.Prices(source=3), 3),
        (tb.Prices(source=1, other=4), 0.25),
        (tb.Prices(source=0), 0),
        (tb.Prices.flagged_only(), math.inf),
        (tb.Prices.per_class({3: 8, 4: 1}, default=2).for_source(3), 4),
        (tb.Prices.per_class({3: 8, 4: 1}, default=2).for_source(5), 1),
        (tb.Prices.per_class({3: 8}, default=0).for_source(3), math.inf),
    ],
)
def test_the_ratio_as_it_is(prices: tb.Prices, ratio: float) -> None:
    assert prices.true_ratio == ratio
    if prices.classes is None:
        assert str(prices) == f"c*={ratio:g}"
