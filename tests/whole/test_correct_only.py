"""Studies of the images that each model classifies correctly: judged once, uncharged, recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_studies import contents
from torch import Tensor

import tollbox as tb
from tollbox import Study
from tollbox.core.model import Model
from tollbox.errors import InputError
from tollbox.studies import StudyResults
from tollbox.studies import inputs as loading
from tollbox.studies import run as running
from tollbox.studies.grid import Grid
from tollbox.studies.store.record import Kept

TEXT = """\
name = "right"
budget = 40
prices = [1, 10]
seeds = [0, 1]
batch_size = 4
device = "cpu"

[images]
path = "images.npz"
limit = 4
correct_only = true

[[models]]
name = "first"
source = "nowhere:first"

[[models]]
name = "second"
source = "nowhere:second"

[[attacks]]
preset = "surfree"
"""
COUNT = 24
WRONG = {"first": {0, 3, 4, 11}, "second": {1, 2, 3, 7, 8, 9}}
"""Places of the images that each model misclassifies."""


def pixels() -> np.ndarray:
    return np.random.default_rng(1).integers(40, 216, (COUNT, 3, 8, 8), np.uint8)


class Judge:
    """Knows the images by heart: class 0, or 1 for those that it gets wrong, and for whatever is
    darker or lighter than the nearest of them by more than a little."""

    def __init__(self, wrong: set[int]) -> None:
        self.rows = 0
        self._known = torch.from_numpy(pixels()).float().flatten(1) / 255
        self._wrong = torch.tensor([place in wrong for place in range(COUNT)])

    def __call__(self, images: Tensor) -> Tensor:
        self.rows += len(images)
        apart = torch.cdist(images.float().flatten(1), self._known)
        nearest = apart.argmin(1)
        return (self._wrong[nearest] | (apart.amin(1) > 0.5)).long()


class Case:
    """A folder with images, and a study of them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out, self.text = folder, folder / "out", TEXT
        np.savez(folder / "images.npz", images=pixels(), labels=np.zeros(COUNT, int))

    def study(self) -> Study:
        return Study.from_text(self.text, self.folder, "right.toml", files=False)

    def run(self, wrong: dict[str, set[int]] | None = None, **options: Any) -> StudyResults:
        judges = {name: Judge(places) for name, places in (wrong or WRONG).items()}
        models: dict[str, Model] = {n: tb.models.from_callable(j) for n, j in judges.items()}
        return running.run_study(self.study(), self.out, models=models, **options)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def attacked(results: StudyResults, model: str) -> list[str]:
    """The names of the images that a model has, for each price and seed the same."""
    cells = [result.name for result in results.results(price=1, model=model, seed=0)]
    for price in (1, 10):
        for seed in (0, 1):
            chosen = results.results(price=price, model=model, seed=seed)
            assert [result.name for result in chosen] == cells
    return cells


def test_each_model_has_the_first_images_that_it_classifies_correctly(case: Case) -> None:
    with case.run() as results:
        assert attacked(results, "first") == ["1", "2", "5", "6"]
        assert attacked(results, "second") == ["0", "4", "5", "6"]
        assert [name for *_, name in results.images] == ["0", "1", "2", "4", "5", "6"]
        assert len(results) == len(results.grid) == 2 * 2 * 2 * 4
        assert results.kept == [
            "The model 'first' classifies 4 of the first 7 images correctly: these are attacked.",
            "The model 'second' classifies 4 of the first 7 images correctly: these are attacked.",
        ]
        assert all(result.stop.attacked for result in results.results())
        rows = [row for row in results.rows() if row["model"] == "second"]
        assert {row["name"] for row in rows} == {"0", "4", "5", "6"}
        assert {row["label"] for row in rows} == {0}
        cells = range(len(results.grid))
        assert [results.grid.cell(results.grid.place(cell)) for cell in cells] == [*cells]
        replayed = results.replayed(len(results.grid) - 1)
        assert replayed.name == "6"


def test_judging_is_not_charged_and_a_resume_does_not_judge(case: Case) -> None:
    """What the models say of the images later does not matter: the record has them."""
    with case.run() as results:
        wanted, costs = contents(case.out), [result.ledger for result in results.results()]
        assert all(ledger.counts["clean"].total() == 1 for ledger in costs)
    case.out = case.folder / "again"
    with case.run(time_limit=1e-9) as results:
        assert len(results) == 0
        kept = results.record.kept
    other = {"first": {12, 13}, "second": set(range(14, COUNT))}
    judged = [tb.models.from_callable(Judge(places)) for places in other.values()]
    with pytest.raises(
        InputError, match=r"the labels for some images of the model .* changed"
    ):  # two images are answered now
        running.run_study(case.study(), case.out, models=dict(zip(other, judged, strict=True)))
    with case.run() as results:
        assert results.record.kept == kept
        assert contents(case.out) == wanted


@pytest.mark.slow
def test_two_processes_have_the_same_images(case: Case) -> None:
    with case.run() as results:
        wanted = contents(results.folder)
    case.out, case.text = case.folder / "two", "workers = 2\n" + case.text
    with case.run() as results:
        assert results.record.shards == 2
        assert contents(case.out) == wanted


def test_more_images_are_loaded_until_there_are_enough(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[int | None] = []
    plain = loading.load_images

    def counted(study: Study, limit: int | None, own: Any) -> Any:
        loaded.append(limit)
        return plain(study, limit, own)

    monkeypatch.setattr(loading, "load_images", counted)
    wrong = {"first": set(), "second": set(range(1, 12))}
    with case.run(wrong) as results:
        assert attacked(results, "second") == ["0", "12", "13", "14"]
        assert attacked(results, "first") == ["0", "1", "2", "3"]
        assert results.record.kept == Kept(
            (0, 1, 2, 3, 12, 13, 14),
            {"first": (0, 1, 2, 3), "second": (0, 4, 5, 6)},
            {"first": 4, "second": 15},
        )
    assert loaded == [7, 14, 28]
    loaded.clear()
    with case.run(wrong) as results:  # all is done
        assert len(results) == len(results.grid)
    assert loaded == [15]


@pytest.mark.parametrize("limit", ["limit = 4\n", ""])
def test_where_there_are_fewer_all_models_have_the_same_number(case: Case, limit: str) -> None:
    case.text = case.text.replace("limit = 4\n", limit)
    wrong = {"first": {0}, "second": set(range(3, COUNT))}
    with case.run(wrong) as results:
        assert attacked(results, "first") == ["1", "2", "3"]
        assert attacked(results, "second") == ["0", "1", "2"]
        assert results.record.kept is not None
        assert results.record.kept.looked_at == {"first": 4, "second": COUNT}


def test_the_digest_and_the_list_are_of_the_images_that_are_attacked(case: Case) -> None:
    with case.run() as results:
        digest, wanted = results.digest, contents(case.out)
        listed = [f"{content} {label} {name}" for content, label, name in results.images]
    (case.folder / "images.txt").write_text("\n".join(listed))
    case.out, case.text = (
        case.folder / "listed",
        case.text.replace("limit = 4\n", f'limit = 4\nlist = "images.txt"\ndigest = "{digest}"\n'),
    )
    with case.run() as results:
        assert contents(case.out) == wanted
    case.out, case.text = case.folder / "other", case.text.replace("limit = 4", "limit = 3")
    with pytest.raises(InputError, match=r"images\.digest is .* and the 5 images of"):
        case.run()


def test_starts_go_with_their_images(case: Case) -> None:
    """One start for each of the images that there are, in their order."""
    starts = np.full((COUNT, 3, 8, 8), 255, np.uint8)
    starts[:, 0, 0, 0] = np.arange(COUNT)
    np.savez(case.folder / "start.npz", images=starts, labels=np.ones(COUNT, int))
    case.text += "\n[goal]\ntarget = 1\nstart = 'start.npz'\n"
    models = {name: tb.models.from_callable(Judge(places)) for name, places in WRONG.items()}
    loaded = loading.load(case.study(), models)
    assert [round(float(start[0, 0, 0]) * 255) for start in loaded.starts] == [0, 1, 2, 4, 5, 6]
    cell = loaded.cell(loaded.grid.place(0))
    assert (cell.name, round(float(cell.start[0, 0, 0]) * 255)) == ("1", 1)


# -- what is wrong --------------------------------------------------------------------------------


def test_a_metered_model_is_not_judged(case: Case) -> None:
    case.text = "metered = true\n" + case.text
    with pytest.raises(
        InputError,
        match=r"^right\.toml, line 12: images\.correct_only and metered are both set: the images "
        r"are classified without charge, and a metered model bills every row",
    ):
        case.run()
    assert not case.out.exists()


@pytest.mark.parametrize("value", ["1", '"correct"', "[]"])
def test_it_is_true_or_false(case: Case, value: str) -> None:
    case.text = case.text.replace("correct_only = true", f"correct_only = {value}")
    with pytest.raises(InputError, match=r"line 11: images\.correct_only is .*: expected true or"):
        case.study()


def test_a_model_that_gets_nothing_right_is_told(case: Case) -> None:
    with pytest.raises(
        InputError,
        match=r"^right\.toml, line 19: the model 'second' classifies none of the 24 images "
        r"correctly: expected a model that classifies some correctly, as images\.correct_only is "
        r"set; check ",
    ):
        case.run({"first": set(), "second": set(range(COUNT))})


def test_a_model_that_fails_is_told(case: Case) -> None:
    def broken(images: Tensor) -> Tensor:
        raise ValueError("no such weather")

    models = {"first": tb.models.from_callable(Judge(set())), "second": broken}
    with pytest.raises(InputError, match="the model 'second' failed to classify the images"):
        running.run_study(case.study(), case.out, models=models)


def test_images_that_are_gone_are_told(case: Case) -> None:
    case.run(time_limit=1e-9).close()
    np.savez(case.folder / "images.npz", images=pixels()[:5], labels=np.zeros(5, int))
    with pytest.raises(InputError, match=r"the number of images of .* changed from 6 to 4"):
        case.run()


def test_a_study_without_it_has_all_images(case: Case) -> None:
    case.text = case.text.replace("correct_only = true", "correct_only = false")
    with case.run() as results:
        assert (results.record.kept, results.kept) == (None, [])
        assert len(results.grid) == 2 * 2 * 2 * 4
        assert isinstance(results.grid, Grid)
        stops = [result.stop for result in results.results(model="second", price=1, seed=0)]
        assert [stop.attacked for stop in stops] == [True, False, False, False]
