"""Numbers as audit.json has them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def number(value: float) -> float | int | None:
    """A finite number of six digits, whole if it is; None of what is not finite."""
    if value is None or not math.isfinite(value):
        return None
    rounded = float(f"{value:.6g}")
    return int(rounded) if rounded.is_integer() else rounded


def price(ratio: float) -> float | int | str:
    """c*, as JSON has it."""
    return "inf" if math.isinf(ratio) else number(ratio) or 0


def share(which: Any) -> float:
    """The share of what is true, 0 of nothing."""
    each = np.asarray(which)
    return round(float(each.mean()), 6) if each.size else 0.0
