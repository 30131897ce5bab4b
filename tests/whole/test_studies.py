"""Studies that are ended by whatever it is go on, and end with the numbers of an unbroken one."""

from __future__ import annotations

import contextlib
import random
import re
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_studies import contents, rewrite_record
from torch import Tensor, nn

import tollbox as tb
from tollbox import Stop, Study
from tollbox.core.model import Model
from tollbox.errors import FileError, InputError
from tollbox.models.network import Network
from tollbox.studies import StudyResults, inputs
from tollbox.studies.create import create, holds
from tollbox.studies.events import CellEnded, ModelStarted, Options, Outcome
from tollbox.studies.inputs import load
from tollbox.studies.job import model_speed
from tollbox.studies.run import run_folder
from tollbox.studies.store.codec import unpack_answers
from tollbox.studies.store.connection import StoreError
from tollbox.studies.store.store import Store, shard_path
from tollbox.workers.executors import Stopper
from tollbox.workers.process import ProcessPool

TEXT = """\
name = "small"
budget = 120
prices = [1, 10]
batch_size = 16
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
preset = "stealthy-hsja"
"""
GOAL = "\n[goal]\ntarget = {}\nstart = 'start.npz'\n"


def do_nothing() -> None:
    pass


class Net(nn.Module):
    """Five classes; counts rows, and does as it is told at a certain call."""

    def __init__(self, seed: int = 3) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.first = nn.Parameter(torch.randn(192, 16, generator=generator, dtype=torch.float64))
        self.second = nn.Parameter(torch.randn(16, 5, generator=generator, dtype=torch.float64))
        self.rows = self.calls = 0
        self.at = 0
        self.do: Callable[[], None] = do_nothing
        self.shift = 0

    def forward(self, images: Tensor) -> Tensor:
        self.rows += len(images)
        self.calls += 1
        if self.calls == self.at:
            self.do()
        hidden = torch.tanh(((images.flatten(1) - 0.5)[:, :, None] * self.first).sum(1))
        return ((hidden[:, :, None] * self.second).sum(1)).roll(self.shift, 1)


def model(net: Net, quantize: int | None = None) -> Model:
    return tb.models.from_torch(net.eval(), dtype=torch.float64, quantize=quantize)


def pixels(count: int = 3) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, (count, 3, 8, 8), np.uint8)


def labels_of(images: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return Net()(torch.from_numpy(images).double() / 255).argmax(1).numpy()


class Case:
    """A folder with images, and a study of them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out = folder, folder / "out"
        self.text = TEXT
        np.savez(folder / "images.npz", images=pixels(), labels=labels_of(pixels()))

    def study(self) -> Study:
        return Study.from_text(self.text, self.folder, "small.toml", files=False)

    def run(
        self,
        net: Net,
        stopper: Stopper | None = None,
        out: Path | None = None,
        quantize: int | None = None,
        **options: Any,
    ) -> Outcome:
        """Begin, or go on."""
        loaded = load(self.study(), {"net": model(net, quantize)})
        place = out or self.out
        if not holds(loaded.study, place):
            create(loaded, place, "python")
        how = Options(**options)
        return run_folder(place, how, lambda event: None, stopper or Stopper(), loaded)

    def unbroken(self, quantize: int | None = None) -> dict[int, tuple[Any, ...]]:
        place = self.folder / f"unbroken-{len(list(self.folder.iterdir()))}"
        outcome = self.run(Net(), out=place, quantize=quantize)
        assert outcome == Outcome()
        return contents(place)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


# -- stopped and resumed --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["plain", "metered", "8 bits", "targeted", "misclassified"])
def test_interrupted_again_and_again_and_resumed(case: Case, mode: str) -> None:
    quantize = 8 if mode == "8 bits" else None
    if mode == "metered":
        case.text = "metered = true\n" + case.text
    if mode == "misclassified":
        wrong = labels_of(pixels())
        wrong[1] = (wrong[1] + 1) % 5
        np.savez(case.folder / "images.npz", images=pixels(), labels=wrong)
    if mode == "targeted":
        many = pixels(40)
        found = labels_of(many)
        target = int(np.bincount(found).argmax())
        source, start = many[found != target][:3], many[found == target][:3]
        np.savez(case.folder / "images.npz", images=source, labels=found[found != target][:3])
        np.savez(case.folder / "start.npz", images=start, labels=[target] * 3)
        case.text += GOAL.format(target)
    wanted = case.unbroken(quantize)
    assert len(wanted) == 12
    rng, runs = random.Random(mode), 0
    while True:
        net, stopper = Net(), Stopper()
        net.at, net.do = rng.randint(5, 70), stopper
        outcome = case.run(net, stopper, quantize=quantize)
        runs += 1
        done = contents(case.out)
        assert len(done) + len(outcome.unfinished) == 12
        assert all(wanted[cell] == done[cell] for cell in done)
        if not outcome.unfinished:
            break
        assert runs < 60
    assert done == wanted
    assert runs > 2


@pytest.mark.slow
def test_a_time_limit_again_and_again(case: Case) -> None:
    wanted, runs, stopped = case.unbroken(), 0, 0
    while len(contents(case.out) if case.out.exists() else {}) < 12:
        net, limit = Net(), 0.05 * (runs + 1)
        net.at, net.do = 10 + 5 * runs, partial(time.sleep, limit)  # the time is up by then
        outcome = case.run(net, time_limit=limit)
        reasons = {r.stop for r in outcome.unfinished.values() if r is not None}
        assert reasons <= {Stop.TIME_LIMIT}
        stopped += bool(reasons)
        runs += 1
        assert runs < 60
    assert stopped
    assert contents(case.out) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("what", ["record", "save"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_what_could_not_be_written_is_done_again_and_nothing_else(
    case: Case, monkeypatch: pytest.MonkeyPatch, what: str, when: str
) -> None:
    """Metered: a row is asked once, but for those of a batch that could not be recorded."""
    case.text = "metered = true\n" + case.text
    wanted = case.unbroken()
    original = getattr(Store, what)
    calls = lost = asked = 0
    rng = random.Random(f"{what} {when}")
    most = rng.randint(3, 25)

    def refusing(self: Store, *given: Any) -> None:
        nonlocal calls, lost
        calls += 1
        refused = calls == most
        if not refused or when == "after":
            original(self, *given)
        if refused:
            if what == "record" and when == "before":
                lost += sum(len(a.labels) for a in unpack_answers(given[0]))
            raise StoreError("no room")

    monkeypatch.setattr(Store, what, refusing)
    for _ in range(60):
        net = Net()
        calls, most = 0, rng.randint(3, 25 if what == "record" else 5)
        with contextlib.suppress(StoreError):
            case.run(net)
            asked += net.rows
            break
        asked += net.rows
    assert contents(case.out) == wanted
    with StudyResults(case.out) as found:
        assert asked - lost == sum(row["queries"] for row in found.rows())


def test_a_finished_study_asks_nothing(case: Case) -> None:
    case.run(Net())
    before, net = contents(case.out), Net()
    case.run(net)
    assert net.rows == 0
    assert contents(case.out) == before


def test_study_run_begins_and_goes_on(case: Case) -> None:
    wanted = case.unbroken()
    with tb.run_study(
        case.study(), case.out, models={"net": model(Net())}, time_limit=0.1
    ) as found:
        first = len(found)
    with tb.run_study(case.study(), case.out, models={"net": model(Net())}) as found:
        assert first <= len(found) == 12
    assert contents(case.out) == wanted


def test_a_model_is_loaded_and_fingerprinted_once(
    tiny_study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    for module, name in ((Network, "fit"), (inputs, "model_fingerprint")):
        original = getattr(module, name)

        def counted(
            *values: Any, name: str = name, original: Callable[..., Any] = original, **more: Any
        ) -> Any:
            calls.append(name)
            return original(*values, **more)

        monkeypatch.setattr(module, name, counted)
    with tb.run_study(tiny_study, tmp_path / "out") as results:
        assert len(results) == 12
    assert sorted(calls) == ["fit", "model_fingerprint"]


@pytest.mark.slow
def test_two_processes_do_what_one_does(case: Case) -> None:
    wanted = case.unbroken()
    case.text = "workers = 2\n" + case.text
    events: list[Any] = []
    models = {"net": model(Net())}
    with tb.run_study(case.study(), case.out, models=models, tell=events.append) as results:
        assert len(results) == 12
    assert contents(case.out) == wanted
    assert sorted(e.cell for e in events if isinstance(e, CellEnded)) == list(range(12))
    other, labels = pixels(), labels_of(pixels())
    other[1, 0, 0, 0] ^= 1
    np.savez(case.folder / "images.npz", images=other, labels=labels)
    with pytest.raises(FileError, match=r"content of image 1 \(1\) of .* changed; restore"):
        case.run(Net())


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many processes are begun, each time."""
    begun: list[int] = []

    class Counted(ProcessPool):
        def __init__(self, count: int, *arguments: Any) -> None:
            begun.append(count)
            super().__init__(count, *arguments)

    monkeypatch.setattr("tollbox.studies.run.ProcessPool", Counted)
    return begun


def shard_files(folder: Path) -> int:
    return len(list(folder.glob("shard-*.sqlite")))


def test_no_more_shards_than_cells_nor_than_cores_unless_forced(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    case.text = "workers = 200\n" + case.text
    loaded = load(case.study(), {"net": model(Net())})
    for cores, force, shards in ((2, False, 2), (64, False, 12), (2, True, 12)):
        monkeypatch.setattr("tollbox.workers.executors.cores", lambda cores=cores: cores)
        out = case.folder / f"{cores} {force}"
        create(loaded, out, "python", force_workers=force)
        assert shard_files(out) == shards
        with StudyResults(out) as results:
            assert (results.record.shards, len(results.grid)) == (shards, 12)
    case.text = case.text.replace("workers = 200", "workers = 1000")
    with pytest.raises(InputError, match=r"workers is 1000: expected .* 1 to 256\.$"):
        case.study()


@pytest.mark.slow
def test_more_workers_than_cores_are_fewer_with_a_warning(
    case: Case, monkeypatch: pytest.MonkeyPatch, counts: list[int]
) -> None:
    wanted = case.unbroken()
    case.text = "workers = 200\n" + case.text
    monkeypatch.setattr("tollbox.workers.executors.cores", lambda: 2)
    models = {"net": model(Net())}
    warning = (
        "workers is 200, and this machine has 2 cores: no more processes than cores are used; "
        "force_workers=True lifts that."
    )
    with (
        pytest.warns(UserWarning, match=f"^{re.escape(warning)}$"),
        tb.run_study(case.study(), case.out, models=models) as results,
    ):
        assert len(results) == 12
    assert contents(case.out) == wanted
    assert (counts, shard_files(case.out)) == ([2], 2)
    case.run(Net())  # nothing is left
    assert counts == [2, 1]


@pytest.mark.slow
def test_shards_are_run_by_as_many_processes_as_there_are_cores_now(
    case: Case, monkeypatch: pytest.MonkeyPatch, counts: list[int]
) -> None:
    """Begun where there were more, and then forced; shards that are done have no process."""
    wanted = case.unbroken()
    case.text = "workers = 3\n" + case.text
    monkeypatch.setattr("tollbox.workers.executors.cores", lambda: 3)
    create(load(case.study(), {"net": model(Net())}), case.out, "python")
    monkeypatch.setattr("tollbox.workers.executors.cores", lambda: 1)
    assert not case.run(Net()).unfinished
    assert contents(case.out) == wanted
    with Store(shard_path(case.out, 0), write=True) as store:
        store.forget([0, 3])
    case.run(Net(), force_workers=True)
    with Store(shard_path(case.out, 0), write=True) as store:
        store.forget([0, 3])
    with Store(shard_path(case.out, 2), write=True) as store:
        store.forget([2])
    case.run(Net(), force_workers=True)
    assert contents(case.out) == wanted
    assert counts == [1, 1, 2]


@pytest.mark.slow
def test_the_time_limit_is_for_all_shards_together(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    case.text = "workers = 3\n" + case.text.replace("budget = 120", "budget = 1e9")
    monkeypatch.setattr("tollbox.workers.executors.cores", lambda: 3)
    create(load(case.study(), {"net": model(Net())}), case.out, "python")
    monkeypatch.setattr("tollbox.workers.executors.cores", lambda: 1)
    events: list[Any] = []
    loaded = load(case.study(), {"net": model(Net())})
    how = Options(time_limit=1.0)
    outcome = run_folder(case.out, how, events.append, Stopper(), loaded)
    assert outcome.unfinished
    assert [e.worker for e in events if isinstance(e, ModelStarted)] == [0]  # others had no time


def test_a_model_is_tried_with_few_rows(case: Case) -> None:
    text, rows = case.text, list[int]()

    def counting(images: Tensor) -> Tensor:
        rows.append(len(images))
        return torch.zeros(len(images), dtype=torch.long)

    for batch, most in ((None, 256), (700, 700)):
        case.text = text.replace("batch_size = 16", f"batch_size = {batch or 65536}")
        counted = tb.models.from_callable(counting, batch=batch)
        loaded = load(case.study(), {"net": counted})
        assert model_speed(loaded, counted) is not None
        loaded.model_fingerprint(loaded.study.models[0])
        assert max(rows) == most


def test_a_batch_that_no_engine_takes_is_refused_before_anything_is_made(case: Case) -> None:
    study = case.study()
    with pytest.raises(InputError, match=r"^batch_size is 1000000000: expected .* 1 to 65536"):
        replace(study, execution=replace(study.execution, batch_size=10**9))


def test_a_time_limit_that_is_none(case: Case) -> None:
    with pytest.raises(InputError, match=r"^time_limit is 0: expected seconds, more than 0\.$"):
        tb.run_study(case.study(), case.out, time_limit=0)
    with pytest.raises(InputError, match=r"^models has 'x': expected names of the study: net\.$"):
        tb.run_study(case.study(), case.out, models={"x": model(Net())})


# -- what has changed -----------------------------------------------------------------------------


def half_done(case: Case, at: int = 40) -> None:
    net, stopper = Net(), Stopper()
    net.at, net.do = at, stopper
    assert case.run(net, stopper).unfinished


def test_changed_images_are_told(case: Case) -> None:
    wanted = case.unbroken()
    half_done(case)
    file = case.folder / "images.npz"
    before = file.read_bytes()
    other, labels = pixels(), labels_of(pixels())
    other[1, 0, 0, 0] ^= 1
    relabelled = labels.copy()
    relabelled[2] = (relabelled[2] + 1) % 5
    changes = {
        r"the content of image 1 \(1\) of .*images.npz changed": (other, labels),
        r"the label of image 2 \(2\) of .*images.npz changed": (pixels(), relabelled),
        r"the number of images of .*images.npz changed from 3 to 2": (pixels()[:2], labels[:2]),
    }
    for words, (images, its_labels) in changes.items():
        np.savez(file, images=images, labels=its_labels)
        net = Net()
        with pytest.raises(FileError, match=rf"cannot be resumed: {words}; restore the images, or"):
            case.run(net)
        assert net.rows == 0
    file.write_bytes(before)
    case.run(Net())
    assert contents(case.out) == wanted


def test_a_changed_model_is_told(case: Case) -> None:
    wanted = case.unbroken()
    half_done(case)
    changed = Net()
    with torch.no_grad():
        changed.first[0, 0] += 1e-3
    with pytest.raises(FileError, match=r"the weights of the model 'net' .* changed; restore"):
        case.run(changed)
    other = tb.models.from_callable(
        lambda images: (Net()(images).argmax(1) + 1) % 5, dtype=torch.float64
    )
    loaded = load(case.study(), {"net": other})
    with pytest.raises(FileError, match=r"labels for some images of the model 'net' .* changed"):
        run_folder(case.out, Options(), lambda event: None, Stopper(), loaded)
    case.run(Net())
    assert contents(case.out) == wanted


def test_a_model_that_is_run_otherwise_is_told(case: Case) -> None:
    wanted = case.unbroken()
    half_done(case)
    kept = dict(StudyResults(case.out).record.models["net"].running or {})
    assert kept == {"dtype": "float64", "channels_last": "false"}
    model = tb.models.from_torch(Net().eval())
    for words, changed in (
        ("tf32 of the model 'net' .* changed from not set to false", {"tf32": "false"}),
        (
            "channels_last of the model 'net' .* changed from false to true",
            {"channels_last": "true"},
        ),
    ):
        loaded = load(case.study(), {"net": replace(model, running={**model.running, **changed})})
        with pytest.raises(FileError, match=f"{words}; restore it"):
            run_folder(case.out, Options(), lambda event: None, Stopper(), loaded)
    case.run(Net())
    assert contents(case.out) == wanted


def test_a_changed_file_of_prices_is_told(case: Case) -> None:
    prices = case.folder / "per-class.csv"
    prices.write_text("class,price\n1,5\ndefault,1\n")
    case.text = case.text.replace("prices = [1, 10]", 'prices = [1, "per-class.csv"]')
    wanted = case.unbroken()
    half_done(case)
    prices.write_text("class,price\n1,6\ndefault,1\n")
    words = r"small.toml: the values of the price 'per-class' changed since .*restore the file"
    with pytest.raises(FileError, match=words):
        StudyResults(case.out)
    prices.write_text("class,price\n1,5\ndefault,1\n")
    case.run(Net())
    assert contents(case.out) == wanted


def test_a_study_under_a_price_that_grows_goes_on_where_it_was(case: Case) -> None:
    prices = case.folder / "growing.csv"
    prices.write_text("flagged,price\n1,1\n5,8\n6,again\n")
    case.text = case.text.replace("prices = [1, 10]", 'prices = [1, "growing.csv"]')
    wanted = case.unbroken()
    half_done(case)
    prices.write_text("flagged,price\n1,1\n5,9\n6,again\n")
    with pytest.raises(FileError, match=r"the values of the price 'growing' changed"):
        StudyResults(case.out)
    prices.write_text("flagged,price\n1,1\n5,8\n6,again\n")
    case.run(Net())
    assert contents(case.out) == wanted
    found = [r for r in StudyResults(case.out).results(price="growing") if r.ledger.flagged >= 5]
    assert found
    for result in found:
        ledger, (rounds, rest) = result.ledger, divmod(result.ledger.flagged, 5)
        assert ledger.cost == rounds * (4 + 8) + rest + ledger.other


def test_another_study_in_the_folder_is_told(case: Case) -> None:
    half_done(case)
    before = case.text
    case.text = before.replace("budget = 120", "budget = 130")
    with pytest.raises(InputError, match=r"has another study.*line 2 of small.toml is the first"):
        case.run(Net())
    case.text = before
    case.run(Net())


# -- cells that do not ask what they asked before -------------------------------------------------


def another_version(case: Case) -> None:
    """As if another version of the package drew other random numbers."""
    case.text = case.text.replace('name = "small"', 'name = "small"\nseeds = [9]')
    with Store(case.out / "shard-0.sqlite", write=True) as store:
        rewrite_record(store, "text", case.text)
        rewrite_record(store, "environment", {**vars(store.study.environment), "torch": "0.4"})


def test_cells_that_diverge_are_named_and_begun_anew_if_that_is_wanted(case: Case) -> None:
    old = case.unbroken()
    half_done(case)
    done = contents(case.out)
    assert 0 < len(done) < 12
    with Store(case.out / "shard-0.sqlite", write=False) as store:
        begun = set(store.answers(set(range(12)))) - set(done)
    assert begun
    another_version(case)
    new = case.unbroken()
    outcome = case.run(Net())
    assert outcome.restarted == 0
    assert outcome.unfinished == {}
    assert set(outcome.diverged) <= begun
    assert outcome.diverged
    for why in outcome.diverged.values():
        assert why.startswith("ask ")
        assert f"(torch was 0.4, is {torch.__version__})" in why
    now = contents(case.out)
    assert len(now) == 12 - len(outcome.diverged)
    assert all(now[cell] == done[cell] for cell in done)
    again = case.run(Net(), rerun=True)
    assert (again.restarted, again.diverged) == (len(outcome.diverged), {})
    now = contents(case.out)
    assert len(now) == 12
    for cell in outcome.diverged:
        assert now[cell] == new[cell]
        assert now[cell] != old[cell]
    assert case.run(Net()) == Outcome()


def test_a_rerun_that_is_cut_off_goes_on(case: Case) -> None:
    half_done(case)
    another_version(case)
    new = case.unbroken()
    diverged = set(case.run(Net()).diverged)
    assert diverged
    for _ in range(60):
        net, stopper = Net(), Stopper()
        net.at, net.do = 12, stopper
        outcome = case.run(net, stopper, rerun=True)
        if not outcome.unfinished and not outcome.diverged:
            break
    now = contents(case.out)
    assert len(now) == 12
    assert all(now[cell] == new[cell] for cell in diverged)


# -- errors of the model --------------------------------------------------------------------------


def test_failed_cells_are_run_again_if_that_is_wanted_and_no_others(case: Case) -> None:
    wanted = case.unbroken()

    class Broken(Net):
        def forward(self, images: Tensor) -> Tensor:
            if self.calls > 40:
                raise RuntimeError("out of order")
            return super().forward(images)

    case.run(Broken())
    done = contents(case.out)
    failed = {cell for cell, told in done.items() if told[0] is Stop.MODEL_ERROR}
    assert 0 < len(failed) < 12
    assert all("out of order" in done[cell][1] for cell in failed)
    net = Net()
    case.run(net)
    assert net.rows == 0
    assert contents(case.out) == done
    case.run(net, failed=True)
    assert contents(case.out) == wanted
    with Store(case.out / "shard-0.sqlite", write=False) as store:
        told = store.answers(set(range(12)))
    last = max(a.ask for cell in failed for a in told[cell])
    assert last > 1  # they went on from where they had failed


def test_a_model_that_answers_differently_is_reported(case: Case) -> None:
    half_done(case)
    net = Net()
    loaded = load(case.study(), {"net": model(net)})
    original = net.forward

    def moody(images: Tensor) -> Tensor:
        given = original(images)
        return (
            given if torch.equal(images[:1], loaded.images.images[:1].double()) else given.roll(1)
        )

    net.forward = moody  # type: ignore[method-assign]
    run_folder(case.out, Options(), lambda event: None, Stopper(), loaded)
    with StudyResults(case.out) as found:
        warned = [row for row in found.rows() if "differently" in row["warnings"]]
        told = [r for r in found.results() if r.warnings]
    assert warned
    assert len(warned) == len(told)
    assert "points differently the second time" in told[0].warnings[0]


def test_a_median_is_over_the_runs_that_were_attacked_and_not_cut_short(case: Case) -> None:
    """As the medians of results: not those that failed, nor those misclassified anyway."""
    wrong = labels_of(pixels())
    wrong[1] = (wrong[1] + 1) % 5
    np.savez(case.folder / "images.npz", images=pixels(), labels=wrong)

    class Broken(Net):
        def forward(self, images: Tensor) -> Tensor:
            if self.calls > 60:
                raise RuntimeError("out of order")
            return super().forward(images)

    case.run(Broken())
    with StudyResults(case.out) as results:
        stops = {result.stop for result in results.results()}
        assert stops == {Stop.BUDGET, Stop.MODEL_ERROR, Stop.ALREADY_MISCLASSIFIED}
        for series, status in zip(results.grid.series, results.status(), strict=True):
            runs = results.results(series.attack.name, series.tariff.name)
            counted = [r.distance for r in runs if r.stop is Stop.BUDGET]
            assert status.failed == sum(r.stop is Stop.MODEL_ERROR for r in runs)
            np.testing.assert_equal(status.median, np.median(counted) if counted else np.nan)


# -- told again -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["plain", "metered", "8 bits", "resumed"])
def test_a_cell_replayed_with_a_smaller_budget_is_what_it_had_reached(
    case: Case, mode: str
) -> None:
    if mode == "metered":
        case.text = "metered = true\n" + case.text
    if mode == "resumed":
        half_done(case)
    case.run(Net(), quantize=8 if mode == "8 bits" else None)
    with StudyResults(case.out) as found:
        for result in found.results():
            whole = found.replayed(result.index)
            assert (whole.stop, whole.ledger) == (result.stop, result.ledger)
            assert whole.improvements == result.improvements
            assert whole.trace == result.trace
            if result.adversarial is None:
                assert whole.adversarial is None
            else:
                assert torch.equal(whole.adversarial, result.adversarial)
            for budget in (11.0, 30.0, 55.5, 119.0):
                again = found.replayed(result.index, budget)
                assert again.distance == result.distance_at(budget)
                assert again.stop is Stop.BUDGET
                assert again.ledger.cost <= budget


def test_a_cell_that_is_not_finished_cannot_be_replayed(case: Case) -> None:
    half_done(case)
    left = next(cell for cell in range(12) if cell not in contents(case.out))
    with (
        StudyResults(case.out) as found,
        pytest.raises(InputError, match=f"cell {left} is not finished: expected a finished cell"),
    ):
        found.replayed(left)


def test_answers_carry_no_price(case: Case) -> None:
    """An attack that does not look at the price, priced again, is the run at that price."""
    case.text = case.text.replace('preset = "stealthy-hsja"', 'preset = "hsja"')
    case.text = case.text.replace("budget = 120", "max_queries = 60")
    case.run(Net())
    with StudyResults(case.out) as found:
        dear = [row for row in found.rows() if row["price"] == "10"]
        cheap = [row for row in found.rows(price=10) if row["price"] == "1"]
        assert len(dear) == 6
        for one, other in zip(dear, cheap, strict=True):
            for key in ("attack", "image", "queries", "flagged", "cost", "distance"):
                assert one[key] == other[key]
        free = list(found.rows(price=float("inf")))
        assert all(row["cost"] == row["flagged"] for row in free)
