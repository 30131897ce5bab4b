"""Masks: what may change, where directions and starts are made, and masks from files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from driver import drive
from every_preset import attack_of, names
from PIL import Image

import tollbox as tb
from tollbox import testing
from tollbox.attacks.frugal.ray_start import RayStart
from tollbox.core.stop import Stop
from tollbox.data.goals import load_masks, masks_digest
from tollbox.data.images import ImageSet
from tollbox.errors import FileError, InputError
from tollbox.parts.directions import SingleWaves, TernarySpectrum
from tollbox.parts.priors import Photo, Reweighed, Spectrum, Texture
from tollbox.parts.starts import GrowingNoise, NoiseImage, Pool, UniformNoise, find_start
from tollbox.parts.subspaces import Dct, Full, Resize, dimension_for, drawing_for

SHAPE = (3, 16, 16)
MASK = torch.zeros(16, 16, dtype=torch.bool)
MASK[3:9, 2:13] = True
OUTSIDE = ~MASK.expand(SHAPE)


def picture(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return 0.2 + 0.6 * torch.rand(SHAPE, generator=generator, dtype=torch.float64)


def problem(source=None, mask=MASK, **more):
    return tb.attack.Problem(picture() if source is None else source, 0, mask=mask, **more)


def norms(rows):
    return torch.linalg.vector_norm(rows.flatten(1), dim=1)


# -- the problem ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [MASK, MASK[None], MASK.expand(SHAPE)])
def test_a_mask_of_pixels_is_for_all_channels(mask):
    given = problem(mask=mask)
    assert torch.equal(given.mask, MASK.expand(SHAPE))
    assert given.dimension == 3 * 6 * 11
    assert given.free_places.tolist() == MASK.expand(SHAPE).flatten().nonzero().flatten().tolist()


def test_a_mask_of_channels_counts_numbers():
    mask = MASK.expand(SHAPE).clone()
    mask[1:] = False
    assert problem(mask=mask).dimension == 6 * 11


def test_without_a_mask_all_may_change():
    free, point = problem(mask=None), picture(1)
    assert (free.dimension, free.free_places) == (768, None)
    assert free.within_mask(point) is point
    assert free.only_mask(point) is point
    assert free.may_change(slice(0, 1), slice(0, 1))


def test_points_are_the_source_outside_and_directions_0():
    given, point = problem(), picture(1)
    assert torch.equal(given.within_mask(point)[OUTSIDE], given.source[OUTSIDE])
    assert torch.equal(given.within_mask(point)[~OUTSIDE], point[~OUTSIDE])
    assert not given.only_mask(point)[OUTSIDE].any()
    assert given.may_change(slice(0, 4), slice(0, 3))
    assert not given.may_change(slice(0, 3), slice(0, 16))


def test_a_mask_is_not_in_the_key_of_the_noise():
    masked, free = problem(), problem(mask=None)
    inside, everywhere = (each.noise("x", 1, 5)[0:5] for each in (masked, free))
    assert torch.equal(inside[:, ~OUTSIDE], everywhere[:, ~OUTSIDE])
    assert not inside[:, OUTSIDE].any()
    small = (each.noise("x", 1, 5, (2, 3))[0:5] for each in (masked, free))
    assert torch.equal(*small)


# -- directions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "prior", [Full(), Dct(4), Resize(4), Spectrum(8), Texture(), Photo(), Reweighed(cut=4)]
)
def test_directions_of_any_prior_are_within_the_mask_and_of_length_1(prior):
    given = problem()
    drawing = drawing_for(given, prior).at(given.within_mask(picture(1)))
    noise = given.noise("x", 1, 6, drawing.shape)
    drawn = drawing(noise[0:6], 2.5)
    assert not drawn[:, OUTSIDE].any()
    assert norms(drawn).tolist() == pytest.approx([2.5] * 6)
    plain = drawing_for(problem(mask=None), prior).at(given.within_mask(picture(1)))
    inside = plain(noise[0:6], 1.0) * ~OUTSIDE
    assert torch.allclose(drawn, 2.5 * inside / norms(inside).view(-1, 1, 1, 1))


def test_a_drawing_that_does_not_depend_on_the_point_stays_itself():
    drawing = drawing_for(problem(), Full())
    assert drawing.at(picture(1)) is drawing
    assert drawing_for(problem(), Reweighed()).at(picture(1)) is not drawing


def test_a_masked_drawing_can_be_recorded_if_the_drawing_can():
    given = problem()
    drawing, other = drawing_for(given, Photo()), drawing_for(given, Full())
    assert drawing.kind != drawing_for(problem(mask=None), Photo()).kind
    again = replace(drawing, tensors=drawing.tensors)
    noise = given.noise("x", 1, 3, drawing.shape)[0:3]
    assert torch.equal(again(noise, 1.0), drawing(noise, 1.0))
    assert len(other.tensors) == 1


def test_the_dimension_is_that_of_the_part_within():
    assert dimension_for(problem(), Full()) == 198
    assert dimension_for(problem(mask=None), Full()) == 768
    assert dimension_for(problem(), Dct(4)) == round(48 * 198 / 768)
    one = torch.zeros(16, 16, dtype=torch.bool)
    one[0, 0] = True
    assert dimension_for(problem(mask=one), Dct(4)) == 2


def test_surfrees_directions_are_orthogonal_within_the_mask():
    given = problem()
    away = given.within_mask(picture(1)) - given.source
    turn = TernarySpectrum(memory=8).begin(given, 8, away)
    made = torch.stack([next(turn) for _ in range(8)])
    assert not made[:, OUTSIDE].any()
    everything = torch.cat([made, away[None] / torch.linalg.vector_norm(away)]).flatten(1)
    assert torch.allclose(everything @ everything.T, torch.eye(9).double(), atol=1e-9)


def test_waves_are_within_the_mask():
    turn = SingleWaves().begin(problem(), 5, picture())
    made = torch.stack([next(turn) for _ in range(5)])
    assert not made[:, OUTSIDE].any()
    assert norms(made).tolist() == pytest.approx([1.0] * 5)


# -- starts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "start",
    [GrowingNoise(), NoiseImage(), UniformNoise(), RayStart(), Pool(torch.stack([picture(2)]))],
)
def test_a_start_is_within_the_mask(start):
    given = problem()

    def label(point):
        inside = given.within_mask(point)
        return int(torch.linalg.vector_norm(inside - given.source) > 0.5)

    done = drive(find_start(given, start), given, label)
    assert torch.equal(done.returned.point[OUTSIDE], given.source[OUTSIDE])
    assert label(done.returned.point) == 1


def test_a_given_start_is_taken_within_the_mask():
    start = picture(5)
    assert torch.equal(problem(start_image=start).start_image, problem().within_mask(start))
    assert torch.equal(problem(mask=None, start_image=start).start_image, start)


def test_the_pool_tries_the_nearest_within_the_mask_first():
    """One is far outside the mask and near inside, the other the reverse."""
    source = torch.full(SHAPE, 0.5, dtype=torch.float64)
    near_inside, far_inside = torch.where(OUTSIDE, 1.0, 0.52), torch.where(OUTSIDE, 0.5, 0.6)
    pool = Pool(torch.stack([far_inside, near_inside]).double())
    given = problem(source)
    done = drive(find_start(given, pool), given, lambda point: 1)
    assert torch.equal(done.returned.point, given.within_mask(near_inside.double()))


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mask", "told"),
    [
        (torch.zeros(16, 16, dtype=torch.bool), "the mask of image 0 lets nothing change"),
        (MASK.double(), "is a tensor of torch.float64: expected a bool tensor"),
        (torch.ones(16, 15, dtype=torch.bool), r"has shape \(16, 15\)"),
        (torch.ones(2, 16, 16, dtype=torch.bool), r"has shape \(2, 16, 16\)"),
        (torch.ones(16, dtype=torch.bool), r"mask has shape \(16,\)"),
        ([MASK, MASK], "got 1 images but more masks"),
        ([MASK.numpy()], "the mask of image 0 is "),
        (3, "mask is 3"),
    ],
)
def test_a_bad_mask_is_refused(mask, told):
    boundary = testing.half_space()
    with pytest.raises(InputError, match=told):
        tb.run(tb.preset("hsja"), boundary.model(), boundary.source[None], [0], budget=9, mask=mask)


def test_each_image_may_have_a_mask_of_its_own():
    boundary = testing.half_space(0.5)
    images = boundary.source[None].repeat(2, 1, 1, 1)
    masks = torch.stack([MASK, ~MASK])[:, None]
    options = {"prices": tb.Prices(), "budget": 800}
    attack, model = tb.preset("hsja"), boundary.model()
    both = tb.run(attack, model, images, [0, 0], mask=masks, **options)
    listed = tb.run(attack, model, images, [0, 0], mask=[MASK, ~MASK], **options)
    for one, other, mask in zip(both, listed, masks, strict=True):
        alone = tb.run(attack, model, images[:1], [0], mask=mask, **options)[0]
        assert one.distance == other.distance == alone.distance
        fixed = ~mask.expand(SHAPE)
        assert torch.equal(one.adversarial[fixed], boundary.source[fixed])


@pytest.mark.slow
def test_a_mask_of_one_number_leaves_every_attack_to_its_end():
    """All that changes is one number of one channel: there is one line to be on."""
    source = torch.full(SHAPE, 0.5, dtype=torch.float64)
    mask = torch.zeros(SHAPE, dtype=torch.bool)
    mask[0, 3, 4] = True
    model = tb.models.from_callable(
        lambda images: ((images[:, 0, 3, 4] - 0.5).abs() >= 0.2).long(), dtype=torch.float64
    )
    for norm in ("l2", "linf"):
        for name in names(norm):
            cell = tb.attack.Cell(
                attack_of(name),
                source,
                0,
                tb.Prices(3, 1),
                tb.Limits(600),
                norm=norm,
                mask=mask,
                name=name,
            )
            [result] = tb.attack.run_cells([cell], model)
            assert not result.stop.failed, (name, result.reason)
            assert result.stop is not Stop.NO_START, name
            assert result.distance >= 0.2 - 1e-12, name


# -- files ----------------------------------------------------------------------------------------


def image_set(*names, size=(4, 5)):
    count = len(names)
    return ImageSet(torch.zeros(count, 3, *size), (0,) * count, names, ("here",) * count)


def save(file, array):
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(array, np.uint8)).save(file)


def half(level=255):
    array = np.zeros((4, 5))
    array[:, :2] = level
    return array


def test_white_may_change(tmp_path):
    save(tmp_path / "mask.png", half())
    save(tmp_path / "light.png", half(128))
    save(tmp_path / "dark.png", half(127) + half(127)[:, ::-1])
    wanted = torch.from_numpy(half() > 0)
    first, second = load_masks(tmp_path / "mask.png", image_set("a.png", "b.png"))
    assert torch.equal(first, wanted)
    assert torch.equal(second, wanted)
    [light] = load_masks(tmp_path / "light.png", image_set("a.png"))
    assert torch.equal(light, wanted)
    with pytest.raises(InputError, match=r"dark.png is black everywhere"):
        load_masks(tmp_path / "dark.png", image_set("a.png"))
    assert load_masks(None, image_set("a", "b")) == [None, None]


def test_a_folder_has_a_mask_for_each_image_by_its_name(tmp_path):
    save(tmp_path / "dogs" / "7.png", half())
    save(tmp_path / "0.bmp", 255 - half())
    first, second = load_masks(tmp_path, image_set("dogs/7.jpg", "0"))
    assert torch.equal(first, ~second)
    with pytest.raises(FileError, match=r"has no mask for the image 1\.png: expected 1\.png there"):
        load_masks(tmp_path, image_set("0", "1.png"))


def test_a_mask_that_is_not_there_or_of_another_size(tmp_path):
    with pytest.raises(FileError, match=r"mask .*none.png does not exist"):
        load_masks(tmp_path / "none.png", image_set("a"))
    save(tmp_path / "mask.png", half().T)
    with pytest.raises(InputError, match="is 4x5, but the images are 5x4"):
        load_masks(tmp_path / "mask.png", image_set("a"))
    (tmp_path / "text.png").write_text("no picture")
    with pytest.raises(FileError, match="cannot be read"):
        load_masks(tmp_path / "text.png", image_set("a"))


def test_a_digest_tells_masks_apart():
    other = MASK.clone()
    other[0, 0] = True
    digests = [
        masks_digest(masks)
        for masks in ([MASK], [other], [MASK, MASK], [MASK, None], [None, MASK], [MASK.T])
    ]
    assert len({*digests}) == len(digests)
    assert masks_digest([None, None]) is None
    assert masks_digest([MASK.clone()]) == digests[0]
