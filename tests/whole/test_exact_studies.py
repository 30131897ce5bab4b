"""Exact studies: one shape and layout is chosen, kept, used by all, and held to on resume.

The network has no sums, so that it does on any machine what it does here: a row depends on its
place unless the batch has the right size and layout.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_studies import contents, page_of, rewrite_record
from torch import Tensor, nn

import tollbox as tb
from tollbox import Study
from tollbox.cli.app import main
from tollbox.core.exactness import Seen
from tollbox.errors import FileError, InputError
from tollbox.studies import StudyResults
from tollbox.studies.create import create, holds
from tollbox.studies.events import Options
from tollbox.studies.inputs import load
from tollbox.studies.run import run_folder
from tollbox.studies.status import StudyStatus
from tollbox.studies.store.store import Store
from tollbox.workers.executors import Stopper

TEXT = """\
name = "exact"
budget = 90
prices = [1, 10]
keep_images = true
device = "cpu"

[images]
path = "images.npz"

[[models]]
name = "net"
source = "nowhere:net"

[[attacks]]
preset = "surfree"

[[attacks]]
preset = "a-hsja"
"""
CODE = """
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, images):
        place = torch.arange(len(images))[:, None]
        return images[:, 0, 0, :5] + 1e-3 * place * (len(images) != {size})


net = Net().eval()
"""


class Log:
    """The sizes of batches, in all copies of a network; stops a run at a certain batch."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.at, self.stop = 0, Stopper()

    def __deepcopy__(self, _: Any) -> Log:
        return self

    def add(self, size: int) -> None:
        self.sizes.append(size)
        if len(self.sizes) == self.at:
            self.stop()


class Net(nn.Module):
    """Five pixels are the logits."""

    def __init__(self, size: int = 128, gain: float = 1.0) -> None:
        super().__init__()
        self.size, self.gain = size, gain
        self.conv = nn.Conv2d(3, 1, 1, bias=False)  # so that it has a layout
        nn.init.zeros_(self.conv.weight)
        self.log = Log()

    def forward(self, images: Tensor) -> Tensor:
        self.log.add(len(images))
        well = len(images) == self.size and images.is_contiguous()
        added = torch.arange(len(images))[:, None] * (not well)
        return self.gain * images[:, 0, 0, :5] + 1e-3 * added


class Case:
    def __init__(self, folder: Path) -> None:
        self.folder, self.out = folder, folder / "out"
        self.text = f"exact = true\n{TEXT}"
        pixels = np.random.default_rng(1).integers(0, 256, (3, 3, 8, 8), np.uint8)
        np.savez(folder / "images.npz", images=pixels, labels=pixels[:, 0, 0, :5].argmax(1))

    def study(self) -> Study:
        return Study.from_text(self.text, self.folder, "exact.toml", files=False)

    def run(self, net: Net, out: Path | None = None, stop_at: int = 0) -> Any:
        """Begin, or go on; stopped at a batch."""
        loaded, place = load(self.study(), {"net": tb.models.from_torch(net)}), out or self.out
        if not holds(loaded.study, place):
            create(loaded, place, "python")
        net.log.sizes.clear()
        net.log.at = stop_at
        return run_folder(place, Options(), lambda _: None, net.log.stop, loaded)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def test_the_choice_is_kept_and_told(case: Case) -> None:
    case.run(Net())
    sentence = (
        "Exact: a row's logits depend on nothing but the row, in batches of 128 (float32, "
        "contiguous)."
    )
    with StudyResults(case.out) as results:
        found = results.results().exactness
        assert (found.seen, found.shapes, found.layout) == (Seen.LOGITS, (128,), "contiguous")
        assert (found.exact, results.exactness) == (True, [sentence])
        assert sentence in page_of(results)["notes"]
        assert results.record.models["net"].running == {"dtype": "float32"}  # nor any other layout
    with StudyStatus(case.out) as status:
        assert status.exactness == [sentence]


def test_interrupted_again_and_again_it_keeps_the_shape_and_ends_as_unbroken(case: Case) -> None:
    case.run(Net(), case.folder / "unbroken")
    wanted, runs = contents(case.folder / "unbroken"), 0
    while True:
        net = Net()
        outcome, runs = case.run(net, stop_at=20 + 5 * runs), runs + 1
        assert set(net.log.sizes) <= {1, 128}  # 1 in the trial on one image
        if not outcome.unfinished:
            break
        assert runs < 30
    assert runs > 2
    assert contents(case.out) == wanted


def test_running_out_of_memory_ends_exactness_and_is_told(case: Case) -> None:
    class Small(Net):
        def forward(self, images: Tensor) -> Tensor:
            if self.log.at < 0 and len(self.log.sizes) > 10 and len(images) == 128:
                raise torch.OutOfMemoryError
            return super().forward(images)

    case.text += "\n[[models]]\nname = 'other'\nsource = 'nowhere:other'\n"
    models = {"net": tb.models.from_torch(net := Small()), "other": tb.models.from_torch(Net())}
    loaded = load(case.study(), models)
    create(loaded, case.out, "python")
    net.log.sizes.clear()
    net.log.at = -1
    run_folder(case.out, Options(), lambda _: None, net.log.stop, loaded)
    assert set(net.log.sizes) == {128, 64}
    with StudyResults(case.out) as results:
        assert not results.results(model="net").exactness.exact
        assert results.results(model="other").exactness.exact
        first, second = results.exactness
    assert first.startswith("The model 'net': Exact at first only: ")
    assert "What ended it: out of memory: the batch size was reduced from 128 to 64, for" in first
    assert second.startswith("The model 'other': Exact: ")


@pytest.mark.slow
def test_two_processes_take_the_same_shape_and_layout(case: Case) -> None:
    case.run(Net(), case.folder / "one")
    case.text = f"workers = 2\n{case.text}"
    case.run(Net())
    with StudyResults(case.out) as results:
        assert results.record.shards == 2
        assert {store.study.exactness_of("net").shapes for store in results.stores} == {(128,)}
    assert contents(case.out) == contents(case.folder / "one")


@pytest.mark.parametrize(
    ("net", "what"),
    [
        (lambda: Net(size=64), "a row of the model 'net' depends on its place in the batch here"),
        (lambda: Net(gain=2.0), "the logits of the model 'net' differ from those at its start"),
    ],
)
def test_what_no_longer_holds_is_refused(case: Case, net: Callable[[], Net], what: str) -> None:
    """Other logits, with the same decisions, are those of another machine."""
    assert case.run(Net(), stop_at=6).unfinished
    with pytest.raises(FileError) as refusal:
        case.run(net())
    assert str(refusal.value) == (
        f"{case.out} is an exact study, and {what}, in batches of 128 (contiguous); resume it "
        "with the model, device and versions of its start, or start a new study in another folder."
    )


def test_a_study_without_an_exact_shape_is_refused_and_nothing_is_made(case: Case) -> None:
    with pytest.raises(InputError, match=r"line 1.*exact is set, and a row of the model depends"):
        case.run(Net(size=7))
    assert not case.out.exists()
    case.text = f"batch_size = 7\n{case.text}"
    case.run(Net(size=7))
    with StudyStatus(case.out) as status:
        assert status.record.exactness_of("net").shapes == (7,)


def test_exact_and_metered_are_refused(case: Case) -> None:
    case.text = f"metered = true\n{case.text}"
    with pytest.raises(InputError, match="exact and metered are both set"):
        case.run(Net())


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("", "Not checked: "),
        ("metered = true", "Not probed, since each row of a metered model is a query: "),
        ("check = true", "Repeated runs may differ in the last digits or more: a row's logits"),
        ("check = true\none_shape = true", "Repeated runs may differ in the last digits or more"),
        ("check = true\none_shape = true\nbatch_size = 64", "Exact: a row's logits depend"),
    ],
)
def test_what_was_found_without_exact_is_told(case: Case, setting: str, sentence: str) -> None:
    case.text = f"{setting}\n{TEXT}"
    net = Net(size=64 if "batch_size" in setting else 128)
    model = tb.models.from_torch(net, channels_last=False)
    with tb.run_study(case.study(), case.out, models={"net": model}) as results:
        assert results.exactness[0].startswith(sentence)


def test_models_that_differ_are_told_apart(case: Case) -> None:
    case.text = f"check = true\n{TEXT}\n[[models]]\nname = 'other'\nsource = 'nowhere:other'\n"
    models = {
        "net": tb.models.from_torch(Net(size=7)),
        "other": tb.models.from_callable(lambda images: images[:, 0, 0, :5].argmax(1)),
    }
    with tb.run_study(case.study(), case.out, models=models) as results:
        first, second = results.exactness
        assert first.startswith("The model 'net': Repeated runs may differ")
        assert second.startswith("The model 'other': Exact, compared by labels only")
        assert results.results().exactness.seen is Seen.NOT_KNOWN
        assert results.results(model="other").exactness.exact


def test_a_store_that_does_not_say_is_not_known_and_an_exact_one_is_not_resumed(
    case: Case,
) -> None:
    assert case.run(Net(), stop_at=6).unfinished
    with Store(case.out / "shard-0.sqlite", write=True) as store:
        rewrite_record(store, "exactness", {})
    with StudyStatus(case.out) as status:
        assert status.exactness == ["Not known: repeated runs may or may not agree bit for bit."]
    with pytest.raises(FileError, match="it is not known whether the model 'net' is exact"):
        case.run(Net())


@pytest.mark.parametrize("size", [32, 7])
def test_the_command(
    case: Case,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    size: int,
) -> None:
    module = f"exact_net_{size}"
    (case.folder / f"{module}.py").write_text(CODE.format(size=size))
    monkeypatch.chdir(case.folder)
    monkeypatch.syspath_prepend(str(case.folder))
    given = ["--model", f"{module}:net", "--images", "images.npz", "--out", "out"]
    given += ["--budget", "40", "--device", "cpu", "--exact"]
    with pytest.raises(SystemExit) as end:
        main(["attack", *given])
    out, err = (" ".join(text.split()) for text in capsys.readouterr())
    if size == 7:
        assert end.value.code == 2
        assert "--exact is set, and a row of the model depends on its place in the batch" in err
        assert "another --batch-size" in err
        assert not case.out.exists()
    else:
        assert end.value.code in (0, None), err
        assert "Exact: a row's logits depend on nothing but the row, in batches of 32" in out
        assert '"exact": true' in (case.out / "ledger.json").read_text()
        with pytest.raises(SystemExit):
            main(["status", "out"])
        assert "in batches of 32 (float32, contiguous)" in " ".join(capsys.readouterr().out.split())
