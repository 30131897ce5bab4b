"""Numbers as text, in one format; the page's script writes them the same way.

A distance has three significant digits, the last of them too if it is 0; a count is whole if it is,
in groups of three; a share is a percentage with at most three digits.
"""

from __future__ import annotations

import math

THIN = "\N{NARROW NO-BREAK SPACE}"


def distance(value: float) -> str:
    """2.40; 1 230; 1.20e-5; ∞ without a value, – if it is not known."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞"
    size = abs(value)
    if size == 0:
        return "0"
    if size < 1e-3 or size >= 1e7:
        digits, exponent = f"{value:.2e}".split("e")
        return f"{digits}e{int(exponent)}"
    if size >= 999.5:
        return _grouped(int(float(f"{value:.3g}")))
    return f"{value:#.3g}".rstrip(".")


def count(value: float) -> str:
    """A cost or a number of queries: 8 000."""
    return _grouped(int(value)) if float(value).is_integer() else distance(value)


def percent(share: float) -> str:
    """86.7 %."""
    return f"{100 * share:.3g}{THIN}%"


def interval(low: float, high: float) -> str:
    """The ends of an interval."""
    return f"[{distance(low)}, {distance(high)}]"


def rounded(value: float | None) -> float | None:
    """A number for the page, to five digits; None for what is not finite."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.5g}")


def _grouped(value: int) -> str:
    return f"{value:,}".replace(",", THIN)
