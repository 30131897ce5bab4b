"""The command line itself: help, version, presets, mistakes, a reader that goes away; the demo."""

import csv
import dataclasses
import importlib
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import tollbox as tb
from tollbox.attacks import PRESETS
from tollbox.cli import demo as demo_command
from tollbox.cli.app import COMMANDS, main
from tollbox.cli.attack import AttackOptions
from tollbox.report.curves import distances_at, median_curve

TOLLBOX = (sys.executable, "-c", "from tollbox.cli import main; main()")


def typed(capsys: pytest.CaptureFixture[str], *tokens: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(tokens)
    out, err = capsys.readouterr()
    return int(end.value.code or 0), out, err


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert typed(capsys, "--version") == (0, f"{tb.__version__}\n", "")
    for tokens in (("--help",), ()):
        code, out, _ = typed(capsys, *tokens)
        assert code == 0
        assert all(name in out for name in ("attack", "demo", "presets"))
    code, out, _ = typed(capsys, "attack", "--help")
    assert code == 0
    for field in dataclasses.fields(AttackOptions):
        assert f"--{field.name.replace('_', '-')}" in out
    assert "--no-" not in typed(capsys, "demo", "--help")[1]


def test_presets(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = typed(capsys, "presets")
    assert code == 0
    lines = out.splitlines()
    for name, known in PRESETS.items():
        [line] = [line for line in lines if line.split()[0] == name]
        assert line.split(maxsplit=2) == [name, known.family, known.parts]
        above = [text for text in lines[: lines.index(line)] if not text.startswith(" ")]
        assert above[-1] == known.source
    assert max(map(len, lines)) <= 80
    assert len(lines) == len(PRESETS) + len({known.source for known in PRESETS.values()})
    assert out.isascii()


@pytest.mark.parametrize(
    ("tokens", "told"),
    [
        (["atack"], 'Did you mean "attack"?'),
        (["demo", "--imags", "3"], "Did you mean --images?"),
        (["demo", "--images", "many"], "--images"),
        (["demo", "3"], "3"),
        (["demo", "--images", "1.5"], "'1.5': expected a whole number"),
        (["demo", "--seed", "1.5"], "'1.5': expected a whole number"),
        (["demo", "--images", "0"], "--images is 0: expected 1 to"),
        (["demo", "--images", "1000"], "--images is 1000: expected 1 to"),
        (["presets", "--all"], "--all"),
    ],
)
def test_mistakes(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    tokens: list[str],
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = typed(capsys, *tokens)
    assert (code, out) == (2, "")
    assert told in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_our_own_bugs_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise KeyError("ours")

    monkeypatch.setattr("tollbox.cli.presets.PRESETS", property(broken))
    with pytest.raises(AttributeError):
        main(["presets"])


def test_reader_that_goes_away() -> None:
    with subprocess.Popen(
        [*TOLLBOX, "presets"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(30) == 0


def test_demo(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo_command, "BUDGETS", {1.0: 200.0, 100.0: 6000.0})
    code, out, err = typed(capsys, "demo", "--images", "2")
    assert code == 0, err
    folder = tmp_path / "demo-output"
    assert {file.name for file in folder.iterdir()} == demo_command.FILES
    with open(folder / "results.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8
    assert {(row["attack"], float(row["price"])) for row in rows} == {
        (attack, price) for attack in ("hsja", "a-hsja") for price in (1.0, 100.0)
    }
    for row in rows:
        queries, flagged = int(row["queries"]), int(row["flagged"])
        assert float(row["cost"]) == flagged * float(row["price"]) + queries - flagged
        assert float(row["cost"]) <= {1.0: 200, 100.0: 6000}[float(row["price"])]
    for attack in ("hsja", "a-hsja"):
        reached = [
            float(r["distance"]) for r in rows if (r["attack"], r["price"]) == (attack, "1.0")
        ]
        assert f"{np.median(reached):.3f}" in out
    assert "c* = 100" in out
    assert "flagged answers in its estimates" in " ".join(out.split())
    for name in ("median-l2.png", "images.png"):
        assert np.array(Image.open(folder / name).convert("L")).std() > 5
    ElementTree.parse(folder / "median-l2.svg")

    code, _, err = typed(capsys, "demo", "--images", "2")
    assert code == 2
    assert "demo-output is not empty" in err
    assert "or --replace" in err
    (folder / "mine.txt").write_text("mine")
    code, _, err = typed(capsys, "demo", "--images", "2", "--replace")
    assert code == 2
    assert "it has mine.txt" in err
    assert "--replace" not in typed(capsys, "demo", "--images", "2")[2]
    (folder / "mine.txt").unlink()
    (folder / "images.png").rename(tmp_path / "kept.png")
    (folder / "images.png").mkdir()
    code, _, err = typed(capsys, "demo", "--images", "2", "--replace")
    assert (code, "it has images.png" in err) == (2, True)
    (folder / "images.png").rmdir()
    (tmp_path / "kept.png").rename(folder / "images.png")
    (folder / "results.csv").write_text("old")
    code, _, err = typed(capsys, "demo", "--images", "1", "--replace", "--seed", "3")
    assert code == 0, err
    assert len((folder / "results.csv").read_text().splitlines()) == 5
    assert {file.name for file in folder.iterdir()} == demo_command.FILES
    assert [file.name for file in tmp_path.iterdir()] == ["demo-output"]


def test_curves_follow_distance_at() -> None:
    ours = tb.models.embedded()
    prices = tb.Prices(source=3)
    results = tb.run(
        tb.preset("hsja"), ours.model, ours.images[:4], ours.labels[:4], prices=prices, budget=300
    )
    costs = np.unique(np.concatenate([np.linspace(3, 300, 57), [4.0, 7.0, 150.0]]))
    for result in results:
        assert distances_at(result, costs).tolist() == [result.distance_at(c) for c in costs]
    assert median_curve(results, costs).tolist() == [results.median_at(c) for c in costs]


def test_every_command_is_listed_with_its_first_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    listed = typed(capsys, "--help")[1]
    for name, text in COMMANDS.items():
        command = getattr(importlib.import_module(f"tollbox.cli.{name}"), name)
        assert command.__doc__.splitlines()[0] == text
        assert f" {name} " in listed
        assert text in listed
    assert "adversarial.npz" in typed(capsys, "attack", "--help")[1]  # the rest of its own help
