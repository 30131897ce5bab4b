"""Asymmetric search at work: the paper's illustration of Algorithm 1, from a run of it.

1. What is drawn was asked. A part is run by the engine on a classifier of two-pixel images, whose
   boundary is known; `Filmed` writes down each query and its answer as they pass, and the ledger
   says what they cost. Intervals follow from the answers, and from nothing else.
2. As in the paper tau = 0.1 and c* = 2. The classifier is a half-plane whose boundary the path from
   the adversarial image to the source crosses at `BOUNDARY` of its length.
3. Flagged answers are red diamonds, others green dots: told apart without colours too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..core.ask import Ask, Asking, Iterate
from ..core.cell import Cell
from ..core.limits import Limits
from ..core.model import from_callable
from ..core.prices import Prices
from ..core.problem import Problem
from ..core.result import Result
from ..core.stop import Stop
from ..engine.engine import Engine
from ..parts.paths import Segment
from ..parts.searches import AsymmetricSearch, Search
from ..report.axes import COLOURS, FAINT, INK, legend, legend_key, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

TAU, RATIO = 0.1, 2.0
BOUNDARY = 0.75
"""Where on the path: the search then hears both answers, and needs all four steps."""
FLAGGED, PASSED = COLOURS[1], COLOURS[2]
MARKERS = {True: ("D", FLAGGED), False: ("o", PASSED)}
"""Marker and colour, by whether the answer is flagged."""

Labels = Callable[[Tensor], Tensor]
"""Labels of (n, 2) points of the unit square: 0 is the source class."""


class Query(NamedTuple):
    """A query and its answer."""

    point: tuple[float, float]
    flagged: bool
    price: float


@dataclass(frozen=True)
class Filmed:
    """An attack that is one part; its queries, its notes and what it returned are written down."""

    part: Callable[[Problem], Asking[Any]]
    queries: list[Query] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)
    returned: list[Any] = field(default_factory=list)

    def __call__(self, problem: Problem) -> Asking[Stop]:
        """Run the part."""
        asking, answers = self.part(problem), None
        while True:
            try:
                ask: Ask = asking.send(answers)  # type: ignore[arg-type]
            except StopIteration as end:
                self.notes.update(problem.notes)
                self.returned.append(end.value)
                return Stop.CONVERGED
            answers = yield ask
            for run, answered in zip(ask.runs, answers.runs, strict=True):
                points = run.points[0 : len(answered)].flatten(1).tolist()
                each = zip(points, answered.flagged.tolist(), answered.prices.tolist(), strict=True)
                self.queries.extend(Query((p[0], p[1]), *answer) for p, *answer in each)


def pixels(x: float, y: float) -> Tensor:
    """The image of two pixels that is this point of the unit square."""
    return torch.tensor([x, y], dtype=torch.float64).view(1, 1, 2)


def filmed(
    part: Callable[[Problem], Asking[Any]], labels: Labels, source: Tensor, ratio: float
) -> tuple[Filmed, Result]:
    """A part, run by the engine on a classifier of the unit square; the clean query is free."""
    film = Filmed(part)
    model = from_callable(lambda images: labels(images.flatten(1)), dtype=torch.float64, classes=2)
    cell = Cell(film, source, 0, Prices(ratio), Limits(max_queries=10_000), charge_clean=False)
    [result] = Engine(model).run([cell])
    if result.stop is not Stop.CONVERGED:
        raise RuntimeError(f"the part did not end, but {result.stop}: {result.reason}")
    return film, result


def line_search(search: Search, begin: Tensor) -> Callable[[Problem], Asking[Iterate]]:
    """`search` along the line from the adversarial image `begin` to the source."""

    def part(problem: Problem) -> Asking[Iterate]:
        distance = float(torch.linalg.vector_norm(begin - problem.source))
        return search(problem, Segment(problem.source, Iterate(begin, distance)))

    return part


class Step(NamedTuple):
    """One round of Algorithm 1: theta from 0, the adversarial image, to 1, the source."""

    low: float
    """Where the interval begins; adversarial."""
    high: float
    """Where it ends; not adversarial, or the source."""
    asked: float
    flagged: bool
    cost: float
    """Of all queries up to this one."""


def steps(queries: Sequence[Query], begin: Tensor, source: Tensor) -> list[Step]:
    """The rounds of a search along a line, as its queries tell them."""
    first, last = (np.array(image.flatten().tolist()) for image in (begin, source))
    way = last - first
    low, high, cost, rounds = 0.0, 1.0, 0.0, []
    for query in queries:
        asked = float((np.array(query.point) - first) @ way / (way @ way))
        cost += query.price
        rounds.append(Step(low, high, asked, query.flagged, cost))
        low, high = (low, asked) if query.flagged else (asked, high)
    return rounds


def run() -> tuple[list[Step], Result]:
    """The run that is drawn."""
    begin, source = pixels(0.9, 0.5), pixels(0.1, 0.5)
    border = 0.9 + BOUNDARY * (0.1 - 0.9)
    search = AsymmetricSearch(TAU, relative=True)
    film, result = filmed(
        line_search(search, begin), lambda points: (points[:, 0] > border).long(), source, RATIO
    )
    return steps(film.queries, begin, source), result


def draw() -> Figure:
    """The rounds of Algorithm 1, one below another."""
    rounds, _ = run()
    last = rounds[-1]
    left = (last.low, last.asked) if last.flagged else (last.asked, last.high)
    figure = new_figure(6.4, 0.62 * (len(rounds) + 1) + 1.25)
    axis = figure.subplots()
    for row, step in enumerate(rounds):
        _draw_interval(axis, row, step.low, step.high)
        _draw_query(axis, row, step)
        _tell(axis, row, f"{row + 1}", f"{step.cost:g}")
    _draw_interval(axis, len(rounds), *left, colour=INK)
    axis.plot(left[0], len(rounds), "o", color=PASSED, markersize=6, markerfacecolor="white")
    _tell(axis, len(rounds), "end", "")
    boundary = [BOUNDARY, BOUNDARY], [-0.6, len(rounds) + 0.45]  # from below its name
    axis.plot(*boundary, color=INK, linestyle=(0, (4, 3)), linewidth=1.2, zorder=1)
    axis.annotate(
        f"found: adversarial, within τ = {TAU:g} of the boundary",
        (left[0], len(rounds)),
        xytext=(-9, 0),
        textcoords="offset points",
        ha="right",
        va="center",
        fontsize=9,
        color=INK,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
    )
    _frame(axis, len(rounds), math.ceil(1 / TAU))
    legend(figure, handles=_keys(), loc="outside lower center", ncols=3, columnspacing=1.4)
    return figure


def _draw_interval(axis: Axes, row: int, low: float, high: float, colour: str = COLOURS[0]) -> None:
    """What is left, as a bar with ends, on a faint path."""
    axis.plot([0, 1], [row, row], color=FAINT, linewidth=1.5, zorder=1)
    axis.plot([low, high], [row, row], color=colour, linewidth=3.5, solid_capstyle="butt", zorder=2)
    for end in (low, high):
        axis.plot([end, end], [row - 0.13, row + 0.13], color=colour, linewidth=1.5, zorder=2)


def _draw_query(axis: Axes, row: int, step: Step) -> None:
    marker, colour = MARKERS[step.flagged]
    axis.plot(
        step.asked, row, marker, color=colour, markersize=9, markeredgecolor="white", zorder=4
    )
    axis.annotate(
        f"{step.asked:.2g}",
        (step.asked, row),
        xytext=(0, 8),
        textcoords="offset points",
        ha="center",
        fontsize=9,
        color=colour,
    )


def _tell(axis: Axes, row: int, name: str, cost: str) -> None:
    """The number of a round, and what was spent, beside the path."""
    axis.text(-0.08, row, name, ha="center", va="center", fontsize=10, color=INK)
    axis.text(1.09, row, cost, ha="center", va="center", fontsize=10, color=INK)


def _frame(axis: Axes, rows: int, cells: int) -> None:
    axis.set(xlim=(-0.02, 1.02), ylim=(rows + 0.45, -0.75), yticks=[])
    axis.set_xticks(np.arange(cells + 1) / cells)
    axis.spines["left"].set_visible(False)
    axis.spines["bottom"].set_color(INK)
    axis.set_xlabel(f"θ along the path (c* = {RATIO:g}, τ = {TAU:g})")
    style(axis, grid=None)
    for x, word in ((-0.08, "round"), (1.09, "cost")):
        axis.text(x, -0.72, word, ha="center", va="bottom", fontsize=9, color=INK, clip_on=False)
    for x, side, word in ((0.0, "left", "adversarial image"), (1.0, "right", "source image")):
        axis.text(x, -0.72, word, ha=side, va="bottom", fontsize=9, color=INK)
    axis.text(
        BOUNDARY, -0.72, "boundary", ha="center", va="bottom", fontsize=9, color=INK, style="italic"
    )


def _keys() -> list[Line2D]:
    """The legend."""
    keys = []
    for flagged, word in (
        (False, "answer not flagged, cost 1"),
        (True, f"flagged, cost {RATIO:g}"),
    ):
        marker, colour = MARKERS[flagged]
        keys.append(legend_key(word, colour, marker=marker, linestyle="none", markersize=7))
    hollow = {"marker": "o", "markerfacecolor": "white", "linestyle": "none", "markersize": 6}
    return [
        *keys,
        legend_key("what was found", PASSED, **hollow),
        legend_key("interval before the round", COLOURS[0], linewidth=3.5),
        legend_key("interval in the end", INK, linewidth=3.5),
        legend_key("boundary", INK, linestyle=(0, (4, 3)), linewidth=1.2),
    ]
