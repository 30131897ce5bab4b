"""`tollbox paper`: every experiment has its files, runs, goes on after a kill, and is drawn."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fake_packages as fake
import pytest
import torch
from PIL import Image
from torch import nn

import tollbox as tb
from tollbox.cli.app import main
from tollbox.paper import experiments, outputs
from tollbox.paper.experiments import EXPERIMENTS, Scale, study_at
from tollbox.paper.outputs import is_own
from tollbox.studies.store.store import Store

ROOT = Path(__file__).parents[2]
VANILLA = ["surfree", "hsja", "geoda", "cgba"]
BOTH = [f"a-{name}" for name in VANILLA]
ROWS = [
    "surfree",
    "a-surfree",
    *(row.format(name) for name in VANILLA[1:] for row in ("{}", "{}+as", "{}+agrest", "a-{}")),
]
COMPARISONS = {
    "table-1": ROWS,
    "vit-b-32": ROWS,
    "vit-b-16": ROWS,
    "tradeoff": [*VANILLA, "stealthy-hsja", "stealthy-geoda", *BOTH],
    "stealthy": [*BOTH, "stealthy-hsja"],
    "clip": [*BOTH, "stealthy-hsja"],
}
"""The experiments that compare attacks, each with those of the paper."""
Run = Callable[..., tuple[int, str, str]]


class Killed(BaseException):
    """Stands for kill -9."""


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: Any) -> Run:
    """A command in a folder of its own: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def command(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            main(["paper", *arguments])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return int(end.value.code or 0), out, err

    return command


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The small studies with two images, few attacks and little to spend. (An asymmetric search at
    c* = 1000 asks up to 3300 queries, 900 on average: one of them, at least, is to end.)"""
    folder = tmp_path / "files"
    for file in (ROOT / "studies" / "paper").rglob("*.toml"):
        text = re.sub(r"^limit = .*$", "limit = 2", file.read_text(), flags=re.M)
        text = re.sub(
            r"^budget = (\d+)", lambda m: f"budget = {max(110, int(m[1]) // 12)}", text, flags=re.M
        )
        text = re.sub(
            r"^max_queries = (\d+)",
            lambda m: f"max_queries = {min(4000, int(m[1]))}",
            text,
            flags=re.M,
        )
        head, *attacks = text.split("[[attacks]]")
        kept = attacks if len(attacks) < 7 else attacks[::-3][::-1]  # the last one, too
        copy = folder / file.relative_to(ROOT / "studies" / "paper")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text("[[attacks]]".join([head, *kept]))
    monkeypatch.setattr(experiments, "STUDIES", folder)
    return folder


# -- the register ---------------------------------------------------------------------------------


def test_every_file_is_an_experiment_and_every_experiment_has_its_files() -> None:
    for folder in (ROOT / "studies" / "paper", ROOT / "studies" / "paper" / "small"):
        assert {file.stem for file in folder.glob("*.toml")} == set(EXPERIMENTS)
    assert (ROOT / "src" / "tollbox" / "paper" / "studies").resolve() == ROOT / "studies" / "paper"


@pytest.mark.parametrize("scale", Scale)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_files_at_both_scales(name: str, scale: Scale) -> None:
    study = study_at(name, scale, files=scale is Scale.SMALL)
    assert study.name == name
    assert study.images.limit is not None
    assert study.charge_clean is False
    sources = {model.source.partition(":")[0] for model in study.models}
    if scale is Scale.SMALL:
        assert sources == {"tollbox.models.stand_ins"}
        assert study.images.function == "tollbox.models.stand_ins:images"
        assert all("(for " in model.name for model in study.models)  # a stand-in says so
        assert study.device == "cpu"
    else:
        assert sources <= {"torchvision", "timm", "clip"}
        assert study.images.labels is not None
        assert study.images.limit in (20, 100, 500)
        assert study.images.correct_only
    marks = EXPERIMENTS[name].marks.get(scale)
    if marks is not None:
        assert set(marks) == {tariff.name for tariff in study.tariffs}
        assert all(max(marks[tariff.name]) == tariff.limits.budget for tariff in study.tariffs)


def test_the_scales_have_the_same_attacks() -> None:
    for name in COMPARISONS:
        paper, small = (study_at(name, scale, files=False) for scale in Scale)
        assert [a.preset for a in paper.attacks] == [a.preset for a in small.attacks]
        assert len(paper.models) == len(small.models)
        assert len(paper.tariffs) == len(small.tariffs)


@pytest.mark.parametrize("scale", Scale)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_comparison_has_the_attacks_of_the_paper_and_ours_after_them(
    name: str, scale: Scale
) -> None:
    """Elsewhere there is nothing of ours: what is shown there is not which attack is best."""
    attacks = study_at(name, scale, files=False).attacks
    ours = [spec for spec in attacks if is_own(spec)]
    if name in COMPARISONS:
        assert [spec.preset for spec in attacks] == [*COMPARISONS[name], "frugal"]
        assert ours == [attacks[-1]]
        assert not attacks[-1].overrides
    else:
        assert ours == []


@pytest.mark.parametrize("name", ["tradeoff", "stealthy", "clip"])
def test_stealthy_hsja_searches_in_one_stage_at_the_paper_s_scale(name: str) -> None:
    """One flagged answer a search, as its authors count; at the small scale it has no time for
    that."""
    for scale, stages in ((Scale.PAPER, 1), (Scale.SMALL, 2)):
        listed = study_at(name, scale, files=False).attacks
        [attack] = [spec.attack for spec in listed if spec.preset == "stealthy-hsja"]
        assert (attack.search.stages, attack.estimate.search.stages) == (stages, stages)


def test_the_tradeoff_plans_for_an_infinite_price_at_the_scale_of_the_paper() -> None:
    """Section 4: attacks plan with 10^5, and flagged queries are what counts."""
    [tariff] = study_at("tradeoff", Scale.PAPER, files=False).tariffs
    assert tariff.prices == tb.Prices.flagged_only()
    assert tariff.prices.ratio == 1e5
    assert tariff.limits == tb.Limits(2000, 3_000_000)
    [small] = study_at("tradeoff", Scale.SMALL, files=False).tariffs
    assert small.prices.ratio == 10


def test_images_of_a_user_are_written_into_the_study(tmp_path: Path) -> None:
    (tmp_path / 'a "b"').mkdir()
    (tmp_path / "c.csv").write_text("")
    study = study_at("table-1", Scale.PAPER, tmp_path / 'a "b"', tmp_path / "c.csv", 7)
    assert (study.images.path, study.images.labels) == (tmp_path / 'a "b"', tmp_path / "c.csv")
    assert study.images.limit == 7
    assert study.images.resizing == tb.data.Resizing(None, 224)
    (tmp_path / "set.npz").write_text("")
    study = study_at("table-1", Scale.PAPER, tmp_path / "set.npz")
    assert (study.images.labels, study.images.limit) == (None, 500)
    assert study.images.resizing is None  # arrays are taken as they are


def test_the_wheel_has_the_files(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(ROOT / "src", source / "src", symlinks=True)
    shutil.copytree(ROOT / "studies", source / "studies")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    options = ["--no-deps", "--no-build-isolation", "--no-index", "-q", "-w", str(tmp_path)]
    made = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *options, str(source)], capture_output=True
    )
    assert made.returncode == 0, made.stderr.decode()
    [wheel] = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for name in EXPERIMENTS:
        assert f"tollbox/paper/studies/{name}.toml" in names
        assert f"tollbox/paper/studies/small/{name}.toml" in names
    assert "tollbox/models/tiny_vit_7.safetensors" in names


# -- the command ----------------------------------------------------------------------------------


def test_the_listing(run: Run) -> None:
    code, out, err = run()
    assert (code, err) == (0, "")
    for name, each in EXPERIMENTS.items():
        assert f"{name}: {each.place}, " in out
    assert out.count("\n  paper: ") == out.count("\n  small: ") == len(EXPERIMENTS)
    assert out.count("no study") == len(EXPERIMENTS) - len(EXPERIMENTS)
    assert "ResNet-50, ViT-B/32; 500 images, 60,000 cells, at most 6.38 billion queries" in out
    assert "needs transformers and timm" in out
    assert "needs torchvision" in out
    assert "nan" not in out.replace("finance", "")


MISTAKES: list[tuple[list[str], list[str]]] = [
    (["tabel-1", "--out", "o"], ["unknown experiment 'tabel-1'", "did you mean 'table-1'"]),
    (["table-1", "--scale", "tiny", "--out", "o"], ["unknown scale 'tiny'", "paper, small"]),
    (["table-1", "--reading", "x", "--out", "o"], ["unknown reading 'x'"]),
    (["table-1", "--scale", "small"], ["--out is not given"]),
    (["table-1", "--out", "o"], ["--images is not given", "classify 500", "--scale small"]),
    (["all", "--out", "o"], ["--images is not given"]),
    (["table-1", "--out", "o", "--images", "x"], ["--images x does not exist", "ImageNet"]),
    (["table-1", "--out", "o", "--images", "."], ["is a folder, and --labels is not given"]),
    (["table-1", "--out", "o", "--labels", "l.csv"], ["--labels is given without --images"]),
    (["clip", "--scale", "small", "--out", "o", "--images", "."], ["the images are built in"]),
    (["clip", "--scale", "small", "--out", "o", "--limit", "0"], ["--limit is 0"]),
    (["clip", "--scale", "small", "--out", "n" * 300], ["nnn cannot be read: File name too long"]),
    (["clip", "--scale", "small", "--out", "full"], ["--out full is not empty (it has a.txt)"]),
]


@pytest.mark.parametrize(("arguments", "says"), MISTAKES)
def test_mistakes(run: Run, tmp_path: Path, arguments: list[str], says: list[str]) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a.txt").write_text("")
    code, _, err = run(*arguments)
    assert code == 2, err
    assert err.count("\n") == 1
    for words in says:
        assert words in err
    assert not (tmp_path / "o").exists()


def test_a_package_that_is_missing(run: Run, tmp_path: Path, monkeypatch: Any) -> None:
    import numpy as np

    pixels = np.zeros((1, 3, 8, 9), np.uint8)
    np.savez(tmp_path / "set.npz", images=pixels, labels=[0])
    monkeypatch.setitem(sys.modules, "torchvision", None)
    code, _, err = run("table-1", "--out", "o", "--images", "set.npz")
    assert code == 2
    assert err.count("\n") == 1
    assert "studies/paper/table-1.toml, line " in err
    assert ": the model 'ResNet-50': torchvision" in err
    assert "pip install 'tollbox[torchvision]'" in err
    assert not (tmp_path / "o").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("tiny")
def test_the_papers_scale_with_images_of_a_user(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(0)
    network = nn.Sequential(nn.AdaptiveAvgPool2d(8), nn.Flatten(), nn.Linear(192, 1000))
    network.requires_grad_(False)[2].weight.copy_(torch.randn(1000, 192, generator=generator))
    for module in fake.torchvision(lambda name, weights: network).items():
        monkeypatch.setitem(sys.modules, *module)
    resnet50 = tb.models.load("torchvision:resnet50.IMAGENET1K_V1")
    (tmp_path / "images").mkdir()
    lines = ["file,label"]
    for number in range(3):
        pixels = torch.randint(0, 256, (8, 8, 3), generator=generator, dtype=torch.uint8)
        pixels = pixels.repeat_interleave(28, 0).repeat_interleave(28, 1)
        Image.fromarray(pixels.numpy()).save(tmp_path / "images" / f"{number}.png")
        image = pixels.permute(2, 0, 1)[None].float() / 255
        lines.append(f"{number}.png,{int(resnet50(image))}")
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    given = ["--images", "images", "--labels", "labels.csv"]
    code, _, err = run("search-cost", *given, "--out", "o")
    assert code == 0, err
    with tb.studies.StudyResults("o") as found:
        assert (len(found.images), found.record.scale) == (2, "paper")
        assert found.study.images.path == tmp_path / "images"
    (tmp_path / "o" / "search-cost.svg").unlink()
    code, _, err = run("search-cost", "--out", "o")  # it knows its images
    assert (code, err) == (0, "")
    assert (tmp_path / "o" / "search-cost.svg").is_file()


@pytest.mark.slow
@pytest.mark.usefixtures("tiny")
def test_all_small_experiments_run_and_are_drawn(run: Run, tmp_path: Path) -> None:
    code, out, err = run("all", "--scale", "small", "--out", "o")
    assert code == 0, err
    for name, each in EXPERIMENTS.items():
        made = {file.name for file in (tmp_path / "o" / name).iterdir()}
        assert outputs.names_of(each) <= made
        assert f"{each.place} is in o/{name}: " in out
        assert "shard-0.sqlite" in made
    text = (tmp_path / "o" / "vit-b-32" / "vit-b-32.md").read_text()
    assert text.startswith("Table 2: median ℓ2 distance. vit 7x7 (for ViT-B/32); 2 images.")
    assert "(the paper's rule)" in text
    assert text.count("| attack | method |") == 4
    assert "Frugal is tollbox's own, not in the paper. Bold marks the smallest median of" in text
    assert text.count("\n| Frugal | built-in, not in the paper | ") == 4
    tex = (tmp_path / "o" / "vit-b-32" / "vit-b-32.tex").read_text()
    assert r"\multicolumn{5}{c}{$c^\star=2$} & " in tex
    row = r"\midrule" + "\n" + r"\multirow{1}{*}{Frugal} & built-in, not in the paper & "
    assert row in tex
    remarks, _, tabular = tex.partition(r"\begin{tabular}")
    assert "Bold marks the smallest median of the paper's rows" in remarks.replace("\n% ", " ")
    assert all(line.startswith("% ") for line in remarks.splitlines())
    assert "%" not in tabular.replace(r"\%", "")
    assert r"\multicolumn{6}{c}{$c^\star=100$} \\" in tex
    whole = run("table-1", "--scale", "small", "--out", "o/table-1", "--reading", "hard")
    assert whole[0] == 0
    assert "under a hard budget" in (tmp_path / "o" / "table-1" / "table-1.md").read_text()
    code, _, err = run("clip", "--scale", "small", "--out", "o/table-1")
    assert code == 2
    assert "has table-1 at the scale small: expected a free folder, or one with clip" in err
    code, _, err = run("clip", "--scale", "small", "--out", "o/clip", "--limit", "1")
    assert code == 2
    assert "has clip with other images" in err


@pytest.mark.slow
@pytest.mark.usefixtures("tiny")
def test_killed_it_goes_on(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["clip", "--scale", "small", "--limit", "1", "--out"]
    code, _, err = run(*command, "whole")
    assert code == 0, err
    original, calls = Store.record, itertools.count(1)

    def record(store: Store, answers: Any) -> None:
        original(store, answers)
        if next(calls) == 5:
            raise Killed

    monkeypatch.setattr(Store, "record", record)
    with pytest.raises(Killed):
        main(["paper", *command, "cut"])
    monkeypatch.setattr(Store, "record", original)
    assert not (tmp_path / "cut" / "clip.svg").exists()
    code, _, err = run("clip", "--scale", "small", "--out", "cut", "--time-limit", "0.0001s")
    assert code == 3
    assert "clip is drawn once all its cells are finished: run the same command again" in err
    code, _, err = run("clip", "--scale", "small", "--out", "cut")
    assert code == 0, err
    with tb.studies.StudyResults("whole") as whole, tb.studies.StudyResults("cut") as cut:
        assert list(whole.rows()) == list(cut.rows())
        assert cut.record.made_by == "paper"
        assert whole.study.images.limit == 1
    assert (tmp_path / "cut" / "clip.svg").read_bytes() == (
        tmp_path / "whole" / "clip.svg"
    ).read_bytes()
    with pytest.raises(SystemExit) as end:
        main(["report", "cut"])
    assert not end.value.code
    page = (tmp_path / "cut" / "report.html").read_text()
    assert "tollbox paper clip --scale small --out cut" in page


@pytest.mark.slow
def test_one_that_cannot_be_run_does_not_end_all(
    run: Run, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tiny / "small" / "clip.toml"
    file.write_text(file.read_text().replace("stand_ins:zero_shot", "stand_ins:one_shot"))
    kept = {name: EXPERIMENTS[name] for name in ("clip", "stealthy")}
    monkeypatch.setattr("tollbox.cli.paper.EXPERIMENTS", kept)
    code, _, err = run("all", "--scale", "small", "--out", "o", "--limit", "1")
    assert code == 1
    assert "has no attribute 'one_shot'" in err
    assert "1 of 2 experiments have no result: clip." in err
    assert (tmp_path / "o" / "stealthy" / "stealthy.png").is_file()
    assert not (tmp_path / "o" / "clip").exists()


# -- the gallery ----------------------------------------------------------------------------------


def test_the_gallery_shows_every_experiment() -> None:
    folder = ROOT / "docs" / "gallery"
    wanted = {"README.md", "demo.png"}  # which the README shows
    wanted |= {f"audit-{name}.html" for name in ("resnet20", "robust", "embedded")}
    for name, each in EXPERIMENTS.items():
        wanted |= {f"{name}.md"} if each.table else {f"{name}.png", f"{name}.svg"}
    for name in ("concept-picture", "search-picture", "estimates-picture"):  # docs/figures
        wanted |= {f"{name}.png", f"{name}.svg"}
    assert {file.name for file in folder.iterdir()} == wanted
    assert sum(file.stat().st_size for file in folder.iterdir()) < 7 << 20
    text = (folder / "README.md").read_text()
    for name, each in EXPERIMENTS.items():
        assert f"## {each.place}: `{name}`" in text
        assert (f"]({name}.md)" if each.table else f"]({name}.png)") in text
    for name in COMPARISONS:
        shown = folder / (f"{name}.md" if EXPERIMENTS[name].table else f"{name}.svg")
        assert ", not in the paper" in shown.read_text()
        section = text.partition(f": `{name}`")[2].partition("\n## ")[0]
        assert "frugal" in section, f"{name}: nothing is said of our own attack"
    for link in re.findall(r"\]\(([^)\s#]+)\)", text):
        assert (folder / link).exists(), link


def test_the_gallerys_tables_have_equal_decimals_down_each_column() -> None:
    for name in (name for name, each in EXPERIMENTS.items() if each.table):
        text = (ROOT / "docs" / "gallery" / f"{name}.md").read_text()
        for table in text.split("| attack | method |")[1:]:
            rows = [line.split("|")[3:-1] for line in table.splitlines()[2:] if line[:1] == "|"]
            for column in zip(*rows, strict=True):
                numbers = re.findall(r"\d+\.?(\d*)(?=[,\]* ])", " ".join(column))
                assert len({len(decimals) for decimals in numbers}) <= 1, (name, column)
