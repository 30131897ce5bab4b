"""Prices from a CSV file.

1. With the columns class and price: a price per class. A class may be `default`, which stands for
   all that are not listed and is 1 if not given.
2. With the columns flagged and price: a price that grows. From flagged answer n on each costs so
   much, the first line being for 1. The price of the last line may be `again`: there they begin
   anew. `default` stands for answers that are not flagged, and is 1 if not given.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from ..core.prices import Prices
from ..errors import FileError, InputError
from .tables import LARGEST, header_of, kind_of, rows_of, shortened

DEFAULT_ROW = "default"
AGAIN = "again"
COLUMNS = "with the columns class and price, or flagged and price"
GROWING = "the columns flagged and price: what a flagged answer costs from the n-th on"


def prices_from(text: str) -> Prices:
    """The prices of the CSV file at a path."""
    file = _file(text, f"a number, inf, or a CSV file that exists, {COLUMNS}")
    return _growing(file) if "flagged" in header_of(file) else _per_class(file)


def growing_prices_from(text: str) -> Prices:
    """The prices that grow of the CSV file at a path."""
    file = _file(text, f"a CSV file that exists, with {GROWING}")
    header = header_of(file)
    if "class" in header and "flagged" not in header:
        raise FileError(f"{file} has prices per class", expected=GROWING, input="price")
    return _growing(file)


def _file(text: str, expected: str) -> Path:
    file = Path(text)
    if not text.strip() or kind_of(file, str(file), input="price") == "nothing":
        raise FileError(f"is {shortened(text)!r}", expected=expected, input="price")
    return file


def _per_class(file: Path) -> Prices:
    prices: dict[int, float] = {}
    default = 1.0
    for where, name, value in _lines(file, "class", 0):
        price = _price(value, where)
        if name == DEFAULT_ROW:
            default = price
        else:
            prices[int(name)] = price
    if default == 0 and not any(prices.values()):
        raise FileError("all prices are 0", expected="at least one above 0", where=str(file))
    return Prices.per_class(prices, default)


def _growing(file: Path) -> Prices:
    steps: dict[int, float] = {}
    again: int | None = None
    default = 1.0
    for where, name, value in _lines(file, "flagged", 1):
        if value.lower() == AGAIN and name != DEFAULT_ROW:
            if again is not None:
                raise FileError(f"the prices begin again at {again} already", where=where)
            again = int(name)
            continue
        price = _price(value, where)
        if name == DEFAULT_ROW:
            default = price
        else:
            steps[int(name)] = price
    try:
        return Prices.escalating(steps, again, default)
    except InputError as error:
        raise FileError(error.given, expected=error.expected, where=str(file)) from None


def _lines(file: Path, column: str, least: int) -> Iterator[tuple[str, str, str]]:
    """Where it stands, the name, once each, and the price of each line."""
    seen: set[str] = set()
    for line, (text, value) in rows_of(file, (column, "price")):
        where = f"{file}, line {line}"
        name = _number(text, column, least, where)
        if name in seen:
            raise FileError(f"{column} {name} has a price already", where=where)
        seen.add(name)
        yield where, name, value
    if not seen:
        raise FileError(f"{file} has no prices", expected=f"lines of {column} and price")


def _number(text: str, column: str, least: int, where: str) -> str:
    """A number without leading zeros, or the word for all others."""
    if text.lower() == DEFAULT_ROW:
        return DEFAULT_ROW
    if text.isdecimal() and len(text) <= 100 and least <= int(text) <= LARGEST:
        return str(int(text))
    what = "class" if column == "class" else "flagged answer"
    raise FileError(
        f"the {what} is {shortened(text)!r}",
        expected=f"an integer that is {least} or more, or {DEFAULT_ROW!r}",
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
