"""The prices of a study, each with its limits.

1. A price is c* (a number that is 0 or more, or inf) or a CSV of prices (files/price_tables.py).
2. An entry of the list is the price itself, under the limits at the top of the file; or a table
   with `ratio`, and with limits of its own where it gives them. `inf` lifts a limit.
3. Every price has a limit that ends a run, and a budget that admits a query.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from ...errors import InputError
from .file import Item
from .sections import check_there, check_unique
from .specs import PRICE, Tariff

BUDGET = "a number, what the queries for one image may cost"
LIMITS: tuple[str, ...] = ("budget", "max_queries", "max_flagged")
PRICE_KEYS = ("ratio", "name", *LIMITS)
"""Keys of a price that is a table."""
CAP = "a whole number of 1 or more, or inf for no cap"


def tariffs_of(top: Mapping[str, Item], folder: Path) -> tuple[Tariff, ...]:
    """`prices`, with the limits at the top of the file as defaults."""
    for name in LIMITS:
        _limit(name, top)
    each = top["prices"].entries("prices = [1, 100]")
    tariffs = [_tariff(item, top, folder) for item in each]
    check_unique("prices", each, [tariff.name for tariff in tariffs])
    return tuple(tariffs)


def _tariff(item: Item, top: Mapping[str, Item], folder: Path) -> Tariff:
    entry = {"ratio": item}
    if isinstance(item.value, dict):
        entry = item.table(PRICE_KEYS)
        if "ratio" not in entry:
            raise item.error(
                f"number {int(item.key[-1]) + 1} of prices has no ratio: expected {PRICE}, as "
                "ratio = 100."
            )
    price = _price(entry["ratio"], folder)
    name = entry["name"].name() if "name" in entry else ""
    shown_name = name or (Path(price).stem if isinstance(price, str) else f"{price:g}")
    limits = {**top, **entry}
    values = {key: _limit(key, limits) for key in LIMITS}
    try:
        return Tariff.of(price, name=name, folder=folder, **values)
    except InputError as error:
        keys = {key: limits[key].key for key in LIMITS if key in limits}
        keys["price"] = entry["ratio"].key
        if error.input != "price":
            error = error.placed(f"the price {shown_name!r}")
        raise item.source.about(error, keys, item.key) from None


def _limit(name: str, items: Mapping[str, Item]) -> float:
    """The budget or a cap; infinite if it is not given."""
    item = items.get(name)
    if item is None or item.value == math.inf:
        return math.inf
    return item.number(BUDGET) if name == "budget" else item.whole(1, expected=CAP)


def _price(item: Item, folder: Path) -> float | str:
    """c*, or the path of a CSV, which is there."""
    if not isinstance(item.value, str):
        return item.number(PRICE)
    text = item.text(PRICE)
    try:
        float(text)
    except ValueError:
        check_there(item, folder / text, PRICE)
        return text
    raise item.wrong(f"{PRICE}; write a number without quotes")
