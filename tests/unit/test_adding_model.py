"""Adding a kind of model: one file and one line, in a copy of the package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SOURCE = Path(__file__).parents[2] / "src" / "tollbox"

ADAPTER = '''
"""Models that say whether an image is brighter than a level: `brighter:0.4`."""

from .network import Network, Source


def load(source: Source) -> Network:
    level = float(source.name)
    return Network(source, lambda images: (images.mean((1, 2, 3)) > level).long())
'''
LINE = '    "brighter": Prefix("brighter:load"),\n'

STUDY = """\
budget = 60
prices = [10]
device = "cpu"
images = {path = "images.npz"}

[[models]]
source = "brighter:0.4"

[[attacks]]
preset = "a-hsja"
"""

USE = """
import torch
import tollbox as tb
from tollbox.models.loading import load_model

assert tb.__file__.startswith({root!r}), tb.__file__
model = load_model("brighter:0.4", torch.zeros(1, 4, 4))
assert model(torch.tensor([0.3, 0.5]).view(2, 1, 1, 1).expand(2, 1, 4, 4)).tolist() == [0, 1]
try:
    load_model("nowhere", torch.zeros(1, 4, 4))
except tb.errors.FileError as error:
    assert "or brighter:NAME" in str(error), error
"""
RUN = ["-m", "tollbox", "run", "study.toml", "--out", "out"]
READ = """
import tollbox as tb

with tb.studies.StudyResults("out") as results:
    assert len(results) == 1
"""


@pytest.mark.slow
def test_adding_a_model_is_one_file_and_one_line(tmp_path: Path) -> None:
    package = tmp_path / "source" / "tollbox"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "models" / "brighter.py").write_text(ADAPTER)
    registry = package / "models" / "registry.py"
    text = registry.read_text()
    assert text.count('    "onnx": ') == 1
    registry.write_text(text.replace('    "onnx": ', LINE + '    "onnx": '))
    np.savez(tmp_path / "images.npz", images=np.full((1, 1, 4, 4), 0.3), labels=[0])
    (tmp_path / "study.toml").write_text(STUDY)
    for command in (["-c", USE.format(root=str(tmp_path))], RUN, ["-c", READ]):
        done = subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(package.parent)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0
