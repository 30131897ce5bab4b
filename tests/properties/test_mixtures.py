"""Points of many searches made at once are, bit for bit, those made alone."""

from __future__ import annotations

import math

import pytest
import torch

import tollbox as tb
from tollbox import testing
from tollbox.core.ask import Iterate
from tollbox.engine import points as mixtures
from tollbox.engine.points import LinearPoint
from tollbox.parts.paths import Arc, Circle, Segment
from tollbox.parts.searches import REMEMBERED_POINTS, _Steps


def images(count: int, dtype: torch.dtype, seed: int = 0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return list(torch.rand(count, 3, 7, 5, generator=generator, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_many_are_the_same_as_each_alone(dtype):
    pictures = images(60, dtype)
    many = [
        LinearPoint(pictures[k], pictures[k + 1] - 0.5, 0.1 + k / 7, pictures[k + 2] - 0.5, -k / 11)
        if k % 3
        else LinearPoint(pictures[k], pictures[k + 1] - 0.5, 1 / 3)
        for k in range(50)
    ]
    batch = torch.full((60, 3, 7, 5), 2.0, dtype=dtype)
    rows = [59 - k for k in range(50)]
    mixtures.write(batch, many, rows)
    assert all(torch.equal(batch[k], other.point()) for k, other in zip(rows, many, strict=True))
    assert (batch[:10] == 2).all()  # the others are left as they were
    assert batch[10:].min() == 0  # clipped
    assert batch[10:].max() == 1


def test_a_path_tells_the_terms_of_its_points():
    source, start, direction = images(3, torch.float64)
    direction = direction / torch.linalg.vector_norm(direction)
    iterate = Iterate(start, 1.0)
    circle = Circle.through(source, start, direction)
    for path in (Segment(source, iterate), Arc(circle, iterate), Arc(circle, iterate, 0.2, -0.9)):
        for theta in (0.0, 0.3, 1.0):
            assert torch.equal(path.linear_point(theta).point(), path(theta))
    assert Arc(circle, iterate, 0.0, torch.tensor(0.7)).linear_point(0.5) is None


def test_steps_remember_the_last_rows_only():
    source, start = images(2, torch.float64)
    steps = _Steps(Segment(source, Iterate(start, 1.0)), range(1, 100), 0, 100)
    whole = steps[5:25]
    assert len(steps._points) == REMEMBERED_POINTS
    fresh = _Steps(Segment(source, Iterate(start, 1.0)), range(1, 100), 0, 100)
    assert torch.equal(whole, torch.cat([fresh[row : row + 1] for row in range(24, 4, -1)]).flip(0))


@pytest.mark.slow
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
        tb.attack.Cell(
            tb.preset(preset),
            boundary.source,
            0,
            tb.Prices(ratio, 1),
            tb.Limits(700 * ratio),
            seed=k,
        )
        for k in range(5)
    ]
    together = tb.attack.run_cells(cells, model, execution=tb.Execution(batch_size=16))
    for cell, result in zip(cells, together, strict=True):
        [alone] = tb.attack.run_cells(
            [cell], boundary.model(), execution=tb.Execution(batch_size=1)
        )
        assert alone.improvements == result.improvements
        assert torch.equal(alone.adversarial, result.adversarial)
        assert math.isfinite(result.distance)
        rows = torch.cat(sent)
        assert (rows == result.adversarial).flatten(1).all(1).any()


class _Sum:
    """An attack that walks a line of mixtures in one run beside another run."""

    def __init__(self, other, dtype=torch.float64):
        self._other, self._dtype = other, dtype

    def __call__(self, problem):
        end = torch.ones_like(problem.source).to(self._dtype)
        line = Segment(problem.source.to(self._dtype), Iterate(end, 1.0))
        steps = _Steps(line, range(1, 6), 0, 10)
        yield tb.attack.Ask(
            runs=[tb.attack.Sequential(self._other), tb.attack.Sequential(steps)], phase="walk"
        )
        return tb.Stop.CONVERGED


class _Broken:
    def __len__(self):
        return 2

    def __getitem__(self, rows):
        raise RuntimeError("no such rows")


def test_mixtures_behind_a_failed_run_are_not_sent_to_a_metered_model():
    seen = []

    def labels(batch):
        seen.extend(range(len(batch)))
        return torch.zeros(len(batch)).long()

    model = tb.models.from_callable(labels, dtype=torch.float64, classes=2)
    cell = tb.attack.Cell(
        _Sum(_Broken()), torch.full((1, 3, 3), 0.5).double(), 0, limits=tb.Limits(100)
    )
    [result] = tb.attack.run_cells([cell], model, execution=tb.Execution(metered=True))
    assert result.stop is tb.Stop.ATTACK_ERROR
    assert len(seen) == result.ledger.queries == 1  # the clean image


def test_terms_of_another_dtype_leave_the_neighbours_alone():
    """A mixture in float64 beside a float32 cell: what the model gets stays float32."""
    kinds = set()

    def labels(batch):
        kinds.add(batch.dtype)
        return torch.zeros(len(batch)).long()

    model = tb.models.from_callable(labels, dtype=torch.float32, classes=2)
    image = torch.full((1, 3, 3), 0.5)
    cells = [
        tb.attack.Cell(_Sum(image[None], dtype), image, 0, limits=tb.Limits(100))
        for dtype in (torch.float32, torch.float64)
    ]
    results = tb.attack.run_cells(cells, model, execution=tb.Execution(batch_size=64))
    assert [result.stop for result in results] == [tb.Stop.CONVERGED] * 2
    assert kinds == {torch.float32}
