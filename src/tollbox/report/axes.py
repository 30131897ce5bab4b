"""The style of all figures: dark grey text, no frame, round numbers as ticks.

1. Figures use matplotlib's object interface: no global state, no display.
2. matplotlib is an extra and slow to import. `new_figure` imports it; no module does so at the top.
   Its types are imported from here, for type checkers only.
3. Names come from users. `literal` stops matplotlib from reading `$` as mathematics and from hiding
   names that start with `_`, and it shortens long names.
"""

from __future__ import annotations

import itertools
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ..data.user_code import optional

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure as Figure
    from matplotlib.lines import Line2D as Line2D
else:
    Axes = Figure = Line2D = Any

P = TypeVar("P")

INK = "#333333"
FAINT = "#dddddd"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
"""Colours of attacks, distinguishable by colour-blind readers (Okabe and Ito)."""
PHASE_COLOURS = ("#332288", "#ddcc77", "#882255", "#999933", "#999999", "#44aa99")
"""Colours of phases, none of which is the colour of an attack (Tol)."""
LINE_STYLES = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)))
LINE_LOOKS = tuple(itertools.product(LINE_STYLES, COLOURS))
LONGEST_NAME = 32
LONGEST_TITLE = 60
"""Maximum number of characters in a line of a panel's title."""
ROUND = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
"""Ticks within a decade of a long axis."""
FEW_ROUND = (1.0, 2.0, 5.0)
SHORT = {ROUND: 30.0, FEW_ROUND: 100.0}
"""Ratio of the ends of a log axis below which it has these ticks within its decades."""


def new_figure(width: float, height: float, title: str = "") -> Figure:
    """Return an empty figure, with its size in inches; the title has at most three lines."""
    matplotlib = optional("matplotlib.figure", "figures are drawn with it", extra="report")
    figure: Figure = matplotlib.Figure(figsize=(width, height), layout="constrained")
    if title:
        lines = textwrap.wrap(title, round(11.5 * width), max_lines=3, placeholder=" …")
        text = literal("\n".join(lines), longest=None)
        figure.suptitle(text, color=INK, fontsize=11, x=0.01, ha="left")
    return figure


def draw_panels(
    panels: Sequence[P], draw: Callable[[Axes, P], None], up: str, height: float, sharey: bool
) -> Figure:
    """Draw panels side by side; `up` is the label of the vertical axis."""
    figure = new_figure(4.6 * len(panels), height)
    row = figure.subplots(1, len(panels), sharey=sharey, squeeze=False)[0]
    for axis, panel in zip(row, panels, strict=True):
        draw(axis, panel)
        style(axis)
    row[0].set_ylabel(up)
    return figure


def literal(name: str, longest: int | None = LONGEST_NAME) -> str:
    """Return a name that matplotlib draws literally."""
    if longest is not None and len(name) > longest:
        name = f"{name[: longest - 1]}…"
    return (" " if name.startswith("_") else "") + name.replace("$", r"\$")


def style(axis: Axes, grid: Literal["y", "both"] | None = "y") -> None:
    if grid is not None:
        axis.grid(True, axis=grid, which="major", color=FAINT, linewidth=0.8)
        axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(colors=INK, which="both", labelsize=9)
    axis.xaxis.label.set_color(INK)
    axis.yaxis.label.set_color(INK)


@contextmanager
def any_letters() -> Iterator[None]:
    """Draw characters that the font lacks as boxes, without a warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def name_panel(axis: Axes, title: str, size: float = 9) -> None:
    lines = (literal(line, LONGEST_TITLE) for line in title.split("\n"))
    axis.set_title("\n".join(lines), color=INK, fontsize=size, loc="left")


def legend(axis: Axes | Figure, **placed: Any) -> None:
    """Add a legend without a frame, on white, so that no grid line crosses it."""
    on_white = {"facecolor": "white", "edgecolor": "none", "framealpha": 0.9}
    axis.legend(**{**on_white, "labelcolor": INK, "fontsize": 9, **placed})


def legend_below(figure: Figure, keys: Sequence[Line2D], **look: Any) -> None:
    """Add a legend below the axes, with as many columns as fit into the width."""
    for columns in range(len(keys), 0, -1):
        legend(figure, handles=keys, loc="outside lower center", ncols=columns, **look)
        with any_letters():
            width = figure.legends[-1].get_window_extent().width
        if columns == 1 or width <= figure.bbox.width:
            return
        figure.legends[-1].remove()


def legend_key(label: str, colour: str, **look: Any) -> Line2D:
    """Return an entry of a legend that belongs to no curve."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour, label=label, **look)


def plain_numbers(scale: Axis) -> None:
    """Write ticks as 20,000 or 0.05, never as powers."""
    scale.set_major_formatter(lambda value, _: f"{value:,.10g}")
    scale.set_minor_formatter("")


def log_ticks(scale: Axis, within: tuple[float, ...] = FEW_ROUND) -> None:
    """Set round ticks on a log axis: within its decades if it is short, else at the decades."""
    from matplotlib.ticker import LogLocator, NullLocator

    low, high = scale.get_view_interval()
    scale.set_major_locator(LogLocator(subs=within if high / low < SHORT[within] else (1.0,)))
    if within is ROUND:
        scale.set_minor_locator(NullLocator())
    plain_numbers(scale)


def fixed_ticks(scale: Axis, values: Sequence[float]) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator

    scale.set_major_locator(FixedLocator(values))
    scale.set_minor_locator(NullLocator())
    plain_numbers(scale)
