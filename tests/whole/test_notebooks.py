"""The notebooks of `examples/` run from their first cell to the last, and have no outputs kept."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
RUNNER = ROOT / "docs" / "site" / "run_notebook.py"
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def run(notebook: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run it in a fresh process, which stands in a folder of its own."""
    return subprocess.run(
        [sys.executable, RUNNER, notebook],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def written(folder: Path, *sources: str) -> Path:
    """A notebook of code cells."""
    cells = [{"cell_type": "code", "source": [source]} for source in sources]
    file = folder / "some.ipynb"
    file.write_text(json.dumps({"cells": cells}))
    return file


def codes(notebook: dict[str, Any]) -> list[str]:
    return ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]


def test_all_are_there() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["first_attack", "own_part", "reading_results"]
    pages = {path.stem for path in (ROOT / "docs" / "notebooks").glob("*.md")}
    assert pages == {path.stem for path in NOTEBOOKS}


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(notebook: Path, tmp_path: Path) -> None:
    before = notebook.read_bytes()
    done = run(notebook, tmp_path)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert len(shown) == len(codes(json.loads(before)))
    assert sum(bool(cell["text"]) for cell in shown) >= 3
    assert notebook.read_bytes() == before


def test_a_part_of_ones_own_keeps_the_rules(tmp_path: Path) -> None:
    shown = json.loads(run(ROOT / "examples" / "own_part.ipynb", tmp_path).stdout)
    checked = next(cell["text"] for cell in shown if "optimum" in cell["text"]).splitlines()
    assert len(checked) == 6
    assert all(line.endswith(", []") for line in checked), checked
    assert any("not sent" in cell["text"] for cell in shown)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_one_that_jupyter_opens(notebook: Path) -> None:
    content = json.loads(notebook.read_text(encoding="utf-8"))
    assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in content["cells"]}) == len(content["cells"])
    assert content["cells"][0]["source"][0].startswith("# ")
    for cell in content["cells"]:
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
    for source in codes(content):
        ast.parse(source)  # no magic commands: plain Python runs it


def test_a_cell_that_fails_is_found(tmp_path: Path) -> None:
    done = run(written(tmp_path, "a = 1", "a + b"), tmp_path)
    assert done.returncode == 1
    assert 'File "cell 2", line 1' in done.stderr


def test_what_a_cell_shows(tmp_path: Path) -> None:
    done = run(written(tmp_path, "print('one')\n1 + 1", "x = 3", "x", "None"), tmp_path)
    assert [c["text"] for c in json.loads(done.stdout)] == ["one\n2\n", "", "3\n", ""]
