"""Directions: of length 1, across those before, with the image's own spectrum, and no NaN."""

from __future__ import annotations

import math

import pytest
import torch

import tollbox as tb
from tollbox import testing
from tollbox.parts.directions import TernarySpectrum
from tollbox.parts.subspaces import Dct, Full

SHAPE = (3, 16, 16)
SPACES = [Full(), Dct(2), Dct(4), Dct(2, block=8)]


def picture(shape=SHAPE, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(shape, generator=generator, dtype=torch.float64).to(dtype)


def outward(image):
    """A way from the source to a first boundary point."""
    return testing._unit(7, tuple(image.shape)).view(image.shape).to(image.dtype)


def turns(part, image, count, seed=0, of=None, away=None):
    """The first `count` directions of `of` or so many, as rows."""
    away = outward(image) if away is None else away
    turn = part.begin(tb.attack.Problem(image, 0, seed=seed), of or count, away)
    return torch.stack([next(turn) for _ in range(count)])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("space", SPACES, ids=str)
def test_directions_have_length_one_and_lie_in_the_subspace(space, dtype):
    image = picture(dtype=dtype)
    found = turns(TernarySpectrum(space), image, 40)
    assert (found.shape, found.dtype) == ((40, *SHAPE), dtype)
    exact = 1e-12 if dtype == torch.float64 else 1e-5
    lengths = torch.linalg.vector_norm(found.flatten(1), dim=1)
    assert torch.allclose(lengths, torch.ones_like(lengths), atol=exact)
    inside = space.expand(space.project(found), SHAPE)
    assert torch.allclose(inside, found, atol=exact)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("memory", [1, 7, 100])
def test_each_is_across_the_last_ones_that_are_kept(memory, dtype):
    """Of `memory` before it, and half as many more at most: that beyond is not asked for."""
    found = turns(TernarySpectrum(Full(), memory=memory), picture(dtype=dtype), 130)
    cosines = (found.flatten(1) @ found.flatten(1).T).double().numpy()
    exact = 1e-10 if dtype == torch.float64 else 1e-3
    near = [cosines[i, j] for i in range(130) for j in range(max(0, i - memory), i)]
    assert max(map(abs, near)) < exact
    if memory < 100:
        most = memory + math.ceil(memory / 2)
        far = [cosines[i, j] for i in range(130) for j in range(max(0, i - most))]
        assert max(map(abs, far)) > 0.1  # random ones have a standard deviation of 1/sqrt(768)


@pytest.mark.parametrize("memory", [0, 9, 100])
@pytest.mark.parametrize("space", SPACES, ids=str)
def test_each_is_across_the_way_to_the_first_boundary_point(space, memory):
    image = picture()
    found = turns(TernarySpectrum(space, memory=memory), image, 50).flatten(1)
    assert (found @ outward(image).flatten()).abs().max() < 1e-12


def test_without_a_memory_they_are_just_drawn():
    found = turns(TernarySpectrum(Dct(2), memory=0), picture(), 20).flatten(1)
    cosines = found @ found.T - torch.eye(20)
    assert torch.allclose(torch.linalg.vector_norm(found, dim=1), torch.ones(20).double())
    assert cosines.abs().max() > 0.01


def test_the_weights_are_the_spectrum_of_the_image():
    """One cosine wave on mid-grey: directions are its frequency, the mean, and almost nothing
    else. tanh(gamma |coefficient|) + floor: a coefficient of 0 keeps the floor's 0.001."""
    space = Dct(2)
    spectrum = torch.zeros(space.shape(SHAPE), dtype=torch.float64)
    spectrum[:, 0, 0] = 0.5 * 16
    spectrum[1, 2, 3] = 1.3
    spectrum[2, 5, 0] = 0.2
    image = space.expand(spectrum[None], SHAPE)[0]
    assert image.min() >= 0
    assert image.max() <= 1
    part = TernarySpectrum(space, gamma=0.7, floor=1e-3, memory=0)
    nowhere = torch.zeros_like(image)  # so that nothing is taken off what was drawn
    found = space.project(turns(part, image, 400, away=nowhere))
    check_ternary(found, torch.tanh(0.7 * spectrum) + 1e-3)
    quiet = spectrum == 0
    typical = found.abs().mean(0)
    assert typical[quiet].max() < 0.002
    assert typical[1, 2, 3] > 0.2
    # or by the coefficients themselves, of the image less a grey: it has no mean then
    plain = TernarySpectrum(space, gamma=None, centre=0.5, floor=1e-6, memory=0)
    wanted = torch.full_like(spectrum, 1e-6)
    wanted[1, 2, 3] += 1.3
    wanted[2, 5, 0] += 0.2
    check_ternary(space.project(turns(plain, image, 400, away=nowhere)), wanted)


def check_ternary(found, wanted):
    """Entries are -w, 0 or w, up to the length of each row."""
    for row in found:
        if float(row.abs().max() / row.abs().median().clamp_min(1e-300)) < 10:
            continue  # nothing but the floor was drawn
        loudest = row.abs().argmax()
        ratio = row / wanted * (wanted.flatten()[loudest] / row.flatten()[loudest])
        assert torch.allclose(ratio, ratio.round(), atol=1e-6)
        assert ratio.abs().max() < 1.01


def test_a_larger_gamma_flattens_the_spectrum():
    image, space = picture(), Dct(2)

    def spread(gamma):
        found = space.project(turns(TernarySpectrum(space, gamma=gamma, memory=0), image, 50))
        kept = found.abs().flatten(1)
        return float((kept.max(1).values / kept.median(1).values.clamp_min(1e-9)).median())

    assert spread(100.0) < 1.5 < spread(0.01)


def test_each_coefficient_is_minus_one_nothing_or_one_with_a_third_each():
    """200 rows of 768 coefficients: n = 153 600, so a share's standard error is 0.0012. Chi-square
    with 2 degrees of freedom exceeds 24 by chance with probability 6e-6; a share of 0.345 in place
    of 1/3 (cut at 0.447 for 0.431) gives 95 and is seen with a probability above .999."""
    part = TernarySpectrum(Full(), memory=0, floor=1.0)
    found = turns(part, picture(), 200, away=torch.zeros(SHAPE).double())
    counts = torch.tensor([(found < 0).sum(), (found == 0).sum(), (found > 0).sum()]).double()
    wanted = found.numel() / 3
    assert float(((counts - wanted) ** 2 / wanted).sum()) < 24
    # and independently of each other: neighbours have the same sign as often as not
    signs = found.sign().flatten(1)
    products = (signs[:, 1:] * signs[:, :-1]).mean()
    assert abs(float(products)) < 5 * math.sqrt(4 / 9 / (200 * 767))


@pytest.mark.parametrize("space", SPACES, ids=str)
@pytest.mark.parametrize("level", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("shape", [(1, 16, 16), (3, 16, 16)], ids=str)
def test_an_image_of_one_grey_gives_no_nan(space, level, shape):
    """Its spectrum is nothing but the mean: the floor keeps the others alive."""
    found = turns(TernarySpectrum(space), torch.full(shape, level), 200)
    assert found.isfinite().all()
    lengths = torch.linalg.vector_norm(found.flatten(1), dim=1)
    assert torch.allclose(lengths, torch.ones_like(lengths), atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("space", [Full(), Dct(2), Dct(2, block=8), Dct(1)], ids=str)
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 1, 2), (1, 2, 2), (3, 2, 2), (1, 3, 5)], ids=str)
def test_tiny_images_give_no_nan(shape, space, dtype):
    """There are fewer dimensions than the memory, so fewer than half of them are kept. A row may
    be 0 where all of a few coefficients were drawn 0; it is then no direction, but a number."""
    found = turns(TernarySpectrum(space), picture(shape, dtype=dtype), 200)
    assert found.isfinite().all()
    lengths = torch.linalg.vector_norm(found.flatten(1), dim=1)
    assert (torch.isclose(lengths, torch.ones_like(lengths), atol=1e-3) | (lengths == 0)).all()
    # Nothing is left of a row with a probability of 1/3 (one dimension: drawn 0; two: drawn 0, or
    # along the one before) or less: of 200 rows 67, with a standard deviation of 6.7; 100 are five.
    assert (lengths == 0).sum() <= 100


@pytest.mark.parametrize("space", [Full(), Dct(2)], ids=str)
@pytest.mark.parametrize("shape", [(1, 2, 2), (3, 2, 2), (1, 3, 5)], ids=str)
def test_on_tiny_images_they_are_across_half_of_the_dimensions(shape, space):
    """A row that lies among those before it leaves nothing but rounding, which is no direction."""
    found = turns(TernarySpectrum(space), picture(shape), 200).flatten(1)
    kept = (space.dimension(shape) - 1) // 2
    cosines = found @ found.T
    near = [float(cosines[i, j]) for i in range(200) for j in range(max(0, i - kept), i)]
    assert all(abs(cosine) < 1e-6 for cosine in near)  # which no NaN is


def test_a_black_image_without_a_floor_has_no_directions_and_no_nan():
    part = TernarySpectrum(floor=0.0)
    assert turns(part, torch.zeros(SHAPE), 20).isfinite().all()


@pytest.mark.parametrize("preset", ["surfree", "a-surfree", "surfree-original"])
@pytest.mark.parametrize("shape", [(1, 2, 2), (1, 1, 1)], ids=str)
def test_surfree_on_tiny_images_ends_with_a_reason_and_a_distance(preset, shape):
    boundary = testing.half_space(0.2, shape)
    result, faults = testing.check_attack(tb.preset(preset), boundary, budget=600)
    assert faults == []
    assert math.isfinite(result.distance)


def test_they_are_a_function_of_the_seed_and_the_image():
    part, image = TernarySpectrum(), picture()
    one = turns(part, image, 40)
    assert torch.equal(one, turns(part, image, 40))
    assert torch.equal(one, turns(part, image, 40, of=100_000))  # how many there may be is nothing
    assert not torch.allclose(one, turns(part, image, 40, seed=1), atol=0.01)
    assert not torch.allclose(one, turns(part, picture(seed=1), 40), atol=0.01)


def test_two_images_under_way_have_a_memory_each():
    part = TernarySpectrum()
    wanted = turns(part, picture(), 20), turns(part, picture(seed=1), 20)
    one, other = (
        part.begin(tb.attack.Problem(picture(seed=k), 0), 20, outward(picture(seed=k)))
        for k in (0, 1)
    )
    mixed = [(next(one), next(other)) for _ in range(20)]
    assert torch.equal(torch.stack([a for a, _ in mixed]), wanted[0])
    assert torch.equal(torch.stack([b for _, b in mixed]), wanted[1])


def test_rows_says_how_much_is_held():
    assert TernarySpectrum(memory=100).rows == 133


def test_the_dropped_coefficients_are_those_with_the_highest_sums_of_frequencies():
    image = picture()
    part = TernarySpectrum(Dct(1), gamma=1e6, memory=10, dropped=0.5)
    away = Dct(2).expand(torch.ones(1, 3, 8, 8, dtype=image.dtype), SHAPE)[0]
    found = Dct(1).project(turns(part, image, 20, away=away))
    sums = torch.arange(16)[:, None] + torch.arange(16)
    drawn = (found.abs() > 1e-9).any(0)
    assert drawn[:, sums < 15].all()
    assert not drawn[:, sums > 15].any()
    assert drawn.sum() == 3 * 16 * 16 // 2
