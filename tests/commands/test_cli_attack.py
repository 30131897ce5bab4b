"""`tollbox attack` as a user types it: files that agree with each other, mistakes, Ctrl-C."""

import csv
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from tollbox import Goal, Prices, preset, run
from tollbox.cli.app import main
from tollbox.core.noise import content_hash
from tollbox.models.loading import load_model
from tollbox.studies import StudyResults

TOLLBOX = (sys.executable, "-c", "from tollbox.cli import main; main()")
LABELS = [0, 1, 0, 1, 0]


def pixels() -> np.ndarray:
    """Five images (n, h, w, c): dark ones are class 0, bright ones class 1, the last is a lie."""
    noise = np.random.default_rng(0).integers(0, 40, (5, 6, 7, 3))
    return (noise + np.array([102, 113, 103, 112, 130])[:, None, None, None]).astype(np.uint8)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A brightness classifier, exported for any batch and for a batch of four."""
    folder = tmp_path_factory.mktemp("models")
    net = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
    with torch.no_grad():
        net[2].weight.copy_(torch.tensor([[-1.0] * 3, [1.0] * 3]))
        net[2].bias.copy_(torch.tensor([1.5, -1.5]))
    files = folder / "any.pt2", folder / "four.pt2"
    shapes = ({0: torch.export.Dim("n", min=1, max=4096)},)
    example = (torch.rand(4, 3, 6, 7),)
    torch.export.save(torch.export.export(net, example, dynamic_shapes=shapes), files[0])
    torch.export.save(torch.export.export(net, example), files[1])
    return files


@dataclass(frozen=True)
class Case:
    """A working command in a folder of its own; tests change it."""

    folder: Path
    options: dict[str, str]
    capture: pytest.CaptureFixture[str]

    def given(self, **options: str | None) -> list[str]:
        both = {**self.options, **{k.replace("_", "-"): v for k, v in options.items()}}
        pairs = [(f"--{name}", value) for name, value in both.items() if value is not None]
        return ["attack", "--trust-model", *(token for pair in pairs for token in pair)]

    def run(self, **options: str | None) -> tuple[int, str, str]:
        """Exit code, stdout, stderr."""
        with pytest.raises(SystemExit) as end:
            main(self.given(**options))
        out, err = self.capture.readouterr()
        return int(end.value.code or 0), out, err

    def refused(self, *told: str, **options: str | None) -> str:
        """The run is refused in one line that says all this, and nothing is written."""
        before = sorted(self.folder.rglob("*"))
        code, out, err = self.run(**options)
        assert (code, out) == (2, ""), err
        assert err.count("\n") == 1, err
        for words in told:
            assert words in err
        assert sorted(self.folder.rglob("*")) == before
        return err


@pytest.fixture
def case(
    tmp_path: Path,
    exported: tuple[Path, Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Case:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    np.savez("set.npz", images=pixels(), labels=np.array(LABELS))
    options = {
        "model": str(exported[0]),
        "images": "set.npz",
        "attack": "hsja",
        "price": "2",
        "budget": "150",
        "device": "cpu",
        "out": "out",
    }
    return Case(tmp_path, options, capsys)


def folder_of_images(case: Case) -> dict[str, str]:
    (case.folder / "pictures").mkdir()
    rows = ["file,label,note"]
    for index, (image, label) in enumerate(zip(pixels(), LABELS, strict=True)):
        Image.fromarray(image).save(case.folder / "pictures" / f"p{index}.png")
        rows.append(f"p{index}.png,{label},x")
    (case.folder / "labels.csv").write_text("\n".join(rows))
    return {"images": "pictures", "labels": "labels.csv"}


def arrays() -> dict[str, np.ndarray]:
    with np.load("out/adversarial.npz") as stored:
        return dict(stored)


def check_files(case: Case, prices: Prices) -> None:
    """The four kinds of files agree with each other, with the model and with the prices."""
    out = case.folder / "out"
    model = load_model(case.options["model"], torch.rand(3, 6, 7), trust=True)
    with open(out / "results.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    told = json.loads((out / "ledger.json").read_text())
    stored = arrays()
    sources = torch.from_numpy(pixels()).permute(0, 3, 1, 2).float() / 255
    assert [row["index"] for row in rows] == ["0", "1", "2", "3", "4"]
    assert [int(row["label"]) for row in rows] == LABELS
    assert [account["content"] for account in told["images"]] == [*map(content_hash, sources)]
    assert rows[4]["stop"] == "already_misclassified"
    marks = [row["already_misclassified"] for row in rows]
    assert marks == ["false", "false", "false", "false", "true"]
    assert float(rows[4]["distance"]) == 0
    assert stored["index"].tolist() == [0, 1, 2, 3]
    assert stored["labels"].tolist() == LABELS[:4]
    assert stored["images"].dtype == np.float32
    names = {"results.csv", "ledger.json", "adversarial.npz", "shard-0.sqlite", "shard-0.lock"}
    for place, index in enumerate(stored["index"].tolist()):
        row, point = rows[index], torch.from_numpy(stored["images"][place])
        assert int(model(point[None])[0]) != LABELS[index]
        apart = torch.linalg.vector_norm((point - sources[index]).double()).item()
        assert float(row["distance"]) == stored["distance"][place] == pytest.approx(apart, rel=1e-6)
        assert float(row["cost"]) == stored["cost"][place]
        picture = np.array(Image.open(out / row["png"]).convert("RGB"))
        eight = torch.from_numpy(picture).permute(2, 0, 1).float() / 255
        assert (eight - point).abs().max() <= 0.5 / 255 + 1e-6
        kept = bool(model(eight[None])[0] != LABELS[index])
        assert row["png_adversarial"] == str(kept).lower()
        assert row["png"] == f"{index:04d}-{'adversarial' if kept else 'lost'}.png"
        names.add(row["png"])
    assert {file.name for file in out.iterdir()} == names
    assert rows[4]["png"] == rows[4]["png_adversarial"] == ""
    for row, account in zip(rows, told["images"], strict=True):
        label = int(row["label"])
        counts = [(int(k), n) for tally in account["counts"].values() for k, n in tally.items()]
        assert account["queries"] == int(row["queries"]) == sum(n for _, n in counts)
        assert int(row["flagged"]) == sum(n for k, n in counts if k == label)
        assert int(row["other"]) == int(row["queries"]) - int(row["flagged"])
        cost = sum(n * prices.of(k, Goal.leave({label})) for k, n in counts)
        assert account["cost"] == float(row["cost"]) == cost == sum(account["by_phase"].values())
        assert cost <= 150


@pytest.mark.slow
def test_npz(case: Case) -> None:
    code, out, err = case.run()
    assert code == 0, err
    check_files(case, Prices(source=2))
    assert "misclassified anyway" in out
    assert "Saved in out" in out
    settings = json.loads((case.folder / "out" / "ledger.json").read_text())["settings"]
    wanted = {"source": 2.0, "other": 1.0, "classes": None, "escalation": None}
    assert settings["prices"] == wanted
    assert (settings["attack"], settings["budget"], settings["max_queries"]) == ("hsja", 150, None)
    assert settings["versions"]["torch"] == torch.__version__
    assert list(case.folder.glob(".*")) == []


def test_folder_and_fixed_batch(case: Case, exported: tuple[Path, Path]) -> None:
    (case.folder / "out").mkdir()
    code, _, err = case.run(**folder_of_images(case), model=str(exported[1]))
    assert code == 0, err
    check_files(case, Prices(source=2))
    with open("out/results.csv", newline="") as file:
        assert [row["name"] for row in csv.DictReader(file)] == [f"p{i}.png" for i in range(5)]
    case.refused(
        "--batch-size is 3", "takes only 4", out="other", model=str(exported[1]), batch_size="3"
    )


def test_names_and_reasons_in_the_table_are_no_formulas(case: Case) -> None:
    pictures = folder_of_images(case)
    (case.folder / "pictures" / "p0.png").rename(case.folder / "pictures" / "=p0.png")
    labels = case.folder / "labels.csv"
    labels.write_text(labels.read_text().replace("p0.png", "=p0.png"))
    assert case.run(**pictures)[0] == 0
    with open("out/results.csv", newline="") as file:
        names = {row["name"] for row in csv.DictReader(file)}
    assert names == {"'=p0.png", "p1.png", "p2.png", "p3.png", "p4.png"}


def test_results_are_those_of_the_library(case: Case) -> None:
    Path("prices.csv").write_text("class,price\n1,3\ndefault,2\n")
    code, _, err = case.run(
        price="prices.csv", limit="2", seed="5", mean="0.005,0.005,0.005", quantize="8"
    )
    assert code == 0, err
    images = torch.from_numpy(pixels()[:2]).permute(0, 3, 1, 2).float() / 255
    model = load_model(case.options["model"], images[0], mean=[0.005], quantize=8, trust=True)
    prices = Prices.per_class({1: 3.0}, 2.0)
    same = run(preset("hsja"), model, images, LABELS[:2], prices=prices, budget=150, seed=5)
    stored = arrays()
    assert np.isfinite(stored["distance"]).all()
    assert stored["distance"].tolist() == [r.distance for r in same]
    assert stored["cost"].tolist() == [r.ledger.cost for r in same]


def test_a_price_that_grows_is_that_of_the_library(case: Case) -> None:
    """An account is lost with every 20th flagged answer."""
    Path("prices.csv").write_text("flagged,price\n1,2\n20,60\n21,again\n")
    code, _, err = case.run(price="prices.csv", limit="2", budget="300")
    assert code == 0, err
    images = torch.from_numpy(pixels()[:2]).permute(0, 3, 1, 2).float() / 255
    model = load_model(case.options["model"], images[0], trust=True)
    prices = Prices.escalating({1: 2.0, 20: 60.0}, again=21)
    same = run(preset("hsja"), model, images, LABELS[:2], prices=prices, budget=300)
    stored = arrays()
    assert stored["cost"].tolist() == [r.ledger.cost for r in same]
    for result in same:
        rounds, rest = divmod(result.ledger.flagged, 20)
        assert result.ledger.cost == rounds * (19 * 2 + 60) + rest * 2 + result.ledger.other
        assert result.ledger.flagged > 20


NETWORK = """
import torch
from torch import nn

class Bright(nn.Module):
    def forward(self, images):
        assert images.dtype == torch.bfloat16
        level = images.float().mean((1, 2, 3))
        return torch.stack([0.5 - level, level - 0.5], 1)

net = Bright()
"""


def test_distances_in_linf_are_told_as_such(case: Case) -> None:
    code, out, err = case.run(attack="rays", norm="linf", price="1")
    assert code == 0, err
    assert "median linf (4 images)" in out
    assert "l2" not in out
    stored = arrays()
    apart = stored["images"] - pixels()[:4].transpose(0, 3, 1, 2).astype(np.float32) / 255
    found = np.abs(apart).reshape(4, -1).max(1)
    assert stored["distance"] == pytest.approx(found, rel=1e-6)
    assert stored["norm"].tolist() == ["linf"] * 4
    assert json.loads(Path("out/ledger.json").read_text())["settings"]["norm"] == "linf"
    with open("out/results.csv", newline="") as file:
        assert {row["norm"] for row in csv.DictReader(file)} == {"linf"}
    with pytest.raises(SystemExit):
        main(["status", "out"])
    said = case.capture.readouterr().out
    assert "median linf" in said
    assert "l2" not in said


def test_a_norm_that_the_attack_is_not_made_for_is_refused(case: Case) -> None:
    case.refused("--norm is linf, but HSJA as given supports l2: expected l2", norm="linf")
    case.refused("--norm is l2, but RayS as given supports linf", attack="rays")
    case.refused("--norm is 'l1': expected 'l2' or 'linf'", norm="l1")


def test_how_a_network_is_run(case: Case) -> None:
    Path("my_bright_network.py").write_text(NETWORK)
    sys.path.insert(0, str(case.folder))
    code, _, err = case.run(model="my_bright_network:net", dtype="bfloat16", limit="2")
    assert code == 0, err
    ledger = json.loads(Path("out/ledger.json").read_text())
    assert ledger["settings"]["running"] == {"dtype": "bfloat16", "channels_last": "false"}
    assert arrays()["images"].dtype == np.float32


FOUR = """
def labels(images):
    return (images.mean((1, 2, 3)) * 4).long().clamp(0, 3)
"""


@pytest.fixture
def four(case: Case) -> Case:
    """Three dark images, four classes of brightness, and a bright picture to begin from."""
    Path("my_four_classes.py").write_text(FOUR)
    sys.path.insert(0, str(case.folder))
    np.savez("set.npz", images=pixels()[[0, 2, 4]] - 90, labels=[0, 0, 0])
    Image.fromarray(np.full((6, 7, 3), 240, np.uint8)).save("bright.png")
    options = {"model": "my_four_classes:labels", "target": "3", "start": "bright.png"}
    return Case(case.folder, {**case.options, **options}, case.capture)


def test_target_and_start(four: Case) -> None:
    code, out, err = four.run(attack="a-hsja")
    assert code == 0, err
    assert "hsja, price 2, target 3" in " ".join(out.split())
    model = load_model("my_four_classes:labels", torch.rand(3, 6, 7))
    points = torch.from_numpy(arrays()["images"])
    assert model(points).tolist() == [3, 3, 3]
    with open("out/results.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    lost = 0
    for row in rows:
        assert (row["label"], row["target"]) == ("0", "3")
        picture = torch.from_numpy(np.array(Image.open(f"out/{row['png']}"))).permute(2, 0, 1) / 255
        still = model(picture[None]).tolist() == [3]
        lost += not still
        assert row["png_adversarial"] == str(still).lower()
        assert row["png"].endswith("-adversarial.png" if still else "-lost.png")
    assert f"no longer adversarial at 8 bits │ {lost} │" in " ".join(out.split())
    told = json.loads(Path("out/ledger.json").read_text())
    assert (told["settings"]["target"], told["settings"]["start"]) == (3, "bright.png")
    assert [account["target"] for account in told["images"]] == [3, 3, 3]
    starts = {account["start_content"] for account in told["images"]}
    assert starts == {content_hash(torch.full((3, 6, 7), 240.0) / 255)}
    assert all(account["by_phase"]["start"] == 1 for account in told["images"])


def test_a_point_that_rounding_takes_out_of_the_target_class_is_lost(four: Case) -> None:
    """Class 3 has no 8-bit images: rounded, a point is of class 1, which is not the label."""
    Path("my_picky_model.py").write_text(
        "def labels(images):\n"
        "    high = images.amax((1, 2, 3))\n"
        "    odd = ((images * 255).round() / 255 - images).abs().amax((1, 2, 3)) > 1e-4\n"
        "    return (high > 0.5).long() * (1 + 2 * odd.long())\n"
    )
    np.savez("start.npz", images=np.full((1, 3, 6, 7), 0.9001, np.float32), labels=[3])
    code, out, err = four.run(model="my_picky_model:labels", start="start.npz")
    assert code == 0, err
    with open("out/results.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["png_adversarial"] for row in rows} == {"false"}
    assert all(row["png"].endswith("-lost.png") for row in rows)
    assert "no longer adversarial at 8 bits │ 3 │" in " ".join(out.split())


def test_a_start_alone_and_one_for_each_image(four: Case) -> None:
    values = np.array([200, 220, 240], np.uint8)[:, None, None, None]
    np.savez("starts.npz", images=np.broadcast_to(values, (3, 6, 7, 3)), labels=[3, 3, 3])
    code, _, err = four.run(target=None, start="starts.npz")
    assert code == 0, err
    with open("out/results.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["target"] for row in rows] == ["", "", ""]
    told = json.loads(Path("out/ledger.json").read_text())
    expected = [content_hash(torch.full((3, 6, 7), float(v)) / 255) for v in values.flatten()]
    assert [account["start_content"] for account in told["images"]] == expected
    code, _, err = four.run(target=None, start="starts.npz", limit="2", out="two")
    assert code == 0, err
    Image.fromarray(np.full((6, 7), 240, np.uint8)).save("grey.png")
    code, _, err = four.run(start="grey.png", out="grey")
    assert code == 0, err


def test_a_start_of_another_class_is_told(four: Case) -> None:
    code, out, err = four.run(target="2")
    assert code == 0, err
    assert "3 images have no start: the model answers another class than 2 to it." in out
    Image.fromarray(np.zeros((6, 7, 3), np.uint8)).save("dark.png")
    code, out, err = four.run(target=None, start="dark.png", out="dark")
    assert code == 0, err
    assert "3 images have no start: the model answers the source class to it." in out


def test_targets_and_starts_that_are_wrong(four: Case) -> None:
    four.refused("--target is 3, but --start is not given: expected an image", start=None)
    four.refused("--target", "'cat': expected a whole number", target="cat")
    four.refused("--target is -1: expected a class, 0 or more", target="-1")
    four.refused(f"--target is {2**63}: expected a class, 0 or more, below", target=f"{2**63}")
    four.refused("--target is 0, which is also the label of image 0 and 2 more (set", target="0")
    four.refused("--start none.png does not exist: expected an image file", start="none.png")
    four.refused("--start . is not a file", start=".")
    Image.new("RGB", (9, 8)).save("small.png")
    four.refused(
        "--start small.png is 9x8 with 3 channels, but the images are 7x6 with 3 channels",
        start="small.png",
    )
    Path("broken.png").write_bytes(b"PNG")
    four.refused("broken.png cannot be read", start="broken.png")
    np.savez("two.npz", images=pixels()[:2], labels=[0, 0])
    four.refused("two.npz has 2 images, but 3 are attacked", start="two.npz")
    np.savez("set.npz", images=pixels()[:, :, :, 0], labels=[0] * 5)
    four.refused("is 7x6 with 3 channels, but the images are 7x6 with 1 channel:")


def test_a_target_that_the_model_does_not_have(case: Case) -> None:
    Image.fromarray(np.full((6, 7, 3), 240, np.uint8)).save("bright.png")
    case.refused("--target is 7: expected 0 to 1", target="7", start="bright.png")
    np.savez("set.npz", images=pixels(), labels=[0, 1, 0, 1, 0])
    told = "--target is 1, which is also the label of image 1 and 1 more (set.npz)"
    case.refused(told, target="1", start="bright.png")


def test_infinite_price(case: Case) -> None:
    case.refused("expected --max-queries as well", price="inf")
    code, _, err = case.run(price="inf", budget=None, max_queries="40", limit="1")
    assert code == 0, err
    told = json.loads(Path("out/ledger.json").read_text())
    assert told["images"][0]["queries"] == 40
    assert told["images"][0]["cost"] == told["images"][0]["flagged"]
    assert told["settings"]["budget"] is None


def test_prices_and_limits_that_are_wrong(case: Case) -> None:
    case.refused("--price is -1", price="-1")
    case.refused("--price is nan", price="nan")
    case.refused("--price is 'dear'", "a CSV file that exists", price="dear")
    case.refused("--price is ''", "a CSV file that exists", price="")
    case.refused("--budget is 1", "at least 2", budget="1")
    case.refused("--budget is nan", budget="nan")
    case.refused("neither --budget nor --max-queries", budget=None)
    case.refused("neither --budget nor --max-queries is set", budget="inf")
    case.refused("--max-queries is 0", max_queries="0")
    case.refused("--time-limit is '-1': expected a time, such as 90s, 8m", time_limit="-1")
    case.refused("--time-limit is '480'", "; write 480s for seconds", time_limit="480")
    case.refused("--price is '1e400': expected a number, inf, or a CSV file", price="1e400")
    case.refused("seed is -1: expected a whole number from 0", seed="-1")
    case.refused("--batch-size is 0", batch_size="0")
    for option in ("max-queries", "limit", "seed", "batch-size", "quantize"):
        case.refused(f"--{option}", "'1.5': expected a whole number", **{option: "1.5"})
    case.refused("--budget", "abc", budget="abc")
    table = Path("prices.csv")
    for text, told in {
        "class,price\n0,0\ndefault,0\n": "all prices are 0",
        "class,price\n0,1\n1,-2\n": "line 3: the price is '-2'",
        "class,price\n0,inf\n": "line 2: the price is 'inf'",
        "class,price\n0,x\n": "line 2: the price is 'x'",
        "class,price\ncat,1\n": "line 2: the class is 'cat'",
        "class,price\n0,1\n0,2\n": "line 3: class 0 has a price already",
        "class,price\n0,1\n00,2\n": "line 3: class 0 has a price already",
        f"class,price\n0,1\n{'1' * 5000},2\n": "line 3: the class is '111",
        "class,price\n7,1\n": "class 7, but the model has 2 classes",
        "class,price\n": "has no prices",
        "0,1\n": "line 1: the header is '0,1'",
        "flagged,price\n": "has no prices",
        "flagged,price\n1,1\n9,4\n5,2\n": "line 4: flagged answer 5 comes after 9: expected lines",
        "class,flagged,price\n0,1,1\n": "has the columns class and flagged: expected a CSV file",
        "flagged,price\n0,1\n": "line 2: the flagged answer is '0'",
        "flagged,price\n1,1\n1,2\n": "line 3: flagged 1 has a price already",
        "flagged,price\n5,1\n": "prices.csv: the first price starts at flagged answer 5",
        "flagged,price\n1,1\n9,again\n10,again\n": "line 4: the prices already start again at 9",
        "flagged,price\n1,1\n9,4\n8,again\n": "flagged answer 8 comes after 9",
        "flagged,price\n1,0\ndefault,0\n": "all prices are 0",
        "flagged,price\n1,500\n": "--budget is 150: expected at least 500",
    }.items():
        table.write_text(text)
        case.refused(told, price="prices.csv")


def test_images_and_labels_that_are_wrong(case: Case) -> None:
    case.refused("nowhere does not exist", images="nowhere")
    case.refused("--limit is 0", limit="0")
    np.savez("set.npz", images=pixels() / 100, labels=LABELS)
    case.refused("set.npz: image 0 has values from", "expected [0,1]")
    np.savez("set.npz", images=pixels() * np.nan, labels=LABELS)
    case.refused("not finite")
    np.savez("set.npz", images=pixels()[:0], labels=LABELS[:0])
    case.refused("expected at least one image")
    np.savez("set.npz", images=pixels(), labels=LABELS[:3])
    case.refused("labels has shape (3,) for 5 images")
    np.savez("set.npz", images=pixels(), labels=[0, 1, 2, 0, 1])
    case.refused("set.npz: the label of image 2 is 2: expected 0 to 1")
    np.savez("set.npz", images=pixels(), labels=[0, 1, -1, 0, 1])
    case.refused("the label of image 2 is -1")
    np.savez("set.npz", images=pixels()[:, :5], labels=LABELS)
    case.refused("takes images of shape (3, 6, 7), but the images are (3, 5, 7)")
    np.savez("set.npz", pixels=pixels())
    case.refused("has no array 'images' or 'labels'")
    Path("set.npz").write_bytes(b"PK nonsense")
    case.refused("set.npz cannot be read")
    given = folder_of_images(case)
    case.refused("no labels are given", images="pictures")
    case.refused("none.csv does not exist: expected a CSV", images="pictures", labels="none.csv")
    Path("labels.csv").write_text("file,label\np0.png,0\np1.png,one\n")
    case.refused("labels.csv, line 3: the label is 'one'", **given)
    Path("labels.csv").write_text("file,label\np0.png,0\np9.png,1\n")
    case.refused("labels.csv, line 3: the image 'p9.png' is not in the folder", **given)
    wrong = "file,label\np0.png,0\n\np1.png,7\np2.png,0\np3.png,1\np4.png,1\n"
    Path("labels.csv").write_text(wrong)
    case.refused("labels.csv, line 4: the label of image p1.png is 7: expected 0 to 1", **given)
    Path("labels.csv").write_text(wrong.replace("7", "-1"))
    case.refused("labels.csv, line 4: the label of image p1.png is -1", **given)
    Path("labels.csv").write_text("file,label\np0.png,0\n")
    case.refused("no label for the image p1.png and 3 more", **given)
    rows = [f"p{i}.png,{label}" for i, label in enumerate(LABELS)]
    Path("labels.csv").write_text("\n".join(["file,label", *rows]))
    Image.new("RGB", (9, 9)).save("pictures/p3.png")
    case.refused("p3.png is 9x9, but p0.png is 7x6", **given)
    Path("pictures/p3.png").write_bytes(Path("pictures/p0.png").read_bytes()[:60])
    case.refused("p3.png cannot be read", **given)
    Path("empty").mkdir()
    case.refused("the folder empty has no images", images="empty", labels="labels.csv")


def test_models_and_other_options_that_are_wrong(case: Case) -> None:
    case.refused("unknown preset 'a-hsjaa'", "did you mean 'a-hsja'", attack="a-hsjaa")
    case.refused("none.pt2 does not exist", model="none.pt2")
    case.refused("--device is 'gpu'", device="gpu")
    case.refused("--device is 'meta'", device="meta")
    case.refused("--mean has 2 numbers, but the images have 3 channels", mean="0.5,0.5")
    case.refused("--std is 0", std="0")
    case.refused("--std is 'a,b'", std="a,b")
    case.refused("--quantize is 17: expected a whole number from 1 to 16", quantize="17")
    case.refused("--dtype is 'half': expected float64, float32, bfloat16 or", dtype="half")
    case.refused(
        "--dtype is given, but ", "is an exported program: expected it for", dtype="float16"
    )
    case.refused("--model", model=None)
    case.refused("--model is ''", model="")
    torch.save(nn.Linear(2, 2).state_dict(), "state.pt")
    case.refused("state.pt is a pickle", "torch.export.save", "torch.jit.save", model="state.pt")
    assert "--budget" in case.refused("Did you mean", bugdet="3")


def test_cuda_that_is_not_there(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    case.refused("--device is 'cuda'", device="cuda")


def test_output_folder_that_is_wrong(case: Case) -> None:
    Path("out").mkdir()
    Path("out/mine.txt").write_text("mine")
    case.refused("--out out is not empty (it has mine.txt)")
    case.refused("--out set.npz is a file", out="set.npz")
    case.refused("cannot be", out="set.npz/out")
    Path("circle").symlink_to("circle")
    case.refused("--out circle", out="circle")


@pytest.mark.slow
def test_disk_that_is_full(case: Case) -> None:
    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))

    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    ended = subprocess.run(
        [*TOLLBOX, *case.given(limit="2")],
        preexec_fn=small,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 1, ended.stderr
    assert "shard-0.sqlite cannot be written: disk I/O error. Free some space" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert [*case.folder.glob("*out*"), *case.folder.glob(".out*")] == []


def test_runs_that_fail_are_told(case: Case) -> None:
    Path("my_failing_model.py").write_text(
        "calls = 0\n"
        "def labels(images):\n"
        "    global calls\n"
        "    calls += 1\n"
        "    if calls > 10: raise OSError('the line is dead')\n"
        "    return (images.mean((1, 2, 3)) > 0.5).long()\n"
    )
    code, out, err = case.run(model="my_failing_model:labels")
    assert code == 1
    assert "4 images failed; the first, hsja, c* = 2, image 0: OSError: the line is dead" in err
    words = " ".join(out.replace("│", " ").split())
    assert "no adversarial point 0 failed 4 median l2 (0 images) -" in words
    with open("out/results.csv", newline="") as file:
        assert [row["stop"] for row in csv.DictReader(file)][:4] == ["model_error"] * 4


IMPATIENT = """
import os, signal
calls = 0
def labels(images):
    global calls
    calls += 1
    if calls == 200:
        for _ in range(PRESSES):
            os.kill(os.getpid(), NUMBER)
    return (images.mean((1, 2, 3)) > 0.5).long()
"""
"""A model during whose 200th batch signals come."""


def run_interrupted(
    case: Case, presses: int, number: int = signal.SIGINT
) -> subprocess.CompletedProcess[str]:
    """A long run, in which a signal comes so often within one batch."""
    Path("my_impatient_model.py").write_text(
        f"PRESSES, NUMBER = {presses}, {int(number)}{IMPATIENT}"
    )
    tokens = case.given(
        model="my_impatient_model:labels", attack="surfree", budget="1e6", batch_size="2"
    )
    return subprocess.run([*TOLLBOX, *tokens], capture_output=True, text=True)


@pytest.mark.slow
def test_interrupted_run_is_saved(case: Case) -> None:
    ended = run_interrupted(case, presses=1)
    assert ended.returncode == 130, ended.stderr
    first, *_, last = ended.stderr.splitlines()
    assert first == "tollbox: finishing the batch; press Ctrl-C again to stop now."
    assert last.startswith("tollbox: Interrupted; 4 images remain; what they had reached is saved")
    assert "Traceback" not in ended.stderr
    with open("out/results.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["stop"] for row in rows] == ["interrupted"] * 4 + ["already_misclassified"]
    told = json.loads(Path("out/ledger.json").read_text())
    assert [str(account["queries"]) for account in told["images"]] == [r["queries"] for r in rows]
    assert sum(int(row["queries"]) for row in rows) > 5
    stored = arrays()
    reached = [row["index"] for row in rows[:4] if row["distance"] != "inf"]
    assert reached
    assert stored["index"].astype(str).tolist() == reached


@pytest.mark.slow
def test_interrupted_twice_keeps_what_was_answered(case: Case) -> None:
    ended = run_interrupted(case, presses=2)
    assert ended.returncode == 130, ended.stderr
    assert "Traceback" not in ended.stderr
    with StudyResults("out") as found:
        assert found.running == []
        assert len(found) <= 1  # that of the image that is misclassified anyway
        assert ended.stderr.splitlines() == [
            "tollbox: finishing the batch; press Ctrl-C again to stop now.",
            f"tollbox: interrupted: {len(found)} of 5 images are finished and saved. All answers "
            "are kept. Resume with `tollbox resume out`.",
        ]


@pytest.mark.slow
def test_sigterm_is_like_ctrl_c(case: Case) -> None:
    ended = run_interrupted(case, presses=1, number=signal.SIGTERM)
    assert ended.returncode == 143, ended.stderr
    first, *_, last = ended.stderr.splitlines()
    assert first == "tollbox: finishing the batch; send SIGTERM again to stop now."
    assert "what they had reached is saved, in out. Resume with" in last
    assert Path("out/results.csv").exists()


@pytest.mark.slow
def test_sigterm_twice(case: Case) -> None:
    ended = run_interrupted(case, presses=2, number=signal.SIGTERM)
    assert ended.returncode == 143, ended.stderr
    assert "All answers are kept. Resume with `tollbox resume out`." in ended.stderr
    assert not Path("out/results.csv").exists()


STUCK = """
import ctypes, os, threading, time
calls = 0
def native():
    lock, mutex = ctypes.CDLL(None).pthread_mutex_lock, ctypes.create_string_buffer(64)
    while True:
        lock(mutex)
def swallow():
    while True:
        try:
            time.sleep(60)
        except BaseException:
            pass
def press():
    for _ in range(2):
        time.sleep(0.3)
        os.kill(os.getpid(), NUMBER)
def labels(images):
    global calls
    calls += 1
    if calls == CALL:
        threading.Thread(target=press, daemon=True).start()
        STUCK()
    return (images.mean((1, 2, 3)) > 0.5).long()
"""
"""A model that never returns from one of its batches, during which two signals come."""
HASTY = """
from tollbox.cli import interrupt
from tollbox.__main__ import main
interrupt.GRACE_SECONDS, interrupt.WAKE_TIMES = 0.2, 2
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("stuck", ["native", "swallow"])
@pytest.mark.parametrize(("call", "number"), [(1, signal.SIGTERM), (40, signal.SIGINT)])
def test_two_signals_end_a_model_that_hangs(
    case: Case, stuck: str, call: int, number: signal.Signals
) -> None:
    """When it is tried, and during the run."""
    settings = f"CALL, NUMBER = {call}, {int(number)}"
    Path("my_stuck_model.py").write_text(f"{settings}{STUCK.replace('STUCK', stuck)}")
    tokens = case.given(model="my_stuck_model:labels", budget="1e6", batch_size="2")
    command = [sys.executable, "-c", HASTY, *tokens]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143}[number], ended.stderr
    *_, last = ended.stderr.splitlines()
    said = "tollbox: interrupted, but the model did not respond, so the process was killed."
    kept = " All recorded answers are kept. Resume with `tollbox resume out`."
    assert last == (said if call == 1 else said + kept)
    assert Path("out").exists() == (call > 1)


def test_time_limit(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is a thousand seconds later after some batches."""
    Path("my_slow_model.py").write_text(
        "calls = 0\n"
        "def labels(images):\n"
        "    global calls\n"
        "    calls += 1\n"
        "    return (images.mean((1, 2, 3)) > 0.5).long()\n"
    )
    clock = time.monotonic

    def later() -> float:
        calls = getattr(sys.modules.get("my_slow_model"), "calls", 0)
        return clock() + (1000 if calls > 30 else 0)

    monkeypatch.setattr(time, "monotonic", later)
    code, out, _ = case.run(model="my_slow_model:labels", budget="1e6", time_limit="8m20s")
    assert code == 3
    assert "stopped early" in out
    assert "median l2 (0 images)" in out
    assert "median l2 reached early (4 images)" in out
    with open("out/results.csv", newline="") as file:
        assert {row["stop"] for row in csv.DictReader(file)} == {
            "time_limit",
            "already_misclassified",
        }


# -- what the numbers do not say by themselves ----------------------------------------------------


def test_points_lost_at_8_bits_point_at_quantize(case: Case) -> None:
    code, out, _ = case.run(attack="cgba", budget="1500")
    lost = re.search(r"no longer adversarial at 8 bits │ +(\d+)", out)
    assert code == 0
    assert lost
    assert int(lost[1]) > 0
    assert f"{lost[1]} of 4 adversarial points are no longer adversarial" in out
    assert "With --quantize 8 the attack works on 8-bit images" in out
    _, out, _ = case.run(attack="cgba", budget="1500", quantize="8", out="eight")
    assert re.search(r"no longer adversarial at 8 bits │ +0 ", out)
    assert "--quantize" not in out


def test_an_infinite_median_is_explained(case: Case) -> None:
    _, out, _ = case.run(price="50", budget="60")
    assert (
        "Median l2 is inf: 0 of 4 images have an adversarial point; for 4 the budget ended" in out
    )
    assert "before a start was found at this price" in out
    _, out, _ = case.run(out="enough")
    assert "Median l2 is inf" not in out


UNFIT = """
import torch


def minus(images):
    return torch.full((len(images),), -1)


def zero(images):
    return torch.zeros(len(images), dtype=torch.long)


def swapped(images):
    return (images.mean((1, 2, 3)) < 0.5).long()


def random(images):
    return torch.randint(0, 10**6, (len(images),))


def padded(images):
    return (images.mean((1, 2, 3)) > (0.1 if images[-1, 0, 0, 0] == 0.5 else 0.5)).long()
"""


@pytest.fixture
def unfit(case: Case) -> Case:
    (case.folder / "unfit_models.py").write_text(UNFIT)
    return case


def test_a_model_that_misclassifies_all_images(unfit: Case) -> None:
    code, _, err = unfit.run(model="unfit_models:minus")
    assert code == 1
    assert "nothing was measured" in err
    assert "misclassifies all 5 images (it answers class -1 to each)" in err
    assert "mean and std, the order of the channels, the order of the labels" in err
    np.savez("honest.npz", images=pixels()[:4], labels=np.array(LABELS[:4]))
    code, _, err = unfit.run(model="unfit_models:swapped", images="honest.npz", out="other")
    assert code == 1
    assert "misclassifies all 4 images; check" in err


def test_a_model_that_answers_one_class(unfit: Case) -> None:
    code, _, err = unfit.run(model="unfit_models:zero")
    assert code == 0
    assert "the model answers class 0 to all" in err
    assert "check the mean and std" in err


def test_a_small_budget_on_images_of_one_class_is_no_fault_of_the_model(unfit: Case) -> None:
    np.savez("zeros.npz", images=np.zeros((30, 3, 4, 4), np.uint8), labels=np.zeros(30, int))
    code, _, err = unfit.run(model="unfit_models:zero", images="zeros.npz", budget="20")
    assert (code, "check the mean" in err) == (0, False), err


def test_a_model_that_answers_at_random_is_refused_before_anything_is_written(unfit: Case) -> None:
    unfit.refused("--model answers at random", "sent twice", model="unfit_models:random")


def test_check_tells_of_a_model_that_depends_on_the_batch(unfit: Case) -> None:
    with pytest.raises(SystemExit):
        main([*unfit.given(model="unfit_models:padded"), "--check"])
    out, err = unfit.capture.readouterr()
    assert "Note: the model 'model': " in err
    assert "labels changed when the same images were sent among other images" in err
    assert "among other images" in out
    settings = json.loads(Path("out/ledger.json").read_text())["settings"]
    assert any("among other images" in text for text in settings["warnings"])
    with StudyResults("out") as results:
        assert any("among other images" in text for text in results.warnings)
    _, out, err = unfit.run(model="unfit_models:padded", out="unchecked")
    assert "among other images" not in out + err


COUNTING = """
def labels(images):
    with open("rows.txt", "a") as file:
        file.write(f"{len(images)}\\n")
    return (images.mean((1, 2, 3)) > 0.5).long()
"""


def test_a_metered_model_computes_what_is_charged(case: Case) -> None:
    (case.folder / "counting_model.py").write_text(COUNTING)
    with pytest.raises(SystemExit) as end:
        main([*case.given(model="counting_model:labels"), "--metered"])
    out, _ = case.capture.readouterr()
    assert not end.value.code
    assert re.search("no longer adversarial at 8 bits │ +not asked", out)
    with open("out/results.csv", newline="") as file:
        charged = sum(int(row["queries"]) for row in csv.DictReader(file))
    rows = [int(line) for line in Path("rows.txt").read_text().split()]
    assert rows[0] == 1  # loading tries it
    assert sum(rows[1:]) == charged
    with pytest.raises(SystemExit):
        main(["resume", "out"])
    assert "not asked" in case.capture.readouterr().out
    assert len(Path("rows.txt").read_text().split()) == len(rows)  # there is nothing left to ask
    with pytest.raises(SystemExit) as end:
        main([*case.given(out="both"), "--metered", "--check"])
    assert end.value.code == 2
    assert "--check and --metered are both set" in case.capture.readouterr().err


def test_a_first_look_takes_few_rows(case: Case) -> None:
    """It is tried, asked twice for images and blends, and once for the labels of the record; each
    batch has the smallest shape of a run that holds it. (An attack with a radius asks more.)"""
    (case.folder / "counting_model.py").write_text(COUNTING)
    case.run(model="counting_model:labels", attack="surfree", limit="2", max_queries="6")
    rows = [int(line) for line in Path("rows.txt").read_text().split()]
    assert rows[:4] == [1, 8, 8, 8]
    with open("out/results.csv", newline="") as file:
        assert sum(int(row["queries"]) for row in csv.DictReader(file)) == 12
    assert sum(rows) < 80


def test_a_busy_service_is_asked_again(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    once = (
        "    if images.shape[0] == 1 and next(CALLS) == 3:\n        raise ConnectionError('503')\n"
    )
    code = COUNTING.replace("    return", f"{once}    return")
    (case.folder / "busy_model.py").write_text(
        f"import itertools\nCALLS = itertools.count()\n{code}"
    )
    monkeypatch.setattr("tollbox.engine.sender.time.sleep", lambda seconds: None)
    options = {"attack": "surfree", "limit": "1", "batch_size": "1", "max_queries": "6"}
    code, _, err = case.run(model="busy_model:labels", out="failed", **options)
    again = "ConnectionError: 503 (busy_model.py:8). Run them again with `tollbox resume failed --"
    assert (code, again in err) == (1, True)
    del sys.modules["busy_model"]
    code, _, err = case.run(model="busy_model:labels", retries="1", **options)
    assert (code, err.count("failed")) == (0, 0)


@pytest.mark.slow
def test_workers_share_the_images(case: Case) -> None:
    case.run(out="one")
    code, _, err = case.run(out="two", workers="2")
    assert code == 0, err
    assert sorted(path.name for path in Path("two").glob("*.sqlite")) == [
        "shard-0.sqlite",
        "shard-1.sqlite",
    ]
    for name in ("results.csv", "adversarial.npz"):
        assert Path("one", name).read_bytes() == Path("two", name).read_bytes()
    case.refused("--workers is 0: expected a whole number from 1 to 256", workers="0", out="none")
