"""Starts: what is asked, in what order, what is returned; given images, and targeted runs."""

from __future__ import annotations

import math

import pytest
import torch
from driver import drive
from every_preset import attack_of, names

import tollbox as tb
from tollbox import testing
from tollbox.core.ask import at_once
from tollbox.core.by_side import at_side
from tollbox.core.stop import Stop
from tollbox.errors import InputError
from tollbox.parts.paths import Segment
from tollbox.parts.starts import GrowingNoise, Pool, UniformNoise, find_start

SHAPE = (3, 16, 16)
GREY = torch.full(SHAPE, 0.5, dtype=torch.float64)


def problem(source=GREY, label=0, **more):
    return tb.attack.Problem(source, label, **more)


def norm(a):
    return float(torch.linalg.vector_norm(a))


# -- growing noise --------------------------------------------------------------------------------


def test_growing_noise_rises_by_a_step_a_level_and_stays_in_the_box():
    done = drive(GrowingNoise(step=0.01, levels=300)(problem()), problem(), lambda point: 0)
    assert done.returned is None
    assert (len(done.points), done.offered, done.asks, done.phases) == (300, [300], 1, {"start"})
    noise = problem().noise("start", 0, 300)
    for level in (1, 2, 17, 100, 300):
        wanted = (GREY + 0.01 * level * noise[level - 1 : level][0]).clamp(0, 1)
        assert torch.allclose(done.points[level - 1], wanted, atol=1e-15)
    assert all(point.min() >= 0 and point.max() <= 1 for point in done.points)


def test_growing_noise_stops_at_the_first_that_is_adversarial():
    wanted = 0.6

    def label(point):
        return int(norm(point - GREY) >= wanted)

    done = drive(GrowingNoise()(problem()), problem(), label)
    assert done.labels == [0] * (len(done.points) - 1) + [1]
    assert torch.equal(done.returned.point, done.points[-1])
    assert done.returned.distance == pytest.approx(norm(done.points[-1] - GREY))
    level = len(done.points)
    # |noise| is sqrt(768) within 10 % (a relative standard deviation of 1/sqrt(2 x 768) = 0.026)
    assert level == pytest.approx(wanted / (0.0045 * math.sqrt(768)), rel=0.25)


# -- uniform noise --------------------------------------------------------------------------------


def test_uniform_noise_is_uniform():
    """Kolmogorov-Smirnov on n = 8 x 768 = 6144 values: sqrt(n) D exceeds 2.4 by chance with
    probability 2 exp(-2 x 2.4^2) = 2e-5. A normal distribution of the same mean and variance
    (D = 0.059, sqrt(n) D = 4.6) is seen with a probability above .999."""
    done = drive(UniformNoise(tries=8)(problem()), problem(), lambda point: 0)
    assert done.returned is None
    assert (len(done.points), done.phases) == (8, {"start"})
    values = torch.stack(done.points).flatten().sort().values
    n = len(values)
    assert values[0] >= 0
    assert values[-1] <= 1
    steps = torch.arange(n + 1, dtype=torch.float64) / n
    apart = max(float((steps[1:] - values).max()), float((values - steps[:-1]).max()))
    assert math.sqrt(n) * apart < 2.4


def test_uniform_noise_does_not_depend_on_the_source_but_by_its_key():
    """Noise, not noise around the image: a black image gets values over all of [0,1] too."""
    black = problem(torch.zeros(SHAPE, dtype=torch.float64))
    done = drive(UniformNoise(tries=1)(black), black, lambda point: 0)
    assert done.points[0].mean() == pytest.approx(0.5, abs=5 / math.sqrt(12 * 768))


@pytest.mark.parametrize("tau", [0.1, 1e-3])
def test_uniform_noise_is_blended_up_to_the_boundary(tau):
    """The third image is adversarial, and so are blends of at least 0.37 of its distance."""
    asked = []

    def label(point):
        asked.append(point)
        if len(asked) < 3:
            return 0
        return int(norm(point - GREY) >= 0.37 * norm(asked[2] - GREY))

    done = drive(UniformNoise(tau=tau)(problem()), problem(), label)
    far, found = norm(asked[2] - GREY), done.returned
    assert 0.37 * far <= found.distance <= (0.37 + tau) * far
    assert found.distance == pytest.approx(norm(found.point - GREY))
    assert any(torch.equal(found.point, point) for point in asked[2:])
    assert done.phases == {"start"}
    assert len(asked) <= 3 + math.ceil(math.log2(1 / tau)) + 1
    share = found.distance / far  # it lies between the two
    assert torch.allclose(found.point, torch.lerp(GREY, asked[2], share), atol=1e-9)


def test_uniform_noise_is_bounded():
    boundary = testing.constant((1, 2, 2))
    attack = Begin(UniformNoise(tries=30))
    [result] = tb.run(attack, boundary.model(), boundary.source[None], [0], budget=1000)
    assert result.stop is Stop.NO_START
    assert result.ledger.by_phase == {"clean": 1, "start": 30}


class Begin:
    """Only begins."""

    def __init__(self, start):
        self.start = start

    def __call__(self, problem):
        found = yield from find_start(problem, self.start)
        if found is None:
            return Stop.NO_START
        problem.accept(found.point)
        return Stop.CONVERGED


# -- pool -----------------------------------------------------------------------------------------


def pool(*levels):
    """Images of one grey each."""
    return torch.stack([torch.full(SHAPE, level, dtype=torch.float64) for level in levels])


def asked(start, answer, **more):
    """The greys that were asked, and what was returned."""
    one = problem(**more)
    done = drive(start(one), one, answer)
    return [round(float(point.mean()), 6) for point in done.points], done


def test_the_nearest_of_a_pool_comes_first():
    greys, done = asked(Pool(pool(0.9, 0.3, 0.55, 0.0, 0.6)), lambda point: 0)
    assert greys == [0.55, 0.6, 0.3, 0.9, 0.0]
    assert done.returned is None
    assert done.phases == {"start"}


def test_a_pool_ends_at_the_first_that_is_adversarial():
    greys, done = asked(Pool(pool(0.9, 0.3, 0.55)), lambda point: int(point.mean() < 0.5))
    assert greys == [0.55, 0.3]
    assert done.returned.distance == pytest.approx(0.2 * math.sqrt(768))
    assert torch.equal(done.returned.point, pool(0.3)[0])


def test_equally_near_images_keep_their_order():
    greys, _ = asked(Pool(pool(0.75, 0.25, 0.75, 0.25)), lambda point: 0)
    assert greys == [0.75, 0.25, 0.75, 0.25]


def test_the_labels_of_a_pool_leave_out_what_the_goal_does_not_ask_for():
    start = Pool(pool(0.5, 0.6, 0.7, 0.8, 0.9), torch.tensor([0, 1, 2, 0, 2]))
    assert asked(start, lambda point: 0)[0] == [0.6, 0.7, 0.9]  # any but the source class
    assert asked(start, lambda point: 0, target=2)[0] == [0.7, 0.9]
    assert asked(start, lambda point: 2, label=2)[0] == [0.5, 0.6, 0.8]


@pytest.mark.parametrize("more", [{"target": 7}, {"label": 3}])
def test_a_pool_with_nothing_of_use_is_no_start(more):
    start = Pool(pool(0.6, 0.7), torch.tensor([3, 3]))
    greys, done = asked(start, lambda point: 0, **more)
    assert (greys, done.returned, done.asks) == ([], None, 0)
    boundary = testing.half_space()
    cell = tb.attack.Cell(
        Begin(Pool(pool(0.6), torch.tensor([0]))), boundary.source, 0, limits=tb.Limits(100)
    )
    [result] = tb.attack.run_cells([cell], boundary.model())
    assert (result.stop, result.ledger.queries) == (Stop.NO_START, 1)


def test_a_pool_of_another_dtype_is_moved_to_that_of_the_run():
    _, done = asked(Pool(pool(0.6).float()), lambda point: 1)
    assert done.returned.point.dtype == torch.float64


@pytest.mark.parametrize("shape", [(2, 3, 8, 8), (3, 16, 16), (2, 1, 16, 16)], ids=str)
def test_a_pool_of_another_shape_is_refused_in_words(shape):
    start = Pool(torch.zeros(shape))
    with pytest.raises(InputError) as error:
        drive(start(problem()), problem(), lambda point: 0)
    assert str(error.value) == (
        f"the pool has shape {shape}: expected (n, c, h, w) with images of shape (3, 16, 16)."
    )
    boundary = testing.half_space()
    [result] = tb.run(Begin(start), boundary.model(), boundary.source[None], [0], budget=100)
    assert result.stop is Stop.ATTACK_ERROR
    assert f"the pool has shape {shape}" in result.reason


# -- the given image ------------------------------------------------------------------------------


def towards(boundary, factor, first):
    """A point far behind the plane whose first pixel is `first`: it decides between 1 and 2."""
    point = 0.5 + 0.5 * testing._unit(0, SHAPE, factor).sign().view(SHAPE)
    point[0, 0, 0] = first
    assert int(boundary.labels(point[None])) == (2 if first > 0.5 else 1)
    return point


class Never:
    """A start that must not be asked."""

    def __call__(self, problem):
        raise AssertionError("there was a given image")


def test_a_given_image_is_asked_once_and_comes_before_the_start():
    boundary = testing.half_space()
    given = towards(boundary, 1, 1.0)
    cell = tb.attack.Cell(Begin(Never()), boundary.source, 0, limits=tb.Limits(100), start=given)
    [result] = tb.attack.run_cells([cell], boundary.model())
    assert result.stop is Stop.CONVERGED, result.reason
    assert result.ledger.counts == {"clean": {0: 1}, "start": {2: 1}}
    assert torch.equal(result.adversarial, given)


@pytest.mark.parametrize("preset", names())
def test_a_given_image_that_is_not_adversarial_is_no_start(preset):
    boundary = testing.half_space()
    near = boundary.source + 0.001
    attack = attack_of(preset)
    cell = tb.attack.Cell(
        attack, boundary.source, 0, limits=tb.Limits(100), start=near, norm=attack.metrics[0]
    )
    [result] = tb.attack.run_cells([cell], boundary.model())
    assert result.stop is Stop.NO_START
    assert result.ledger.counts == {"clean": {0: 1}, "start": {0: 1}}
    assert (result.distance, result.adversarial) == (math.inf, None)


@pytest.mark.parametrize("preset", names("l2"))
def test_every_preset_begins_from_the_given_image(preset):
    """The search from there is on the line to it: the first iterate lies on that line."""
    boundary = testing.half_space(factor=4)
    given = towards(boundary, 4, 1.0)
    cell = tb.attack.Cell(attack_of(preset), boundary.source, 0, limits=tb.Limits(400), start=given)
    [result] = tb.attack.run_cells([cell], boundary.model())
    began = sum(result.ledger.counts["start"].values())
    assert (
        began == 1 if not preset.startswith("frugal") else began > 1
    )  # which books its first search there
    normal = testing._unit(0, SHAPE, 4)
    ray = (given - boundary.source).flatten()
    wanted = norm(ray) / float(ray @ normal)  # where the line meets the plane at height 1
    assert result.trace[0].distance == pytest.approx(wanted, rel=0.15)
    assert result.trace[0].distance >= wanted


def test_a_start_of_another_shape_is_refused():
    boundary = testing.half_space()
    cell = tb.attack.Cell(
        tb.preset("hsja"), boundary.source, 0, limits=tb.Limits(100), start=torch.zeros(3, 8, 8)
    )
    with pytest.raises(InputError, match="the start of image 0 has shape"):
        tb.attack.run_cells([cell], boundary.model())


# -- targeted -------------------------------------------------------------------------------------


@pytest.mark.parametrize("ratio", [1, 10])
@pytest.mark.parametrize("target", [1, 2])
@pytest.mark.parametrize("preset", ["hsja", "cgba"])
def test_a_targeted_run_reaches_the_class_it_is_meant_for(preset, target, ratio):
    """Labels 1 and 2 lie on the far side of the plane, on two sides of the first pixel. An answer
    of the third class is no success, and costs 1 all the same: prices go by the label."""
    boundary = testing.half_space(factor=4)
    given = towards(boundary, 4, float(target - 1))
    prices = tb.Prices(ratio, 1)
    cell = tb.attack.Cell(
        at_side(tb.preset(preset), 224),  # low frequencies, in which the third class is met
        boundary.source,
        0,
        prices,
        tb.Limits(4000 * ratio),
        target=target,
        start=given,
    )
    [result] = tb.attack.run_cells([cell], boundary.model())
    assert result.stop is Stop.BUDGET
    assert int(boundary.labels(result.adversarial[None])) == target
    first = float(testing._unit(0, SHAPE, 4)[0])  # the optimum may have to avoid one pixel
    inside = (first > 0) == (target == 2)
    optimum = 1.0 if inside else 1 / math.sqrt(1 - first**2)
    assert optimum <= result.distance <= 1.25 * optimum
    counts = [result.ledger.counts[phase] for phase in result.ledger.counts]
    total = {label: sum(tally.get(label, 0) for tally in counts) for label in range(3)}
    if not inside:  # the first pixel turns back before the plane does
        assert total[3 - target] > 0
    assert result.ledger.cost == total[0] * ratio + total[1] + total[2]
    assert result.ledger.flagged == total[0]


def test_the_other_class_ends_a_search_like_the_source_does():
    """Along a line from class 2 through class 1 to the source: the boundary of class 2 is found."""
    source = torch.zeros(1, 1, 1, dtype=torch.float64)
    model = tb.models.from_callable(
        lambda images: (images.flatten() >= 0.2).long() + (images.flatten() >= 0.7).long(),
        dtype=torch.float64,
    )
    found = []

    class Searching:
        def __call__(self, problem):
            begun = yield from find_start(problem, Never())
            search = tb.preset("hsja").search
            found.append((yield from search(problem, Segment(problem.source, begun))))
            return Stop.CONVERGED

    given = torch.ones_like(source)
    cell = tb.attack.Cell(
        Searching(), source, 0, tb.Prices(50, 1), tb.Limits(9999), target=2, start=given
    )
    [result] = tb.attack.run_cells([cell], model)
    assert found[0].distance == pytest.approx(0.7, abs=1e-4)
    assert result.distance == found[0].distance
    assert result.ledger.counts["search"].get(0, 0) == 0
    assert result.ledger.cost == 50 + (result.ledger.queries - 1)


def test_an_asking_that_asks_nothing():
    one = problem()
    assert drive(at_once(3), one, lambda point: 0).returned == 3
