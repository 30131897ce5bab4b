"""The paper's two ideas in the plane: AGREST and asymmetric search, drawn from runs of them.

1. An image of two pixels is a point of the unit square. The source class lies below a smooth curve,
   `height`, so that the boundary, its normals and the answers can all be seen. The parts are those
   that attack real images, run by the engine; each dot is a query, coloured by its answer, and
   counts and costs are the ledger's (see search_picture.py).
2. The boundary point x_t is where a binary search from an adversarial image to the source ends.
3. Two dimensions have another geometry than 150 528. There nearly all of a sphere lies within 1 %
   of its radius of the middle plane, and a shift of that order makes most answers low-cost; here it
   takes a good part of the radius. What is chosen to be readable: delta = 0.2 of the square's side,
   c* = 20, and 20 queries for the vanilla estimate. AGREST may spend what these would cost if half
   were flagged, 20 (c* + 1) / 2 = 210, and looks at what it has spent after each query. The first
   overshoot, whatever m, is for the cosine of a random direction, 0.64. The true one is 0.93, so
   fewer answers are flagged than planned, as on real images.
4. The search has c* = 2 and tau = 0.1, which here ends after three queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core.ask import Asking, Iterate
from ..core.problem import Problem
from ..core.result import Result
from ..parts.estimates import Agrest, MonteCarlo, move_outward
from ..parts.searches import AsymmetricSearch, BinarySearch
from ..report.axes import COLOURS, FAINT, INK, legend, legend_key, name_panel, new_figure
from .search_picture import FLAGGED, MARKERS, PASSED, Query, filmed, line_search, pixels, steps

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Vector = NDArray[np.float64]

BEGIN, SOURCE = pixels(0.81, 0.89), pixels(0.33, 0.07)
DELTA, RATIO, QUERIES = 0.2, 20.0, 20
SEARCH_RATIO, TAU = 2.0, 0.1


def height(x: Tensor | Vector) -> Tensor | Vector:
    """The boundary: y as a function of x."""
    return 0.46 - (x - 0.40) ** 2 / 2


def normal(x: float) -> Vector:
    """The unit normal of the boundary at x, towards the adversarial side."""
    upward = np.array([x - 0.40, 1.0])
    return np.asarray(upward / np.linalg.norm(upward))


def labels(points: Tensor) -> Tensor:
    """0 below the boundary, else 1."""
    return (points[:, 1] > torch.as_tensor(height(points[:, 0]))).long()


class Estimated(NamedTuple):
    """An estimate at x_t, and what it asked."""

    point: Vector
    """x_t."""
    centre: Vector
    """Around which it asked."""
    queries: list[Query]
    direction: Vector
    """A unit vector."""
    result: Result


def boundary_point() -> Iterate:
    """x_t."""
    film, _ = filmed(line_search(BinarySearch(), BEGIN), labels, SOURCE, RATIO)
    point: Iterate = film.returned[0]
    return point


def estimated(part: MonteCarlo | Agrest) -> Estimated:
    """A first estimate at the boundary point."""
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
    """AGREST beside three rounds of asymmetric search."""
    figure = new_figure(6.8, 4.0)
    left, right = figure.subplots(1, 2)
    for axis, title in ((left, "AGREST"), (right, "Asymmetric search")):
        _draw_plane(axis, title)
    _draw_estimate(left, estimated(Agrest(delta=DELTA, chunk=1)))
    _draw_search(right)
    _legend(figure, "estimate; interval left")
    return figure


def draw_estimates() -> Figure:
    """The vanilla estimate beside AGREST."""
    figure = new_figure(6.8, 4.0)
    parts: dict[str, MonteCarlo | Agrest] = {
        "Vanilla estimate": MonteCarlo(delta=DELTA),
        "AGREST": Agrest(delta=DELTA, chunk=1),
    }
    for axis, (title, part) in zip(figure.subplots(1, 2), parts.items(), strict=True):
        _draw_plane(axis, title)
        _draw_estimate(axis, estimated(part))
    _legend(figure, "estimate")
    return figure


def _draw_plane(axis: Axes, title: str) -> None:
    """The two sides, the boundary, and the source."""
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
    _tell(axis, estimate.result, RATIO)


def _tell(axis: Axes, result: Result, ratio: float) -> None:
    """The counts and the cost of what is drawn, by the ledger."""
    ledger = result.ledger
    axis.text(
        0.03,
        0.97,
        f"{ledger.source} of {ledger.queries} answers flagged\n"
        f"cost {ledger.cost:g} at c* = {ratio:g}",
        transform=axis.transAxes,
        va="top",
        fontsize=8.5,
        color=INK,
    )


ARROW = 0.3
"""Longer than the circle's radius."""


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


APART = 0.055
"""From the path to the first interval beside it, and from one to the next."""


def _draw_search(axis: Axes) -> None:
    """The path, what was asked on it, and beside it what was left in each round."""
    film, result = filmed(
        line_search(AsymmetricSearch(tau=TAU), BEGIN), labels, SOURCE, SEARCH_RATIO
    )
    rounds = steps(film.queries, BEGIN, SOURCE)
    begin, source = _vector(BEGIN), _vector(SOURCE)
    way = source - begin
    across = np.array([-way[1], way[0]]) / np.hypot(*way)
    axis.plot(*zip(begin, source, strict=True), color=INK, linewidth=1.2, zorder=2)
    axis.plot(*begin, "o", color=PASSED, markersize=6, markerfacecolor="white", zorder=5)
    _name(axis, begin, "$x$", (8, -4))
    _draw_queries(axis, film.queries, 9.0)
    for number, step in enumerate(rounds, 1):
        shift = -APART * number * across
        ends = [begin + theta * way + shift for theta in (step.low, step.high)]
        axis.plot(*zip(*ends, strict=True), color=COLOURS[0], linewidth=2, zorder=3)
        _name(axis, ends[0], str(number), (-9, 3), COLOURS[0])
        _name(axis, begin + step.asked * way, str(number), (9, -8))
    _tell(axis, result, SEARCH_RATIO)


def _legend(figure: Figure, blue: str) -> None:
    keys = []
    for flagged, word in ((False, "not flagged"), (True, "flagged")):
        marker, colour = MARKERS[flagged]
        keys.append(legend_key(word, colour, marker=marker, linestyle="none"))
    keys += [
        legend_key("boundary", INK, linestyle=(0, (4, 3)), linewidth=1.2),
        legend_key("true normal", INK, linewidth=1.6),
        legend_key(blue, COLOURS[0], linewidth=1.6),
    ]
    legend(
        figure,
        handles=keys,
        loc="outside lower center",
        ncols=5,
        fontsize=8.5,
        columnspacing=1.4,
        handletextpad=0.5,
    )
