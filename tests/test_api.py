"""The public face: what is exported, what the core imports, and the example of the README."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import torch

import tollbox as tb

ROOT = Path(__file__).parents[1]


def test_everything_exported_is_there_and_documented():
    for name in tb.__all__:
        assert hasattr(tb, name)
        assert getattr(tb, name).__doc__, name
    public = {
        name
        for name, value in vars(tb).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith("tollbox.")
    }
    assert public <= set(tb.__all__)


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
    assert ledger.cost == 100 * ledger.source + ledger.other <= 5_000
    assert ledger.queries == ledger.source + ledger.other
    assert sum(ledger.by_phase.values()) == ledger.cost
    step = first.trace[-1]
    assert step.iteration == len(first.trace)
    assert step.cost == 100 * step.source + step.other == sum(step.by_phase.values())
    assert first.distance <= step.distance
    assert first.distance_at(5_000) == first.distance
    assert first.distance_at(1_000, by="source") == first.distance_at(10**6, by="queries")
    assert results.median_at(5_000) > 0
    assert "a-hsja" in tb.presets()


def test_the_python_of_the_readme_runs():
    text = (ROOT / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {"torch": torch})


def test_versions_agree():
    assert f"## {tb.__version__}" in (ROOT / "CHANGELOG.md").read_text()
    assert f"version: {tb.__version__}" in (ROOT / "CITATION.cff").read_text()


def test_the_example_runs_and_keeps_the_rules():
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "own_attack.py"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    assert all(line.endswith(", []") for line in lines), lines
