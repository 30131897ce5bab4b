"""The prices of a study, each with its limits.

1. A price is c* (a number that is 0 or more, or inf) or a CSV with the columns class and price.
2. An entry of the list is the price itself, under the limits at the top of the file; or a table
   with `ratio`, and with limits of its own where it gives them. `inf` lifts a limit.
3. Every price has a limit that ends a run, and a budget that admits a query.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from ...core.cell import check_limits
from ...core.prices import Prices
from ...errors import InputError
from ...files.price_tables import prices_per_class
from .file import Item, spelled
from .sections import check_there, check_unique
from .specs import Tariff

RATIO = "a number that is 0 or more, inf, or the path of a CSV with the columns class and price"
BUDGET = "a number, what the queries for one image may cost"
MAX_QUERIES = "a whole number of 1 or more, or inf for no cap"


def tariffs_of(top: Mapping[str, Item], folder: Path) -> tuple[Tariff, ...]:
    """`prices`, with `budget` and `max_queries` at the top of the file as defaults."""
    for name in ("budget", "max_queries"):
        _limit(name, top)
    each = top["prices"].entries("prices = [1, 100]")
    tariffs = [_tariff(item, top, folder) for item in each]
    check_unique("prices", each, [tariff.name for tariff in tariffs])
    return tuple(tariffs)


def _tariff(item: Item, top: Mapping[str, Item], folder: Path) -> Tariff:
    given = {"ratio": item}
    if isinstance(item.value, dict):
        given = item.table(("ratio", "name", "budget", "max_queries"))
        if "ratio" not in given:
            raise item.error(
                f"number {int(item.key[-1]) + 1} of prices has no ratio: expected {RATIO}, as "
                "ratio = 100."
            )
    name, prices = _prices(given["ratio"], folder)
    if "name" in given:
        name = given["name"].text("a name in quotes")
    limits = {**top, **given}
    budget, most = _limit("budget", limits), _limit("max_queries", limits)
    _check(item, limits, name, prices, budget, most)
    return Tariff(name, prices, budget, most)


def _limit(name: str, given: Mapping[str, Item]) -> float:
    """The budget or the cap on queries; infinite if it is not given."""
    item = given.get(name)
    if item is None or item.value == math.inf:
        return math.inf
    return item.number(BUDGET) if name == "budget" else item.whole(1, expected=MAX_QUERIES)


def _prices(item: Item, folder: Path) -> tuple[str, Prices]:
    """What a price is called unless it is given a name, and the price."""
    if isinstance(item.value, str):
        return _from_csv(item, folder)
    ratio = item.number(RATIO)
    if ratio < 0:
        raise item.wrong(RATIO)
    return f"{ratio:g}", Prices.flagged_only() if math.isinf(ratio) else Prices(source=ratio)


def _from_csv(item: Item, folder: Path) -> tuple[str, Prices]:
    text = item.text(RATIO)
    try:
        float(text)
    except ValueError:
        pass
    else:
        raise item.wrong(f"{RATIO}; write a number without quotes")
    path = folder / text
    check_there(item, path, RATIO)
    return path.stem, prices_per_class(str(path))


def _check(
    item: Item,
    given: Mapping[str, Item],
    name: str,
    prices: Prices,
    budget: float,
    max_queries: float,
) -> None:
    """Something ends a run at these prices, and the budget admits a query."""
    if math.isinf(budget) and math.isinf(max_queries):
        raise item.error(
            f"neither budget nor max_queries limits the price {name!r}: nothing would end its "
            "runs; expected one of them, as budget = 5000."
        )
    if budget < prices.dearest:
        limit = given["budget"]
        own = "" if len(limit.key) > 1 else ", or give that price a budget of its own in [[prices]]"
        raise limit.error(
            f"{spelled(limit.key)} is {budget:g}: expected at least {prices.dearest:g}, which one "
            f"query may cost under the price {name!r}; raise it{own}."
        )
    if math.isinf(max_queries) and prices.cheapest == 0:
        raise item.error(
            f"some answers are free under the price {name!r}: a budget alone may never end its "
            "runs; give max_queries as well, as max_queries = 50000."
        )
    try:
        check_limits(prices, budget, max_queries)
    except InputError as error:
        raise item.error(f"the price {name!r}: {error}") from None
