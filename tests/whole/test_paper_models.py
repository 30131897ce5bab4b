"""The zoo, with packages that are faked here; and the stand-ins of the small studies."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tollbox.errors import InputError
from tollbox.models import stand_ins, zoo
from tollbox.models.embedded import embedded
from tollbox.models.loading import load_model
from tollbox.models.tiny_vit import tiny_vit

NAMES = [f"class {number}" for number in range(1000)]


class Mean(nn.Module):
    """Logits from the mean of each channel."""

    def forward(self, images: Tensor) -> Tensor:
        return images.mean((2, 3)).repeat(1, 400)[:, :1000]


class Vision(nn.Module):
    def forward(self, pixel_values: Tensor) -> Any:
        return types.SimpleNamespace(pooler_output=pixel_values.mean((2, 3)))


class Text(nn.Module):
    def forward(self, input_ids: Tensor) -> Any:
        return types.SimpleNamespace(pooler_output=torch.eye(3)[input_ids % 3])


class Clip(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.vision_model, self.text_model = Vision(), Text()
        self.visual_projection, self.text_projection = nn.Identity(), nn.Identity()


def words(prompts: list[str], padding: bool, return_tensors: str) -> dict[str, Tensor]:
    assert (padding, return_tensors) == (True, "pt")
    assert all(prompt.startswith("a photo of a class ") for prompt in prompts)
    return {"input_ids": torch.tensor([int(prompt.split()[-1]) for prompt in prompts])}


def torchvision(made: Callable[..., nn.Module]) -> dict[str, Any]:
    weights = types.SimpleNamespace(meta={"categories": NAMES})
    models = types.ModuleType("torchvision.models")
    vars(models).update(
        get_model=made,
        get_model_weights=lambda name: types.SimpleNamespace(IMAGENET1K_V1=weights),
    )
    return {"torchvision": types.ModuleType("torchvision"), "torchvision.models": models}


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """Fake packages; what was loaded from them."""
    asked: list[tuple[str, Any]] = []

    def get_model(name: str, weights: str) -> nn.Module:
        asked.append((name, weights))
        return Mean()

    def create_model(name: str, pretrained: bool) -> nn.Module:
        asked.append((name, pretrained))
        return Mean()

    transformers, timm = types.ModuleType("transformers"), types.ModuleType("timm")
    vars(transformers).update(
        CLIPModel=types.SimpleNamespace(
            from_pretrained=lambda name: asked.append((name, 0)) or Clip()
        ),
        CLIPTokenizer=types.SimpleNamespace(from_pretrained=lambda name: words),
    )
    vars(timm).update(create_model=create_model)
    for name, module in {
        **torchvision(get_model),
        "transformers": transformers,
        "timm": timm,
    }.items():
        monkeypatch.setitem(sys.modules, name, module)
    return asked


@pytest.mark.parametrize("name", ["resnet50", "vit_b_32", "vit_b_16"])
def test_torchvision_networks(name: str, packages: list[tuple[str, Any]]) -> None:
    model = load_model(f"tollbox.models.zoo:{name}", torch.rand(3, 8, 8))
    assert packages == [(name, "IMAGENET1K_V1")]
    assert model.classes == 1000
    image = torch.tensor([0.485, 0.456, 0.406]).reshape(1, 3, 1, 1).repeat(1, 1, 8, 8)
    brighter = image + torch.tensor([0.0, 0.0, 0.01]).reshape(1, 3, 1, 1)
    assert model(brighter).tolist() == [2]  # normalised: the third channel is the largest


def test_clip_zero_shot(packages: list[tuple[str, Any]]) -> None:
    model = load_model("tollbox.models.zoo:clip_zero_shot", torch.rand(3, 8, 8))
    assert packages == [("openai/clip-vit-base-patch32", 0)]
    assert model.classes == 1000
    images = torch.tensor(zoo.CLIP_MEAN).reshape(1, 3, 1, 1).repeat(3, 1, 8, 8)
    images += 0.1 * torch.eye(3).reshape(3, 3, 1, 1)
    assert (model(images) % 3).tolist() == [0, 1, 2]


def test_clip_fine_tuned(packages: list[tuple[str, Any]]) -> None:
    model = load_model("tollbox.models.zoo:clip_fine_tuned", torch.rand(3, 8, 8))
    assert packages == [("vit_base_patch32_clip_224.openai_ft_in1k", True)]
    assert model.classes == 1000


@pytest.mark.parametrize("name", zoo.PACKAGES)
def test_what_is_missing_is_reported(
    name: str, packages: list[tuple[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError("Connection refused\nand more")

    source, example = f"tollbox.models.zoo:{name}", torch.rand(3, 8, 8)
    for package in zoo.PACKAGES[name]:
        with monkeypatch.context() as missing:
            missing.setitem(sys.modules, package, None)
            missing.delitem(sys.modules, f"{package}.models", raising=False)
            with pytest.raises(InputError, match=f"^{package} .*pip install {package}`") as error:
                load_model(source, example)
            assert "\n" not in str(error.value)
    with monkeypatch.context() as offline:
        for made in torchvision(refuse).items():
            offline.setitem(sys.modules, *made)
        offline.setattr(sys.modules["timm"], "create_model", refuse)
        offline.setattr(sys.modules["transformers"].CLIPModel, "from_pretrained", refuse)
        with pytest.raises(InputError, match=r"^the weights of .*: OSError: Connection") as error:
            load_model(source, example)
        assert "\n" not in str(error.value)
        assert "where there is a connection" in str(error.value)


def test_the_zoo_is_what_the_studies_name() -> None:
    functions = {
        name
        for name, value in vars(zoo).items()
        if isinstance(value, types.FunctionType) and value.__module__ == zoo.__name__
    }
    assert set(zoo.PACKAGES) == {name for name in functions if not name.startswith("_")}


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
