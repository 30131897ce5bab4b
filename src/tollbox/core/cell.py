"""A cell: one attack on one image under one price; the unit of a run, a study and a store.

What a caller may get wrong is refused here, before the first query, in one sentence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from torch import Tensor

from ..errors import InputError, mention
from .detector import Detection, Detector, check_watch
from .goal import Goal, aim
from .limits import Limits
from .metric import Metric, check_made_for, norm_of
from .model import Model
from .prices import Prices
from .problem import Attack, check_mask
from .validation import check_flag, check_range, check_whole, is_number, shown


@dataclass(frozen=True)
class Cell:
    """(attack, image, label, prices, budget, goal, metric, seed)."""

    attack: Attack
    image: Tensor = field(repr=False)
    """(c, h, w) in [0,1]."""
    label: int
    """The source class."""
    prices: Prices = field(default_factory=Prices)
    budget: float = math.inf
    max_queries: float = math.inf
    target: int | None = None
    """Short for a goal with this target."""
    seed: int = 0
    name: str = ""
    charge_clean: bool = True
    """Charge the query of the clean image. The paper preselects its images, and does not."""
    start: Tensor | None = field(default=None, repr=False)
    """An image to begin from, in place of what the attack's start would find."""
    norm: Metric = Metric.L2
    """What distances are measured in; 'l2' and 'linf' will do."""
    goal: Goal = field(default_factory=Goal)
    """What is flagged, and what adversarial; by default any class but the source."""

    mask: Tensor | None = field(default=None, repr=False)
    """Which pixels may change, (h, w), (1, h, w) or (c, h, w), bool; None: all."""
    max_flagged: float = math.inf
    """How many answers may be flagged; nothing is asked after the last of them."""
    watch: Detector | None = field(default=None, repr=False)
    """A detector of one's own, which is shown the queries."""
    alarm_price: float = 0.0
    """What an alarm of it costs, beside the answer."""
    max_alarms: float = math.inf
    """How many alarms may be raised; nothing is asked after the last of them."""

    @property
    def limits(self) -> Limits:
        """What its run may cost and take."""
        return Limits(self.budget, float(self.max_queries), float(self.max_flagged))

    @property
    def detection(self) -> Detection | None:
        """The detector, with the terms of its alarms."""
        if self.watch is None:
            return None
        return Detection(self.watch, self.alarm_price, self.max_alarms)

    @property
    def aim(self) -> Goal:
        """The goal, with its target and for its label."""
        return aim(self.label, self.target, self.goal)

    def check(
        self, model: Model, name: str, shape: tuple[int, ...] | None = None
    ) -> tuple[int, ...]:
        """Raise InputError if this cell cannot be run beside images of `shape`; returns its shape.

        `name` is what the message calls the image.
        """
        check_attack(self.attack)
        check_made_for(self.attack, norm_of(self.norm))
        check_watch(self.watch, self.alarm_price, self.max_alarms)
        limits = self.budget, self.max_queries, self.max_flagged
        check_limits(self.prices, *limits, alarm_price=self.alarm_price)
        check_whole("seed", self.seed)
        check_flag("charge_clean", self.charge_clean)
        if not isinstance(self.name, str):
            raise InputError(f"is {shown(self.name)}", expected="text", input="name")
        check_image(self.image, name)
        check_label(self.label, model.classes, f"the label of {name}")
        check_classes(self.prices, model.classes)
        self._check_goal(model, name)
        if self.mask is not None:
            check_mask(self.mask, self.image, name)
        if self.start is not None:
            check_image(self.start, f"the start of {name}")
            if self.start.shape != self.image.shape:
                raise InputError(
                    f"the start of {name} has shape {tuple(self.start.shape)}",
                    expected=f"that of the image, {tuple(self.image.shape)}",
                )
        if shape is not None and tuple(self.image.shape) != shape:
            raise InputError(
                f"{name} has shape {tuple(self.image.shape)}, those before it {shape}",
                expected="one shape for all",
            )
        return tuple(self.image.shape)

    def _check_goal(self, model: Model, name: str) -> None:
        """Raise InputError unless the model has the classes of the goal, and one to reach."""
        if not isinstance(self.goal, Goal):
            expected = "tb.Goal.leave({...}) or tb.Goal.reach(...)"
            raise InputError(f"is {shown(self.goal)}", expected=expected, input="goal")
        target = self.goal.target if self.target is None else self.target
        if self.target is not None and self.goal.target not in (None, self.target):
            raise InputError(
                f"the target of {name} is {self.target}, and that of its goal {self.goal.target}",
                expected="one of them",
            )
        if target is not None:
            check_label(target, model.classes, f"the target of {name}")
            if self.goal.flagged is None and target == self.label:
                raise InputError(
                    f"the target of {name} is its source class, {self.label}",
                    expected="another class",
                )
        self.aim.check(model.classes)


def check_attack(attack: Attack) -> None:
    """Something that can be called with a problem."""
    if not callable(attack) or isinstance(attack, type):
        remedy = f"use tb.preset({attack!r})" if isinstance(attack, str) else ""
        expected = "an attack, such as tb.preset('a-hsja')" if not remedy else "an attack"
        raise InputError(f"is {shown(attack)}", expected=expected, remedy=remedy, input="attack")


def check_classes(prices: Prices, classes: int | None) -> None:
    """Classes that have a price are classes of the model."""
    for number in prices.classes or {}:
        if classes is not None and number >= classes:
            raise InputError(
                f"has a price for class {number}, and the model has {classes} classes",
                expected=f"0 to {classes - 1}",
                input="prices",
            )


def check_limits(
    prices: Prices,
    budget: float,
    max_queries: float,
    max_flagged: float = math.inf,
    *,
    alarm_price: float = 0.0,
) -> None:
    """The budget admits a query, and something ends the run."""
    if not isinstance(prices, Prices):
        expected = "tb.Prices(source=..., other=...)"
        raise InputError(f"is {shown(prices)}", expected=expected, input="prices")
    caps = {"max_queries": max_queries, "max_flagged": max_flagged}
    for name, value in {"budget": budget, **caps}.items():
        if not is_number(value):
            raise InputError(f"is {shown(value)}", expected="a number", input=name)
    one = "one query and its alarm" if alarm_price else "one query"
    dearest = prices.dearest + alarm_price
    first = float(prices.dearest_next([0] * len(prices.values))) + alarm_price
    if budget < first:
        raise InputError(
            f"is {budget:g}",
            expected=f"at least {first:g}, which {one} may cost",
            input="budget",
        )
    for name, value in caps.items():
        if not (value >= 1 and (math.isinf(value) or value % 1 == 0)):
            raise InputError(f"is {value:g}", expected="a whole number, 1 or more", input=name)
    if math.isinf(max_queries) and math.isinf(budget):
        raise InputError(
            f"neither {mention('budget')} nor {mention('max_queries')} ends the run",
            expected="one that does",
            remedy=""
            if math.isinf(max_flagged)
            else f"{mention('max_flagged')} does not, since other answers never reach it",
        )
    if math.isinf(budget) and math.isinf(dearest * max_queries):
        raise InputError(
            f"{max_queries:g} queries at {dearest:g} each cost more than a float can hold",
            expected=f"smaller prices, a smaller {mention('max_queries')}, or {mention('budget')}",
        )
    if math.isinf(max_queries) and prices.cheapest == 0:
        raise InputError(
            "some answers are free under these prices",
            expected=f"{mention('max_queries')} as well, since {mention('budget')} alone may never "
            "end the run",
        )


def check_image(image: Tensor, name: str) -> None:
    """One finite image (c, h, w) in [0,1]."""
    if not isinstance(image, Tensor):
        raise InputError(f"{name} is a {type(image).__name__}", expected="a tensor (c, h, w)")
    if image.ndim != 3 or image.numel() == 0:
        given = f"{name} has shape {tuple(image.shape)}"
        raise InputError(given, expected="(c, h, w), not empty")
    if not image.is_floating_point():
        given = f"{name} is {image.dtype}"
        raise InputError(given, expected="floats in [0,1]", remedy="divide by 255")
    check_range(image, name)


def check_label(label: int, classes: int | None, name: str) -> None:
    """A class that the model has."""
    if isinstance(label, bool) or not isinstance(label, int):
        raise InputError(f"{name} is {shown(label)}", expected="an integer")
    if label < 0 or (classes is not None and label >= classes):
        expected = "0 or more" if classes is None else f"0 to {classes - 1}"
        raise InputError(f"{name} is {label}", expected=expected)
