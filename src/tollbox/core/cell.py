"""A cell: one attack on one image under one price; the unit of a run, a study and a store.

The constructor checks the settings. `check` checks what depends on the model or on other cells,
before the first query.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

from torch import Tensor

from .by_side import at_side
from .detector import Detection
from .device import check_readable
from .goal import Goal, aim, check_start
from .limits import NO_LIMITS, Limits
from .metric import Metric, check_made_for, norm_of
from .model import Model
from .prices import Prices
from .problem import Attack, check_mask
from .validation import (
    check_flag,
    check_instance,
    check_range,
    check_seed,
    expect,
    number,
    require,
    shown,
)


@dataclass(frozen=True)
class Cell:
    """One attack on one image, with its prices, limits, goal, metric and seed."""

    attack: Attack
    image: Tensor = field(repr=False)
    """(c, h, w) in [0,1]."""
    label: int
    """The source class."""
    prices: Prices = field(default_factory=Prices)
    limits: Limits = NO_LIMITS
    target: int | None = None
    """Short for a goal with this target."""
    seed: int = 0
    name: str = ""
    charge_clean: bool = True
    """Whether the query of the clean image is charged. The paper preselects its images, and does
    not charge it."""
    start: Tensor | None = field(default=None, repr=False)
    """An image to start from, instead of what the attack's start would find."""
    norm: Metric = Metric.L2
    """The metric of distances; 'l2' and 'linf' are accepted."""
    goal: Goal = field(default_factory=Goal)
    """Which labels are flagged and which are adversarial; by default only the source is flagged."""
    mask: Tensor | None = field(default=None, repr=False)
    """Which pixels may change, (h, w), (1, h, w) or (c, h, w), bool; None for all."""
    detection: Detection | None = None
    """The detector that sees the queries, and the terms of its alarms."""

    def __post_init__(self) -> None:
        is_attack = callable(self.attack) and not isinstance(self.attack, type)
        by_name = f"use tb.preset({self.attack!r})" if isinstance(self.attack, str) else ""
        expected = "an attack" if by_name else "an attack, such as tb.preset('a-hsja')"
        require(is_attack, "attack", self.attack, expected, by_name)
        rows = getattr(self.fitted, "rows", 0)
        given = f"declares {shown(rows)} rows"
        expect(number(0).holds(rows), given, number(0).words, input="attack")
        object.__setattr__(self, "norm", norm_of(self.norm))
        check_made_for(self.fitted, self.norm)
        if self.detection is not None:
            check_instance("detection", self.detection, Detection)
        check_instance("limits", self.limits, Limits)
        self.limits.check(self.prices, self.detection)
        check_seed("seed", self.seed)
        check_flag("charge_clean", self.charge_clean)
        require(isinstance(self.name, str), "name", self.name, "text")
        expected = "tb.Goal.leave({...}) or tb.Goal.reach(...)"
        require(isinstance(self.goal, Goal), "goal", self.goal, expected)

    @cached_property
    def fitted(self) -> Attack:
        """The attack with its values for the image's side; for large images if there is none."""
        sides = getattr(self.image, "shape", ())[1:]
        return at_side(self.attack, min(sides, default=math.inf))

    @property
    def aim(self) -> Goal:
        """The goal with the cell's target and label filled in."""
        return aim(self.label, self.target, self.goal)

    def check(
        self, model: Model, name: str, shape: tuple[int, ...] | None = None
    ) -> tuple[int, ...]:
        """Return the image's shape; raise InputError if this cell cannot be run with images of
        `shape`. Messages call the image `name`."""
        check_image(self.image, name)
        check_label(self.label, model.classes, f"the label of {name}")
        if model.classes is not None:
            classes, largest = model.classes, max(self.prices.classes or (), default=0)
            given = f"has a price for class {largest}, but the model has {classes} classes"
            expect(largest < classes, given, f"0 to {classes - 1}", input="prices")
        self._check_goal(model, name)
        if self.mask is not None:
            check_mask(self.mask, self.image, name)
        own_shape = tuple(self.image.shape)
        if self.start is not None:
            check_image(self.start, f"the start of {name}")
            given = f"the start of {name} has shape {tuple(self.start.shape)}"
            same = self.start.shape == self.image.shape
            expect(same, given, f"that of the image, {own_shape}")
        given = f"{name} has shape {own_shape}, those before it {shape}"
        expect(shape in (None, own_shape), given, "one shape for all")
        return own_shape

    def _check_goal(self, model: Model, name: str) -> None:
        """Raise InputError unless the model has the goal's classes and at least one to reach."""
        if self.target is not None:
            given = f"the target of {name} is {shown(self.target)}, and that of its goal "
            same = self.goal.target in (None, self.target)
            expect(same, f"{given}{shown(self.goal.target)}", "one of them")
        target = self.goal.target if self.target is None else self.target
        if target is not None:
            check_label(target, model.classes, f"the target of {name}")
            given = f"the target of {name} is its source class, {self.label}"
            expect(self.goal.flagged is not None or target != self.label, given, "another class")
        self.aim.check(model.classes)
        if not getattr(self.fitted, "finds_targets", True):
            check_start(target, self.start, ("targets", "starts"))


def check_image(image: Tensor, name: str) -> None:
    """Raise InputError unless `image` is one finite image (c, h, w) in [0,1]."""
    given = f"{name} is a {type(image).__name__}"
    expect(isinstance(image, Tensor), given, "a tensor (c, h, w)")
    check_readable(image, name)
    given = f"{name} has shape {tuple(image.shape)}"
    expect(image.ndim == 3 and image.numel() > 0, given, "(c, h, w), not empty")
    given = f"{name} is {image.dtype}"
    expect(image.is_floating_point(), given, "floats in [0,1]", "divide by 255")
    check_range(image, name)


def check_label(label: int, classes: int | None, name: str) -> None:
    """Raise InputError unless `label` is a class of the model."""
    given = f"{name} is {shown(label)}"
    expect(isinstance(label, int) and not isinstance(label, bool), given, "an integer")
    expected = "0 or more" if classes is None else f"0 to {classes - 1}"
    expect(0 <= label < (2**63 if classes is None else classes), given, expected)
