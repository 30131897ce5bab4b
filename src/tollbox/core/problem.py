"""The mask: which pixels may change.

1. What is sent is the source image wherever the mask is False, bit for bit, whoever made the point:
   the engine sees to it for every attack (engine/sender.py).
2. Directions, starts and noise of the shape of an image are made within the mask, so that paths
   stay there, lengths are those of what is sent, and nothing is asked in vain. `Problem.dimension`
   counts the numbers that may change.
3. A mask is not in the key of random numbers: those that are left are the same as without it.

A mask is a bool tensor (c, h, w), or (h, w) or (1, h, w) for all channels.

The problem: all that an attack on one image may know.

1. The source image, its label, the prices, the goal, the mask, the metric, and random streams. No
   model, no budget, no batch size, no other image.
2. Random numbers are a function of (seed, content of the image, purpose, step, row, column) and of
   nothing else (noise.py). Prices and parts are not among these, so that variants see the same
   start and noise, and comparisons are paired.
3. `accept` marks an iterate; `note` keeps what a report wants to know of the iteration it ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InputError
from .ask import Asking, Iterate
from .device import carried
from .goal import Goal, aim
from .metric import Metric
from .noise import Noise, content_hash
from .prices import Prices
from .stop import Stop
from .validation import shown


def check_mask(mask: Any, image: Tensor, name: str) -> None:
    """Raise InputError unless it is a mask for an image (c, h, w) and lets something change."""
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        kind = f"a tensor of {mask.dtype}" if isinstance(mask, Tensor) else shown(mask)
        raise InputError(
            f"the mask of {name} is {kind}",
            expected="a bool tensor, True where a pixel may change",
            remedy="use mask > 0.5" if isinstance(mask, Tensor) else "",
        )
    shape, (channels, *size) = tuple(mask.shape), image.shape
    if shape not in (tuple(size), (1, *size), (channels, *size)):
        raise InputError(
            f"the mask of {name} has shape {shape}",
            expected=f"that of the image, {tuple(image.shape)}, or of its pixels, {tuple(size)}",
        )
    if not mask.any():
        raise InputError(
            f"the mask of {name} lets nothing change", expected="at least one pixel that may"
        )


def whole_mask(mask: Tensor, source: Tensor) -> Tensor:
    """The mask for each number of an image."""
    return mask.expand(source.shape).contiguous()


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
    """Short for a goal with this target; always that of the goal."""
    seed: int = 0
    content: str = ""
    """Hash of the source image; made from it if it is not given."""
    start_image: Tensor | None = field(default=None, repr=False)
    """An image to begin from, in place of what the attack's start would find."""
    norm: Metric = Metric.L2
    """What distances are measured in."""
    goal: Goal = field(default_factory=Goal)
    """Which labels are flagged, and which adversarial, for this image."""
    mask: Tensor | None = field(default=None, repr=False)
    """Which numbers of the image may change, (c, h, w), bool; None: all."""
    accepted: list[Accepted] = field(default_factory=list, repr=False)
    """Iterates that the engine has not collected yet."""
    notes: dict[str, Any] = field(default_factory=dict, repr=False)
    """Notes of the iteration under way."""

    def __post_init__(self) -> None:
        self.goal = aim(self.label, self.target, self.goal)
        self.target = self.goal.target
        self.prices = self.prices.for_source(self.label, self.goal)
        self.content = self.content or content_hash(self.source)
        self._host_mask: Tensor | None = None
        if self.mask is not None:
            self._host_mask = whole_mask(self.mask, self.source).cpu()
            self.mask = carried(self._host_mask, self.source.device, torch.bool)
            if self.start_image is not None:
                self.start_image = self.within_mask(self.start_image)

    @cached_property
    def dimension(self) -> int:
        """d, the number of pixels times channels that may change."""
        return self.source.numel() if self._host_mask is None else int(self._host_mask.sum())

    @cached_property
    def free_places(self) -> Tensor | None:
        """Where in the flattened image something may change; None: everywhere."""
        if self._host_mask is None:
            return None
        places = self._host_mask.flatten().nonzero().flatten()
        return carried(places, self.source.device, torch.int64)

    def may_change(self, rows: slice, columns: slice) -> bool:
        """Whether anything may, in a rectangle of pixels."""
        return self._host_mask is None or bool(self._host_mask[:, rows, columns].any())

    def within_mask(self, points: Tensor) -> Tensor:
        """Points, (c, h, w) or (n, c, h, w), that are the source image outside the mask."""
        return points if self.mask is None else torch.where(self.mask, points, self.source)

    def only_mask(self, directions: Tensor) -> Tensor:
        """Directions, (c, h, w) or (n, c, h, w), that are 0 outside the mask."""
        return directions if self.mask is None else directions * self.mask

    @property
    def resolution(self) -> float:
        """The l2 step below which points are hardly told apart (1e-5 for float32 at 3x224x224)."""
        return torch.finfo(self.source.dtype).eps / 4 * math.sqrt(self.dimension)

    def is_adversarial(self, labels: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which labels are what the goal asks for."""
        return self.goal.is_adversarial(labels)

    def noise(
        self,
        purpose: str,
        step: int,
        rows: int,
        shape: tuple[int, ...] | None = None,
    ) -> Noise:
        """Standard normal rows of `shape` for one purpose at one step; by default of an image's
        shape, and then 0 outside the mask."""
        key = f"{self.seed}/{self.content}/{purpose}/{step}"
        if shape is not None:
            return Noise(key, rows, shape, self.source)
        return Noise(key, rows, tuple(self.source.shape), self.source, self.mask)

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
