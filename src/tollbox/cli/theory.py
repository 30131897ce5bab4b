"""`tollbox theory`: the numbers that the paper's theorems give for a price and a dimension.

There are three tables: a gradient estimate at the optimal overshoot and a vanilla one at the same
expected cost (Theorems 2 and 3), the overshooting scheduler (Theorem 4), and the expected cost of
searches over the same cells (Theorem 1).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Parameter
from rich import box
from rich.table import Table

from ..data.tables import shortened
from ..errors import InputError
from .options import number_in, whole, within
from .output import JSON, console, json_text, write

LARGEST_PRICE = 1e15
"""Highest price (its inverse is the lowest) and largest radius."""
MOST_CELLS = 10**6
"""Maximum number of cells; computing their exact costs takes about a second."""
MOST_DIMENSIONS = MOST_QUERIES = 10**9
ITERATIONS = (1, 10, 100)


NUMBER = Parameter(allow_leading_hyphen=True)
WHOLE = Parameter(converter=whole, allow_leading_hyphen=True)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TheoryOptions:
    price: Annotated[str, NUMBER]
    """c*: the price of a flagged answer; any other answer costs 1. A number above 0, or inf, for
    which attacks plan with 1e5."""
    dim: Annotated[int, WHOLE] = 3 * 224 * 224
    """d: number of values in an image."""
    cells: Annotated[int, WHOLE] = 10_000
    """Number of cells that a search distinguishes, 1/tau."""
    queries: Annotated[int, WHOLE] = 30
    """n': number of queries in the vanilla estimate; the optimal one has the same cost."""
    rate: Annotated[float, NUMBER] = 0.02
    """m: exponent of the overshooting scheduler, which reduces 1 - cos(alpha_t) as t^-m."""
    delta: Annotated[float, NUMBER] = 0.0045
    """Radius of an estimate's samples."""
    json: Annotated[bool, JSON] = False


def theory(options: TheoryOptions) -> int:
    """Print what the paper's theorems say for a price: overshoot, estimates, searches."""
    ratio = _ratio(options.price)
    within("dim", options.dim, 2, MOST_DIMENSIONS)
    within("cells", options.cells, 1, MOST_CELLS)
    within("queries", options.queries, 1, MOST_QUERIES)
    within("rate", options.rate, 0, 10)
    if not 0 < options.delta <= LARGEST_PRICE:
        expected = f"above 0, up to {LARGEST_PRICE:g}"
        raise InputError(f"is {options.delta:g}", expected=expected, input="delta")
    numbers: dict[str, Any] = {
        "price": options.price,
        "ratio": ratio,
        "dimension": options.dim,
        "estimate": estimates(ratio, options.dim, options.queries),
        "schedule": schedule(ratio, options.dim, options.rate, options.delta),
        "search": searches(ratio, options.cells),
    }
    if options.json:
        write(json_text(numbers))
    else:
        _show(numbers)
    return 0


def _ratio(text: str) -> float:
    """Return the c* that attacks plan with."""
    from ..core.prices import Prices

    with contextlib.suppress(ValueError):
        price = number_in(text)
        if price == math.inf:
            return Prices.flagged_only().ratio
        if 1 / LARGEST_PRICE <= price <= LARGEST_PRICE:
            return price
    expected = f"a number above 0, from {1 / LARGEST_PRICE:g} to {LARGEST_PRICE:g}, or inf"
    raise InputError(f"is {shortened(text)!r}", expected=expected, input="price")


def estimates(ratio: float, d: int, queries: int) -> dict[str, Any]:
    """Return an estimate at the boundary and one at the optimal overshoot, at equal cost."""
    from ..theory import caps as closed_forms

    cost = queries * (ratio + 1) / 2  # c_t

    def at(x: float) -> dict[str, float]:
        p, flagged = closed_forms.cap_probability(x, d), closed_forms.cap_complement(x, d)
        each = ratio * flagged + p
        return {
            "x": x,
            "s": x * math.sqrt(d),
            "p": p,
            "flagged": flagged,
            "beta": p,
            "cost_of_a_query": each,
            "n": cost / each,
            "J": closed_forms.objective(x, d, cost / each),
            "expected_cosine": closed_forms.expected_cosine(x, d, cost / each),
        }

    best = closed_forms.optimal_overshoot(ratio, d)
    return {"cost": cost, "vanilla": at(0.0), "optimal": at(best)}


def schedule(ratio: float, d: int, rate: float, delta: float) -> dict[str, Any]:
    """Return cos(alpha_t) and omega_t of the scheduler at a few iterations."""
    from ..theory import caps as closed_forms

    first, x = closed_forms.initial_cosine(d), closed_forms.optimal_overshoot(ratio, d)
    steps = []
    for t in ITERATIONS:
        cosine = closed_forms.scheduled_cosine(t, first, rate)
        steps.append({"t": t, "cosine": cosine, "omega": x * delta / cosine})
    return {"rate": rate, "delta": delta, "initial_cosine": first, "steps": steps}


def searches(ratio: float, cells: int) -> dict[str, Any]:
    """Return the expected costs; `share` is the fraction on the flagged side of a split."""
    from ..theory import search_costs as closed_forms

    search, line = closed_forms.expected_search_cost, closed_forms.expected_line_search_cost
    best = closed_forms.optimal_search_cost(cells, ratio)
    return {
        "cells": cells,
        "binary": {"share": 0.5, "cost": search(cells, ratio, 1.0)},
        "line, 1 stage": {"share": None, "cost": line(cells, ratio, 1)},
        "line, 2 stages": {"share": None, "cost": line(cells, ratio, 2)},
        "asymmetric": {"share": 1 / (ratio + 1), "cost": search(cells, ratio)},
        "optimal": {"share": closed_forms.optimal_share(ratio), "cost": best},
    }


ROWS = {
    "x": "overshoot x",
    "s": "s = x sqrt(d)",
    "p": "adversarial answers p",
    "flagged": "flagged answers 1 - p",
    "beta": "weight beta",
    "cost_of_a_query": "expected cost of a query",
    "n": "queries n",
    "J": "J",
    "expected_cosine": "expected cosine",
}


def _show(numbers: Mapping[str, Any]) -> None:
    estimate, steps, search = (numbers[key] for key in ("estimate", "schedule", "search"))
    price, ratio = float(numbers["price"]), _number(numbers["ratio"])
    planned = "" if math.isfinite(price) else f" (planned for {ratio})"
    write(f"c* = {price:,.10g}{planned}, d = {numbers['dimension']:,}\n")
    _table(
        f"Estimates of expected cost c_t = {_number(estimate['cost'])}",
        ("", "vanilla", "optimal"),
        [(name, estimate["vanilla"][k], estimate["optimal"][k]) for k, name in ROWS.items()],
    )
    _table(
        f"Overshooting scheduler, m = {steps['rate']:g}, delta = {steps['delta']:g}",
        ("t", "cos(alpha_t)", "omega_t"),
        [(f"{s['t']}", s["cosine"], s["omega"]) for s in steps["steps"]],
    )
    write(f"E cos(alpha_1) = {_number(steps['initial_cosine'])}\n")
    _table(
        f"Searches over {search['cells']:,} cells",
        ("", "flagged side", "expected cost"),
        [(name, r["share"], r["cost"]) for name, r in search.items() if name != "cells"],
    )


def _table(
    title: str, columns: Sequence[str], rows: Sequence[tuple[str, float | None, float]]
) -> None:
    table = Table(columns[0], box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in columns[1:]:
        table.add_column(name, justify="right")
    for name, *values in rows:
        table.add_row(name, *("-" if value is None else _number(value) for value in values))
    console().print(title, table, sep="\n")


def _number(value: float) -> str:
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.5g}"
