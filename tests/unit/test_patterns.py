"""The patterns of frugal's first rays: periods, colours, contrast, and changes of a ray."""

from __future__ import annotations

import math

import pytest
import torch

import tollbox as tb
from tollbox.attacks.frugal.patterns import EDGE, FRESH_SHARE, Pattern, blend, half, spotlight
from tollbox.parts.priors import BRIGHTNESS

SIDE = 48
SHAPE = (3, SIDE, SIDE)
FINE = Pattern(rings=True, shortest=3.0, longest=5.0, contrast=1.0)
CHECKERS = Pattern(rings=False, shortest=3.0, longest=5.0, contrast=0.0)
COLOURED = Pattern(rings=True, shortest=6.0, longest=9.0, contrast=0.0, coloured=True)


def problem_of(source=None, seed=0, **more):
    source = torch.full(SHAPE, 0.5, dtype=torch.float64) if source is None else source
    return tb.attack.Problem(source, 0, seed=seed, **more)


def frequencies(plane):
    """Return the frequency of each coefficient, in waves per pixel, and its share of the energy."""
    energy = torch.fft.fft2(plane - plane.mean()).abs().square()
    along = torch.fft.fftfreq(plane.shape[0], dtype=torch.float64)
    return torch.hypot(along[:, None], along[None, :]), energy / energy.sum()


@pytest.mark.parametrize("number", range(8))
@pytest.mark.parametrize("pattern", [FINE, CHECKERS, COLOURED], ids=["rings", "checkers", "colour"])
def test_a_pattern_has_a_period_of_its_range(pattern, number):
    """Waves in two directions at a right angle, as in checkers, have a frequency sqrt(2) higher."""
    way = pattern.ray(problem_of(), number)
    factor = 1.0 if pattern.rings else math.sqrt(2)
    frequency, share = frequencies(way.mean(0))
    low, high = factor / pattern.longest, factor / pattern.shortest
    assert float(share[(frequency > low - 0.05) & (frequency < high + 0.05)].sum()) > 0.75
    mean = float((frequency * share).sum())
    assert low * 0.8 < mean < high * 1.2


def test_periods_differ_between_rays_and_seeds():
    rays = [FINE.ray(problem_of(seed=seed), number) for seed in range(3) for number in range(3)]
    cosines = torch.stack(rays).flatten(1) @ torch.stack(rays).flatten(1).T
    assert float((cosines - torch.eye(9)).abs().max()) < 0.9


@pytest.mark.parametrize("number", range(3))
def test_with_full_contrast_a_ray_leads_to_an_image_of_the_pattern_alone(number):
    """There, the channels differ from grey in proportion to their brightness."""
    source = torch.rand(SHAPE, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    way = FINE.ray(problem_of(source), number)

    def coloured(image):
        return BRIGHTNESS[1] * image[0] - BRIGHTNESS[0] * image[1]

    length = -float((coloured(source - 0.5) * coloured(way)).sum() / coloured(way).square().sum())
    end = source + length * way
    assert float(coloured(source - 0.5).abs().max()) > 0.1
    assert float(coloured(end - 0.5).abs().max()) < 1e-9
    assert float((end - 0.5).abs().max()) == pytest.approx(0.5, rel=0.01)


def test_a_fine_pattern_changes_the_brightness_and_a_coloured_one_a_random_colour():
    brightness = torch.tensor(BRIGHTNESS, dtype=torch.float64)
    for number in range(3):
        way = CHECKERS.ray(problem_of(), number).flatten(1)
        assert torch.linalg.matrix_rank(way, rtol=1e-9) == 1
        place = way.abs().sum(0).argmax()
        assert torch.allclose(way[:, place] / way[1, place], brightness / brightness[1])
    colours = []
    for number in range(3):
        way = COLOURED.ray(problem_of(), number).flatten(1)
        assert torch.linalg.matrix_rank(way, rtol=1e-9) == 1
        colours.append(way[:, way.abs().sum(0).argmax()])
    assert torch.linalg.matrix_rank(torch.stack(colours)) == 3


@pytest.mark.parametrize("channels", [1, 2, 4])
def test_images_without_three_channels(channels):
    source = torch.full((channels, 12, 9), 0.3, dtype=torch.float64)
    for pattern in (FINE, CHECKERS, COLOURED):
        way = pattern.ray(problem_of(source), 0)
        assert way.shape == source.shape
        assert float(torch.linalg.vector_norm(way)) == pytest.approx(1)


def test_rays_stay_within_the_mask():
    mask = torch.zeros(SHAPE[1:], dtype=torch.bool)
    mask[8:20, 10:40] = True
    problem = problem_of(mask=mask)
    for pattern in (FINE, CHECKERS, COLOURED):
        way = pattern.ray(problem, 1)
        assert float(way[:, ~mask].abs().max()) == 0
        for changed in (half(problem, way, 3), spotlight(problem, way, 5), blend(way, way)):
            assert float(changed[:, ~mask].abs().max()) == 0
            assert float(torch.linalg.vector_norm(changed)) == pytest.approx(1)


@pytest.mark.parametrize("number", range(6))
def test_half_keeps_one_side_of_a_line_near_the_middle(number):
    problem = problem_of()
    way = CHECKERS.ray(problem, 0)
    kept = (half(problem, way, number) / way).nan_to_num()[0]
    kept = kept / kept.max()
    share = float((kept > 0.5).double().mean())
    assert 0.1 < share < 0.9
    rows, columns = torch.meshgrid(*[torch.arange(SIDE).double() / SIDE] * 2, indexing="ij")
    logit = torch.logit(kept.clamp(1e-6, 1 - 1e-6))
    inner = (kept > 1e-3) & (kept < 0.9) & (way[0].abs() > 1e-6)
    plane = torch.stack([rows[inner], columns[inner], torch.ones_like(rows[inner])], 1)
    slope = torch.linalg.lstsq(plane, logit[inner][:, None]).solution[:2]
    assert float(torch.linalg.vector_norm(slope)) == pytest.approx(EDGE, rel=0.2)


@pytest.mark.parametrize("number", range(6))
def test_a_spotlight_fades_away_from_a_place_near_the_middle(number):
    problem = problem_of()
    way = CHECKERS.ray(problem, 0)
    light = (spotlight(problem, way, number) / way).nan_to_num()[0]
    light = light / light.max()
    row, column = divmod(int(light.argmax()), SIDE)
    assert 0.3 <= row / SIDE <= 0.7
    assert 0.3 <= column / SIDE <= 0.7
    assert float(light[0, 0]) < 0.5
    assert float(light[-1, -1]) < 0.5


def test_a_blend_adds_a_fresh_ray():
    problem = problem_of()
    one, other = CHECKERS.ray(problem, 0), FINE.ray(problem, 1)
    mixed = blend(one, other)
    wanted = one + FRESH_SHARE * other
    assert torch.allclose(mixed, wanted / torch.linalg.vector_norm(wanted))
