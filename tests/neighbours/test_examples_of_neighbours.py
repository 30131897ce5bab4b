"""The examples that need other packages: onnxruntime and the files of rapidocr-onnxruntime, and
transformers."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from PIL import Image

import tollbox as tb

EXAMPLES = Path(__file__).parents[2] / "examples"
DIRECTION = EXAMPLES / "text_direction"


def ran(*command: object, folder: Path) -> str:
    """What a command prints."""
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def module(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the files of the example, and the model file that its script puts there."""
    for file in DIRECTION.iterdir():
        if file.is_file():
            shutil.copy(file, tmp_path)
    ran("text_direction.py", folder=tmp_path)
    return tmp_path


def direction(place: Path, images: torch.Tensor) -> list[int]:
    """The labels that the model file gives, as the study has it."""
    settings = tomllib.loads((place / "study.toml").read_text())["models"][0]
    source = settings["source"].replace("onnx:", f"onnx:{place}/")
    model = tb.models.load(source, mean=[settings["mean"]], std=[settings["std"]])
    labels: list[int] = model(images).tolist()
    return labels


def test_the_direction_of_text_is_told_as_it_should_be(place: Path) -> None:
    pictures = [picture for picture, _ in module(place / "text_direction.py").lines()]
    upright = torch.stack([torch.from_numpy(np.array(p)).permute(2, 0, 1) for p in pictures]) / 255
    assert direction(place, upright) == [0] * len(pictures)
    assert direction(place, upright.flip(2, 3)) == [1] * len(pictures)


def test_the_direction_of_text_from_the_model_file_to_the_page(place: Path) -> None:
    study = place / "study.toml"
    small = re.sub(r"\[\[attacks\]\]\npreset = \"(hsja|a-hsja)\"\n\n?", "", study.read_text())
    small = small.replace("budget = 6000", "budget = 700").replace("limit = 4", "limit = 1")
    assert small.count("[[attacks]]") == small.count("limit = 1") == small.count("= 700") == 1
    study.write_text(small)
    ran("-m", "tollbox", "run", "study.toml", "--out", "results", folder=place)
    ran("-m", "tollbox", "report", "results", "--trust-code", folder=place)
    page = (place / "results" / "report.html").read_text()
    assert '"label":"upright"' in page
    assert '"label":"upside down"' in page
    with tb.studies.StudyResults(place / "results") as found:
        [result] = found.results()
    assert result.adversarial is not None
    assert result.ledger.cost <= 700
    points = result.adversarial * 255
    assert torch.allclose(points, points.round(), atol=1e-3)
    assert direction(place, result.adversarial[None]) == [1]


def test_a_hugging_face_folder(tmp_path: Path) -> None:
    from transformers import ViTConfig, ViTForImageClassification

    torch.manual_seed(0)
    names = {0: "cat", 1: "dog", 2: "owl, night bird"}
    config = ViTConfig(
        image_size=16,
        patch_size=4,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        id2label=names,
        label2id={name: label for label, name in names.items()},
    )
    ViTForImageClassification(config).eval().save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "preprocessor_config.json").write_text(
        '{"do_resize": true, "size": {"height": 16, "width": 16}, "resample": 3, '
        '"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}'
    )
    generator = np.random.default_rng(0)
    for number, name in enumerate(("owl", "cat", "dog", "cat")):
        (tmp_path / "pictures" / name).mkdir(parents=True, exist_ok=True)
        pixels = generator.integers(0, 256, (20 + number, 31, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "pictures" / name / f"{number}.png")
    out = ran(EXAMPLES / "hugging_face_folder.py", "model", "pictures", folder=tmp_path)
    first, *lines = out.splitlines()
    assert first == "pictures are stretched to 16x16 (bicubic)"
    assert [line.partition(":")[0] for line in lines] == [
        "cat/1.png (cat)",
        "dog/2.png (dog)",
        "owl/0.png (owl, night bird)",
        "cat/3.png (cat)",
    ]
    assert all(re.search(r"l2 \S+, \d.* queries \(\d.* flagged\), cost", line) for line in lines)
