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
            case.run("--surrogate", "nets:small")
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
        ("frugal+surrogate", "--surrogate nets:seven", "--surrogate has 7 classes, and the model "),
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
