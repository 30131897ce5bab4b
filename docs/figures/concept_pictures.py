"""The paper's two ideas in the plane: AGREST and asymmetric search, drawn from runs of them.

1. An image of two pixels is a point of the unit square. The source class lies below a smooth curve,
   `height`, so that the boundary, its normals and the answers are visible. The parts are those that
   attack real images, and the engine runs them. Each dot is a query, coloured by its answer; counts
   and costs come from the ledger (see search_picture.py).
2. The boundary point x_t is the result of a binary search from an adversarial image to the source.
3. Two dimensions differ from 150,528. In many dimensions nearly all of a sphere lies within 1 % of
   its radius of the middle plane, and a shift of that size makes most answers low-cost. In two, the
   shift must be a large part of the radius. For readability delta is 0.2 of the square's side, c*
   is 20, and the vanilla estimate has 20 queries. AGREST may spend their cost if half were flagged,
   20 (c* + 1) / 2 = 210, and checks its cost after each query. The first overshoot assumes, for any
   m, the cosine of a random direction, 0.64. The true one is 0.93, so fewer answers are flagged
   than planned, as on real images.
4. The search has c* = 2 and tau = 0.1, and finishes after three queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from search_picture import FLAGGED, MARKERS, PASSED, Query, filmed, line_search, pixels, steps
from torch import Tensor

from tollbox.core.ask import Asking, Iterate
from tollbox.core.problem import Problem
from tollbox.core.result import Result
from tollbox.parts.estimates import Agrest, MonteCarlo, move_outward
from tollbox.parts.searches import AsymmetricSearch, BinarySearch
from tollbox.report.axes import COLOURS, FAINT, INK, legend, legend_key, name_panel, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

Vector = NDArray[np.float64]

BEGIN, SOURCE = pixels(0.81, 0.89), pixels(0.33, 0.07)
DELTA, RATIO, QUERIES = 0.2, 20.0, 20
SEARCH_RATIO, TAU = 2.0, 0.1


def height(x: Tensor | Vector) -> Tensor | Vector:
    """Return y of the boundary at x."""
    return 0.46 - (x - 0.40) ** 2 / 2


def normal(x: float) -> Vector:
    """Return the unit normal of the boundary at x, towards the adversarial side."""
    upward = np.array([x - 0.40, 1.0])
    return np.asarray(upward / np.linalg.norm(upward))


def labels(points: Tensor) -> Tensor:
    """Return 0 for points below the boundary, else 1."""
    return (points[:, 1] > torch.as_tensor(height(points[:, 0]))).long()


class Estimated(NamedTuple):
    """An estimate at x_t with its queries."""

    point: Vector
    """x_t."""
    centre: Vector
    """Centre of its queries."""
    queries: list[Query]
    direction: Vector
    """A unit vector."""
    result: Result


def boundary_point() -> Iterate:
    """Return x_t."""
    film, _ = filmed(line_search(BinarySearch(1e-4, relative=True), BEGIN), labels, SOURCE, RATIO)
    point: Iterate = film.returned[0]
    return point


def estimated(part: MonteCarlo | Agrest) -> Estimated:
    """Return a first estimate at the boundary point."""
    boundary = boundary_point()

    def asking(problem: Problem) -> Asking[Tensor | None]:
        return part.begin(problem)(1, boundary, QUERIES)

    film, result = filmed(asking, labels, SOURCE, RATIO)
    omega = film.notes.get("overshoot", 0.0)
    centre = move_outward(Problem(SOURCE, 0), boundary.point, omega)
    point, moved = _vector(boundary.point), _vector(centre)
    return Estimated(point, moved, film.queries, _vector(film.returned[0]), result)


def _vector(image: Tensor) -> Vector:
    return np.array(image.flatten().tolist())


# -- figures --------------------------------------------------------------------------------------


def draw_agrest_and_search() -> Figure:
    """Draw AGREST and three rounds of asymmetric search, side by side."""
    figure = new_figure(6.8, 4.75)
    left, right = figure.subplots(1, 2)
    for axis, title in ((left, "AGREST"), (right, "Asymmetric search")):
        _draw_plane(axis, title)
    _draw_estimate(left, estimated(Agrest(delta=DELTA, chunk=1)))
    _draw_search(right)
    _legend(left, _estimate_keys(moved=True))
    _legend(right, _search_keys())
    return figure


def draw_estimates() -> Figure:
    """Draw the vanilla estimate and AGREST, side by side."""
    figure = new_figure(6.8, 4.75)
    parts: dict[str, MonteCarlo | Agrest] = {
        "Vanilla estimate": MonteCarlo(delta=DELTA),
        "AGREST": Agrest(delta=DELTA, chunk=1),
    }
    for axis, (title, part) in zip(figure.subplots(1, 2), parts.items(), strict=True):
        _draw_plane(axis, title)
        _draw_estimate(axis, estimated(part))
        _legend(axis, _estimate_keys(moved=isinstance(part, Agrest)))
    return figure


def _draw_plane(axis: Axes, title: str) -> None:
    """Draw the two sides, the boundary and the source."""
    x = np.linspace(0, 1, 200)
    y = np.asarray(height(x))
    axis.fill_between(x, 0, y, color=FLAGGED, alpha=0.07, linewidth=0)
    axis.fill_between(x, y, 1, color=PASSED, alpha=0.07, linewidth=0)
    axis.plot(x, y, color=INK, linestyle=(0, (4, 3)), linewidth=1.2)
    axis.set(xlim=(0, 1), ylim=(0, 1), xticks=[], yticks=[], aspect="equal")
    axis.spines[:].set_color(FAINT)
    name_panel(axis, title, size=11)
    axis.text(0.03, 0.03, "source class", fontsize=9, color=FLAGGED)
    source = _vector(SOURCE)
    axis.plot(*source, "s", color=INK, markersize=6, zorder=5)
    _name(axis, source, "$x^{*}$", (8, -4))


def _draw_queries(axis: Axes, queries: Sequence[Query], size: float = 5.5) -> None:
    for flagged, (marker, colour) in MARKERS.items():
        points = np.array([q.point for q in queries if q.flagged is flagged]).reshape(-1, 2)
        axis.plot(
            points[:, 0],
            points[:, 1],
            marker,
            color=colour,
            markersize=size,
            markeredgecolor="white",
            markeredgewidth=0.6,
            zorder=4,
        )


def _draw_estimate(axis: Axes, estimate: Estimated) -> None:
    """The circle, its samples, and the estimate against the true normal."""
    from matplotlib.patches import Circle

    point, centre, source = estimate.point, estimate.centre, _vector(SOURCE)
    moved = not np.allclose(point, centre)
    axis.plot(*zip(source, centre, strict=True), color=INK, linewidth=0.8, alpha=0.6, zorder=2)
    axis.add_patch(Circle((centre[0], centre[1]), DELTA, fill=False, color=INK, linewidth=0.8))
    _draw_queries(axis, estimate.queries)
    axis.plot(*point, "o", color=INK, markersize=5, zorder=6)
    axis.annotate(
        "$x_t$",
        (point[0], point[1]),
        xytext=(-33, -21),
        textcoords="offset points",
        fontsize=10,
        color=INK,
        arrowprops={"arrowstyle": "-", "color": INK, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3},
    )
    if moved:
        axis.plot(*centre, "o", color=INK, markersize=5, markerfacecolor="white", zorder=6)
        _name(axis, centre, "$x'_t$", (7, -3))
    _arrow(axis, point, normal(point[0]), INK)
    _arrow(axis, point, estimate.direction, COLOURS[0])
    _annotate(axis, estimate.result, RATIO)


def _annotate(axis: Axes, result: Result, ratio: float) -> None:
    """Write the counts and the cost of the ledger."""
    ledger = result.ledger
    axis.text(
        0.03,
        0.97,
        f"{ledger.flagged} of {ledger.queries} answers flagged\n"
        f"cost {ledger.cost:g} at c* = {ratio:g}",
        transform=axis.transAxes,
        va="top",
        fontsize=8.5,
        color=INK,
    )


ARROW = 0.3
"""Length of an arrow, larger than the radius of the circle."""


def _arrow(axis: Axes, base: Vector, direction: Vector, colour: str) -> None:
    tip = base + ARROW * direction
    axis.annotate(
        "",
        (tip[0], tip[1]),
        (base[0], base[1]),
        arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 1.6, "shrinkA": 0},
        zorder=5,
    )


def _name(axis: Axes, at: Vector, name: str, shift: tuple[float, float], colour: str = INK) -> None:
    axis.annotate(
        name,
        (at[0], at[1]),
        xytext=shift,
        textcoords="offset points",
        fontsize=10,
        color=colour,
    )


APART = 0.06
"""Distance from the path to the first interval, and from one interval to the next."""
INTERVAL = COLOURS[3]


def _draw_search(axis: Axes) -> None:
    """Draw the path with its queries, and next to it the interval of each round."""
    film, result = filmed(
        line_search(AsymmetricSearch(TAU, relative=True), BEGIN), labels, SOURCE, SEARCH_RATIO
    )
    rounds = steps(film.queries, BEGIN, SOURCE)
    begin, source = _vector(BEGIN), _vector(SOURCE)
    way = source - begin
    across = np.array([-way[1], way[0]]) / np.hypot(*way)
    axis.plot(*zip(begin, source, strict=True), color=INK, linewidth=1.2, zorder=2)
    axis.plot(*begin, "o", color=INK, markersize=6, markerfacecolor="white", zorder=5)
    _name(axis, begin, "$x$", (8, -4))
    _draw_queries(axis, film.queries, 13.0)
    for number, step in enumerate(rounds, 1):
        shift = -APART * number * across
        ends = [begin + theta * way + shift for theta in (step.low, step.high)]
        axis.plot(*zip(*ends, strict=True), color=INTERVAL, linewidth=2, zorder=3)
        _number(axis, ends[0] - ABOVE * way / np.hypot(*way), number, INTERVAL)
        _number(axis, begin + step.asked * way, number, "white")
    _annotate(axis, result, SEARCH_RATIO)


ABOVE = 0.035
"""Distance from the end of an interval to its number."""


def _number(axis: Axes, at: Vector, number: int, colour: str) -> None:
    """Write the number of a round at a point."""
    axis.text(
        at[0],
        at[1],
        str(number),
        color=colour,
        fontsize=9,
        fontweight="bold",
        ha="center",
        va="center_baseline",
        zorder=6,
    )


# -- legends --------------------------------------------------------------------------------------


CIRCLE: dict[str, Any] = {"linestyle": "", "markersize": 10, "markerfacecolor": "none"}


def _estimate_keys(moved: bool) -> list[Line2D]:
    centre = [("$x'_t$: $x_t$ moved outward", {"marker": "o", "markerfacecolor": "white"})]
    points = [("$x_t$: boundary point", {"marker": "o"}), *(centre if moved else [])]
    around = "$x'_t$" if moved else "$x_t$"
    return [
        *_answer_keys(""),
        legend_key(f"at distance δ of {around}", INK, marker="o", **CIRCLE),
        legend_key("from $x^{*}$ outward", INK, linewidth=0.8, alpha=0.6),
        *_point_keys(points),
        legend_key("true normal", INK, linewidth=1.6),
        legend_key("estimated normal", COLOURS[0], linewidth=1.6),
    ]


def _search_keys() -> list[Line2D]:
    begin = ("$x$: adversarial image", {"marker": "o", "markerfacecolor": "white"})
    return [
        *_answer_keys("round k: "),
        legend_key("interval before round k", INTERVAL, linewidth=2),
        *_point_keys([begin]),
        legend_key("path", INK, linewidth=1.2),
    ]


def _answer_keys(where: str) -> list[Line2D]:
    keys = [
        legend_key(f"{where}{word}", MARKERS[flagged][1], marker=MARKERS[flagged][0], linestyle="")
        for flagged, word in ((False, "not flagged"), (True, "flagged"))
    ]
    return [*keys, legend_key("boundary", INK, linestyle=(0, (4, 3)), linewidth=1.2)]


def _point_keys(points: Sequence[tuple[str, dict[str, str]]]) -> list[Line2D]:
    shown = [*points, ("$x^{*}$: source image", {"marker": "s"})]
    return [legend_key(name, INK, linestyle="", markersize=5, **look) for name, look in shown]


def _legend(axis: Axes, keys: list[Line2D]) -> None:
    legend(
        axis,
        handles=keys,
        loc="upper left",
        bbox_to_anchor=(-0.02, -0.01),
        ncols=2,
        fontsize=8,
        columnspacing=1.0,
        handletextpad=0.5,
        handlelength=1.6,
    )
