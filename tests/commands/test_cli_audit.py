"""`tollbox audit` as a user types it; killed, too."""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path
from typing import Any

import pytest
from small_studies import StudyFolder, write_study
from torture import Nursery

from tollbox.audits.audit import ANSWERS, PAGE
from tollbox.cli.app import main

ARGUMENTS = ("--images", "images.npz", "--budget", "150", "--device", "cpu", "--batch-size", "32")


def typed(capsys: pytest.CaptureFixture[str], *tokens: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(["audit", *tokens])
    out, err = capsys.readouterr()
    assert isinstance(end.value.code, int)
    return end.value.code, out, err


def answers(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / ANSWERS).read_text(encoding="utf-8"))
    return found


@pytest.mark.slow
def test_from_the_model_to_the_page_and_on(
    capsys: pytest.CaptureFixture[str], study_folder: StudyFolder
) -> None:
    """Stopped by the clock, gone on with, asked otherwise without a model, compared."""
    chosen = ("--model", f"{study_folder.module}:net", *ARGUMENTS)
    code, out, err = typed(capsys, *chosen, "--out", "out", "--time", "0.01s")
    assert code == 3
    assert "Time limit reached" in err
    assert "tollbox resume out" in err
    assert answers(Path("out"))["left_out"]
    code, out, err = typed(capsys, *chosen, "--out", "out", "--worth", "900")
    assert code == 0, err
    found = answers(Path("out"))
    assert found["left_out"] == []
    assert out.splitlines() == [*found["verdict"], f"Open out/{PAGE} in a browser."]
    assert "worth 900" in found["verdict"][1]
    code, out, _ = typed(capsys, *chosen, "--out", "out", "--json")
    assert (code, json.loads(out)) == (0, answers(Path("out")))
    study_folder.code.unlink()  # from here on there is no model
    Path("policy.csv").write_text("flagged,price\n1,1\n10,100\n")
    asked = ("--epsilon", "1,8/255", "--policy", "policy.csv", "--against", "out")
    code, out, err = typed(capsys, "--out", "out", *asked)
    assert code == 0, err
    found = answers(Path("out"))
    assert len(found["levels"]) == 2
    assert found["criteria"]["policy"]["name"] == "policy"
    assert found["against"]["verdict"][0] in out
    with pytest.raises(SystemExit) as end:
        main(["report", "out"])
    assert end.value.code == 0
    assert "tollbox audit --out out" in Path("out/report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_two_processes_and_resume(
    capsys: pytest.CaptureFixture[str], study_folder: StudyFolder
) -> None:
    chosen = ("--model", f"{study_folder.module}:net", *ARGUMENTS, "--out", "out")
    code, _, err = typed(capsys, *chosen, "--workers", "2", "--time", "0.01s")
    assert code == 3, err
    assert answers(Path("out"))["left_out"]
    with pytest.raises(SystemExit) as end:
        main(["resume", "out"])
    out, err = capsys.readouterr()
    assert end.value.code == 0, err
    found = answers(Path("out"))
    assert found["left_out"] == []
    assert out.splitlines()[:2] == found["verdict"]


def test_a_model_that_is_always_wrong(
    capsys: pytest.CaptureFixture[str], study_folder: StudyFolder
) -> None:
    study_folder.code.write_text(study_folder.code.read_text() + "shift = 1\nwrong = labels\n")
    chosen = ("--model", f"{study_folder.module}:wrong", *ARGUMENTS, "--out", "out")
    code, out, err = typed(capsys, *chosen)
    assert code == 1
    assert "misclassifies all" in err
    assert out.startswith("No result: the model misclassifies all 3 images.")


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (["--out", "out"], "out"),
        (["--out", "out", "--images", "images.npz"], "--images is given, and --model is not"),
        (["--out", "out", "--model", "none.pt2"], "--images is not given"),
        (["--out", "out", "--model", "none.pt2", *ARGUMENTS], "none.pt2"),
        (["--out", "images.npz", "--model", "{net}", *ARGUMENTS], "images.npz is a file"),
        (["--out", "out", "--model", "{net}", *ARGUMENTS[:2], "--budget", "5"], "--budget is 5"),
        (["--out", "out", "--model", "{net}", *ARGUMENTS, "--limit", "0"], "--limit is 0"),
        (
            ["--out", "out", "--time", "5m"],
            "--time-limit is given, and --model is not: expected --m",
        ),
        (
            ["--out", "out", "--time", "8"],
            "--time-limit is '8': expected a time, such as 90s, 8m or",
        ),
        (["--out", "out", "--budget", "9000"], "--budget is given, and --model is not"),
        (["--out", "out", "--model", "{net}", *ARGUMENTS, "--against", "x"], "x is not a folder"),
        (["--out", "none"], "--model is not given, and there is no none: expected --model and"),
        (["--out", "n" * 300], "nnn cannot be read: File name too long"),
        (["--out", "out", "--worth", "0"], "--worth is 0"),
        (["--out", "out", "--epsilon", "4/256"], "--epsilon has '4/256'"),
        (["--out", "out", "--policy", "none.csv"], "--policy is 'none.csv'"),
        (
            ["--out", "out", "--time", "soon"],
            "--time-limit is 'soon': expected a time, such as 90s",
        ),
        (["--model", "{net}"], "--out"),
    ],
)
def test_mistakes_are_sentences(
    capsys: pytest.CaptureFixture[str], study_folder: StudyFolder, tokens: list[str], said: str
) -> None:
    before = sorted(Path().iterdir())
    net = f"{study_folder.module}:net"
    code, out, err = typed(capsys, *(token.replace("{net}", net) for token in tokens))
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
    assert sorted(Path().iterdir()) == before


@pytest.mark.slow
def test_killed_at_random_moments_it_ends_with_the_same_answers(tmp_path: Path) -> None:
    source, log = tmp_path / "study", tmp_path / "log"
    study = write_study(source, "audited_net")
    exact = study.code.read_text().replace("Net().eval()", "Net().double().eval()")
    study.code.write_text(exact)  # in float32 a row's logits may depend on its place
    moments = random.Random(5)

    def command(out: str) -> list[str]:
        return ["audit", "--model", "audited_net:net", *ARGUMENTS, "--out", out]

    kills = []
    with Nursery() as nursery:
        nursery.start(command("unbroken"), source, log, {})
        assert nursery.ended() == 0, log.read_text()
        for _ in range(10):  # before a commit, within it, or after it
            hook = {
                "what": moments.choice(["record", "record", "save"]),
                "torn": str(log) + "-torn",
            }
            hook["when"] = moments.choice(["before", "open", "after"])
            nursery.start(command("out"), source, log, {**hook, "call": moments.randint(1, 4)})
            kills.append(nursery.ended())
        nursery.start(command("out"), source, log, {})
        assert nursery.ended() == 0, log.read_text()
    assert kills == [-signal.SIGKILL] * 10
    one, other = answers(source / "out"), answers(source / "unbroken")
    assert one.pop("commands") != other.pop("commands")  # they name the folder
    assert one == other
