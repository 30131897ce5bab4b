"""The first attack on one's own Hugging Face model and pictures, as the documents have it; pictures
are resized, and classes named, as the model's own files say."""

from __future__ import annotations

import ast
import csv
import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_models import NAMES, SETTINGS, class_folders, vit

import tollbox as tb

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("document", ["README.md", "docs/models.md"])
def test_attacked_in_three_lines(
    document: str, tmp_path: Path, pictures: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the documents have it, with a model and pictures of one's own."""
    folder = vit(tmp_path / "my-vit")
    classes = class_folders(tmp_path / "pictures", folder, pictures[:3])
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)
    [block] = [block for block in blocks if '"hf:' in block]
    assert len(ast.parse(block).body) == 1 + 3  # with the import
    space: dict[str, Any] = {}
    exec(compile(block.replace("hf:microsoft/resnet-50", "hf:my-vit"), document, "exec"), space)
    results, model, data = space["results"], space["model"], space["data"]
    assert {n: NAMES[k] for n, k in zip(data.names, data.labels, strict=True)} == classes
    assert model(data.images).tolist() == list(data.labels)
    assert all(np.isfinite(result.distance) for result in results)
    assert all(result.ledger.cost <= 5_000 for result in results)
    points = torch.stack([result.adversarial for result in results])
    assert (model(points) != torch.tensor(data.labels)).all()


@pytest.mark.parametrize("document", ["README.md", "docs/models.md", "docs/howto/own-model.md"])
def test_attacked_in_one_command(
    document: str, tmp_path: Path, pictures: np.ndarray, tollbox: Any
) -> None:
    classes = class_folders(tmp_path / "pictures", vit(tmp_path / "my-vit"), pictures[:3])
    text = (ROOT / document).read_text()
    command = re.findall(r"```\ntollbox (attack --model hf:.*?)\n```", text, re.DOTALL)[0]
    words = shlex.split(command.replace("\\\n", " ").replace("microsoft/resnet-50", "my-vit"))
    words[words.index("--budget") + 1] = "100"
    done = tollbox(*words)
    assert done.returncode == 0, done.stderr
    assert "Images are stretched to 32x32 (bilinear)." in done.stdout
    with open(tmp_path / "results" / "results.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["name"]: row["class"] for row in rows} == classes
    assert {row["already_misclassified"] for row in rows} == {"false"}
    settings = json.loads((tmp_path / "results" / "ledger.json").read_text())["settings"]
    assert settings["running"]["mean"] == "0.5, 0.4, 0.3"
    sizes = {"resize": [32, 32], "crop": None, "interpolation": "bilinear"}
    assert settings["resizing"] == sizes


def test_the_users_sizes_win(tmp_path: Path, pictures: np.ndarray, tollbox: Any) -> None:
    class_folders(tmp_path / "pictures", vit(tmp_path / "vit"), pictures[:2])
    command = ["attack", "--model", "hf:vit", "--images", "pictures", "--budget", "40"]
    done = tollbox(*command, "--resize", "40", "--crop", "32", "--out", "out")
    assert "Images are resized to 40 on the shorter side (bilinear) and cropped to 32x32." in (
        done.stdout
    )
    wrong = tollbox(*command, "--resize", "40", "--crop", "36", "--out", "other")
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
    assert "of the size in its configuration, 32 x 32" in wrong.stderr
    assert not (tmp_path / "other").exists()


PICTURES = """\
budget = 60
prices = [10]
device = "cpu"
images = {path = "pictures"}
models = [{source = "hf:vit"}]
attacks = [{preset = "surfree"}, {preset = "a-hsja"}]
"""


def test_sizes_and_names_are_recorded(tmp_path: Path, pictures: np.ndarray, tollbox: Any) -> None:
    """A study goes on as it was begun, whatever the configuration says of sizes by then."""
    folder = vit(tmp_path / "vit")
    classes = class_folders(tmp_path / "pictures", folder, pictures[:3])
    (tmp_path / "study.toml").write_text(PICTURES)
    assert tollbox("run", "study.toml", "--out", "whole").returncode == 0
    stopped = tollbox("run", "study.toml", "--out", "out", "--time-limit", "0.01s")
    assert "cells remain" in stopped.stderr, stopped.stderr
    settings = {**SETTINGS, "size": {"height": 24, "width": 24}}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    done = tollbox("resume", "out")
    assert done.returncode == 0, done.stderr
    with (
        tb.studies.StudyResults(tmp_path / "whole") as whole,
        tb.studies.StudyResults(tmp_path / "out") as found,
    ):
        assert list(found.rows()) == list(whole.rows())
        assert {row["name"]: row["class"] for row in found.rows()} == classes
        assert found.pixels.shape == (3, 3, 32, 32)
        assert found.sizes == ["Images are stretched to 32x32 (bilinear)."]
    other = tollbox("run", "study.toml", "--out", "anew")
    assert (other.returncode, other.stderr.count("\n")) == (2, 1), other.stderr
    assert not (tmp_path / "anew").exists()


def test_models_that_disagree_on_sizes(tmp_path: Path, pictures: np.ndarray, tollbox: Any) -> None:
    class_folders(tmp_path / "pictures", vit(tmp_path / "vit"), pictures[:3])
    vit(tmp_path / "other", {**SETTINGS, "resample": 3})
    text = PICTURES.replace('"hf:vit"}]', '"hf:vit"}, {source = "hf:other"}]')
    (tmp_path / "study.toml").write_text(text)
    refused = tollbox("run", "study.toml", "--out", "out")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr
    assert "study.toml, line 4: the configurations of the models differ: for 'vit' images " in (
        refused.stderr
    )
    assert "are stretched to 32x32 (bilinear), and for 'other' stretched to" in refused.stderr
    assert "set images.resize and images.crop" in refused.stderr
    assert not (tmp_path / "out").exists()
    (tmp_path / "study.toml").write_text(
        text.replace('"pictures"', '"pictures", resize = [32, 32]')
    )
    done = tollbox("run", "study.toml", "--out", "out")
    assert done.returncode == 0, done.stderr
