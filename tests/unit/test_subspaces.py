"""Subspaces: coordinates that keep lengths, and that agree with SciPy's cosine transform."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.fft
import torch

from tollbox.errors import InputError
from tollbox.parts.subspaces import Dct, Full, cosine_basis

SHAPES = [(3, 16, 16), (1, 8, 8), (3, 17, 9), (1, 1, 5), (2, 10, 23), (1, 1, 1)]
"""Square, grey, neither side a multiple of 8 or of a factor, a single row, a single pixel."""
ODD_SHAPES = [*SHAPES, (1, 28, 28), (3, 5, 7), (1, 33, 64), (3, 64, 33), (3, 25, 25), (1, 30, 14)]
SLICES = [slice(first, first + n) for n in (1, 2, 7) for first in (0, 1, 40 - n)]
SLICES += [slice(0, 40)]
SPACES = [Full(), Dct(1), Dct(2), Dct(3), Dct(4), Dct(2.5), Dct(100), Dct(2, block=8)]
SPACES += [Dct(1, block=8), Dct(4, block=8), Dct(3, block=5), Dct(2, block=1), Dct(2, block=1000)]


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


def images(shape, count=4, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn((count, *shape), generator=generator, dtype=dtype)


@pytest.mark.parametrize("block", [None, 1, 3, 8, 1000])
@pytest.mark.parametrize("factor", [1, 1.5, 2, 3, 4, 50])
@pytest.mark.parametrize("side", [1, 2, 7, 8, 9, 16, 29])
def test_columns_are_orthonormal(side, factor, block):
    columns = cosine_basis(side, factor, block)
    assert np.allclose(columns.T @ columns, np.eye(columns.shape[1]), atol=1e-13)
    assert columns.shape[1] <= side


@pytest.mark.parametrize("block", [None, 3, 8])
@pytest.mark.parametrize("side", [1, 7, 8, 9, 29])
def test_at_factor_one_the_basis_is_that_of_the_whole_space(side, block):
    assert cosine_basis(side, 1, block).shape == (side, side)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("space", SPACES, ids=str)
def test_lengths_and_angles_are_kept(space, shape, dtype):
    exact = 1e-12 if dtype == torch.float64 else 2e-5
    rows = images(space.shape(shape), dtype=dtype)
    expanded = space.expand(rows, shape)
    assert (expanded.shape, expanded.dtype) == ((4, *shape), dtype)
    inner, outer = (x.flatten(1) @ x.flatten(1).T for x in (rows, expanded))
    assert torch.allclose(inner, outer, atol=exact * max(1.0, float(inner.abs().max())))
    assert torch.allclose(space.project(expanded), rows, atol=exact)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("space", SPACES, ids=str)
def test_project_is_the_adjoint_and_what_it_leaves_is_across(space, shape):
    pictures, rows = images(shape, seed=1), images(space.shape(shape), seed=2)
    projected = space.project(pictures)
    assert projected.shape == (4, *space.shape(shape))
    left = (projected.flatten(1) * rows.flatten(1)).sum(1)
    right = (pictures.flatten(1) * space.expand(rows, shape).flatten(1)).sum(1)
    assert torch.allclose(left, right, atol=1e-11)
    rest = pictures - space.expand(projected, shape)
    assert space.project(rest).abs().max() < 1e-12
    if math.prod(space.shape(shape)) == math.prod(shape):  # the whole space: nothing is left
        assert rest.abs().max() < 1e-12
    else:
        assert rest.abs().max() > 1e-3


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_whole_transform_is_scipys(shape):
    pictures = images(shape)
    found = Dct(1).project(pictures).numpy()
    assert np.allclose(found, scipy.fft.dctn(pictures.numpy(), axes=(2, 3), norm="ortho"))
    back = Dct(1).expand(pictures, shape).numpy()
    assert np.allclose(back, scipy.fft.idctn(pictures.numpy(), axes=(2, 3), norm="ortho"))


@pytest.mark.parametrize("factor", [2, 3, 4])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_part_of_the_transform_is_its_lowest_frequencies(shape, factor):
    """Coefficients that are not kept are 0 in SciPy's inverse transform."""
    space = Dct(factor)
    channels, high, wide = space.shape(shape)
    assert (high, wide) == (math.ceil(shape[1] / factor), math.ceil(shape[2] / factor))
    rows = images((channels, high, wide))
    padded = np.zeros((4, *shape))
    padded[:, :, :high, :wide] = rows.numpy()
    wanted = scipy.fft.idctn(padded, axes=(2, 3), norm="ortho")
    assert np.allclose(space.expand(rows, shape).numpy(), wanted)


@pytest.mark.parametrize(("block", "factor"), [(8, 1), (8, 2), (8, 3), (5, 2)])
@pytest.mark.parametrize("shape", [(3, 16, 16), (1, 24, 8), (2, 17, 9), (1, 3, 20)], ids=str)
def test_in_blocks_it_is_scipys_transform_of_every_block(shape, block, factor):
    """Also of the last ones, which are smaller where the side is not a multiple of the block."""
    space, picture = Dct(factor, block=block), images(shape, 1)
    found = space.project(picture)[0].numpy()
    plane = picture[0].numpy()
    rows = [range(i, min(i + block, shape[1])) for i in range(0, shape[1], block)]
    columns = [range(i, min(i + block, shape[2])) for i in range(0, shape[2], block)]
    wanted = [
        [
            scipy.fft.dctn(plane[:, r.start : r.stop, c.start : c.stop], axes=(1, 2), norm="ortho")[
                :, : math.ceil(len(r) / factor), : math.ceil(len(c) / factor)
            ]
            for c in columns
        ]
        for r in rows
    ]
    assert np.allclose(found, np.block(wanted))


def test_a_block_as_large_as_the_image_is_the_whole_transform():
    picture = images((3, 8, 6))
    for block in (8, 9, 100):
        assert torch.equal(Dct(2, block=block).project(picture), Dct(2).project(picture))


@pytest.mark.parametrize(
    ("space", "image", "wanted"),
    [
        (Full(), (3, 224, 224), 150_528),
        (Dct(1), (3, 224, 224), 150_528),
        (Dct(2), (3, 224, 224), 3 * 112 * 112),
        (Dct(3), (3, 224, 224), 3 * 75 * 75),
        (Dct(4), (3, 224, 224), 9408),
        (Dct(2, block=8), (3, 224, 224), 3 * 112 * 112),
        (Dct(4), (3, 299, 299), 3 * 75 * 75),
        (Dct(4), (1, 28, 28), 49),
        (Dct(2, block=8), (3, 20, 9), 3 * (4 + 4 + 2) * (4 + 1)),
        (Dct(1000), (3, 32, 32), 3),
    ],
    ids=str,
)
def test_the_effective_dimension(space, image, wanted):
    assert space.dimension(image) == wanted


def test_the_columns_are_smooth():
    """Number k of the lowest frequencies changes its sign k times: none higher gets in."""
    columns = cosine_basis(16, 2)
    changes = [(np.diff(np.sign(column)) != 0).sum() for column in columns.T]
    assert changes == list(range(8))


@pytest.mark.slow
@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("shape", ODD_SHAPES, ids=str)
def test_rows_do_not_depend_on_those_beside_them(shape, dtype):
    for space in SPACES:
        rows = images(space.shape(shape), 40, dtype)
        pictures = images(shape, 40, dtype)
        expanded, projected = space.expand(rows, shape), space.project(pictures)
        for part in SLICES:
            assert torch.equal(space.expand(rows[part], shape), expanded[part]), space
            assert torch.equal(space.project(pictures[part]), projected[part]), space


@pytest.mark.parametrize("factor", [1, 2, 2.5, 3, 4])
@pytest.mark.parametrize("shape", [(3, 16, 16), (1, 28, 28), (3, 32, 32), (3, 224, 224)], ids=str)
def test_aligned_images_are_two_plain_products(shape, factor):
    """Their bits are those of results that were recorded before other images were padded."""
    rows = images(Dct(factor).shape(shape), 3)
    high, wide = (torch.from_numpy(cosine_basis(side, factor)) for side in shape[1:])
    assert torch.equal(Dct(factor).expand(rows, shape), high @ rows @ wide.mT)
    picture = images(shape, 1)
    assert torch.equal(Dct(factor).project(picture), high.mT @ picture @ wide)


@pytest.mark.parametrize("factor", [0.5, 0, -1, math.nan, math.inf, -math.inf])
def test_a_factor_below_one_is_refused(factor):
    with pytest.raises(InputError, match=r"factor is .*expected a finite number of 1 or more"):
        Dct(factor)


@pytest.mark.parametrize("block", [0, -8])
def test_a_block_without_a_side_is_refused(block):
    with pytest.raises(InputError, match=r"block is .*expected a whole number of 1 or more"):
        Dct(2, block=block)


def test_spaces_are_values():
    """Equal settings are the same part, so a preset may be compared and its basis kept."""
    for one, other in itertools.combinations([Full(), Dct(2), Dct(3), Dct(2, block=8)], 2):
        assert one != other
    assert Dct(2, block=8) == Dct(2.0, block=8)
