"""The paper's models, with packages that are faked here; and the stand-ins of the small studies."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import fake_packages as fake
import pytest
import torch
from torch import Tensor, nn

import tollbox as tb
from tollbox.errors import InputError
from tollbox.models import stand_ins
from tollbox.models.embedded import embedded
from tollbox.models.hub import imagenet
from tollbox.models.loading import load_model
from tollbox.models.registry import packages_of
from tollbox.models.stand_ins import tiny_vit

CLIP = "clip:openai/clip-vit-base-patch32"
FINE_TUNED = "vit_base_patch32_clip_224.openai_ft_in1k"
EXTRAS = {"torchvision": "torchvision", "timm": "timm", "transformers": "hf"}


def words(prompts: list[str], **how: Any) -> dict[str, Tensor]:
    """The number of a prompt's class."""
    assert how == {"padding": True, "truncation": True, "return_tensors": "pt"}
    known = [f"a photo of a {name}" for name in imagenet().names]
    return {"input_ids": torch.tensor([known.index(prompt) for prompt in prompts])}


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """Fake packages; what was loaded from them."""
    asked: list[tuple[str, Any]] = []

    def made(network: Callable[[], nn.Module]) -> Callable[..., nn.Module]:
        def make(name: str, **how: Any) -> nn.Module:
            asked.append((name, *(getattr(value, "name", value) for value in how.values())))
            return network()

        return make

    for name, module in {
        **fake.torchvision(made(fake.Mean)),
        **fake.timm(made(fake.Mean), FINE_TUNED),
        **fake.transformers(made(fake.Clip), words),
    }.items():
        monkeypatch.setitem(sys.modules, name, module)
    return asked


@pytest.mark.parametrize("name", ["resnet50", "vit_b_32", "vit_b_16"])
def test_torchvision_networks(name: str, packages: list[tuple[str, Any]]) -> None:
    model = load_model(f"torchvision:{name}.IMAGENET1K_V1", torch.rand(3, 8, 8))
    assert packages == [(name, "IMAGENET1K_V1")]
    assert model.classes == 1000
    image = torch.tensor(fake.MEAN).reshape(1, 3, 1, 1).repeat(1, 1, 8, 8)
    brighter = image + torch.tensor([0.0, 0.0, 0.01]).reshape(1, 3, 1, 1)
    assert model(brighter).tolist() == [2]  # normalised: the third channel is the largest


def test_what_a_name_says_of_images_and_classes(packages: list[tuple[str, Any]]) -> None:
    model = tb.models.load("torchvision:resnet50")
    assert packages == [("resnet50", "IMAGENET1K_V2")]  # the default
    assert model.preprocessing == tb.models.Preprocessing(
        9, (8, 8), "bilinear", fake.MEAN, fake.STD
    )
    assert model.names == tuple(fake.NAMES)
    assert model.running["mean"] == "0.485, 0.456, 0.406"
    other = tb.models.load("torchvision:resnet50", mean=[0.5], std=[1.0])
    assert other.preprocessing is not None
    assert (other.preprocessing.mean, other.preprocessing.std) == ((0.5,), (1.0,))
    few = tb.models.load(f"timm:{FINE_TUNED}", mean=[0.0])
    assert few.preprocessing is not None
    assert few.preprocessing.resize == 8  # 8 / 0.9, rounded down
    assert few.names == imagenet().names
    assert few.in_layout("contiguous").names == few.names


def test_clip_zero_shot(packages: list[tuple[str, Any]]) -> None:
    model = load_model(CLIP, torch.rand(3, 8, 8))
    assert packages == [("openai/clip-vit-base-patch32",)]
    assert model.classes == 1000
    images = torch.tensor(fake.CLIP_MEAN).reshape(1, 3, 1, 1).repeat(3, 1, 8, 8)
    images += 0.1 * torch.eye(3).reshape(3, 3, 1, 1)
    assert (model(images) % 3).tolist() == [0, 1, 2]


def test_clip_fine_tuned(packages: list[tuple[str, Any]]) -> None:
    model = load_model(f"timm:{FINE_TUNED}", torch.rand(3, 8, 8))
    assert packages == [(FINE_TUNED, True)]
    assert model.classes == 1000


@pytest.mark.parametrize("source", ["torchvision:resnet50", CLIP, f"timm:{FINE_TUNED}"])
def test_what_is_missing_is_reported(
    source: str, packages: list[tuple[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError("Connection refused\nand more")

    example = torch.rand(3, 8, 8)
    [package] = packages_of(source)
    with monkeypatch.context() as missing:
        missing.setitem(sys.modules, package, None)
        missing.delitem(sys.modules, f"{package}.models", raising=False)
        told = rf"^{package} .*pip install 'tollbox\[{EXTRAS[package]}\]'`"
        with pytest.raises(InputError, match=told) as error:
            load_model(source, example)
        assert "\n" not in str(error.value)
    with monkeypatch.context() as offline:
        for made in (fake.torchvision(refuse) | fake.timm(refuse, FINE_TUNED)).items():
            offline.setitem(sys.modules, *made)
        offline.setattr(sys.modules["transformers"].CLIPModel, "from_pretrained", refuse)
        with pytest.raises(InputError, match=r"cannot be loaded \(OSError: Conn") as error:
            load_model(source, example)
        assert "\n" not in str(error.value)
        assert "copy that cache here" in str(error.value)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("torchvision:resnt50", "there is no 'resnt50': did you mean 'resnet50'"),
        ("torchvision:resnet50.V9", "there is no 'V9'"),
        ("timm:vit_base_patch32", "did you mean 'vit_base_patch32_clip_224"),
        ("timm:", "model is 'timm:': expected timm:NAME"),
        ("timm:../here", "../here does not exist"),
    ],
)
def test_unknown_names(source: str, says: str, packages: list[tuple[str, Any]]) -> None:
    with pytest.raises(InputError) as error:
        load_model(source, torch.rand(3, 8, 8))
    assert says in str(error.value)
    assert not packages


def test_stand_ins_classify_their_images() -> None:
    images = stand_ins.images()
    assert len(images) > 100
    shipped = embedded()
    numbers = [int(name) for name in images.names]
    assert torch.equal(images.images, shipped.images[numbers])
    assert list(images.labels) == shipped.labels[numbers].tolist()
    for make in (stand_ins.convolutional, stand_ins.vit_7, stand_ins.vit_4, stand_ins.zero_shot):
        with torch.inference_mode():
            found = make()(images.images.clone()).argmax(1)
        assert found.tolist() == list(images.labels)


def test_the_small_transformers() -> None:
    for patch in (7, 4):
        network, accuracy = tiny_vit(patch)
        assert accuracy > 0.8
        assert sum(p.numel() for p in network.parameters()) < 75_000
        with torch.inference_mode():  # a row does not depend on its neighbours
            rows = torch.rand((5, 1, 28, 28), generator=torch.Generator().manual_seed(0))
            alone = torch.cat([network(row[None]) for row in rows])
            assert torch.allclose(network(rows), alone, atol=1e-5)
    with pytest.raises(InputError, match="patch is 5: expected 7 or 4"):
        tiny_vit(5)
