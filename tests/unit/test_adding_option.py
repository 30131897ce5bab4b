"""Adding a limit, in a copy of the package: `EDITS` is all that it takes, in at most six files.

The new limit, `max_other`, is the maximum number of answers that are not flagged. It works in
Python, in study files and on the command line, and results, stores and reports carry it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

import tollbox as tb

SOURCE = Path(tb.__file__).parent
MOST_FILES = 6
EDITS = {
    "core/limits.py": [
        (
            "    def __post_init__",
            "    max_other: float = math.inf\n"
            '    """Maximum number of other answers."""\n\n'
            "    def __post_init__",
        ),
        ("max_flagged=CAP)", "max_flagged=CAP, max_other=CAP)"),
    ],
    "core/stop.py": [
        ('    ALARM = "alarm"\n', '    ALARM = "alarm"\n    MAX_OTHER = "max_other"\n'),
        (
            "    Stop.ALARM:",
            '    Stop.MAX_OTHER: "The limit on other answers was reached.",\n    Stop.ALARM:',
        ),
    ],
    "core/ledger.py": [
        (
            "        if self.alarms + rows > self.max_alarms:\n",
            "        if self.queries - self.flagged + rows > limits.max_other:\n"
            "            return False\n"
            "        if self.alarms + rows > self.max_alarms:\n",
        ),
        (
            "            & (before.alarms <",
            "            & (before.queries - before.flagged < limits.max_other)\n"
            "            & (before.alarms <",
        ),
        (
            "        if self.queries >= limits.max_queries:\n",
            "        if self.queries - self.flagged >= limits.max_other:\n"
            "            return Stop.MAX_OTHER\n"
            "        if self.queries >= limits.max_queries:\n",
        ),
    ],
    "engine/pending.py": [
        (
            "            if metered:\n                worst",
            "            if metered and known_other + ahead + rows > limits.max_other:\n"
            "                return False\n"
            "            if metered:\n                worst",
        ),
        (
            "            known_cost = ",
            "            known = state.labels[: state.known]\n"
            "            known_other += int((~self._problem.goal.is_flagged(known)).sum())\n"
            "            known_cost = ",
        ),
        (
            "        self._limits = []\n\n",
            "        self._limits, known_other = [], ledger.queries - ledger.flagged\n\n",
        ),
        ("min(max_flagged, max_alarms)", "min(max_flagged, max_alarms, limits.max_other)"),
    ],
    "studies/schema.py": [
        (
            'LIMITS = ("budget", "max_queries", "max_flagged")',
            'MAX_OTHER = key(cap("50"), "Maximum number of other answers.", math.inf)\n'
            'LIMITS = ("budget", "max_queries", "max_flagged", "max_other")',
        ),
        (
            "    max_flagged: float = MAX_FLAGGED\n",
            "    max_flagged: float = MAX_FLAGGED\n    max_other: float = MAX_OTHER\n",
        ),
    ],
    "cli/attack.py": [
        (
            "    detector: Annotated[",
            '    max_other: Annotated[int | None, option("study", "max_other")] = None\n'
            "    detector: Annotated[",
        ),
    ],
}
STUDY = """\
budget = 2000
max_other = 7
prices = [10]
device = "cpu"
images = {path = "images.npz"}

[[models]]
source = "net:bright"

[[attacks]]
preset = "a-hsja"
"""
NET = """
def bright(images):
    return (images.mean((1, 2, 3)) > 0.5).long()
"""
USE = """
import csv, torch
import tollbox as tb
from net import bright
from tollbox.cli.app import main

assert tb.__file__.startswith({root!r}), tb.__file__
images, labels = torch.full((2, 1, 4, 4), 0.3), [0, 0]
for metered in (False, True):
    rows = []

    def model(batch):
        rows.append(len(batch))
        return bright(batch)

    limits = tb.Limits(budget=2000, max_other=7)
    execution = tb.Execution(metered=metered)
    results = tb.run("a-hsja", model, images, labels, limits=limits, execution=execution)
    for result in results:
        assert result.stop == "max_other", result
        assert result.ledger.queries - result.ledger.flagged == 7, result
    charged = sum(result.ledger.queries for result in results)
    assert not metered or sum(rows) <= charged + 1, (rows, charged)  # one image when it is loaded
study = tb.Study.from_toml("study.toml")
with tb.run_study(study, "out") as found:
    [result, _] = found.results()
    assert result.limits.max_other == 7 and result.stop == "max_other", result
words = "attack --model net:bright --images images.npz --budget 2000 --max-other 7 --out attacked"
assert main(words.split()) == 0
with open("attacked/results.csv") as file:
    assert [row["stop"] for row in csv.DictReader(file)] == ["max_other"] * 2
"""


def test_a_limit_takes_six_files(tmp_path: Path) -> None:
    root = tmp_path / "src" / "tollbox"
    shutil.copytree(SOURCE, root, ignore=shutil.ignore_patterns("__pycache__"))
    for file, edits in EDITS.items():
        text = (root / file).read_text()
        for old, new in edits:
            assert old in text, (file, old)
            text = text.replace(old, new)
        (root / file).write_text(text)
    assert len(EDITS) <= MOST_FILES
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "net.py").write_text(NET)
    np.savez(tmp_path / "images.npz", images=np.full((2, 1, 4, 4), 0.3, "f4"), labels=[0, 0])
    path = os.pathsep.join([str(root.parent), str(tmp_path)])
    done = subprocess.run(
        [sys.executable, "-c", USE.format(root=str(root))],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
