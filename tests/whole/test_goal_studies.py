"""Studies with a set of flagged classes and masks: numbers, exports, pages, replay and resume."""

from __future__ import annotations

import csv
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from small_studies import TEXT, StudyFolder, contents, page_of, write_study

import tollbox as tb
from tollbox.errors import FileError, InputError
from tollbox.studies.events import Options
from tollbox.studies.export import write_export
from tollbox.studies.run import run_folder
from tollbox.workers.executors import Stopper

FLAGGED = {1, 2, 3}
GOAL = TEXT.replace("[[models]]", '[goal]\nflagged = "set.txt"\nmask = "mask.png"\n\n[[models]]', 1)


def resume(folder: Path) -> None:
    run_folder(folder, Options(), lambda _: None, Stopper())


def mask_array(columns: int = 5) -> np.ndarray:
    array = np.zeros((8, 8), np.uint8)
    array[1:7, :columns] = 255
    return array


def written(folder: Path, module: str, text: str = GOAL) -> StudyFolder:
    study = write_study(folder, module, text, images=4)
    (folder / "set.txt").write_text("1-2\n3\n")
    Image.fromarray(mask_array()).save(folder / "mask.png")
    return study


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory):
    where = tmp_path_factory.mktemp("goals")
    made = written(where, "goals_net")
    sys.path.insert(0, str(where))
    tb.run_study(made.study(), where / "out").close()
    yield made
    sys.path.remove(str(where))


def test_the_set_and_the_mask_hold_in_every_run(study: StudyFolder) -> None:
    fixed = torch.from_numpy(mask_array() == 0).expand(3, 8, 8)
    attacked = 0
    with tb.studies.StudyResults(study.folder / "out") as found:
        for result in found.results():
            tally = sum(result.ledger.counts.values(), Counter[int]())
            assert result.ledger.goal == tb.Goal.leave(FLAGGED)
            assert result.ledger.flagged == sum(tally[label] for label in FLAGGED)
            place = found.grid.place(result.index)
            prices = place.series.tariff.prices
            other = tally.total() - result.ledger.flagged
            assert result.ledger.cost == prices.source * result.ledger.flagged + other
            again = found.replayed(result.index)
            assert again.improvements == result.improvements
            if again.adversarial is not None:
                attacked += result.stop.attacked
                source = found.pixels[place.image]
                assert torch.equal(again.adversarial[fixed], source[fixed])
    assert attacked > 0


def test_the_numbers_are_those_of_a_run(study: StudyFolder) -> None:
    with np.load(study.folder / "images.npz") as stored:
        images = torch.from_numpy(stored["images"]).float() / 255
        labels = stored["labels"].tolist()
    scope: dict = {"__name__": "small"}
    exec(study.code.read_text(), scope)
    same = tb.run(
        tb.preset("a-hsja"),
        tb.models.from_torch(scope["net"], device="cpu"),
        images,
        labels,
        goal=tb.Goal.leave(FLAGGED),
        mask=torch.from_numpy(mask_array() > 0),
        prices=tb.Prices(10, 1),
        budget=60,
        execution=tb.Execution(batch_size=16),
    )
    with tb.studies.StudyResults(study.folder / "out") as found:
        results = found.results("a-hsja", 10)
    assert [r.distance for r in results] == [r.distance for r in same]
    assert [r.ledger.counts for r in results] == [r.ledger.counts for r in same]
    assert {r.stop.attacked for r in results} == {True, False}


def test_what_is_written_of_it_says_so(study: StudyFolder, tmp_path: Path) -> None:
    with tb.studies.StudyResults(study.folder / "out") as found:
        write_export(found, tmp_path)
        summary = page_of(found)["summary"]
        wanted = [result.ledger.flagged for result in found.results()]
    assert "Flagged answers are classes 1, 2, 3; any other class is adversarial." in summary
    assert "Only pixels within a mask may change (mask.png)." in summary
    with open(tmp_path / "cells.csv", newline="") as file:
        assert [int(row["flagged"]) for row in csv.DictReader(file)] == wanted


def test_a_study_that_is_interrupted_ends_with_the_same_numbers(study: StudyFolder) -> None:
    folder = study.folder / "again"
    tb.run_study(study.study(), folder, time_limit=1e-9).close()
    whole = contents(study.folder / "out")
    assert len(contents(folder)) < len(whole)
    resume(folder)
    assert contents(folder) == whole


def test_another_set_or_another_mask_is_another_study(tmp_path: Path, monkeypatch) -> None:
    made = written(tmp_path, "changing_net")
    monkeypatch.syspath_prepend(str(tmp_path))
    folder = tmp_path / "out"
    tb.run_study(made.study(), folder, time_limit=1e-9).close()
    Image.fromarray(mask_array(4)).save(tmp_path / "mask.png")
    with pytest.raises(InputError, match=r"the masks of mask.png changed"):
        resume(folder)
    Image.fromarray(mask_array()).save(tmp_path / "mask.png")
    (tmp_path / "set.txt").write_text("0-3\n")
    with pytest.raises(FileError, match=r"the flagged classes of set.txt changed"):
        resume(folder)
    with pytest.raises(FileError, match=r"the flagged classes of set.txt changed"):
        tb.run_study(made.study(), folder)
    (tmp_path / "set.txt").write_text("3\n2\n1\n")
    resume(folder)
    Image.fromarray(mask_array(4)).save(tmp_path / "mask.png")
    with (
        tb.studies.StudyResults(folder) as found,
        pytest.raises(FileError, match=r"the masks of mask.png changed"),
    ):
        found.replayed(0)


def test_images_that_are_flagged_are_the_correct_ones(tmp_path: Path, monkeypatch) -> None:
    text = GOAL.replace('path = "images.npz"', 'path = "images.npz"\ncorrect_only = true')
    made = written(tmp_path, "correct_net", text)
    monkeypatch.syspath_prepend(str(tmp_path))
    with np.load(tmp_path / "images.npz") as stored:
        images, labels = stored["images"], stored["labels"]
    shifted = np.where(np.isin(labels, sorted(FLAGGED)), 3, labels)
    np.savez(tmp_path / "images.npz", images=images, labels=shifted)
    with tb.run_study(made.study(), tmp_path / "out") as found:
        wanted = int(np.isin(labels, sorted(FLAGGED)).sum())
        assert 0 < wanted < 4
        assert found.grid.images == wanted
        assert found.results().misclassified == 0


def test_a_list_of_classes_and_a_folder_of_masks(tmp_path: Path, monkeypatch) -> None:
    text = GOAL.replace('"set.txt"', "[3, 2, 1]").replace('"mask.png"', '"masks"')
    made = written(tmp_path, "listed_net", text)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "masks").mkdir()
    for number in range(4):
        Image.fromarray(mask_array(number + 1)).save(tmp_path / "masks" / f"{number}.png")
    assert made.study().goal.flagged == FLAGGED
    with tb.run_study(made.study(), tmp_path / "out") as found:
        for result in found.results():
            point = found.replayed(result.index).adversarial
            place = found.grid.place(result.index).image
            if point is not None:
                changed = (point != found.pixels[place]).any(0).any(0)
                assert not changed[place + 1 :].any()


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"set.txt"', '"none.txt"', r"goal.flagged .*none.txt does not exist"),
        ('"set.txt"', "[]", "goal.flagged is an empty list"),
        ('"set.txt"', "[1, -1]", "goal.flagged has -1: expected classes"),
        ('"set.txt"', "5", "goal.flagged is 5: expected a list of classes, or a file"),
        ('"set.txt"', "[1, 2]\ntarget = 2\nstart = 'mask.png'", "goal.target is 2, which is flag"),
        ('"mask.png"', '"none.png"', r"goal.mask is 'none.png': .*none.png does not exist"),
        ('"mask.png"', "5", "goal.mask is 5: expected an image that is white"),
        ("flagged =", "flaged =", "did you mean 'flagged'"),
    ],
)
def test_a_bad_goal_in_a_file_is_refused(tmp_path: Path, old: str, new: str, told: str) -> None:
    made = written(tmp_path, "bad_net", GOAL.replace(old, new))
    with pytest.raises(FileError, match=told) as error:
        made.study()
    assert "study.toml, line" in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"set.txt"', "[1, 9]", "goal.flagged has class 9, but the model has 5 classes"),
        ('"set.txt"', "[0, 1, 2, 3, 4]", "goal.flagged has all 5 classes"),
        ('"mask.png"', '"images.npz"', "cannot be read"),
        ('"mask.png"', '"empty"', "goal.mask is .*empty, which has no mask for the image 0"),
    ],
)
def test_a_goal_that_does_not_fit_is_refused(
    tmp_path: Path, monkeypatch, old: str, new: str, told: str
) -> None:
    made = written(tmp_path, "unfit_net", GOAL.replace(old, new))
    (tmp_path / "empty").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InputError, match=told):
        tb.run_study(made.study(), tmp_path / "out")
    assert not (tmp_path / "out").exists()
