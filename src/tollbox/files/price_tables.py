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


def prices_per_class(text: str, given: str) -> Prices:
    """The prices of a CSV; `given` says in messages what was given as its path."""
    file = Path(text)
    if not text.strip() or kind_of(file, f"{given}: it") == "nothing":
        raise FileError(
            f"{given}: expected a number, inf, or a CSV file that exists, with the columns class "
            "and price."
        )
    default = 1.0
    table: dict[int, float] = {}
    seen: set[str] = set()
    for line, (name, value) in rows_of(file, ("class", "price")):
        where = f"{file}, line {line}"
        price = _price(value, where)
        name = _class(name, where)
        if name in seen:
            raise FileError(f"{where}: class {name} has a price already.")
        seen.add(name)
        if name == DEFAULT_ROW:
            default = price
        else:
            table[int(name)] = price
    if not seen:
        raise FileError(f"{file} has no prices: expected lines of class and price.")
    if default == 0 and not any(table.values()):
        raise FileError(f"{file}: all prices are 0: expected at least one above 0.")
    return Prices.per_class(table, default)


def _class(text: str, where: str) -> str:
    """A class as it is usually written, or the word for all others."""
    if text.lower() == DEFAULT_ROW:
        return DEFAULT_ROW
    if text.isdecimal() and len(text) <= 100 and int(text) <= LARGEST:
        return str(int(text))
    raise FileError(
        f"{where}: the class is {shortened(text)!r}: expected an integer that is 0 or more, or "
        f"{DEFAULT_ROW!r}."
    )


def _price(text: str, where: str) -> float:
    try:
        price = float(text)
    except ValueError:
        price = math.nan
    if not (math.isfinite(price) and price >= 0):
        raise FileError(
            f"{where}: the price is {shortened(text)!r}: expected a finite number that is 0 or "
            "more."
        )
    return price
