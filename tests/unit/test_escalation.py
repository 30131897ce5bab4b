"""A price that grows with the flagged answers, beside a loop that adds it up one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tollbox as tb
from tollbox.core.ledger import Ledger
from tollbox.core.prices import Escalation

prices = st.sampled_from([0, 1, 2, 5, 50, 900])
later = st.dictionaries(st.integers(2, 40), prices, max_size=5)


@st.composite
def escalations(draw):
    steps = {1: draw(prices), **draw(later)}
    again = draw(st.one_of(st.none(), st.integers(max(steps) + 1, 60)))
    return steps, again


def one_by_one(steps: dict[int, int], again: int | None, n: int) -> int:
    """p(n), as the words say it."""
    while again is not None and n >= again:
        n -= again - 1
    return steps[max(first for first in steps if first <= n)]


@given(escalations())
def test_prices_and_sums_are_those_of_a_loop(given_steps):
    steps, again = given_steps
    growing = Escalation.of(steps, again)
    prices = [one_by_one(steps, again, n) for n in range(1, 200)]
    assert growing.price(np.arange(199)).tolist() == prices
    assert growing.total(np.arange(200)).tolist() == np.cumsum([0, *prices]).tolist()
    assert growing.total(7) == sum(prices[:7])
    assert growing.steps[0][1] == prices[0]


@given(escalations(), st.integers(0, 30), st.integers(0, 30), st.integers(1, 12))
def test_what_is_certain_to_be_affordable_is_the_worst_of_all_answers(told, flagged, others, rows):
    """All ways in which rows may be answered, against the closed form and the loose bound."""
    steps, again = told
    prices = tb.Prices.escalating(steps, again, other=3.0)
    growing = prices.escalation
    assert growing is not None

    def worst(n: int, left: int) -> float:
        """Return the highest cost of `left` answers after n flagged ones, plus the next price."""
        highest = max(3.0, one_by_one(steps, again, n + 1))
        if left == 0:
            return highest
        return max(
            3.0 + worst(n, left - 1), one_by_one(steps, again, n + 1) + worst(n + 1, left - 1)
        )

    rows = min(rows, 8)
    spent = others * 3.0 + float(growing.total(flagged))
    counts = np.array([others, flagged])
    assert prices.worst_before_last(counts, rows) == spent + worst(flagged, rows - 1)
    assert spent + prices.bound([others, flagged], rows) >= spent + worst(flagged, rows - 1)


def test_an_account_is_lost_with_every_third_flagged_answer():
    prices = tb.Prices.escalating({1: 1.0, 3: 50.0}, again=4)
    ledger = Ledger(prices, tb.Goal.leave({0}))
    costs = []
    for label in (0, 1, 0, 0, 0, 1, 0, 0):
        costs.append(ledger.highest_next)
        ledger.charge(np.array([label]), "search" if label else "estimate")
    assert costs == [1, 1, 1, 50, 1, 1, 1, 50]
    assert ledger.cost == 1 + 1 + 1 + 50 + 1 + 1 + 1 + 50
    assert (ledger.flagged, ledger.other) == (6, 2)
    assert ledger.by_phase == {"search": 2.0, "estimate": 104.0}
    assert str(prices) == "escalating (1 from 1, 50 from 3, again at 4; others 1)"
    assert prices.ratio == 1


@pytest.mark.parametrize(
    ("steps", "again", "sentence"),
    [
        ({}, None, "the steps of the price are {}: expected a mapping"),
        ([1.0], None, "the steps of the price are [1.0]: expected a mapping"),
        ({2: 1.0}, None, "the first price starts at flagged answer 2: expected 1"),
        ({1: 1.0, 0: 3.0}, None, "a price starts at flagged answer 0: expected a whole number"),
        ({1: 1.0, 2.5: 3.0}, None, "a price starts at flagged answer 2.5"),
        ({1: 1.0, "x": 3.0}, None, "a price starts at flagged answer 'x': expected a whole number"),
        ({1: -1.0}, None, "the price from flagged answer 1 on is -1.0: expected a finite number"),
        ({1: 1.0, 5: 3.0}, 5, "the prices start again at flagged answer 5: expected"),
        ({1: 0.0}, 9, "all prices are 0"),
    ],
)
def test_what_is_wrong_is_said(steps, again, sentence):
    with pytest.raises(tb.errors.InputError) as told:
        tb.Prices.escalating(steps, again, other=0.0)
    assert sentence in str(told.value)


@pytest.mark.parametrize(
    ("steps", "sentence"),
    [
        ((), r"^the steps of the price are \(\): expected pairs"),
        (((1, 1.0), 5), r"^the steps of the price are .*: expected pairs"),
        (((1, 1.0), (50, 3.0), (10, 2.0)), r"answers \[1, 50, 10\]: expected each once, in ascend"),
        (((1, 1.0), (1, 3.0)), r"answers \[1, 1\]: expected each once, in ascending order"),
    ],
)
def test_steps_are_pairs_in_order(steps, sentence):
    with pytest.raises(tb.errors.InputError, match=sentence):
        Escalation(steps)


def test_a_price_that_grows_is_not_one_per_class():
    with pytest.raises(tb.errors.InputError, match="prices per class and a growing price"):
        tb.Prices(classes={3: 2.0}, escalation=Escalation.of({1: 2.0}))
