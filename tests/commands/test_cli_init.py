"""`tollbox init`: a study file that `tollbox run` takes as it is, and that says what it means."""

import os
import re
import sys
import tomllib
from pathlib import Path

import fake_packages as fake
import numpy as np
import pytest
import torch
from PIL import Image
from test_cli import typed as typed_plainly
from torch import nn

from tollbox import Study
from tollbox.cli.init import _model_from
from tollbox.errors import InputError
from tollbox.models.registry import located
from tollbox.studies import schema, template
from tollbox.studies.template import MARK, Template

CLASSES = ("ant", "bee", "cat")
TRUST = "--trust-model"


def typed(capsys: pytest.CaptureFixture[str], *tokens: str) -> tuple[int, str, str]:
    needed = (tokens[0] == "run" or "--model" in tokens) and TRUST not in tokens
    return typed_plainly(capsys, *tokens, *([TRUST] if needed else []))


class Net(nn.Module):
    """Three classes, by which channel is the brightest."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.mean((2, 3))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A network and two pictures of each of three classes; one stands beside them."""
    monkeypatch.chdir(tmp_path)
    batch = {0: torch.export.Dim("n")}
    exported = torch.export.export(Net(), (torch.rand(2, 3, 6, 8),), dynamic_shapes=(batch,))
    torch.export.save(exported, tmp_path / "net.pt2")
    draw = np.random.default_rng(0)
    for label, name in enumerate(CLASSES):
        for number in range(2):
            pixels = draw.integers(0, 100, (6, 8, 3), np.uint8)
            pixels[..., label] += 100
            save(tmp_path / "pictures" / name / f"{number}.png", pixels)
    return tmp_path


def save(file: Path, pixels: np.ndarray) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(file)


GIVEN = ("--model", "net.pt2", "--images", "pictures")


@pytest.mark.parametrize("command", ["init", "attack", "audit"])
def test_a_program_needs_trust(
    capsys: pytest.CaptureFixture[str], here: Path, command: str
) -> None:
    before = sorted(here.rglob("*"))
    more = {"init": [], "attack": ["--out", "out", "--budget", "9"], "audit": ["--out", "out"]}
    code, _, err = typed_plainly(capsys, command, *GIVEN, *more[command])
    assert (code, err.count("\n")) == (2, 1)
    assert "net.pt2 is an exported program, which can run code" in err
    assert "--trust-model" in err
    assert sorted(here.rglob("*")) == before


def test_the_file_is_a_study_at_once(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    code, out, err = typed(capsys, "init", *GIVEN)
    assert (code, err) == (0, "")
    found = (
        "6 images, 8 x 6 pixels of 3 channels, in 3 classes, which are its folders: 2 of ant, 2 "
        "of bee, 2 of cat."
    )
    judged = "net has 3 classes; of the first 6 images it classifies 6 correctly."
    dry = f"tollbox run study.toml --dry-run {TRUST}"
    real = f"tollbox run study.toml --out results {TRUST}"
    assert out == f"study.toml is written. {found} {judged} Next:\n  {dry}\n  {real}\n"
    text = (here / "study.toml").read_text()
    assert text.startswith(MARK)
    assert max(map(len, text.splitlines())) <= 100
    assert text.isascii()
    assert found in text.replace("\n# ", " ")
    assert judged in text
    assert {*tomllib.loads(text)} == {"prices", "budget", "images", "models", "attacks"}
    assert tomllib.loads(text)["images"] == {"path": "pictures"}
    assert tomllib.loads(text)["models"] == [{"source": "net.pt2"}]
    code, out, err = typed(capsys, *dry.split()[1:])
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == f"Run it with `{real}`."
    [digest] = re.findall(r"digest ([0-9a-f]{32})", out)
    assert f'# digest = "{digest}"' in text
    (here / "study.toml").write_text(text.replace("budget = 5000", "budget = 150"))
    code, out, _ = typed(capsys, *real.split()[1:])
    assert code == 0
    assert out.splitlines()[-1] == "Make a page of the results with `tollbox report results`."
    assert typed(capsys, "init", *GIVEN, "--out", "b.toml")[1].endswith(
        f"--out results-2 {TRUST}\n"
    )


def test_every_key_is_there_and_as_it_says(here: Path) -> None:
    text = Template("study.toml", images={"path": Path("pictures")}).text
    inside = (
        'preset = "a-cgba"',
        "estimate.delta",
        'source = "hf:',
    )  # commented tables
    names = re.findall(r"^(?:# )?([a-z_0-9]+) = ", text, re.MULTILINE)
    tables = [schema.StudyTable, *schema.TABLES.values(), schema.ModelTable]
    assert set(names) == {key.name for table in tables for key in schema.keys(table)} | {"preset"}
    everything = text.replace("# [goal]", "[goal]")
    assert Study.from_text(text, here, "study.toml", files=False)
    alone = {"norm", "interpolation"}  # need an attack made for it, or resize
    commented = re.findall(r"^# ([a-z_0-9.]+ = .*)$", text, re.MULTILINE)
    assert len(commented) > 30
    of_detector = re.findall(r"^# (\w+ = .+)$", text.partition("# [detector]\n")[2], re.MULTILINE)
    assert len(of_detector) == len(schema.keys(schema.DetectorTable))
    for line in commented:
        name = line.split(" = ")[0]
        chosen = everything.replace(f"# {line}", line, 1)
        if name in ("target", "start"):  # both or neither
            chosen = re.sub("^# (target|start) =", r"\1 =", everything, flags=re.MULTILINE)
        if line in of_detector:
            chosen = everything.replace("# [detector]", f"[detector]\n{of_detector[0]}")
            if line != of_detector[0]:
                chosen = chosen.replace(f"# {line}", line)
        if name in alone:
            with pytest.raises(InputError, match=name):
                Study.from_text(chosen, here, "study.toml", files=False)
        elif not line.startswith(inside):
            Study.from_text(chosen, here, "study.toml", files=False)


def test_tables_that_are_commented_out_can_be_used(here: Path) -> None:
    text = Template("study.toml").text
    lines, waking = [], False
    for line in text.splitlines():
        waking = line.startswith("# [[") or (waking and bool(line))
        lines.append(line.removeprefix("# ") if waking else line)
    found = Study.from_text("\n".join(lines), here, "study.toml", files=False)
    assert [model.name for model in found.models] == ["model", "resnet-50"]
    assert [each.name for each in found.attacks] == [*template.ATTACKS, "a-hsja, wide"]


def test_the_template(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    code, out, err = typed(capsys, "init", "--out", "mine.toml")
    assert (code, err) == (0, "")
    assert "mine.toml is a template: fill in" in out
    assert out.endswith(
        "  tollbox run mine.toml --dry-run\n  tollbox run mine.toml --out results\n"
    )
    code, out, err = typed(capsys, "run", "mine.toml", "--dry-run")
    assert (code, out) == (2, "")
    assert "images does not exist" in err
    text = (here / "mine.toml").read_text()
    filled = text.replace('path = "images"', 'path = "pictures"').replace("model.pt2", "net.pt2")
    (here / "mine.toml").write_text(filled)
    assert typed(capsys, "run", "mine.toml", "--dry-run")[0] == 0


def test_all_that_is_given_is_in_it(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    flat = here / "flat"
    for file in sorted((here / "pictures").rglob("*.png")):
        save(flat / f"{file.parent.name}{file.name}", np.asarray(Image.open(file)))
    rows = (f"{name}{number}.png,{k}" for k, name in enumerate(CLASSES) for number in range(2))
    (here / "labels.csv").write_text("file,label\n" + "\n".join(rows))
    (here / "classes.txt").write_text("\n".join(CLASSES))
    options = (
        *("--model", "net.pt2", "--images", "flat/", "--labels", "labels.csv", "--limit", "5"),
        *("--mean", ".1,.1,.1", "--std", "2", "--names", "classes.txt", "--resize", "12"),
        *("--crop", "6,8", "--interpolation", "bicubic", "--metered", "--out", "sub/a b.toml"),
    )
    (here / "sub").mkdir()
    code, out, err = typed(capsys, "init", *options)
    assert (code, err) == (0, "")
    assert "The first 5 of 6 images, 8 x 6 pixels" in out
    assert "in 3 classes: 2 of ant, 2 of bee, 1 of cat." in out
    assert "resized to 12 on the shorter side (bicubic) and cropped to 8x6" in out
    assert "correctly" not in out  # a metered model is not asked
    found = tomllib.loads((here / "sub" / "a b.toml").read_text())
    assert found["metered"] is True
    assert found["images"] == {
        "path": "../flat",
        "labels": "../labels.csv",
        "limit": 5,
        "resize": 12,
        "crop": [6, 8],
        "interpolation": "bicubic",
        "names": "../classes.txt",
    }
    assert found["models"] == [{"source": "../net.pt2", "mean": [0.1, 0.1, 0.1], "std": 2.0}]
    assert f"  tollbox run 'sub/a b.toml' --dry-run {TRUST}\n" in out
    assert typed(capsys, "run", "sub/a b.toml", "--dry-run")[0] == 0


def test_absolute_paths_and_links(
    capsys: pytest.CaptureFixture[str], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = here / "elsewhere" / "deep"
    elsewhere.mkdir(parents=True)
    (here / "link").symlink_to(elsewhere)
    (here / "data").symlink_to("pictures")
    given = ("--model", f"{here}/net.pt2", "--images", "data")
    for out, source, path in (
        ("study.toml", "net.pt2", "data"),
        ("link/study.toml", f"{here}/net.pt2", "../../data"),
    ):
        assert typed(capsys, "init", *given, "--out", out)[0] == 0
        found = tomllib.loads(Path(out).read_text())
        assert (found["models"][0]["source"], found["images"]["path"]) == (source, path)
        assert typed(capsys, "run", out, "--dry-run")[0] == 0


def test_functions_are_from_the_folder_of_the_file(
    capsys: pytest.CaptureFixture[str], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (here / "sub").mkdir()
    (here / "sub" / "init_functions.py").write_text(
        "import torch\n"
        "def net(images): return images.mean((1, 2, 3)).gt(0.5).long()\n"
        "def data(): return torch.full((3, 1, 4, 4), 0.4), torch.zeros(3, dtype=int)\n"
    )
    given = ("--model", "init_functions:net", "--images", "init_functions:data")
    code, out, err = typed(capsys, "init", *given, "--out", "sub/study.toml")
    assert (code, err) == (0, "")
    assert "3 images, 4 x 4 pixels of 1 channel, in 1 class: 3 of class 0." in out
    assert "net gives labels; of the first 3 images it classifies 3 correctly." in out
    found = tomllib.loads(Path("sub/study.toml").read_text())
    assert found["models"][0]["source"] == given[1]
    assert found["images"]["path"] == given[3]
    assert typed(capsys, "run", "sub/study.toml", "--dry-run")[0] == 0


def test_many_images(
    capsys: pytest.CaptureFixture[str], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tollbox.cli.init.MOST_IMAGES", 4)
    code, out, _ = typed(capsys, "init", *GIVEN)
    assert code == 0
    assert "The first 4 of 6 images" in out
    assert "2 of ant, 1 of bee, 1 of cat" in out
    found = Study.from_toml("study.toml")
    assert found.images.limit == 4
    out = typed(capsys, "run", "study.toml", "--dry-run")[1]
    [digest] = re.findall(r"digest ([0-9a-f]{32})", out)
    assert f'# digest = "{digest}"' in (here / "study.toml").read_text()


def test_what_the_model_itself_says(
    capsys: pytest.CaptureFixture[str], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, module in fake.torchvision(lambda *_, **__: fake.Mean()).items():
        monkeypatch.setitem(sys.modules, name, module)
    for number, name in enumerate(CLASSES):
        (here / "pictures" / name).rename(here / "pictures" / f"class {number}")
    given = ("--model", "torchvision:resnet50", "--images", "pictures")
    code, out, err = typed(capsys, "init", *given)
    assert (code, err) == (0, "")
    assert "resized to 9 on the shorter side (bilinear) and cropped to 8x8, as the model's" in out
    assert "resnet50 has 1000 classes, with a mean (0.485, 0.456, 0.406) and std of its own" in out
    found = tomllib.loads(Path("study.toml").read_text())
    assert found["models"] == [{"source": "torchvision:resnet50"}]
    assert found["images"] == {"path": "pictures"}
    assert typed(capsys, "run", "study.toml", "--dry-run")[0] == 0


def test_a_model_that_gets_nothing_right(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    (here / "pictures" / "ant").rename(here / "pictures" / "dog")  # the last class now
    out = typed(capsys, "init", *GIVEN)[1]
    assert "of the first 6 images it classifies 0 correctly. Nothing can be measured" in out


def test_odd_names(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    (here / "pictures" / "ant").rename(here / "pictures" / 'a\nx = 1 "q" \x07')
    (here / "pictures").rename(here / 'pic "tures" # x')
    code, _, err = typed(capsys, "init", "--model", "net.pt2", "--images", 'pic "tures" # x')
    assert (code, err) == (0, "")
    assert Study.from_toml("study.toml").images.path == Path('pic "tures" # x')
    (here / "net.pt2").rename(here / "a\nnet.pt2")
    given = ("--model", "a\nnet.pt2", "--images", 'pic "tures" # x', "--out", "b.toml")
    code, out, err = typed(capsys, "init", *given)
    assert (code, out) == (2, "")
    assert "control characters" in err
    assert not Path("b.toml").exists()


@pytest.mark.parametrize(
    ("tokens", "told"),
    [
        (["--model", "net.pt2"], "--images is not given, and --model is: expected both"),
        (["--labels", "labels.csv"], "--images is not given, and --labels is"),
        (["--metered"], "is not given, and --metered is"),
        (["--model", "no.pt2", "--images", "pictures"], "--model no.pt2 does not exist"),
        (["--model", "net.pt2", "--images", "no"], "--images no does not exist"),
        ([*GIVEN, "--mean", "1,2"], "--mean has 2 numbers"),
        ([*GIVEN, "--limit", "0"], "--limit is 0"),
        ([*GIVEN, "--interpolation", "bicubic"], "--interpolation is 'bicubic', but --resize"),
        ([*GIVEN, "--labels", "no.csv"], "no.csv"),
        ([*GIVEN, "--out", "no/study.toml"], "there is no folder no; make it first"),
        ([*GIVEN, "--out", "pictures"], "--out pictures is a folder"),
        ([*GIVEN, "--imags", "x"], "--imags"),
        ([*GIVEN, "--names", "net.pt2"], "net.pt2"),
    ],
)
def test_mistakes_write_nothing(
    capsys: pytest.CaptureFixture[str], here: Path, tokens: list[str], told: str
) -> None:
    before = sorted(here.rglob("*"))
    code, out, err = typed(capsys, "init", *tokens)
    assert (code, out) == (2, "")
    assert told in err
    assert err.count("\n") == 1
    assert sorted(here.rglob("*")) == before


def test_no_file_is_overwritten(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    file = here / "study.toml"
    file.write_text("mine")
    for more in ([], ["--replace"]):
        code, out, err = typed(capsys, "init", *GIVEN, *more)
        assert (code, out) == (2, "")
        assert "study.toml already exists" in err
        assert file.read_text() == "mine"
    file.unlink()
    file.symlink_to("nowhere")
    assert typed(capsys, "init", *GIVEN)[0] == 2
    assert file.is_symlink()
    file.unlink()
    assert typed(capsys, "init")[0] == 0
    assert typed(capsys, "init", *GIVEN)[0] == 2
    assert 'path = "images"' in file.read_text()
    assert typed(capsys, "init", *GIVEN, "--replace")[0] == 0
    assert 'path = "pictures"' in file.read_text()
    assert typed(capsys, "init", "--model", "no", "--images", "pictures", "--replace")[0] == 2
    assert 'path = "pictures"' in file.read_text()


@pytest.mark.parametrize(
    ("source", "written"),
    [
        ("net.pt2", "../net.pt2"),
        ("onnx:net.onnx", "onnx:../net.onnx"),
        ("onnx:/models/net.onnx", "onnx:/models/net.onnx"),
        ("hf:pictures/", "hf:../pictures"),  # a folder that is there
        ("hf:microsoft/resnet-50", "hf:microsoft/resnet-50"),
        ("my_models:net", "my_models:net"),
    ],
)
def test_sources_from_another_folder(here: Path, source: str, written: str) -> None:
    (here / "sub").mkdir()
    assert _model_from(Path("sub"), source) == written
    resolved = located(written, Path("sub")) if ":" in written else f"sub/{written}"
    word, _, name = source.rpartition(":")
    there = resolved.removeprefix(f"{word}:")
    assert os.path.normpath(there) == os.path.normpath(name)
