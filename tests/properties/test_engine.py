"""The engine: errors of one cell, memory, time, interruption, streams, and what the model sees."""

from __future__ import annotations

import gc
import math
import re
import time
import weakref
from dataclasses import dataclass, replace

import pytest
import torch
from options import grouped

import tollbox as tb
from tollbox import testing
from tollbox.core.model import Model
from tollbox.core.stop import Stop
from tollbox.engine import sender as sender_module
from tollbox.engine.sender import Sender
from tollbox.errors import InputError

BOUNDARY = testing.half_space(distance=0.3, shape=(1, 4, 4))


def images(count):
    generator = torch.Generator().manual_seed(7)
    return 0.5 + 0.02 * torch.rand((count, 1, 4, 4), generator=generator, dtype=torch.float64)


def run(attack="hsja", count=4, predict=BOUNDARY.labels, **options):
    options = {"budget": 300, **options}
    net = tb.models.from_callable(predict, dtype=torch.float64)
    attack = tb.preset(attack) if isinstance(attack, str) else attack
    return tb.run(attack, net, images(count), [0] * count, **grouped(options))


def numbers(results):
    return [(r.stop, r.ledger.counts, r.distance) for r in results]


@dataclass(frozen=True)
class Odd:
    """Behaves on most images, and in its own way on the one whose content is `which`."""

    which: str
    odd: object

    def __call__(self, problem):
        if problem.content == self.which:
            return self.odd(problem)
        return self.even(problem)

    def even(self, problem):
        yield tb.attack.Ask(problem.source[None] + 0.2, phase="probe")
        return Stop.CONVERGED


def odd_one(odd):
    content = tb.attack.Problem(images(4)[2], 0).content
    results = run(Odd(content, odd))
    assert [r.stop for i, r in enumerate(results) if i != 2] == [Stop.CONVERGED] * 3
    return results[2]


def raises(problem):
    yield tb.attack.Ask(problem.source[None], phase="probe")
    raise ZeroDivisionError("by nought")


def raises_at_once(problem):
    raise ZeroDivisionError("by nought")
    yield


def asks_nan(problem):
    points = torch.stack([problem.source, problem.source * math.nan, problem.source])
    yield tb.attack.Ask(points, phase="probe")
    return Stop.CONVERGED


def asks_wrong_shape(problem):
    yield tb.attack.Ask(torch.zeros(2, 5), phase="probe")
    return Stop.CONVERGED


def asks_nothing(problem):
    yield tb.attack.Ask(problem.source[None][:0], phase="probe")
    return Stop.CONVERGED


def yields_tensor(problem):
    yield problem.source[None]
    return Stop.CONVERGED


def returns_none(problem):
    yield tb.attack.Ask(problem.source[None], phase="probe")


def gives_none(problem):
    return None


def gives_a_stop(problem):
    return Stop.CONVERGED


def accepts_a_wrong_shape(problem):
    yield tb.attack.Ask(problem.source[None], phase="probe")
    problem.accept(problem.source[0])
    yield tb.attack.Ask(problem.source[None], phase="probe")
    return Stop.CONVERGED


def accepts_a_wrong_shape_at_the_end(problem):
    yield tb.attack.Ask(problem.source[None], phase="probe")
    problem.accept(problem.source[0])
    return Stop.CONVERGED


def has_a_wrong_phase(problem):
    yield tb.attack.Ask(problem.source[None], phase=["probe"])
    return Stop.CONVERGED


def has_a_wrong_until(problem):
    yield tb.attack.Ask(problem.source[None], phase="probe", until=True)
    return Stop.CONVERGED


def asks_with_numpy(problem):
    yield tb.attack.Ask(problem.source[None].numpy(), phase="probe")
    return Stop.CONVERGED


def asks_for_too_much(problem):
    class Endless:
        def __len__(self):
            return 10**15

        def __getitem__(self, rows):
            return problem.source[None]

    yield tb.attack.Ask(Endless(), phase="probe")
    return Stop.CONVERGED


def calls_a_broken_row(problem):
    class Broken:
        def __len__(self):
            return 3

        def __getitem__(self, rows):
            raise IndexError("no such row")

    yield tb.attack.Ask(Broken(), phase="probe")
    return Stop.CONVERGED


@pytest.mark.parametrize(
    ("odd", "reason", "queries"),
    [
        (raises, "ZeroDivisionError: by nought (test_engine.py:", 2),
        (raises_at_once, "by nought", 1),
        (asks_nan, "not finite (probe)", 2),
        (asks_wrong_shape, "shape (2, 5), expected (2, 1, 4, 4)", 1),
        (asks_nothing, "no points", 1),
        (yields_tensor, "expected an Ask", 1),
        (returns_none, "returned None, expected a Stop", 2),
        (calls_a_broken_row, "IndexError: no such row", 1),
        (gives_none, "gave NoneType, expected a generator", 1),
        (gives_a_stop, "gave Stop, expected a generator", 1),
        (accepts_a_wrong_shape, "accepted Tensor, expected", 2),
        (accepts_a_wrong_shape_at_the_end, "accepted Tensor, expected", 2),
        (has_a_wrong_phase, "expected a word", 1),
        (has_a_wrong_until, "until is True: expected an Until", 1),
        (asks_with_numpy, "ndarray, expected a tensor", 1),
        (asks_for_too_much, "MemoryError", 1),
    ],
)
def test_an_attack_that_fails_ends_its_own_cell(odd, reason, queries):
    result = odd_one(odd)
    assert result.stop is Stop.ATTACK_ERROR
    assert reason in result.reason
    assert result.ledger.queries == queries


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            lambda x: torch.zeros(len(x), 10),
            r"shape \(\d+, 10\): expected \(\d+,\), a label each \(lo",
        ),
        (lambda x: torch.zeros(len(x)), "float32: expected integer labels"),
        (lambda x: torch.zeros(len(x) + 1).long(), r"expected \(\d+,\)"),
        (lambda x: 3, r"shape \(\)"),
    ],
)
def test_a_model_that_answers_wrongly_is_an_error_of_its_cells(answer, reason):
    results = run(predict=answer)
    assert {r.stop for r in results} == {Stop.MODEL_ERROR}
    assert results.failed == 4
    for result in results:
        assert result.ledger.queries == 0
        assert re.search(reason, result.reason)


def test_a_model_that_raises_on_one_image_ends_only_that_one():
    bad = images(4)[1]

    def brittle(batch):
        if (batch - bad).flatten(1).norm(dim=1).min() < 0.05:
            raise RuntimeError("a row I cannot take")
        return BOUNDARY.labels(batch)

    far = torch.cat([images(4)[:1] * 0.8, images(4)[1:2], images(4)[2:] * 0.8])
    net = tb.models.from_callable(brittle, dtype=torch.float64)
    results = tb.run(tb.preset("hsja"), net, far, [0] * 4, budget=100)
    assert results[1].stop is Stop.MODEL_ERROR
    assert "a row I cannot take" in results[1].reason
    assert all(r.stop is not Stop.MODEL_ERROR for r in (results[0], results[2], results[3]))


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("you can't allocate memory: x")],
)
def test_out_of_memory_goes_on_with_smaller_batches_and_says_so(error):
    shapes = []

    def small(batch):
        shapes.append(len(batch))
        if len(batch) > 5:
            raise error
        return BOUNDARY.labels(batch)

    expected = run(count=6, batch_size=32)
    results = run(count=6, batch_size=32, predict=small)
    assert numbers(results) == numbers(expected)
    assert not any(r.warnings for r in expected)
    for result in results:
        assert result.warnings[-1] == (
            "out of memory: the batch size was reduced from 8 to 4, for which exactness was not "
            "checked"
        )
    assert max(shapes[shapes.index(4) :]) == 4


def test_out_of_memory_at_one_row_is_a_model_error():
    def none_fits(batch):
        raise torch.OutOfMemoryError("too small a device")

    assert {r.stop for r in run(predict=none_fits)} == {Stop.MODEL_ERROR}


def test_an_attack_that_fails_when_it_is_closed_still_ends():
    def stubborn(problem):
        try:
            while True:
                yield tb.attack.Ask(problem.source[None], phase="probe")
        finally:
            raise ZeroDivisionError("on the way out")

    results = run(Odd(tb.attack.Problem(images(4)[2], 0).content, stubborn), budget=20)
    assert [r.stop for r in results] == [Stop.CONVERGED] * 2 + [Stop.BUDGET, Stop.CONVERGED]
    assert "on the way out" in results[2].reason


def test_a_row_that_cannot_be_made_does_not_shift_those_behind_it():
    """The first row of a run with `until` fails: the spare rows behind it do not count."""

    class FirstBroken:
        def __len__(self):
            return 9

        def __getitem__(self, rows):
            first, last, _ = rows.indices(9)
            if first == 0:
                raise IndexError("the first")
            return torch.ones(last - first, 1, 4, 4, dtype=torch.float64)

    def asks(problem):
        yield tb.attack.Ask(FirstBroken(), phase="probe", until=tb.attack.Until.ADVERSARIAL)
        return Stop.CONVERGED

    for size in (1, 64):
        net = tb.models.from_callable(BOUNDARY.labels, dtype=torch.float64)
        [result] = tb.run(
            asks, net, images(1), [0], budget=99, execution=tb.Execution(batch_size=size)
        )
        assert (result.stop, result.ledger.queries) == (Stop.ATTACK_ERROR, 1)
        assert "the first" in result.reason


def test_the_dtype_of_one_cell_does_not_change_what_another_is_sent():
    def asks(problem):
        wide = problem.source.double() if problem.label == 1 else problem.source
        yield tb.attack.Ask(wide[None] + 0.3 / 255, phase="probe")
        return Stop.CONVERGED

    seen = []

    def labels(batch):
        seen.append(batch.clone())
        return (batch.mean((1, 2, 3)) > 0.6).long()

    def sent(both):
        seen.clear()
        net = tb.models.from_callable(labels, quantize=8)
        pictures = torch.tensor([0.5 + 0.2 / 255, 0.7]).view(2, 1, 1, 1).expand(2, 1, 2, 2)
        tb.run(
            asks,
            net,
            pictures[: 1 + both],
            [0, 1][: 1 + both],
            budget=9,
            execution=tb.Execution(one_shape=True),
        )
        return seen[-1][0]

    assert torch.equal(sent(False), sent(True))


@pytest.mark.parametrize("size", [1, 4, 64])
def test_a_spare_row_that_fails_past_the_end_of_its_run_is_seen_by_nobody(size):
    """The first run ends at its first row; the model raises on a row behind that. The second run,
    in the same batch, is asked all the same."""

    def labels(batch):
        if (batch[:, 0, 0, 0] > 0.9).any():
            raise RuntimeError("too bright")
        return BOUNDARY.labels(batch)

    def asks(problem):
        points = problem.source.repeat(9, 1, 1, 1)
        points[3, 0, 0, 0] = 1
        first = tb.attack.Sequential(points, tb.attack.Until.NOT_ADVERSARIAL)
        second = tb.attack.Sequential(
            problem.source.repeat(3, 1, 1, 1), tb.attack.Until.ADVERSARIAL
        )
        answers = yield tb.attack.Ask(runs=[first, second], phase="probe")
        return Stop.CONVERGED if [len(r) for r in answers.runs] == [1, 3] else Stop.NO_START

    net = tb.models.from_callable(labels, dtype=torch.float64)
    layout = {"batch_size": size, "one_shape": True}
    [result] = tb.run(asks, net, images(1), [0], budget=99, execution=tb.Execution(**layout))
    assert (result.stop, result.ledger.queries) == (Stop.CONVERGED, 5)


@pytest.fixture
def waits(monkeypatch):
    """Seconds for which the sender would have waited."""
    seconds = []
    monkeypatch.setattr(sender_module.Sender, "_wait", lambda _, wait: seconds.append(wait))
    return seconds


@pytest.mark.parametrize("metered", [True, False])
def test_a_failed_call_is_repeated_and_only_the_answer_is_charged(waits, metered):
    def busy(batch):
        calls.append(len(batch))
        if len(calls) in (2, 3, 7):
            raise ConnectionError("HTTP 503")
        return BOUNDARY.labels(batch)

    calls, options = [], {"metered": metered, "batch_size": 8}
    found = run(predict=busy, retries=2, **options)
    wanted = run(**options)
    assert numbers(found) == numbers(wanted)
    assert waits == [1, 2, 1]
    assert calls[1:4] == [calls[1]] * 3


def test_failures_that_last_end_soon(waits):
    """After as many failures in a row as there are retries, nothing is waited for."""

    def down(batch):
        raise ConnectionError("HTTP 503")

    results = run(predict=down, metered=True, retries=7)
    assert {r.stop for r in results} == {Stop.MODEL_ERROR}
    assert waits == [1, 2, 4, 8, 16, 30, 30]
    waits.clear()
    results = run(predict=lambda batch: 3, retries=7)
    assert "expected" in results[0].reason
    assert waits == []  # a wrong answer would be wrong again

    def broken(batch):
        if (batch == images(3)[1]).flatten(1).all(1).any():
            raise ConnectionError("HTTP 500")
        return BOUNDARY.labels(batch)

    results = run(predict=broken, retries=2, batch_size=8)
    assert [r.stop is Stop.MODEL_ERROR for r in results].count(True) == 1
    assert waits == [1, 2]  # not again for each half of the batch
    with pytest.raises(InputError, match="retries is -1: expected"):
        tb.Execution(retries=-1)


def test_a_wait_for_the_next_call_ends_with_the_time_limit():
    def down(batch):
        raise ConnectionError("HTTP 503")

    began = time.monotonic()
    results = run(predict=down, retries=100, time_limit=0.2)
    assert {r.stop for r in results} == {Stop.TIME_LIMIT}
    assert time.monotonic() - began < 20


def test_a_metered_model_is_not_asked_for_what_lies_behind_a_failed_row():
    answered = []

    def labels(batch):
        if (batch[:, 0, 0, 0] > 0.9).any():
            raise RuntimeError("too bright")
        answered.append(len(batch))
        return BOUNDARY.labels(batch)

    def asks(problem):
        points = problem.source.repeat(10, 1, 1, 1)
        points[3, 0, 0, 0] = 1
        yield tb.attack.Ask(points, phase="probe")
        return Stop.CONVERGED

    net = tb.models.from_callable(labels, dtype=torch.float64)
    [result] = tb.run(asks, net, images(1), [0], budget=99, execution=tb.Execution(metered=True))
    assert (result.stop, result.ledger.queries) == (Stop.MODEL_ERROR, 4)
    assert sum(answered) == 4


def test_failed_batches_are_let_go_before_the_retry():
    """What a batch that ran out of memory had allocated must be free when the smaller one runs."""
    held = weakref.WeakSet()
    most = []

    def greedy(batch):
        most.append(len(held))
        activations = batch * 2
        held.add(activations)
        if len(batch) > 4:
            raise torch.OutOfMemoryError("full")
        return BOUNDARY.labels(batch)

    run(count=6, batch_size=64, predict=greedy)
    assert max(most) == 0


def test_a_misclassified_image_ends_after_the_clean_query():
    net = tb.models.from_callable(BOUNDARY.labels, dtype=torch.float64)
    results = tb.run(tb.preset("hsja"), net, images(3), [0, 1, 0], budget=200)
    assert results[1].stop is Stop.ALREADY_MISCLASSIFIED
    assert results[1].ledger.queries == 1
    assert results[1].reason == "the model answers 0"
    assert results.misclassified == 1
    assert math.isfinite(results.median_at(200))


def test_the_clean_query_is_free_on_request():
    paid, free = run(max_queries=1), run(max_queries=1, charge_clean=False)
    assert [r.ledger.by_phase for r in paid] == [{"clean": 1.0}] * 4
    assert [r.ledger.by_phase for r in free] == [{"start": 1.0}] * 4


def test_a_row_behind_the_end_of_the_budget_counts_for_nothing():
    """After twenty cheap answers the engine sends two rows; the first costs so much that the
    second, the nearest of all, is not affordable any more."""
    near = 0.5 + testing._unit(0, 16).view(1, 4, 4) * 0.3001

    @dataclass(frozen=True)
    class TwoRows:
        def __call__(self, problem):
            yield tb.attack.Ask(
                (problem.source + 2 * (near - 0.5)).expand(20, -1, -1, -1), phase="cheap"
            )
            yield tb.attack.Ask(torch.stack([problem.source, near]), phase="dear")
            return Stop.CONVERGED

    computed = []

    def labels(batch):
        computed.extend(batch)
        return BOUNDARY.labels(batch)

    net = tb.models.from_callable(labels, dtype=torch.float64)
    cell = tb.attack.Cell(
        TwoRows(), BOUNDARY.source, 0, tb.Prices(10, 1), limits=tb.Limits(35), charge_clean=False
    )
    [result] = tb.attack.Engine(net).run([cell])
    assert any(torch.equal(point, near) for point in computed)
    assert (result.stop, result.ledger.by_phase) == (Stop.BUDGET, {"cheap": 20, "dear": 10})
    assert result.distance > 0.5
    [result] = tb.attack.Engine(net).run([replace(cell, limits=tb.Limits(40))])
    assert (result.stop, result.ledger.cost) == (Stop.CONVERGED, 31)
    assert result.distance == pytest.approx(0.3001)


@pytest.mark.parametrize(
    "layout", [{"batch_size": 1}, {"batch_size": 2}, {"batch_size": 64}, {"metered": True}], ids=str
)
def test_a_row_that_could_not_be_paid_does_not_fail_the_cell(layout):
    """The same as above, but the model raises on the row that is not affordable any more."""
    white = torch.ones(1, 4, 4, dtype=torch.float64)
    bright = 0.5 + testing._unit(0, 16).view(1, 4, 4) * 0.4

    @dataclass(frozen=True)
    class TwoRows:
        def __call__(self, problem):
            yield tb.attack.Ask(bright.expand(20, -1, -1, -1), phase="cheap")
            yield tb.attack.Ask(torch.stack([problem.source, white]), phase="dear")
            return Stop.CONVERGED

    def labels(batch):
        if (batch.flatten(1) == 1).all(1).any():
            raise RuntimeError("white")
        return BOUNDARY.labels(batch)

    def ended(budget):
        net = tb.models.from_callable(labels, dtype=torch.float64)
        prices = tb.Prices(10, 1)
        cell = tb.attack.Cell(
            TwoRows(), BOUNDARY.source, 0, prices, tb.Limits(budget), charge_clean=False
        )
        [result] = tb.attack.Engine(net, tb.Execution(**layout)).run([cell])
        return result.stop, result.ledger.cost

    assert ended(35) == (Stop.BUDGET, 30)
    assert ended(40) == (Stop.MODEL_ERROR, 30)


def test_at_c1_asymmetric_search_makes_the_same_run_query_for_query():
    assert numbers(run("hsja")) == numbers(run("hsja+as"))


def test_an_infinite_price_counts_flagged_queries_only():
    results = run(prices=tb.Prices.flagged_only(), budget=20, max_queries=2000)
    for result in results:
        assert result.ledger.cost == result.ledger.flagged <= 20
        assert result.stop in (Stop.BUDGET, Stop.MAX_QUERIES)


def test_a_cap_larger_than_any_integer_type_is_no_cap():
    assert numbers(run(max_queries=10**20)) == numbers(run())


def test_the_time_limit_ends_all_with_what_they_reached():
    results = run(count=6, budget=1e9, time_limit=0.3, live=2)
    assert len(results) == 6
    assert {r.stop for r in results} == {Stop.TIME_LIMIT}
    assert results[0].distance < math.inf
    assert results[5].ledger.queries == 0  # it had not begun
    assert results[5].distance == math.inf


def test_stopping_ends_all_and_keeps_what_was_answered():
    net = tb.models.from_callable(BOUNDARY.labels, dtype=torch.float64)
    engine, seen = None, []

    def progress(now):
        seen.append(now)
        if now.queries > 200:
            engine.stop()

    engine = tb.attack.Engine(net, progress=progress)
    cells = [
        tb.attack.Cell(tb.preset("hsja"), image, 0, limits=tb.Limits(1e6)) for image in images(3)
    ]
    results = list(engine.run(cells))
    assert {r.stop for r in results} == {Stop.INTERRUPTED}
    assert sum(r.ledger.queries for r in results) == seen[-1].queries > 200


def test_an_endless_stream_ends_at_the_time_limit():
    def endless():
        while True:
            yield images(1)[0]

    net = tb.models.from_callable(BOUNDARY.labels, dtype=torch.float64)
    labels = iter(int, 1)  # noughts without end
    results = list(
        tb.stream(
            tb.preset("hsja"),
            net,
            endless(),
            labels,
            budget=1e9,
            execution=tb.Execution(live=3, time_limit=0.2),
        )
    )
    assert [r.stop for r in results] == [Stop.TIME_LIMIT] * 3


def test_a_stream_finishes_what_is_under_way_when_the_images_fail():
    def pictures():
        yield from images(3)
        raise OSError("disk gone")

    net = tb.models.from_callable(BOUNDARY.labels, dtype=torch.float64)
    stream = tb.stream(tb.preset("hsja"), net, pictures(), [0] * 9, budget=50)
    assert sorted(next(stream).index for _ in range(3)) == [0, 1, 2]
    with pytest.raises(OSError, match="disk gone"):
        next(stream)


def test_progress_adds_up():
    seen = []
    results = run(progress=seen.append)
    assert seen[-1].done == 4
    assert seen[-1].live == 0
    assert seen[-1].queries == sum(r.ledger.queries for r in results)
    assert seen[-1].rows >= seen[-1].queries
    assert sorted(r.index for now in seen for r in now.finished) == [0, 1, 2, 3]


@pytest.mark.slow
def test_a_stream_holds_no_image_and_no_result():
    alive = weakref.WeakSet()

    def pictures():
        for _ in range(40):
            image = images(1)[0].clone()
            alive.add(image)
            yield image

    net = tb.models.from_callable(BOUNDARY.labels, dtype=torch.float64)
    most = done = 0
    alive = weakref.WeakSet()
    for result in tb.stream(
        tb.preset("hsja"),
        net,
        pictures(),
        (0 for _ in range(40)),
        budget=60,
        execution=tb.Execution(live=4),
    ):
        done += 1
        alive.add(result)
        del result
        gc.collect()
        most = max(most, len(alive))
        assert len(alive) <= 4  # those that finished in the same batch
    assert done == 40
    assert most <= 12


def test_a_stream_finishes_what_is_under_way_before_it_raises():
    def pictures():
        yield from images(5)
        yield images(1)[0] + 5

    net = tb.models.from_callable(BOUNDARY.labels, dtype=torch.float64)
    stream = tb.stream(tb.preset("hsja"), net, pictures(), [0] * 6, budget=50)
    assert sorted(next(stream).index for _ in range(5)) == [0, 1, 2, 3, 4]
    with pytest.raises(InputError, match=r"image 5 has values from 5.* expected \[0,1\]"):
        next(stream)


def test_live_cells_are_bounded_by_the_memory_their_points_may_take():
    @dataclass(frozen=True)
    class Greedy:
        rows = 10**9

        def __call__(self, problem):
            yield tb.attack.Ask(problem.source[None], phase="probe")
            return Stop.CONVERGED

    most = []
    run(Greedy(), count=5, progress=lambda now: most.append(now.live))
    assert max(most) <= 1


@pytest.mark.slow
def test_twenty_images_at_any_batch_size_and_in_reverse_order():
    embedded = tb.models.embedded(dtype=torch.float64)
    pictures, labels = embedded.images[:20], embedded.labels[:20].tolist()
    options = {"prices": tb.Prices(10, 1), "budget": 600}

    def table(results):
        return [
            (r.stop, r.ledger.counts, r.distance, [s.distance for s in r.trace]) for r in results
        ]

    def go(size):
        return table(
            tb.run(
                tb.preset("a-hsja"),
                embedded.model,
                pictures,
                labels,
                execution=tb.Execution(batch_size=size),
                **options,
            )
        )

    expected = go(1)
    for size in (7, 64, 256):
        assert go(size) == expected
    back = tb.run(
        tb.preset("a-hsja"),
        embedded.model,
        pictures.flip(0),
        labels[::-1],
        execution=tb.Execution(batch_size=64),
        **options,
    )
    assert table(back)[::-1] == expected


def test_together_asks_side_by_side():
    sizes, totals = [], []

    def part(problem, count):
        total = 0
        for _ in range(count):
            answers = yield tb.attack.Ask(problem.source[None].expand(2, -1, -1, -1), phase="probe")
            assert len(answers) == 2
            total += len(answers)
        return total

    @dataclass(frozen=True)
    class SideBySide:
        def __call__(self, problem):
            asking = tb.attack.together([part(problem, n) for n in (1, 3, 2)])
            answers = None
            while True:
                try:
                    ask = asking.send(answers)
                except StopIteration as end:
                    totals.append(end.value)
                    return Stop.CONVERGED
                sizes.append(len(ask.runs))
                answers = yield ask

    [result] = run(SideBySide(), count=1)
    assert (result.stop, result.reason) == (Stop.CONVERGED, "")
    assert sizes == [3, 2, 1]
    assert totals == [[2, 6, 4]]
    assert result.ledger.queries == 1 + 12


def test_together_refuses_two_phases():
    def part(problem, phase):
        yield tb.attack.Ask(problem.source[None], phase=phase)

    problem = tb.attack.Problem(images(1)[0], 0)
    with pytest.raises(ValueError, match="different phases"):
        next(tb.attack.together([part(problem, "a"), part(problem, "b")]))


def test_an_undecided_answer_to_a_single_row_ends_its_cell_only():
    """The last row of most searches, or a given start, is a run of one row with `until`."""
    images = torch.full((3, 1, 2, 2), 0.25, dtype=torch.float64)
    images[1] += 0.01
    images[2] += 0.02
    starts = torch.ones_like(images)
    starts[1] = 0.99

    class Scores(torch.nn.Module):
        def forward(self, x):
            mean = x.mean((1, 2, 3))
            scores = torch.stack([0.5 - mean, mean - 0.5], 1)
            scores[(mean - 0.99).abs() < 1e-9] = math.nan
            return scores

    net = tb.models.from_torch(Scores(), dtype=torch.float64)
    results = tb.run(tb.preset("hsja"), net, images, [0] * 3, starts=starts, budget=60)
    assert [result.stop for result in results] == [Stop.BUDGET, Stop.MODEL_ERROR, Stop.BUDGET]


def test_an_attack_with_unusable_rows_is_refused_and_does_not_hang():
    class Odd:
        rows = None

        def __call__(self, problem):
            yield tb.attack.Ask(problem.source[None], phase="x")
            return Stop.CONVERGED

    with pytest.raises(tb.errors.InputError, match="attack declares None rows: expected a finite"):
        tb.attack.Cell(Odd(), torch.full((1, 2, 2), 0.5), 0, limits=tb.Limits(9))


def test_the_best_point_is_not_changed_by_who_made_it():
    """Lazy rows that give views of a buffer which the attack uses again."""

    class Views:
        def __init__(self, buffer):
            self.buffer = buffer

        def __len__(self):
            return len(self.buffer)

        def __getitem__(self, rows):
            return self.buffer[rows]

    class Reuses:
        def __call__(self, problem):
            buffer = problem.source + torch.linspace(0.1, 0.4, 12).view(-1, 1, 1, 1).double()
            yield tb.attack.Ask(Views(buffer), phase="x")
            buffer.fill_(0.5)
            return Stop.CONVERGED

    net = tb.models.from_callable(
        lambda x: (x.mean((1, 2, 3)) > 0.7).long(), dtype=torch.float64, classes=2
    )
    cell = tb.attack.Cell(Reuses(), torch.full((1, 2, 2), 0.5).double(), 0, limits=tb.Limits(99))
    [result] = tb.attack.run_cells([cell], net)
    apart = float(torch.linalg.vector_norm(result.adversarial - 0.5))
    assert apart == pytest.approx(result.distance)
    assert result.distance > 0.4


@pytest.mark.parametrize("batch_size", [64, 8192])
def test_a_lone_image_computes_a_small_multiple_of_what_is_charged(batch_size):
    model, images, labels, _ = tb.models.embedded()
    seen = []
    prices = tb.Prices(source=10)
    execution = tb.Execution(batch_size=batch_size)
    options = {"prices": prices, "budget": 400, "execution": execution, "progress": seen.append}
    [result] = tb.run(tb.preset("a-hsja"), model, images[:1], labels[:1], **options)
    assert result.ledger.queries > 50
    assert seen[-1].rows <= 8 * result.ledger.queries


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("batch_size", [1, 7, 8, 64, 100, 256, 8192, 65_536])
def test_shapes_are_few_and_near_what_is_wanted(batch_size, device):
    model = Model(lambda images: images, torch.device(device), torch.float32)
    sender = Sender(model, batch_size, one_shape=False, metered=False)
    least = {"cpu": 8, "cuda": 32}[device]
    assert len(sender.shapes) <= 12
    assert max(sender.shapes) == batch_size
    for shape in sender.shapes:
        wanted = max((s for s in sender.shapes if s < shape), default=0) + 1
        assert sender.padded(wanted) == shape <= max(least, 8 * wanted)
    assert Sender(model, batch_size, one_shape=True, metered=False).shapes == [batch_size]
