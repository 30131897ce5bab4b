"""Points of many searches made at once are, bit for bit, those made alone."""

from __future__ import annotations

import math

import pytest
import torch

import tollbox as tb
from tollbox import mixtures, testing
from tollbox.ask import Found
from tollbox.mixtures import Mixture
from tollbox.paths import Arc, Circle, Line
from tollbox.searches import REMEMBERED, _Steps


def images(count: int, dtype: torch.dtype, seed: int = 0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return list(torch.rand(count, 3, 7, 5, generator=generator, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_many_are_the_same_as_each_alone(dtype):
    pictures = images(60, dtype)
    many = [
        Mixture(pictures[k], pictures[k + 1] - 0.5, 0.1 + k / 7, pictures[k + 2] - 0.5, -k / 11)
        if k % 3
        else Mixture(pictures[k], pictures[k + 1] - 0.5, 1 / 3)
        for k in range(50)
    ]
    made = mixtures.points(many)
    assert all(torch.equal(one, other.point()) for one, other in zip(made, many, strict=True))
    assert min(point.min() for point in made) == 0  # clipped
    assert max(point.max() for point in made) == 1


def test_a_path_tells_the_terms_of_its_points():
    source, start, direction = images(3, torch.float64)
    direction = direction / torch.linalg.vector_norm(direction)
    found = Found(start, 1.0)
    circle = Circle.through(source, start, direction)
    for path in (Line(source, found), Arc(circle, found), Arc(circle, found, 0.2, -0.9)):
        for theta in (0.0, 0.3, 1.0):
            assert torch.equal(path.mixture(theta).point(), path(theta))
    assert Arc(circle, found, 0.0, torch.tensor(0.7)).mixture(0.5) is None


def test_steps_remember_the_last_rows_only():
    source, start = images(2, torch.float64)
    steps = _Steps(Line(source, Found(start, 1.0)), range(1, 100), 0, 100)
    for row in range(20):
        steps.remember(row, steps.mixture(row).point()[None])
    assert len(steps._made) == REMEMBERED
    fresh = _Steps(Line(source, Found(start, 1.0)), range(1, 100), 0, 100)
    assert torch.equal(steps[5:25], fresh[5:25])
    assert torch.equal(steps[18:19], fresh[5:25][13:14])


@pytest.mark.parametrize("preset", ["surfree", "a-surfree", "hsja+as", "geoda"])
@pytest.mark.parametrize("ratio", [1, 10])
def test_what_is_sent_is_what_the_search_has(preset, ratio):
    """Five images in one batch, whose searches are added up together, and each alone: the same
    distances to the last bit; and the reported point was sent."""
    boundary = testing.half_space(0.3, (1, 6, 6))
    sent = []

    def labels(batch):
        sent.append(batch.clone())
        return boundary.labels(batch)

    model = tb.models.from_callable(labels, dtype=torch.float64, classes=3)
    cells = [
        tb.Cell(tb.preset(preset), boundary.source, 0, tb.Prices(ratio, 1), 700 * ratio, seed=k)
        for k in range(5)
    ]
    together = tb.run_cells(cells, model, batch_size=16)
    for cell, result in zip(cells, together, strict=True):
        [alone] = tb.run_cells([cell], boundary.model(), batch_size=1)
        assert alone.improvements == result.improvements
        assert torch.equal(alone.adversarial, result.adversarial)
        assert math.isfinite(result.distance)
        rows = torch.cat(sent)
        assert (rows == result.adversarial).flatten(1).all(1).any()
