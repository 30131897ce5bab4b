"""hf: with transformers: labels are those of its own pipeline, and can be attacked."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from small_models import MEAN, NAMES, STD, clip, piped, vit

import tollbox as tb
from tollbox.cli.app import main
from tollbox.errors import InputError

STUDY = """\
budget = 60
prices = [10]
device = "cpu"
images = {path = "set.npz", names = "names.txt"}

[[models]]
source = "hf:vit"

[[models]]
source = "clip:clip"

[[attacks]]
preset = "surfree"

[[attacks]]
preset = "frugal+surrogate"
surrogate = "hf:vit"
"""


def test_labels_are_those_of_the_pipeline(
    tmp_path: Path, pictures: np.ndarray, images: torch.Tensor
) -> None:
    folder = vit(tmp_path / "vit")
    model = tb.models.load(f"hf:{folder}")
    assert model.names == NAMES
    assert model.classes == 5
    assert model.preprocessing == tb.models.Preprocessing(
        (32, 32), None, "bilinear", tuple(MEAN), tuple(STD)
    )
    labels = [model.names[label] for label in model(images).tolist()]
    assert labels == piped(folder, pictures)
    assert len(set(labels)) > 1


def test_mean_and_std_that_are_given_win(tmp_path: Path, images: torch.Tensor) -> None:
    folder = vit(tmp_path / "vit")
    network = transformers.ViTForImageClassification.from_pretrained(folder).eval()
    model = tb.models.load(f"hf:{folder}", mean=[0.1, 0.2, 0.3], std=[1.0])
    shifted = images - torch.tensor([0.1, 0.2, 0.3]).reshape(1, 3, 1, 1)
    with torch.inference_mode():
        wanted = network(shifted).logits.argmax(1)
    assert model(images).tolist() == wanted.tolist()
    assert model(images).tolist() != tb.models.load(f"hf:{folder}")(images).tolist()


def test_colours_in_another_order(
    tmp_path: Path, pictures: np.ndarray, images: torch.Tensor
) -> None:
    settings = {
        "do_flip_channel_order": True,
        "do_rescale": True,
        "do_resize": False,
        "do_center_crop": False,
        "image_processor_type": "MobileViTImageProcessor",
        "rescale_factor": 1 / 255,
        "do_normalize": False,
    }
    folder = vit(tmp_path / "vit", settings)
    model = tb.models.load(f"hf:{folder}")
    assert [NAMES[label] for label in model(images).tolist()] == piped(folder, pictures)


def test_a_resnet_that_takes_any_size(tmp_path: Path, pictures: np.ndarray) -> None:
    """Resized and cropped as its configuration says, by Pillow."""
    torch.manual_seed(1)
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=4
    )
    network = transformers.ResNetForImageClassification(config)
    with torch.no_grad():
        network.classifier[1].weight.normal_(0, 5)
    network.save_pretrained(tmp_path)
    settings = {
        "crop_pct": 0.875,
        "do_resize": True,
        "do_normalize": True,
        "image_processor_type": "ConvNextImageProcessor",
        "image_mean": MEAN,
        "image_std": STD,
        "resample": 3,
        "size": {"shortest_edge": 28},
    }
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(settings))
    model = tb.models.load(f"hf:{tmp_path}")
    assert model.names is None  # LABEL_0 says nothing
    own = model.preprocessing
    assert own is not None
    assert (own.size, own.resize, own.crop, own.interpolation) == (
        (28, 28),
        32,
        (28, 28),
        "bicubic",
    )
    cut = torch.from_numpy(pictures[:, 2:30, 2:30]).permute(0, 3, 1, 2).float() / 255
    assert [f"LABEL_{label}" for label in model(cut).tolist()] == piped(tmp_path, pictures)


def test_a_real_one(data: Path) -> None:
    folder = data / "models" / "vit-cifar10"
    with np.load(data / "cifar10-test-1000.npz") as held:
        pictures, truth = held["images"][:100], held["labels"][:100]
    images = torch.from_numpy(pictures).permute(0, 3, 1, 2).float() / 255
    model = tb.models.load(f"hf:{folder}")
    labels = model(images)
    assert model.names is not None
    assert [model.names[label] for label in labels[:20].tolist()] == piped(folder, pictures[:20])
    assert (labels.numpy() == truth).mean() > 0.7
    correct = torch.nonzero(labels == torch.from_numpy(truth)).flatten()[:2]
    results = tb.run(tb.preset("a-hsja"), model, images[correct], labels[correct], budget=200)
    assert all(np.isfinite(result.distance) for result in results)


@pytest.mark.parametrize(
    ("files", "image", "says"),
    [
        ({}, (1, 32, 32), "takes images of shape (3, any, any), but the images are (1, 32, 32)"),
        ({}, (3, 40, 40), "of the size in its configuration, 32 x 32"),
        ({"preprocessor_config.json": None}, (3, 32, 32), "give mean and std (0 and 1 if"),
        ({"config.json": None}, (3, 32, 32), "has no config.json: expected a folder that save_pre"),
        ({"config.json": b"{"}, (3, 32, 32), "cannot be loaded ("),
        ({"model.safetensors": None}, (3, 32, 32), "cannot be loaded ("),
        ({"model.safetensors": b"cut"}, (3, 32, 32), "cannot be loaded ("),
        ({"preprocessor_config.json": b"[1]"}, (3, 32, 32), "unusable preprocessor_config.json ("),
        ({"preprocessor_config.json": b"{"}, (3, 32, 32), "unusable preprocessor_config.json ("),
        (
            {"preprocessor_config.json": b'{"rescale_factor": 0}'},
            *((3, 32, 32), "its rescale_factor is 0, expected a number above 0"),
        ),
        (
            {"preprocessor_config.json": b'{"image_mean": "x", "image_std": [1]}'},
            *((3, 32, 32), "its image_mean is 'x', expected numbers"),
        ),
        (
            {"preprocessor_config.json": b'{"image_mean": [0.5], "image_std": [1, null]}'},
            *((3, 32, 32), "its image_std is [1, None], expected numbers"),
        ),
        (
            {"preprocessor_config.json": b'{"size": {"height": "a", "width": 3}}'},
            *((3, 32, 32), "unusable preprocessor_config.json: invalid literal"),
        ),
        (
            {"preprocessor_config.json": b'{"size": {"height": -5, "width": 3}}'},
            *((3, 32, 32), "resize is -5: expected a whole number from 1 to 4096"),
        ),
    ],
)
def test_what_is_refused(
    tmp_path: Path, files: dict[str, bytes | None], image: tuple[int, ...], says: str
) -> None:
    folder = vit(tmp_path / "vit")
    for name, content in files.items():
        if content is None:
            (folder / name).unlink()
        else:
            (folder / name).write_bytes(content)
    with pytest.raises(InputError) as error:
        tb.models.load(f"hf:{folder}", torch.rand(image))
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_configuration_with_fewer_layers_than_the_weights_is_refused(tmp_path: Path) -> None:
    folder = vit(tmp_path / "vit")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 1}))
    with pytest.raises(InputError, match=r"whose weights have vit\.\S+\.1\.\S+, which its config"):
        tb.models.load(f"hf:{folder}")


def test_weights_with_a_wrong_crc_and_pickles_are_refused(tmp_path: Path) -> None:
    folder = vit(tmp_path / "vit")
    network = transformers.ViTForImageClassification.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    file = folder / "pytorch_model.bin"
    torch.save(network.state_dict(), file)
    assert tb.models.load(f"hf:{folder}").classes == 5
    content = bytearray(file.read_bytes())
    weights = network.classifier.weight.detach().numpy().tobytes()
    content[content.index(weights)] ^= 1
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"model\.bin is damaged \(\S+/data/\d+\): expected"):
        tb.models.load(f"hf:{folder}")
    torch.save({"trap": Path("trap")}, file)
    with pytest.raises(
        InputError, match="it is not plain data, and pickles are not loaded"
    ) as error:
        tb.models.load(f"hf:{folder}")
    assert "weights_only" not in str(error.value)


def test_code_in_a_folder_is_not_run_and_not_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = vit(tmp_path / "vit")
    config = json.loads((folder / "config.json").read_text()) | {"model_type": "trap"}
    config["auto_map"] = dict.fromkeys(
        ("AutoConfig", "AutoModelForImageClassification"), "trap.Trap"
    )
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "trap.py").write_text("open('sprung', 'w')\nclass Trap: pass\n")
    with pytest.raises(InputError, match="cannot be loaded"):
        tb.models.load(f"hf:{folder}")
    out, err = capfd.readouterr()
    assert "[y/N]" not in out + err
    assert not Path("sprung").exists()


def test_a_pipe_in_a_folder_is_not_read(tmp_path: Path) -> None:
    folder = vit(tmp_path / "vit")
    (folder / "model.safetensors").unlink()
    os.mkfifo(folder / "pytorch_model.bin")
    with pytest.raises(InputError, match="cannot be loaded"):
        tb.models.load(f"hf:{folder}", torch.rand(3, 32, 32))


def test_clip_without_its_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no weights for .*: expected a trained CLIP model"):
        tb.models.load(f"clip:{vit(tmp_path / 'vit')}", torch.rand(3, 32, 32))


def test_a_network_without_a_trained_classifier_is_refused(tmp_path: Path) -> None:
    body = transformers.ViTModel(
        transformers.ViTConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2)
    )
    body.save_pretrained(tmp_path)
    with pytest.raises(InputError, match=r"has no weights for classifier\.bias: expected a train"):
        tb.models.load(f"hf:{tmp_path}")


@pytest.mark.parametrize("word", ["hf", "clip"])
def test_weights_that_are_not_there(word: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(
        InputError, match=r"its weights cannot be loaded .* copy that cache"
    ) as error:
        tb.models.load(f"{word}:nobody/nothing")
    assert "\n" not in str(error.value)
    assert capfd.readouterr().err == ""


def test_a_study(tmp_path: Path, pictures: np.ndarray, images: torch.Tensor, tollbox: Any) -> None:
    """Folders and files are from the study's own; a name's mean and std are part of the study."""
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "names.txt").write_text("\n".join(NAMES))
    (folder / "study.toml").write_text(STUDY)
    labels = [  # each model is right about one of them
        int(tb.models.load(f"hf:{vit(folder / 'vit')}")(images[:1])),
        int(tb.models.load(f"clip:{clip(folder / 'clip')}", names=NAMES)(images[1:2])),
    ]
    np.savez(folder / "set.npz", images=pictures[:2], labels=labels)
    stopped = tollbox("run", "study/study.toml", "--out", "out", "--time-limit", "0.01s")
    assert (stopped.returncode, "cells remain" in stopped.stderr) == (3, True), stopped.stderr
    file = folder / "clip" / "preprocessor_config.json"
    settings = file.read_text()
    file.write_text(json.dumps({**json.loads(settings), "image_std": [0.2, 0.25, 0.31]}))
    refused = tollbox("resume", "out")
    assert refused.returncode == 2, refused.stderr
    assert "changed from 0.2, 0.25, 0.3 to 0.2, 0.25, 0.31" in refused.stderr
    file.write_text(settings)
    done = tollbox("resume", "out")
    assert done.returncode == 0, done.stderr
    with tb.studies.StudyResults(tmp_path / "out") as results:
        assert [spec.name for spec in results.study.models] == ["vit", "clip"]
        assert len(results) == 8
    (folder / "names.txt").write_text("")
    done = tollbox("run", "study/study.toml", "--out", "other")
    assert done.returncode == 2
    assert "names.txt is empty" in done.stderr
    assert not (tmp_path / "other").exists()


def test_exact(tmp_path: Path, images: torch.Tensor) -> None:
    model = tb.models.load(f"hf:{vit(tmp_path / 'vit')}", dtype=torch.float64)
    labels = model(images.double())
    [result] = tb.run(
        tb.preset("surfree"),
        model,
        images[:1],
        labels[:1],
        budget=60,
        execution=tb.Execution(batch_size=16, exact=True),
    )
    assert result.ledger.cost <= 60


def test_a_surrogate_has_the_size_mean_and_std_of_its_configuration(tmp_path: Path) -> None:
    folder = vit(tmp_path / "vit")
    surrogate = tb.Surrogate(f"hf:{folder}")
    settings = {"mean": tuple(MEAN), "std": tuple(STD), "size": (32, 32), "labels": None}
    assert surrogate.settings == settings
    network = transformers.ViTForImageClassification.from_pretrained(folder).eval()
    assert surrogate == tb.Surrogate(network, **settings)
    image = torch.rand(3, 20, 24, generator=torch.Generator().manual_seed(0))
    assert surrogate.classes(image) == (5,)
    given = tb.Surrogate(f"hf:{folder}", mean=0.5, size=(32, 32))
    assert given.settings == settings | {"mean": (0.5,)}
    with pytest.raises(InputError, match="surrogate takes 3 channels, but the images have 1"):
        surrogate.classes(image[:1])
    (folder / "preprocessor_config.json").unlink()
    with pytest.raises(InputError, match=r"^surrogate is 'hf:.*, which comes without its mean and"):
        tb.Surrogate(f"hf:{folder}")


FILTER = """
import torch


def dark(images):
    bright = images.mean((1, 2, 3))
    return torch.stack([bright, 0.45 + 0 * bright], 1)


class Filter(torch.nn.Module):
    forward = staticmethod(dark)


flags = Filter()
"""


def test_networks_of_other_classes_and_sizes_against_a_filter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two classes at 24 x 24, and public networks of five at 32 x 32."""
    vit(tmp_path / "vit")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "filter_of_two.py").write_text(FILTER)
    pixels = np.random.default_rng(0).integers(90, 166, (2, 24, 24, 3), dtype=np.uint8)
    np.savez("set.npz", images=pixels, labels=np.zeros(2, int))
    typed = (
        *("attack", "--model", "filter_of_two:flags", "--images", "set.npz", "--device", "cpu"),
        *("--attack", "frugal+surrogate", "--surrogate", "hf:vit", "--surrogate", "hf:vit"),
        *("--budget", "100", "--out", "out"),
    )
    with pytest.raises(SystemExit) as end:
        main(list(typed))
    err = capsys.readouterr().err
    assert end.value.code == 0, err
    assert "the surrogate hf:vit of the attack" in err
    assert "has other classes (5), and is attacked on its own prediction" in " ".join(err.split())
    told = json.loads(Path("out/ledger.json").read_text())
    assert told["settings"]["surrogate"]["size"] == [32, 32]
    with np.load("out/adversarial.npz") as stored:
        assert np.isfinite(stored["distance"]).all()
    (tmp_path / "vit" / "preprocessor_config.json").unlink()
    with pytest.raises(SystemExit) as end:
        main([*typed[:-1], "again"])
    err = capsys.readouterr().err
    assert end.value.code == 2
    assert "--surrogate is 'hf:vit', which comes without its mean and std" in err
    assert "give --surrogate-mean and --surrogate-std (0 and 1 if" in err
