"""Studies with a surrogate: it is named, loaded when it is needed, and the same on resume."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from small_studies import TEXT, StudyFolder, contents, page_of, write_study
from torch import Tensor, nn

import tollbox as tb
from tollbox import Study
from tollbox.cli.app import main
from tollbox.errors import FileError, InputError
from tollbox.studies import StudyResults
from tollbox.studies.create import create
from tollbox.studies.fingerprint import recorded_study
from tollbox.studies.inputs import load
from tollbox.studies.specs import SurrogateSpec
from tollbox.studies.store.record import difference
from tollbox.studies.store.store import Store

ATTACK = '\n[[attacks]]\npreset = "frugal+surrogate"\n'
SOURCE = 'surrogate = "own.pt2"\n'
OTHERS = """

class Hard(nn.Module):
    def forward(self, images):
        return nn.functional.one_hot(net(images).argmax(1), 5).float()


hard = Hard()


class Score(nn.Module):
    def forward(self, images):
        return images.mean((1, 2, 3))[:, None]


score = Score()
"""


class Killed(BaseException):
    """As if the process had been ended."""


class Own(nn.Module):
    """Linear, of so many classes."""

    def __init__(self, seed: int, classes: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.weight = nn.Parameter(torch.randn(192, classes, generator=generator))

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1) @ self.weight


def write_own(file: Path, seed: int = 0, classes: int = 5, dynamic: bool = True) -> None:
    """A surrogate as an exported program."""
    shapes = ({0: torch.export.Dim("n", min=1, max=4096)},) if dynamic else None
    example = (torch.rand(2, 3, 8, 8),)
    program = torch.export.export(Own(seed, classes), example, dynamic_shapes=shapes)
    torch.export.save(program, file)


class Case:
    """A folder with a small study whose last attack has a surrogate."""

    def __init__(self, written: StudyFolder, patch: pytest.MonkeyPatch) -> None:
        self.written, self.patch, self.folder = written, patch, written.folder
        self.own, self.out = self.folder / "own.pt2", self.folder / "out"
        write_own(self.own)
        self.write(SOURCE)

    def write(self, surrogate: str, head: str = "") -> None:
        text = head + TEXT.replace('\n[[attacks]]\npreset = "a-hsja"\n', ATTACK) + surrogate
        write_study(self.folder, self.written.module, text)
        self.written.code.write_text(self.written.code.read_text() + OTHERS)

    def run(self, out: Path | None = None) -> dict[int, tuple[Any, ...]]:
        """Begin, or go on."""
        tb.run_study(self.written.study(), out or self.out, trust=True).close()
        return contents(out or self.out)

    def cut_off(self, batches: int = 12) -> None:
        """As killed after so many batches were recorded."""
        original, calls = Store.record, itertools.count(1)

        def record(store: Store, answers: Any) -> None:
            original(store, answers)
            if next(calls) == batches:
                raise Killed

        with self.patch.context() as patch:
            patch.setattr(Store, "record", record)
            with pytest.raises(Killed):
                self.run()
        assert len(contents(self.out)) < 12


@pytest.fixture
def case(study_folder: StudyFolder, monkeypatch: pytest.MonkeyPatch) -> Case:
    return Case(study_folder, monkeypatch)


Command = Callable[..., tuple[int, str]]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*tokens: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as end:
            main(list(tokens))
        out, err = capsys.readouterr()
        return int(end.value.code or 0), " ".join((out + err).split())

    return run


# -- trust ----------------------------------------------------------------------------------------


def test_neither_a_study_nor_a_store_grants_trust(case: Case, command: Command) -> None:
    case.cut_off()
    for tokens in (["resume", "out"], ["run", "study.toml", "--out", "new"]):
        code, text = command(*tokens)
        assert (code, "own.pt2 is an exported program" in text) == (2, True)
    with pytest.raises(InputError, match="trust=True"):
        tb.run_study(case.written.study(), case.out)
    for key in ("trust = true", "trust_model = true"):
        case.write(SOURCE, f"{key}\n")
        assert command("run", "study.toml", "--out", "new")[0] == 2
    assert not (case.folder / "new").exists()
    assert b"trust" not in case.out.joinpath("shard-0.sqlite").read_bytes()


# -- run and resumed ------------------------------------------------------------------------------


def test_it_takes_part(case: Case) -> None:
    with_own = case.run()
    assert len(with_own) == 12
    case.write("")
    plain = case.written.file.read_text().replace("frugal+surrogate", "frugal")
    case.written.file.write_text(plain)
    without = case.run(case.folder / "plain")
    apart = [cell for cell in with_own if with_own[cell] != without[cell]]
    assert apart
    assert set(apart) <= set(range(6, 12))  # the cells of the second attack


def test_a_killed_study_goes_on_with_the_same(case: Case) -> None:
    wanted = case.run(case.folder / "unbroken")
    case.cut_off()
    assert case.run() == wanted


def test_another_attack_starts_with_it(case: Case, command: Command) -> None:
    usual = case.written.file.read_text()
    other = usual.replace(ATTACK, ATTACK.replace("frugal+surrogate", "hsja"))
    transfer = other.replace(SOURCE, 'start.part = "Transfer"\n' + SOURCE)
    case.written.file.write_text(transfer)
    wanted = case.run(case.folder / "unbroken")
    case.cut_off()
    assert case.run() == wanted
    case.written.file.write_text(other.replace(SOURCE, ""))
    without = case.run(case.folder / "plain")
    assert any(wanted[cell] != without[cell] for cell in range(6, 12))
    for text, told in (
        (transfer.replace(SOURCE, ""), "is missing, and the start Transfer needs one"),
        (other, "is given, and the preset 'hsja' takes none"),
    ):
        case.written.file.write_text(text)
        code, said = command("run", "study.toml", "--out", "new")
        assert (code, told in said) == (2, True)


@pytest.mark.slow
def test_two_processes_do_what_one_does(case: Case) -> None:
    wanted = case.run()
    case.write(SOURCE, "workers = 2\n")
    out = case.folder / "two"
    tb.run_study(case.written.study(), out, force_workers=True, trust=True).close()
    assert contents(out) == wanted
    with StudyResults(out, trust_code=True) as results:
        assert results.record.shards == 2


def test_other_weights_are_refused(case: Case, command: Command) -> None:
    wanted = case.run(case.folder / "unbroken")
    case.cut_off()
    done = contents(case.out)
    write_own(case.own, seed=1)
    told = (
        r"out cannot be resumed: the weights of the surrogate of the attack 'frugal\+surrogate' "
        r"\(own\.pt2\) changed; restore it, or start a new study in another"
    )
    with pytest.raises(FileError, match=told):
        case.run()
    code, text = command("resume", "out", "--trust-model")
    assert code == 2
    assert "(own.pt2) changed; restore it" in text
    case.own.unlink()
    code, text = command("resume", "out", "--trust-model")
    assert code == 2
    assert "own.pt2 does not exist" in text
    assert contents(case.out) == done
    write_own(case.own)
    assert command("resume", "out", "--trust-model")[0] == 0
    assert contents(case.out) == wanted


def test_several_with_their_mean_and_std(case: Case) -> None:
    module = case.written.module
    table = f'surrogate.source = ["own.pt2", "{module}:net"]\nsurrogate.mean = 0.5\n'
    case.write(f"{table}surrogate.std = [0.2, 0.3, 0.4]\n")
    loaded = load(case.written.study(), trust=True)
    attack: Any = loaded.attack(loaded.study.attacks[1])
    net = load(case.written.study(), trust=True).model(loaded.study.models[0]).network
    assert net is not None
    same = tb.Surrogate([Own(0, 5), net], mean=(0.5,), std=(0.2, 0.3, 0.4), size=[8, None])
    assert attack.surrogate == same
    assert attack.surrogate.classes(torch.rand(3, 8, 8)) == (5, 5)


# -- read -----------------------------------------------------------------------------------------


def test_it_is_read_without_being_loaded(case: Case, command: Command) -> None:
    case.run()
    case.own.unlink()
    for name in ("status", "export", "report"):
        code, text = command(name, "out")
        assert code == 0, text
    with StudyResults(case.out) as results:
        digest = tb.Surrogate(Own(0, 5), size=8).digest
        assert results.surrogates == {"frugal+surrogate": digest}
        page = page_of(results)
        assert page["environment"]["surrogate of frugal+surrogate"] == digest
        assert (
            page["gallery"]["note"] == "Not shown, because a surrogate is needed: frugal+surrogate."
        )
        assert {row["attack"] for row in page["gallery"]["rows"]} == {"surfree"}


def test_a_cell_is_replayed_with_it_alone(case: Case) -> None:
    case.run()
    with StudyResults(case.out) as results:
        wanted = results.results(attack="frugal+surrogate")[0]
        needed = r"the attack 'frugal\+surrogate' needs its surrogate, .* set trust_code"
        with pytest.raises(InputError, match=needed):
            results.replayed(wanted.index)
    with StudyResults(case.out, trust_code=True) as results:
        again = results.replayed(wanted.index)
        assert again.improvements == wanted.improvements
    write_own(case.own, seed=1)
    with StudyResults(case.out, trust_code=True) as results:
        assert results.replayed(0).distance == results.results()[0].distance
        with pytest.raises(FileError, match=r"the weights of the surrogate .* changed"):
            results.replayed(wanted.index)


def test_a_study_in_memory_keeps_it(case: Case) -> None:
    case.write('surrogate = {source = "own.pt2", mean = [0.5, 0.4, 0.3], std = 2.0}\n')
    study = case.written.study()
    again = Study(
        name=study.name,
        images=study.images,
        models=study.models,
        attacks=study.attacks,
        tariffs=study.tariffs,
        folder=study.folder,
        device="cpu",
        execution=tb.Execution(batch_size=16),
    )
    assert again.attacks == study.attacks
    assert Study.from_text(again.text, study.folder, "again.toml").attacks == study.attacks
    create(load(again, trust=True), case.out, "python")
    with StudyResults(case.out) as results:
        assert recorded_study(results.record, files=True).attacks == study.attacks


def test_settings_as_lists(case: Case) -> None:
    study = case.written.study()
    usual, spec = study.attacks[0], study.attacks[1]
    source = spec.surrogate.resolved[0]
    given = SurrogateSpec.of(source, mean=[0.5, 0.4, 0.3], size=[8, 8])
    inputs = load(replace(study, attacks=(usual, replace(spec, surrogate=given))), trust=True)
    attack = inputs.attack(inputs.study.attacks[1])
    assert attack.surrogate.settings["mean"] == (0.5, 0.4, 0.3)
    twin = replace(spec, surrogate=SurrogateSpec.of(source, mean=[0.5, 0.4, 0.3], size=[8, 8]))
    assert inputs.surrogate(twin) is attack.surrogate


# -- refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("surrogate", "told"),
    [
        ('"{module}:labels"', "{module}:labels is a function of images: expected a network that"),
        ('"{module}:hard"', "cannot be differentiated at an image of shape (3, 8, 8) (RuntimeErr"),
        ('"{module}:gone"', "has no attribute 'gone'"),
        ('"{module}:score"', "returns shape (1, 1): expected logits (n, classes) of at least two"),
        (
            '{source = "own.pt2", size = [8, 0]}',
            "surrogate.size is (8, 0): expected a length from 1",
        ),
        (
            '{source = "own.pt2", labels = "mine"}',
            "surrogate.labels is 'mine': expected \"own\", or none",
        ),
        (
            '{source = "own.pt2", std = [[1], [2]]}',
            "surrogate.std has 2 entries for 1 network: exp",
        ),
        ('"pair.pt2"', "pair.pt2 takes only batches of 2: expected one that takes a single image"),
        ('"study.toml"', "study.toml is neither an exported program nor TorchScript"),
        ('{source = "own.pt2", mean = [1, 2]}', "surrogate.mean has 2 numbers, but the images"),
    ],
)
def test_what_will_not_do_is_told_before_anything_is_written(
    case: Case, command: Command, surrogate: str, told: str
) -> None:
    write_own(case.folder / "pair.pt2", dynamic=False)
    module = case.written.module
    case.write(f"surrogate = {surrogate}\n".replace("{module}", module))
    line = case.written.file.read_text().splitlines().index(ATTACK.splitlines()[-1]) + 2
    before = sorted(case.folder.rglob("*"))
    for options in (["--out", "out"], ["--dry-run"]):
        code, text = command("run", "study.toml", "--trust-model", *options)
        assert code == 2
        place = f"study.toml, line {line}: the attack 'frugal+surrogate': surrogate"
        assert place in text
        assert told.replace("{module}", module) in text
    assert sorted(case.folder.rglob("*")) == before


def test_a_model_of_labels_only(case: Case) -> None:
    """Its number of classes is not known: those of the images must be there."""
    module = case.written.module
    text = case.written.file.read_text().replace(f"{module}:net", f"{module}:labels")
    case.written.file.write_text(text)
    largest = max(load(case.written.study(), trust=True).images.labels)
    write_own(case.own, classes=largest + 1)
    assert load(case.written.study(), trust=True).check_surrogates() == []
    write_own(case.own, classes=largest)
    [note] = load(case.written.study(), trust=True).check_surrogates()
    assert f"has other classes ({largest}), and is attacked on its own prediction" in note


def test_other_classes_run_resume_and_replay(case: Case, command: Command) -> None:
    """Nine classes beside five: the record knows the model's number, so that replays are equal."""
    write_own(case.own, seed=1, classes=9)
    with pytest.warns(tb.errors.ModelWarning, match=r"own\.pt2 .* has other classes \(9\), and is"):
        wanted = case.run(case.folder / "unbroken")
    with pytest.warns(tb.errors.ModelWarning):
        case.cut_off()
    assert case.run() == wanted
    with StudyResults(case.out, trust_code=True) as results:
        found = results.results(attack="frugal+surrogate")
        again = results.replays([(result.index, None) for result in found])
        assert [each.improvements for each in again] == [each.improvements for each in found]
    for tokens in (["status", "out"], ["run", "study.toml", "--trust-model", "--dry-run"]):
        code, text = command(*tokens)
        assert code == 0, text
        assert "has other classes (9), and is attacked on its own prediction" in text


def test_another_size_is_refused_on_resume(case: Case) -> None:
    """The size comes from the file, whose weights stay the same."""
    module, code = case.written.module, case.written.code
    case.write(f'surrogate = "{module}:sized"\n')
    code.write_text(code.read_text() + "\n\nsized = nn.Sequential(net)\n")
    study = case.written.study()
    settings = [
        load(study, trust=True).replay_fingerprint(study.attacks)
        for study in (study, replaced(study, size=(9, 9)), replaced(study, labels="own"))
    ]
    told = [difference(settings[0], each) for each in settings]
    assert told[0] is None
    assert str(told[1]).startswith("the size of the surrogate of the attack 'frugal+surrogate' (")
    assert str(told[1]).endswith("changed from None to (9, 9)")
    assert str(told[2]).endswith("changed from None to 'own'")


def replaced(study: Study, **settings: Any) -> Study:
    """With other settings of the surrogate."""
    first, second = study.attacks
    assert second.surrogate is not None
    changed = replace(second, surrogate=replace(second.surrogate, **settings))
    return replace(study, attacks=(first, changed), text="")


def test_settings_for_each_network(case: Case) -> None:
    module = case.written.module
    case.write(
        f'surrogate = {{source = ["own.pt2", "{module}:net"], mean = [[0.5], [0.4, 0.3, 0.2]], '
        'std = 2.0, size = [[8, 8], [8, 8]], labels = "own"}\n'
    )
    study = case.written.study()
    again = replaced(study)
    assert Study.from_text(again.text, study.folder, "again.toml").attacks == study.attacks
    loaded = load(study, trust=True)
    surrogate = loaded.surrogate(loaded.study.attacks[1])
    assert surrogate is not None
    assert surrogate.settings == {
        "mean": [(0.5,), (0.4, 0.3, 0.2)],
        "std": (2.0,),
        "size": (8, 8),
        "labels": "own",
    }
