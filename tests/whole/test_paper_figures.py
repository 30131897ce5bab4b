"""The comparison with stealthy attacks, the trade-off, tables with several costs for a price."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import tollbox as tb
from tollbox.attacks import Kind
from tollbox.paper import comparison, tradeoff
from tollbox.paper.names import attack_kind, attack_name, number, price_name
from tollbox.report.paper_table import paper_table
from tollbox.report.runs import Reading, series_of
from tollbox.report.statistics import effort, median_at
from tollbox.report.table_files import comma_separated, latex, markdown
from tollbox.report.tradeoff import TradeoffPoint, draw_tradeoff
from tollbox.studies.spec.study import Study

TEXT = """\
charge_clean = false
batch_size = 64
device = "cpu"
images = {path = "tollbox.models.stand_ins:images", limit = 3}
[[models]]
name = "conv"
source = "tollbox.models.stand_ins:convolutional"
[[models]]
name = "prototypes"
source = "tollbox.models.stand_ins:zero_shot"
[[prices]]
ratio = 2
budget = 150
[[prices]]
ratio = 100
budget = 4500
max_queries = 600
[[attacks]]
preset = "hsja"
[[attacks]]
preset = "a-surfree"
[[attacks]]
preset = "stealthy-hsja"
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tb.StudyResults]:
    folder = tmp_path_factory.mktemp("figures")
    study = Study.from_text(TEXT, folder, "study.toml")
    with tb.run_study(study, folder / "out") as results:
        yield results


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for axis in figure.axes for text in axis.texts]


def overlaps(figure: Figure) -> list[tuple[str, str]]:
    """Pairs of names that lie on each other, as they are drawn."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    boxes = [
        (text.get_text(), text.get_window_extent(canvas.get_renderer()))
        for axis in figure.axes
        for text in axis.texts
    ]
    return [
        (a, b)
        for i, (a, box) in enumerate(boxes)
        for b, other in boxes[i + 1 :]
        if box.overlaps(other)
    ]


def test_names(found: tb.StudyResults) -> None:
    assert [attack_name(spec) for spec in found.study.attacks] == [
        "HSJA",
        "A-SurFree",
        "Stealthy HSJA",
    ]
    kinds = [attack_kind(spec) for spec in found.study.attacks]
    assert kinds == ["vanilla", "asymmetric", "stealthy"]
    assert [price_name(tariff) for tariff in found.study.tariffs] == ["c* = 2", "c* = 10²"]
    assert [number(x) for x in (0.5, 10, 50, 1e5)] == ["0.5", "10", "50", "10⁵"]


def test_a_panel_for_each_price_and_one_for_flagged_queries(found: tb.StudyResults) -> None:
    figure = comparison.by_price(found, Reading.PAPER, "some title")
    heads = [axis.get_title(loc="left") for axis in figure.axes]
    assert heads == ["c* = 2", "c* = 10²", "c* = ∞, planned with 10²"]
    labels = [axis.get_xlabel() for axis in figure.axes]
    assert labels == ["total cost per image"] * 2 + ["flagged queries per image"]
    assert {"HSJA", "A-SurFree", "Stealthy HSJA"} <= set(texts(figure))
    assert not overlaps(comparison.by_price(found, Reading.HARD, "some title"))


def test_a_panel_for_each_model(found: tb.StudyResults) -> None:
    figure = comparison.by_model(found, Reading.HARD, "some title")
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["conv", "prototypes"]
    assert {axis.get_xlabel() for axis in figure.axes} == {"flagged queries per image"}


def test_a_curve_is_the_median_over_images(found: tb.StudyResults) -> None:
    runs = next(r for r in series_of(found) if r.series.attack.name == "hsja")
    curve = comparison._curve(runs, "cost", Reading.HARD)
    for mark, value in list(zip(curve.costs, curve.values, strict=True))[::9]:
        assert value == median_at(runs.runs, mark, "cost", Reading.HARD).value


def test_the_tradeoff_has_a_point_for_each_attack_that_comes_so_far(
    found: tb.StudyResults,
) -> None:
    figure = tradeoff.draw(found, 5.0, "some title")
    points = [
        (x, y)
        for line in figure.axes[0].lines
        if line.get_linestyle() == "None"
        for x, y in np.atleast_2d(line.get_xydata())
    ]
    assert len(points) == 12  # an attack, a price, a model
    for runs in series_of(found):
        each = effort(runs.runs, 5.0)
        assert (max(1.0, each.flagged), each.queries) in points
    assert not overlaps(figure)
    away = tradeoff.draw(found, 1e-6, "some title")
    assert "not reached for half of the images: HSJA, c* = 2" in away.axes[0].get_xlabel()
    assert texts(away) == []


def test_the_tradeoff_marks_kinds_of_attacks_and_names_what_has_no_point() -> None:
    points = [
        TradeoffPoint("HSJA", "", Kind.VANILLA, 100, 200),
        TradeoffPoint("Frugal", "", Kind.OWN, 0, 300),
        TradeoffPoint("HSJA+calibrated", "", Kind.OWN, 50, 250),
        TradeoffPoint("A-HSJA", "", Kind.ASYMMETRIC, math.inf, math.inf),
    ]
    figure = draw_tradeoff(points, 2.0, "some title")
    [axis] = figure.axes
    legend = axis.get_legend()
    assert legend is not None
    assert [t.get_text() for t in legend.get_texts()] == ["vanilla", "own", "half of them flagged"]
    drawn = {line.get_label(): line for line in axis.lines}
    assert np.atleast_2d(drawn["own"].get_xydata()).tolist() == [[1, 300], [50, 250]]
    assert (drawn["own"].get_marker(), drawn["vanilla"].get_marker()) == ("*", "o")
    assert texts(figure) == ["HSJA", "HSJA+calibrated", "Frugal"]
    label = axis.get_xlabel()
    assert "not reached for half of the images: A-HSJA" in label
    assert "none at all is drawn at 1" in label
    low, high = axis.get_ylim()
    assert high / low >= 3.99


def test_a_table_with_several_costs_for_a_price(found: tb.StudyResults) -> None:
    every = series_of(found)
    marks = {"2": (50.0, 100.0, 150.0)}
    table = paper_table(found.study, every, Reading.HARD, marks)
    assert [column.mark for column in table.columns] == [50, 100, 150, 600] * 2
    plain = paper_table(found.study, every, Reading.HARD)
    assert [cells[2] for cells in table.cells] == [cells[0] for cells in plain.cells]
    medians = [table.cells[0][column] for column in range(3)]
    values = [math.inf if cell is None else cell.value for cell in medians]
    assert values == sorted(values, reverse=True)
    tex = latex(table)
    assert r"\multicolumn{3}{c}{$c^\star=2$} & $c^\star=100$ & " in tex
    assert r"\multicolumn{4}{c}{conv} & \multicolumn{4}{c}{prototypes}" in tex
    assert "50 & 100 & 150 & 600" in tex
    assert "[" not in markdown(table, intervals=False)
    rows = list(csv.DictReader(io.StringIO(comma_separated(table))))
    assert {row["at"] for row in rows if row["price"] == "2"} == {"50.0", "100.0", "150.0"}


def test_the_same_figure_is_the_same_file(found: tb.StudyResults, tmp_path: Path) -> None:
    from tollbox.report.figures import save

    for name in ("a", "b"):
        figure = tradeoff.draw(found, 5.0, "some title")
        save(figure, tmp_path / f"{name}.svg", tmp_path / f"{name}.pdf")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "a.pdf").read_bytes() == (tmp_path / "b.pdf").read_bytes()
