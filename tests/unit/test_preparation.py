"""Sizes and names of classes: the user's, else those of the model's own configuration, else those
of the images' folders."""

from __future__ import annotations

import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import tollbox as tb
from tollbox.data.data_sets import images_from
from tollbox.data.resizing import Preparation
from tollbox.errors import InputError
from tollbox.models import Model, Preprocessing
from tollbox.studies.images import Configurations

OWN = Preprocessing(12, (8, 8), interpolation="bicubic", mean=(0.5,), std=(0.5,))


def model(names: tuple[str, ...] | None = None, own: Preprocessing | None = OWN) -> Model:
    """One with a configuration."""
    plain = tb.models.from_callable(lambda images: images.flatten(1).argmax(1))
    return replace(plain, names=names, preprocessing=own)


def tree(root: Path, *names: str) -> Path:
    """Pictures of several sizes, at these paths below a folder."""
    generator = np.random.default_rng(0)
    for number, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        pixels = generator.integers(0, 256, (20 + number, 31 - number, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(root / name)
    return root


def test_pictures_are_resized_as_the_configuration_says(tmp_path: Path) -> None:
    root = tree(tmp_path / "set", "a/0.png", "b/1.png")
    own = tb.data.Resizing(12, (8, 8), "bicubic")
    configured, told = tb.load_images(root, model=model()), tb.load_images(root, resizing=own)
    assert torch.equal(configured.images, told.images)
    assert configured.resizing == told.resizing == own
    assert str(own) == "resized to 12 on the shorter side (bicubic) and cropped to 8x8"
    (tmp_path / "labels.csv").write_text("file,label\na/0.png,3\nb/1.png,1\n")
    listed = tb.load_images(root, tmp_path / "labels.csv", model=model())
    assert torch.equal(listed.images, told.images)


def test_what_the_user_says_of_sizes_wins_as_a_whole(tmp_path: Path) -> None:
    root = tree(tmp_path / "set", "a/0.png", "b/1.png")
    found = tb.load_images(root, resizing=tb.data.Resizing(None, 16), model=model())
    assert found.images.shape == (2, 3, 16, 16)
    assert found.resizing == tb.data.Resizing(None, 16)


def test_arrays_are_taken_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "set.npz", images=np.zeros((2, 9, 10, 3), np.uint8), labels=[0, 1])
    found = tb.load_images(tmp_path / "set.npz", model=model(("cat", "dog")))
    assert (found.images.shape, found.resizing) == ((2, 3, 9, 10), None)
    assert found.class_names == ("cat", "dog")
    module: Any = types.ModuleType("prepared_data")
    module.tensors = lambda: [(torch.zeros(3, 9, 10), 0), (torch.ones(3, 9, 10), 1)]
    module.pictures = lambda: [(Image.new("RGB", (31, 20 + n)), n) for n in range(2)]
    monkeypatch.setitem(__import__("sys").modules, "prepared_data", module)
    found = images_from("prepared_data:tensors", model=model())
    assert (found.images.shape, found.resizing) == ((2, 3, 9, 10), None)
    found = images_from("prepared_data:pictures", model=model())
    assert found.images.shape == (2, 3, 8, 8)


def test_folders_go_by_the_names_of_the_model(tmp_path: Path) -> None:
    root = tree(tmp_path / "set", "ant/0.png", "Bee/1.png")
    found = tb.load_images(root, model=model(("bee, Apis", "cat", "ant")))
    assert dict(zip(found.names, found.labels, strict=True)) == {"ant/0.png": 2, "Bee/1.png": 0}
    assert found.class_names == ("bee, Apis", "cat", "ant")
    given = tb.load_images(root, names=["ant", "bee"], model=model(("x", "y")))
    assert (given.labels, given.class_names) == ((1, 0), ("ant", "bee"))
    nameless = tb.load_images(root, model=model())
    assert (nameless.labels, nameless.class_names) == ((0, 1), ("Bee", "ant"))


def test_folders_that_the_model_has_no_names_for(tmp_path: Path) -> None:
    """As many as it has classes go by their order; fewer cannot be told."""
    root = tree(tmp_path / "set", "n01/0.png", "n02/1.png")
    found = tb.load_images(root, model=model(("tench", "goldfish")))
    assert (found.labels, found.class_names) == ((0, 1), ("tench", "goldfish"))
    for names in (("tench", "goldfish", "shark"), ("tench", "n02")):
        with pytest.raises(InputError, match=r"the class 'n01' is none of the . class names"):
            tb.load_images(root, model=model(names))
    with pytest.raises(InputError, match=r"the class 'n01' is none of the 2 class names"):
        tb.load_images(root, names=("tench", "goldfish"))
    numbers = tree(tmp_path / "numbers", *(f"{n}/0.png" for n in (1, 2, 10)))
    with pytest.raises(InputError, match=r"the folder '1' .* would be class 0"):
        tb.load_images(numbers, model=model(("a", "b", "c")))


def test_a_configuration_that_cannot_be_followed(tmp_path: Path) -> None:
    root = tree(tmp_path / "set", "a/0.png")
    wide = model(own=Preprocessing(8, (12, 12)))
    with pytest.raises(
        InputError, match=r"the sizes in the model's configuration cannot be used: its c"
    ):
        tb.load_images(root, model=wide)
    strange = model(own=Preprocessing(8, (8, 8), interpolation="random"))
    with pytest.raises(InputError, match=r"its interpolation is 'random'; give resize and crop"):
        tb.load_images(root, model=strange)
    assert tb.load_images(root, resizing=tb.data.Resizing(8, 8), model=wide).images.shape[2:] == (
        8,
        8,
    )


def test_models_that_say_nothing_do_not_disagree() -> None:
    onnx = model(own=Preprocessing(size=(8, 8)))
    both = Configurations({"file": onnx, "net": model(("a", "b")), "other": model(("c", "d"))})
    assert (both.names, both.preprocessing) == (("a", "b"), OWN)
    assert Configurations({"file": onnx}).preprocessing is None
    apart = Configurations({"net": model(), "other": model(own=Preprocessing(12, (8, 8)))})
    with pytest.raises(InputError, match=r"for 'net' images are .*bicubic.*'other'.*bilinear"):
        assert Preparation(model=apart).resizing
    assert Preparation(tb.data.Resizing(8), (), apart).resizing == tb.data.Resizing(8)
