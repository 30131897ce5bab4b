"""`tollbox attack --surrogate`: what is printed and kept of it, and what is refused."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tollbox as tb
from tollbox.cli.app import main
from tollbox.models import stand_ins
from tollbox.studies.store.store import Store

NETS = """
import torch
from torch import nn


def small():
    generator = torch.Generator().manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    with torch.no_grad():
        net[1].weight.copy_(torch.randn(10, 784, generator=generator))
        net[1].bias.zero_()
    return net


def seven():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 7))


class Large(nn.Module):  # 1,000 classes, for images of 64 x 64
    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        self.weight = nn.Parameter(torch.randn(1000, 64, generator=generator))

    def forward(self, images):
        return nn.functional.avg_pool2d(images, 8).reshape(-1, 64) @ self.weight.T


large = Large()


def colour():
    return nn.Sequential(nn.Conv2d(3, 2, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def brightness(images):
    return images.flatten(1)[:, :10]
"""
TRANSFORMER = "tollbox.models.stand_ins:vit_7"


class Killed(BaseException):
    """As if the process had been ended."""


class Case:
    """A working command, which tests add to."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capture = folder, capture
        (folder / "nets.py").write_text(NETS)
        shipped = tb.models.embedded()
        pixels = (shipped.images[:3, 0] * 255).round().to("cpu").byte().numpy()
        np.savez(folder / "set.npz", images=pixels[..., None], labels=shipped.labels[:3].numpy())

    def run(self, *options: str, attack: str = "frugal+surrogate") -> tuple[int, str, str]:
        return self.typed(
            *("attack", "--model", "tollbox.models.stand_ins:convolutional"),
            *("--images", "set.npz", "--budget", "150", "--price", "2", "--device", "cpu"),
            *("--attack", attack, "--out", "out", *options),
        )

    def typed(self, *tokens: str) -> tuple[int, str, str]:
        """Exit code, stdout, stderr."""
        with pytest.raises(SystemExit) as end:
            main(list(tokens))
        out, err = self._capture.readouterr()
        return int(end.value.code or 0), out, err

    def ledger(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads((self.folder / "out" / "ledger.json").read_text())
        return told


@pytest.fixture
def case(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Case:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, "nets", raising=False)
    return Case(tmp_path, capsys)


def gradients(out: str) -> int:
    [count] = re.findall(r"points sent to the surrogate +│ +(\d+) in \d+\.\d s", out)
    return int(count)


def test_it_is_named_in_the_ledger_and_counted_in_the_summary(case: Case) -> None:
    code, out, err = case.run("--surrogate", TRANSFORMER)
    assert code == 0, err
    assert gradients(out) >= 3  # one at the start of each image
    settings = case.ledger()["settings"]
    assert settings["attack"] == "frugal+surrogate"
    digest = tb.Surrogate(stand_ins.vit_7()).digest
    assert settings["surrogate"] == {
        "source": [TRANSFORMER],
        "mean": None,
        "std": None,
        "size": None,
        "labels": None,
        "digest": digest,
    }
    assert f"surrogate=Surrogate('{digest}', mean=None, std=None)" in settings["attack_parts"]


def test_the_results_are_those_of_the_api(case: Case) -> None:
    options = ("--surrogate", "nets:small", "--surrogate-mean", "-0.5", "--surrogate-std", "0.25")
    code, _, err = case.run("--surrogate", TRANSFORMER, *options)
    assert code == 0, err
    told = case.ledger()
    assert told["settings"]["surrogate"]["source"] == [TRANSFORMER, "nets:small"]
    scope: dict[str, Any] = {}
    exec(NETS, scope)
    surrogate = tb.Surrogate([stand_ins.vit_7(), scope["small"]()], mean=-0.5, std=0.25)
    assert told["settings"]["surrogate"]["digest"] == surrogate.digest
    model, images, labels, _ = tb.models.embedded()
    attack = tb.preset("frugal+surrogate", surrogate=surrogate)
    images = (images[:3] * 255).round() / 255
    same = tb.run(attack, model, images, labels[:3], prices=tb.Prices(2, 1), budget=150)
    with np.load("out/adversarial.npz") as stored:
        assert stored["distance"].tolist() == [r.distance for r in same]


def test_without_one_the_summary_and_the_ledger_say_nothing(case: Case) -> None:
    code, out, err = case.run(attack="frugal")
    assert code == 0, err
    assert "surrogate" not in out
    assert case.ledger()["settings"]["surrogate"] is None


def test_a_killed_attack_goes_on_with_the_same_and_with_no_other(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Store.save

    def save(store: Store, *given: Any) -> None:
        original(store, *given)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Store, "save", save)
        with pytest.raises(Killed):
            case.run("--surrogate", "nets:small", "--surrogate-labels", "own")
    (case.folder / "nets.py").write_text(NETS.replace("manual_seed(0)", "manual_seed(1)"))
    del sys.modules["nets"]
    code, out, err = case.typed("resume", "out")
    assert (code, out) == (2, "")
    assert (
        "the weights of the surrogate of the attack 'frugal+surrogate' (nets:small) changed" in err
    )
    (case.folder / "nets.py").write_text(NETS)
    del sys.modules["nets"]
    code, out, err = case.typed("resume", "out")
    assert code == 0, err
    assert gradients(out) > 0
    assert len(case.ledger()["images"]) == 3


@pytest.mark.parametrize(
    ("attack", "options", "told"),
    [
        ("frugal+surrogate", "", "--surrogate is missing, and the preset 'frugal+surrogate' ne"),
        ("frugal", "--surrogate nets:small", "--surrogate is given, and the preset 'frugal' takes"),
        ("frugal", "--surrogate-std 2", "--surrogate-std is given, and --surrogate is not"),
        (
            "frugal+surrogate",
            "--surrogate nets:small --surrogate-size 8 --surrogate-size 9",
            "--surrogate-size has 2 entries for 1 network: expected one for all networks, or one",
        ),
        (
            "frugal+surrogate",
            "--surrogate nets:small --surrogate-size 0",
            "--surrogate-size is (0, 0): expected a length from 1 to 4096, or height and width",
        ),
        (
            "frugal+surrogate",
            "--surrogate nets:small --surrogate-size big",
            "--surrogate-size is 'big': expected a whole number, or a height and a width",
        ),
        (
            "frugal+surrogate",
            "--surrogate nets:small --surrogate-labels mine",
            "--surrogate-labels is 'mine': expected \"own\", or none",
        ),
        ("frugal", "--surrogate-size 8", "--surrogate-size is given, and --surrogate is not"),
        (
            "frugal+surrogate",
            "--surrogate nets:colour",
            "--surrogate cannot be differentiated at an image of shape (1, 28, 28) (RuntimeError",
        ),
        (
            "frugal+surrogate",
            "--surrogate nets:brightness",
            "--surrogate nets:brightness is a function of images: expected a network that can be",
        ),
        ("frugal+surrogate", "--surrogate no.pt2", "--surrogate no.pt2 does not exist: expected"),
        ("frugal+surrogate", "--surrogate nowhere:net", "--surrogate is 'nowhere:net': No module"),
        (
            "frugal+surrogate",
            "--surrogate nets:small --surrogate-mean 1,2",
            "--surrogate-mean has 2 numbers, but the images have 1 channels",
        ),
        (
            "frugal+surrogate",
            "--surrogate nets:small --surrogate-std 0",
            "--surrogate-std is 0: expected finite numbers above 0",
        ),
        (
            "frugal+surrogate",
            "--surrogate nets:small --surrogate-std x",
            "--surrogate-std is 'x': expected a number, or numbers separated by commas",
        ),
    ],
)
def test_mistakes_are_one_sentence_and_nothing_is_written(
    case: Case, attack: str, options: str, told: str
) -> None:
    before = sorted(case.folder.rglob("*"))
    code, out, err = case.run(*options.split(), attack=attack)
    assert (code, out) == (2, "")
    assert told in err
    assert err.count("\n") == 1
    assert sorted(case.folder.rglob("*")) == before


def test_other_classes_at_another_size_are_noted(case: Case) -> None:
    """1,000 classes at 64 x 64, and ten of the same meaning, beside a model of ten at 28 x 28."""
    sources = ("--surrogate", "nets:large", "--surrogate", "nets:small")
    options = (*sources, "--surrogate-size", "64", "--surrogate-size", "28", "--workers", "1")
    code, out, err = case.run(*options)
    assert code == 0, err
    note = "the surrogate nets:large of the attack 'frugal+surrogate' has other classes (1000), and"
    assert f"Note: {note} is attacked on its own prediction" in " ".join(err.split())
    assert "nets:small of" not in err
    assert gradients(out) > 0
    settings = case.ledger()["settings"]
    assert settings["surrogate"]["size"] == [[64, 64], [28, 28]]
    assert settings["surrogate"]["labels"] is None
    assert any(note in each for each in settings["warnings"])
    assert "surrogate_size" not in settings
    scope: dict[str, Any] = {"__name__": "nets"}
    exec(NETS, scope)
    surrogate = tb.Surrogate([scope["large"], scope["small"]()], size=[(64, 64), (28, 28)])
    assert settings["surrogate"]["digest"] == surrogate.digest
    shipped = tb.models.embedded()
    found = tb.run(
        tb.preset("frugal+surrogate", surrogate=surrogate),
        tb.models.load("tollbox.models.stand_ins:convolutional"),
        (shipped.images[:3] * 255).round() / 255,
        shipped.labels[:3],
        prices=tb.Prices(2, 1),
        budget=150,
    )
    with np.load("out/adversarial.npz") as stored:
        assert stored["distance"].tolist() == [r.distance for r in found]


def test_labels_of_its_own_are_noted(case: Case) -> None:
    code, _, err = case.run("--surrogate", "nets:small", "--surrogate-labels", "own")
    assert code == 0, err
    assert "nets:small of the attack 'frugal+surrogate' has labels of its own, and" in err
    assert case.ledger()["settings"]["surrogate"]["labels"] == "own"


def test_an_audit_has_the_informed_attacker_too(case: Case) -> None:
    """Stopped at once and resumed; the report names the surrogate."""
    typed = (
        *("audit", "--model", "tollbox.models.stand_ins:convolutional", "--images", "set.npz"),
        *("--limit", "1", "--budget", "100", "--device", "cpu", "--out", "out"),
        *("--surrogate", "nets:large", "--surrogate-size", "64"),
    )
    code, _, err = case.typed(*typed, "--time", "0.01s")
    assert code == 3, err
    code, _, err = case.typed("resume", "out")
    assert code == 0, err
    told = json.loads((case.folder / "out" / "audit.json").read_text())
    attacks = ["frugal", "frugal+surrogate", "surfree-original", "hsja+as", "stealthy-hsja"]
    assert told["suite"]["attacks"] == attacks
    assert told["left_out"] == []
    assert {row["attack"] for row in told["runs"]} == set(attacks)
    assert "The attacker of frugal+surrogate has the surrogate nets:large." in told["notes"]
    assert any("nets:large" in note and "on its own prediction" in note for note in told["notes"])
    code, _, err = case.typed(*typed)
    assert code == 0, err
    code, _, err = case.typed(*typed[:-1], "32")
    assert (code, "out has another study" in err) == (2, True)
    code, _, err = case.typed("audit", "--out", "out", "--surrogate", "nets:large")
    assert (code, "--surrogate is given, and --model is not" in err) == (2, True)
