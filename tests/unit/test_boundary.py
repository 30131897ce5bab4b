"""Boundary Attack: its two steps in closed form, and its walk beside one query at a time."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from driver import drive

import tollbox as tb
from tollbox import testing
from tollbox.attacks.boundary import SOURCE_RATES, _proposals, _Window
from tollbox.core.ask import Iterate
from tollbox.core.metric import Metric
from tollbox.core.stop import Stop

SHAPE = (3, 8, 8)
GREY = torch.full(SHAPE, 0.5, dtype=torch.float64)
SMALL = testing.half_space(0.3, SHAPE)


def norm(a):
    return float(Metric.L2.norms(a[None])[0])


def proposals(distance=1.0, s=0.3, e=0.1, source=GREY):
    problem = tb.attack.Problem(source, 0)
    away = testing._unit(5, SHAPE).view(SHAPE) * distance
    iterate = Iterate(source + away, distance)
    return away, _proposals(source, iterate, problem.noise("walk", 0, 50), s, e)


def label(boundary):
    return lambda point: int(boundary.labels(point[None])[0])


@pytest.mark.parametrize(("s", "e"), [(0.01, 0.01), (0.3, 0.1), (1.0, 0.5)])
def test_the_steps_are_across_and_inward_by_their_shares(s, e):
    """y lies on the sphere, turned by atan(s); z on the way from y to the source, e r nearer."""
    away, pair = proposals(0.8, s, e)
    for row in range(5):
        z, y = (each - GREY for each in pair(row))
        assert norm(y) == pytest.approx(0.8)
        assert float((y * away).sum()) / 0.8**2 == pytest.approx(1 / math.sqrt(1 + s * s))
        assert torch.allclose(z, (1 - e) * y, atol=1e-12)


def test_directions_differ_from_step_to_step_and_have_no_mean():
    """The mean of 50 units across a vector in 192 dimensions has a length of about 1/sqrt(50)."""
    away, pair = proposals(s=0.5)
    across = torch.stack([pair(row)[1] - GREY for row in range(50)])
    across = across * math.sqrt(1.25) - away
    assert all(norm(each) == pytest.approx(0.5) for each in across)
    assert norm(across.mean(0)) / 0.5 == pytest.approx(1 / math.sqrt(50), rel=0.3)


def test_where_pixels_clip_a_step_is_as_near_as_it_should_be_and_no_nearer():
    """A clipped y is nearer than the sphere by itself: only what is left of e r is taken."""
    white = torch.full(SHAPE, 0.99, dtype=torch.float64)
    away = -testing._unit(5, SHAPE).view(SHAPE).abs()
    problem = tb.attack.Problem(white, 0)
    noise = problem.noise("walk", 0, 5)
    for e, kept in ((0.5, True), (1e-3, False)):
        pair = _proposals(white, Iterate(white + away, 1.0), noise, 1.0, e)
        for row in range(5):
            z, y = pair(row)
            assert 0 <= float(z.min()) <= float(z.max()) <= 1
            assert norm(y - white) < 0.999  # clipped
            assert norm(z - white) == pytest.approx(1 - e if kept else norm(y - white))


@pytest.mark.parametrize(("share", "turn"), [(0.6, 1), (0.5, 0), (0.3, 0), (0.2, 0), (0.1, -1)])
def test_a_window_speaks_when_it_is_full(share, turn):
    window = _Window(10, (0.2, 0.5))
    assert [window.turn(row < 10 * share) for row in range(10)] == [0] * 9 + [turn]


def test_a_window_is_empty_once_it_has_spoken_and_slides_until_then():
    window = _Window(4, (0.2, 0.5))
    assert [window.turn(answer) for answer in (True, True, False, False)] == [0] * 4
    assert [window.turn(answer) for answer in (True, True)] == [0, 0]  # still two of four
    assert window.turn(True) == 1
    assert [window.turn(False) for _ in range(4)] == [0, 0, 0, -1]


def walked(attack, problem, iterate, ask):
    """The published loop, one query after another: what is asked, the iterates, and both steps."""
    noise = problem.noise("walk", 0, attack.steps)
    s, e = attack.orthogonal_step, attack.source_step
    asked, iterates, last_y, last_z = [], [], [], []
    for step in range(1, attack.steps + 1):
        z, y = _proposals(problem.source, iterate, noise, s, e)(step - 1)
        asked.append(z)
        good = ask(z)
        if step % attack.check_every == 0:
            asked.append(y)
            last_y, last_z = [*last_y, ask(y)], [*last_z, good]
        if good and norm(z - problem.source) < iterate.distance:
            iterate = Iterate(z, norm(z - problem.source))
            iterates.append(z)
        if step % attack.check_every == 0:
            window = last_y[-attack.orthogonal_window :]
            if (
                len(window) == attack.orthogonal_window
                and not 0.2 <= sum(window) / len(window) <= 0.5
            ):
                change = 1.5 if sum(window) / len(window) > 0.5 else 1 / 1.5
                s, e, last_y = s * change, e * change, []
            window = last_z[-attack.source_window :]
            if len(window) == attack.source_window and not 0.1 <= sum(window) / len(window) <= 0.25:
                e, last_z = e * (1.5 if sum(window) / len(window) > 0.25 else 1 / 1.5), []
    return asked, iterates, (s, e)


@pytest.mark.parametrize("check_every", [1, 10])
def test_the_walk_is_that_of_one_query_after_another(check_every):
    """With windows so short that both steps change several times in both directions."""
    attack = replace(
        tb.preset("boundary"),
        steps=600,
        check_every=check_every,
        orthogonal_window=12,
        source_window=5,
        orthogonal_step=0.05,
        source_step=0.05,
    )
    problem, ask = tb.attack.Problem(SMALL.source, 0), label(SMALL)
    done = drive(attack(problem), problem, ask)
    assert done.returned is Stop.ITERATIONS
    first, *iterates = [accepted.point for accepted in problem.accepted]
    queries = [p for p, phase in zip(done.points, done.phased, strict=True) if phase == "walk"]
    begun = Iterate(first, norm(first - SMALL.source))
    asked, wanted, (s, e) = walked(attack, tb.attack.Problem(SMALL.source, 0), begun, ask)
    assert len(asked) == 600 + 600 // check_every
    assert len(queries) == len(asked)
    assert all(torch.equal(one, other) for one, other in zip(queries, asked, strict=True))
    assert all(torch.equal(one, other) for one, other in zip(iterates, wanted, strict=True))
    assert (s, e) != (0.05, 0.05)
    assert done.asks < len(asked)


def test_every_iterate_is_nearer_by_its_source_step():
    attack = replace(tb.preset("boundary"), steps=400)
    problem = tb.attack.Problem(SMALL.source, 0)
    drive(attack(problem), problem, label(SMALL))
    assert len(problem.accepted) > 20
    for before, after in pairwise(problem.accepted):
        assert after.distance == pytest.approx((1 - after.notes["source_step"]) * before.distance)


def test_it_converges_where_nothing_else_is_adversarial():
    """Both windows of five shrink e: 15 times by 1.5^2 from 0.01 to below 1e-7, in 75 checks."""
    attack = replace(tb.preset("boundary"), check_every=1, orthogonal_window=5, source_window=5)
    problem = tb.attack.Problem(GREY, 0, start_image=torch.ones_like(GREY))
    answers = iter([1])
    done = drive(attack(problem), problem, lambda _: next(answers, 0))
    assert done.returned is Stop.CONVERGED
    assert done.phased.count("walk") == 2 * 75
    assert len(problem.accepted) == 1


def test_steps_stay_finite_whatever_the_adaptation():
    """`drive` looks at every point."""
    for answer in (1, 0):
        attack = replace(tb.preset("boundary"), adaptation=1e6, check_every=1, steps=200)
        attack = replace(attack, orthogonal_window=1, source_window=1, convergence=1e-300)
        problem = tb.attack.Problem(GREY, 0, start_image=torch.ones_like(GREY))
        answers = iter([1])
        done = drive(attack(problem), problem, lambda _, a=answers, b=answer: next(a, b))
        assert done.returned is Stop.ITERATIONS


def test_asymmetric_search_of_the_line_has_fewer_flagged_answers():
    """A thousand cells at c* = 100; the walk itself is the same at every price."""
    counts = {}
    for name in ("boundary", "a-boundary"):
        problem = tb.attack.Problem(SMALL.source, 0, prices=tb.Prices(100, 1))
        done = drive(replace(tb.preset(name), steps=1)(problem), problem, label(SMALL))
        found = zip(done.labels, done.phased, strict=True)
        counts[name] = [answer for answer, phase in found if phase == "search"].count(0)
    assert counts["a-boundary"] < counts["boundary"]


def test_at_c1_both_presets_are_query_for_query_the_same_run():
    """And at c* = 10 they are not, in the search alone."""
    for ratio in (1, 10):
        walks = []
        for name in ("boundary", "a-boundary"):
            problem = tb.attack.Problem(SMALL.source, 0, prices=tb.Prices(ratio, 1))
            walks.append(drive(replace(tb.preset(name), steps=60)(problem), problem, label(SMALL)))
        one, other = (torch.stack(done.points) for done in walks)
        assert (one.shape == other.shape and torch.equal(one, other)) == (ratio == 1)


def test_the_best_share_of_steps_that_succeed_hardly_depends_on_the_price():
    """On a plane, at s = sqrt(2 e), z is adversarial with p = Phi(-T), and e grows as T^2. Where
    the gain T^2 p is largest per cost p + c*(1 - p), p is inside the window at every price, and the
    T that is best at c* = 1 loses less than 1.3 %."""
    t = torch.linspace(0.1, 4, 4000, dtype=torch.float64)
    p = torch.special.ndtr(-t)
    shares = []
    for ratio in (1, 10, 100, 1e9):
        gain = t**2 * p / (p + ratio * (1 - p))
        shares.append(float(p[gain.argmax()]))
        assert gain[(t**2 * p).argmax()] > 0.987 * gain.max()
    assert shares == pytest.approx([0.117, 0.137, 0.139, 0.140], abs=5e-4)
    assert all(SOURCE_RATES[0] < share < SOURCE_RATES[1] for share in shares)
