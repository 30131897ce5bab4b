"""Numbers as text, in one format; the pages' script (`shared.js`) follows the same rules.

Distances have three significant digits. Whole counts are printed in full. Thousands are separated
by commas. Shares are percentages with at most three significant digits.
"""

from __future__ import annotations

import math

THIN = "\N{NARROW NO-BREAK SPACE}"


def distance(value: float) -> str:
    """Return a distance as text: 2.40, 1,230 or 1.20e-5; ∞ if infinite, – if unknown."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞"
    size = abs(value)
    if size == 0:
        return "0"
    if size < 1e-3 or size >= 1e7:
        digits, exponent = f"{value:.2e}".split("e")
        return f"{digits}e{int(exponent)}"
    if size >= 999.5:
        return f"{int(float(f'{value:.3g}')):,}"
    return f"{value:#.3g}".rstrip(".")


def count(value: float) -> str:
    """Return a cost or a number of queries as text: 8,000."""
    return f"{int(value):,}" if float(value).is_integer() else distance(value)


def percent(share: float) -> str:
    return f"{100 * share:.3g}{THIN}%"


def brackets(low: float, high: float) -> str:
    """Return an interval for a table: [60.0, 415]."""
    return f"[{distance(low)}, {distance(high)}]"


def confidence(low: str, high: str) -> str:
    """Return an interval for a sentence: 95 % CI 60–415."""
    return f"95{THIN}% CI {low}–{high}"


def counted(number: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun: 1 image, 2 images."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def short_cost(value: float) -> str:
    """Return a cost for the head of a table: 5K for 5,000."""
    return f"{value / 1000:g}K" if value >= 1000 and value % 100 == 0 else f"{value:g}"
