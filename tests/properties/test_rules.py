"""The rules of the design, each as a property, over random prices, budgets, batches and orders.

The classifiers are those with known boundaries, and one with more classes. The attack is the
`Wanderer`, which asks for anything; the reference is `by_hand`, which runs one image one query at a
time. The engine's schedule is shuffled throughout.
"""

from __future__ import annotations

import math
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from options import changed, grouped
from oracle import Wanderer, by_hand

import tollbox as tb
from tollbox import testing
from tollbox.core.stop import Stop

SHAPE = (1, 3, 4)
NORMAL = torch.tensor([1.0, -0.5, 0.25, 0.8, -0.3, 0.1, 0.6, -0.9, 0.4, 0.2, -0.7, 0.5]).double()


def four_classes(images: torch.Tensor) -> torch.Tensor:
    """0 is the source; the others depend on the place."""
    flat = images.flatten(1).double()
    height = (flat - 0.5) @ NORMAL
    other = 1 + (flat[:, 0] > 0.5).long() + (flat[:, 1] > 0.7).long()
    return torch.where(height > 0.15, other, 0)


GREY = torch.full(SHAPE, 0.5, dtype=torch.float64)
KNOWN = [
    testing.half_space(0.3, SHAPE),
    testing.half_space_in_box(SHAPE),
    testing.sphere(SHAPE),
    testing.wedge(SHAPE),
    testing.slab(SHAPE),
    testing.constant(SHAPE),
]
WORLDS = {"four classes": (four_classes, GREY)} | {b.name: (b.labels, b.source) for b in KNOWN}


def image(base: torch.Tensor, number: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(number)
    moved = base + 0.3 * (torch.rand(SHAPE, generator=generator, dtype=torch.float64) - 0.5)
    return moved.clamp(0, 1)


def model(predict, dtype=torch.float64, quantize=None):
    return tb.models.from_callable(predict, dtype=dtype, quantize=quantize)


growing_steps = st.dictionaries(
    st.integers(2, 6), st.sampled_from([0.0, 0.25, 1.0, 3.0, 20.0]), max_size=3
).flatmap(lambda later: st.sampled_from([0.5, 1.0, 2.0]).map(lambda first: {1: first, **later}))
"""Prices from a flagged answer on; of halves and quarters, which add up without rounding."""

prices = st.one_of(
    st.builds(
        tb.Prices,
        source=st.sampled_from([0.1, 0.5, 1.0, 2.0, 10.0, 100.0]),
        other=st.sampled_from([1.0, 0.3]),
    ),
    st.just(tb.Prices.flagged_only()),
    st.just(tb.Prices(source=0.0, other=1.0)),
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


flagged_sets = st.sampled_from([None, None, {0}, {0, 1}, {0, 3}, {1, 3}]).map(
    lambda labels: tb.Goal() if labels is None else tb.Goal.leave(labels)
)


watches = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {
            "detector": st.builds(
                testing.NearDuplicates,
                radius=st.sampled_from([0.2, 0.8, 100.0]),
                window=st.sampled_from([1, 3, 50]),
                every=st.sampled_from([1, 2, 5]),
            ),
            "alarm_price": st.sampled_from([0.0, 0.3, 5.0, 60.0]),
            "max_alarms": st.sampled_from([math.inf, math.inf, 1, 3]),
        }
    ),
)


@st.composite
def masks(draw):
    """None, or some numbers of an image, or of its pixels."""
    if draw(st.booleans()):
        return None
    shape = draw(st.sampled_from([SHAPE, SHAPE[1:]]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10**6)))
    mask = torch.rand(shape, generator=generator) < draw(st.sampled_from([0.2, 0.5, 0.9]))
    mask.view(-1)[draw(st.integers(0, mask.numel() - 1))] = True
    return mask


@st.composite
def scenes(draw, most=6):
    """A classifier, and cells to be run on it."""
    predict, base = WORLDS[draw(st.sampled_from(["four classes"] * 3 + sorted(WORLDS)))]
    cells = []
    for number in range(draw(st.integers(1, most))):
        price = draw(prices)
        watch = draw(watches)
        most = price.dearest + watch.get("alarm_price", 0.0)
        budget = most * draw(st.sampled_from([1, 1.5, 3, 10, 40, 1000]))
        cap = draw(st.sampled_from([1, 2, 7, 50])) if draw(st.booleans()) else math.inf
        if price.cheapest == 0 and math.isinf(cap):
            cap = 60
        cells.append(
            tb.attack.Cell(
                Wanderer(draw(st.integers(0, 10**6))),
                image(base, draw(st.integers(0, 8))),
                label=draw(st.sampled_from([0, 0, 0, 0, 1])),
                prices=price,
                limits=tb.Limits(
                    budget,
                    max_queries=cap,
                    max_flagged=draw(st.sampled_from([math.inf, math.inf, 1, 2, 5, 12])),
                ),
                target=draw(st.sampled_from([None, None, 2])),
                seed=draw(st.integers(0, 3)),
                charge_clean=draw(st.booleans()),
                name=f"cell {number}",
                goal=draw(flagged_sets),
                mask=draw(masks()),
                detection=tb.Detection(**watch) if watch else None,
            )
        )
    return predict, cells


layouts = st.fixed_dictionaries(
    {
        "batch_size": st.sampled_from([1, 2, 3, 7, 16, 64]),
        "live": st.sampled_from([1, 2, 5, 100]),
        "metered": st.booleans(),
        "one_shape": st.booleans(),
        "shuffle": st.integers(0, 10**6).map(lambda seed: random.Random(seed).shuffle),
    }
)


def engine_run(listed, net, layout):
    results = sorted(
        tb.attack.Engine(net, **grouped(layout)).run(listed), key=lambda result: result.index
    )
    assert [result.index for result in results] == list(range(len(listed)))
    return results


def account(result):
    return {(ph, lb): n for ph, tally in result.ledger.counts.items() for lb, n in tally.items()}


def summary(result):
    """All that a result says, for comparison."""
    return (
        result.stop,
        account(result),
        result.ledger.cost,
        [tuple(i) for i in result.improvements],
        None if result.adversarial is None else result.adversarial.tolist(),
        [(s.iteration, s.cost, s.source, s.other, s.distance, s.notes) for s in result.trace],
        dict(result.ledger.alarms_in),
        result.first_alarm,
    )


@given(scenes(), layouts)
def test_rules_1_2_3_5_the_engine_does_what_is_done_by_hand(scene, layout):
    predict, listed = scene
    net = model(predict)
    for cell in listed:
        cell.attack.transcripts.clear()
    results = engine_run(listed, net, layout)
    transcripts = [
        cell.attack.transcripts[-1] if cell.attack.transcripts else None for cell in listed
    ]
    for cell, result, transcript in zip(listed, results, transcripts, strict=True):
        cell.attack.transcripts.clear()
        expected = by_hand(cell, net)
        assert result.stop is expected.stop
        assert account(result) == dict(expected.counts)
        assert result.ledger.cost == expected.cost <= cell.limits.budget
        assert result.ledger.queries == expected.queries <= cell.limits.max_queries
        assert result.ledger.flagged == expected.source <= cell.limits.max_flagged
        assert result.ledger.alarms_in == expected.alarms
        assert cell.detection is None or result.ledger.alarms <= cell.detection.max_alarms
        assert result.first_alarm == expected.first_alarm
        assert [(*i[:3], i.cost_before, i.alarms) for i in result.improvements] == [
            (*e[:3], *e[4:]) for e in expected.improvements
        ]
        assert [i.distance for i in result.improvements] == pytest.approx(
            [e[3] for e in expected.improvements], rel=1e-12
        )
        if expected.best is None:
            assert result.adversarial is None
            assert result.distance == math.inf
        else:
            assert torch.equal(result.adversarial, expected.best)
        assert [s.cost for s in result.trace] == [s[0] for s in expected.steps]
        assert [s.distance for s in result.trace] == pytest.approx([s[1] for s in expected.steps])
        # Rule 1: what the attack was sent, and that it was sent nothing after the budget ended.
        again = cell.attack.transcripts[-1] if cell.attack.transcripts else None
        assert transcript == again
        assert sum(result.ledger.by_phase.values()) == pytest.approx(result.ledger.cost)


@given(scenes(), layouts)
def test_rule_2_a_metered_model_computes_exactly_what_is_charged(scene, layout):
    predict, listed = scene
    rows = []

    def counting(images):
        rows.append(len(images))
        return predict(images)

    results = engine_run(listed, model(counting), {**layout, "metered": True})
    uncharged = sum(not cell.charge_clean for cell in listed)
    assert sum(rows) == sum(result.ledger.queries for result in results) + uncharged


@pytest.mark.parametrize("by", ["cost", "queries", "source", "inf"])
@given(scene=scenes(most=1), share=st.floats(0, 1))
def test_rule_3_distance_at_is_what_a_run_with_that_limit_reaches(scene, share, by):
    predict, [cell] = scene
    if by == "source":
        limit = max(1, int(min(cell.limits.max_flagged, 20) * share))
        less = {"max_flagged": limit}
    elif by == "inf":  # where nothing but a flagged answer costs
        by = "source"
        cell = tb.attack.Cell(
            cell.attack, cell.image, 0, tb.Prices.flagged_only(), tb.Limits(10.0, 200)
        )
        limit = float(max(1, int(10 * share)))
        less = {"budget": limit}
    elif by == "queries":
        limit = max(1, int(min(cell.limits.max_queries, 100) * share))
        less = {"max_queries": limit}
    else:
        least = cell.prices.dearest + (cell.detection.alarm_price if cell.detection else 0.0)
        limit = least + (cell.limits.budget - least) * share
        less = {"budget": limit}
    [long] = engine_run([cell], model(predict), {})
    [short] = engine_run([changed(cell, **less)], model(predict), {})
    assert long.distance_at(limit, by) == short.distance


@given(scenes(), layouts, layouts, st.randoms(use_true_random=False))
def test_rule_4_alone_or_in_company_the_result_is_the_same(scene, one, two, chance):
    predict, listed = scene
    first = engine_run(listed, model(predict), one)
    order = list(range(len(listed)))
    chance.shuffle(order)
    second = engine_run([listed[i] for i in order], model(predict), two)
    for position, index in enumerate(order):
        assert summary(second[position]) == summary(first[index])


@given(scenes(), layouts, layouts)
def test_rule_4_in_float32_at_one_shape(scene, one, two):
    predict, listed = scene
    same = {"one_shape": True, "batch_size": 16, "metered": False}
    net = model(predict, torch.float32)
    first = engine_run(listed, net, {**one, **same})
    second = engine_run(listed, net, {**two, **same})
    assert [summary(r) for r in first] == [summary(r) for r in second]


@given(scenes(), layouts, st.sampled_from([None, 8, 2]))
def test_rule_5_what_is_reported_was_asked_and_is_the_nearest(scene, layout, quantize):
    predict, listed = scene
    seen = []

    def watching(images):
        seen.extend(images.clone())
        return predict(images)

    net = model(watching, quantize=quantize)
    for cell, result in zip(listed, engine_run(listed, net, layout), strict=True):
        if result.adversarial is None:
            assert result.distance == math.inf
            continue
        label = int(predict(result.adversarial[None]))
        flagged = cell.goal.flagged or {cell.label}
        assert label not in flagged if cell.target is None else label == cell.target
        apart = float(torch.linalg.vector_norm(result.adversarial - cell.image))
        assert result.distance == pytest.approx(apart, rel=1e-12)
        assert any(torch.equal(result.adversarial, point) for point in seen)
        assert result.adversarial.min() >= 0
        assert result.adversarial.max() <= 1
        if quantize:
            steps = result.adversarial * (2**quantize - 1)
            assert torch.allclose(steps, steps.round(), atol=1e-9)


@given(scenes(most=1), layouts, st.sampled_from([None, 8, 2]))
def test_whatever_is_sent_is_the_source_outside_the_mask(scene, layout, quantize):
    predict, [cell] = scene
    seen = []

    def watching(images):
        seen.extend(images.clone())
        return predict(images)

    net = model(watching, quantize=quantize)
    [result] = engine_run([cell], net, layout)
    if cell.mask is not None:
        clean, fixed = net.sent(cell.image.clone()), ~cell.mask.expand(SHAPE)
        assert all(torch.equal(point[fixed], clean[fixed]) for point in seen)
        if result.adversarial is not None:
            assert torch.equal(result.adversarial[fixed], clean[fixed])
    flagged = sum(n for (_, label), n in account(result).items() if cell.aim.flags(label))
    assert result.ledger.flagged == flagged


@given(scenes(), layouts)
def test_rule_6_a_bad_image_ends_alone_and_with_a_reason(scene, layout):
    """The model raises on any point whose first pixel is above a level: some cells, not others."""
    predict, listed = scene
    answered = []

    def brittle(images):
        if (images[:, 0, 0, 0] > 0.9).any():
            raise RuntimeError("too bright")
        answered.append(len(images))
        return predict(images)

    net = model(brittle)
    results = engine_run(listed, net, layout)
    if layout["metered"]:
        uncharged = sum(
            not cell.charge_clean and bool(cell.image[0, 0, 0] <= 0.9) for cell in listed
        )
        charged = sum(result.ledger.queries for result in results) + uncharged
        failed = any(result.stop is Stop.MODEL_ERROR for result in results)
        # Runs of one ask go out side by side: if one fails, the others may have been answered.
        assert sum(answered) >= charged if failed else sum(answered) == charged
    for cell, result in zip(listed, results, strict=True):
        expected = by_hand(cell, net)
        assert result.stop is expected.stop
        assert account(result) == dict(expected.counts)
        assert [i.queries for i in result.improvements] == [e[2] for e in expected.improvements]
        if result.stop is Stop.MODEL_ERROR:
            assert "too bright" in result.reason


@given(scenes(), layouts)
def test_rule_8_few_fixed_shapes(scene, layout):
    predict, listed = scene
    shapes = set()

    def watching(images):
        shapes.add(len(images))
        return predict(images)

    size = layout["batch_size"]
    engine_run(listed, model(watching), {**layout, "metered": False})
    eighths = (8,) if layout["one_shape"] else range(1, 9)
    allowed = {max(1, size * part // 8) for part in eighths}
    assert shapes <= allowed
