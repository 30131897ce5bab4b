"""A cell: one attack on one image under one price; the unit of a run, a study and a store.

What a caller may get wrong is refused here, before the first query, in one sentence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from torch import Tensor

from ..errors import InputError
from .model import Model
from .pixels import check_range
from .prices import Prices
from .problem import Attack


@dataclass(frozen=True)
class Cell:
    """(attack, image, label, prices, budget, goal, seed)."""

    attack: Attack
    image: Tensor
    """(c, h, w) in [0,1]."""
    label: int
    """The source class."""
    prices: Prices = field(default_factory=Prices)
    budget: float = math.inf
    max_queries: float = math.inf
    target: int | None = None
    """The class to reach; None for any but the source."""
    seed: int = 0
    name: str = ""
    charge_clean: bool = True
    """Charge the query of the clean image. The paper preselects its images, and does not."""
    start: Tensor | None = None
    """An image to begin from, in place of what the attack's start would find."""

    def check(
        self, model: Model, where: str, shape: tuple[int, ...] | None = None
    ) -> tuple[int, ...]:
        """Raise InputError if this cell cannot be run beside images of `shape`; returns its shape.

        `where` names the cell in the message.
        """
        check_limits(self.prices, self.budget, self.max_queries)
        check_image(self.image, where)
        check_label(self.label, model.classes, f"the label of {where}")
        if self.target is not None:
            check_label(self.target, model.classes, f"the target of {where}")
            if self.target == self.label:
                raise InputError(f"the target of {where} is its source class, {self.label}.")
        if self.start is not None:
            check_image(self.start, f"the start of {where}")
            if self.start.shape != self.image.shape:
                raise InputError(
                    f"the start of {where} has shape {tuple(self.start.shape)}: expected that of "
                    f"the image, {tuple(self.image.shape)}."
                )
        if shape is not None and tuple(self.image.shape) != shape:
            raise InputError(
                f"{where} has shape {tuple(self.image.shape)}, those before it {shape}: expected "
                "one shape for all."
            )
        return tuple(self.image.shape)


def check_limits(prices: Prices, budget: float, max_queries: float) -> None:
    """The budget admits a query, and something ends the run."""
    if not isinstance(prices, Prices):
        raise InputError(f"prices is {prices!r}: expected tb.Prices(source=..., other=...).")
    for name, value in (("the budget", budget), ("max_queries", max_queries)):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"{name} is {value!r}: expected a number.")
    if math.isnan(budget) or budget < prices.dearest:
        raise InputError(
            f"the budget is {budget:g}: expected at least {prices.dearest:g}, which one query may "
            "cost."
        )
    if not (max_queries >= 1 and (math.isinf(max_queries) or max_queries % 1 == 0)):
        raise InputError(f"max_queries is {max_queries:g}: expected a whole number, 1 or more.")
    if math.isinf(max_queries) and math.isinf(budget):
        raise InputError("neither a budget nor max_queries is given: nothing would end the run.")
    if math.isinf(budget) and math.isinf(prices.dearest * max_queries):
        raise InputError(
            f"{max_queries:g} queries at {prices.dearest:g} each cost more than a float can hold: "
            "expected smaller prices, a budget, or a smaller max_queries."
        )
    if math.isinf(max_queries) and prices.cheapest == 0:
        raise InputError(
            "some answers are free under these prices: expected max_queries as well, since a "
            "budget alone may never end the run."
        )


def check_image(image: Tensor, where: str) -> None:
    """One finite image (c, h, w) in [0,1]."""
    if not isinstance(image, Tensor):
        raise InputError(f"{where} is a {type(image).__name__}: expected a tensor (c, h, w).")
    if image.ndim != 3 or image.numel() == 0:
        raise InputError(f"{where} has shape {tuple(image.shape)}: expected (c, h, w), not empty.")
    if not image.is_floating_point():
        raise InputError(f"{where} is {image.dtype}: expected floats in [0,1]; divide by 255.")
    check_range(image, where)


def check_label(label: int, classes: int | None, where: str) -> None:
    """A class that the model has."""
    if isinstance(label, bool) or not isinstance(label, int):
        raise InputError(f"{where} is {label!r}: expected an integer.")
    if label < 0 or (classes is not None and label >= classes):
        wanted = "0 or more" if classes is None else f"0 to {classes - 1}"
        raise InputError(f"{where} is {label}: expected {wanted}.")
