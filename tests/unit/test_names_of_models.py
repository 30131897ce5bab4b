"""Models by name, without the packages behind them: names, paths in them, configurations."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import torch

import tollbox as tb
from tollbox.core.preprocessing import Preprocessing
from tollbox.data.classes import class_names
from tollbox.data.images import check_there
from tollbox.data.user_code import imported, named_by_file
from tollbox.errors import FileError, InputError
from tollbox.models.hub import imagenet
from tollbox.models.hugging_face import preprocessing_of
from tollbox.models.registry import (
    file_of,
    files_of,
    is_model_name,
    located,
    packages_of,
    short_name,
)
from tollbox.studies.specs import DetectorSpec, ModelSpec

MEAN, STD = [0.5, 0.4, 0.3], [0.2, 0.25, 0.3]
USUAL = {"image_mean": MEAN, "image_std": STD, "resample": 3}


@pytest.mark.parametrize(
    ("source", "short", "package"),
    [
        ("hf:microsoft/resnet-50", "resnet-50", "transformers"),
        ("timm:resnet50.a1_in1k", "resnet50.a1_in1k", "timm"),
        ("torchvision:resnet50", "resnet50", "torchvision"),
        ("clip:openai/clip-vit-base-patch32", "clip-vit-base-patch32", "transformers"),
        ("onnx:nets/small.onnx", "small", "onnxruntime"),
    ],
)
def test_each_word_is_an_adapters(source: str, short: str, package: str) -> None:
    assert is_model_name(source)
    assert short_name(source) == short
    assert packages_of(source) == (package,)


def test_module_and_function_are_still_that() -> None:
    assert short_name("my.models:nets.small") == "small"
    assert packages_of("my.models:net") == ()
    assert file_of("my.models:net") is None


def test_paths_in_names_are_from_the_studys_folder(tmp_path: Path) -> None:
    (tmp_path / "vit").mkdir()
    assert located("hf:vit", tmp_path) == f"hf:{tmp_path / 'vit'}"
    assert located("hf:owner/vit", tmp_path) == "hf:owner/vit"  # no such folder: to be fetched
    assert located("torchvision:vit", tmp_path) == "torchvision:vit"  # never a folder
    assert located("onnx:net.onnx", tmp_path) == f"onnx:{tmp_path / 'net.onnx'}"
    assert located("hf:vit", Path()) == "hf:vit"
    assert located("hf:", Path()) == "hf:"
    assert file_of(f"onnx:{tmp_path / 'net.onnx'}") == tmp_path / "net.onnx"
    spec = ModelSpec.of("onnx:net.onnx", folder=tmp_path)
    assert (spec.name, spec.resolved) == ("net", f"onnx:{tmp_path / 'net.onnx'}")


def test_all_files_of_a_name(tmp_path: Path) -> None:
    for name in ("net.onnx", "net.onnx.data", "other.onnx", "net.pt2", "net.pt2.bak"):
        (tmp_path / name).touch()
    assert files_of(f"onnx:{tmp_path / 'net.onnx'}") == [
        tmp_path / "net.onnx",
        tmp_path / "net.onnx.data",
    ]
    assert files_of(str(tmp_path / "net.pt2")) == [tmp_path / "net.pt2"]
    assert files_of(str(tmp_path / "none.pt2")) == []
    assert files_of("my.models:net") == []


def test_a_file_comes_before_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hf:net").write_text("no model")
    assert files_of("hf:net") == [Path("hf:net")]
    assert ModelSpec.of("hf:net").resolved == "hf:net"
    with pytest.raises(FileError, match="hf:net is neither an exported program nor TorchScript"):
        tb.models.load("hf:net")


@pytest.mark.parametrize("word", ["hf", "timm", "torchvision", "clip", "onnx"])
def test_a_word_alone_is_refused(word: str) -> None:
    with pytest.raises(InputError, match=f"^model is '{word}:': expected {word}:"):
        tb.models.load(f"{word}:")


def test_messages_name_all_kinds() -> None:
    with pytest.raises(FileError) as error:
        tb.models.load("nowhere.pt2")
    for word in ("hf", "timm", "torchvision", "clip", "onnx"):
        assert f"{word}:" in str(error.value)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"size": {"height": 32, "width": 24}}, Preprocessing((32, 24))),
        (
            {
                "size": {"shortest_edge": 256},
                "do_center_crop": True,
                "crop_size": {"height": 224, "width": 200},
            },
            Preprocessing(256, (224, 200)),
        ),
        (
            {
                "size": 256,
                "do_center_crop": True,
                "crop_size": 224,
                "feature_extractor_type": "DeiTFeatureExtractor",
            },
            Preprocessing((256, 256), (224, 224)),
        ),
        ({"size": 224, "feature_extractor_type": "CLIPFeatureExtractor"}, Preprocessing(224)),
        ({"size": {"shortest_edge": 224}, "crop_pct": 0.875}, Preprocessing(256, (224, 224))),
        ({"size": {"shortest_edge": 384}, "crop_pct": 1.0}, Preprocessing((384, 384))),
        ({"size": {"longest_edge": 9}, "do_resize": True}, Preprocessing()),
        ({"size": 9, "do_resize": False}, Preprocessing()),
    ],
)
def test_what_a_configuration_says_of_sizes(
    settings: dict[str, object], expected: Preprocessing
) -> None:
    found = preprocessing_of({**USUAL, **settings})
    assert (found.size, found.resize, found.crop) == (
        expected.size,
        expected.resize,
        expected.crop,
    )
    assert found.interpolation == "bicubic"


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"rescale_factor": 1 / 255},
        {"do_rescale": False},
        {"rescale_factor": 1 / 127.5, "rescale_offset": True},
        {"do_normalize": False},
    ],
)
def test_what_it_says_of_values_is_mean_and_std(settings: dict[str, object]) -> None:
    """The same numbers as if done in the order of the processor, on values of 0 to 255."""
    values = torch.tensor([0.0, 100.0, 255.0])
    wanted = values
    if settings.get("do_rescale", True):
        wanted = wanted * settings.get("rescale_factor", 1 / 255)
        wanted = wanted - 1 if settings.get("rescale_offset") else wanted
    if settings.get("do_normalize", True):
        wanted = (wanted - torch.tensor(MEAN)) / torch.tensor(STD)
    own = preprocessing_of({**USUAL, **settings})
    assert own.mean is not None
    assert own.std is not None
    found = (values / 255 - torch.tensor(own.mean)) / torch.tensor(own.std)
    assert torch.allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_without_numbers_nothing_is_known() -> None:
    own = preprocessing_of({"size": 8})
    assert (own.mean, own.std) == (None, None)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("onx:net", "'onx:net', but there is neither .* called 'onx': did you mean 'onnx:net'?"),
        ("onx:a/net.onnx", "called 'onx': did you mean 'onnx:a/net.onnx'?"),
        ("HF:microsoft/resnet-50", "called 'HF': did you mean 'hf:microsoft/resnet-50'?"),
    ],
)
def test_words_that_are_not_known(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=re.escape(says).replace(r"\.\*", ".*")) as error:
        tb.models.load(text)
    assert "\n" not in str(error.value)
    (tmp_path / "study.toml").write_text(
        'images = {path = "x:images"}\nprices = [1]\nbudget = 1\nattacks = [{preset = "hsja"}]\n'
        f'[[models]]\nsource = "{text}"\n'
    )
    if not text.endswith(":net"):  # which is told when it is imported
        with pytest.raises(InputError, match=r"study\.toml, line 6: .* called '"):
            tb.Study.from_toml(tmp_path / "study.toml")


def test_a_module_comes_before_a_word_that_is_near(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "onx.py").write_text("def net(images):\n    return images.mean((2, 3))\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [str(tmp_path), *sys.path])
    assert tb.models.load("onx:net", torch.rand(3, 4, 4)).classes == 3
    with pytest.raises(InputError, match=r"is 'my_modle:net': No module named 'my_modle'"):
        tb.models.load("my_modle:net")


def test_names_and_prompts(tmp_path: Path) -> None:
    file = tmp_path / "names.txt"
    file.write_text("\ufeffcat\nold  dog\ta picture of an old dog \n\n", encoding="utf-8")
    classes = class_names(file)
    assert classes.names == ("cat", "old  dog")
    assert classes.prompts == ("a photo of a cat", "a picture of an old dog")
    assert class_names(["cat"]).prompts == ("a photo of a cat",)


def test_names_that_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "names.txt"
    for content, says in (
        (b"", r"names\.txt is empty: expected a text file with a class on each line"),
        (b"cat\n\ndog\n", r"names\.txt, line 2: .*has no name for class 1"),
        (b"cat\n\ta prompt\n", r"names\.txt, line 2: .*has no name for class 1"),
        (b"\xff\xfe\x00", r"names\.txt is not UTF-8 text"),
        (
            b"cat\n" + b"a" * 300,
            r"names\.txt, line 2: .*names has 'aaaa.* for class 1: expected a name",
        ),
        (b"c\x07at\n", r"names\.txt, line 1: .*names has 'c\\x07at'"),
    ):
        file.write_bytes(content)
        with pytest.raises(FileError, match=says):
            class_names(file)
    file.unlink()
    with pytest.raises(FileError, match=r"names\.txt does not exist: expected a text file"):
        class_names(file)
    with pytest.raises(InputError, match=r"names is .*: expected a text file"):
        class_names([])


def test_more_classes_than_names(tmp_path: Path) -> None:
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3)).eval()
    file = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(net, (torch.rand(1, 1, 2, 2),)), file)
    assert tb.models.load(str(file), names=["a", "b", "c"], trust=True).names == ("a", "b", "c")
    with pytest.raises(InputError, match=r"names has 2 names, but .*net\.pt2 has 3 classes"):
        tb.models.load(str(file), names=["a", "b"], trust=True)


def test_imagenet() -> None:
    names = imagenet().names
    assert len(names) == len(set(names)) == 1000
    assert (names[0], names[207], names[999]) == ("tench", "Golden Retriever", "toilet paper")
    assert imagenet().prompts[1] == "a photo of a goldfish"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("net.py:make", "is 'net.py:make', which names a file: expected its module: net:make."),
        ("a/net.py:own.net", "expected its module: net:own.net, from the folder a."),
    ],
)
def test_a_module_that_is_named_by_its_file(text: str, says: str) -> None:
    with pytest.raises(InputError, match=re.escape(says)):
        tb.models.load(text)
    with pytest.raises(InputError, match=re.escape(says)):
        imported(DetectorSpec(text).source, "watch")
    with pytest.raises(InputError, match=re.escape(says)):
        check_there(Path(text))


@pytest.mark.parametrize("text", ["net.py", "net.py:", "net.py:1", "net.pt:make"])
def test_other_files_are_not_taken_for_modules(text: str) -> None:
    assert named_by_file(text, "model") is None
