"""Images from `module:function` in a study: what it may give, and every mistake in one sentence."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import tollbox as tb
from tollbox.cli.app import main
from tollbox.core.noise import content_hash
from tollbox.data.data_sets import _data_set_images, images_from
from tollbox.data.images import ImageSet
from tollbox.data.resizing import Preparation
from tollbox.errors import FileError, InputError
from tollbox.models.loading import load_model
from tollbox.studies.images import images_digest
from tollbox.studies.inputs import load
from tollbox.studies.study import Study

NUMBERS = itertools.count()
CODE = """
import numpy as np
import torch
from torch import nn

import tollbox as tb
from tollbox.data.images import ImageSet

pixels = torch.rand((4, 1, 5, 5), generator=torch.Generator().manual_seed(0))
labels = (pixels.mean((1, 2, 3)) > 0.5).long()
many = [0, 1, 0, 1]


def pair():
    return pixels, labels


def triple():
    return (pixels.numpy() * 255).astype(np.uint8), many, ["a", "b", "c", "d"]


def image_set():
    return ImageSet(pixels, tuple(many), ("a", "b", "c", "d"), ("here",) * 4)


def nothing():
    return None


def strange():
    return object(), many


def flat():
    return pixels[0], many


def whole():
    return torch.zeros((4, 1, 5, 5), dtype=torch.int64), many


def large():
    return pixels * 255, many


def holes():
    return pixels / 0 * 0, many


def few():
    return pixels, [0, 1]


def valueless():
    return pair()[0], torch.zeros(4, device="meta")


def fractions():
    return pixels, [0.0, 1.0, 0.0, 1.0]


def unnamed():
    return pixels, many, "abcd"


def raising():
    raise RuntimeError("no disk")


def refusing():
    raise tb.errors.InputError("the images are on the other shelf.")


def needing(folder):
    return pixels, many


class Kind:
    pass


class Net(nn.Module):
    def forward(self, images):
        brightness = images.mean((1, 2, 3))
        return torch.stack([1 - brightness, brightness], 1)


def make_net():
    return Net()


def make_nothing():
    return 3
"""
TEXT = """\
budget = 60
prices = [10]
device = "cpu"

[images]
path = "{module}:pair"
limit = 3

[[models]]
source = "{module}:make_net"

[[attacks]]
preset = "a-hsja"
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module with CODE, which can be imported from the current folder."""
    name = f"pictures_{next(NUMBERS)}"
    (tmp_path / f"{name}.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def study(folder: Path, module: str, old: str = "", new: str = "") -> Study:
    text = TEXT.format(module=module)
    assert not old or text.count(old) == 1
    file = folder / "study.toml"
    file.write_text(text.replace(old, new) if old else text)
    return Study.from_toml(file)


def test_what_a_function_may_give(module: str) -> None:
    pair = images_from(f"{module}:pair")
    assert isinstance(pair, ImageSet)
    assert pair.names == ("0", "1", "2", "3")
    assert pair.images.dtype == torch.float32
    assert pair.labels == tuple((pair.images.mean((1, 2, 3)) > 0.5).long().tolist())
    triple = images_from(f"{module}:triple")
    assert (triple.names, triple.labels) == (("a", "b", "c", "d"), (0, 1, 0, 1))
    assert torch.allclose(triple.images, pair.images, atol=1 / 255)
    same = images_from(f"{module}:image_set")
    assert same.names == triple.names
    assert torch.equal(same.images, pair.images)


MISTAKES = {
    "nothing": ["it returned NoneType", "(images, labels)"],
    "strange": ["images is object", "(n, c, h, w)"],
    "flat": ["shape (1, 5, 5)", "(n, c, h, w)"],
    "whole": ["images is of type int64", "uint8 or floats"],
    "large": ["image 0 has values from", "expected [0,1]; divide by 255?"],
    "holes": ["image 0 has values that are not finite", "expected values in [0,1]"],
    "few": ["labels has shape (2,) for 4 images", "expected (4,), one label per image"],
    "fractions": ["labels is of type float64", "expected integers"],
    "unnamed": ["names is not 4 texts"],
    "valueless": ["reading what it returned failed: NotImplementedError"],
    "raising": ["calling it failed: RuntimeError: no disk"],
    "refusing": ["the images are on the other shelf"],
    "needing": ["calling it failed", "missing 1 required positional argument"],
    "Kind": ["which is a class", "a function without arguments"],
    "many": ["which is list", "a function without arguments"],
    "absent": ["has no attribute 'absent'"],
}


def loaded(of: Study) -> ImageSet:
    """The images that a study is run on."""
    return load(of).images


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_reported_with_the_file_and_the_line(
    tmp_path: Path, module: str, name: str
) -> None:
    mistaken = study(tmp_path, module, ":pair", f":{name}")
    with pytest.raises(FileError) as error:
        loaded(mistaken)
    text = str(error.value)
    assert text.startswith(f"{tmp_path}/study.toml, line 6: ")
    assert "\n" not in text
    for words in MISTAKES[name]:
        assert words in text
    if name != "refusing":
        assert f"images.path is '{module}:{name}'" in text


def test_a_module_that_is_not_there(tmp_path: Path, module: str) -> None:
    mistaken = study(tmp_path, module, f"{module}:pair", "no_such_module:pair")
    with pytest.raises(FileError, match=r"line 6: images\.path is 'no_such_module:pair': No "):
        loaded(mistaken)


def test_labels_are_not_for_a_function(tmp_path: Path, module: str) -> None:
    with pytest.raises(FileError, match=r"line 7: images.labels is given.*a function.*leave"):
        study(tmp_path, module, "limit = 3", 'labels = "labels.csv"')


def test_a_file_of_that_name_comes_first(tmp_path: Path, module: str) -> None:
    images = np.zeros((2, 1, 5, 5), np.uint8)
    np.savez(tmp_path / "set.npz", images=images, labels=[0, 0])
    (tmp_path / "set.npz").rename(tmp_path / f"{module}:pair")
    found = study(tmp_path, module)
    assert found.images.function is None
    assert loaded(found).labels == (0, 0)


def test_limit_list_and_digest_hold_for_a_function(tmp_path: Path, module: str) -> None:
    plain = study(tmp_path, module)
    assert (plain.images.function, str(plain.images.path)) == (f"{module}:pair", f"{module}:pair")
    images = loaded(plain)
    assert len(images) == 3
    (tmp_path / "list.txt").write_text("".join(f"{content_hash(i)}\n" for i in images.images[1:]))
    listed = loaded(study(tmp_path, module, "limit = 3", 'list = "list.txt"'))
    assert torch.equal(listed.images, images.images[1:])
    right = f'limit = 3\ndigest = "{images_digest(images)}"'
    assert len(loaded(study(tmp_path, module, "limit = 3", right))) == 3
    with pytest.raises(FileError, match=rf"line 7: images.digest is .*of {module}:pair have"):
        loaded(study(tmp_path, module, "limit = 3", f'digest = "{"0" * 32}"'))


def test_such_a_study_runs_is_resumed_and_reported(
    tmp_path: Path, module: str, capsys: pytest.CaptureFixture[str]
) -> None:
    study(tmp_path, module, "budget = 60", "budget = 2000")
    for command in (
        ["run", "study.toml", "--dry-run"],
        ["run", "study.toml", "--out", "out", "--time-limit", "0.001s"],
        ["resume", "out"],
        ["status", "out"],
        ["report", "out", "--trust-code"],
        ["export", "out"],
    ):
        sys.modules.pop(module, None)
        with pytest.raises(SystemExit) as end:
            main(command)
        expected = 3 if "--time-limit" in command else 0
        assert (end.value.code or 0) == expected, capsys.readouterr().err
    page = (tmp_path / "out" / "report.html").read_text()
    assert "The images cannot be shown" not in page
    assert '"original":"data:image/png' in page
    with tb.studies.StudyResults("out") as found:
        assert len(found) == 3
    sys.modules.pop(module, None)
    changed = (tmp_path / f"{module}.py").read_text().replace("manual_seed(0)", "manual_seed(1)")
    (tmp_path / f"{module}.py").write_text(changed + "\n# longer, so that it is compiled anew\n")
    with pytest.raises(SystemExit) as end:
        main(["resume", "out"])
    assert end.value.code == 2
    assert "out cannot be resumed: the content of image" in capsys.readouterr().err


def test_a_function_without_arguments_makes_the_model(module: str) -> None:
    example = torch.full((1, 5, 5), 0.7)
    model = load_model(f"{module}:make_net", example)
    assert model.classes == 2
    assert model(example[None]).tolist() == [1]
    assert model.network is not None
    with pytest.raises(InputError, match="a function without arguments that returned int"):
        load_model(f"{module}:make_nothing", example)
    with pytest.raises(InputError, match="calling it failed: RuntimeError: no disk"):
        load_model(f"{module}:raising", example)
    with pytest.raises(InputError, match=r"^the images are on the other shelf\.$"):
        load_model(f"{module}:refusing", example)


def test_a_data_set_that_would_never_end_is_refused() -> None:
    class Endless:
        def __len__(self) -> int:
            return 10**12

        def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
            return torch.zeros(1, 4, 4), 0

    with pytest.raises(InputError, match=r"has 1,000,000,000,000 items: expected at most .*limit"):
        _data_set_images(Endless(), "", None, Preparation())
    assert len(_data_set_images(Endless(), "", 2, Preparation()).labels) == 2
