"""A detector of one's own: it is shown what is charged and nothing else, its alarms are charged in
order, and a run that is killed goes on with them.

That alarms are settled as they are by hand is among the rules (`test_rules.py`). In closed form: on
a line of equal steps each query but the first is a near duplicate of the one before.
"""

from __future__ import annotations

import inspect
import math
import random
import textwrap
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from options import changed, grouped
from oracle import Wanderer, by_hand
from test_journal import Memory, Net, cells, numbers, run
from test_rules import engine_run, layouts, model, scenes
from torch import Tensor

import tollbox as tb
from tollbox import Stop, testing
from tollbox.core.detector import RecordedAlarms
from tollbox.engine.journal import ALARMS, Answered, History

STEP, STEPS = 0.01, 40
GREY = torch.full((1, 2, 2), 0.5, dtype=torch.float64)
NEAR = testing.NearDuplicates(1.5 * STEP, window=1)


@dataclass(frozen=True)
class Witness:
    """Writes down what it is shown, and says what another detector says of it."""

    detector: Any = field(default_factory=lambda: testing.NearDuplicates(0.8, 3, every=2))
    shown: dict[int, list[Tensor]] = field(default_factory=dict, compare=False)

    def begin(self, image):
        session, rows_of_image = self.detector.begin(image), self.shown.setdefault(image, [])

        def watching(rows):
            rows_of_image.extend(rows.clone())
            return session(rows)

        return watching


@pytest.mark.slow
@given(scenes(most=3), layouts, st.sampled_from([None, 8]))
def test_it_is_shown_what_is_charged_as_it_was_sent_in_order_and_nothing_else(
    scene, layout, quantize
):
    predict, listed = scene
    net = model(predict, quantize=quantize)
    watched = [changed(cell, detector=Witness()) for cell in listed]
    engine_run(watched, net, layout)
    for cell in watched:
        rows = [row for shown in cell.detection.detector.shown.values() for row in shown]
        sent = by_hand(changed(cell, detector=cell.detection.detector.detector), net).sent
        assert len(rows) == len(sent)
        assert all(torch.equal(one, other) for one, other in zip(rows, sent, strict=True))


@pytest.mark.slow
@given(scenes(most=3), layouts)
def test_no_attack_is_told_of_alarms(scene, layout):
    """Where an alarm neither costs nor ends, all is as if nobody watched."""
    predict, listed = scene
    free = [changed(cell, detector=NEAR, alarm_price=0.0, max_alarms=math.inf) for cell in listed]
    alone = [replace(cell, detection=None) for cell in free]
    found = engine_run(free, model(predict), layout)
    for one, other in zip(found, engine_run(alone, model(predict), layout), strict=True):
        assert one.stop is other.stop
        assert one.ledger.counts == other.ledger.counts
        assert one.ledger.cost == other.ledger.cost
        assert [i[:5] for i in one.improvements] == [i[:5] for i in other.improvements]


# -- in closed form -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """Equal steps of one pixel, in asks of several runs or of one."""

    runs: int = 1

    def __call__(self, problem):
        points = problem.source.expand(STEPS, -1, -1, -1).clone()
        points[:, 0, 0, 0] += STEP * torch.arange(1, STEPS + 1)
        yield tb.attack.Ask(
            runs=[tb.attack.Sequential(part) for part in points.chunk(self.runs)], phase="line"
        )
        return Stop.CONVERGED


def line(runs=1, predict=lambda images: torch.zeros(len(images)).long(), **options):
    engine = {k: options.pop(k) for k in ("batch_size", "metered") if k in options}
    net = tb.models.from_callable(predict, dtype=torch.float64)
    cell = tb.attack.Cell(
        Line(runs), GREY, 0, **grouped({"budget": 1e6, "detector": NEAR, **options})
    )
    [result] = engine_run([cell], net, engine)
    return result


@pytest.mark.parametrize("every", [1, 2, 7])
def test_every_kth_near_duplicate_raises_an_alarm(every):
    result = line(detector=replace(NEAR, every=every))
    assert (result.stop, result.ledger.queries) == (Stop.CONVERGED, STEPS + 1)
    assert result.ledger.alarms == STEPS // every
    assert result.first_alarm == (1 + every, 1 + every)
    assert result.detection is not None
    assert result.ledger.alarms_in == {"line": STEPS // every}
    far = line(detector=testing.NearDuplicates(0.5 * STEP))
    assert (far.ledger.alarms, far.first_alarm) == (0, None)


@pytest.mark.parametrize("metered", [False, True])
@pytest.mark.parametrize("size", [1, 7, 64])
@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize(("price", "budget"), [(50.0, 51), (50.0, 400), (0.25, 40), (3.0, 1e4)])
def test_an_alarm_costs_its_price_and_no_budget_is_exceeded(price, budget, runs, size, metered):
    """The clean image costs 1, each of the others 1 and its alarm."""
    rows = []

    def counting(images):
        rows.append(len(images))
        return torch.zeros(len(images)).long()

    result = line(
        runs, counting, alarm_price=price, budget=budget, batch_size=size, metered=metered
    )
    queries = min(1 + STEPS, 1 + math.floor((budget - 1) / (1 + price)))
    assert result.ledger.queries == queries
    assert result.ledger.cost == queries + (queries - 1) * price <= budget
    assert result.stop is (Stop.CONVERGED if queries == 1 + STEPS else Stop.BUDGET)
    assert sum(result.ledger.by_phase.values()) == pytest.approx(result.ledger.cost)
    if metered:
        assert sum(rows) == queries


@dataclass(frozen=True)
class RayStart:
    """The same steps backwards, each nearer than the last."""

    def __call__(self, problem):
        points = problem.source.expand(STEPS, -1, -1, -1).clone()
        points[:, 0, 0, 0] += STEP * torch.arange(STEPS, 0, -1)
        yield tb.attack.Ask(points, phase="line")
        return Stop.CONVERGED


def test_distance_at_counts_what_the_next_alarm_could_have_cost():
    """Each query but the first two costs 1 and its alarm 5; each is asked only if both fit."""
    net = tb.models.from_callable(lambda x: (x[:, 0, 0, 0] > 0.501).long(), dtype=torch.float64)
    cell = tb.attack.Cell(
        RayStart(), GREY, 0, limits=tb.Limits(1e4), detection=tb.Detection(NEAR, alarm_price=5.0)
    )
    [long] = engine_run([cell], net, {})
    assert long.ledger.cost == 2 + 6 * (STEPS - 1)
    for budget in range(6, 250):
        [short] = engine_run([changed(cell, budget=budget)], net, {})
        assert short.distance == long.distance_at(budget), budget
        steps = 0 if budget < 7 else min(STEPS, max(1, (budget + 4) // 6))
        nearest = STEP * (STEPS + 1 - steps) if steps else math.inf
        assert short.distance == pytest.approx(nearest)


@pytest.mark.parametrize("metered", [False, True])
@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize("most", [1, 4, STEPS, STEPS + 1])
def test_nothing_is_asked_after_the_last_alarm_that_may_be_raised(most, runs, metered):
    rows = []

    def counting(images):
        rows.append(len(images))
        return torch.zeros(len(images)).long()

    result = line(runs, counting, max_alarms=most, metered=metered)
    assert result.ledger.alarms == min(most, STEPS)
    assert result.ledger.queries == min(1 + most, 1 + STEPS)
    # After the last row of all the attack is still told that it has ended.
    assert result.stop is (Stop.ALARM if most < STEPS else Stop.CONVERGED)
    if metered:
        assert sum(rows) == result.ledger.queries


def test_a_clean_image_that_is_not_charged_is_not_shown():
    witness = Witness(NEAR)
    result = line(detector=witness, charge_clean=False)
    [rows] = witness.shown.values()
    assert len(rows) == STEPS == result.ledger.queries
    assert result.ledger.alarms == STEPS - 1


# -- detectors that fail --------------------------------------------------------------------------


@dataclass(frozen=True)
class Bad:
    what: str

    def begin(self, image):
        if self.what == "begin":
            raise ValueError("no memory of this image")

        def session(rows):
            if self.what == "raise":
                raise ValueError("out of order")
            short = torch.zeros(len(rows) + 1, dtype=torch.bool)
            given = {"number": short, "nothing": None, "kind": rows.mean((1, 2, 3))}
            return given[self.what]

        return session


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("begin", "the detector failed: ValueError: no memory of this image"),
        ("raise", "the detector failed: ValueError: out of order"),
        ("number", "it gave bool of shape (2,) for 1 row: expected a bool for each"),
        ("nothing", "it gave NoneType for 1 row: expected a bool for each"),
        ("kind", "it gave float64 of shape (1,) for 1 row: expected a bool for each"),
    ],
)
def test_a_detector_that_fails_ends_its_image_and_no_other(what, message):
    net = tb.models.from_callable(lambda x: torch.zeros(len(x)).long(), dtype=torch.float64)
    good = tb.attack.Cell(Line(), GREY, 0, limits=tb.Limits(100), detection=tb.Detection(NEAR))
    bad, other = tb.attack.run_cells([changed(good, detector=Bad(what)), good], net)
    assert bad.stop is Stop.DETECTOR_ERROR
    assert message in bad.reason
    assert bad.ledger.queries == 0
    assert bad.stop.failed
    assert (other.stop, other.ledger.queries) == (Stop.CONVERGED, 1 + STEPS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"detector": None}, "detector is None: expected a detector, with a method `begin`"),
        (
            {"detector": NEAR, "alarm_price": -1},
            "alarm_price is -1: expected a finite number of 0",
        ),
        (
            {"detector": NEAR, "alarm_price": math.inf},
            "alarm_price is inf: expected a finite number",
        ),
        (
            {"detector": NEAR, "max_alarms": 0},
            "max_alarms is 0: expected a whole number of 1 or more",
        ),
        ({"detector": NEAR, "max_alarms": 1.5}, "max_alarms is 1.5: expected a whole number"),
        ({"detector": lambda rows: rows}, "expected a detector, with a method `begin`"),
        ({"detector": testing.NearDuplicates}, "pass an instance of the class"),
        (
            {"detector": NEAR, "alarm_price": 100.0},
            "at least 101, the most that one query and its alarm",
        ),
    ],
)
def test_wrong_input_is_refused_in_a_sentence(options, message):
    with pytest.raises(tb.errors.InputError, match=message):
        tb.run(
            Line(),
            lambda x: torch.zeros(len(x)).long(),
            GREY[None],
            [0],
            **grouped({"budget": 100, **options}),
        )


# -- killed and resumed ---------------------------------------------------------------------------


def watched_cells(**options):
    options = {"alarm_price": 7.0, **options}
    return [changed(cell, detector=WATCHED, **options) for cell in cells(budget=300.0)]


WATCHED = testing.NearDuplicates(1.0, window=20, every=3)


@pytest.mark.parametrize("how", [{}, {"metered": True}, {"quantize": 8}])
@pytest.mark.parametrize("policy", [{}, {"max_alarms": 4}, {"max_flagged": 30}])
def test_a_resumed_run_is_the_unbroken_one(how, policy):
    listed, metered = watched_cells(**policy), "metered" in how
    plain = run(listed, Net(), **how)
    assert all(result.ledger.alarms for result in plain)
    whole = Memory()
    assert list(map(everything, run(listed, Net(), whole, **how))) == list(map(everything, plain))
    rng = random.Random(3)
    for cut in [1, *rng.sample(range(2, len(whole.batches)), 4), len(whole.batches)]:
        known, net = whole.until(cut), Net()
        journal = Memory(known, again=not metered)
        size = rng.choice([16, 5, 64])
        again = run(listed, net, journal, **{**how, "batch_size": size, "shuffle": rng.shuffle})
        assert list(map(everything, again)) == list(map(everything, plain))
        assert journal.ends == []
        if metered:
            asked = sum(len(a.labels) for a in known if a.run != ALARMS)
            assert net.rows == sum(result.ledger.queries for result in plain) - asked


def everything(result):
    alarms = dict(result.ledger.alarms_in), result.first_alarm, result.ledger.cost
    return (*numbers(result), alarms)


def test_alarms_are_recorded_with_the_labels_before_the_attack_goes_on():
    """Of each cell, after any batch, the alarms of all rows that an attack was told are there."""
    whole = Memory()
    results = run(watched_cells(), Net(), whole)
    for cut in range(1, len(whole.batches) + 1):
        known = whole.until(cut)
        for cell in range(len(results)):
            mine = [a for a in known if a.cell == cell]
            for ask in range(max((a.ask for a in mine), default=0)):  # all but the last
                labels = sum(len(a.labels) for a in mine if (a.ask, a.run >= 0) == (ask, True))
                alarms = sum(len(a.labels) for a in mine if (a.ask, a.run) == (ask, ALARMS))
                assert 0 < alarms <= labels
    total = [
        sum(int(a.labels.sum()) for a in known if (a.cell, a.run) == (c, ALARMS)) for c in range(4)
    ]
    assert total == [result.ledger.alarms for result in results]


def test_the_last_labels_are_asked_again_though_alarms_were_recorded_after_them():
    labels, raised = np.array([1, 2, 2]), np.array([0, 1])
    pieces = [Answered(0, 0, 0, 0, labels, 1.0), Answered(0, 0, ALARMS, 0, raised, 0.0)]
    history = History(pieces, again=True)
    assert history.known(0, 0) == 0
    assert history.alarms(0, 0, 3).tolist() == [False, True]
    assert history.alarms(0, 2, 3).tolist() == history.alarms(1, 0, 3).tolist() == []
    assert not history.longer_than(0, [3])


def test_what_was_recorded_stands_whatever_the_detector_says_now():
    listed, whole = watched_cells(), Memory()
    plain = run(listed, Net(), whole)
    deaf = [changed(cell, detector=testing.NearDuplicates(0.0)) for cell in listed]
    again = run(deaf, Net(), Memory(whole.until(), again=False))
    for one, other in zip(plain, again, strict=True):
        assert other.ledger.alarms == one.ledger.alarms
        assert other.ledger.cost == one.ledger.cost
        [warning] = other.warnings
        said = f"the detector judged {one.ledger.alarms} points"
        assert warning.startswith(said)
    silent = [changed(cell, detector=RecordedAlarms()) for cell in listed]
    net = Net()
    replayed = run(silent, net, Memory(whole.until(), again=False))
    assert list(map(everything, replayed)) == list(map(everything, plain))
    assert net.rows == 0


# -- the detectors of `testing` -------------------------------------------------------------------


@given(
    st.lists(st.integers(0, 6), min_size=2, max_size=30),
    st.integers(1, 8),
    st.integers(1, 4),
    st.sampled_from([0.0, 1.0, 2.0]),
)
def test_near_duplicates_are_those_of_the_plain_definition(places, window, every, radius):
    rows = torch.tensor(places).double().view(-1, 1, 1, 1)
    detector = testing.NearDuplicates(radius, window, every)
    expected, count = [], 0
    for row, place in enumerate(places):
        near = any(abs(place - p) <= radius for p in places[max(0, row - window) : row])
        count += near
        expected.append(near and count % every == 0)
    assert detector.begin(0)(rows).tolist() == expected
    assert testing.check_detector(detector, rows) == []


class Forgetful:
    """Remembers nothing from call to call."""

    def begin(self, image):
        return lambda rows: torch.arange(len(rows)) % 2 == 1


class Shared:
    """One memory for all images."""

    def __init__(self):
        self.count = 0

    def begin(self, image):
        self.count = 0

        def session(rows):
            self.count += len(rows)
            return [(self.count - len(rows) + n) % 4 == 0 for n in range(len(rows))]

        return session


class Scribbler:
    def begin(self, image):
        return lambda rows: rows.mul_(0).flatten(1).sum(1) > 0


@pytest.mark.parametrize(
    ("detector", "message"),
    [
        (Forgetful(), "answers row 1 differently when rows come 1, 1, 1, 1, 1, 1, ... at a"),
        (Shared(), "answers differently when it sees another image at the same time"),
        (Scribbler(), "changes the rows that it sees"),
        (Bad("raise"), "fails on 9 rows: ValueError: out of order"),
        (
            Bad("number"),
            "fails on 9 rows: TypeError: it gave bool of shape (10,) for 9 rows: expected a bool",
        ),
        (Bad("kind"), "fails on 9 rows: TypeError: it gave float64 of shape (9,) for 9 rows"),
    ],
)
def test_a_detector_that_breaks_a_rule_is_told_so(detector, message):
    rows = torch.linspace(0.1, 0.9, 9).double().view(-1, 1, 1, 1)
    faults = testing.check_detector(detector, rows)
    assert any(fault.startswith(message) for fault in faults), faults


def test_the_example_of_the_protocol_works():
    text = inspect.getdoc(tb.detection.Detector).partition("class Brighter:")
    body = text[1] + text[2].partition("\n\nIf sessions return")[0]
    names: dict[str, Any] = {}
    exec(textwrap.dedent(body), names)
    rows = torch.tensor([0.1, 0.3, 0.2, 0.3, 0.4]).view(-1, 1, 1, 1)
    assert names["Brighter"]().begin(0)(rows) == [True, True, False, False, True]
    assert testing.check_detector(names["Brighter"](), rows) == []


def test_wanderers_are_alarmed_at_all():
    """The rules above would hold of a detector that never alarms."""
    cell = tb.attack.Cell(
        Wanderer(1),
        GREY,
        0,
        limits=tb.Limits(50),
        detection=tb.Detection(testing.NearDuplicates(0.8, 3, every=2)),
    )
    [result] = tb.attack.run_cells([cell], lambda x: torch.zeros(len(x)).long())
    assert result.ledger.alarms > 3
    assert np.isfinite(result.ledger.cost)
