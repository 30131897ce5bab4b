"""Exported figures of a report: many attacks, hostile names, nothing on top of another."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from page_data import NAMES, sample, size

from tollbox.attacks import PRESETS, Method
from tollbox.report import figures as figure_files
from tollbox.report.axes import COLOURS
from tollbox.report.curves import Curve, CurvePanel, draw_curves
from tollbox.report.figures import draw_phases

METHODS = (Method.VANILLA, Method.AS, Method.AGREST, Method.BOTH)
FAMILIES = ("SurFree", "HSJA", "GeoDA", "CGBA")
MANY = tuple(n for n, p in PRESETS.items() if p.family in FAMILIES and p.method in METHODS)


def drawn(data: dict[str, Any], model: str = "ResNet-50") -> dict[str, Figure]:
    return dict(figure_files._figures(data, model))


def names_that_collide(figure: Figure) -> list[tuple[str, str]]:
    """Texts of panels, their titles too, that lie on each other."""
    FigureCanvasAgg(figure).draw()
    texts = [text for axis in figure.axes for text in (*axis.texts, axis._left_title)]
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts if text.get_text()]
    pairs = itertools.combinations(boxes, 2)
    return [(a, b) for (a, box), (b, other) in pairs if box.overlaps(other)]


def renamed(data: Any, names: dict[str, str]) -> Any:
    """The data with other names of attacks."""
    if isinstance(data, dict):
        return {key: renamed(value, names) for key, value in data.items()}
    if isinstance(data, list):
        return [renamed(value, names) for value in data]
    return names.get(data, data) if isinstance(data, str) else data


@pytest.mark.slow
def test_many_attacks_have_a_row_for_each_family() -> None:
    assert len(MANY) > 7
    figure = drawn(sample(MANY))["median-l2-by-cost"]
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert titles == [f"{f}, c* = {p}" for f in FAMILIES for p in ("2", "100", "1000")]
    for axis in figure.axes:
        family = axis.get_title(loc="left").split(",")[0]
        members = {name for name in MANY if PRESETS[name].family == family}
        assert {text.get_text() for text in axis.texts} == members
        colours = {line.get_color() for line in axis.lines} & set(COLOURS)
        assert len(colours) == len(members)
        assert len(axis.lines) == len(MANY)  # the others are there too, in grey
    assert not names_that_collide(figure)
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["the other attacks"]


@pytest.mark.slow
def test_few_attacks_are_in_one_panel_a_price() -> None:
    figure = drawn(sample())["median-l2-by-cost"]
    assert [a.get_title(loc="left") for a in figure.axes] == ["c* = 2", "c* = 100", "c* = 1000"]
    assert not names_that_collide(figure)
    assert figure.axes[0].get_ylabel() == "median ℓ2 distance"
    other = drawn({**sample(), "norm": "linf"})
    assert other["median-linf-by-cost"].axes[0].get_ylabel() == "median ℓ∞ distance"
    words = [axis.get_ylabel() + axis.get_xlabel() for axis in other["tradeoff"].axes]
    assert any("to reach ℓ∞" in text for text in words)
    assert not any("ℓ2" in text for text in words)


@pytest.mark.slow
def test_the_title_names_the_model() -> None:
    data = sample(models=("ResNet-50", "ViT"))
    for model in data["models"]:
        figures = drawn(data, model)
        assert set(figures) == {
            "median-l2-by-cost",
            "median-l2-by-flagged",
            "ranking",
            "success",
            "tradeoff",
            "cost-by-phase",
        }
        for figure in figures.values():
            assert f"{data['title']}, {model}" in figure.get_suptitle().replace("\n", " ")


@pytest.mark.slow
def test_the_ranking_has_the_interval_of_each_attack_and_its_range() -> None:
    data = sample()
    figure = drawn(data)["ranking"]
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert titles[0] == "c* = 2, cost 250 to 5,000"
    for axis in figure.axes:
        assert axis.get_xlabel() == "G: distance relative to cgba"
        intervals = [line.get_xdata() for line in axis.lines[1::2]]
        for interval, attack in zip(intervals, NAMES, strict=True):
            wanted = size(attack) / size("cgba")
            assert list(interval) == pytest.approx([0.9 * wanted, 1.12 * wanted])
    assert not names_that_collide(figure)
    assert "ranking" not in drawn(sample(("cgba",)))


@pytest.mark.slow
def test_the_best_of_all_is_a_curve_where_there_is_room() -> None:
    few, many = (drawn(sample(names))["median-l2-by-cost"] for names in (NAMES, MANY))
    assert len(few.axes[0].lines) == len(NAMES) + 1
    assert "best of all" in [text.get_text() for text in few.axes[0].texts]
    [legend] = few.legends
    assert [text.get_text() for text in legend.get_texts()] == ["best attack for each image"]
    assert "best of all" not in [text.get_text() for axis in many.axes for text in axis.texts]


def test_phases_have_colours_of_their_own() -> None:
    bars = [{"attack": "a", "price": "2", "phases": dict.fromkeys("stuvwx", 1.0)}]
    [axis] = draw_phases(bars).axes
    shown = {patch.get_facecolor() for patch in axis.patches}
    from matplotlib.colors import to_rgba

    assert len(shown) == 6
    assert not shown & {to_rgba(colour) for colour in COLOURS}


def test_the_tradeoff_is_at_a_distance_that_half_of_the_attacks_reach() -> None:
    data = sample()
    reach = {40.0: 1.0, 20.0: 0.75, 10.0: 0.5, 5.0: 0.0}
    for level, share in reach.items():
        each = [e for e in data["tradeoff"] if e["level"] == level]
        for number, effort in enumerate(each):
            reached = number < share * len(each)
            effort.update(queries=100.0 if reached else None, flagged=10.0 if reached else None)
    for level, told in ((20.0, 20.0), (5.0, 10.0)):
        data["level"] = level
        assert figure_files.tradeoff_level(data) == told
    for effort in data["tradeoff"]:
        effort.update(queries=None, flagged=None)
    assert figure_files.tradeoff_level(data) is None
    assert "tradeoff" not in drawn(data)


HOSTILE = (
    "_hidden",
    "a $x$ b$",
    "名前 攻撃",
    "x" * 200,
    "a\\b{c}^d",
    "<b>&amp;</b>",
    "%s %d",
    "  ",
)


@pytest.mark.slow
def test_hostile_names_are_drawn_without_a_warning(tmp_path: Path) -> None:
    attacks = MANY[: len(HOSTILE)]
    data = renamed(sample(attacks), dict(zip(attacks, HOSTILE, strict=True)))
    data["title"] = "$" + "long " * 300
    data["prices"] = data["prices"][:1]
    data["tradeoff"] = [each for each in data["tradeoff"] if each["price"] == "2"]
    names = figure_files.write_figures(data, tmp_path)  # warnings are errors
    assert len(names) == 18
    legends = [axis.get_legend() for axis in drawn(data)["median-l2-by-cost"].axes]
    shown = [text.get_text() for legend in legends if legend for text in legend.get_texts()]
    assert len(shown) == len(HOSTILE)
    assert max(map(len, shown)) <= 33


@pytest.mark.parametrize("names", [list("abcdefg"), ["a name that is too long for an end", "b"]])
def test_names_that_do_not_fit_at_the_ends_are_in_a_legend(names: list[str]) -> None:
    costs = np.array([1.0, 10.0, 100.0])
    curves = [Curve(name, costs, np.array([3.0, 2.0, 1.0])) for name in names]
    figure = draw_curves([CurvePanel("c* = 2", curves)], "some title")
    [axis] = figure.axes
    if len(names) == 7:  # all end at one place
        assert [text.get_text() for text in axis.texts] == names
        assert not names_that_collide(figure)
    else:
        assert not axis.texts
        assert [text.get_text() for text in axis.get_legend().get_texts()][1] == "b"


@pytest.mark.slow
def test_a_curve_that_ends_early_has_a_dotted_tail_that_the_legend_explains() -> None:
    short = Curve("a", np.array([1.0, 10.0]), np.array([3.0, 2.0]))
    long = Curve("b", np.array([1.0, 100.0]), np.array([3.0, 1.0]))
    figure = draw_curves([CurvePanel("c* = 2", [short, long])], "some title")
    [dotted] = [line for line in figure.axes[0].lines if line.get_linestyle() == ":"]
    assert np.array(dotted.get_xydata()).tolist() == [[10.0, 2.0], [100.0, 2.0]]
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "budget spent: the last median holds"
    ]


@pytest.mark.parametrize("cost", [[5.0], [0.0, 5.0]])
def test_curves_of_one_place_are_drawn(cost: list[float]) -> None:
    """A log axis has no place for 0, and limits that are equal are a warning."""
    curve = Curve("a", np.array(cost), np.full(len(cost), 2.0))
    figure = draw_curves([CurvePanel("c* = 2", [curve])], "some title")
    FigureCanvasAgg(figure).draw()
    low, high = figure.axes[0].get_xlim()
    assert 0 < low < high
