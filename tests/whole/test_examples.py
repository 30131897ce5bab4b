"""Each example runs as its first lines say, in a few seconds, and shows what it is for."""

from __future__ import annotations

import ast
import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, folder: Path) -> list[str]:
    """The lines that an example prints, run in a folder of its own."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / name],
        cwd=folder,
        env=os.environ | {"COLUMNS": "200", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_own_attack_keeps_the_rules(tmp_path: Path) -> None:
    lines = run("own_attack.py", tmp_path)
    assert len(lines) == 2
    assert all(line.endswith(", []") for line in lines), lines


def test_class_prices_are_charged_by_class(tmp_path: Path) -> None:
    lines = run("class_prices.py", tmp_path)
    assert len(lines) == 3
    for line in lines:
        found = re.fullmatch(r"image \d: l2 (\S+) at a cost of (\S+): (\{.*\})", line)
        assert found is not None, line
        account = ast.literal_eval(found[3])
        prices = {"Coat": 20, "Shirt": 50}
        assert sum(prices.get(name, 1) * n for name, n in account.items()) == float(found[2])
        assert account["Coat"] > 0
        assert 0 < float(found[1]) < 10
        assert float(found[2]) <= 3000


@pytest.mark.slow
def test_the_metered_service_bills_what_is_charged(tmp_path: Path) -> None:
    *_, last = run("metered_service.py", tmp_path)
    found = re.fullmatch(r"billed (\d+) = charged (\d+) \+ 1 when the model was loaded", last)
    assert found is not None, last
    assert int(found[1]) == int(found[2]) + 1 > 100
    with open(tmp_path / "metered-output" / "results.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3
    assert all(float(row["cost"]) <= 600 for row in rows)
    bill = [int(line) for line in (tmp_path / "bill.csv").read_text().split()]
    flagged = sum(int(row["flagged"]) for row in rows)
    assert flagged <= sum(label in {int(row["label"]) for row in rows} for label in bill)


def test_every_example_says_how_it_is_run() -> None:
    scripts = sorted(EXAMPLES.rglob("*.py"))
    assert len(scripts) >= 5
    for script in scripts:
        told = ast.get_docstring(ast.parse(script.read_text())) or ""
        assert f"python examples/{script.name}" in told or "tollbox run study.toml" in told, script
