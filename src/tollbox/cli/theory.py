"""`tollbox theory`: the numbers that the paper's theorems give for a price and a dimension.

There are three tables: a gradient estimate at the optimal overshoot and a vanilla one of the same
expected cost (Theorems 2 and 3), the overshooting scheduler (Theorem 4), and the expected cost of
searches over the same cells (Theorem 1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Parameter
from rich import box
from rich.table import Table

from ..data.tables import shortened
from ..errors import InputError
from .output import JSON, console, print_json
from .parsing import whole, within

LARGEST_PRICE = 1e15
"""Highest price (its inverse is the lowest) and largest radius."""
MOST_CELLS = 10**6
"""Maximum number of cells, whose exact costs take about a second."""
MOST_DIMENSIONS = MOST_QUERIES = 10**9
ITERATIONS = (1, 10, 100)


def _option(text: str) -> Parameter:
    return Parameter(help=text, allow_leading_hyphen=True)


def _whole(text: str) -> Parameter:
    return Parameter(help=text, converter=whole, allow_leading_hyphen=True)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TheoryOptions:
    """The options of `tollbox theory`."""

    price: Annotated[
        str,
        _option(
            "c*: the price of a flagged answer; any other answer costs 1. A number above 0, or "
            "inf, which attacks plan for as 1e5."
        ),
    ]
    dim: Annotated[int, _whole("d: number of values of an image.")] = 3 * 224 * 224
    cells: Annotated[int, _whole("Number of cells that a search distinguishes, 1/tau.")] = 10_000
    queries: Annotated[
        int, _whole("n': queries of the vanilla estimate; the optimal one has the same cost.")
    ] = 30
    rate: Annotated[float, _option("m of the overshooting scheduler.")] = 0.02
    delta: Annotated[float, _option("Radius of the samples of an estimate.")] = 0.0045
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
    numbers = {
        "price": options.price,
        "ratio": ratio,
        "dimension": options.dim,
        "estimate": estimates(ratio, options.dim, options.queries),
        "schedule": schedule(ratio, options.dim, options.rate, options.delta),
        "search": searches(ratio, options.cells),
    }
    if options.json:
        print_json(numbers)
    else:
        _show(numbers)
    return 0


def _ratio(text: str) -> float:
    """Return c* as attacks plan with it."""
    try:
        price = float(text)
    except ValueError:
        price = math.nan
    if price == math.inf:
        from ..core.prices import Prices

        return Prices.flagged_only().ratio
    if not 1 / LARGEST_PRICE <= price <= LARGEST_PRICE:
        expected = f"a number above 0, from {1 / LARGEST_PRICE:g} to {LARGEST_PRICE:g}, or inf"
        raise InputError(f"is {shortened(text)!r}", expected=expected, input="price")
    return price


# -- numbers --------------------------------------------------------------------------------------


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

    return {
        "cost": cost,
        "vanilla": at(0.0),
        "optimal": at(closed_forms.optimal_overshoot(ratio, d)),
    }


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
    """Return expected costs; `share` is the part of an interval on its flagged side."""
    from ..theory import search_costs as closed_forms

    def line(stages: int) -> dict[str, float | None]:
        cost = closed_forms.expected_line_search_cost(cells, ratio, stages)
        return {"share": None, "cost": cost}

    return {
        "cells": cells,
        "binary": {"share": 0.5, "cost": closed_forms.expected_search_cost(cells, ratio, 1.0)},
        "line, 1 stage": line(1),
        "line, 2 stages": line(2),
        "asymmetric": {
            "share": 1 / (ratio + 1),
            "cost": closed_forms.expected_search_cost(cells, ratio),
        },
        "optimal": {
            "share": closed_forms.optimal_share(ratio),
            "cost": closed_forms.optimal_search_cost(cells, ratio),
        },
    }


# -- tables ---------------------------------------------------------------------------------------

ROWS = {
    "overshoot x": "x",
    "s = x sqrt(d)": "s",
    "adversarial answers p": "p",
    "flagged answers 1 - p": "flagged",
    "weight beta": "beta",
    "expected cost of a query": "cost_of_a_query",
    "queries n": "n",
    "J": "J",
    "expected cosine": "expected_cosine",
}


def _show(numbers: Mapping[str, Any]) -> None:
    ratio, estimate, steps, search = (
        numbers[k] for k in ("ratio", "estimate", "schedule", "search")
    )
    planned = "" if math.isfinite(float(numbers["price"])) else f" (planned for {_number(ratio)})"
    to = console()
    to.print(f"c* = {float(numbers['price']):,.10g}{planned}, d = {numbers['dimension']:,}\n")
    _table(
        f"Estimates of expected cost c_t = {_number(estimate['cost'])}",
        ("", "vanilla", "optimal"),
        [(name, estimate["vanilla"][k], estimate["optimal"][k]) for name, k in ROWS.items()],
    )
    _table(
        f"Overshooting scheduler, m = {steps['rate']:g}, delta = {steps['delta']:g}",
        ("t", "cos(alpha_t)", "omega_t"),
        [(f"{s['t']}", s["cosine"], s["omega"]) for s in steps["steps"]],
    )
    to.print(f"E cos(alpha_1) = {_number(steps['initial_cosine'])}\n")
    _table(
        f"Searches over {search['cells']:,} cells",
        ("", "flagged side", "expected cost"),
        [(name, r["share"], r["cost"]) for name, r in search.items() if name != "cells"],
    )


def _table(
    title: str, columns: Sequence[str], rows: Sequence[tuple[str, float | None, float]]
) -> None:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column(columns[0])
    for name in columns[1:]:
        table.add_column(name, justify="right")
    for name, *values in rows:
        table.add_row(name, *("-" if value is None else _number(value) for value in values))
    console().print(title, table, sep="\n")


def _number(value: float) -> str:
    if 1000 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value:.5g}"
