"""Settling: the fast path for a few rows gives what the general one gives, to the bit."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from hypothesis import assume, event, given
from hypothesis import strategies as st

import tollbox as tb
from tollbox.core.ledger import Ledger
from tollbox.core.limits import Limits
from tollbox.core.problem import Problem
from tollbox.core.result import Improvement
from tollbox.engine.pending import Pending
from tollbox.engine.settling import FEW_ROWS, Account, settle, settle_few

growing_steps = st.dictionaries(
    st.integers(2, 6), st.sampled_from([0.0, 0.25, 1.0, 3.0, 20.0]), max_size=3
).flatmap(lambda later: st.sampled_from([0.5, 1.0, 2.0]).map(lambda first: {1: first, **later}))
"""Prices from a flagged answer on; of halves and quarters, which add up without rounding."""

prices = st.one_of(
    st.builds(
        tb.Prices,
        source=st.sampled_from([0.1, 1.0, 2.0, 10.0]),
        other=st.sampled_from([1.0, 0.3]),
    ),
    st.just(tb.Prices.flagged_only()),
    st.builds(
        tb.Prices.per_class,
        st.dictionaries(st.integers(0, 3), st.sampled_from([0.1, 1.0, 7.0]), min_size=1),
        default=st.sampled_from([0.2, 1.0]),
    ),
    st.builds(
        tb.Prices.escalating,
        growing_steps,
        again=st.sampled_from([None, None, 7, 11]),
        other=st.sampled_from([0.5, 1.0, 4.0]),
    ),
)


@st.composite
def settlements(draw, most_rows=FEW_ROWS + 2):
    """An account with a past, and an ask of one run that is back."""
    price, label = draw(prices), draw(st.integers(0, 3))
    target = draw(st.sampled_from([None, None, (label + 1) % 4]))
    flagged = draw(st.sampled_from([None, None, {label}, {label, (label + 2) % 4}]))
    goal = tb.Goal(flagged, target)
    problem = Problem(torch.full((1, 2, 2), 0.5).double(), label, price, goal=goal)
    ledger = Ledger(price, problem.goal)
    ledger.charge(np.array(draw(st.lists(st.integers(0, 3), max_size=20)), np.int64), "past")
    rows = draw(st.integers(1, most_rows))
    highest = price.highest
    budget = ledger.cost + highest * draw(st.sampled_from([1, 1.5, 3, 8, 9, 11, 100]))
    max_queries = ledger.queries + draw(st.sampled_from([1, 3, 8, 100, math.inf]))
    max_flagged = ledger.flagged + draw(st.sampled_from([1, 3, 8, math.inf, math.inf]))
    account = Account(problem, ledger, Limits(budget, max_queries, max_flagged))
    if draw(st.booleans()):
        account.improvements = [Improvement(1.0, 0, 1, draw(st.sampled_from([0.5, 1.0, 2.0])), 0.0)]
        account.best = torch.zeros(1, 1, 2, 2).double()
    until = draw(
        st.sampled_from([None, None, tb.attack.Until.ADVERSARIAL, tb.attack.Until.NOT_ADVERSARIAL])
    )
    points = torch.arange(rows).double().view(-1, 1, 1, 1).expand(-1, 1, 2, 2) / rows
    pending = Pending(tb.attack.Ask(points, until=until, phase="now"), problem, ledger)
    pending.limit(account.limits, metered=False)
    labels = np.array(draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows)), np.int64)
    steps = st.sampled_from([0.25, 0.5, 0.75, 1.0, 1.5, math.nan])
    distances = np.array(draw(st.lists(steps, min_size=rows, max_size=rows)))
    if draw(st.booleans()):
        distances = np.nan_to_num(distances, nan=3.0)
    pending.send(0, rows)
    pending.take(0, labels, distances)
    assume(account.end is None)  # else nothing is asked
    return account, pending


def counts(ledger):
    return ledger.counts, ledger.cost, ledger.flagged, ledger.queries, ledger.levels.tolist()


def assert_same(one: Account, other: Account) -> None:
    assert counts(one.ledger) == counts(other.ledger)
    assert one.improvements == other.improvements
    assert (one.best is None) == (other.best is None)
    assert one.best is None or torch.equal(one.best, other.best)


@given(settlements())
def test_both_paths_give_the_same(scene):
    account, pending = scene
    before = copy.deepcopy(account)
    fast = copy.deepcopy(account)
    few = settle_few(pending, fast)
    answers, failure = settle(pending, account)
    event("few" if few is not None else "any")
    if few is None:
        assert_same(fast, before)  # it has done nothing
        return
    assert failure is None
    assert answers is not None
    assert_same(fast, account)
    assert few.labels.tolist() == answers.labels.tolist()
    assert few.adversarial.tolist() == answers.adversarial.tolist()
    assert few.distances.tolist() == answers.distances.tolist()
    assert few.prices.tolist() == answers.prices.tolist()
    assert (few.goal, few.tariff, few.parts) == (answers.goal, answers.tariff, answers.parts)


@given(settlements(most_rows=FEW_ROWS))
def test_few_rows_that_can_be_paid_for_take_the_fast_path(scene):
    account, pending = scene
    rows = pending.runs[0].known
    ledger = account.ledger
    account.cell_limits = Limits(
        ledger.bound(rows + 2), ledger.queries + rows, ledger.flagged + rows
    )
    finite = not np.isnan(pending.runs[0].distances[:rows]).any()
    assert (settle_few(pending, account) is not None) == finite


@given(settlements())
def test_nothing_is_charged_to_an_account_that_does_not_charge(scene):
    account, pending = scene
    account.charging = False
    before = counts(copy.deepcopy(account.ledger))
    assert settle_few(pending, account) is None
    settle(pending, account)
    assert counts(account.ledger) == before


def test_rows_farther_than_the_best_so_far_are_no_improvements():
    """In an ask of many rows, after a closer point of an earlier one."""
    source = torch.zeros(1, 2, 2)

    def attack(problem):
        for values in ([0.5], [0.9] * FEW_ROWS + [0.7, 0.3]):
            points = torch.tensor(values).view(-1, 1, 1, 1).expand(-1, 1, 2, 2)
            yield tb.attack.Ask(points, phase="step")
        return tb.Stop.CONVERGED

    def model(images):
        return (images.amax((1, 2, 3)) > 0).long()

    [result] = tb.run(attack, model, source[None], [0], budget=50)
    assert [row.distance for row in result.improvements] == pytest.approx([1.0, 0.6])
