"""Studies whose models bring a configuration along: it decides on sizes and labels, and is recorded
with the study, which goes on without it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import tollbox as tb
from tollbox.models import Model, Preprocessing

OWN = Preprocessing(12, (8, 8), interpolation="bicubic")
STUDY = """\
budget = 60
prices = [1]
device = "cpu"
images = {path = "set"}
models = [{source = "nowhere:net", name = "net"}]
attacks = [{preset = "surfree"}, {preset = "hsja"}]
"""


def configured(
    own: Preprocessing | None = OWN, names: tuple[str, ...] = ("dark", "bright")
) -> Model:
    """A model of brightness, with what its configuration says."""
    network = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
    with torch.no_grad():
        network[2].weight.copy_(torch.tensor([[-1.0], [1.0]]).expand(2, 3))
        network[2].bias.copy_(torch.tensor([1.5, -1.5]))
    return replace(tb.models.from_torch(network.eval()), names=names, preprocessing=own)


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], tb.Study]:
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    for number, (name, least) in enumerate((("bright", 140), ("dark", 0), ("bright", 130))):
        pixels = generator.integers(least, least + 110, (20 + number, 31, 3), dtype=np.uint8)
        (tmp_path / "set" / name).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(tmp_path / "set" / name / f"{number}.png")
    (tmp_path / "study.toml").write_text(STUDY)
    return lambda: tb.Study.from_toml("study.toml")


def test_a_study_follows_its_model(study: Callable[[], tb.Study]) -> None:
    with tb.run_study(study(), "out", models={"net": configured()}) as found:
        rows = {row["name"]: (row["label"], row["class"]) for row in found.rows()}
        assert rows == {
            "bright/0.png": (1, "bright"),
            "dark/1.png": (0, "dark"),
            "bright/2.png": (1, "bright"),
        }
        assert found.record.resizing == tb.data.Resizing(12, (8, 8), "bicubic")
        assert found.sizes == [f"Images are {found.record.resizing}."]
        assert not any(row["already_misclassified"] for row in found.rows())
    with tb.studies.StudyResults("out") as found:  # the images, without the model
        assert found.pixels.shape == (3, 3, 8, 8)
        cell = found.finished()[0].cell
        assert found.replayed(cell).distance == found.finished()[0].distance


def test_a_study_goes_on_as_it_was_begun(study: Callable[[], tb.Study]) -> None:
    with tb.run_study(study(), "whole", models={"net": configured()}) as found:
        wanted = list(found.rows())
    with tb.run_study(study(), "out", models={"net": configured()}, time_limit=0.001) as found:
        assert len(found) < len(wanted)
    other = configured(Preprocessing(20, (20, 20)), ("one", "two"))
    with tb.run_study(study(), "out", models={"net": other}) as found:
        assert list(found.rows()) == wanted


def test_folders_that_go_by_their_order_do_so_again(study: Callable[[], tb.Study]) -> None:
    model = configured(names=("first", "second"))
    for limit in (0.001, 60):
        with tb.run_study(study(), "out", models={"net": model}, time_limit=limit) as found:
            rows = list(found.rows())
    labels = {row["name"]: (row["label"], row["class"]) for row in rows}
    assert labels["bright/0.png"] == (0, "first")
    assert labels["dark/1.png"] == (1, "second")
    assert found.record.own_names
    wrong = {row["reason"] for row in rows}  # the folders are in another order
    assert wrong == {"the model answers 1 (second)", "the model answers 0 (first)"}


def test_without_a_configuration_nothing_is_resized(study: Callable[[], tb.Study]) -> None:
    with pytest.raises(
        tb.errors.InputError, match=r"study\.toml, line 4: .*give images\.resize and"
    ):
        tb.run_study(study(), "out", models={"net": configured(None)})
    assert not Path("out").exists()
