"""The command line in a hostile world: odd folders, streams, names, signals, models that exit."""

import csv
import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tollbox as tb
from tollbox.cli import attack_files
from tollbox.cli.app import main
from tollbox.studies.store.store import Store

TOLLBOX = (sys.executable, "-c", "from tollbox.__main__ import main; main()")
MODEL = "def labels(images):\n    return (images.mean((1, 2, 3)) > 0.48).long()\n"
FILES = {"adversarial.npz", "results.csv", "ledger.json", "0000-adversarial.png"}
LONG = "x" * 300
ODD_ERRORS = """
class Odd(BaseException):
    pass

class Unprintable(RuntimeError):
    def __str__(self):
        raise ValueError

def raising(error):
    def labels(images):
        raise error
    return labels

later, base, unprintable = raising(GeneratorExit()), raising(Odd("x")), raising(Unprintable())
"""
CLOSING = "    sys.stdout.close()\n    sys.__stdout__.close()\n    "

Attack = Callable[..., tuple[int, str, str]]


def tokens(**options: str) -> list[str]:
    both = {"model": "bright:labels", "images": "set.npz", "attack": "hsja", "budget": "60"}
    both |= {"out": "out", "device": "cpu", "quantize": "8", **options}
    return ["attack", *(word for k, v in both.items() for word in (f"--{k.replace('_', '-')}", v))]


@pytest.fixture
def attack(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Attack]:
    """A working command in a folder of its own: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "bright", raising=False)
    Path("bright.py").write_text(MODEL)
    np.savez("set.npz", images=np.full((1, 3, 4, 5), 120, np.uint8), labels=[0])

    def typed(**options: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            main(tokens(**options))
        out, err = capsys.readouterr()
        return int(end.value.code or 0), out, err

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield typed
    for number, handler in before.items():  # a command that was interrupted ends by ignoring it
        signal.signal(number, handler)


def test_a_refusal_leaves_nothing_behind(
    attack: Attack, capsys: pytest.CaptureFixture[str]
) -> None:
    before = set(os.listdir())
    code, _, err = attack(limit="999999999999999999999")
    assert (code, err.count("\n")) == (2, 1)
    assert "images.limit is an integer of 70 bits" in err
    made = MODEL.replace("def labels", "def plain") + (
        "import torch\nfrom tollbox.core.model import Model\n"
        "labels = Model(plain, torch.device('cpu'), quantize=8, batch=4)\n"
    )
    Path("bright.py").write_text(made)
    sys.modules.pop("bright", None)
    with pytest.raises(SystemExit) as end:
        main([*tokens(), "--metered"])
    assert end.value.code == 2
    assert "the model takes batches of 4 only" in capsys.readouterr().err
    assert set(os.listdir()) - {"__pycache__"} == before


def test_the_second_of_two_that_make_one_folder_leaves_nothing(
    attack: Attack, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = Store.create

    def slowly(path: Path, *rest: Any) -> None:
        make(path, *rest)
        Path("out").mkdir()
        (Path("out") / "shard-0.sqlite").touch()  # as the first one would

    monkeypatch.setattr(Store, "create", slowly)
    code, _, err = attack()
    assert (code, err.count("\n")) == (2, 1)
    assert "--out out was changed during the run (Directory not empty): nothing was saved" in err
    assert not [name for name in os.listdir() if "partial" in name]


def test_numbers_out_of_range_are_refused_before_anything_is_made(attack: Attack) -> None:
    code, _, err = attack(batch_size="1000000000")
    expected = "expected a whole number from 1 to 65536."
    assert (code, err) == (2, f"tollbox: --batch-size is 1000000000: {expected}\n")
    code, _, err = attack(seed=f"{2**63}")
    assert code == 2
    assert f"expected a whole number from 0 to {2**63 - 1}." in err
    assert not Path("out").exists()


def test_a_device_that_is_not_here_is_told_in_a_sentence(attack: Attack) -> None:
    code, _, err = attack(device="mps")
    cannot = "--device is 'mps', which this installation of torch cannot use here: expected cpu"
    assert (code, len(err.splitlines())) == (2, 1)
    assert cannot in err


def test_a_single_picture_is_no_set_of_images(attack: Attack) -> None:
    Path("a.png").write_bytes(b"")
    code, _, err = attack(images="a.png")
    assert (code, "--images a.png is a single image: expected a folder" in err) == (2, True)


def test_pngs_are_only_named_where_there_are_some(attack: Attack) -> None:
    assert "PNGs" in attack()[1]
    np.savez("set.npz", images=np.full((1, 2, 4, 5), 120, np.uint8), labels=[0])
    code, out, _ = attack(out="two-channels")
    assert (code, "PNGs" in out) == (0, False)


def names(folder: str | Path) -> set[str]:
    """What is in a folder, but for the store."""
    return {file.name for file in Path(folder).iterdir() if not file.name.startswith("shard-0.")}


def test_infinite_settings_are_null(attack: Attack) -> None:
    code, _, err = attack(time_limit="inf", budget="inf", max_queries="40")
    assert code == 0, err
    settings = json.loads(Path("out/ledger.json").read_text())["settings"]
    assert (settings["time_limit"], settings["budget"]) == (None, None)


def test_what_fails_while_writing_loses_nothing_else(
    attack: Attack, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("ours")

    monkeypatch.setattr(attack_files, "_write_points", broken)
    with pytest.raises(KeyError) as error:
        main(tokens())
    [kept] = Path("out").glob(".partial-*")
    assert str(kept) in error.value.__notes__[0]
    assert names(kept) == FILES - {"adversarial.npz"}


def test_output_folders_that_cannot_be_renamed(
    attack: Attack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("empty", "target", "here"):
        Path(name).mkdir()
    Path("link").symlink_to("target")
    Path("dangling").symlink_to("new")
    inode = Path("empty").stat().st_ino
    for out in ("empty", "link", "dangling"):
        code, printed, err = attack(out=out)
        assert code == 0, err
        assert f"Saved in {out}" in printed
        assert names(out) == FILES
    assert Path("empty").stat().st_ino == inode  # a mount point would have to stay
    assert Path("link").is_symlink()
    assert Path("dangling").is_symlink()
    assert names("new") == FILES
    monkeypatch.chdir(tmp_path / "here")
    code, _, err = attack(out=".", images="../set.npz")
    assert code == 0, err
    assert names(".") == FILES


def test_what_others_put_into_the_folder_stays(
    attack: Attack, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = attack_files.write_all

    def meddled(*given: object) -> None:
        original(*given)  # type: ignore[arg-type]
        Path("out/notes.txt").write_text("mine")

    monkeypatch.setattr(attack_files, "write_all", meddled)
    code, _, err = attack()
    assert code == 0, err
    assert names("out") == FILES | {"notes.txt"}
    assert Path("out/notes.txt").read_text() == "mine"


def test_models_that_exit(attack: Attack) -> None:
    Path("exits_at_once.py").write_text("import sys\nsys.exit(0)\n")
    Path("exits_later.py").write_text("import sys\ndef labels(images):\n    sys.exit('bye')\n")
    for model, told in {
        "exits_at_once:labels": "importing exits_at_once failed: SystemExit: 0",
        "exits_later:labels": "SystemExit: bye",
    }.items():
        code, _, err = attack(model=model)
        assert (code, told in err) == (2, True), err
    assert not Path("out").exists()


def test_models_that_raise_anything(attack: Attack) -> None:
    Path("odd_errors.py").write_text(ODD_ERRORS)
    for model, told in {
        "later": "(GeneratorExit)",
        "base": "(Odd: x)",
        "unprintable": "(Unprintable: a message that cannot be printed)",
    }.items():
        code, out, err = attack(model=f"odd_errors:{model}")
        assert (code, out, told in err, err.count("\n")) == (2, "", True, 1), err
    Path("odd_import.py").write_text("raise GeneratorExit('now')\n")
    code, _, err = attack(model="odd_import:labels")
    assert (code, "importing odd_import failed: GeneratorExit: now" in err) == (2, True), err


def test_models_that_close_the_output(attack: Attack) -> None:
    Path("closing.py").write_text(f"import os, sys\n{MODEL.replace('    ', CLOSING, 1)}")
    done = subprocess.run(
        [*TOLLBOX, *tokens(model="closing:labels")], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 2), done.stderr
    assert "stdout cannot be written: Bad file descriptor. All results are saved." in done.stderr
    assert Path("out/results.csv").exists()


def test_interrupted_after_all_was_saved(attack: Attack, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(attack_files, "show_summary", interrupted)
    code, _, err = attack()
    assert code == 130
    assert "interrupted: 1 of 1 images are finished and saved." in err  # nothing to resume
    assert names("out") == FILES


SLOW = """
import signal, sys, tollbox.__main__

signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job is born without it
signal.signal(signal.SIGTERM, signal.SIG_DFL)

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("tollbox."):
            print(flush=True)
            signal.pause()

sys.meta_path.insert(0, Slow())
tollbox.__main__.main()
"""
"""The command, in which the first import of the package never ends."""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_while_importing(number: signal.Signals, code: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SLOW, "attack", "--help"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.send_signal(number)
        assert process.stderr.read() == "tollbox: interrupted; nothing was saved.\n"
        assert process.wait() == code


def test_the_script_is_the_entry_that_can_be_interrupted() -> None:
    script = Path(sys.executable).with_name("tollbox")
    if not script.exists():
        pytest.skip("not installed")
    assert "tollbox.__main__" in script.read_text()


@pytest.mark.slow
@pytest.mark.parametrize(("where", "code"), [(">&-", 0), (">/dev/full", 1), ("| true", 0)])
def test_stdout_that_cannot_be_written(attack: Attack, where: str, code: int) -> None:
    if where == ">/dev/full" and not Path("/dev/full").exists():
        pytest.skip("there is none")
    line = f'set -o pipefail; "$@" {where}'
    ended = subprocess.run(
        ["bash", "-c", line, "bash", *TOLLBOX, *tokens()], capture_output=True, text=True
    )
    assert ended.returncode == code, ended.stderr
    assert "Traceback" not in ended.stderr
    assert ("stdout cannot be written: No space left" in ended.stderr) == bool(code)
    assert names("out") == FILES


def test_paths_that_cannot_be_looked_at(attack: Attack) -> None:
    Path("pictures").mkdir()
    (Path("pictures") / "a.png").write_bytes(b"")
    Path("labels.csv").write_text(f"file,label\n{LONG}.png,0\n")
    for options in (
        {"model": f"{LONG}.pt"},
        {"images": LONG},
        {"price": f"{LONG}.csv"},
        {"out": LONG},
        {"images": "pictures", "labels": "labels.csv"},
        {"images": "pictures", "labels": LONG},
    ):
        code, out, err = attack(**options)
        assert (code, out) == (2, ""), err
        assert "cannot be read: File name too long" in err
        assert err.count("\n") == 1


def test_names_that_are_not_utf8(attack: Attack) -> None:
    odd = os.fsdecode(b"s\xff.npz")
    Path("set.npz").rename(odd)
    code, out, err = attack(images=odd, out=os.fsdecode(b"o\xfe"))
    assert code == 0, err
    assert "Saved in o\\udcfe" in out
    told = json.loads((Path(os.fsdecode(b"o\xfe")) / "ledger.json").read_text())
    assert told["settings"]["images"] == "s\\udcff.npz"
    code, _, err = attack(images=os.fsdecode(b"none\xff"))
    assert code == 2
    assert "none\\udcff does not exist" in err


def test_names_are_no_markup(attack: Attack) -> None:
    Path("p[").mkdir()
    Path("p[/x].csv").write_text("class, price\n0, 2\n")
    code, out, err = attack(price="p[/x].csv", out="zz[/a]")
    assert code == 0, err
    assert "price p[/x].csv" in " ".join(out.split())
    assert "Saved in zz[/a]:" in out
    code, out, err = attack(out=":ok:")
    assert (code, "Saved in :ok::" in out) == (0, True), err
    code, _, err = attack(out="[red]x[/b]", images="[bold]")
    assert (code, "[bold] does not exist" in err) == (2, True)


def test_names_do_not_control_the_terminal(attack: Attack) -> None:
    name = "\x1b]0;owned\x1b[2J\u202e\x9b31m"
    shown = r"\x1b]0;owned\x1b[2J\u202e\x9b31m"
    code, out, err = attack(out=name)
    assert code == 0, err
    assert f"Saved in {shown}:" in out
    code, _, err = attack(price=f"{name}.csv", out="other")
    assert (code, err.count("\n")) == (2, 1)
    Path(f"{name}.csv").write_text("file,label\n")
    Path("pictures").mkdir()
    code, _, more = attack(images="pictures", labels=f"{name}.csv", out="other")
    assert code == 2
    assert not set(name) & set(out + err + more) & {"\x1b", "\u202e", "\x9b"}


def test_capitals_in_the_name_of_an_attack(attack: Attack) -> None:
    assert attack(attack="HSJA")[0] == 0
    assert json.loads(Path("out/ledger.json").read_text())["settings"]["attack"] == "hsja"


def test_some_failures_are_no_failure(attack: Attack) -> None:
    np.savez(
        "set.npz", images=np.full((2, 3, 4, 5), [[[[120]]], [[[90]]]], np.uint8), labels=[0, 0]
    )
    Path("bright.py").write_text(
        MODEL.replace("    return", "    if ((images * 255).round() == 90).all((1, 2, 3)).any():\n"
        "        raise OSError('dead')\n    return")
    )  # fmt: skip
    code, out, err = attack()
    assert code == 0, err
    assert "1 images failed; the first, hsja, c* = 1, image 1: OSError: dead" in err
    assert "median l2 (1 images)" in out
    with open("out/results.csv", newline="") as file:
        assert [row["stop"] for row in csv.DictReader(file)][1] == "model_error"


def test_attack_draws_no_figures() -> None:
    code = "import sys, tollbox.cli; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_medians_leave_out_runs_that_were_cut_short() -> None:
    ours = tb.models.embedded()
    calls = [0]

    def failing(images: torch.Tensor) -> torch.Tensor:
        calls[0] += 1
        if calls[0] > 20:
            raise OSError(errno.EIO, "dead")
        return ours.model(images)

    given = (ours.images[:3], ours.labels[:3])
    results = tb.run(
        tb.preset("surfree"),
        failing,
        *given,
        budget=3000,
        execution=tb.Execution(batch_size=8, check=False),
    )
    assert results.failed
    assert not np.isnan(results.median_at(5.0))
    assert np.isnan(results.median_at(3000.0))


def test_a_study_folder_does_not_replace_installed_packages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of a study is searched for the modules that it names, and for nothing else."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    folder = tmp_path / "study"
    folder.mkdir()
    for package in ("onnxruntime", "transformers"):
        monkeypatch.delitem(sys.modules, package, raising=False)
        (folder / f"{package}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    (folder / "net.onnx").write_bytes(b"no model")
    np.savez(folder / "set.npz", images=np.full((1, 3, 4, 5), 120, np.uint8), labels=[0])
    for model in ("net.onnx", "hf:nobody/nothing"):
        (folder / "study.toml").write_text(
            f'budget = 20\nprices = [2]\ndevice = "cpu"\nimages = {{path = "set.npz"}}\n'
            f'[[models]]\nsource = "{model}"\n[[attacks]]\npreset = "hsja"\n'
        )
        with pytest.raises(SystemExit) as end:
            main(["run", str(folder / "study.toml"), "--out", str(tmp_path / "out")])
        assert end.value.code == 2, capsys.readouterr().err
        assert not (tmp_path / "ran").exists()
