"""A study in ℓ∞ from its file to its page: every number is in it, and nothing says ℓ2."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import pytest
from small_studies import TEXT, page_of, write_study

import tollbox as tb
from tollbox.report.figures import write_figures
from tollbox.report.page import page
from tollbox.report.paper_table import paper_table
from tollbox.report.runs import series_of
from tollbox.report.table_files import comma_separated
from tollbox.studies.export import write_export
from tollbox.studies.status import StudyStatus

LINF = 'norm = "linf"\n' + TEXT.replace("surfree", "rays").replace("a-hsja", "a-hsja-linf")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("linf")
    written = write_study(where, "linf_net", LINF)
    sys.path.insert(0, str(where))
    try:
        tb.run_study(written.study(), where / "out").close()
    finally:
        sys.path.remove(str(where))
    return where / "out"


def test_results_are_in_linf(folder: Path) -> None:
    with tb.studies.StudyResults(folder) as found:
        pictures = found.pixels
        results = found.results()
        assert {row["norm"] for row in found.rows()} == {"linf"}
        replayed = [found.replayed(result.index) for result in results]
        places = [found.grid.place(result.index).image for result in results]
    assert {result.norm for result in results} == {tb.attack.Metric.LINF}
    for result, again, place in zip(results, replayed, places, strict=True):
        assert again.distance == result.distance
        assert again.adversarial is not None
        apart = (again.adversarial - pictures[place]).abs().amax()
        assert result.distance == pytest.approx(float(apart), rel=1e-6)
    with StudyStatus(folder) as status:
        assert {series.norm for series in status.status()} == {tb.attack.Metric.LINF}


@pytest.mark.slow
def test_what_is_written_of_it_says_linf(folder: Path, tmp_path: Path) -> None:
    with tb.studies.StudyResults(folder) as found:
        data = page_of(found)
        table = paper_table(found.study, series_of(found))
        write_export(found, tmp_path)
    for name in ("cells.csv", "steps.csv"):
        with open(tmp_path / name, newline="") as file:
            assert {row["norm"] for row in csv.DictReader(file)} == {"linf"}
    assert "linf" in comma_separated(table)
    assert any("median ℓ∞" in sentence for sentence in data["summary"])
    assert "ℓ2" not in json.dumps(data, ensure_ascii=False)
    assert '"norm":"linf"' in page(data)
    (tmp_path / "figures").mkdir()
    names = write_figures(data, tmp_path / "figures")
    assert "median-linf-by-cost.svg" in names
    drawn = [name for name in names if name.endswith(".svg")]
    assert not any("l2" in name for name in drawn)
