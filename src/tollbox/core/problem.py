"""The problem: everything that an attack on one image may know.

1. It has no model, no budget, no batch size and no other image. Its random numbers are a function
   of (seed, content of the image, purpose, step, row, column) only (noise.py).
2. A mask says which pixels may change: a bool tensor (c, h, w), or (h, w) or (1, h, w) for all
   channels. Outside the mask a query has the bits of the source image, whatever the attack: the
   engine ensures that (engine/sender.py). Directions, starts and noise with the shape of an image
   are confined to the mask, so paths stay inside it and their lengths are those of the queries. The
   mask is not in the key of random numbers: inside it, they are the same as without a mask.
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

from .ask import Asking, Iterate
from .device import check_readable, to_device
from .goal import Goal, aim
from .metric import Metric
from .noise import Noise, content_hash
from .prices import Prices
from .stop import Stop
from .validation import expect, shown


def check_mask(mask: Any, image: Tensor, name: str) -> None:
    """Raise InputError unless `mask` fits an image (c, h, w) and allows some change."""
    is_tensor = isinstance(mask, Tensor)
    kind = f"a tensor of {mask.dtype}" if is_tensor else shown(mask)
    expect(
        is_tensor and mask.dtype == torch.bool,
        f"the mask of {name} is {kind}",
        "a bool tensor, True where a pixel may change",
        "use mask > 0.5" if is_tensor else "",
    )
    check_readable(mask, f"the mask of {name}")
    shape, (channels, *size) = tuple(mask.shape), image.shape
    right = shape in (tuple(size), (1, *size), (channels, *size))
    expected = f"that of the image, {tuple(image.shape)}, or of its pixels, {tuple(size)}"
    expect(right, f"the mask of {name} has shape {shape}", expected)
    given = f"the mask of {name} lets nothing change"
    expect(bool(mask.any()), given, "at least one pixel that may")


class Accepted(NamedTuple):
    """An iterate that an attack accepted."""

    point: Tensor
    distance: float | None
    """Distance of the point as it was sent, if known."""
    notes: dict[str, Any]


@dataclass
class Problem:
    """One image to attack."""

    source: Tensor = field(repr=False)
    """The source image x*, (c, h, w), on the device of the run."""
    label: int
    """The source class."""
    prices: Prices = field(default_factory=Prices)
    """The prices, with `source` set for the source class, so that `prices.ratio` is c*."""
    target: int | None = None
    """Shorthand for a goal with this target; always equal to the goal's target."""
    seed: int = 0
    content: str = ""
    """Hash of the source image; computed if empty."""
    start_image: Tensor | None = field(default=None, repr=False)
    """An image to start from; if None, the attack searches for a start."""
    norm: Metric = Metric.L2
    goal: Goal = field(default_factory=Goal)
    mask: Tensor | None = field(default=None, repr=False)
    """The values of the image that may change, as a bool tensor (c, h, w); None if all may."""
    classes: int | None = None
    """Number of the model's classes, if it is known."""
    accepted: list[Accepted] = field(default_factory=list, repr=False)
    """Iterates that the engine has not collected yet."""
    notes: dict[str, Any] = field(default_factory=dict, repr=False)
    """Notes about the current iteration."""

    def __post_init__(self) -> None:
        self.goal = aim(self.label, self.target, self.goal)
        self.target = self.goal.target
        self.prices = self.prices.for_source(self.label, self.goal)
        self.content = self.content or content_hash(self.source)
        self._host_mask: Tensor | None = None
        if self.mask is not None:
            self._host_mask = self.mask.expand(self.source.shape).contiguous().cpu()
            self.mask = to_device(self._host_mask, self.source.device, torch.bool)
            if self.start_image is not None:
                self.start_image = self.within_mask(self.start_image)

    @cached_property
    def dimension(self) -> int:
        """d, the number of values (pixels times channels) that may change."""
        return self.source.numel() if self._host_mask is None else int(self._host_mask.sum())

    @cached_property
    def host_places(self) -> NDArray[np.int64]:
        """Positions in the flattened image that may change, on the host."""
        if self._host_mask is None:
            return np.arange(self.dimension)
        return np.flatnonzero(self._host_mask.numpy())

    @cached_property
    def free_places(self) -> Tensor | None:
        """The same on the device of the run; None if all may change."""
        if self._host_mask is None:
            return None
        return to_device(torch.from_numpy(self.host_places), self.source.device, torch.int64)

    def may_change(self, rows: slice, columns: slice) -> bool:
        """Return whether any value in a rectangle of pixels may change."""
        return self._host_mask is None or bool(self._host_mask[:, rows, columns].any())

    def within_mask(self, points: Tensor) -> Tensor:
        """Return points, (c, h, w) or (n, c, h, w), with the source image outside the mask."""
        return points if self.mask is None else torch.where(self.mask, points, self.source)

    def only_mask(self, directions: Tensor) -> Tensor:
        """Return directions, (c, h, w) or (n, c, h, w), with 0 outside the mask."""
        return directions if self.mask is None else directions * self.mask

    @property
    def resolution(self) -> float:
        """The ℓ2 step below which rounding dominates (1e-5 for float32 at 3x224x224)."""
        return torch.finfo(self.source.dtype).eps / 4 * math.sqrt(self.dimension)

    def is_adversarial(self, labels: NDArray[np.int64]) -> NDArray[np.bool_]:
        return self.goal.is_adversarial(labels)

    def noise(
        self,
        purpose: str,
        step: int,
        rows: int,
        shape: tuple[int, ...] | None = None,
        like: Tensor | None = None,
    ) -> Noise:
        """Return standard normal rows of `shape` for one purpose at one step; by default they have
        the shape of an image and are 0 outside the mask. Rows of a `shape` are on the device of
        `like`, by default that of the run."""
        key = f"{self.seed}/{self.content}/{purpose}/{step}"
        if shape is not None:
            return Noise(key, rows, shape, self.source if like is None else like)
        return Noise(key, rows, tuple(self.source.shape), self.source, self.mask)

    def accept(self, iterate: Iterate | Tensor) -> None:
        """Mark a point that was sent and found adversarial as the iterate of this iteration. The
        distance of an `Iterate` is known; that of a bare point is computed again."""
        point, distance = iterate[:2] if isinstance(iterate, Iterate) else (iterate, None)
        self.accepted.append(Accepted(point, distance, self.notes))
        self.notes = {}

    def note(self, **values: Any) -> None:
        """Record values about this iteration for reports."""
        self.notes.update(values)


class Sampled(NamedTuple):
    """The radius at which an attack samples answers, or a typical one if it changes."""

    setting: str
    """Name of the setting that determines the radius."""
    value: float
    """Value of the setting; the radius is proportional to it."""
    radius: float
    drawing: Any
    """Function of rows of standard normal numbers and a radius that returns steps of this length,
    with the `shape` of a row and a hashable `kind` (parts/subspaces.py)."""


class Attack(Protocol):
    """An attack: called with a problem, it returns a generator of asks that returns a `Stop`.

    It may also be a `BoundedAttack`, have `metrics`, a tuple of the metrics that it supports, and
    have `finds_targets`, which is False if a targeted run needs an image of the target class. If it
    samples answers at a radius, `finest(problem)` returns it as `Sampled`, so that the engine can
    check that the model resolves it.
    docs/howto/own-attack.md has a complete example.
    """

    def __call__(self, problem: Problem, /) -> Asking[Stop]: ...


@runtime_checkable
class BoundedAttack(Protocol):
    """An attack that declares how many points it holds, so that all live images fit into memory."""

    @property
    def rows(self) -> int:
        """Maximum number of points that the attack holds at a time, for one image."""
