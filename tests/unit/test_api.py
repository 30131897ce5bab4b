"""The public face: what is exported, what the core imports, and the example of the README."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import tollbox as tb

ROOT = Path(__file__).parents[2]


NAMES = {
    *("run", "stream", "preset", "presets", "Prices", "Goal", "Limits", "Detection", "Execution"),
    *("Result", "Results", "Ledger", "Stop", "Study", "run_study", "audit", "load_images"),
    "Surrogate",
}
MODULES = {
    *("attack", "attacks", "data", "detection", "errors", "interop", "models", "studies"),
    *("testing", "workers"),
}


def test_the_exported_names_are_these_and_documented():
    assert set(tb.__all__) == NAMES | MODULES
    for name in tb.__all__:
        assert getattr(tb, name).__doc__, name
    with pytest.raises(AttributeError, match="module 'tollbox' has no attribute 'Cell'"):
        tb.Cell  # noqa: B018


@pytest.mark.parametrize("package", [tb, tb.studies, tb.data])
def test_type_checkers_see_the_names_that_are_imported_on_first_use(package):
    """The table of a package, and its imports for type checkers, are the same."""
    tree = ast.parse(Path(package.__file__).read_text())
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            assert alias.asname == alias.name
            seen[alias.name] = node.module or ""
    assert seen == package._WHERE


def test_tb_attacks_has_every_attack_class():
    for preset in (*tb.attacks.PRESETS.values(), *tb.attacks.WITH_SURROGATE.values()):
        kind = type(preset.attack)
        assert getattr(tb.attacks, kind.__name__) is kind


@pytest.mark.slow
def test_the_core_imports_torch_numpy_and_scipy_only():
    code = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"cyclopts", "rich", "matplotlib", "PIL", "safetensors", "pandas"}:
            raise ImportError(f"the core imports {name}")
sys.meta_path.insert(0, Refuse())
import torch, tollbox as tb, tollbox.testing, tollbox.theory
b = tollbox.testing.half_space(0.3, (1, 4, 4))
[r] = tb.run(tb.preset("a-hsja"), b.model(), b.source[None], [0], budget=300)
print(r.stop)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "budget"), done.stderr


def test_the_face_that_was_promised():
    embedded = tb.models.embedded()
    results = tb.run(
        tb.preset("a-hsja"),
        embedded.model,
        embedded.images[:3],
        embedded.labels[:3],
        prices=tb.Prices(source=100, other=1),
        budget=5_000,
        seed=0,
    )
    first = results[0]
    assert first.stop in tb.Stop
    assert first.distance > 0
    assert first.adversarial.shape == (1, 28, 28)
    ledger = first.ledger
    assert ledger.cost == 100 * ledger.flagged + ledger.other <= 5_000
    assert ledger.queries == ledger.flagged + ledger.other
    assert sum(ledger.by_phase.values()) == ledger.cost
    step = first.trace[-1]
    assert step.iteration == len(first.trace)
    assert step.cost == 100 * step.source + step.other == sum(step.by_phase.values())
    assert first.distance <= step.distance
    assert first.distance_at(5_000) == first.distance
    assert first.distance_at(1_000, by="source") == first.distance_at(10**6, by="queries")
    assert results.median_at(5_000) > 0
    assert "a-hsja" in tb.presets()


def targeted(count=3):
    """Images with other classes to reach, and an image of each of these classes."""
    ours = tb.models.embedded()
    right = ours.model(ours.images).cpu() == ours.labels
    images, labels = ours.images[right], ours.labels[right]
    targets = [(int(label) + 3) % 10 for label in labels[:count]]
    starts = torch.stack([images[labels == target][0] for target in targets])
    return ours.model, images[:count], labels[:count].tolist(), targets, starts


def test_a_targeted_run_ends_in_its_classes():
    model, images, labels, targets, starts = targeted()
    results = tb.run(
        tb.preset("a-hsja"), model, images, labels, targets=targets, starts=starts, budget=400
    )
    points = torch.stack([r.adversarial for r in results])
    assert model(points).tolist() == targets
    for result, image, start in zip(results, images, starts, strict=True):
        assert result.stop is tb.Stop.BUDGET
        assert 0 < result.distance < torch.linalg.vector_norm(start - image)
        assert result.ledger.by_phase["start"] == 1
    cells = [
        tb.attack.Cell(
            tb.preset("a-hsja"), image, label, limits=tb.Limits(400), target=target, start=start
        )
        for image, label, target, start in zip(images, labels, targets, starts, strict=True)
    ]
    assert [r.distance for r in tb.attack.run_cells(cells, model)] == [r.distance for r in results]


def test_one_target_and_one_start_for_all():
    model, images, labels, targets, starts = targeted(2)
    few = {"budget": 100, "starts": starts[0]}
    target, other = targets[0], [label for label in labels if label != targets[0]]
    chosen = [image for image, label in zip(images, labels, strict=True) if label != target]
    for given in (target, torch.tensor(target), np.int64(target), [target] * len(chosen)):
        results = tb.run(tb.preset("hsja"), model, chosen, other, targets=given, **few)
        assert {int(model(r.adversarial[None])[0]) for r in results} == {target}
    [result] = tb.run(tb.preset("hsja"), model, chosen[:1], other[:1], **few)  # any other class
    assert result.ledger.by_phase["start"] == 1


def test_a_start_of_another_class_is_no_start():
    model, images, labels, targets, starts = targeted(1)
    wrong = (targets[0] + 1) % 10 if (targets[0] + 1) % 10 != labels[0] else (targets[0] + 2) % 10
    [result] = tb.run(
        tb.preset("hsja"), model, images, labels, targets=wrong, starts=starts, budget=100
    )
    assert (result.stop, result.ledger.queries) == (tb.Stop.NO_START, 2)


def test_a_stream_takes_targets_and_starts_as_they_come():
    model, images, labels, targets, starts = targeted()
    taken = []

    def pictures():
        for index in range(30):
            taken.append(index)
            yield starts[index % 3]

    results = tb.stream(
        tb.preset("hsja"),
        model,
        (images[i % 3] for i in range(30)),
        (labels[i % 3] for i in range(30)),
        targets=(targets[i % 3] for i in range(30)),
        starts=pictures(),
        budget=30,
        execution=tb.Execution(live=3),
    )
    assert taken == []
    first = next(results)
    assert len(taken) <= 6
    assert int(model(first.adversarial[None])[0]) == targets[first.index % 3]
    results.close()
    short = tb.stream(
        tb.preset("hsja"),
        model,
        images,
        labels,
        targets=iter(targets[:2]),
        starts=starts,
        budget=30,
    )
    assert sorted(next(short).index for _ in range(2)) == [0, 1]
    with pytest.raises(tb.errors.InputError, match="got 2 targets but more images"):
        next(short)


def test_the_python_of_the_readme_runs():
    text = (ROOT / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    own = [block for block in blocks if '"hf:' not in block]  # that is one of the neighbours
    assert own
    for block in own:
        exec(compile(block, "README.md", "exec"), {"torch": torch})


def test_versions_agree():
    assert f"## {tb.__version__}" in (ROOT / "CHANGELOG.md").read_text()
    assert f"version: {tb.__version__}" in (ROOT / "CITATION.cff").read_text()


def test_status_does_not_wait_for_torch():
    code = """
import sys
import tollbox.cli.status, tollbox.studies.status, tollbox.cli
sys.exit("torch" in sys.modules or "scipy" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_names_that_are_not_there_are_told():
    with pytest.raises(AttributeError, match="no attribute 'rnu'"):
        tb.rnu  # noqa: B018
    assert set(tb.__all__) <= set(dir(tb))
