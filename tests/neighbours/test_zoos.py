"""timm: and torchvision:, with the packages themselves and weights that are made here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import timm
import torch
import torchvision
from PIL import Image
from safetensors.torch import save_file

import tollbox as tb
from tollbox.errors import InputError
from tollbox.models.hub import imagenet
from tollbox.models.registry import files_of
from tollbox.studies.specs import ModelSpec

SAMPLING = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


def prepared(picture: np.ndarray, own: tb.models.Preprocessing) -> torch.Tensor:
    """A picture, resized and cropped by Pillow as a model's configuration says."""
    image, side, (height, width) = Image.fromarray(picture), own.resize, own.crop
    assert isinstance(side, int)
    assert image.width == image.height
    image = image.resize((side, side), SAMPLING[own.interpolation])
    left, top = round((side - width) / 2), round((side - height) / 2)
    pixels = np.asarray(image.crop((left, top, left + width, top + height)))
    return torch.from_numpy(pixels.copy()).permute(2, 0, 1).float() / 255


def test_timm(tmp_path: Path, pictures: np.ndarray) -> None:
    torch.manual_seed(0)
    network = timm.create_model(
        "resnet10t",
        num_classes=5,
        pretrained_cfg_overlay={
            "input_size": (3, 64, 64),
            "crop_pct": 0.9,
            "mean": (0.5, 0.4, 0.3),
            "std": (0.2, 0.2, 0.3),
            "num_classes": 5,
        },
    ).eval()
    with torch.no_grad():
        network.fc.weight.normal_(0, 5)
        network.fc.bias.sub_(network(torch.randn(16, 3, 1, 1).expand(16, 3, 64, 64)).mean(0))
    folder = tmp_path / "net"
    names = ["ant", "bee", "cat", "dog", "eel"]
    timm.models.save_for_hf(network, folder, model_config={"label_names": names})
    model = tb.models.load(f"timm:{folder}")
    assert model.names == tuple(names)
    own = model.preprocessing
    assert own is not None
    assert (own.size, own.resize, own.mean) == ((64, 64), 71, (0.5, 0.4, 0.3))
    transform = timm.data.create_transform(
        **timm.data.resolve_model_data_config(network), is_training=False
    )
    images = torch.stack([prepared(picture, own) for picture in pictures])
    with torch.inference_mode():
        theirs = torch.stack([transform(Image.fromarray(picture)) for picture in pictures])
        wanted = network(theirs).argmax(1)
    assert model(images).tolist() == wanted.tolist()
    assert len(set(wanted.tolist())) > 1
    other = images[int(torch.nonzero(wanted != wanted[0])[0])]
    surrogate = tb.Surrogate(f"timm:{folder}")
    settings = {"mean": own.mean, "std": own.std, "size": (64, 64), "labels": None}
    assert surrogate == tb.Surrogate(network, **settings)
    assert surrogate.classes(torch.rand(3, 40, 40)) == (5,)
    attack = tb.preset("a-hsja")
    [result] = tb.run(attack, model, images[:1], wanted[:1], budget=60, starts=other)
    assert result.distance < float((other - images[0]).norm())


@pytest.mark.parametrize(("word", "name"), [("timm", "resnet10t"), ("torchvision", "alexnet")])
def test_own_weights_in_safetensors(tmp_path: Path, word: str, name: str) -> None:
    torch.manual_seed(0)
    make = timm.create_model if word == "timm" else torchvision.models.get_model
    network, file = make(name, num_classes=5).eval(), tmp_path / "net.safetensors"
    save_file(network.state_dict(), file)
    source, image = f"{word}:{name}@{file}", torch.rand(3, 64, 64)
    model = tb.models.load(source, image, mean=[0.5], std=[0.2])
    wanted = network((image[None] - 0.5) / 0.2)
    assert torch.allclose(model.outputs(image[None]), wanted, atol=1e-4)
    assert files_of(source) == [file]
    assert ModelSpec.of(f"{word}:{name}@net.safetensors", folder=tmp_path).resolved == source
    with pytest.raises(InputError, match="give mean and std"):
        tb.models.load(source, image)
    weights = network.state_dict()
    save_file({key: weights[key] for key in list(weights)[1:]}, file)
    with pytest.raises(InputError, match=rf"is not for {name}: \S+ is absent in the file and \("):
        tb.models.load(source, image)
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(InputError, match=r"net\.safetensors cannot be loaded \("):
        tb.models.load(source, image)


def test_torchvision(tmp_path: Path, pictures: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of one's own in torchvision's cache."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    torch.manual_seed(0)
    weights = torchvision.models.SqueezeNet1_1_Weights.DEFAULT
    network = torchvision.models.squeezenet1_1().eval()
    with torch.no_grad():
        network.classifier[1].weight.normal_(0, 1)
        logits = network(torch.randn(8, 3, 1, 1).expand(8, 3, 224, 224))
        network.classifier[1].bias.sub_(logits.mean(0))
    cache = tmp_path / "hub" / "checkpoints"
    cache.mkdir(parents=True)
    torch.save(network.state_dict(), cache / weights.url.rpartition("/")[2])
    model = tb.models.load("torchvision:squeezenet1_1")
    assert model.classes == 1000
    assert model.names == tuple(weights.meta["categories"])
    own = model.preprocessing
    assert own is not None
    assert (own.size, own.resize) == ((224, 224), 256)
    images = torch.stack([prepared(picture, own) for picture in pictures[:4]])
    with torch.inference_mode():
        transform = weights.transforms()
        theirs = torch.stack([transform(Image.fromarray(picture)) for picture in pictures[:4]])
        wanted = network(theirs).argmax(1)
    assert model(images).tolist() == wanted.tolist()
    [result] = tb.run(tb.preset("a-hsja"), model, images[:1], wanted[:1], budget=20)
    assert result.ledger.cost <= 20


def test_our_names_are_imagenets() -> None:
    """Class for class the same things as torchvision's, mostly by the same words."""
    theirs = torchvision.models.ResNet50_Weights.DEFAULT.meta["categories"]
    ours = imagenet().names
    assert len(ours) == len(set(ours)) == 1000
    same = [one.lower() == other.lower() for one, other in zip(ours, theirs, strict=True)]
    assert sum(same) > 600


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("timm:resnet5", "did you mean 'resnet"),
        ("timm:resnet50.best", "there is no 'resnet50.best': did you mean 'resnet50."),
        ("torchvision:resnt50", "did you mean 'resnet50'"),
        ("torchvision:resnet50.V3", "there is no 'V3'"),
        ("timm:resnet18.a1_in1k", "its weights cannot be loaded"),
        ("torchvision:resnet18", "its weights cannot be loaded"),
    ],
)
def test_what_is_not_there(
    source: str,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    with pytest.raises(InputError) as error:
        tb.models.load(source)
    assert says in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500
    assert capfd.readouterr().err == ""


def test_weights_that_are_no_floats_are_refused(tmp_path: Path) -> None:
    weights = timm.create_model("resnet18", num_classes=4).state_dict()
    weights["conv1.weight"] = weights["conv1.weight"].long()
    save_file(weights, tmp_path / "net.safetensors")
    with pytest.raises(InputError, match=r"conv1\.weight is \(64, 3, 7, 7\) \(no floats\) in the"):
        tb.models.load(f"timm:resnet18@{tmp_path}/net.safetensors", torch.rand(3, 32, 32))
