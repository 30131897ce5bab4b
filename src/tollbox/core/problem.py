"""The problem: all that an attack on one image may know.

1. The source image, its label, the prices, the goal, the metric, and random streams. No model, no
   budget, no batch size, no other image.
2. Random numbers are a function of (seed, content of the image, purpose, step, row, column) and of
   nothing else (noise.py). Prices and parts are not among these, so that variants see the same
   start and noise, and comparisons are paired.
3. `accept` marks an iterate; `note` keeps what a report wants to know of the iteration it ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .ask import Asking, Iterate
from .metric import Metric
from .noise import Noise, content_hash
from .prices import Prices
from .stop import Stop


class Accepted(NamedTuple):
    """An iterate."""

    point: Tensor
    distance: float | None
    """From the source, as it was sent, if that is known."""
    notes: dict[str, Any]


@dataclass
class Problem:
    """One image to be attacked."""

    source: Tensor = field(repr=False)
    """The source image x*, (c, h, w), on the device of the run."""
    label: int
    """The source class."""
    prices: Prices = field(default_factory=Prices)
    """With `source` set to what the source class costs: `prices.ratio` is c*."""
    target: int | None = None
    """The goal: any other class (None), or this class."""
    seed: int = 0
    content: str = ""
    """Hash of the source image; made from it if it is not given."""
    start_image: Tensor | None = field(default=None, repr=False)
    """An image to begin from, in place of what the attack's start would find."""
    norm: Metric = Metric.L2
    """What distances are measured in."""
    accepted: list[Accepted] = field(default_factory=list, repr=False)
    """Iterates that the engine has not collected yet."""
    notes: dict[str, Any] = field(default_factory=dict, repr=False)
    """Notes of the iteration under way."""

    def __post_init__(self) -> None:
        self.prices = self.prices.for_source(self.label)
        self.content = self.content or content_hash(self.source)

    @property
    def dimension(self) -> int:
        """d, the number of pixels times channels."""
        return self.source.numel()

    @property
    def resolution(self) -> float:
        """The l2 step below which points are hardly told apart (1e-5 for float32 at 3x224x224)."""
        return torch.finfo(self.source.dtype).eps / 4 * math.sqrt(self.dimension)

    def is_adversarial(self, labels: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which labels are what the goal asks for."""
        if self.target is None:
            return np.not_equal(labels, self.label)
        return np.equal(labels, self.target)

    def noise(
        self,
        purpose: str,
        step: int,
        rows: int,
        shape: tuple[int, ...] | None = None,
    ) -> Noise:
        """Standard normal rows of `shape` (an image's by default) for one purpose at one step."""
        key = f"{self.seed}/{self.content}/{purpose}/{step}"
        return Noise(key, rows, shape or tuple(self.source.shape), self.source)

    def accept(self, iterate: Iterate | Tensor) -> None:
        """Mark a point, which was asked and found adversarial, as the iterate of this iteration.

        Of an `Iterate` the distance is known; that of a bare point is worked out once more.
        """
        if isinstance(iterate, Iterate):
            self.accepted.append(Accepted(iterate.point, iterate.distance, self.notes))
        else:
            self.accepted.append(Accepted(iterate, None, self.notes))
        self.notes = {}

    def note(self, **values: Any) -> None:
        """Record numbers or words about this iteration for reports."""
        self.notes.update(values)


class Attack(Protocol):
    """What can be run: called with a problem, gives a generator of asks that returns why it ended.

    It may also be a `BoundedAttack`, and say which metrics it is made for (`MadeForMetrics`). A
    whole attack, which tries ever larger grey levels:

        @dataclass(frozen=True)
        class Brighten:
            def __call__(self, problem):
                levels = torch.linspace(0, 1, 50, dtype=problem.source.dtype)
                points = torch.lerp(problem.source, torch.ones_like(problem.source),
                                    levels.view(-1, 1, 1, 1).to(problem.source.device))
                answers = yield Ask(points, until=Until.ADVERSARIAL, phase="brighten")
                if not answers.adversarial[-1]:
                    return Stop.NO_START
                problem.accept(points[len(answers) - 1])
                return Stop.CONVERGED
    """

    def __call__(self, problem: Problem, /) -> Asking[Stop]:
        """Begin an attack on one image."""


@runtime_checkable
class BoundedAttack(Protocol):
    """An attack that knows how much it holds: the engine admits as many images as fit in memory."""

    @property
    def rows(self) -> int:
        """The most points that it holds at a time, for one image."""
