"""Starts: a first adversarial point. Every failure costs a flagged query, so a start has a bound.

A start returns the point and its distance, or None if it found none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from .ask import Ask, Asking, Until
from .problem import Noise, Problem

PHASE = "start"


class Begun(NamedTuple):
    """An adversarial point that was asked."""

    point: Tensor
    distance: float


class Start(Protocol):
    """A part: finds an adversarial point to begin with."""

    def __call__(self, problem: Problem, /) -> Asking[Begun | None]:
        """The point, or None."""


class _Growing:
    """Rows k = 1, 2, ...: source + k step N(0, 1), clipped."""

    def __init__(self, source: Tensor, noise: Noise, step: float) -> None:
        self._source, self._noise, self._step = source, noise, step

    def __len__(self) -> int:
        return len(self._noise)

    def __getitem__(self, rows: slice) -> Tensor:
        first, last, _ = rows.indices(len(self))
        noise = self._noise[first:last]
        levels = torch.arange(first + 1, last + 1, device=noise.device, dtype=noise.dtype)
        return noise.mul(self._step * levels.view(-1, 1, 1, 1)).add_(self._source).clamp_(0, 1)


@dataclass(frozen=True)
class GrowingNoise:
    """The paper's: noise of rising strength until the label changes. A level is 0.02 of normalised
    pixels, that is 0.0045 in [0,1]. Past about level 250 the noise saturates the range, and each
    further level is a fresh try of the same kind."""

    step: float = 0.0045
    levels: int = 1000

    def __call__(self, problem: Problem) -> Asking[Begun | None]:
        """The first level that is adversarial."""
        points = _Growing(problem.source, problem.noise(PHASE, 0, self.levels), self.step)
        answers = yield Ask(points, until=Until.ADVERSARIAL, phase=PHASE)
        if not answers.adversarial[-1]:
            return None
        row = len(answers) - 1
        return Begun(points[row : row + 1][0], float(answers.distances[-1]))
