"""Pictures as people have them, on the command line and in study files: folders of classes, any
size, names of classes wherever a label is shown; mistakes are one sentence, and nothing is written.
"""

from __future__ import annotations

import csv
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import tollbox as tb
from tollbox.cli.app import main

NUMBERS = itertools.count()
CODE = """
import torch
from PIL import Image

from torch import nn


class Net(nn.Module):
    def forward(self, images):
        brightness = images.mean((1, 2, 3))
        return torch.stack([brightness - 0.5, 0.5 - brightness], 1)


def make_net():
    return Net()


def data():
    return [(Image.new("RGB", (20 + n, 30), (90 + 80 * (n % 2),) * 3), 1 - n % 2) for n in range(4)]
"""
STUDY = """\
name = "brightness"
budget = 400
prices = [1]
device = "cpu"

[images]
path = "set"
{images}

[[models]]
source = "{module}:make_net"

[[attacks]]
preset = "hsja"
"""
SIZES = 'resize = 12\ncrop = [8, 10]\ninterpolation = "bicubic"'


class Place:
    """A folder with pictures in a folder for each class, and a module with a model."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capture = folder, capture
        self.module = f"brightness_{next(NUMBERS)}"
        (folder / f"{self.module}.py").write_text(CODE)
        for number, (kind, value) in enumerate([("dark", 95), ("bright", 165)] * 2):
            (folder / "set" / kind).mkdir(parents=True, exist_ok=True)
            noise = np.random.default_rng(number).integers(-9, 10, (15 + number, 20, 3))
            picture = Image.fromarray((noise + value).astype(np.uint8))
            picture.save(folder / "set" / kind / f"{number}.jpg")

    def run(self, *words: str) -> tuple[int, str, str]:
        """Exit code, stdout, stderr."""
        with pytest.raises(SystemExit) as end:
            main(list(words))
        out, err = self.capture.readouterr()
        return int(end.value.code or 0), out, err

    def attack(self, *words: str) -> tuple[int, str, str]:
        usual = {"--images": "set", "--resize": "12", "--crop": "8,10", "--budget": "300"}
        model = {"--model": f"{self.module}:make_net", "--device": "cpu", "--out": "out"}
        options = usual | model | dict(zip(words[::2], words[1::2], strict=True))
        return self.run("attack", *itertools.chain.from_iterable(options.items()))

    def study(self, images: str = SIZES) -> Path:
        text = STUDY.format(module=self.module, images=images)
        (self.folder / "study.toml").write_text(text)
        return Path("study.toml")

    def refused(self, answer: tuple[int, str, str], *told: str) -> None:
        code, out, err = answer
        assert (code, out) == (2, ""), err
        assert err.count("\n") == 1
        for words in told:
            assert words in err
        assert not (self.folder / "out").exists()


@pytest.fixture
def place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Place:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return Place(tmp_path, capsys)


def rows(file: str) -> list[dict[str, str]]:
    with open(file, newline="") as lines:
        return list(csv.DictReader(lines))


def test_an_attack_on_a_folder_of_classes_names_them(place: Place) -> None:
    code, out, err = place.attack()
    assert code == 0, err
    assert "bright 2, dark 2" in out
    told = rows("out/results.csv")
    assert [(row["name"], row["label"], row["class"]) for row in told] == [
        ("bright/1.jpg", "0", "bright"),
        ("dark/0.jpg", "1", "dark"),
        ("bright/3.jpg", "0", "bright"),
        ("dark/2.jpg", "1", "dark"),
    ]
    assert {row["stop"] for row in told} == {"budget"}
    ledger = json.loads(Path("out/ledger.json").read_text())
    assert [image["class"] for image in ledger["images"]] == ["bright", "dark"] * 2
    sizes = {"resize": 12, "crop": [8, 10], "interpolation": "bilinear"}
    assert ledger["settings"]["resizing"] == sizes
    with np.load("out/adversarial.npz") as stored:
        assert stored["images"].shape == (4, 3, 8, 10)


def test_a_target_goes_by_its_name(place: Place) -> None:
    Image.new("RGB", (40, 30), (20, 20, 20)).save("start.png")
    np.savez("bright.npz", images=np.full((2, 4, 5, 3), 200, np.uint8), labels=[0, 0])
    Path("names.txt").write_text("bright\n=dark\n")
    Image.new("RGB", (5, 4), (20, 20, 20)).save("five.png")
    code, out, err = place.run(
        *("attack", "--model", f"{place.module}:make_net", "--images", "bright.npz"),
        *("--names", "names.txt", "--target", "1", "--start", "five.png", "--out", "out"),
        *("--budget", "100", "--device", "cpu"),
    )
    assert code == 0, err
    assert "target 1 (=dark)" in out
    assert [row["class"] for row in rows("out/results.csv")] == ["bright"] * 2


def test_names_say_which_folder_is_which_class(place: Place) -> None:
    Path("names.txt").write_text("dark\nbright\n")
    code, out, err = place.attack("--names", "names.txt")
    assert code == 1, out  # the labels are the other way round now: all are misclassified
    assert "misclassifies all 4 images" in err
    assert [row["label"] for row in rows("out/results.csv")] == ["1", "0", "1", "0"]


def test_a_data_set_of_a_function(place: Place) -> None:
    Path("names.txt").write_text("bright\ndark\n")
    code, _, err = place.attack("--images", f"{place.module}:data", "--names", "names.txt")
    assert code == 0, err
    assert [row["class"] for row in rows("out/results.csv")] == ["dark", "bright"] * 2


def test_a_study_has_them_and_goes_on_with_the_same(place: Place) -> None:
    study = place.study()
    code, _, err = place.run("run", str(study), "--out", "out", "--time-limit", "0.001s")
    assert code in (1, 3), err
    assert place.run("resume", "out")[0] == 0
    assert place.run("report", "out")[0] == 0
    assert place.run("export", "out")[0] == 0
    assert {row["class"] for row in rows("out/export/cells.csv")} == {"bright", "dark"}
    page = Path("out/report.html").read_text()
    assert '"label":"bright"' in page
    assert '"label":"dark"' in page
    assert '"label":"class' not in page
    with tb.studies.StudyResults("out") as found, tb.studies.StudyResults("out") as again:
        assert found.record.class_names == ("bright", "dark")
        assert found.pixels.shape == (4, 3, 8, 10)
        assert again.study.images.resizing == found.study.images.resizing is not None
    Image.new("RGB", (30, 30)).save("set/dark/0.jpg")
    code, _, err = place.run("resume", "out")
    assert code == 2
    assert "out cannot be resumed: the content of image 1 (dark/0.jpg) of" in err


def test_a_study_made_from_options_is_read_back(place: Place) -> None:
    place.attack("--interpolation", "bicubic")
    with tb.studies.StudyResults("out") as found:
        assert 'interpolation = "bicubic"' in found.record.text
        assert "crop = [8, 10]" in found.record.text
    code, _, err = place.run("resume", "out")
    assert code == 0, err


def test_mistakes_on_the_command_line(place: Place) -> None:
    place.refused(place.attack("--crop", "13"), "--crop is 13, but --resize is 12", "make --resize")
    place.refused(place.attack("--crop", "x"), "--crop is 'x': expected a whole number, or a heigh")
    place.refused(place.attack("--resize", "0"), "--resize is 0: expected a whole number from 1")
    place.refused(place.attack("--interpolation", "cubic"), "--interpolation is 'cubic': expected")
    place.refused(place.attack("--names", "none.txt"), "--names none.txt does not exist")
    Path("names.txt").write_text("bright\ndark\ngrey\n")
    place.refused(
        place.attack("--names", "names.txt"),
        f"--names has 3 names, but {place.module}:make_net has 2 classes: expected one for each",
    )
    Path("names.txt").write_text("bright\nblack\n")
    place.refused(
        place.attack("--names", "names.txt"), "the class 'dark' is none of the 2 class names"
    )
    words = ("attack", "--model", f"{place.module}:make_net", "--out", "out", "--budget", "9")
    place.refused(
        place.run(*words, "--images", "set"), "20x", "give --resize and --crop, such as 256"
    )
    place.refused(
        place.run(*words, "--images", "set", "--interpolation", "bicubic"),
        "--interpolation is 'bicubic', but --resize is not given",
    )
    place.refused(place.run(*words, "--images", "set/dark"), "no labels are given", "give --labels")
    Path("set/grey").mkdir()
    place.refused(place.attack(), "the folder set/grey has no images")
    Image.new("RGB", (9, 9)).save("set/grey/9.png")
    place.refused(place.attack(), "the model has 2 classes, but there are 3 class names")
    Path("set/grey/9.png").write_bytes(b"no picture")
    place.refused(place.attack(), "9.png cannot be read")


@pytest.mark.parametrize(
    ("images", "told"),
    [
        ("resize = 8\ncrop = 9", "line 9: images.crop is 9, but images.resize is 8"),
        ("resize = [8, 9, 9]", "line 8: images.resize is (8, 9, 9): expected one length, or a"),
        ('resize = "8"', "line 8: images.resize is '8': expected a whole number, or a list of"),
        ("resize = [8, 0]", "line 8: images.resize is 0: expected a whole number from 1 to 4096"),
        ('crop = 8\ninterpolation = "bicubic"', "line 9: images.interpolation is 'bicubic', but"),
        ('resize = 8\ninterpolation = "x"', "line 9: images.interpolation is 'x': expected bilin"),
        ('names = "none.txt"', "line 8: images.names is 'none.txt': none.txt does not exist"),
        ("crop = 400", "line 8: images.crop is 400, but the image set/bright/1.jpg is 20x16"),
        ("limit = 4", "line 7: the image dark/0.jpg is 20x15, but bright/1.jpg is 20x16"),
        ('resize = 8\ncrop = 8\nnames = "study.toml"', "line 3: images.names has 'ccc"),
    ],
)
def test_mistakes_in_a_study(place: Place, images: str, told: str) -> None:
    study = place.study(images)
    if "study.toml" in images:
        Path("long.txt").write_text("a\nb\n" + "c" * 201)
        study = place.study(images.replace("study.toml", "long.txt"))
    place.refused(place.run("run", str(study), "--out", "out"), told)


def test_more_classes_than_names_in_a_study(place: Place) -> None:
    Path("names.txt").write_text("bright\ndark\ngrey\n")
    study = place.study(f'{SIZES}\nnames = "names.txt"')
    answer = place.run("run", str(study), "--out", "out")
    place.refused(answer, "images.names has 3 names, but", "has 2 classes")
