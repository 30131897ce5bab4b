"""How the axes of all figures look: text in dark grey, no frame, round numbers as ticks.

1. Figures are made with matplotlib's object interface: no global state, no display.
2. matplotlib is an extra, and slow to import: a figure begins with `new_figure`, which imports it,
   and no module imports it before.
3. Names come from users: `literal` keeps matplotlib from reading `$` as mathematics or hiding what
   begins with `_`, and cuts what is too long for a figure.
"""

from __future__ import annotations

import itertools
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from ..data.user_code import optional

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

INK = "#333333"
FAINT = "#dddddd"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
"""Of attacks; told apart by the colour-blind too (Okabe and Ito)."""
PHASE_COLOURS = ("#332288", "#ddcc77", "#882255", "#999933", "#999999", "#44aa99")
"""Of phases, none of which is the colour of an attack (Tol)."""
LINE_STYLES = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)))
LINE_LOOKS = tuple(itertools.product(LINE_STYLES, COLOURS))
"""Line style and colour of the first curve, the second, and so on."""
LONGEST_NAME = 32
"""Letters of a name in a figure, at most."""
LONGEST_TITLE = 60
"""Letters of a line in the title of a panel, at most."""
ROUND = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
"""Ticks within a decade, on an axis that has room for them."""
FEW_ROUND = (1.0, 2.0, 5.0)
SHORT = {ROUND: 30.0, FEW_ROUND: 100.0}
"""A log axis whose ends are less than this factor apart has these ticks within its decades."""


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches."""
    matplotlib = optional("matplotlib.figure", "figures are drawn with it", extra="report")
    figure: Figure = matplotlib.Figure(figsize=(width, height), layout="constrained")
    return figure


def panels(count: int, height: float, sharey: bool = True) -> tuple[Figure, list[Axes]]:
    """A figure with panels side by side."""
    figure = new_figure(4.6 * count, height)
    return figure, list(figure.subplots(1, count, sharey=sharey, squeeze=False)[0])


def head(figure: Figure, title: str) -> None:
    """The title of a whole figure, on as many lines as it takes."""
    lines = textwrap.wrap(title, round(11.5 * figure.get_figwidth()), max_lines=3, placeholder=" …")
    text = literal("\n".join(lines), longest=None)
    figure.suptitle(text, color=INK, fontsize=11, x=0.01, ha="left")


def literal(name: str, longest: int | None = LONGEST_NAME) -> str:
    """A name that matplotlib draws letter by letter."""
    if longest is not None and len(name) > longest:
        name = f"{name[: longest - 1]}…"
    return (" " if name.startswith("_") else "") + name.replace("$", r"\$")


def style(axis: Axes, grid: Literal["y", "both"] | None = "y") -> None:
    """The look of an axis; call it last."""
    if grid is not None:
        axis.grid(True, axis=grid, which="major", color=FAINT, linewidth=0.8)
        axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(colors=INK, which="both", labelsize=9)
    axis.xaxis.label.set_color(INK)
    axis.yaxis.label.set_color(INK)


@contextmanager
def any_letters() -> Iterator[None]:
    """While drawing: a letter of a user's name that the font lacks becomes a box, silently."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def lay_out(figure: Figure) -> None:
    """Give the axes the places they will have, so that texts can be measured."""
    with any_letters():
        figure.draw_without_rendering()


def name_panel(axis: Axes, title: str, size: float = 9) -> None:
    """The title of a panel."""
    lines = (literal(line, LONGEST_TITLE) for line in title.split("\n"))
    axis.set_title("\n".join(lines), color=INK, fontsize=size, loc="left")


def legend(axis: Axes | Figure, **placed: Any) -> None:
    """A legend without a frame, on white, so that no line of a grid runs through it."""
    on_white = {"facecolor": "white", "edgecolor": "none", "framealpha": 0.9}
    axis.legend(**{**on_white, "labelcolor": INK, "fontsize": 9, **placed})


def legend_below(figure: Figure, keys: Sequence[Line2D], **look: Any) -> None:
    """A legend below the axes, on as many lines as it takes to be no wider than the figure."""
    for columns in range(len(keys), 0, -1):
        legend(figure, handles=keys, loc="outside lower center", ncols=columns, **look)
        drawn = figure.legends[-1]
        with any_letters():
            width = drawn.get_window_extent().width
        if columns == 1 or width <= figure.bbox.width:
            return
        drawn.remove()


def plain_numbers(scale: Axis) -> None:
    """Ticks as 20,000 or 0.05, never as powers."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    scale.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    scale.set_minor_formatter(NullFormatter())


def log_ticks(scale: Axis, within: tuple[float, ...] = FEW_ROUND) -> None:
    """Round ticks on a log axis: within its decades if it is short, else at the decades."""
    from matplotlib.ticker import LogLocator, NullLocator

    low, high = scale.get_view_interval()
    scale.set_major_locator(LogLocator(subs=within if high / low < SHORT[within] else (1.0,)))
    if within is ROUND:
        scale.set_minor_locator(NullLocator())
    plain_numbers(scale)


def fixed_ticks(scale: Axis, values: Sequence[float]) -> None:
    """Ticks at these values, and nowhere else."""
    from matplotlib.ticker import FixedLocator, NullLocator

    scale.set_major_locator(FixedLocator(values))
    scale.set_minor_locator(NullLocator())
    plain_numbers(scale)


def whole_ticks(scale: Axis) -> None:
    """Ticks at whole numbers."""
    from matplotlib.ticker import MaxNLocator

    scale.set_major_locator(MaxNLocator(integer=True))


def legend_key(label: str, colour: str, **look: Any) -> Line2D:
    """An entry of a legend for what is not a curve of its own."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour, label=label, **look)
