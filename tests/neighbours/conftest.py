"""Other packages beside tollbox: `make test-neighbours` installs them, in `build/neighbours`.

1. torchvision is built for CUDA, and cannot be imported beside a CPU build of torch unless two of
   its operators are declared; `shim` does that, here and in processes that tests begin.
2. Nothing is fetched: what is not there is missing at once.
3. Warnings of other packages are theirs.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

SHIM = Path(__file__).parent / "shim"
if getattr(sys.modules.get("sitecustomize"), "__file__", None) != str(SHIM / "sitecustomize.py"):
    # A worker of pytest-xdist has it by its PYTHONPATH, and operators are declared once.
    _spec = importlib.util.spec_from_file_location("torchvision_shim", SHIM / "sitecustomize.py")
    assert _spec is not None
    assert _spec.loader is not None
    sys.modules[_spec.name] = importlib.util.module_from_spec(_spec)  # what it declares lives there
    _spec.loader.exec_module(sys.modules[_spec.name])
os.environ["PYTHONPATH"] = os.pathsep.join([str(SHIM), os.environ.get("PYTHONPATH", "")])
os.environ["HF_HUB_OFFLINE"] = "1"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(pytest.mark.filterwarnings("default"))


@pytest.fixture
def pictures() -> np.ndarray:
    """Eight pictures, (8, 32, 32, 3), of 8 bits: smooth, and each of another colour."""
    generator = np.random.default_rng(0)
    coarse = generator.integers(0, 256, (8, 4, 4, 3)).repeat(8, 1).repeat(8, 2)
    return (coarse // 2 + generator.integers(0, 128, (8, 32, 32, 3))).astype(np.uint8)


@pytest.fixture
def images(pictures: np.ndarray) -> torch.Tensor:
    """The same in [0,1], (8, 3, 32, 32)."""
    return torch.from_numpy(pictures).permute(0, 3, 1, 2).float() / 255


@pytest.fixture
def data() -> Path:
    """The folder of real models and images, if there is one."""
    beside = Path(__file__).parents[3] / "shared" / "data"
    folder = Path(os.environ.get("TOLLBOX_DATA", beside))
    if not (folder / "models" / "vit-cifar10").is_dir():
        pytest.skip(f"{folder} has no models/vit-cifar10: set TOLLBOX_DATA")
    return folder


Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def tollbox(tmp_path: Path) -> Command:
    """Runs a command as a user types it, in a folder of its own."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tollbox", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    return run
