"""Prices per class, from a CSV with the columns class and price.

A class may be `default`, which stands for all that are not listed and is 1 if not given.
"""

from __future__ import annotations

import math
from pathlib import Path

from ..core.prices import Prices
from ..errors import FileError
from .tables import LARGEST, kind_of, rows_of, shortened

DEFAULT_ROW = "default"


def prices_per_class(text: str) -> Prices:
    """The prices of the CSV file at a path."""
    file = Path(text)
    if not text.strip() or kind_of(file, str(file), input="price") == "nothing":
        raise FileError(
            f"is {shortened(text)!r}",
            expected="a number, inf, or a CSV file that exists, with the columns class and price",
            input="price",
        )
    default = 1.0
    prices: dict[int, float] = {}
    seen: set[str] = set()
    for line, (name, value) in rows_of(file, ("class", "price")):
        where = f"{file}, line {line}"
        price = _price(value, where)
        name = _class(name, where)
        if name in seen:
            raise FileError(f"class {name} has a price already", where=where)
        seen.add(name)
        if name == DEFAULT_ROW:
            default = price
        else:
            prices[int(name)] = price
    if not seen:
        raise FileError(f"{file} has no prices", expected="lines of class and price")
    if default == 0 and not any(prices.values()):
        raise FileError("all prices are 0", expected="at least one above 0", where=str(file))
    return Prices.per_class(prices, default)


def _class(text: str, where: str) -> str:
    """A class without leading zeros, or the word for all others."""
    if text.lower() == DEFAULT_ROW:
        return DEFAULT_ROW
    if text.isdecimal() and len(text) <= 100 and int(text) <= LARGEST:
        return str(int(text))
    raise FileError(
        f"the class is {shortened(text)!r}",
        expected=f"an integer that is 0 or more, or {DEFAULT_ROW!r}",
        where=where,
    )


def _price(text: str, where: str) -> float:
    try:
        price = float(text)
    except ValueError:
        price = math.nan
    if not (math.isfinite(price) and price >= 0):
        raise FileError(
            f"the price is {shortened(text)!r}",
            expected="a finite number that is 0 or more",
            where=where,
        )
    return price
