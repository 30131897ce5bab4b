"""Prices from a CSV file.

1. The columns class and price give a price per class. The class `default` stands for all classes
   that are not listed; its price is 1 by default.
2. The columns flagged and price give a price that grows: each line sets the price from the n-th
   flagged answer on, starting with n = 1. `again` in place of the last price makes the prices start
   over from there. `default` is the price of other answers, 1 by default.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from ..core.prices import Prices
from ..errors import FileError
from .tables import LARGEST, errors_in, header_of, kind_of, rows_of, shortened

DEFAULT_ROW = "default"
AGAIN = "again"
COLUMNS = "with the columns class and price, or flagged and price"
GROWING = "the columns flagged and price: the price from the n-th flagged answer on"


def prices_from(text: str, *, growing: bool = False) -> Prices:
    """Read prices from the CSV file at a path; with `growing`, only those of rule 2 are valid."""
    file = Path(text)
    if not text.strip() or kind_of(file, str(file), input="price") == "nothing":
        either = f"a number, inf, or a CSV file that exists, {COLUMNS}"
        expected = f"a CSV file that exists, with {GROWING}" if growing else either
        raise FileError(f"is {shortened(text)!r}", expected=expected, input="price")
    header = header_of(file)
    if {"class", "flagged"} <= set(header):
        expected = f"a CSV file {COLUMNS}, not all three"
        raise FileError(f"{file} has the columns class and flagged", expected=expected)
    if growing and "class" in header and "flagged" not in header:
        raise FileError(f"{file} has prices per class", expected=GROWING, input="price")
    return _growing(file) if growing or "flagged" in header else _per_class(file)


def _per_class(file: Path) -> Prices:
    lines = _lines(file, "class", 0)
    prices = {name: _price(value, where) for where, name, value in lines}
    default = prices.pop(DEFAULT_ROW, 1.0)
    if default == 0 and not any(prices.values()):
        raise FileError("all prices are 0", expected="at least one above 0", where=str(file))
    return Prices.per_class({int(name): price for name, price in prices.items()}, default)


def _growing(file: Path) -> Prices:
    prices: dict[str, float] = {}
    again: int | None = None
    last = 0
    for where, name, value in _lines(file, "flagged", 1):
        if name != DEFAULT_ROW and int(name) < last:
            given = f"flagged answer {name} comes after {last}"
            raise FileError(given, expected="lines in ascending order", where=where)
        last = last if name == DEFAULT_ROW else int(name)
        if value.lower() != AGAIN or name == DEFAULT_ROW:
            prices[name] = _price(value, where)
        elif again is None:
            again = int(name)
        else:
            raise FileError(f"the prices already start again at {again}", where=where)
    default = prices.pop(DEFAULT_ROW, 1.0)
    with errors_in(file):
        steps = {int(name): price for name, price in prices.items()}
        return Prices.escalating(steps, again, default)


def _lines(file: Path, column: str, least: int) -> Iterator[tuple[str, str, str]]:
    """Yield the position, the number (or `default`) and the price of each line."""
    seen: set[str] = set()
    for where, (text, value) in rows_of(file, (column, "price")):
        if text.lower() == DEFAULT_ROW:
            name = DEFAULT_ROW
        elif text.isdecimal() and len(text) <= 100 and least <= int(text) <= LARGEST:
            name = str(int(text))  # without leading zeros
        else:
            what = "class" if column == "class" else "flagged answer"
            expected = f"an integer that is {least} or more, or {DEFAULT_ROW!r}"
            raise FileError(f"the {what} is {shortened(text)!r}", expected=expected, where=where)
        if name in seen:
            raise FileError(f"{column} {name} has a price already", where=where)
        seen.add(name)
        yield where, name, value
    if not seen:
        raise FileError(f"{file} has no prices", expected=f"lines of {column} and price")


def _price(text: str, where: str) -> float:
    try:
        price = float(text)
    except ValueError:
        price = math.nan
    if not (math.isfinite(price) and price >= 0):
        expected = "a finite number that is 0 or more"
        raise FileError(f"the price is {shortened(text)!r}", expected=expected, where=where)
    return price
