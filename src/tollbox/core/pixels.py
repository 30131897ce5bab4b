"""The range of pixels: what an image may hold, wherever it comes from."""

from __future__ import annotations

import math

from torch import Tensor

from ..errors import InputError


def check_range(image: Tensor, subject: str) -> None:
    """Raise InputError unless all values are finite and in [0,1]; `subject` names the image."""
    low, high = (value.item() for value in image.aminmax())
    if not (math.isfinite(low) and math.isfinite(high)):
        raise InputError(f"{subject} has values that are not finite", expected="values in [0,1]")
    if low < 0 or high > 1:
        raise InputError(
            f"{subject} has values from {low:g} to {high:g}",
            expected="[0,1]",
            remedy="divide by 255?" if high > 1.5 else "",
        )
