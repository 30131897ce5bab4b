"""Calibrated: an estimate whose overshoot is measured, in place of a schedule (overshoot.py).

Directions are asked in chunks of 8, 8, 16, 32, ...; before each, the answers so far say how far
outside the next are worth most. There is no m, no dimension and no assumption on an angle in it.
A chunk whose answers are all alike is no loss: it moves the next one nearer, or farther out.

`Calibrated` takes the place of any estimate, and spends about n'_t (c* + 1) / 2, as AGREST does; a
`CalibratedSampler` is the same for an attack that says how much it wants to know (`frugal`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...core.ask import Ask, Asking, Iterate
from ...core.problem import Problem
from ...core.validation import MAX_VALUE, above, check, number, whole
from ...parts.estimates import PHASE, Estimate, Estimator
from ...parts.registry import register
from ...parts.subspaces import Drawing, Full, Prior, drawing_for
from ...parts.vectors import sum_weights, unit
from .direction_blocks import LARGEST_BLOCK, DrawnDirections
from .overshoot import Belief, Scores

FIRST_CHUNK = 8
"""Directions of it."""
UNWEIGHED_CHUNKS = 8
"""The latest chunks, whose sums wait until it is known better what their answers count."""
MOST_DIRECTIONS, MOST_ROWS = 1 << 20, 1 << 31
"""Directions of an estimate at most, and of a stream."""
LEAST_INFORMATION = 1e-3
"""Information of one answer, at least, when it is reckoned how many are missing."""


class DirectionEstimate(NamedTuple):
    """A unit direction, and the information that is in it."""

    direction: Tensor
    information: float


@register(Estimate)
@dataclass(frozen=True)
class Calibrated:
    """Samples around a centre moved outward as far as the answers so far say is best."""

    delta: float = 0.0045
    chunk: int = 128
    subspace: Prior = field(default_factory=Full)
    slack: float = 1e-4
    """How far outside the boundary a search leaves its point, as a share of the distance."""

    def __post_init__(self) -> None:
        check(self, delta=above(0, MAX_VALUE), chunk=whole(1, MAX_VALUE), slack=number(0, 1))

    @property
    def rows(self) -> int:
        """The most points held at a time."""
        return self.chunk + LARGEST_BLOCK + 2 * UNWEIGHED_CHUNKS

    def tolerance_scale(self, problem: Problem) -> float:  # noqa: ARG002
        """The search's own tolerance will do: the overshoot is measured from where it ended."""
        return 1.0

    def begin(self, problem: Problem) -> Estimator:
        """For one image."""
        ratio = problem.prices.ratio
        sampler = CalibratedSampler(problem, drawing_for(problem, self.subspace), ratio, self.chunk)

        def estimate(t: int, iterate: Iterate, queries: int) -> Asking[Tensor | None]:
            slack, cost = self.slack * iterate.distance, queries * (ratio + 1) / 2
            estimate = yield from sampler.estimate(t, iterate, self.delta, slack, cost=cost)
            return estimate.direction

        return estimate


class CalibratedSampler:
    """The estimates of one image with directions of one drawing, and what is believed of its slope.

    Directions that do not depend on the point are of one stream, `number`, from estimate to
    estimate: one block of them serves several.
    """

    def __init__(
        self, problem: Problem, drawing: Drawing, ratio: float, chunk: int, number: int = 0
    ) -> None:
        self._problem, self._drawing, self._ratio, self._chunk = problem, drawing, ratio, chunk
        self._belief, self._last = Belief(ratio), 0
        noise = problem.noise("sampler", number, MOST_ROWS, drawing.shape)
        self._stream, self._drawn = DrawnDirections(drawing, noise), 0

    def _go_to(self, t: int, point: Tensor) -> None:
        """Directions at a point, for iteration t, if they depend on it."""
        drawing = self._drawing.at(point)
        if drawing is not self._drawing:
            noise = self._problem.noise(PHASE, t, MOST_ROWS, drawing.shape)
            self._stream, self._drawn = DrawnDirections(drawing, noise), 0

    def _draw(self, rows: int) -> Tensor:
        """So many more directions."""
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
        """Ask until the answers hold `information`, or have cost `cost`."""
        problem, belief = self._problem, self._belief
        self._go_to(t, iterate.point)
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
            missing = (information - total.information) / max(scores.information, LEAST_INFORMATION)
            left = min(missing, (cost - spent) / each)
            if left <= 0 or total.asked > MOST_DIRECTIONS - self._chunk:
                break
            rows = min(
                self._chunk,
                max(2, math.ceil(min(left, MOST_DIRECTIONS))),
                max(FIRST_CHUNK, total.asked),
            )
        problem.note(
            share=total.passed / total.asked,
            estimate_queries=total.asked,
            planned_share=belief.best_share,
            overshoot=shift * delta,
            slope=math.exp(belief.log_slope),
            bend=belief.bend,
        )
        return DirectionEstimate(total.direction(), total.information)


class _ScoredSum:
    """Sums of displacements by chunk and answer, until they are weighed."""

    def __init__(self, source: Tensor) -> None:
        self._shape = source.shape
        self._total = torch.zeros_like(source).flatten()
        self._information = 0.0
        self._chunks: list[tuple[float, int, Tensor]] = []
        """Of each its shift, its rows, and the sums of adversarial ones and of all."""
        self.scores: list[Scores] = []
        """Of the chunks that wait, by what was believed after the last."""
        self.asked = self.passed = 0

    def add(
        self, shift: float, moved: Tensor, adversarial: NDArray[np.bool_], belief: Belief
    ) -> None:
        """The displacements of a chunk, which were adversarial, and what is believed with it."""
        moved = moved.flatten(1)
        self._chunks.append((shift, len(moved), sum_weights(adversarial, moved) @ moved))
        self.asked += len(moved)
        self.passed += int(adversarial.sum())
        self.scores = belief.scores(*(chunk[0] for chunk in self._chunks))
        if len(self._chunks) > UNWEIGHED_CHUNKS:
            first, scores = self._chunks.pop(0), self.scores.pop(0)
            self._information += first[1] * scores.information
            self._weigh(first, scores)

    @property
    def information(self) -> float:
        """The information in all answers, by what was believed after the last."""
        waiting = zip(self._chunks, self.scores, strict=True)
        return self._information + sum(chunk[1] * scores.information for chunk, scores in waiting)

    def direction(self) -> Tensor:
        """The sum of scores times displacements, as a unit vector."""
        for chunk, scores in zip(self._chunks, self.scores, strict=True):
            self._weigh(chunk, scores)
        return unit(self._total).view(self._shape)

    def _weigh(self, chunk: tuple[float, int, Tensor], scores: Scores) -> None:
        adversarial, everything = chunk[2]
        self._total.add_(adversarial, alpha=scores.passed + scores.failed)
        self._total.add_(everything, alpha=-scores.failed)
