"""Reading results: hand-computed cases, infinities included."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import tollbox as tb
from tollbox.core.ledger import Ledger
from tollbox.core.limits import Limits
from tollbox.core.result import Improvement, known_up_to, needed, reached_at
from tollbox.core.stop import Stop
from tollbox.errors import InputError
from tollbox.testing import half_space


def result(steps, stop=Stop.BUDGET, ratio=10, budget=100.0, cap=math.inf, index=0):
    """`steps`: (cost, flagged, queries, distance, cost before)."""
    return tb.Result(
        index=index,
        stop=stop,
        ledger=Ledger(tb.Prices(ratio, 1), tb.Goal.leave({0})),
        improvements=tuple(tb.attack.Improvement(*step) for step in steps),
        limits=tb.Limits(budget, cap),
    )


STEPS = [(11, 1, 2, 5.0, 10), (22, 2, 4, 4.0, 21), (61, 5, 13, 1.5, 60)]


@pytest.mark.parametrize(
    ("value", "distance"),
    [(19, math.inf), (20, 5), (30.5, 5), (31, 4), (69.9, 4), (70, 1.5), (100, 1.5)],
)
def test_a_row_counts_when_its_most_expensive_answer_was_affordable(value, distance):
    assert result(STEPS).distance_at(value) == distance


@pytest.mark.parametrize(
    ("by", "value", "distance"),
    [
        ("source", 1, math.inf),
        ("source", 2, 5),
        ("source", 5, 4),
        ("source", 6, 1.5),
        ("queries", 1, math.inf),
        ("queries", 2, 5),
        ("queries", 13, 1.5),
    ],
)
def test_by_flagged_and_by_all_queries(by, value, distance):
    assert result(STEPS).distance_at(value, by) == distance


def test_beyond_the_budget_nothing_is_known():
    with pytest.raises(InputError, match=r"cost 101 is above 100, where this run stopped .budget."):
        result(STEPS).distance_at(101)
    assert result(STEPS, stop=Stop.CONVERGED).distance_at(101) == 1.5
    with pytest.raises(InputError, match="queries 60 is above 50"):
        result(STEPS, stop=Stop.MAX_QUERIES, cap=50).distance_at(60, "queries")
    with pytest.raises(InputError, match="by is 'flags'"):
        result(STEPS).distance_at(1, "flags")


def test_a_run_that_was_cut_short_is_left_out_beyond_its_end():
    cut = result([(11, 1, 2, 9.0, 10)], stop=Stop.TIME_LIMIT)
    cut.ledger.charge(np.array([0, 0, 0, 1, 1]), "start")  # a cost of 32
    results = tb.Results([cut, result([(11, 1, 2, 2.0, 10)]), result([(11, 1, 2, 4.0, 10)])])
    assert results.median_at(30) == 4.0
    assert results.unknown_at(30) == 0
    assert results.median_at(40) == 3.0
    assert results.unknown_at(40) == 1
    with pytest.raises(
        InputError, match=r"cost 40 is above 32, where this run stopped .time_limit."
    ):
        cut.distance_at(40)
    failed = tb.Results([result([], stop=Stop.MODEL_ERROR)])
    assert np.isnan(failed.median_at(50))
    assert (failed.failed, failed.unknown_at(50)) == (1, 1)


def test_a_run_that_failed_says_so_first():
    def fails_here(problem):
        yield tb.attack.Ask(problem.source[None], phase="probe")
        raise IndexError("no such\nrow")

    class Unprintable(GeneratorExit):
        def __str__(self):
            raise RuntimeError

    def broken(images):
        raise Unprintable

    boundary = half_space(distance=0.3, shape=(3, 8, 8))
    model, images = boundary.model(), boundary.source[None].repeat(3, 1, 1, 1)
    results = tb.run(fails_here, model, images, [0] * 3, budget=100)
    place = r"\(test_results.py:\d+\)"
    failure = rf"the attack failed: IndexError: no such row {place}"
    said = rf"^{failure}; the run stopped at cost 2, below 100; fix the cause"
    with pytest.raises(InputError, match=said):
        results[0].distance_at(100)
    assert results[0].distance_at(2) == math.inf
    assert re.search(rf", 3 failed \(3 because {failure}\), 6 queries", repr(results))
    results = tb.run(fails_here, broken, images, [0] * 3, budget=100)
    raised = "the model raised Unprintable: a message that cannot be printed"
    said = rf"3 failed \(3 because the model failed: ModelFault: {raised} {place}"
    assert re.search(said, repr(results))


def test_medians_count_no_start_as_infinite_and_leave_out_the_misclassified():
    results = tb.Results(
        [
            result([(11, 1, 2, 2.0, 10)]),
            result([(11, 1, 2, 4.0, 10)]),
            result([], stop=Stop.NO_START),
            result([(0, 0, 0, 0.0, 0)], stop=Stop.ALREADY_MISCLASSIFIED),
        ]
    )
    assert results.misclassified == 1
    assert results.median_at(100) == 4.0
    assert results.median_at(19) == math.inf
    assert results.success_at(100) == pytest.approx(2 / 3)
    assert results.success_at(100, within=3) == pytest.approx(1 / 3)
    assert results[:2].median_at(100) == 3.0
    assert results[1:3].median_at(100) == math.inf
    assert np.isnan(results[3:].median_at(100))
    assert [r.stop for r in results][-1] is Stop.ALREADY_MISCLASSIFIED
    assert len(results) == 4


def test_an_improvement_includes_the_query_that_found_it():
    """A run that may ask just as many queries ends with it, and has spent just that."""

    def run(**limits):
        model, images = boundary.model(), boundary.source[None]
        options = {"prices": tb.Prices(10, 1), "limits": tb.Limits(**limits)}
        [result] = tb.run(tb.preset("a-cgba"), model, images, [0], **options)
        return result

    boundary = half_space(distance=0.3, shape=(3, 8, 8))
    for row in (found := run(budget=900).improvements):
        assert row.cost == 10 * row.source + (row.queries - row.source) == row.cost_before + 1
    assert len(found) > 3
    short = run(budget=1e9, max_queries=found[-1].queries)
    assert short.improvements == found
    assert (short.ledger.cost, short.ledger.queries) == (found[-1].cost, found[-1].queries)


def test_every_stop_has_advice():
    for stop in Stop:
        assert stop.advice.endswith(".")


@pytest.mark.parametrize("by", ["cost", "source", "queries"])
def test_many_values_at_once_are_read_as_one_by_one(by):
    one = result(STEPS, stop=Stop.CONVERGED)
    values = np.arange(0, 120, 0.5)
    distances = np.array([step[3] for step in STEPS])
    at_once = reached_at(needed(one.improvements, tb.Prices(10), by), distances, values)
    assert at_once.tolist() == [one.distance_at(value, by) for value in values]
    assert (
        reached_at(needed([], tb.Prices(10), by), np.array([]), values).tolist() == [math.inf] * 240
    )


@pytest.mark.parametrize("stop", Stop)
@pytest.mark.parametrize("by", ["cost", "source", "queries"])
def test_what_is_known_ends_where_the_run_was_ended(stop, by):
    known = known_up_to(stop, by, spent=7, limits=Limits(100, 50, 20))
    if stop.failed or stop in (Stop.TIME_LIMIT, Stop.INTERRUPTED):
        assert known == 7
    else:
        ended = {
            (Stop.BUDGET, "cost"): 100,
            (Stop.MAX_QUERIES, "queries"): 50,
            (Stop.MAX_FLAGGED, "source"): 20,
        }
        assert known == ended.get((stop, by), math.inf)


def test_results_are_short_in_print():
    model, images, labels, _ = tb.models.embedded()
    results = tb.run(tb.preset("a-hsja"), model, images[:2], labels[:2], budget=200)
    first = results[0]
    ledger = f"{first.ledger.queries} queries ({first.ledger.flagged} flagged), cost 200"
    assert repr(first.ledger) == f"<Ledger: {ledger}>"
    assert repr(first) == f"<Result 0: budget, l2 {first.distance:.4g}, {ledger}>"
    median = np.median([r.distance for r in results])
    assert repr(results) == (
        "<Results: 2 images, 0 misclassified anyway, 0 failed, "
        f"median l2 {median:.4g}, 400 queries>"
    )
    assert (
        repr(tb.Results([])) == "<Results: 0 images, 0 misclassified anyway, 0 failed, 0 queries>"
    )
    cell = tb.attack.Cell(
        tb.preset("a-hsja"), images[0], int(labels[0]), limits=tb.Limits(99), start=images[1]
    )
    assert "tensor" not in repr(cell)
    assert "tensor" not in repr(tb.Results([result(STEPS)]))


def test_an_improvement_counts_once_its_most_expensive_answer_is_affordable():
    found = [Improvement(4.0, 0, 4, 1.0, cost_before=3.0), Improvement(25.0, 2, 7, 0.5, 24.0)]
    assert needed(found, tb.Prices(10)).tolist() == [13, 34]
    assert needed(found, tb.Prices(10), alarm_price=5.0).tolist() == [18, 39]
