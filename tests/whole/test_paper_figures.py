"""The comparison with stealthy attacks, the trade-off, tables with several costs for a price."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text

import tollbox as tb
from tollbox.attacks import Kind
from tollbox.paper import outputs
from tollbox.paper.experiments import EXPERIMENTS, Scale
from tollbox.paper.outputs import OWN, attack_name, is_own, number, price_name
from tollbox.report import DistanceRule
from tollbox.report.curves import Curve, CurvePanel, draw_curves
from tollbox.report.paper_table import PaperTable, TableColumn, paper_table, rows_of
from tollbox.report.runs import CellCurve, series_of
from tollbox.report.statistics import Median, effort, median_at
from tollbox.report.table_files import comma_separated, latex, markdown
from tollbox.report.tradeoff import TradeoffPoint, draw_tradeoff
from tollbox.studies.study import Study

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
[[attacks]]
preset = "frugal"
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tb.studies.StudyResults]:
    folder = tmp_path_factory.mktemp("figures")
    study = Study.from_text(TEXT, folder, "study.toml")
    with tb.run_study(study, folder / "out") as results:
        yield results


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for axis in figure.axes for text in axis.texts]


def overlaps(figure: Figure, leaders: bool = True) -> list[tuple[str, str]]:
    """Pairs of names that lie on each other, as they are drawn, with their leader lines or not."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    boxes = [
        (text.get_text(), (text if leaders else super(Annotation, text)).get_window_extent())
        for axis in figure.axes
        for text in axis.texts
    ]
    return [
        (a, b)
        for i, (a, box) in enumerate(boxes)
        for b, other in boxes[i + 1 :]
        if box.overlaps(other)
    ]


@pytest.mark.slow
def test_names(found: tb.studies.StudyResults) -> None:
    assert [attack_name(spec) for spec in found.study.attacks] == [
        "HSJA",
        "A-SurFree",
        "Stealthy HSJA",
        "Frugal (tollbox)",
    ]
    kinds = [spec.described.method.kind for spec in found.study.attacks]
    assert kinds == ["vanilla", "asymmetric", "stealthy", "own"]
    assert [is_own(spec) for spec in found.study.attacks] == [False, False, False, True]
    assert [price_name(tariff) for tariff in found.study.tariffs] == ["c* = 2", "c* = 10²"]
    assert [number(x) for x in (0.5, 10, 50, 1e5)] == ["0.5", "10", "50", "10⁵"]


@pytest.mark.slow
def test_a_panel_for_each_price_and_one_for_flagged_queries(found: tb.studies.StudyResults) -> None:
    figure = outputs.by_price(found, DistanceRule.PAPER, "some title")
    heads = [axis.get_title(loc="left") for axis in figure.axes]
    assert heads == ["c* = 2", "c* = 10²", "c* = ∞, planned with 10²"]
    labels = [axis.get_xlabel() for axis in figure.axes]
    assert labels == ["total cost per image"] * 2 + ["flagged queries per image"]
    assert {"HSJA", "A-SurFree", "Stealthy HSJA", "Frugal (tollbox)"} <= set(texts(figure))
    assert not overlaps(outputs.by_price(found, DistanceRule.HARD, "some title"))


def test_a_panel_for_each_model(found: tb.studies.StudyResults) -> None:
    figure = outputs.by_model(found, DistanceRule.HARD, "some title")
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["conv", "prototypes"]
    assert {axis.get_xlabel() for axis in figure.axes} == {"flagged queries per image"}


def test_a_curve_is_the_median_over_images(found: tb.studies.StudyResults) -> None:
    runs = next(r for r in series_of(found) if r.series.attack.name == "hsja")
    [curve] = outputs._panel([runs], "some title", "cost").curves
    for mark, value in list(zip(curve.costs, curve.values, strict=True))[::9]:
        assert value == median_at(runs.runs, mark, "cost").value


def test_our_own_curve_is_set_apart_and_the_legend_says_so(found: tb.studies.StudyResults) -> None:
    figure = outputs.by_model(found, DistanceRule.HARD, "some title")
    [legend] = figure.legends
    keys = {t.get_text(): k for t, k in zip(legend.get_texts(), legend.legend_handles, strict=True)}
    key = keys["tollbox's own, not in the paper"]
    for axis in figure.axes:
        names = {text.get_text(): text.get_color() for text in axis.texts}
        assert {name for name, colour in names.items() if colour == key.get_color()} == {
            "Frugal (tollbox)"
        }
        curves = [line for line in axis.lines if line.get_linestyle() != ":"]
        ours = [line for line in curves if line.get_color() == key.get_color()]
        assert len(ours) == 2  # a price, a curve
        for line in curves:
            dashed = line.get_linestyle() == key.get_linestyle() == "--"  # so matplotlib calls it
            assert dashed == (line in ours)


def test_without_our_own_curve_there_is_no_word_of_it() -> None:
    curve = Curve("HSJA", np.array([1.0, 10.0]), np.array([3.0, 2.0]))
    assert not draw_curves([CurvePanel("c* = 2", [curve])], "some title").legends


def test_our_own_attack_takes_no_mark_away_and_has_one_where_it_is_best(
    monkeypatch: pytest.MonkeyPatch, found: tb.studies.StudyResults
) -> None:
    """Marks of one column, if any two medians that differ are told apart."""
    every = series_of(found)

    def marks(values: dict[str, float], separate_own: bool) -> dict[str, bool]:
        def median_of(runs: list[CellCurve], *_: object) -> Median:
            [value] = [values[r.series.attack.name] for r in every if r.runs is runs]
            return Median(value, value, value, 1.0, 9, 9)

        def apart(a: list[CellCurve], b: list[CellCurve], *_: object) -> bool:
            return median_of(a).value != median_of(b).value

        monkeypatch.setattr("tollbox.report.paper_table.median_at", median_of)
        monkeypatch.setattr("tollbox.report.paper_table.significantly_different", apart)
        table = paper_table(found.study, every, separate_own=separate_own)
        return {row.attack: row.cells[0].best for row in table.rows}

    ahead = {"hsja": 2.0, "a-surfree": 3.0, "stealthy-hsja": 2.0, "frugal": 1.0}
    assert marks(ahead, separate_own=False) == {
        "hsja": False,
        "a-surfree": False,
        "stealthy-hsja": False,
        "frugal": True,
    }
    first = {"hsja": True, "a-surfree": False, "stealthy-hsja": True}
    assert marks(ahead, separate_own=True) == {**first, "frugal": True}
    monkeypatch.setattr("tollbox.paper.outputs.series_of", lambda *_: every)
    files = outputs.tables(EXPERIMENTS["table-1"], Scale.SMALL, found, DistanceRule.HARD)
    rows = [line.split("|") for line in files["md"].splitlines() if line.startswith("| ")][1:]
    assert {row[2].strip(): "**" in row[3] for row in rows} == {
        "VA": True,
        "stealthy": True,
        "VA+AS (A-SurFree)": False,
        "built-in, not in the paper": True,
    }
    assert files["tex"].count(r"\textbf") == 3 * len(found.study.models) * 2
    assert marks({**ahead, "frugal": 2.0}, separate_own=True) == {**first, "frugal": True}
    assert marks({**ahead, "frugal": 2.5}, separate_own=True) == {**first, "frugal": False}


def points_of(axis: Axes) -> list[tuple[float, float]]:
    markers = (line for line in axis.lines if line.get_linestyle() == "None")
    return [(x, y) for line in markers for x, y in np.reshape(line.get_xydata(), (-1, 2))]


@pytest.mark.slow
def test_the_tradeoff_has_a_point_for_each_attack_that_comes_so_far(
    found: tb.studies.StudyResults,
) -> None:
    figure = outputs.tradeoff(found, 5.0, "some title")
    every = outputs.points_of(found, 5.0)
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["c* = 2", "c* = 100"]
    panels = {"2": points_of(figure.axes[0]), "100": points_of(figure.axes[1])}
    assert [len(points) for points in panels.values()] == [8, 8]  # an attack, a model
    for runs in series_of(found):
        each = effort(runs.runs, 5.0)
        assert (max(1.0, each.flagged), each.queries) in panels[runs.series.tariff.name]
    assert not overlaps(figure, leaders=False)
    [legend] = figure.legends
    keys = {t.get_text(): k for t, k in zip(legend.get_texts(), legend.legend_handles, strict=True)}
    assert keys["tollbox's own, not in the paper"].get_marker() == "*"
    assert len(keys) == 5  # all kinds, and the dotted line: too much for one line of one panel
    narrow = draw_tradeoff([p._replace(price="") for p in every], 5.0, "some title", own=OWN)
    for drawn in (figure, narrow):
        FigureCanvasAgg(drawn).draw()
        [legend] = drawn.legends
        left, right = legend.get_window_extent().intervalx
        assert 0 <= left < right <= drawn.bbox.width
    away = outputs.tradeoff(found, 1e-6, "some title")
    assert "not reached for half of the images: HSJA, A-SurFree" in away.axes[0].get_xlabel()
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
    [legend] = figure.legends
    assert [t.get_text() for t in legend.get_texts()] == [
        "vanilla",
        "own",
        "half of the queries flagged",
    ]
    assert [key.get_marker() for key in legend.legend_handles] == ["o", "*", "None"]
    drawn = {line.get_label(): line for line in axis.lines}
    assert np.atleast_2d(drawn["own"].get_xydata()).tolist() == [[1, 300], [50, 250]]
    assert (drawn["own"].get_marker(), drawn["vanilla"].get_marker()) == ("*", "o")
    assert texts(figure) == ["HSJA", "HSJA+calibrated", "Frugal"]
    label = axis.get_xlabel()
    assert "not reached for half of the images: A-HSJA" in label
    assert "0 is drawn at 1" in label
    low, high = axis.get_ylim()
    assert high / low >= 3.99


@pytest.mark.parametrize(("flagged", "queries"), [(10, 90_000), (100, 105)])
def test_the_line_where_half_is_flagged_is_within_the_axes(flagged: float, queries: float) -> None:
    points = [TradeoffPoint("HSJA", "", Kind.VANILLA, flagged, queries)]
    [axis] = draw_tradeoff(points, 2.0, "some title").axes
    (left, right), (low, high) = axis.get_xlim(), axis.get_ylim()
    assert min(2 * right, high) > max(2 * left, low)
    [dotted] = [line for line in axis.lines if line.get_linestyle() == ":"]
    assert np.array(dotted.get_ydata()) == pytest.approx(2 * np.array(dotted.get_xdata()))


def test_no_line_runs_through_a_label_and_none_lies_on_another() -> None:
    """Ten attacks close to the dotted line, and to each other."""
    points = [
        TradeoffPoint(f"attack {n}", "", Kind.VANILLA, 100 * 1.06**n, 200 * 1.06**n)
        for n in range(10)
    ]
    figure = draw_tradeoff(points, 2.0, "some title")
    [axis] = figure.axes
    assert not overlaps(figure, leaders=False)
    ends = np.array(axis.get_xlim())
    dots = axis.transData.transform(
        np.column_stack([np.geomspace(*ends, 900), 2 * np.geomspace(*ends, 900)])
    )
    for text in axis.texts:
        box = Text.get_window_extent(text)
        assert not box.count_contains(dots), text.get_text()


def test_many_attacks_of_a_tradeoff_are_numbered() -> None:
    points = [TradeoffPoint(f"a{n}", "", Kind.VANILLA, 10 + n, 90 - n) for n in range(14)]
    figure = draw_tradeoff(points, 2.0, "some title")
    [axis] = figure.axes
    assert sorted(map(int, texts(figure))) == list(range(1, 15))
    names = [text.get_text() for text in axis.get_legend().get_texts()]
    assert names[0] == "1  a0"
    assert len(names) == 14


def test_a_table_with_several_costs_for_a_price(found: tb.studies.StudyResults) -> None:
    every = series_of(found)
    marks = {"2": (50.0, 100.0, 150.0)}
    table = paper_table(found.study, every, marks)
    assert [column.mark for column in table.columns] == [50, 100, 150, 600] * 2
    plain = paper_table(found.study, every)
    assert [row.cells[2] for row in table.rows] == [row.cells[0] for row in plain.rows]
    medians = [table.rows[0].cells[column] for column in range(3)]
    values = [math.inf if cell is None else cell.value for cell in medians]
    assert values == sorted(values, reverse=True)
    tex = latex(table)
    assert r"\multicolumn{3}{c}{$c^\star=2$} & $c^\star=100$ & " in tex
    assert r"\multicolumn{4}{c}{conv} & \multicolumn{4}{c}{prototypes}" in tex
    assert "50 & 100 & 150 & 600" in tex
    rows = list(csv.DictReader(io.StringIO(comma_separated(table))))
    assert {row["at"] for row in rows if row["price"] == "2"} == {"50.0", "100.0", "150.0"}


def test_a_column_of_a_table_has_equal_decimals() -> None:
    study = Study.from_text(TEXT, Path(), "study.toml", files=False)
    columns = [TableColumn("conv", tariff) for tariff in study.tariffs]
    values = [(0.5, 81.234), (1.0, 9.87), (12.3456, math.inf), (1.0, 20.0)]
    cells = [[Median(v, v / 2, 2 * v, 1.0, 3, 3) for v in row] for row in values]
    rows = zip(rows_of(study), cells, strict=True)
    table = PaperTable(columns, [row._replace(cells=each) for row, each in rows])
    lines = markdown(table).splitlines()[2:]
    shown = [[cell.split("[")[0].strip("* ") for cell in line.split("|")[3:5]] for line in lines]
    assert shown == [["0.50", "81.2"], ["1.00", "9.9"], ["12.35", "∞"], ["1.00", "20.0"]]
    assert "[0.25, 1.00]" in markdown(table)
    plain = re.sub(r"\\textbf\{(.*?)\}", r"\1", latex(table))
    assert r"0.50 & 81.2 \\" in plain


@pytest.mark.slow
def test_the_same_figure_is_the_same_file(found: tb.studies.StudyResults, tmp_path: Path) -> None:
    from tollbox.report.figures import save

    for name in ("a", "b"):
        figure = outputs.tradeoff(found, 5.0, "some title")
        save(figure, tmp_path / f"{name}.svg", tmp_path / f"{name}.pdf")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "a.pdf").read_bytes() == (tmp_path / "b.pdf").read_bytes()
