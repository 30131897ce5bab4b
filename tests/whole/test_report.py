"""A report of a real study: its data, tables and figures agree with the results themselves."""

from __future__ import annotations

import base64
import csv
import io
import json
import math
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from small_studies import page_of

import tollbox as tb
from tollbox.report import DistanceRule, statistics, summary
from tollbox.report import gallery as gallery_module
from tollbox.report.figures import write_figures
from tollbox.report.page import rounded, usual_level
from tollbox.report.paper_table import PaperTable, paper_table
from tollbox.report.runs import series_of
from tollbox.report.table_files import comma_separated, latex, markdown
from tollbox.studies.store.record import ModelRecord

BUDGET = 400.0
TEXT = """
budget = 400
prices = [1, 20]
seeds = [0, 1]
batch_size = 16
[images]
path = "set.npz"
[[models]]
source = "plane:labels"
[[attacks]]
preset = "surfree"
[[attacks]]
preset = "cgba"
[[attacks]]
preset = "a-cgba"
[[attacks]]
preset = "hsja"
name = "a_b & c|d"
search.tau = 1e-3
"""


WEIGHT = torch.linspace(-1, 1, 192, dtype=torch.float64)
SCORES = torch.tensor([0.36, -0.36, 0.24, -4.0, 0.36, 4.0], dtype=torch.float64)
"""Of the images. A boundary is 0.06 away for four: at c* = 20, which pays for 19 flagged answers,
noise of rising strength misses it once in 10 000 times. The others it does not reach."""


def scores(images: torch.Tensor) -> torch.Tensor:
    return (images.flatten(1).double() - 0.5) @ WEIGHT


def labels(images: torch.Tensor) -> torch.Tensor:
    score = scores(images)
    return (score > 0.3).long() + (score < -0.3).long() * 2


def pictures() -> np.ndarray:
    """Noise, moved along the weight to the scores."""
    pixels = np.random.default_rng(0).integers(32, 224, (6, 3, 8, 8))
    images = torch.from_numpy(pixels) / 255
    moved = torch.outer((SCORES - scores(images)) / (WEIGHT @ WEIGHT), WEIGHT)
    return ((images + moved.view_as(images)) * 255).round().byte().numpy()


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tb.studies.StudyResults:
    folder = tmp_path_factory.mktemp("study")
    pixels = pictures()
    truth = labels(torch.from_numpy(pixels).float() / 255).numpy()
    truth[5] = (truth[5] + 1) % 3  # misclassified anyway
    np.savez(folder / "set.npz", images=pixels, labels=truth)
    study = tb.Study.from_text(TEXT, folder, str(folder / "study.toml"), files=False)
    model = tb.models.from_callable(labels)
    results = tb.run_study(study, folder / "out", models={"labels": model})
    yield results
    results.close()


@pytest.fixture(scope="module")
def table(found: tb.studies.StudyResults) -> PaperTable:
    return paper_table(found.study, series_of(found))


@pytest.mark.slow
def test_numbers_of_a_page_are_plain_and_short() -> None:
    given = {"a": np.int64(3), "b": [np.float64(1 / 3), math.inf, True], "c": np.arange(2)}
    assert json.dumps(rounded(given)) == '{"a": 3, "b": [0.33333, null, true], "c": [0, 1]}'


def test_the_table_is_that_of_the_results(
    found: tb.studies.StudyResults, table: PaperTable
) -> None:
    assert [column.head for column in table.columns] == ["c* = 1", "c* = 20"]
    assert [tuple(row[:3]) for row in table.rows] == [
        ("SurFree", "VA", "surfree"),
        ("CGBA", "VA", "cgba"),
        ("CGBA", "VA+AS+AGREST (A-CGBA)", "a-cgba"),
        ("HSJA", "a_b & c|d", "a_b & c|d"),
    ]
    for row in table.rows:
        for column, cell in zip(table.columns, row.cells, strict=True):
            results = found.results(attack=row.attack, price=column.tariff.name)
            assert cell is not None
            assert cell.value == results.median_at(BUDGET)
            assert cell.success == results.success_at(BUDGET)
            assert (cell.runs, cell.images) == (10, 5)
            assert cell.low <= cell.value <= cell.high


def test_a_run_is_read_as_its_result_is(found: tb.studies.StudyResults) -> None:
    for runs in series_of(found):
        series = runs.series
        results = found.results(attack=series.attack.name, price=series.tariff.name).counted
        keyed = {(r.seed, r.name): r for r in results}
        for run in runs.runs:
            result = keyed[run.seed, found.images[run.image][2]]
            for by in ("cost", "source", "queries"):
                assert run.known[by] == result.known_up_to(by)
                last = min(run.known[by], 1.5 * run.spent[by])
                marks = np.linspace(0, last, 29)
                expected = [result.distance_at(mark, by) for mark in marks]
                assert run.at(marks, by).tolist() == expected
            assert sum(run.phases.values()) == pytest.approx(result.ledger.cost)


def test_the_best_of_a_column_is_marked_with_all_that_is_not_told_from_it(
    found: tb.studies.StudyResults, table: PaperTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert all(
        cell.best for row in table.rows for cell in row.cells
    )  # five images tell nothing apart
    monkeypatch.setattr(statistics, "FEWEST_IMAGES", 1)
    told = paper_table(found.study, series_of(found))
    for column in range(2):
        values = [row.cells[column].value for row in told.rows]
        best = [row.cells[column].best for row in told.rows]
        assert best[int(np.argmin(values))]
        assert best == [_overlaps(found, told, row, column) for row in range(4)]
    assert not all(cell.best for row in told.rows for cell in row.cells)


def _overlaps(found: tb.studies.StudyResults, table: PaperTable, row: int, column: int) -> bool:
    """Whether a median is the least in 2.5 % of the samples or more, drawn in the plainest way."""
    names = [each.attack for each in table.rows]
    least = int(np.argmin([each.cells[column].value for each in table.rows]))
    price = table.columns[column].tariff.name

    def reached(attack: str) -> np.ndarray:
        results = found.results(attack=attack, price=price).counted
        rows = [[r.distance_at(BUDGET) for r in results if r.seed == s] for s in (0, 1)]
        return np.array(rows)  # (seeds, images)

    near, far = reached(names[least]), reached(names[row])
    random = np.random.default_rng(1)
    drawn = random.integers(near.shape[1], size=(4000, near.shape[1]))
    wins = [np.median(near[:, d]) < np.median(far[:, d]) for d in drawn]
    return float(np.mean(wins)) <= 0.975


@pytest.mark.slow
def test_curves_are_those_of_the_results(found: tb.studies.StudyResults) -> None:
    data = page_of(found)
    assert len(data["curves"]) == 2 * 2 * 4
    for curve in data["curves"]:
        results = found.results(attack=curve["attack"], price=curve["price"])
        for place in (0, 10, 30, -1):
            mark = curve["x"][place]
            wanted = results.median_at(mark, curve["by"])
            if curve["y"][place] is None:
                assert math.isinf(wanted) or place == 0  # the first mark may be rounded down
            elif place == -1:
                assert curve["y"][place] == pytest.approx(wanted, rel=1e-4)


@pytest.mark.slow
def test_how_models_are_run_is_told(found: tb.studies.StudyResults) -> None:
    for name, model in found.record.models.items():
        assert page_of(found)["environment"][f"model {name}"] == summary.model_settings(model)
    how = {"dtype": "bfloat16", "compile": "true"}
    model = ModelRecord("float32", 8, running=how)
    assert summary.model_settings(model) == "dtype bfloat16, compile true, quantize 8"
    assert summary.model_settings(ModelRecord("float64", None)) == "dtype float64"


@pytest.mark.slow
def test_the_data_is_plain(found: tb.studies.StudyResults) -> None:
    data = page_of(found)
    text = json.dumps(data, allow_nan=False)
    assert len(text) < 200_000
    assert data["summary"][0] == (
        "1 model, 4 attacks, 2 prices, 6 images, 2 seeds; 96 of 96 runs are finished."
    )
    assert "1 image that a model misclassifies anyway is left out." in data["notes"]
    assert set(data["phases"][0]["phases"]) == {"clean", "start", "search"}
    planned = {shares["attack"] for shares in data["shares"]}
    assert planned == {"cgba", "a-cgba", "a_b & c|d"}
    paper = page_of(found, DistanceRule.PAPER)
    assert "paper" in paper["reading"]
    assert paper["curves"] != data["curves"]


@pytest.mark.slow
def test_costs_by_phase_add_up_to_what_was_spent(found: tb.studies.StudyResults) -> None:
    for bar in page_of(found)["phases"]:
        results = found.results(attack=bar["attack"], price=bar["price"]).counted
        mean = np.mean([r.ledger.cost for r in results])
        assert sum(bar["phases"].values()) == pytest.approx(mean, rel=1e-3)


@pytest.mark.slow
def test_the_gallery_shows_what_was_reached(found: tb.studies.StudyResults) -> None:
    gallery = page_of(found)["gallery"]
    assert gallery["note"] is None
    assert len(gallery["images"]) == 3
    pairs = {(row["attack"], row["price"]) for row in gallery["rows"]}
    assert len(pairs) == 8  # all there are
    factor = gallery["factor"]
    assert factor > 1
    for row in gallery["rows"]:
        shots = row["shots"]
        assert [s["cost"] for s in shots] == sorted({s["cost"] for s in shots})
        distances = [s["distance"] for s in shots]
        assert distances == sorted(distances, reverse=True)
        original, last = (_pixels(uri) for uri in (_original(gallery, row), shots[-1]["image"]))
        apart = np.linalg.norm((last - original) / 255)
        rounding = math.sqrt(original.size) * 0.5 / 255
        assert abs(apart - distances[-1]) < 2 * rounding
        for shot in shots:  # one amplification for all
            apart = (_pixels(shot["image"]) - original) / 255
            amplified = np.clip(0.5 + factor * apart, 0, 1)
            assert np.abs(_pixels(shot["difference"]) / 255 - amplified).max() < (factor + 1) / 255


def _original(gallery: dict[str, Any], row: dict[str, Any]) -> str:
    uri: str = gallery["images"][row["image"]]["original"]
    return uri


@pytest.mark.slow
def test_the_gallery_tells_the_class_that_the_model_gives(found: tb.studies.StudyResults) -> None:
    gallery = page_of(found)["gallery"]
    names = [name for *_, name in found.images]
    told = 0
    for row in gallery["rows"]:
        [runs] = [
            runs
            for runs in series_of(found)
            if (runs.series.attack.name, runs.series.tariff.name) == (row["attack"], row["price"])
        ]
        image = names.index(gallery["images"][row["image"]]["name"])
        for shot in row["shots"]:
            cell = runs.series.number * found.grid.width + image
            result = found.replayed(cell, shot["cost"])
            assert result.adversarial is not None
            assert shot["distance"] == pytest.approx(result.distance, rel=1e-4)
            assert shot["label"] == f"class {labels(result.adversarial[None]).item()}"
            told += 1
    assert told > 40


@pytest.mark.slow
def test_the_gallery_keeps_its_size(
    found: tb.studies.StudyResults, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MOST_BYTES", "MOST_WORK"):
        with monkeypatch.context() as patch:
            patch.setattr(gallery_module, name, 0)
            rows = page_of(found)["gallery"]["rows"]
        assert len({(row["attack"], row["price"]) for row in rows}) == 1
        assert [row["image"] for row in rows] == [0, 1, 2]


@pytest.mark.slow
def test_success_begins_at_nothing_and_for_all_at_one_cost(found: tb.studies.StudyResults) -> None:
    data = page_of(found)
    for price in ("1", "20"):
        curves = [s for s in data["success"] if s["price"] == price]
        assert {s["y"][0] for s in curves} == {0.0}
        assert len({s["x"][0] for s in curves}) == 1
        assert all(s["x"] == sorted(s["x"]) and s["x"][0] > 0 for s in curves)
    assert data["level"] in data["levels"]


def test_the_usual_level_is_one_that_most_attacks_reach() -> None:
    def efforts(points: dict[float, int]) -> list[dict[str, Any]]:
        return [
            {"level": level, "queries": 5.0 if number < count else None}
            for level, count in points.items()
            for number in range(10)
        ]

    for points, usual in (
        ({1.0: 0, 2.0: 7, 3.0: 8, 5.0: 10}, 3.0),
        ({1.0: 1, 2.0: 4, 5.0: 4}, 2.0),
        ({1.0: 10, 2.0: 10}, 1.0),
        ({}, None),
    ):
        assert usual_level(list(points), efforts(points)) == usual


def _pixels(uri: str) -> np.ndarray:
    head, content = uri.split(",")
    assert head == "data:image/png;base64"
    return np.array(Image.open(io.BytesIO(base64.b64decode(content)))).astype(float)


def test_a_gallery_without_its_images_says_so(
    found: tb.studies.StudyResults, tmp_path: Path
) -> None:
    images = found.folder.parent / "set.npz"
    images.rename(tmp_path / "away.npz")
    try:
        with tb.studies.StudyResults(found.folder) as again:
            gallery = page_of(again)["gallery"]
    finally:
        (tmp_path / "away.npz").rename(images)
    assert gallery["rows"] == []
    assert "The images cannot be shown" in gallery["note"]
    assert "set.npz does not exist" in gallery["note"]


def test_tables_as_text(table: PaperTable) -> None:
    text = markdown(table)
    assert text.count("\n") == 6
    assert "a_b & c\\|d" in text
    rows = list(csv.DictReader(io.StringIO(comma_separated(table))))
    assert len(rows) == 8
    assert rows[0]["attack"] == "surfree"
    first = table.rows[0].cells[0]
    assert first is not None
    assert float(rows[0]["median"]) == first.value
    tex = latex(table)
    assert r"a\_b \& c|d" in tex
    assert tex.count(r"\\") == 3 + 4
    assert tex.count(r"\textbf") == sum(cell.best for row in table.rows for cell in row.cells)


@pytest.mark.slow
def test_figures_are_written(found: tb.studies.StudyResults, tmp_path: Path) -> None:
    names = write_figures(page_of(found), tmp_path)
    assert {name.rsplit(".", 1)[0] for name in names} >= {
        "median-l2-by-cost",
        "median-l2-by-flagged",
        "success",
        "cost-by-phase",
    }
    for name in names:
        content = (tmp_path / name).read_bytes()
        head = {"svg": b"<?xml", "pdf": b"%PDF", "png": b"\x89PNG"}[name.rsplit(".", 1)[1]]
        assert content.startswith(head)


def test_rows_as_a_data_frame_if_pandas_is_there(
    found: tb.studies.StudyResults, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = types.SimpleNamespace(DataFrame=lambda rows, columns: (rows, columns))
    monkeypatch.setitem(sys.modules, "pandas", frames)
    rows, columns = found.to_pandas(price=3)
    assert len(rows) == 96
    assert list(rows[0]) == columns
    assert rows[0]["cost"] == 3 * rows[0]["flagged"] + rows[0]["queries"] - rows[0]["flagged"]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(tb.errors.InputError, match="pandas is not installed"):
        found.to_pandas()
