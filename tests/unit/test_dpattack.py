"""DPAttack: its start beside a direct computation of the block DCT, its race and its flips on
boundaries that are known along each way."""

import math

import numpy as np
import pytest
import torch
from driver import drive
from scipy import fft, integrate

import tollbox as tb
from tollbox.attacks.dpattack import (
    RHO,
    BlockSigns,
    DPAttack,
    DPAttackL2,
    Runs,
    Signs,
    at,
    colour_image,
    dct_image,
    median_of,
)
from tollbox.core.ask import Iterate
from tollbox.core.metric import Metric
from tollbox.parts.searches import AsymmetricSearch, BinarySearch

SHAPE = (3, 16, 32)
TO_YCC = np.array([[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]])
TO_RGB = np.array([[1, 0, 1.402], [1, -0.344136, -0.714136], [1, 1.772, 0]])
BISECTION = BinarySearch(1 / 1024, relative=True)


def picture(shape=SHAPE, seed=5):
    noise = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (0.5 + 0.1 * noise.cumsum(-1).cumsum(-2) / 4).clamp(0, 1)


def problem_of(image, **more):
    return tb.attack.Problem(image, 0, norm=Metric.LINF, **more)


def direct(image, noise, size, chroma):
    """The image of d_n, block by block, with values from 0 to 255 and the factor 1/4 of JPEG."""
    planes = np.einsum("ij,jhw->ihw", TO_YCC, 255 * image)
    planes[0] -= 128
    scale = size / 8  # 1/4 in place of the orthonormal 2/size
    corners = [
        (row, column)
        for row in range(0, image.shape[1], size)
        for column in range(0, image.shape[2], size)
    ]
    changed = np.empty_like(planes)
    for plane, factor in ((0, 1.0), (1, chroma), (2, chroma)):
        parts = [planes[plane, r : r + size, c : c + size] for r, c in corners]
        found = [scale * fft.dctn(part, norm="ortho") for part in parts]
        variances = np.var(found, axis=0, ddof=1)
        for (r, c), coefficients in zip(corners, found, strict=True):
            z = noise[plane, r : r + size, c : c + size]
            moved = coefficients + factor * z * variances
            changed[plane, r : r + size, c : c + size] = scale * fft.idctn(moved, norm="ortho")
    changed[0] += 128
    return np.clip(np.einsum("ij,jhw->ihw", TO_RGB, changed) / 255, 0, 1)


@pytest.mark.parametrize("chroma", [0.0, 100.0])
@pytest.mark.parametrize("size", [2, 4, 8, 16])
def test_the_signs_of_the_start_are_those_of_the_block_dct(size, chroma):
    image = picture()
    problem = problem_of(image)
    noise = problem.noise("dct", size, 1, SHAPE)[0:1][0].numpy()
    found, wanted = dct_image(problem, size, chroma), direct(image.numpy(), noise, size, chroma)
    assert found.numpy() == pytest.approx(wanted, abs=1e-9)
    signs = DPAttack(BISECTION).toward(problem, found).numpy()
    assert np.array_equal(signs, np.where(wanted < image.numpy() - 1e-6, -1, 1))
    assert 0.05 < (signs > 0).mean() < 0.95
    other = dct_image(problem_of(image, seed=1), size, chroma)
    assert (other != found).double().mean() > 0.2


@pytest.mark.parametrize("shape", [(1, 9, 6), (3, 7, 7), (4, 5, 3), (3, 1, 1)])
def test_any_size_and_any_number_of_colours_has_a_start(shape):
    for size in (2, 4, 8):
        found = dct_image(problem_of(picture(shape)), size, 100.0)
        assert found.shape == shape
        assert (found >= 0).all()
        assert (found <= 1).all()
        assert colour_image(problem_of(picture(shape)), size).shape == shape


def test_random_colours_are_mixed_with_the_lowest_haar_band():
    image, size = picture(), 4
    problem = problem_of(image)
    bands = image.reshape(3, 4, 4, 8, 4).sum((2, 4)) / 4  # two levels: sums of 4x4 over 2^2
    uniform = torch.special.ndtr(problem.noise("colour", size, 1, (3, 4, 8))[0:1][0])
    low, high = bands.min(), bands.max()
    mixed = ((bands - low) / (high - low) * 0.5 + uniform * 0.5) * (high - low) + low
    wanted = (mixed / 4).repeat_interleave(4, 1).repeat_interleave(4, 2)
    assert torch.allclose(colour_image(problem, size), wanted)


# -- the race -------------------------------------------------------------------------------------

WAYS = [torch.zeros(SHAPE, dtype=torch.float64) for _ in range(3)]
for number, step in enumerate(WAYS):
    step[number] = 1


def beyond(*radii):
    """A label: 1 where the channel of some way is at its radius or farther from grey."""
    apart = 0.5 * torch.ones(SHAPE, dtype=torch.float64)

    def label(point):
        moved = (point - apart).amax((1, 2))
        return int(any(m >= 0.5 * r - 1e-12 for m, r in zip(moved.tolist(), radii, strict=True)))

    return label


def raced(radii, ratio=1, search=BISECTION, **more):
    """The race of three ways; each step is half as long as in an attack, so none is clipped."""
    problem = problem_of(0.5 * torch.ones(SHAPE, dtype=torch.float64), prices=tb.Prices(ratio, 1))
    attack = DPAttack(search, **more)
    return drive(attack.race(problem, [0.5 * way for way in WAYS]), problem, beyond(*radii))


def test_a_size_is_dropped_where_another_one_succeeds():
    done = raced((0.9, 0.3, 0.4), until_one=True)  # 1/2: the first is dropped; 3/8: the third
    assert done.returned == ([1], 0.375, {1: 0.375 / 2}, 3 + 2 + 2)
    assert done.labels == [0, 1, 1, 0, 0, 1, 0]


def test_without_a_success_no_size_is_dropped():
    assert raced((2, 2, 2)).returned == ([0, 1, 2], 1.0, {}, 30)


def test_the_race_continues_to_its_tolerance_with_the_sizes_that_are_left():
    live, radius, _, tried = raced((0.9, 0.3, 0.4)).returned
    assert live == [1]
    assert 0.3 <= radius < 0.3 + 1 / 1024 + 1e-12
    assert tried == 3 + 2 + 2 + 7


def test_ways_that_are_equal_stay_together():
    live, radius, distances, _ = raced((0.6, 0.2, 0.2), until_one=True).returned
    assert live == list(distances) == [1, 2]
    assert 0.2 <= radius < 0.2 + 1 / 1024 + 1e-12


def test_if_flagged_answers_are_expensive_the_race_comes_from_above():
    vanilla, other = (
        raced((0.9, 0.3, 0.4), 100, search(1 / 1024, relative=True), until_one=True)
        for search in (BinarySearch, AsymmetricSearch)
    )
    assert other.returned[0] == vanilla.returned[0] == [1]
    assert vanilla.flagged == 4
    assert other.flagged == 2  # one for each size that is dropped
    first = other.points[0][0].max() - 0.5
    assert 2 * float(first) == pytest.approx(1 - 11 / 1024)  # ceil(1024 / 101) bins of 1024


def test_if_flagged_answers_are_free_the_race_still_comes_to_its_end():
    search = AsymmetricSearch(1 / 1024, relative=True)
    live, radius, _, tried = raced((2, 2, 0.9), 0, search).returned
    assert live == [2]
    assert 0.9 <= radius < 0.9 + 1 / 1024 + 1e-12
    assert tried < 300


def test_a_single_size_races_to_the_tolerance():
    problem = problem_of(0.5 * torch.ones(SHAPE, dtype=torch.float64))
    race = DPAttack(BISECTION, until_one=True).race(problem, [0.5 * WAYS[0]])
    _, radius, _, tried = drive(race, problem, beyond(0.3, 9, 9)).returned
    assert 0.3 <= radius < 0.3 + 1 / 1024 + 1e-12
    assert tried == 10


@pytest.mark.parametrize("seed", range(4))
def test_of_ways_that_are_left_the_chosen_one_has_its_own_point(monkeypatch, seed):
    problem = tb.attack.Problem(picture(), 0, seed=seed)
    asked, noise = [], problem.noise

    def spied(purpose, step, rows, shape=None, like=None):
        asked.append((purpose, like is None or like is problem.source))
        return noise(purpose, step, rows, shape, like)

    def shrink(self, given, ways):
        for way in ways:
            point = at(given, [way.step], way.high)[0:1][0]
            assert torch.equal(way.found.point, point)
            assert way.found.distance == pytest.approx(float((point - given.source).norm()))
        return ways[1]
        yield

    monkeypatch.setattr(BlockSigns, "shrink", shrink)
    monkeypatch.setattr(problem, "noise", spied)
    attack = DPAttackL2(BISECTION, doublings=3, passes=1)
    drive(attack(problem), problem, lambda point: int((point - problem.source).norm() > 1e-3))
    assert ("size", False) in asked  # drawn on the host


@pytest.mark.parametrize("prices", [tb.Prices.flagged_only(), tb.Prices(1e6, 1)])
def test_if_other_answers_are_almost_free_comparisons_end(prices):
    attack = DPAttack(BISECTION, asymmetric=True)
    share, rounds = attack.share(problem_of(picture(), prices=prices), 0.2)
    assert (share, rounds) == (1 / 101, 162)
    boundary = tb.testing.half_space(factor=4, norm=Metric.LINF)
    limits = tb.Limits(50, max_queries=2000) if prices.other == 0 else tb.Limits(5e7, 2000)
    [result] = tb.run(
        "a-dpattack",
        boundary.model(),
        boundary.source[None],
        [0],
        prices=prices,
        limits=limits,
        norm="linf",
    )
    assert result.ledger.by_phase["fast check"] > 0
    assert result.ledger.flagged > 40


def test_it_declares_more_points_for_more_sizes():
    assert DPAttack(BISECTION, doublings=4).rows == 24
    assert DPAttack(BISECTION, doublings=12).rows == 40


# -- flips ----------------------------------------------------------------------------------------


def test_runs_are_ordered_by_sign_and_cut_by_their_number():
    signs = torch.tensor([1, 1, -1, -1, 1, -1, 1, 1], dtype=torch.float64).view(1, 2, 4)
    host = signs.flatten().to(torch.int8).numpy()
    runs = Runs(problem_of(torch.full((1, 2, 4), 0.5, dtype=torch.float64)), host)
    assert runs.places.tolist() == [2, 3, 5, 0, 1, 4, 6, 7]
    assert runs.starts.tolist() == [0, 2, 3, 5, 6, 8]
    assert runs.cut((0, 8)) == [(0, 5), (5, 8)]  # three runs and two
    assert runs.cut((0, 2)) == [(0, 1), (1, 2)]  # one run, by its positions
    assert runs.cut((2, 3)) == [(2, 3)]
    flipped = runs.flipped(signs, (2, 5)).flatten().tolist()
    assert flipped == runs.flipped_host(host, (2, 5)).tolist() == [-1, -1, -1, -1, 1, 1, 1, 1]


def test_a_mask_cuts_runs():
    mask = torch.tensor([1, 1, 0, 1, 1, 1, 0, 0], dtype=torch.bool).view(1, 2, 4)
    problem = problem_of(torch.full((1, 2, 4), 0.5, dtype=torch.float64), mask=mask)
    runs = Runs(problem, mask.flatten().to(torch.int8).numpy())
    assert runs.places.tolist() == [0, 1, 3, 4, 5]
    assert runs.starts.tolist() == [0, 2, 5]


@pytest.mark.parametrize("median", [False, True])
def test_of_two_flips_the_one_with_the_closer_boundary_wins(median):
    problem = problem_of(0.5 * torch.ones(SHAPE, dtype=torch.float64))
    for radii, wanted in (((0.3, 0.2, 9), 1), ((0.2, 0.3, 9), 0)):
        attack = DPAttack(BISECTION, median=median, rounds=30)
        start = Iterate(problem.source + 0.5 * WAYS[0], 0.5)
        asking = attack.compare(problem, [0.5 * way for way in WAYS[:2]], 1.0, start)
        done = drive(asking, problem, beyond(*radii))
        row, radius = done.returned
        assert row == wanted
        assert min(radii) <= radius < max(radii[:2])
        assert done.labels[-2:].count(1) == 1  # they differ there


def flipped(shape, label, *, found=False, mask=None, **more):
    """The flips from a perturbation of ones at radius 0.5, around grey."""
    problem = problem_of(torch.full(shape, 0.5, dtype=torch.float64), mask=mask)
    attack = DPAttack(BISECTION, **more)
    asking = attack.flip(problem, Signs.of(problem, torch.ones_like(problem.source)), 0.5, found, 0)
    return drive(asking, problem, label)


def test_values_without_an_effect_are_not_flipped_for_ever():
    done = flipped((3, 4, 4), lambda point: int(point[0].mean() >= 0.75), found=True, passes=50)
    assert done.returned is tb.Stop.CONVERGED
    assert len(done.points) < 2000


@pytest.mark.parametrize("masked", [False, True])
def test_signs_are_read_from_the_device_once(monkeypatch, masked):
    mask = torch.ones(3, 8, 8, dtype=torch.bool)
    mask[:, :2] = False
    reads, passes, numpy, init = [], [], torch.Tensor.numpy, Runs.__init__

    def reading(self, *args, **kwargs):
        reads.append(self.dtype)
        return numpy(self, *args, **kwargs)

    def counted(self, *args):
        passes.append(args)
        init(self, *args)

    monkeypatch.setattr(torch.Tensor, "numpy", reading)
    monkeypatch.setattr(Runs, "__init__", counted)
    wanted = torch.where(picture((3, 8, 8)) > 0.5, 1.0, -1.0)

    def label(point):
        return int(((point - 0.5) * wanted).mean() >= 0.02)

    flipped((3, 8, 8), label, mask=mask if masked else None)
    assert len(passes) > 2
    others = (torch.float32, torch.bool)  # the image, for its hash, and the mask, on the host
    assert [dtype for dtype in reads if dtype not in others] == [torch.int8]


@pytest.mark.parametrize("signs", [(1, -1), (1, 1, -1), (-1, 1, -1)])
def test_of_an_image_with_two_or_three_values_each_is_flipped(signs):
    wanted = torch.tensor(signs, dtype=torch.float64).view(1, 1, -1)
    done = flipped(wanted.shape, lambda point: int(((point - 0.5) * wanted > 0.1).all()))
    assert done.returned is (tb.Stop.NO_START if signs == (-1, 1, -1) else tb.Stop.CONVERGED)
    assert len({tuple(point.flatten().tolist()) for point in done.points}) > 3


def test_the_median_reduction_halves_the_density():
    a, b, c, d = RHO
    for low, high in ((0.0, 1.0), (0.2, 0.7)):
        mass = [
            integrate.quad(lambda x: a / (x + d) ** b + c, low, end)[0]
            for end in (median_of(low, high), high)
        ]
        assert mass[0] / mass[1] == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_at_equal_prices_the_asymmetric_form_sends_the_same_queries(norm):
    boundary = tb.testing.half_space(factor=4, norm=Metric(norm))
    names = ("dpattack", "a-dpattack") if norm == "linf" else ("dpattack-l2", "a-dpattack-l2")
    results = [
        tb.run(name, boundary.model(), boundary.source[None], [0], budget=900, norm=norm)[0]
        for name in names
    ]
    one, other = results
    assert torch.equal(one.adversarial, other.adversarial)
    assert one.ledger.by_phase == other.ledger.by_phase
    assert {"start", "fast check", "shrink"} <= set(one.ledger.by_phase)


def test_on_a_small_image_it_finds_the_signs_of_the_plane_and_stops():
    boundary = tb.testing.half_space(0.5, (3, 4, 4), seed=1, norm=Metric.LINF)
    [result] = tb.run(
        "dpattack", boundary.model(), boundary.source[None], [0], budget=20_000, norm="linf"
    )
    assert result.stop is tb.Stop.CONVERGED
    assert 1 <= result.distance / boundary.optimum <= 1.05
    assert math.isfinite(result.ledger.cost)
