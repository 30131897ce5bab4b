"""DPAttack: its start beside a direct computation of the block DCT, its race and its flips on
boundaries that are known along each way."""

import math

import numpy as np
import pytest
import torch
from driver import drive
from scipy import fft, integrate

import tollbox as tb
from tollbox.attacks.dpattack import RHO, DPAttack, Runs, colour_image, dct_image, median_of
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
    live, best, tried = done.returned
    assert (live, best.theta, tried) == ([1], 0.375, 3 + 2 + 2)
    assert done.labels == [0, 1, 1, 0, 0, 1, 0]
    assert torch.equal(best.point, done.points[5])


def test_without_a_success_no_size_is_dropped():
    live, best, tried = raced((2, 2, 2)).returned
    assert (live, best, tried) == ([0, 1, 2], None, 30)


def test_the_race_continues_to_its_tolerance_with_the_sizes_that_are_left():
    live, best, tried = raced((0.9, 0.3, 0.4)).returned
    assert live == [1]
    assert 0.3 <= best.theta < 0.3 + 1 / 1024 + 1e-12
    assert tried == 3 + 2 + 2 + 7


def test_ways_that_are_equal_stay_together():
    live, best, _ = raced((0.6, 0.2, 0.2), until_one=True).returned
    assert live == [1, 2]
    assert 0.2 <= best.theta < 0.2 + 1 / 1024 + 1e-12


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


# -- flips ----------------------------------------------------------------------------------------


def test_runs_are_ordered_by_sign_and_cut_by_their_number():
    signs = torch.tensor([1, 1, -1, -1, 1, -1, 1, 1], dtype=torch.float64).view(1, 2, 4)
    runs = Runs(problem_of(torch.full((1, 2, 4), 0.5, dtype=torch.float64)), signs)
    assert runs.places.tolist() == [2, 3, 5, 0, 1, 4, 6, 7]
    assert runs.starts.tolist() == [0, 2, 3, 5, 6, 8]
    assert runs.cut((0, 8)) == [(0, 5), (5, 8)]  # three runs and two
    assert runs.cut((0, 2)) == [(0, 1), (1, 2)]  # one run, by its positions
    assert runs.cut((2, 3)) == [(2, 3)]
    flipped = runs.flipped(signs, (2, 5)).flatten().tolist()
    assert flipped == [-1, -1, -1, -1, 1, 1, 1, 1]


def test_a_mask_cuts_runs():
    mask = torch.tensor([1, 1, 0, 1, 1, 1, 0, 0], dtype=torch.bool).view(1, 2, 4)
    problem = problem_of(torch.full((1, 2, 4), 0.5, dtype=torch.float64), mask=mask)
    runs = Runs(problem, problem.only_mask(torch.ones((1, 2, 4), dtype=torch.float64)))
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
        signs, radius = done.returned
        assert torch.equal(signs, 0.5 * WAYS[wanted])
        assert min(radii) <= radius < max(radii[:2])
        assert done.labels[-2:].count(1) == 1  # they differ there


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
