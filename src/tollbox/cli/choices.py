"""What a user types, turned into values: numbers, numbers per channel, prices, limits, a device.

Each function takes what was typed and names the option, as it is typed, in its message.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from cyclopts import Token

from ..core.cell import check_limits
from ..core.prices import Prices
from ..errors import InputError
from ..files.price_tables import prices_per_class
from ..files.tables import shortened
from ..models.devices import usable


def whole(kind: Any, tokens: Sequence[Token]) -> int:  # noqa: ARG001
    """A converter for cyclopts: an integer, never a rounded one."""
    text = tokens[0].value
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"it is {shortened(text)!r}: expected a whole number.") from None


def at_least(option: str, value: float | None, least: int, most: float = math.inf) -> None:
    """Raise InputError unless the value, if it is given, is from `least` to `most`."""
    if value is not None and not least <= value <= most:
        wanted = f"{least} or more" if math.isinf(most) else f"{least} to {most:g}"
        raise InputError(f"{option} is {value}: expected {wanted}.")


def seconds(value: float | None) -> float:
    """--time-limit; infinite if it is not given."""
    if value is not None and not value > 0:
        raise InputError(f"--time-limit is {value:g}: expected seconds, more than 0.")
    return math.inf if value is None else value


def numbers(option: str, text: str | None) -> list[float] | None:
    """'0.5' or '0.485,0.456,0.406'; None if not given."""
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(
            f"{option} is {text!r}: expected a number, or numbers separated by commas, one per "
            "channel."
        ) from None


def prices(text: str) -> Prices:
    """A number (c*), `inf`, or the path of a CSV with the columns class and price."""
    try:
        ratio = float(text)
    except ValueError:
        return prices_per_class(text)
    if math.isnan(ratio) or ratio < 0:
        raise InputError(f"--price is {text}: expected a number that is 0 or more, inf, or a CSV.")
    return Prices.flagged_only() if math.isinf(ratio) else Prices(source=ratio)


def limits(paid: Prices, budget: float | None, max_queries: int | None) -> tuple[float, float]:
    """Budget and cap on queries, infinite where not given; at least one ends the run."""
    if budget is None and max_queries is None:
        raise InputError(
            "neither --budget nor --max-queries is given: nothing would end the run; give one."
        )
    if budget is not None and not budget >= paid.dearest:
        raise InputError(
            f"--budget is {budget:g}: expected at least {paid.dearest:g}, which one query may cost."
        )
    at_least("--max-queries", max_queries, 1)
    if budget == math.inf and max_queries is None:
        raise InputError(
            f"neither --budget, which is {budget:g}, nor --max-queries ends the run: give one that "
            "does."
        )
    if max_queries is None and paid.cheapest == 0:
        raise InputError(
            "some answers are free under this --price: a budget alone may never end the run; give "
            "--max-queries."
        )
    most = math.inf if budget is None else budget
    cap = math.inf if max_queries is None else max_queries
    check_limits(paid, most, cap)
    return most, cap


def device(text: str | None) -> torch.device:
    """A device that works; by default the GPU if there is one, else the CPU."""
    return usable(text)
