"""Priors: lengths, spectra and effective dimensions against draws and closed forms."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.fft
import torch

import tollbox as tb
from tollbox import testing
from tollbox.parts.priors import BRIGHTNESS, Photo, Reweighed, Spectrum, Texture
from tollbox.parts.subspaces import Dct, Full

SHAPES = [(3, 16, 16), (1, 8, 8), (3, 17, 9), (2, 5, 12), (3, 1, 2), (1, 1, 1)]
PRIORS = [Spectrum(), Spectrum(4, 0.9), Texture(cut=5), Photo(), Photo(0), Photo(1), Reweighed()]
LIGHT = np.array(BRIGHTNESS) / np.linalg.norm(BRIGHTNESS)


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


def picture(shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(shape, generator=generator, dtype=torch.float64).to(dtype)


def drawn(prior, shape=(3, 16, 16), count=400, source=None, point=None, length=1.0):
    problem = tb.attack.Problem(picture(shape) if source is None else source, 0)
    drawing = prior.begin(problem)
    drawing = drawing.at(problem.source.flip(-1) if point is None else point)
    return drawing(problem.noise("test", 0, count, drawing.shape)[0:count], length)


def transformed(images):
    return scipy.fft.dctn(images.numpy(), axes=(2, 3), norm="ortho")


def frequency(shape):
    return np.hypot(np.arange(shape[1])[:, None], np.arange(shape[2])[None, :])


# -- what holds of all ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("prior", [*PRIORS, Full(), Dct(2)], ids=str)
def test_lengths_are_exact(prior, shape, dtype):
    if prior == Photo(0) and shape == (1, 1, 1):
        pytest.skip("two parts of one pixel, +1 and -1, may cancel out")
    source = picture(shape, dtype=dtype)
    point = (source + 0.1).clamp(0, 1)
    for length in (1.0, 0.03):
        images = drawn(prior, shape, 20, source, point, length)
        assert (images.shape, images.dtype) == ((20, *shape), dtype)
        norms = torch.linalg.vector_norm(images, dim=(1, 2, 3)).double()
        exact = 1e-12 if dtype == torch.float64 else 1e-5
        assert torch.allclose(norms, torch.full((20,), length).double(), rtol=exact)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("shape", [*SHAPES, (3, 25, 33), (1, 28, 28), (3, 60, 62)], ids=str)
@pytest.mark.parametrize("prior", [*PRIORS, Spectrum(1), Spectrum(7), Dct(2)], ids=str)
def test_rows_do_not_depend_on_the_slice_they_are_drawn_in(prior, shape, dtype):
    problem = tb.attack.Problem(picture(shape, dtype=dtype), 0)
    drawing = prior.begin(problem).at(problem.source + 0.1)
    rows = problem.noise("test", 0, 40, drawing.shape)[0:40]
    whole = drawing(rows, 1.0)
    for count in (1, 2, 7, 40):
        for first in (0, 1, 40 - count) if count < 40 else (0,):
            part = slice(first, first + count)
            assert torch.equal(drawing(rows[part], 1.0), whole[part])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_draws_do_not_depend_on_where_in_a_batch_the_image_lies(prior, shape):
    batch = picture((7, *shape), dtype=torch.float32)
    for image in batch:
        alone = drawn(prior, shape, 3, image.clone(), image.flip(-1))
        assert torch.equal(drawn(prior, shape, 3, image, image.flip(-1)), alone)


@pytest.mark.parametrize("level", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_an_image_of_one_colour_has_directions_too(level, shape, dtype):
    source = torch.full(shape, level, dtype=dtype)
    for prior in (Texture(), Texture(power=0), Photo()):
        images = drawn(prior, shape, 20, source, source)
        assert images.isfinite().all()
        norms = torch.linalg.vector_norm(images, dim=(1, 2, 3))
        assert torch.allclose(norms, torch.ones(20, dtype=dtype), rtol=1e-5)


@pytest.mark.parametrize("shape", [(3, 16, 16), (1, 12, 12)], ids=str)
@pytest.mark.parametrize("prior", [Spectrum(5, 0.7), Spectrum(4, 0.2), Spectrum(56, 1)], ids=str)
def test_the_dimension_is_the_participation_number_of_the_spectrum(prior, shape):
    """1 / tr(S^2), S the covariance of unit directions: for two independent draws E<v, w>^2 is
    tr(S^2). 400 draws make 79 800 pairs, which the rows' own spread makes worth some thousands: a
    relative standard error of about 3 %. A quarter more or less is seen with power .99."""
    vectors = drawn(prior, shape).flatten(1)
    products = (vectors @ vectors.T).square()
    mean = float((products.sum() - products.diagonal().sum()) / (400 * 399))
    assert prior.dimension(shape) == pytest.approx(1 / mean, rel=0.15)


def test_dimensions_by_hand():
    """Frequencies below 2.5 in the corner of a transform: (0..2)^2 less (2, 2), hence 8."""
    assert Spectrum(2.5, 1 / 3).dimension((3, 16, 16)) == 3 * 8
    assert Spectrum(2.5, 1).dimension((3, 16, 16)) == 8
    assert Spectrum(2.5, 0.7).dimension((1, 16, 16)) == 8
    assert Spectrum(2.5, 0.7).dimension((3, 16, 16)) == round(8 / (0.49 + 0.045))
    assert Texture(cut=2.5).dimension((3, 16, 16)) == 8
    assert Reweighed(cut=2.5).dimension((3, 16, 16)) == 3 * 8
    assert Spectrum(1).dimension((1, 16, 16)) == 1
    parts = Photo(0.5, 3, 4).parts
    assert [share for share, _ in parts] == [0.5, 0.25, 0.25]
    each = [part.dimension((3, 16, 16)) for _, part in parts]
    wanted = 1 / (0.25 / each[0] + 0.0625 / each[1] + 0.0625 / each[2])
    assert Photo(0.5, 3, 4).dimension((3, 16, 16)) == round(wanted)


# -- spectra --------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [1, 2.5, 6, 40])
@pytest.mark.parametrize("shape", [(3, 16, 16), (1, 17, 9)], ids=str)
def test_nothing_is_drawn_at_or_above_the_cut_and_the_rest_is_even(cut, shape):
    """400 draws of c channels: the energy of one frequency has a relative standard error of
    sqrt(2 / 400 c) = 0.041 (c = 3, one energy each) or 0.071; 6 of them for 250 frequencies."""
    energy = (transformed(drawn(Spectrum(cut, 1 / 3), shape)) ** 2).mean(0).sum(0)
    below = frequency(shape) < cut
    assert energy[~below].max(initial=0) < 1e-24
    even = energy[below] * below.sum()
    assert even.mean() == pytest.approx(1)
    assert np.abs(even - 1).max() < 6 * math.sqrt(2 / (400 * shape[0]))


@pytest.mark.parametrize("grey", [0.0, 1 / 3, 0.7, 0.9, 1.0])
def test_a_share_of_the_energy_is_brightness(grey):
    """400 draws of 208 frequencies: a standard error below 0.003, as energies of one draw are
    means of 200 or more. 0.02 is 6 of them."""
    images = drawn(Spectrum(14, grey)).numpy()
    bright = np.einsum("nchw,c->nhw", images, LIGHT)
    assert (bright**2).sum((1, 2)).mean() == pytest.approx(grey, abs=0.02)
    colour = images - np.einsum("nhw,c->nchw", bright, LIGHT)
    assert (colour**2).sum((1, 2, 3)).mean() == pytest.approx(1 - grey, abs=0.02)


def test_the_parts_of_a_photo_have_their_shares():
    """The texture is across the spectra only on average: draws of the parts alone are compared."""
    problem = tb.attack.Problem(picture((3, 16, 16)), 0)
    prior = Photo(0.5, 4, 8)
    drawing = prior.begin(problem)
    rows = problem.noise("test", 0, 50, drawing.shape)[0:50]
    images, first, total = drawing(rows, 1.0), 0, 0
    for share, part in prior.parts:
        alone = part.begin(problem)
        size = math.prod(alone.shape)
        piece = rows.flatten(1)[:, first : first + size].reshape(-1, *alone.shape)
        total, first = total + math.sqrt(share) * alone(piece, 1.0), first + size
    assert first == math.prod(drawing.shape)
    wanted = total / torch.linalg.vector_norm(total, dim=(1, 2, 3), keepdim=True)
    assert torch.allclose(images, wanted, atol=1e-12)


# -- texture --------------------------------------------------------------------------------------


def test_texture_is_where_the_image_has_some():
    """Half of the image is flat: a window away from the edge hardly anything is drawn there."""
    source = picture((3, 32, 32))
    source[:, :, 16:] = 0.5
    energy = drawn(Texture(power=1.5, cut=8), count=200, source=source).square().mean((0, 1))
    assert float(energy[:, 20:].mean()) < 0.1 * float(energy[:, :12].mean())


def test_texture_is_the_images_own_times_smooth_factors():
    """Every draw over the base is of frequencies below the cut, and the same in all channels."""
    problem = tb.attack.Problem(picture((3, 16, 16)), 0)
    drawing = Texture(cut=4).begin(problem)
    images = drawing(problem.noise("test", 0, 5, drawing.shape)[0:5], 1.0)
    factors = transformed(images / drawing._base)
    assert np.abs(factors[:, :, frequency((3, 16, 16)) >= 4]).max() < 1e-9
    assert np.allclose(factors, factors[:, :1])
    assert np.abs(factors).max() > 1e-3


# -- the perturbation's own parts -----------------------------------------------------------------


def bands(away, low, high):
    """Of an image: its frequencies below `low`, up to `high`, and above."""
    f, coefficients = frequency(away.shape), scipy.fft.dctn(away, axes=(1, 2), norm="ortho")
    keep = [f < low, (f >= low) & (f < high), f >= high]
    return [scipy.fft.idctn(coefficients * k, axes=(1, 2), norm="ortho") for k in keep]


def test_reweighed_draws_lie_in_the_span_of_bands_times_factors():
    """A least-squares fit by the products of the three bands with the waves below the cut leaves
    nothing, and needs all of them."""
    shape, part = (3, 12, 12), Reweighed(cut=2.5, low=4, high=8)
    source = picture(shape)
    point = (source + 0.2 * (picture(shape, 1) - 0.5)).clamp(0, 1)
    images = drawn(part, shape, 60, source, point).flatten(1).numpy()
    columns = []
    for band in bands((point - source).numpy(), 4, 8):
        for i, j in np.argwhere(frequency(shape) < 2.5):
            wave = np.zeros((12, 12))
            wave[i, j] = 1
            columns.append((band * scipy.fft.idctn(wave, norm="ortho")).ravel())
    span = np.stack(columns, 1)
    assert span.shape[1] == part.dimension(shape) == 24
    left = images.T - span @ np.linalg.lstsq(span, images.T, rcond=None)[0]
    assert np.abs(left).max() < 1e-10
    assert np.linalg.matrix_rank(images, tol=1e-8) == 24


def test_reweighed_draws_change_with_the_point_and_not_with_its_distance():
    source, one, other = (picture((3, 12, 12), seed) for seed in range(3))
    images = [drawn(Reweighed(), (3, 12, 12), 5, source, point) for point in (one, other)]
    assert not torch.allclose(*images, atol=1e-3)
    nearer = drawn(Reweighed(), (3, 12, 12), 5, source, source + 0.01 * (one - source))
    assert torch.allclose(nearer, images[0], atol=1e-9)


def test_at_the_source_itself_there_is_nothing_to_reweigh():
    source = picture((3, 12, 12))
    assert not drawn(Reweighed(), (3, 12, 12), 5, source, source).any()


# -- in other attacks -----------------------------------------------------------------------------


@pytest.mark.parametrize("preset", ["cgba", "a-cgba", "cgba+calibrated", "stealthy-geoda"])
@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_every_prior_can_take_the_place_of_a_subspace(preset, prior):
    """Without it an estimate that begins a drawing but never tells it the point would go unseen."""
    boundary = testing.half_space(0.3, (3, 8, 8))
    attack = tb.preset(preset)
    attack = replace(attack, estimate=replace(attack.estimate, subspace=prior))
    cell = tb.attack.Cell(attack, boundary.source, 0, limits=tb.Limits(400))
    [result] = tb.attack.run_cells([cell], boundary.model())
    assert result.stop is tb.Stop.BUDGET, result.reason
    assert result.ledger.by_phase["estimate"] > 0
