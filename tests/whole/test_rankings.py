"""The ranking over budgets of a real study: it is what its results say, and the files agree."""

from __future__ import annotations

import csv
import io
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_studies import TEXT, StudyFolder, page_of, write_study

import tollbox as tb
from tollbox.cli.app import main
from tollbox.report.paper_table import BEST_OF_ALL, PaperTable, paper_table, with_best_of_all
from tollbox.report.ranking import Standings, log_spaced, read_floors, standings
from tollbox.report.runs import SeriesRuns, series_of
from tollbox.report.table_files import (
    comma_separated,
    latex,
    markdown,
    ranking_csv,
    ranking_latex,
    ranking_markdown,
)
from tollbox.studies.store.store import Store

CAP = 0.5 * math.sqrt(192)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StudyFolder]:
    folder = tmp_path_factory.mktemp("ranked")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        text = TEXT.replace("budget = 60", "budget = 200\nseeds = [0, 1]")
        yield write_study(folder, "ranked_net", text, images=4)


@pytest.fixture(scope="module")
def found(written: StudyFolder) -> Iterator[tb.studies.StudyResults]:
    with tb.run_study(written.study(), written.folder / "out") as results:
        yield results


@pytest.fixture(scope="module")
def series(found: tb.studies.StudyResults) -> list[SeriesRuns]:
    return series_of(found)


@pytest.fixture(scope="module")
def table(found: tb.studies.StudyResults, series: list[SeriesRuns]) -> PaperTable:
    return with_best_of_all(paper_table(found.study, series), series)


@pytest.fixture(scope="module")
def ranking(
    found: tb.studies.StudyResults, series: list[SeriesRuns], table: PaperTable
) -> Standings:
    return standings(found, series, table.columns)


def distances(found: tb.studies.StudyResults, attack: str, price: str) -> dict[Any, np.ndarray]:
    """By image and seed, at the costs of the ranking."""
    return {
        (result.name, result.seed): np.array([result.distance_at(c) for c in log_spaced(200.0)])
        for result in found.results(attack=attack, price=price)
    }


def test_g_and_o_are_those_of_the_results(
    found: tb.studies.StudyResults, ranking: Standings
) -> None:
    """Worked out from `distance_at` of each result."""
    assert ranking.reference == "surfree"
    assert ranking.cap == CAP
    assert len(ranking.standings) == 4
    every = [
        (key, values)
        for attack in ("surfree", "a-hsja")
        for price in ("1", "10")
        for key, values in distances(found, attack, price).items()
    ]
    best = {name: min(v[-1] for (other, _), v in every if other == name) for (name, _), _ in every}
    for each in ranking.standings:
        price = each.column.tariff.name
        ours, theirs = (distances(found, a, price) for a in (each.attack, "surfree"))
        logs = [np.log(np.minimum(ours[k], CAP) / np.minimum(theirs[k], CAP)).mean() for k in ours]
        ratio = each.ratios["surfree"]
        assert ratio.value == pytest.approx(math.exp(np.mean(logs)))
        assert ratio.images == 4
        assert ratio.low <= ratio.value <= ratio.high
        lags = [np.log(ours[k] / best[k[0]]) / np.log(CAP / best[k[0]]) for k in ours]
        assert each.optimality.value == pytest.approx(1 - np.clip(lags, 0, 1).mean())
        other = each.ratios["a-hsja"].value
        assert each.ratios[each.attack] == (1.0, 1.0, 1.0, 4)
        assert other * ratio.value == pytest.approx(
            other if each.attack == "surfree" else ratio.value
        )


def test_the_best_of_all_is_the_least_of_each_image(
    found: tb.studies.StudyResults, table: PaperTable
) -> None:
    for column, cell in zip(table.columns, table.of_all[0].cells, strict=True):
        ours = [distances(found, attack, column.tariff.name) for attack in ("surfree", "a-hsja")]
        least = [min(each[key][-1] for each in ours) for key in ours[0]]
        assert cell is not None
        assert cell.value == pytest.approx(np.median(least))
        assert (cell.runs, cell.images) == (8, 4)
    data = page_of(found)
    assert [cell["best"] for cell in data["table"]["best"]] == [False, False]
    for curve in data["best"]:
        column = [c for c in data["curves"] if all(c[k] == curve[k] for k in ("price", "by"))]
        assert len(column) == 2
        *lasts, best = (math.inf if c["y"][-1] is None else c["y"][-1] for c in (*column, curve))
        assert best <= min(lasts) * (1 + 1e-4)
    assert len(data["best"]) == 4


def test_the_files_have_the_row_and_the_ranking(table: PaperTable, ranking: Standings) -> None:
    last = markdown(table).splitlines()[-1]
    assert last.startswith(f"| {BEST_OF_ALL} | for each image, if the attacker knew which to use |")
    assert "**" not in last
    rows = list(csv.DictReader(io.StringIO(comma_separated(table))))
    assert [row["family"] for row in rows[-2:]] == [BEST_OF_ALL, BEST_OF_ALL]
    assert {row["attack"] for row in rows[-2:]} == {""}
    assert rf"\multicolumn{{2}}{{l}}{{{BEST_OF_ALL}}}" in latex(table)
    rows = list(csv.DictReader(io.StringIO(ranking_csv(ranking))))
    assert len(rows) == 4
    for row in rows:
        assert (row["from"], row["to"], row["by"], row["against"]) == (
            *("10.0", "200.0", "cost"),
            "surfree",
        )
        each = next(
            s
            for s in ranking.standings
            if (s.attack, s.column.tariff.name) == (row["attack"], row["price"])
        )
        assert float(row["G"]) == each.ratios["surfree"].value
        assert float(row["O_high"]) == each.optimality.high
        assert float(row["seconds"]) == each.seconds
    text = ranking_markdown(ranking)
    assert "net, c* = 10, costs from 10 to 200:" in text
    assert "half of the range in every pixel (ℓ2 6.93)" in text
    assert ranking_latex(ranking).count(r"\\") == 4


def test_seconds_and_speed_are_those_of_the_series(
    found: tb.studies.StudyResults, ranking: Standings
) -> None:
    total = found.seconds()
    assert total is not None
    assert set(total) == {0, 1, 2, 3}
    for each in ranking.standings:
        assert each.seconds is not None
        assert each.speed is not None
        results = found.results(attack=each.attack, price=each.column.tariff.name)
        queries = sum(result.ledger.queries for result in results)
        assert each.speed * each.seconds == pytest.approx(queries)


def test_an_unfinished_series_has_no_speed(found: tb.studies.StudyResults, tmp_path: Path) -> None:
    shutil.copytree(found.folder, tmp_path / "out")
    with Store(tmp_path / "out" / "shard-0.sqlite", write=True) as store:
        store.forget([0])
    with tb.studies.StudyResults(tmp_path / "out") as again:
        every = series_of(again)
        ranked = standings(
            again,
            every,
            paper_table(again.study, every).columns,
        )
    assert [each.speed is None for each in ranked.standings].count(True) == 1
    assert {each.ratios["surfree"].images for each in ranked.standings} == {4}


def command(*words: str) -> int:
    with pytest.raises(SystemExit) as end:
        main([*words])
    return int(end.value.code or 0)


@pytest.mark.slow
def test_the_reference_is_chosen_on_the_command_line(
    found: tb.studies.StudyResults, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, figures = ["--out", str(tmp_path / "page.html")], ["--figures", str(tmp_path / "figures")]
    assert command("report", str(found.folder), *out, *figures, "--against", "a-hsja") == 0
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {"ranking.md", "ranking.csv", "ranking.tex", "ranking.svg"} <= names
    assert "relative to a-hsja:" in (tmp_path / "figures" / "ranking.md").read_text()
    assert '"against":"a-hsja"' in (tmp_path / "page.html").read_text()
    capsys.readouterr()
    page = (tmp_path / "page.html").read_bytes()
    assert command("report", str(found.folder), *out, "--against", "a-hsj") == 2
    assert "unknown attack 'a-hsj': did you mean 'a-hsja'" in " ".join(
        capsys.readouterr().err.split()
    )
    assert (tmp_path / "page.html").read_bytes() == page


def test_floors_are_known_distances_of_images(
    found: tb.studies.StudyResults, series: list[SeriesRuns], table: PaperTable, tmp_path: Path
) -> None:
    """A floor of a tenth of what is known lowers O, and one that is farther changes nothing."""
    file = tmp_path / "floors.csv"
    before = standings(found, series, table.columns)

    def ranked(distance: float) -> Standings:
        lines = [f"{content},{distance}" for content, _, _ in found.images]
        file.write_text("\n".join(["image,distance", "elsewhere,1", *lines]))
        return standings(found, series, table.columns, floors=read_floors(file, found))

    far, near = ranked(CAP), ranked(1e-4)
    assert "or from the floors" in near.best_known
    for old, same, lower in zip(before.standings, far.standings, near.standings, strict=True):
        assert same.optimality == old.optimality
        assert lower.optimality.value < old.optimality.value
        assert lower.ratios == old.ratios
    for text, words in (
        ("image,distance\nelsewhere,1", "has no image of this study"),
        (f"image,distance\n{found.images[0][0]},none", "line 2: the distance is 'none': expected"),
        (f"image,distance\n{found.images[0][0]},-1", "expected a number above 0"),
        ("image\nx", "expected the columns image and distance"),
    ):
        file.write_text(text)
        with pytest.raises(tb.errors.InputError, match=words):
            read_floors(file, found)
