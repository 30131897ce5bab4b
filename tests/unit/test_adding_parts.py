"""Adding a search, a prior or an attack: one file, and one line that registers it."""

from __future__ import annotations

import dataclasses
import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import tollbox as tb
from tollbox import testing
from tollbox.attacks.preset_settings import ATTACKS
from tollbox.attacks.presets import PRESETS
from tollbox.parts import registry
from tollbox.studies.study import Study

SEARCH = '''
from dataclasses import dataclass
import torch
from tollbox.core.ask import Ask, Iterate, Until
from tollbox.parts.registry import register
from tollbox.parts.searches import Search

@register(Search)
@dataclass(frozen=True)
class TenSteps:
    """Ten equal steps towards the source, up to the first that is flagged."""
    steps: int = 10

    def __call__(self, problem, path, scale=1.0):
        points = torch.stack([path(k / self.steps) for k in range(1, self.steps)])
        answers = yield Ask(points, until=Until.NOT_ADVERSARIAL, phase="search")
        passed = int(answers.adversarial.sum())
        if not passed:
            return path.start
        return Iterate(points[passed - 1], float(answers.distances[passed - 1]))
'''
PRIOR = '''
from dataclasses import dataclass
import torch
from tollbox.parts.registry import register
from tollbox.parts.subspaces import Drawing, Prior

@register(Prior)
@dataclass(frozen=True)
class Stripes:
    """Directions that are alike along every row of the image."""
    def dimension(self, image):
        return image[0] * image[1]

    def begin(self, problem):
        image = tuple(problem.source.shape)

        def make(rows, length):
            planes = rows.expand(-1, *image)
            return planes / torch.linalg.vector_norm(planes, dim=(1, 2, 3), keepdim=True) * length

        return Drawing((*image[:2], 1), make)
'''
ATTACK = '''
from dataclasses import dataclass
import torch
from tollbox.attack import Ask, Stop, Until

@dataclass(frozen=True)
class Brighten:
    """Ever brighter images until one is adversarial."""
    steps: int = 50
    rows: int = 50

    def __call__(self, problem):
        source = problem.source
        levels = torch.linspace(0, 1, self.steps, dtype=source.dtype)
        points = torch.lerp(source, torch.ones_like(source), levels.view(-1, 1, 1, 1))
        answers = yield Ask(points, until=Until.ADVERSARIAL, phase="brighten")
        if not answers.adversarial[-1]:
            return Stop.NO_START
        problem.accept(points[len(answers) - 1])
        return Stop.CONVERGED
'''
STUDY = """\
prices = [1]
budget = 10
[images]
path = "set.npz"
[[models]]
source = "a:b"
[[attacks]]
"""


@pytest.fixture
def add(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a new file, and leaves the registry and the presets as they were."""
    monkeypatch.syspath_prepend(tmp_path)
    before = dict(registry.PARTS)

    def imported(name: str, text: str) -> ModuleType:
        (tmp_path / f"{name}.py").write_text(text)
        return importlib.import_module(name)

    yield imported
    registry.PARTS.clear()
    registry.PARTS.update(before)
    for name in ("added_search", "added_prior", "added_attack"):
        sys.modules.pop(name, None)


def built(*lines: str) -> Any:
    """The attack of a study with these lines."""
    text = STUDY + "\n".join(lines)
    [spec] = Study.from_text(text, Path(), "study.toml", files=False).attacks
    return spec.attack


def reached(attack: Any) -> tb.Result:
    boundary = testing.half_space(shape=(3, 8, 8))
    result, faults = testing.check_attack(attack, boundary, tb.Prices(2, 1), budget=4000)
    assert not faults
    return result


def test_a_search_is_a_file_and_a_line(add: Any) -> None:
    part = add("added_search", SEARCH).TenSteps
    attack = built('preset = "hsja"', 'search.part = "TenSteps"', "search.steps = 5")
    assert attack.search == part(steps=5)
    assert reached(attack).ledger.by_phase["search"] > 0


def test_a_prior_is_a_file_and_a_line(add: Any) -> None:
    part = add("added_prior", PRIOR).Stripes
    attack = built('preset = "frugal"', 'prior.part = "Stripes"')
    assert attack.prior == part()
    assert reached(attack).ledger.by_phase["estimate"] > 0
    assert (
        built('preset = "cgba"', 'estimate.subspace.part = "Stripes"').estimate.subspace == part()
    )


def test_an_attack_is_a_file_and_two_lines(add: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    attack = add("added_attack", ATTACK).Brighten()
    like = PRESETS["hsja"]
    monkeypatch.setitem(PRESETS, "brighten", dataclasses.replace(like, name="brighten"))
    monkeypatch.setitem(ATTACKS, "brighten", attack)
    assert built('preset = "brighten"', "steps = 20") == dataclasses.replace(attack, steps=20)
    assert reached(tb.preset("brighten")).ledger.by_phase["brighten"] > 0


def test_two_parts_of_a_kind_have_two_names(add: Any) -> None:
    add("added_search", SEARCH)
    with pytest.raises(ValueError, match="two parts of the kind Search called TenSteps"):
        add("added_prior", SEARCH)
