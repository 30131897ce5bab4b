"""Pictures as torchvision and Hugging Face read them: the same classes, the same pixels."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import tollbox as tb
from tollbox.data.data_sets import images_from

NUMBERS = itertools.count()
SIZES = ((300, 201), (201, 300), (257, 999), (64, 64), (225, 224))


def picture(width: int, height: int, seed: int = 0) -> Image.Image:
    coarse = np.random.default_rng(seed).integers(0, 256, (9, 7, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)


def given(value: Any, folder: Path, patch: pytest.MonkeyPatch, **settings: Any) -> tb.data.ImageSet:
    """The images of a function that gives a value."""
    name = f"neighbour_{next(NUMBERS)}"
    (folder / f"{name}.py").write_text("value = None\ndef data():\n    return value\n")
    patch.syspath_prepend(str(folder))
    __import__(name).value = value
    return images_from(f"{name}:data", **settings)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "lanczos", "nearest", "box"])
def test_resizing_is_torchvisions_of_pictures(size: tuple[int, int], interpolation: str) -> None:
    from torchvision import transforms

    mode = transforms.InterpolationMode(interpolation)
    for resize, crop in ((256, 224), ((48, 60), None), (61, (60, 31)), (33, 20)):
        steps = [transforms.Resize(resize, interpolation=mode)]
        steps += [] if crop is None else [transforms.CenterCrop(crop)]
        wanted = transforms.Compose(steps)(picture(*size))
        found = tb.data.Resizing(resize, crop, interpolation).applied(picture(*size), "x")
        assert np.array_equal(np.asarray(found), np.asarray(wanted)), (resize, crop)


def test_a_folder_of_classes_is_torchvisions(tmp_path: Path) -> None:
    from torchvision import datasets

    for number, name in enumerate(("zebra", "Ant", "bee/deep", "bee", "ant")):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        picture(20, 16, number).save(tmp_path / name / f"{number}.png")
    theirs = datasets.ImageFolder(str(tmp_path))
    ours = tb.load_images(tmp_path)
    assert ours.class_names == tuple(theirs.classes)
    labels = {str(Path(file).relative_to(tmp_path)): label for file, label in theirs.samples}
    assert dict(zip(ours.names, ours.labels, strict=True)) == labels


def test_data_sets_of_torchvision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torchvision import datasets, transforms

    for number, name in enumerate(("b", "a", "b")):
        (tmp_path / "set" / name).mkdir(parents=True, exist_ok=True)
        picture(20, 16, number).save(tmp_path / "set" / name / f"{number}.png")
    plain = given(datasets.ImageFolder(str(tmp_path / "set")), tmp_path, monkeypatch)
    assert (plain.labels, plain.class_names) == ((0, 1, 1), ("a", "b"))
    tensors = datasets.ImageFolder(str(tmp_path / "set"), transforms.ToTensor())
    assert torch.equal(given(tensors, tmp_path, monkeypatch).images, plain.images)
    fake = datasets.FakeData(5, (3, 40, 50), 4)
    found = given(fake, tmp_path, monkeypatch, limit=2, resizing=tb.data.Resizing(20, 16))
    assert found.images.shape == (2, 3, 16, 16)


def test_data_sets_of_hugging_face(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])}
    )
    rows = {"image": [picture(20, 16, n) for n in range(3)], "label": [1, 0, 1]}
    data = datasets.Dataset.from_dict(rows, features=features)
    found = given(data, tmp_path, monkeypatch)
    assert (found.labels, found.class_names) == ((1, 0, 1), ("cat", "dog"))
    wanted = np.asarray(picture(20, 16, 1)).transpose(2, 0, 1).astype(np.float32) / 255
    assert np.array_equal(found.images[1].numpy(), wanted)
    by_name = given(data, tmp_path, monkeypatch, names=("dog", "cow", "cat"))
    assert by_name.labels == (0, 2, 0)
