"""Drawn directions: the same whatever slice or block they are made in, and never twice."""

from __future__ import annotations

import pytest
import torch
from driver import drive

import tollbox as tb
from tollbox.attacks.frugal import calibrated as drawn
from tollbox.attacks.frugal.calibrated import (
    LARGEST_BLOCK,
    SMALLEST_BLOCK,
    CalibratedSampler,
    DirectionStream,
    block_containing,
)
from tollbox.core.ask import Iterate
from tollbox.parts.priors import Photo, Reweighed, Spectrum, Texture
from tollbox.parts.subspaces import Dct, Full

SHAPE = (3, 16, 16)
PRIORS = [Full(), Dct(4), Spectrum(5), Texture(), Photo(), Reweighed()]


def problem() -> tb.attack.Problem:
    generator = torch.Generator().manual_seed(1)
    return tb.attack.Problem(torch.rand(SHAPE, generator=generator, dtype=torch.float64), 0)


def test_blocks_follow_one_another():
    first, sizes = 0, []
    while first < 1000:
        begins, size = block_containing(first)
        assert begins == first
        assert all(block_containing(row) == (begins, size) for row in range(first, first + size))
        sizes.append(size)
        first += size
    assert sizes[:3] == [SMALLEST_BLOCK, SMALLEST_BLOCK, LARGEST_BLOCK]
    assert set(sizes[2:]) == {LARGEST_BLOCK}


@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: type(prior).__name__)
def test_a_drawing_with_its_tensors_in_other_memory_is_the_same(prior, monkeypatch):
    """What a graph records: the kind and the tensors are all that it is made of. Graphs are played
    by the plain function here, in memory of their own."""
    made = []

    class Played:
        def __init__(self, function, *inputs):
            self.function = function
            made.append([each.shape for each in inputs])

        def __call__(self, *inputs):
            return self.function(*(each.clone() for each in inputs))

    monkeypatch.setattr(drawn, "CudaGraph", Played)
    monkeypatch.setattr(drawn, "_graphs", {})
    one = problem()
    for point in (one.source + 0.1, one.source.flip(-1)):
        drawing = prior.begin(one).at(point)
        assert drawing.kind is not None
        noise = one.noise("test", 1, 1 << 20, drawing.shape)
        directions = DirectionStream(drawing, noise)
        directions._recorded = True  # as on a CUDA device
        parts = [directions[0:8], directions[8:40], directions[40:45], directions[45:200]]
        assert torch.equal(torch.cat(parts), drawing(noise[0:200], 1.0))
    assert len(made) == 2  # one for each size of a block, whatever the point


@pytest.mark.parametrize("prior", [Full(), Photo(), Reweighed()])
def test_an_estimate_goes_on_where_the_last_one_ended(prior):
    """No direction is asked twice, not even where each estimate has a stream of its own."""
    one = problem()
    sampler = CalibratedSampler(one, prior.begin(one), 1.0, 16)
    found, rows, draw = Iterate(one.source + 0.05, 0.05 * 768**0.5), [], sampler._draw

    def noted(count):
        rows.append(draw(count).flatten(1))
        return rows[-1]

    sampler._draw = lambda count: noted(count).view(-1, *SHAPE)
    for t in (1, 2):
        drive(sampler.estimate(t, found, 0.02, 1e-3, cost=30), one, lambda _: 1)
    unit = torch.cat(rows)
    cosines = unit @ unit.T - torch.eye(len(unit), dtype=unit.dtype)
    assert len(unit) > 40
    assert cosines.max() < 0.9
