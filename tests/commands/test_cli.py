"""The command line itself: help, version, presets, mistakes, a reader that goes away; the demo."""

import dataclasses
import importlib
import json
import re
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest

import tollbox as tb
from tollbox.attacks import PRESETS, WITH_SURROGATE
from tollbox.audits.suite import ATTACKS
from tollbox.cli import demo as demo_command
from tollbox.cli.app import COMMANDS, main
from tollbox.cli.attack import AttackOptions

TOLLBOX = (sys.executable, "-c", "from tollbox.cli import main; main()")


def typed(capsys: pytest.CaptureFixture[str], *tokens: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(tokens)
    out, err = capsys.readouterr()
    return int(end.value.code or 0), out, err


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert typed(capsys, "--version") == (0, f"tollbox {tb.__version__}\n", "")
    for tokens in (("--help",), ()):
        code, out, _ = typed(capsys, *tokens)
        assert code == 0
        assert all(name in out for name in ("attack", "demo", "presets"))
    code, out, _ = typed(capsys, "attack", "--help")
    assert code == 0
    for field in dataclasses.fields(AttackOptions):
        assert f"--{field.name.replace('_', '-')}" in out
    assert "--no-" not in typed(capsys, "demo", "--help")[1]


def listed(out: str) -> dict[str, tuple[str, str]]:
    """Of each preset that is listed the heading above it, and its parts."""
    found, heading = {}, ""
    for line in out.splitlines():
        if line.startswith("  "):
            name, parts = line.split(maxsplit=1)
            assert name not in found
            found[name] = heading, parts
        else:
            heading = line
    return found


def test_presets(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = typed(capsys, "presets")
    assert code == 0
    known = {**PRESETS, **WITH_SURROGATE}
    assert listed(out) == {
        name: (f"{preset.family} ({preset.source})", preset.parts) for name, preset in known.items()
    }
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    last = [lines.pop(), lines.pop()][::-1]
    assert " ".join(last) == f"With --surrogate NETWORK only: {', '.join(WITH_SURROGATE)}."
    assert lines.pop() == "A or B: B for images whose smaller side is below 112 pixels."
    assert "A or B" not in typed(capsys, "presets", "boundary")[1]
    headings = [line for line in lines if not line.startswith(" ")]
    families = [line.split(" (")[0] for line in headings]
    assert len(headings) == len(set(headings))
    assert [family for family, _ in groupby(families)] == list(dict.fromkeys(families))
    assert out.isascii()


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["a-cgba"], ["a-cgba"]),
        (["CGBA"], [n for n, p in PRESETS.items() if p.family == "CGBA"]),
        (["reza"], ["cgba-original"]),
        (["stealthy"], ["stealthy-hsja", "stealthy-geoda"]),
        (["measured"], ["hsja+calibrated", "geoda+calibrated", "cgba+calibrated"]),
        (["hsja", "va+as"], ["hsja+as", "a-hsja"]),
        (["brendel"], ["boundary", "a-boundary"]),
    ],
)
def test_presets_of_a_filter(
    capsys: pytest.CaptureFixture[str], words: list[str], wanted: list[str]
) -> None:
    code, out, err = typed(capsys, "presets", *words)
    assert (code, err) == (0, "")
    assert set(wanted) <= set(listed(out))
    for name in listed(out):
        preset = PRESETS[name]
        told = f"{preset.name} {preset.family} {preset.source} {preset.words}".lower()
        assert all(word.lower() in told for word in words)
    assert "--surrogate" not in out


def test_a_filter_that_matches_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = typed(capsys, "presets", "cbga")
    assert (code, out) == (2, "")
    assert err.startswith("tollbox: no preset matches 'cbga'; did you mean 'cgba' or ")
    assert err.endswith("?\n")
    assert typed(capsys, "presets", "cgba", "brendel")[0] == 2
    far = typed(capsys, "presets", "0000")
    assert far == (2, "", "tollbox: no preset matches '0000'; `tollbox presets` lists all.\n")


@pytest.mark.parametrize(
    ("tokens", "told"),
    [
        (["atack"], "unknown command 'atack': did you mean 'attack'"),
        (["--verison"], "unknown option '--verison': did you mean '--version'"),
        (["run"], "STUDY requires an argument. See `tollbox run --help`"),
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


@pytest.mark.slow
def test_reader_that_goes_away() -> None:
    with subprocess.Popen(
        [*TOLLBOX, "presets"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


def test_the_demo_is_an_audit_and_its_page(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo_command, "BUDGET", 150)
    code, out, err = typed(capsys, "demo", "--images", "2")
    assert code == 0, err
    folder = tmp_path / "demo-output"
    left = {*demo_command.STORE, "audit.html", "audit.json"}
    assert {file.name for file in folder.iterdir()} <= left
    with tb.studies.StudyResults(folder) as found:
        assert [line.name for line in found.status()] == [
            f"{attack}, c* = {price}" for attack in ATTACKS for price in (1, 10, 100, 1000, "inf")
        ]
        assert len(found) == len(found.grid) == 40
    answers = json.loads((folder / "audit.json").read_text(encoding="utf-8"))
    assert out.splitlines() == [
        *answers["verdict"],
        "Open demo-output/audit.html in a browser.",
        f"Next, audit your own model: `{demo_command.NEXT}`.",
    ]
    page = (folder / "audit.html").read_text(encoding="utf-8")
    assert "tollbox demo --images 2 --seed 0 --out demo-output" in page
    assert "The images cannot be shown" not in page
    assert typed(capsys, "resume", "demo-output")[0] == 0


def test_a_demo_that_its_own_time_limit_stops_is_no_failure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo_command, "TIME_LIMIT", 0.2)
    code, out, err = typed(capsys, "demo", "--images", "2")
    assert code == 0, err
    assert "Time limit reached" in err
    assert out.endswith(f"Next, audit your own model: `{demo_command.NEXT}`.\n")


def test_the_demo_replaces_nothing_but_a_demo(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "demo-output"
    folder.mkdir()
    (folder / "report.html").write_text("old")
    (folder / "shard-0.sqlite").write_text("old")
    code, _, err = typed(capsys, "demo", "--images", "1")
    assert code == 2
    assert "demo-output is not empty" in err
    assert "or --replace" in err
    (folder / "mine.txt").write_text("mine")
    code, _, err = typed(capsys, "demo", "--images", "1", "--replace")
    assert (code, "does not write (mine.txt)" in err) == (2, True)
    assert (folder / "report.html").read_text() == "old"
    assert "--replace" not in typed(capsys, "demo", "--images", "1")[2]
    (folder / "mine.txt").unlink()
    assert typed(capsys, "demo", "--images", "1000", "--replace")[0] == 2
    assert (folder / "report.html").read_text() == "old"
    monkeypatch.setattr(demo_command, "BUDGET", 100)
    code, _, err = typed(capsys, "demo", "--images", "1", "--replace", "--seed", "3")
    assert code == 0, err
    with tb.studies.StudyResults(folder) as found:
        assert found.study.seeds == (3,)
    assert [file.name for file in tmp_path.iterdir()] == ["demo-output"]


def test_every_command_is_listed_with_its_first_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    listed = typed(capsys, "--help")[1]
    found = [re.search(rf"^\W*{name} ", listed, re.MULTILINE) for name in COMMANDS]
    places = [place.start() for place in found if place is not None]
    assert len(places) == len(COMMANDS)
    assert places == sorted(places)  # in the order that one meets them in
    for name, text in COMMANDS.items():
        command = getattr(importlib.import_module(f"tollbox.cli.{name}"), name)
        assert command.__doc__.splitlines()[0] == text
        assert f" {name} " in listed
        assert text in listed
    assert "adversarial.npz" in typed(capsys, "attack", "--help")[1]  # the rest of its own help


HELP_WITHOUT_TORCH = [name for name in COMMANDS if name not in ("theory", "paper")]


@pytest.mark.parametrize(
    "tokens",
    [
        *(["--help"], ["--version"], ["atack"], [], ["--install-completion", "--help"]),
        *([name, "--help"] for name in HELP_WITHOUT_TORCH),
        ["attack", "--no-such-option"],
    ],
    ids=" ".join,
)
def test_what_runs_nothing_does_not_wait_for_torch(tokens: list[str]) -> None:
    code = f"""
import sys
from tollbox.cli import main
try:
    main({tokens!r})
except SystemExit:
    sys.exit(len({{"torch", "scipy", "numpy"}} & set(sys.modules)))
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert ended.returncode == 0


@pytest.mark.slow
def test_torch_is_imported_before_signals_are_caught() -> None:
    code = """
import sys
from tollbox.cli import main
def ready():
    sys.exit(0 if "torch" in sys.modules else 3)
main(["demo"], ready)
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
