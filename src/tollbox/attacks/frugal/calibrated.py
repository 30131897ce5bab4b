"""Calibrated estimates: the overshoot is measured instead of scheduled (overshoot_belief.py).

Directions are queried in chunks of 8, 8, 16, 32, ... Before each chunk, the previous answers
determine how far outside the boundary queries are most useful. This needs no m, no dimension and no
assumption about an angle. A chunk of equal answers is not wasted: it moves the next one inward or
outward.

`Calibrated` can replace any estimate and spends about n'_t (c* + 1) / 2, as AGREST does.
`CalibratedSampler` does the same for an attack that specifies the information it wants (`frugal`).

On a CUDA device, directions are drawn in blocks of 32 rows at first and then 64, each by a recorded
CUDA graph: an estimate needs eight directions at a time, and launching a prior's fifty kernels for
each eight takes longer than the network does. The number of a row alone determines its block, since
the last bits of a product may depend on the number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...core.ask import Ask, Asking, Iterate
from ...core.device import CudaGraph, NotRecordable
from ...core.noise import Noise
from ...core.problem import Problem
from ...parts.estimates import PHASE, Estimate, Estimator, Sampling
from ...parts.registry import Fraction, register
from ...parts.subspaces import Drawing, drawing_for
from ...parts.vectors import sum_weights, unit
from .overshoot_belief import OvershootBelief, Scores, optimum

SMALLEST_BLOCK, LARGEST_BLOCK = 32, 64
MAX_GRAPHS = 64
FIRST_CHUNK = 8
UNWEIGHED_CHUNKS = 8
"""Number of latest chunks whose sums stay unweighted until their scores are better known."""
MAX_DIRECTIONS, MAX_ROWS = 1 << 20, 1 << 31
"""Maximum number of directions in an estimate, and of rows in a stream."""
MIN_INFORMATION = 1e-3
"""Minimum information per answer when the number of missing answers is computed."""


_graphs: dict[Hashable, Callable[..., Tensor]] = {}
"""CUDA graphs by kind of drawing, number of rows, dtype and device; plain functions where a custom
prior cannot be recorded."""


class DirectionStream:
    """A read-only sequence of unit directions, drawn when sliced."""

    def __init__(self, drawing: Drawing, noise: Noise) -> None:
        self._drawing, self._noise = drawing, noise
        self._recorded = noise.is_cuda and drawing.kind is not None
        self._block: tuple[int, Tensor] | None = None

    def __getitem__(self, rows: slice) -> Tensor:
        first, last, _ = rows.indices(len(self._noise))
        if not self._recorded:
            return self._drawing(self._noise[first:last], 1.0)
        pieces = []
        while first < last:
            if self._block is None or not 0 <= first - self._block[0] < len(self._block[1]):
                start, size = block_containing(first)
                noise = self._noise[start : start + size]
                self._block = start, _draw_block(self._drawing, noise)
            start, block = self._block
            pieces.append(block[first - start : last - start])
            first += len(pieces[-1])
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces)


def block_containing(row: int) -> tuple[int, int]:
    """Return the first row and the size of a row's block."""
    size = min(max(SMALLEST_BLOCK, 1 << row.bit_length() - 1 if row else 0), LARGEST_BLOCK)
    return row - row % size, size


def _draw_block(drawing: Drawing, noise: Tensor) -> Tensor:
    key = (drawing.kind, len(noise), noise.dtype, noise.device)
    if key not in _graphs:
        if len(_graphs) == MAX_GRAPHS:
            del _graphs[next(iter(_graphs))]
        make = drawing.make
        plain = _graphs[key] = lambda noise, *tensors: make(noise, 1.0, *tensors)
        with suppress(NotRecordable):
            _graphs[key] = CudaGraph(plain, noise, *drawing.tensors)
    return _graphs[key](noise, *drawing.tensors)


class DirectionEstimate(NamedTuple):
    """A unit direction and its information."""

    direction: Tensor
    information: float


@register(Estimate)
class Calibrated(Sampling):
    """Samples around a centre moved outward as far as the previous answers suggest."""

    slack: Fraction = 1e-4
    """Maximum gap between a found point and the boundary, as a share of the distance."""

    @property
    def rows(self) -> int:
        return self.chunk + LARGEST_BLOCK + 2 * UNWEIGHED_CHUNKS

    def begin(self, problem: Problem) -> Estimator:
        ratio = problem.prices.ratio
        sampler = CalibratedSampler(problem, drawing_for(problem, self.subspace), ratio, self.chunk)

        def estimate(t: int, iterate: Iterate, queries: int) -> Asking[Tensor | None]:
            slack, cost = self.slack * iterate.distance, queries * (ratio + 1) / 2
            estimate = yield from sampler.estimate(t, iterate, self.delta, slack, cost=cost)
            return estimate.direction

        return estimate


class CalibratedSampler:
    """The estimates of one image from one drawing, with the belief about its slope. Directions that
    do not depend on the point come from stream `number`, so that estimates share its blocks."""

    def __init__(
        self, problem: Problem, drawing: Drawing, ratio: float, chunk: int, number: int = 0
    ) -> None:
        self._problem, self._drawing, self._ratio, self._chunk = problem, drawing, ratio, chunk
        self._belief, self._last = OvershootBelief(ratio), 0
        noise = problem.noise("sampler", number, MAX_ROWS, drawing.shape)
        self._stream, self._drawn = DirectionStream(drawing, noise), 0

    def _draw(self, rows: int) -> Tensor:
        first, self._drawn = self._drawn, self._drawn + rows
        return self._stream[first : self._drawn]

    def estimate(
        self,
        t: int,
        iterate: Iterate,
        delta: float,
        slack: float,
        *,
        information: float = math.inf,
        cost: float = math.inf,
    ) -> Asking[DirectionEstimate]:
        """Send queries until the answers hold `information` or have cost `cost`."""
        problem, belief = self._problem, self._belief
        drawing = self._drawing.at(iterate.point)
        if drawing is not self._drawing:
            noise = problem.noise(PHASE, t, MAX_ROWS, drawing.shape)
            self._stream, self._drawn = DirectionStream(drawing, noise), 0
        since, self._last = t - (self._last or t - 1), t
        belief.begin(slack / delta, since, iterate.distance / delta)
        outward = unit(iterate.point - problem.source)
        total = _ScoredSum(problem.source)
        spent, rows = 0.0, min(FIRST_CHUNK, self._chunk)
        while True:
            shift = belief.aim()
            centre = torch.add(iterate.point, outward, alpha=shift * delta).clamp_(0, 1)
            points = torch.add(centre, self._draw(rows), alpha=delta).clamp_(0, 1)
            answers = yield Ask(points, phase=PHASE)
            passed, flagged = int(answers.adversarial.sum()), int(answers.flagged.sum())
            belief.update(shift, passed, rows - passed)
            total.add(shift, points.sub_(centre), answers.adversarial, belief)
            spent += flagged * self._ratio + (rows - flagged)
            scores = total.scores[-1]
            each = scores.share + self._ratio * (1 - scores.share)
            missing = (information - total.information) / max(scores.information, MIN_INFORMATION)
            left = min(missing, (cost - spent) / each)
            if left <= 0 or total.asked > MAX_DIRECTIONS - self._chunk:
                break
            wanted = max(2, math.ceil(min(left, MAX_DIRECTIONS)))
            rows = min(self._chunk, wanted, max(FIRST_CHUNK, total.asked))
        problem.note(
            share=total.passed / total.asked,
            estimate_queries=total.asked,
            planned_share=optimum(self._ratio).share,
            overshoot=shift * delta,
            slope=math.exp(belief.log_slope),
            bend=belief.bend,
        )
        return DirectionEstimate(total.direction(), total.information)


class _Chunk(NamedTuple):
    shift: float
    rows: int
    sums: Tensor  # two rows: of adversarial displacements, and of all


class _ScoredSum:
    """Sums of displacements by chunk and answer, weighted once their scores are known."""

    def __init__(self, source: Tensor) -> None:
        self._shape = source.shape
        self._total = torch.zeros_like(source).flatten()
        self._information = 0.0
        self._chunks: list[_Chunk] = []
        self.scores: list[Scores] = []
        """Scores of the unweighted chunks, given the belief after the last chunk."""
        self.asked = self.passed = 0

    def add(
        self, shift: float, moved: Tensor, adversarial: NDArray[np.bool_], belief: OvershootBelief
    ) -> None:
        """Add the displacements of a chunk; `belief` includes its answers."""
        moved = moved.flatten(1)
        self._chunks.append(_Chunk(shift, len(moved), sum_weights(adversarial, moved) @ moved))
        self.asked += len(moved)
        self.passed += int(adversarial.sum())
        self.scores = belief.scores(*(chunk.shift for chunk in self._chunks))
        if len(self._chunks) > UNWEIGHED_CHUNKS:
            first, scores = self._chunks.pop(0), self.scores.pop(0)
            self._information += first.rows * scores.information
            self._weigh(first, scores)

    @property
    def information(self) -> float:
        """The information in all answers, given the belief after the last chunk."""
        waiting = zip(self._chunks, self.scores, strict=True)
        return self._information + sum(chunk.rows * scores.information for chunk, scores in waiting)

    def direction(self) -> Tensor:
        """Return the sum of scores times displacements as a unit vector."""
        for chunk, scores in zip(self._chunks, self.scores, strict=True):
            self._weigh(chunk, scores)
        return unit(self._total).view(self._shape)

    def _weigh(self, chunk: _Chunk, scores: Scores) -> None:
        adversarial, everything = chunk.sums
        self._total.add_(adversarial, alpha=scores.passed + scores.failed)
        self._total.add_(everything, alpha=-scores.failed)
